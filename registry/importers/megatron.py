"""Megatron-LM, its relatives, NeMo and MindSpeed-LLM: a line for each iteration or ten."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from registry.importers.deepspeed_figures import measure_deepspeed_peak, read_lines
from registry.importers.megatron_figures import (
    Iteration,
    measure_memory,
    measure_speed,
    read_iterations,
)
from registry.importers.shared.draft import Draft
from registry.importers.shared.logs import OUT_OF_MEMORY, LogImporter, validate_growing
from registry.importers.shared.shapes import whole_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import ImportOptions, RunFile

_ARGUMENT: Final = re.compile(r"(?:^|[\s:\]])(?P<name>[a-z_]+) \.{3,} *(?P<value>\S+) *$")
#: Arguments as Megatron prints them, and the columns they are.
_COLUMNS: Final = {
    "micro_batch_size": "micro_batch_size",
    "global_batch_size": "global_batch_size",
    "seq_length": "seq_len",
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "context_parallel_size": "context_parallel",
    "expert_model_parallel_size": "expert_parallel",
    "world_size": "n_gpus",
}
_LOSSES: Final = ("lm loss", "reduced train loss")
#: A checkpoint of a training that goes on; one of another model's weights is at iteration 0.
_LOADED: Final = re.compile(
    r"successfully loaded checkpoint from .* at iteration (?P<step>\d{1,15})"
)
_ENDED: Final = re.compile(r"\[after training is done\]")


class MegatronImporter(LogImporter):
    """Reads a console log of Megatron or NeMo."""

    name = "megatron"
    what = "a Megatron log"
    expects = (
        "a console log with lines of iterations and their time (`iteration 1/ 10 | … elapsed time"
        " per iteration (ms): …`)"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize lines of an iteration with its time."""
        return bool(read_iterations(lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:  # noqa: ARG002 - a log says all
        """Return the run of a log."""
        steps = read_iterations(log.document)
        validate_growing(step.step for step in steps)
        draft = Draft(environment={"framework": steps[0].framework})
        _state_arguments(draft, log.document, steps)
        _state_end(draft, log.document, steps[-1])
        measure_speed(draft, steps)
        losses = [steps[-1].figures[name] for name in _LOSSES if name in steps[-1].figures]
        draft.measure("train_loss", losses[0] if losses else None, statistic="last")
        _measure_steps(draft, log.document, steps)
        measure_memory(draft, log.document, steps)
        timers = read_lines(log.document).timers
        if timers and not draft.has("peak_memory"):
            measure_deepspeed_peak(draft, timers)
        draft.note_lack("peak_memory", "no memory")
        draft.cite(log)
        return draft


def _state_arguments(draft: Draft, lines: Sequence[str], steps: Sequence[Iteration]) -> None:
    """State the arguments as printed; a length that an iteration prints is that of its samples."""
    for line in lines:
        found = _ARGUMENT.search(line)
        if found and found["name"] in _COLUMNS:
            draft.state(_COLUMNS[found["name"]], whole_of(found["value"]))
        elif found and found["name"] == "recompute_granularity":
            draft.state("gradient_checkpointing", found["value"] != "None")
        elif found and found["name"] in ("bf16", "fp16") and found["value"] == "True":
            draft.state("compute_dtype", found["name"])
    length = steps[-1].figures.get("actual seqlen")
    draft.state("seq_len", int(length) if length else None, "actual seqlen of the iterations")


def _state_end(draft: Draft, lines: Sequence[str], last: Iteration) -> None:
    if any(map(OUT_OF_MEMORY.search, lines)):
        draft.observation["outcome"] = "oom"
    elif last.step < last.all and not any(map(_ENDED.search, lines)):
        draft.leave_open(f"the log ends at iteration {last.step} of {last.all}")


def _measure_steps(draft: Draft, lines: Sequence[str], steps: Sequence[Iteration]) -> None:
    """Add the steps of the run; of one that went on, those since its checkpoint."""
    done = steps[-1].step + 1 - steps[-1].counts_from
    loaded = [int(found["step"]) for line in lines if (found := _LOADED.search(line))]
    if loaded and 0 < loaded[0] < done:
        draft.note_resumed(f"a checkpoint of iteration {loaded[0]} was loaded", done)
        done -= loaded[0]
    draft.measure("n_steps", done)
