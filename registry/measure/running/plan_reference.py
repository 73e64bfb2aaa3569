"""The reference of plans as one Markdown page, made from the model of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.measure.running.methods import known_methods
from registry.measure.running.plan_model import PLAN_KEYS, TRIAL_KEYS, format_expected, meaning_of
from registry.measure.running.plan_template import format_value
from registry.measure.trial_settings import ABOUT, DEFAULTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_PREAMBLE = """\
# Plans

Generated from the model of a plan (`registry/measure/`) by `python -m
registry.contract.documentation`; change it there.

A plan is a TOML file that says which training jobs to run. `registry run PLAN.toml` runs each in a
process of its own, measures it, and records it in your registry the moment it ends.

```sh
registry run --template > plan.toml     # a commented plan that runs as it is
registry run plan.toml --dry-run        # list the trials, run none
registry run plan.toml
registry compare plan.toml plan.toml    # or two ids, two versions, two environments
```

[plan.schema.json](plan.schema.json) is the JSON Schema, for completion and checks in an editor."""

_TABLES = """\
## Tables

```toml
model = "tiny-llama"          # holds for all trials
steps = 12

[matrix]                      # 2 x 2 trials
method = ["full", "lora"]
seq_len = [64, 128]

[[exclude]]                   # without this one
method = "full"
seq_len = 128

[[include]]                   # and with this one beside
method = "dora"
seq_len = 256

[models.tiny-llama]
model_type = "llama"
hidden_size = 256
num_hidden_layers = 4
```

The same trial is run once, however often the plan names it. An `exclude` leaves out what has all of
its values."""

_MODELS = """\
## Models and data

The first of these that `model` names is taken: a table `[models.NAME]`, the path of a `config.json`
or of a folder with one, a model of the catalogue, a repository of the hub. With
`weights = "random"` the job builds the shape and downloads nothing. With `"pretrained"` it loads
weights, of safetensors alone. Code that a repository brings is never executed, and nothing is
unpickled.

Paths are relative to the plan. A `dataset` lies in the plan's folder or below it, so that somebody
else's plan reads none of your files; `registry run --dataset PATH` names another one. It is JSONL
with `input_ids`, or with `text` where the model is one of the hub, or a folder that `datasets`
wrote."""

_CHECKS = """\
## Checks

All values are checked before the first trial, under `--dry-run` too: unknown keys, words and
methods, numbers out of bounds, models that nobody knows, target modules that the model does not
have, and what cannot go together. All problems are reported at once, each with its place; the exit
status is then 1. What only the job can find out (a library that is not installed, memory that is
not enough) is the trial's outcome."""


def format_plan_reference() -> str:
    """Return the reference of plans as Markdown."""
    return "\n\n".join(_blocks()) + "\n"


def _blocks() -> Iterator[str]:
    yield _PREAMBLE
    yield "## Keys of a plan"
    yield _format_rows(("key", "meaning"), ((f"`{k}`", text) for k, text in PLAN_KEYS.items()))
    yield "## Keys of a trial"
    yield (
        "They stand in the plan itself, for all trials; in `[matrix]`, as lists of values; in "
        "`[[exclude]]` and `[[include]]`. Only `model` has no default."
    )
    rows = (_row(name) for name in TRIAL_KEYS)
    yield _format_rows(("key", "values", "default", "meaning", "example"), rows)
    yield f"Methods of PEFT: {', '.join(f'`{n}`' for n in known_methods() if n != 'full')}."
    yield from (_TABLES, _MODELS, _CHECKS)


def _row(name: str) -> tuple[str, ...]:
    default = DEFAULTS.get(name)
    example = ABOUT[name].example if name in ABOUT else None
    return (
        f"`{name}`",
        format_expected(name),
        "" if default is None else f"`{format_value(default)}`",
        meaning_of(name),
        "" if example is None else f"`{format_value(example)}`",
    )


def _format_rows(header: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
