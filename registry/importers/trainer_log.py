"""What LLaMA-Factory and the Trainer print: ``running_log.txt``, or a console saved as text.

The clock of the lines has whole seconds. A training that someone stopped ends with the same
"Training completed" as one that reached its last step: checkpoints and epochs tell. Without a
clock, as on a plain standard output, the totals at the end are the run.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from registry.importers.deepspeed import state_engine
from registry.importers.deepspeed_figures import measure_deepspeed_peak, read_lines
from registry.importers.hf_trainer import measure_memory
from registry.importers.llama_factory_settings import is_config, state_config_beside
from registry.importers.shared.draft import Draft
from registry.importers.shared.efficiency import TIMED, measure_efficiency
from registry.importers.shared.logs import STOPPED, import_logs, printed_entries
from registry.importers.shared.segments import parse_clock
from registry.importers.shared.shapes import count_of, number_of
from registry.importers.shared.totals import Evaluations, measure_totals, rate_of, state_epochs
from registry.importers.shared.unsloth import measure_reserved
from registry.importers.trainer_log_progress import (
    LISTED,
    SECONDS,
    STAMP,
    TOTALS,
    Progress,
    ran_out_of_memory,
    read_progress,
)
from registry.importers.trainer_log_settings import state_trainer_log

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

#: Part of the steps that a training may lack and still count as whole.
_WHOLE: Final = 0.99


class TrainerLogImporter:
    """Reads the lines of a training, alone or of several logs."""

    name = "trainer-log"
    is_single_file = False
    expects = (
        "a console log of the Trainer: ***** Running training ***** with the time of its lines, "
        "{'train_runtime': …, 'train_loss': …}, or running out of memory"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize the lines with which the Trainer begins a training, or its totals."""
        return [file for file in files if is_trainer_log(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log; the configuration beside a log is that of the only one."""
        logs = self.main_files(files)
        configs = [file for file in files if is_config(file)] if len(logs) == 1 else []
        found = import_logs(
            self.name,
            "a log of the Trainer",
            logs,
            lambda log: _draft(log, configs, options),
            options,
        )
        return _name_settings(found, configs)


def _name_settings(found: Imported, configs: Sequence[RunFile]) -> Imported:
    """Say which configuration was used."""
    rows = [row for document in found.submissions for row in document["observations"]]
    used = {name for row in rows for name in row["provenance"]["files"]}
    taken = [f"{file.name}: settings of the run" for file in configs if file.name in used]
    return replace(found, taken=(*found.taken, *taken))


def is_trainer_log(file: RunFile) -> bool:
    """Return whether a text has lines of the Trainer with their time, or its totals."""
    lines = file.document if file.kind == "text" else ()
    is_stamped = any("***** Running " in line for line in lines) and any(map(STAMP.search, lines))
    return (
        is_stamped
        or any(one.search(line) for line in lines for one in (TOTALS, LISTED, SECONDS))
        or any(TIMED in line for line in lines)
        or ran_out_of_memory(lines)
    )


def _draft(log: RunFile, configs: Sequence[RunFile], options: ImportOptions) -> Draft:
    progress = read_progress(log.document)
    draft = Draft()
    state_trainer_log(draft, log.document, options)
    state_engine(draft, log.document)
    config = state_config_beside(draft, configs, options)
    if config is not None:
        draft.provenance["files"] = {config.name: config.sha256}
    planned = draft.configuration.get("n_steps")
    steps = _steps_done(draft, progress)
    if progress.out_of_memory and not progress.is_complete:
        draft.observation |= {"outcome": "oom", "outcome_detail": progress.out_of_memory}
    elif steps and planned and steps < _WHOLE * planned:
        ended = "interrupted" if progress.is_complete or progress.is_stopped else "unknown"
        detail = f"the log ends at step {steps} of {planned}"
        draft.observation |= {"outcome": ended, "outcome_detail": detail}
    elif progress.is_stopped and not progress.is_complete:
        draft.observation |= {"outcome": "interrupted", "outcome_detail": STOPPED}
    elif not progress.is_complete:
        draft.leave_open("the log does not say that the training was completed")
    _measure(draft, progress, steps, log.document)
    state_epochs(draft, progress.metrics)
    draft.cite(log)
    return draft


def _steps_done(draft: Draft, progress: Progress) -> int | None:
    """Return the last step that the log shows: a checkpoint's, or that of the last epoch."""
    planned, epochs = (draft.configuration.get(column) for column in ("n_steps", "n_epochs"))
    if not planned or not epochs:
        return _steps_of_bars(progress, planned) or _steps_written(progress)
    epoch = max(progress.losses[-1][2] if progress.losses else 0.0, _last_epoch(progress))
    by_epoch = round(epoch * planned / epochs)
    seen = max(by_epoch, progress.checkpoint)
    return min(seen, planned) or (planned if progress.is_complete else None)


def _last_epoch(progress: Progress) -> float:
    """Return the epoch that the totals tell; 0 where they tell none."""
    return float(number_of(progress.metrics.get("epoch")) or 0.0)


def _steps_of_bars(progress: Progress, planned: int | None) -> int | None:
    """Return the length of a progress bar, or the steps planned, that the totals' rate tells."""
    rate = rate_of(progress.metrics.get("train_steps_per_second"))
    seconds = number_of(_totals(progress.metrics).get("train_runtime"))
    if rate is None or not seconds:
        return None
    found = progress.bars | ({planned} if planned else set())
    return max((n for n in found if rate.agrees(n / seconds)), default=None)


def _steps_written(progress: Progress) -> int | None:
    """Return the step that a callback adds to the last entry."""
    last = progress.timed[-1] if progress.timed else {}
    return count_of(last.get("step"))


def _explain_memory(lines: Sequence[str]) -> str:
    """Return that there is no memory, or which figure of it nobody here reads."""
    found = next(filter(None, (_MEMORY.search(line) for line in lines if _CARD not in line)), None)
    if found is None:
        return "no memory"
    return f"no memory: {found[0]!r} is not read; state it as a figure of a submission or a table"


#: What stands beside the memory that the card has, in Unsloth's banner.
_CARD: Final = "Num GPUs"
#: A figure of memory as callbacks print it, as the Trainer's own metrics do, or as scripts say it.
_MEMORY: Final = re.compile(
    # a number before a bracket is the line of a function, as in `[log_gpu_memory_usage:107]`
    r"\b(?!\w{0,40}cpu)\w{0,40}mem(?:ory)?_\w{1,40}\b['\")]{0,2}\s{0,20}[:=]\s{0,20}\d+(?:\.\d+)?"
    r"(?![\d.]{0,20}\])"
    r"|\b(?:peak|max(?:imum)?)\b[\w \t]{0,30}\b(?:mem(?:ory)?|vram)\b[\w \t]{0,30}"
    r"[:=]\s{0,20}\d+(?:\.\d+)?\s?[KMG]i?B\b",
    re.IGNORECASE,
)


def _measure(draft: Draft, progress: Progress, steps: int | None, lines: Sequence[str]) -> None:
    if progress.n_evaluations:
        draft.flags.add("includes_evaluation")
    began_later = progress.begun is None and progress.began_later
    if began_later:
        draft.flags.add("resumed")
        draft.missing.append("no rates: it went on from a checkpoint, and they count all steps")
    draft.last_step = steps
    if progress.resumed_at:
        draft.flags.add("resumed")
        steps = steps - progress.resumed_at if steps else None
    measure_efficiency(draft, progress.timed)
    if "train_runtime" in progress.metrics and not progress.resumed_at:
        n_evaluations = progress.n_evaluations or len(progress.evaluations)
        is_timed = progress.begun is None
        evaluations = Evaluations(n_evaluations, sum(progress.evaluations) if is_timed else 0.0)
        totals = _totals(progress.metrics)
        if began_later:
            totals = {name: text for name, text in totals.items() if "per_second" not in name}
        measure_totals(draft, totals, None if began_later else steps, evaluations)
    else:
        _measure_clock(draft, progress, steps)
    if progress.losses and not draft.has("train_loss"):
        draft.measure("train_loss", progress.losses[-1][1], statistic="last")
    if not draft.has("tokens_per_second"):
        draft.measure("tokens_per_second", progress.tokens_per_second, statistic="mean")
    _measure_memory(draft, lines)
    draft.lacks["gpu_id"] = "no card"


def _measure_memory(draft: Draft, lines: Sequence[str]) -> None:
    """Add the peak that the lines tell: Unsloth's, the Trainer's own, or DeepSpeed's."""
    measure_reserved(draft, "\n".join(lines))
    if not draft.has("peak_memory"):
        totals = printed_entries([line for line in lines if TOTALS.search(line)])
        measure_memory(draft, next(totals, {}))
    if not draft.has("peak_memory"):
        measure_deepspeed_peak(draft, read_lines(lines).timers)
    draft.note_lack("peak_memory", _explain_memory(lines))


def _totals(metrics: Mapping[str, str]) -> dict[str, str]:
    """Return the totals in seconds, of as many decimals, where they are a clock: ``2:08:35.51``."""
    read = {name: _seconds(text) if ":" in text else text for name, text in metrics.items()}
    return {name: text for name, text in read.items() if text is not None}


def _seconds(clock: str) -> str | None:
    """Return the seconds of a clock, which days may precede: ``1 day, 2:08:35.51``."""
    n_decimals = len(clock.partition(".")[2])
    seconds = parse_clock(clock)
    return None if seconds is None else f"{seconds:.{n_decimals}f}"


def _measure_clock(draft: Draft, progress: Progress, steps: int | None) -> None:
    """Add the time from the beginning to the end, and of a step; both hold evaluations."""
    if progress.ended is None or progress.begun is None:
        draft.missing.append("no total time: the log does not reach the end")
        draft.measure("n_steps", _steps_written(progress))
        return
    seconds = progress.ended - progress.begun
    bounds = {"low": max(0.0, seconds - 1), "high": seconds + 1}
    reason = "from the beginning of the training to its end, clock of whole seconds"
    draft.measure("total_time", seconds, **bounds, reason=reason)
    draft.measure("n_steps", steps)
    if steps:
        reason = f"{seconds:.0f} s by the log's clock / {steps} steps; checkpoints included"
        draft.derive("step_time", seconds / steps, reason, statistic="mean")
