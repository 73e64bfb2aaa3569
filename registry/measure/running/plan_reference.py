"""The reference of plans as one Markdown page, made from the model of a plan."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.measure.running.methods import known_methods
from registry.measure.running.plan_model import PLAN_KEYS, TRIAL_KEYS, format_expected, meaning_of
from registry.measure.running.plan_template import format_value
from registry.measure.trial_settings import ABOUT, DEFAULTS
from registry.text import format_markdown_table

if TYPE_CHECKING:
    from collections.abc import Iterator

_PREAMBLE = """\
# Plans

Generated from the model of a plan (`registry/measure/`) by `python -m
registry.contract.documentation`; change it there.

A plan is a TOML file that says which training jobs to run. `registry run PLAN.toml` runs each in
its own process, measures it, and records it in your registry as soon as it ends. The jobs need the
extra `[train]` (`pip install 'peft-registry[train]'`); without it, each is recorded as an `error`.

```sh
registry run --template > plan.toml     # a commented plan that runs as it is
registry run plan.toml --dry-run        # list the trials, run none
registry run plan.toml
registry compare torch=2.7 torch=2.8    # or two ids, two plans, two labels
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

[[include]]                   # and with this one added
method = "dora"
seq_len = 256

[models.tiny-llama]
model_type = "llama"
hidden_size = 256
num_hidden_layers = 4
```

A trial is run once, however often the plan lists it. An `exclude` leaves out the combinations that
have all of its values."""

_MODELS = """\
## Models and data

`model` is looked up in this order: a table `[models.NAME]`, the path of a `config.json` or of a
folder with one, a model of the catalogue, a repository on the hub. With `weights = "random"` the
job builds the model from its configuration and downloads nothing. With `"pretrained"` it loads
weights, from safetensors only. Code in a repository is never executed, and nothing is unpickled.

Paths are relative to the plan. A `dataset` must be in the plan's folder or below it, so that
somebody else's plan cannot read your files; `registry run --dataset PATH` uses another one. It is
JSONL with `input_ids`, or with `text` if the model is one from the hub, or a folder that `datasets`
wrote."""

_CHECKS = """\
## Checks

All values are checked before the first trial, with `--dry-run` too: unknown keys, words and
methods, numbers out of bounds, unknown models, target modules that the model does not have, and
settings that cannot be combined. All problems are reported at once, each with its place; the exit
status is then 1. What only the job can find out (a missing library, too little memory) becomes the
trial's outcome."""


_RUNNING = """\
## Running

In `--dry-run`, in progress messages and in the summary, a trial is named by the settings in which
the trials differ. The time left is estimated from the trials that have ended: for each trial, from
those that have the most settings in common with it. `--dry-run` estimates it from existing results.
On a terminal the steps of running trials are shown.

Trials that ended ok or out of memory are not run again in the same environment; failed ones are.
After Ctrl-C, the same command continues with the others. While a call runs, another call that has
trials in common with it is refused.

- **On GPUs** trials run side by side as long as there are free GPUs: each sees only its own
  (`CUDA_VISIBLE_DEVICES`). `--parallel 1` runs them one by one.
- **On CPU** they run one by one, because neighbours disturb the timing. `--parallel N` runs N at
  once, each on its share of the cores, with half as many threads as it has cores
  (`OMP_NUM_THREADS`, if set, is kept).
- **On a cluster** they are Slurm jobs or Ray tasks: [Sweeps on a cluster](clusters.md).

The record of a trial that had neighbours has the flag `side_by_side`, and their number in
`provenance.trials_beside`. `provenance.load_average` is the load of the machine at the end of the
trial, whatever caused it: the mean over a minute, as `uptime` gives it.

All trials of a plan belong to one source, whose `source_id` is the plan's name as a slug, wherever
and however often they run: `registry ls --source NAME`. Each run is a separate observation. If you
change a plan for another purpose, rename it, or its trials join the earlier ones."""

_AGAIN = """\
## Running again

`registry rerun ID` repeats an observation here, shows what has changed since (versions, cards,
threads) and compares, with the verdicts of [`registry compare`](comparing.md): `--factor` (and
`--memory-factor`) sets what counts as worse, and `--fail` makes that exit status 1. One run against
one gives no verdict, unless the new one fails: `--repeats 4` runs it four times, and the comparison
with the old run uses the noise between these. Earlier repeats are used too: runs with the same
settings, or of the same kept command, under the same label in the same environment.

- **A trial** is run again as it was; its settings are checked like those of a plan.
- **A command** that you measured with `registry run -- CMD` on this machine is run again in its
  folder, with today's environment variables.
- **Anything else** is replaced by a synthetic trial of the same configuration, with random weights
  and tokens; what a trial cannot repeat is listed.

For this, `registry run -- CMD` keeps each command with its arguments, **including secrets**, in a
file that only you can read (mode 0600): `commands/` next to your own registry in your data folder
(`~/.local/share/peft-registry`). It is not in any registry, record or export. `--no-keep` keeps
nothing; `registry rerun ID --forget` and `registry retract ID --erase` erase it, as does
removing the file. A command that comes with somebody else's registry is never run, nor is a file
that others could have written."""


def format_plan_reference() -> str:
    """Return the reference of plans as Markdown."""
    return "\n\n".join(_blocks()) + "\n"


def _blocks() -> Iterator[str]:
    yield _PREAMBLE
    yield "## Keys of a plan"
    yield format_markdown_table(
        ("key", "meaning"), ((f"`{k}`", text) for k, text in PLAN_KEYS.items())
    )
    yield "## Keys of a trial"
    yield (
        "They may be set in the plan itself, for all trials; in `[matrix]`, as lists of values; in "
        "`[[exclude]]` and `[[include]]`. Only `model` has no default."
    )
    rows = (_row(name) for name in TRIAL_KEYS)
    yield format_markdown_table(("key", "values", "default", "meaning", "example"), rows)
    yield f"Methods of PEFT: {', '.join(f'`{n}`' for n in known_methods() if n != 'full')}."
    yield from (_TABLES, _MODELS, _CHECKS, _RUNNING, _AGAIN)


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
