"""A commented plan that runs as it is; made from the model of a plan."""

from __future__ import annotations

import json
import textwrap
from typing import TYPE_CHECKING, Any

from registry.measure.running.plan_model import PLAN_KEYS, TRIAL_KEYS, format_expected, meaning_of
from registry.measure.trial_settings import ABOUT, DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterator

#: What the template's plan says; everything else stands in it as a comment.
STATED: dict[str, Any] = {"model": "tiny-llama", "dtype": "fp32", "steps": 12}
MATRIX: dict[str, list[Any]] = {"method": ["full", "lora"], "seq_len": [64, 128]}
MODEL: dict[str, Any] = {
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}

_HEAD = """\
A plan for `registry run`. Each combination of the matrix is a trial: a training job in its own
process, measured and recorded. Keys that are commented out show what applies without them.
`registry run PLAN.toml --dry-run` lists the trials and runs none."""

_EXAMPLES = {"memory_limit": "2 GiB", "name": "first-sweep", "description": "What it is for."}
_WIDTH = 98


def format_template() -> str:
    """Return the plan as TOML."""
    return "\n".join(_lines())


def _lines() -> Iterator[str]:
    yield from _comment(_HEAD)
    yield ""
    for name in ("name", "description", "repeats"):
        yield from _key(name, _EXAMPLES.get(name, 1), PLAN_KEYS[name], is_stated=False)
    for name in TRIAL_KEYS:
        if name not in MATRIX:
            yield from _key(name, _value_of(name), _describe(name), is_stated=name in STATED)
    yield from _comment(PLAN_KEYS["matrix"] + " Any of the keys above may be given here as a list.")
    yield "[matrix]"
    for name, values in MATRIX.items():
        yield from _comment(_describe(name))
        yield f"{name} = {format_value(values)}"
    yield ""
    yield from _comment(PLAN_KEYS["exclude"])
    yield from ("# [[exclude]]", '# method = "full"', "# seq_len = 128", "")
    yield from _comment(PLAN_KEYS["include"])
    yield from ("# [[include]]", '# method = "dora"', "# seq_len = 256", "")
    yield from _comment(PLAN_KEYS["models"] + " The weights are random: nothing is downloaded.")
    yield f"[models.{STATED['model']}]"
    yield from (f"{name} = {format_value(value)}" for name, value in MODEL.items())
    yield ""


def _describe(name: str) -> str:
    expected = format_expected(name)
    return f"{meaning_of(name)} {expected[:1].upper()}{expected[1:]}."


def _value_of(name: str) -> Any:
    if name in STATED:
        return STATED[name]
    default = DEFAULTS.get(name)
    example = ABOUT[name].example if name in ABOUT else None
    return (example or _EXAMPLES.get(name)) if default in (None, {}) else default


def _key(name: str, value: Any, meaning: str, *, is_stated: bool) -> Iterator[str]:
    yield from _comment(meaning)
    yield f"{'' if is_stated else '# '}{name} = {format_value(value)}"
    yield ""


def _comment(text: str) -> Iterator[str]:
    for line in textwrap.wrap(" ".join(text.split()), _WIDTH):
        yield f"# {line}"


def format_value(value: Any) -> str:
    """Return a value as TOML writes it.

    >>> format_value({"r": [1, 2], "bias": "none"})
    '{ r = [1, 2], bias = "none" }'
    """
    if isinstance(value, dict):
        items = ", ".join(f"{name} = {format_value(item)}" for name, item in value.items())
        return f"{{ {items} }}" if items else "{}"
    return json.dumps(list(value) if isinstance(value, tuple) else value)
