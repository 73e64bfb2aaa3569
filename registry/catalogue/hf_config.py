"""Read the ``config.json`` of a transformers model as a row of the table ``models``, and write one.

This is the only place that knows how the families spell their figures. A field that is not there
has the value that the family's class gives it (``family_defaults.json``), as in transformers. A
figure that is not a whole number above 0 is left out of the row: `check_hf_config` says what is
wrong.
"""

from __future__ import annotations

import json
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.counting import count_active_parameters, count_parameters
from registry.catalogue.decoders import DECODERS, has_bias
from registry.catalogue.encoders import (
    OTHERS,
    count_decoder_layers,
    has_decoder_of_its_own,
    is_encoder,
)
from registry.catalogue.linear import list_linear
from registry.catalogue.stacks import list_layers
from registry.catalogue.towers import (
    MAY_LACK_TOWERS,
    SOUND_TOWERS,
    SOUND_TYPES,
    TEXT_TYPES,
    TIED_BY_TEXT,
    TIED_INSIDE,
    TOWER_TYPES,
    TOWERS,
)
from registry.errors import excerpt

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.catalogue.decoders import Decoder, Lookup
    from registry.catalogue.linear import LinearModule

Row = dict[str, Any]

#: Columns of ``models`` and the names that configurations use for them, the usual one first.
SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers", "encoder_layers"),
    "hidden_size": ("hidden_size", "n_embd", "n_embed", "d_model", "dim"),
    "intermediate_size": (
        "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_hidden_size", "d_ff",
        "encoder_ffn_dim", "hidden_dim", "block_ff_dim",
    ),
    "n_heads": (
        "num_attention_heads", "n_head", "n_heads", "num_heads", "attention_heads",
        "encoder_attention_heads",
    ),
    "n_kv_heads": (
        "num_key_value_heads", "num_kv_heads", "n_head_kv", "n_query_groups", "kv_n_heads",
    ),
    "head_dim": ("head_dim", "kv_channels", "d_kv"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_positions": (
        "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length",
        "max_target_positions",
    ),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts"),
    "n_experts_active": (
        "num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_k", "top_k_experts",
        "moe_top_k",
    ),
}  # fmt: skip

#: Fields in which 0 says that the model has no such thing.
_MAY_BE_ZERO: Final = (*SPELLINGS["n_experts"], *SPELLINGS["n_experts_active"])

#: Names under which single families keep the width of the MLP.
_MLP_WIDTH: Final = {
    "gpt2": "n_inner", "gpt_bigcode": "n_inner", "gptj": "n_inner", "bloom": "n_inner",
    "codegen": "n_inner",
    "opt": "ffn_dim", "falcon": "ffn_hidden_size", "chatglm": "ffn_hidden_size",
}  # fmt: skip

#: Families whose MLP is four times as wide as the model where nothing is said.
_FOUR_TIMES: Final = frozenset(
    {"gpt2", "gpt_bigcode", "gptj", "bloom", "falcon", "mpt", "codegen", "gpt_neo", "openai-gpt"}
)
#: Families whose ``intermediate_size`` counts the gate and the up projection together.
_FUSED_GATE: Final = ("qwen", "recurrent_gemma")
#: Parts in which models of several modalities keep the configuration of their decoder.
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")

#: Fields that change a layout in a way that is not counted, and their values that do not.
_UNCOUNTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "position_encoding_2d": (None, False),  # ChatGLM's first generation
    "qk_layernorm": (None, False),
    "no_bias": (None, True),
    "layer_norm_elementwise_affine": (None, True),  # OPT's, as Galactica has it
    "do_layer_norm_before": (None, True),  # without a last norm otherwise
    "_remove_final_layer_norm": (None, False),
}
#: Families in which such a field is counted.
_COUNTED_FLAGS: Final = {"persimmon": {"qk_layernorm"}}
_COUNTED_FROM: Final = (
    "n_layers", "hidden_size", "intermediate_size", "n_heads", "n_kv_heads", "head_dim",
    "vocab_size", "tied_embeddings",
)  # fmt: skip
#: Most layers that are counted, far more than any model has.
_MOST_LAYERS: Final = 10**4
#: No size of any model comes near it.
_LARGEST: Final = 10**7
#: What a count raises of figures that are not there or are none.
_UNCOUNTABLE: Final = (TypeError, ValueError, LookupError, ArithmeticError)
_COUNTED_FROM_OTHERS: Final = ("n_layers", "hidden_size", "vocab_size")


def parse_hf_config(config: Any) -> Row:
    """Return the columns of ``models`` that a configuration gives.

    ``config`` is the object of a ``config.json`` or a live transformers configuration. Of a model
    of several modalities the text part is read. Parameters are counted where the layout of the
    ``model_type`` is known to the last vector; they are never estimated.
    """
    part = _text_part(config)
    try:
        get = _lookup(part, _text_type(config, part))
        sizes = _sizes(get)
        row = {
            "model_type": read_field(config, "model_type"),
            **sizes,
            **_layout(config, get),
            "layer_embedding_params": _layer_embeddings(sizes, get),
        }
    except _UNCOUNTABLE:  # a figure that another follows from is none: `check_hf_config` names it
        return read_sizes(partial(read_field, part))
    row = {column: value for column, value in row.items() if value is not None}
    try:
        counts = _counts(row, get)
        if part is config and row.get("model_type") not in TOWERS:
            return row | counts
        return row | _with_tower(config, row, counts)
    except _UNCOUNTABLE:  # a figure that the count needs is none
        return row


def linear_modules(config: Any) -> tuple[LinearModule, ...]:
    """Return the linear modules of the decoder's layers; none where a family's are not listed."""
    part = _text_part(config)
    try:
        get = _lookup(part, _text_type(config, part))
        sizes = _sizes(get)
        return list_linear(sizes, get) if sizes["n_layers"] <= _MOST_LAYERS else ()
    except _UNCOUNTABLE:
        return ()


def is_hf_config(document: Any) -> bool:
    """Return whether a JSON document is the configuration of a decoder, in any family's names."""
    if not isinstance(document, dict) or not isinstance(document.get("model_type"), str):
        return False
    part = _text_part(document)
    stated = "n_layers" in read_sizes(partial(read_field, part))
    return stated or (part is not document and document["model_type"] in TEXT_TYPES)


def is_encoder_decoder(config: Any) -> bool:
    """Return whether a configuration is of an encoder with a decoder of its own."""
    parts = (config, _text_part(config))
    return has_decoder_of_its_own(read_field(config, "model_type")) or any(
        read_field(part, "is_encoder_decoder") is True for part in parts
    )


def check_hf_config(config: Any) -> list[str]:
    """Return a problem for each figure that no model has, and for a type that is no name."""
    part = _text_part(config)
    get = partial(read_field, part)
    kinds = (read_field(config, "model_type"), get("model_type"))
    wrong = [kind for kind in kinds if kind is not None and not isinstance(kind, str)]
    return [
        *(f"model_type: found {kind!r}; expected the name of a family" for kind in wrong[:1]),
        *(
            f"{name}: found {excerpt(value)}; expected a whole number above 0"
            for names in SPELLINGS.values()
            for name in names
            if (value := _of_all_layers(get(name))) is not None
            and not _is_size(value)
            and name not in _MAY_BE_ZERO
        ),
        *(
            f"{name}: found {excerpt(value)}; expected a number"
            for name in _FIGURES
            if (value := get(name)) is not None and not _is_figure(value)
        ),
    ] or list(_check_against_each_other(part, get))


#: Figures beside the sizes, from which sizes follow.
_FIGURES: Final = (
    "q_lora_rank", "kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "decoder_layers",
    "num_decoder_layers", "block_multiple_of", "block_ffn_dim_multiplier", "expansion_ratio",
    "multi_query_group_num",
)  # fmt: skip


def _is_figure(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < _LARGEST


def _check_against_each_other(part: Any, stated: Lookup) -> Iterator[str]:
    """Yield a problem for each size that is too large: for any model, or beside another."""
    for column, names in SPELLINGS.items():
        for name in names if column != "max_positions" else ():  # which may stand for no limit
            size = _of_all_layers(stated(name))
            if _is_size(size) and size >= _LARGEST:
                yield f"{name}: found {excerpt(size)}; expected a number below {_LARGEST:,}"
    sizes = _sizes(_lookup(part, str(stated("model_type"))))
    heads, groups = sizes.get("n_heads"), sizes.get("n_kv_heads")
    if heads and groups and heads % groups:
        name = _stated_name("n_kv_heads", stated)
        yield f"{name}: found {groups}; expected one that divides the {heads} attention heads"
    experts, chosen = sizes.get("n_experts"), sizes.get("n_experts_active")
    if experts and chosen and chosen > experts:
        name = _stated_name("n_experts_active", stated)
        yield f"{name}: found {chosen}; expected at most the {experts} experts of a layer"


def _stated_name(column: str, stated: Lookup) -> str:
    """Return under which of its names a column is stated, the usual one where it is not."""
    names = SPELLINGS[column]
    return next((name for name in names if stated(name) is not None), names[0])


def list_unstated(config: Any) -> list[str]:
    """Return the columns of sizes that a configuration leaves to its family's class."""
    part = _text_part(config)
    stated = read_sizes(partial(read_field, part))
    filled = read_sizes(_lookup(part, _text_type(config, part)))
    return [column for column in filled if column not in stated]


#: Bits of quantization methods and algorithms whose configurations state none.
_STORED_BITS = {"fp8": 8, "fbgemm_fp8": 8, "mxfp4": 4, "nvfp4": 4}


def read_quantizer(config: Mapping[str, Any]) -> str | None:
    """Return what quantized the weights, such as "gptq"; None where nothing is named."""
    method = (_stored(config) or {}).get("quant_method")
    return method if isinstance(method, str) else None


def read_double_quant(config: Mapping[str, Any]) -> bool | None:
    """Return whether bitsandbytes quantized the constants of 4-bit weights too; None if not said.

    Its configurations state this of weights in 8 bits as well, which have no such constants.
    """
    stored = _stored(config) or {}
    stated = stored.get("bnb_4bit_use_double_quant")
    return stated if isinstance(stated, bool) and set(_stored_bits(stored)) == {4} else None


def _stored(config: Mapping[str, Any]) -> Mapping[str, Any] | None:
    parts = (config, _text_part(config))
    stored = next((s for part in parts if (s := read_field(part, "quantization_config"))), None)
    return stored if isinstance(stored, dict) else None


def describe_stored_weights(config: Mapping[str, Any]) -> str | None:
    """Return how the weights are stored, such as "in 4 bits"; None where they are not quantized."""
    stored = _stored(config)
    if stored is None:
        return None
    bits = sorted(set(_stored_bits(stored)))
    if bits:
        return f"in {' and '.join(map(str, bits))} bits"
    named = (stored.get(name) for name in ("quant_method", "quant_algo"))
    return f"quantized ({next(filter(None, named), 'by a method that it does not name')})"


def _stored_bits(stored: Mapping[str, Any]) -> Iterator[int]:
    """Yield the bits that are stated: as a whole, by groups of modules, or by a method's name."""
    flags = (("load_in_4bit", 4), ("load_in_8bit", 8))
    stated: list[Any] = [bits for flag, bits in flags if stored.get(flag) is True]
    stated.append(stored.get("bits"))
    groups = stored.get("config_groups")
    for group in groups.values() if isinstance(groups, dict) else ():
        weights = group.get("weights") if isinstance(group, dict) else None
        stated.append(weights.get("num_bits") if isinstance(weights, dict) else None)
    if not any(map(_is_size, stated)):
        named = (str(stored.get(name)).lower() for name in ("quant_method", "quant_algo"))
        stated = [_STORED_BITS.get(name) for name in named]
    yield from (bits for bits in stated if _is_size(bits))


def format_hf_config(row: Mapping[str, Any]) -> Row:
    """Return a configuration of the shape that a row of ``models`` describes."""
    row = {column: value for column, value in row.items() if value is not None}
    config = {name: row[column] for column, name in _names(row).items() if column in row}
    if row.get("model_type") in _FUSED_GATE and "intermediate_size" in row:
        config["intermediate_size"] *= 2
    if "n_experts" in row:  # families differ in the name, and ignore the other's
        config["num_experts"] = row["n_experts"]
        config.setdefault("num_experts_per_tok", 2)
        if "intermediate_size" in row:
            config["moe_intermediate_size"] = row["intermediate_size"]
    if "head_dim" in config and config["head_dim"] == _usual_head_dim(row):
        del config["head_dim"]
    return config


def _names(row: Row) -> dict[str, str]:
    """Return the name of each column in a configuration of the row's family."""
    names = {column: spellings[0] for column, spellings in SPELLINGS.items()}
    names |= {"model_type": "model_type", "tied_embeddings": "tie_word_embeddings"}
    mlp_width = _MLP_WIDTH.get(row.get("model_type", ""), names["intermediate_size"])
    return names | {"attention_bias": _bias_flag(row), "intermediate_size": mlp_width}


def _bias_flag(row: Mapping[str, Any]) -> str:
    decoder = DECODERS.get(row.get("model_type") or "")
    flag = decoder.query_bias if decoder else None
    return flag if isinstance(flag, str) else "attention_bias"


def read_field(config: Any, name: str) -> Any:
    """Return a field of a configuration, or None; of one that varies by layer, the model's own.

    DBRX keeps fields of attention and MLP in parts of their own.
    """
    parts = (_read_own(config, part) for part in _LAYER_PARTS if name not in _LAYER_PARTS)
    found = (_read_own(part, name) for part in (config, *parts) if part is not None)
    return next((value for value in found if value is not None), None)


_LAYER_PARTS: Final = ("attn_config", "ffn_config")


def _read_own(config: Any, name: str) -> Any:
    if isinstance(config, dict):
        return config.get(name)
    try:
        return getattr(config, name, None)
    except RuntimeError:  # how transformers 5.23 refuses it (Gemma 4); config.json states it
        return vars(config).get(name)


def _is_stated(config: Any, name: str) -> bool:
    try:
        return name in config if isinstance(config, dict) else hasattr(config, name)
    except RuntimeError:  # see `read_field`
        return True


def _text_part(config: Any) -> Any:
    parts = (read_field(config, name) for name in _TEXT_PARTS)
    return next((part for part in parts if part and read_sizes(partial(read_field, part))), config)


def _text_type(config: Any, part: Any) -> str:
    """Return the ``model_type`` of the decoder, which is not always written in its own part."""
    whole, own = read_field(config, "model_type"), read_field(part, "model_type")
    return str(TEXT_TYPES.get(whole, own) if own in (None, whole) else _RENAMED.get(own, own))


#: What published configurations call decoders that transformers has under another name.
_RENAMED: Final = {"exaone4_5_text": "exaone4"}


@cache
def _family_defaults() -> Mapping[str, Mapping[str, Any]]:
    # beside this file, not by the package's name: in a measured job that name is out of sight
    text = Path(__file__).with_name("family_defaults.json").read_text(encoding="utf-8")
    found: dict[str, dict[str, Any]] = json.loads(text)
    return found


def _lookup(part: Any, model_type: str) -> Lookup:
    """Return what looks up a field: as stated, else as the family's class has it.

    A column that is stated under any of its names has no default under another, and nothing has
    one where no size is stated.
    """
    stated = partial(read_field, part)
    defaults = _family_defaults().get(model_type, {})
    named = {name for names in SPELLINGS.values() if any(map(stated, names)) for name in names}
    if not read_sizes(stated):
        defaults = {}

    def get(name: str) -> Any:
        if name == "model_type":
            return model_type
        found = stated(name)
        is_open = not _is_stated(part, name) and name not in named
        return defaults.get(name) if is_open and found is None else found

    return get


def read_sizes(get: Lookup) -> Row:
    """Return the columns of sizes that are there."""
    row = {}
    for column, names in SPELLINGS.items():
        found = next(
            (value for name in names if _is_size(value := _of_all_layers(get(name)))), None
        )
        if found is not None:
            row[column] = found
    kinds = get("layers_block_type") or get("hybrid_override_pattern")
    if "n_layers" not in row and isinstance(kinds, list | str) and kinds:
        row["n_layers"] = len(kinds)  # Nemotron-H, as transformers 5 writes it
    return row


def _of_all_layers(value: Any) -> Any:
    """Return the one value of a list that has it for each layer (Hunyuan, Gemma 3n)."""
    is_one = isinstance(value, list) and value and all(each == value[0] for each in value)
    return value[0] if is_one else value


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _sizes(get: Lookup) -> Row:
    """Return the sizes that are there, and those that follow from them."""
    row = read_sizes(get)
    if not _has_experts(get):
        row = {column: size for column, size in row.items() if "experts" not in column}
    if "hidden_size" in row:
        row |= _mlp_width(row, get) | _heads(row, get)
    if "n_layers" in row and get("model_type") in OTHERS:  # an encoder and a decoder
        row["n_layers"] += count_decoder_layers(get)
    return row


def _has_experts(get: Lookup) -> bool:
    """Return whether the fields of a mixture mean something, which some classes always have."""
    if get("model_type") == "nemotron_h":
        return "moe" in list_layers(get)
    return not (get("model_type") == "gemma4_text" and get("enable_moe_block") is not True)


def _mlp_width(row: Row, get: Lookup) -> Row:
    of_experts = _of_all_layers(get("moe_intermediate_size"))
    if _has_experts(get) and _is_size(of_experts):
        return {"intermediate_size": of_experts}
    kind, width = get("model_type"), row.get("intermediate_size")
    if kind in _FUSED_GATE and width:
        return {"intermediate_size": width // 2}
    if kind == "lfm2" and width:
        width = get("block_ff_dim") or width  # as in transformers, the older name decides
        adjusts = get("block_auto_adjust_ff_dim") is True
        return {"intermediate_size": _adjusted_width(width, get) if adjusts else width}
    if width is None and kind in _FOUR_TIMES:
        return {"intermediate_size": (get("expansion_ratio") or 4) * row["hidden_size"]}
    return {}


def _adjusted_width(width: int, get: Lookup) -> int:
    """Return LFM2's width: two thirds of what is stated, rounded up to a multiple."""
    narrow = int((get("block_ffn_dim_multiplier") or 1) * int(2 * width / 3))
    multiple = get("block_multiple_of") or 1
    return int(multiple * -(-narrow // multiple))


def _heads(row: Row, get: Lookup) -> Row:
    if "n_heads" not in row:
        return {}
    found = {"n_kv_heads": _kv_heads(row, get)}
    if get("kv_lora_rank"):  # latent attention: a query is wider than the residual stream's share
        found["head_dim"] = (get("qk_nope_head_dim") or 0) + (get("qk_rope_head_dim") or 0)
    elif "head_dim" not in row:
        found["head_dim"] = row["hidden_size"] // row["n_heads"]
    return {column: size for column, size in found.items() if size > 0}


def _kv_heads(row: Row, get: Lookup) -> int:
    """Return the key and value heads: as many as query heads where nothing is said."""
    if get("multi_query_attention") is True and _is_size(get("multi_query_group_num")):
        return int(get("multi_query_group_num"))
    one_for_all = get("model_type") in ("falcon", "gpt_bigcode")
    one_for_all &= get("multi_query") is not False and get("new_decoder_architecture") is not True
    return 1 if one_for_all else int(row.get("n_kv_heads") or row["n_heads"])


def _layout(config: Any, get: Lookup) -> Row:
    decoder = DECODERS.get(get("model_type") or "")
    tied = [*_list_tied(config, get), *([decoder.tied_embeddings] if decoder else [])]
    tied = tied if decoder is None or decoder.can_tie else [False]
    bias = has_bias(decoder, decoder.query_bias, get) if decoder else get("attention_bias")
    return {
        "tied_embeddings": next((value for value in tied if isinstance(value, bool)), None),
        "attention_bias": bias if isinstance(bias, bool) else None,
        "gated_mlp": decoder.gated_mlp if decoder else _gated_by_kind(get),
    }


def _list_tied(config: Any, get: Lookup) -> list[Any]:
    """Return what may say whether embeddings are tied; the first that is there decides.

    Of a model of several modalities its own class comes after what is stated in either part: before
    transformers 5 the text part decided.
    """
    whole, name = read_field(config, "model_type"), "tie_word_embeddings"
    stated = [read_field(config, name), read_field(_text_part(config), name)]
    if whole in TIED_BY_TEXT and stated[1] is True:
        return [True]
    if whole in TIED_INSIDE:
        return [get(name)]
    own = _family_defaults().get(str(whole), {}).get(name) if whole in TOWERS else None
    return [*stated, own, get(name)]


def _layer_embeddings(sizes: Row, get: Lookup) -> int | None:
    """Return the parameters of the vectors that layers look up, beside the embedding (Gemma 3n)."""
    rows, width = get("vocab_size_per_layer_input"), get("hidden_size_per_layer_input")
    if not _is_size(rows) or not _is_size(width):
        return None
    return rows * width * sizes.get("n_layers", 0) or None


def _gated_by_kind(get: Lookup) -> bool | None:
    """Return what the activation suggests of a family that is not listed; None for no guess."""
    if is_encoder(get("model_type")):
        return False
    names = map(get, ("hidden_act", "hidden_activation", "activation_function", "mlp_hidden_act"))
    activation = next((name for name in names if isinstance(name, str)), "")
    if activation in ("silu", "swish") or "glu" in activation:
        return True
    return False if activation in ("relu", "relu2", "gelu_new", "gelu_fast") else None


def _counts(row: Row, get: Lookup) -> Row:
    """Return the parameters in all, and those of one token in a mixture; nothing if not exact."""
    kind = get("model_type") or ""
    if kind in OTHERS and all(row.get(column) is not None for column in _COUNTED_FROM_OTHERS):
        return {"n_params": OTHERS[kind](row, get)}
    decoder = DECODERS.get(kind)
    if decoder is None or not _is_counted(row, decoder, get):
        return {}
    counts = {"n_params": count_parameters(row, decoder, get)}
    if row.get("n_experts") and row.get("n_experts_active"):
        counts["n_active_params"] = count_active_parameters(row, decoder, get)
    return counts


def _is_counted(row: Row, decoder: Decoder, get: Lookup) -> bool:
    needed = (*_COUNTED_FROM, *(() if decoder.extra_positions is None else ("max_positions",)))
    counted = _COUNTED_FLAGS.get(get("model_type"), set())
    return (
        all(row.get(column) is not None for column in needed)
        and row["n_layers"] <= _MOST_LAYERS
        and all(get(name) in usual for name, usual in _UNCOUNTED.items() if name not in counted)
        and get("word_embed_proj_dim") in (None, row["hidden_size"])
    )


def _with_tower(config: Any, row: Row, counts: Row) -> Row:
    """Return the counts of a decoder with its tower; nothing where the tower is not known."""
    whole = str(row.get("model_type"))
    seen, heard = (read_field(config, f"{kind}_config") for kind in ("vision", "audio"))
    stated = seen and (heard or whole not in SOUND_TOWERS)
    if whole not in TOWERS or not counts or not (stated or whole in MAY_LACK_TOWERS):
        return {}  # a text part is not the whole model
    hidden, added = row["hidden_size"], 0
    if seen:
        get = _tower_lookup(seen, TOWER_TYPES[whole], whole)
        added += TOWERS[whole](get, _tower_lookup(config, whole, whole), hidden)
    if heard and whole in SOUND_TOWERS:
        added += SOUND_TOWERS[whole](_tower_lookup(heard, SOUND_TYPES[whole], whole), hidden)
    return {name: count + added for name, count in counts.items()}


def _tower_lookup(tower: Any, usual: str, whole: str) -> Lookup:
    """Return what looks up a field of a tower: as stated, else as its class has it."""
    stated = read_field(tower, "model_type")
    kind = usual if stated in (None, whole) else str(stated)
    defaults = {**_family_defaults().get(kind, {}), "model_type": kind}

    def get(name: str) -> Any:
        found = None if name == "model_type" else read_field(tower, name)
        return defaults.get(name) if found is None else found

    return get


def _usual_head_dim(row: Mapping[str, Any]) -> int | None:
    hidden, heads = row.get("hidden_size"), row.get("n_heads")
    return hidden // heads if hidden and heads else None
