"""Write the defaults of the families, and the counts that their readers are held to.

Run it with the extra ``train``: ``python -m tests.unit.catalogue.make_counted``. Counts are of the
modules that transformers builds on its meta device, of two configurations of each class: as the
class has it, written in full, and another, written as a published config.json is: without what
equals the class's own values. Of the current families there are small ones besides (``varied``).
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from pathlib import Path
from typing import Any, Final

from registry.catalogue.counting import SHARED_COUNTS
from registry.catalogue.decoders import DECODERS, Decoder
from registry.catalogue.encoders import OTHERS
from registry.catalogue.hf_config import SPELLINGS
from registry.catalogue.linear import LINEAR
from registry.catalogue.meta_model import build_on_meta, count_modules
from registry.catalogue.towers import SOUND_TYPES, TEXT_TYPES, TOWER_TYPES, TOWERS
from tests.unit.catalogue.varied import VARIED

CATALOGUE: Final = Path(__file__).parents[3] / "registry" / "catalogue"
DEFAULTS: Final = CATALOGUE / "family_defaults.json"
COUNTED: Final = Path(__file__).parents[2] / "fixtures" / "catalogue" / "counted.json"
PARTS: Final = (
    *("text_config", "vision_config", "audio_config"),
    *("linear_attn_config", "attn_config", "ffn_config"),
)

#: Classes whose own values do not fit together; what makes them whole.
NEEDED: Final[dict[str, dict[str, Any]]] = {
    "nemotron": {"num_key_value_heads": 8},
    "ministral": {"head_dim": 128, "num_key_value_heads": 8},
    "dbrx": {"attn_config": {"rope_theta": 10_000.0, "kv_n_heads": 8}},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"] * 16},
    "aya_vision": {"vision_config": {"model_type": "siglip_vision_model"}},
    "gemma4": {"vision_config": {}, "audio_config": {}},
    "gemma4_unified": {"vision_config": {}, "audio_config": {}},
}

#: Decoders of a part that are models of their own too.
_ALONE: Final = frozenset({"gemma3_text", "gemma", "llama", "mistral"})

Row = dict[str, Any]


def main() -> None:
    """Write both files."""
    warnings.filterwarnings("ignore")
    from transformers import CONFIG_MAPPING  # noqa: PLC0415 - of the extra train
    from transformers.utils import logging  # noqa: PLC0415

    logging.set_verbosity_error()
    fields = collect_fields()
    kinds = [kind for kind in (*DECODERS, *OTHERS, *TOWERS) if kind in CONFIG_MAPPING]
    alone = [kind for kind in kinds if kind not in TEXT_TYPES.values() or kind in _ALONE]
    towers = {
        kind for kind in (*TOWER_TYPES.values(), *SOUND_TYPES.values()) if kind in CONFIG_MAPPING
    }
    defaults = {kind: read_defaults(kind, fields) for kind in (*kinds, *towers)}
    counted = [row for kind in sorted(alone) for row in count_class(kind, fields)]
    counted += [
        count_one(kind, change, fields, is_full=False)
        for kind, changes in VARIED.items()
        for change in changes
    ]
    write(DEFAULTS, {kind: found for kind, found in sorted(defaults.items()) if found})
    COUNTED.parent.mkdir(parents=True, exist_ok=True)
    write(COUNTED, counted)
    n_classes = len({row["model_type"] for row in counted})
    sys.stdout.write(f"{len(counted)} configurations of {n_classes} classes\n")


def write(path: Path, document: Any) -> None:
    """Write a document with an entry a line."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    path.write_text(text.replace('},"', '},\n"').replace("},{", "},\n{") + "\n", encoding="utf-8")


def collect_fields() -> set[str]:
    """Return the names of all fields that the reader asks for."""
    text = "".join(path.read_text(encoding="utf-8") for path in CATALOGUE.glob("*.py"))
    asked = set(re.findall(r'(?:get|whole)\(\s*"(\w+)"', text))
    flags = {
        value
        for decoder in (*DECODERS.values(), Decoder())
        for value in vars(decoder).values()
        if isinstance(value, str)
    }
    spelled = {name for names in SPELLINGS.values() for name in names}
    return (
        asked
        | flags
        | spelled
        | {*SHARED_COUNTS, "type_vocab_size"}
        | {"tie_word_embeddings", "hidden_act", *PARTS}
    )


def read_defaults(kind: str, fields: set[str]) -> Row:
    """Return the values that a class gives fields of itself, whatever the sizes are."""
    from transformers import CONFIG_MAPPING  # noqa: PLC0415

    own = CONFIG_MAPPING[kind]().to_dict()
    scalars = {
        name: value
        for name, stated in own.items()
        if name in fields and name != "model_type"
        if isinstance(value := one_of_many(stated), int | float | str)
    }
    computed: set[str] = set()
    sizes = [name for names in SPELLINGS.values() for name in names if is_size(own.get(name))]
    for name in sizes:
        try:
            other = CONFIG_MAPPING[kind](**{name: own[name] * 2}).to_dict()
        except Exception:  # noqa: BLE001, S112 - not every size can stand alone
            continue
        computed |= {
            each
            for each in scalars
            if each != name and one_of_many(other.get(each)) != scalars[each]
        }
    return {name: value for name, value in scalars.items() if name not in computed}


def one_of_many(value: Any) -> Any:
    """Return the size that a class writes once for each layer or side."""
    is_repeated = isinstance(value, list | tuple) and value and {*map(is_size, value)} == {True}
    return value[0] if is_repeated and {*value} == {value[0]} else value


def is_size(value: Any) -> bool:
    """Return whether a value is a size."""
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def count_class(kind: str, fields: set[str]) -> list[Row]:
    """Return the counts of two configurations of a class; those that it cannot build are said."""
    rows = []
    for change, is_full in ((NEEDED.get(kind, {}), True), (another(kind), False)):
        try:
            row = count_one(kind, change, fields, is_full=is_full)
        except Exception as error:  # noqa: BLE001 - some classes' own values do not fit together
            sys.stdout.write(f"{kind} {change}: {type(error).__name__}: {str(error)[:150]}\n")
        else:
            rows.append(row)
    return rows


def another(kind: str) -> Row:
    """Return what makes a configuration unlike the class's own: fewer layers, the other tying."""
    from transformers import CONFIG_MAPPING  # noqa: PLC0415

    own = CONFIG_MAPPING[kind](**NEEDED.get(kind, {}))
    stated = own.to_dict()
    names = [name for name in reversed(SPELLINGS["n_layers"]) if is_size(stated.get(name))]
    tied = (
        {}
        if kind in OTHERS
        else {"tie_word_embeddings": not getattr(own, "tie_word_embeddings", False)}
    )
    change: Row = {**NEEDED.get(kind, {}), **tied}
    return change if kind in ("gpt_neo", *TOWERS) else {**change, **dict.fromkeys(names[:1], 4)}


def count_one(kind: str, change: Row, fields: set[str], *, is_full: bool) -> Row:
    """Return a configuration with its count."""
    from transformers import CONFIG_MAPPING  # noqa: PLC0415

    made = CONFIG_MAPPING[kind](**change)
    config = made.to_dict() if is_full else {**made.to_diff_dict(), "model_type": kind}
    model = build_on_meta(config)
    counted = count_modules(model)
    if TEXT_TYPES.get(kind, kind) in LINEAR:
        counted["linear_widths"] = sum_widths(model)
    return {"model_type": kind, "config": keep(config, fields), **counted}


def sum_widths(model: Any) -> int:
    """Return the inputs and outputs of all linear modules of a decoder's layers together."""
    from torch.nn import Linear  # noqa: PLC0415 - of the extra train

    return sum(
        module.in_features + module.out_features
        for name, module in model.named_modules()
        if isinstance(module, Linear) and not _ELSEWHERE.search(name)
    )


#: Output layers, towers and what joins them.
_ELSEWHERE: Final = re.compile(r"lm_head|vis(ion|ual)|audio|multi_modal")


def keep(config: Row, fields: set[str]) -> Row:
    """Return a configuration without what nobody reads."""
    needed = {*fields, "model_type", "rope_theta"}  # without which DBRX cannot be built
    kept = {name: value for name, value in config.items() if name in needed}
    return kept | {part: keep(kept[part], fields) for part in PARTS if kept.get(part)}


if __name__ == "__main__":
    main()
