"""nanotron: a line for each iteration, and the memory of the first ones.

``cuda_max_memory_reserved`` is that of the process that prints, in bytes. The lines of memory
usage are the first process's, in 2^20 bytes, before and after each of the first five iterations;
each sets the peak of what is allocated back.

What the lines of nanotron's iterations mean.

Numbers have three digits and a letter: K, M, G (B since 2025-04), T, P are powers of 1000, also of
bytes. A time is that of one iteration, a step of the optimizer with all its micro-batches;
``tokens_per_sec`` are those of all GPUs, at the full length of the sequences. The batch is in
samples where the time is named ``elapsed_time_per_iteration_ms``, in tokens since 2025-03, where it
is ``time_per_iteration_ms``. FLOPs are those of the model, without recomputation, of one GPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import ceil, floor, log10, prod
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft
from registry.importers.shared.logs import LogImporter, state_end, validate_growing
from registry.importers.shared.readings import (
    MEBIBYTE,
    choose_timed,
    first_values,
    largest,
    measure_peak_in_mebibytes,
)
from registry.importers.shared.shapes import number_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

_START: Final = re.compile(r"\[Start training\] datetime: .*? \| (?P<settings>mbs: .*)")
_SETTING: Final = re.compile(r"(?P<name>\w+): (?P<value>\d{1,15})\b")
#: Settings of the line with which a training starts, and the columns they are.
_COLUMNS: Final = {
    "mbs": "micro_batch_size",
    "grad_accum": "grad_accum_steps",
    "global_batch_size": "global_batch_size",
    "sequence_length": "seq_len",
}
_PARALLEL: Final = "ParallelismArgs("
_SIZE: Final = re.compile(
    r"\b(?P<name>dp|pp|tp|expert_parallel_size|context_parallel_size)=(?P<value>\d{1,6})\b"
)
_SIZES: Final = {
    "tp": "tensor_parallel",
    "pp": "pipeline_parallel",
    "context_parallel_size": "context_parallel",
    "expert_parallel_size": "expert_parallel",
}
#: Lines that the sizes take when printed.
_LONGEST: Final = 16
_MEMORY: Final = re.compile(
    r"Memory usage: [\d.]{1,30}MiB\. Peak allocated:? (?P<allocated>\d{1,15}\.\d{1,30})MiB\.? "
    r"Peak reserved: (?P<reserved>\d{1,15}\.\d{1,30})MiB"
)
#: Iterations at the start of a session that compile and warm up.
_WARMUP: Final = 3


class NanotronImporter(LogImporter):
    """Reads a console log of nanotron."""

    name = "nanotron"
    what = "a nanotron log"
    expects = (
        "a console log with lines such as `iteration: 5 / 100 | consumed_tokens: 2.56K | "
        "time_per_iteration_ms: 9.15 | tokens_per_sec: 55.9K | …`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize lines of an iteration with its time and its tokens."""
        return bool(_read_iterations(lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:  # noqa: ARG002 - a log says all
        """Return the run of a log."""
        steps = _read_iterations(log.document)
        validate_growing(step.step for step in steps)
        draft = Draft(environment={"framework": "nanotron"})
        draft.state("method", "full", "nanotron trains all parameters")
        before = _state_start(draft, log.document)
        _state_parallel(draft, log.document)
        draft.state("global_batch_size", steps[-1].samples)
        draft.state("n_gpus", _count_gpus(steps), "tokens_per_sec / tokens_per_sec_per_gpu")
        _state_end(draft, log.document, steps[-1])
        _measure_speed(draft, steps, before)
        _measure_steps(draft, steps[-1].step, before)
        _measure_memory(draft, log.document, steps)
        draft.missing.append("no total time")
        draft.cite(log)
        return draft


def _state_start(draft: Draft, lines: Sequence[str]) -> int | None:
    """State the settings of the start; return the iterations done before it, or None."""
    found = next((match for line in lines if (match := _START.search(line))), None)
    if found is None:
        return None
    said = {part["name"]: part["value"] for part in _SETTING.finditer(found["settings"])}
    for name, column in _COLUMNS.items():
        draft.state(column, whole_of(said.get(name)))
    return int(said["start_iteration_step"]) if "start_iteration_step" in said else None


def _state_parallel(draft: Draft, lines: Sequence[str]) -> None:
    """State the parallel sizes of the printed configuration, and the GPUs they come to."""
    begun = next((i for i, line in enumerate(lines) if _PARALLEL in line), None)
    if begun is None:
        return
    said = first_values(_SIZE, lines[begun : begun + _LONGEST])
    sizes = {name: int(size) for name, size in said.items()}
    for name, column in _SIZES.items():
        draft.state(column, sizes.get(name) or None)
    if {"dp", "pp", "tp"} <= sizes.keys():
        draft.state(
            "n_gpus", prod(sizes.values()) or None, f"product of {', '.join(sorted(sizes))}"
        )


def _state_end(draft: Draft, lines: Sequence[str], last: _NanotronIteration) -> None:
    ends = f"the log ends at iteration {last.step} of {last.all}" if last.step < last.all else None
    state_end(draft, lines, lambda line: _read_iterations([line]), ends)


def _measure_speed(draft: Draft, steps: Sequence[_NanotronIteration], before: int | None) -> None:
    """Add the time and the rates in the middle, without the iterations that warm up."""
    first = before if before is not None else 0
    steady = [step for step in steps if step.step > first + _WARMUP]
    timed, said = choose_timed(draft, steps, steady)
    times = [step.milliseconds for step in timed]
    draft.measure("step_time", **_median(times, 1e-3), reason=said)
    tokens = [step.figures["tokens_per_sec"] for step in timed]
    reason = f"{said}; of all GPUs, at the full length of the sequences"
    draft.measure("tokens_per_second", **_median(tokens), reason=reason)
    flops = [found for step in timed if (found := step.figures.get("model_tflops_per_gpu"))]
    if flops:
        columns = _median(flops, 1e12)
        draft.measure_process("flops_per_second", **columns, reason=f"{said}; per GPU")
    loss = steps[-1].figures.get("lm_loss")
    draft.measure("train_loss", loss.value if loss else None, statistic="last")


def _median(figures: Sequence[Figure], scale: float = 1) -> dict[str, Any]:
    """Return the figure in the middle, within the rounding of what is written."""
    return {
        "value": median(figure.value for figure in figures) * scale,
        "low": median(figure.low for figure in figures) * scale,
        "high": median(figure.high for figure in figures) * scale,
        "statistic": "median",
    }


def _measure_steps(draft: Draft, last: int, before: int | None) -> None:
    """Add the steps of the session; those of before it are of a run that went on."""
    if before:
        draft.note_resumed(f"it starts after iteration {before}", last)
    draft.measure("n_steps", last - (before or 0))


def _measure_memory(
    draft: Draft, lines: Sequence[str], steps: Sequence[_NanotronIteration]
) -> None:
    """Add the largest peaks; what is reserved stands in both kinds of lines, and later in one."""
    printed = [match.groupdict() for line in lines if (match := _MEMORY.search(line))]
    name = "cuda_max_memory_reserved"
    reserved = [step.figures[name] for step in steps if name in step.figures]
    peak = max(reserved, key=lambda figure: figure.value, default=None)
    around = largest(printed, "reserved") or 0.0
    _measure_peak(draft, "allocated", largest(printed, "allocated"))
    if peak is None or peak.low <= around * MEBIBYTE:
        _measure_peak(draft, "reserved", around)
    else:
        columns = {"low": peak.low, "high": peak.high, "raw": peak.raw, "unit_reported": "B"}
        reason = "largest iteration, of the process that prints"
        draft.measure_process("peak_memory", peak.value, kind="reserved", **columns, reason=reason)
    draft.note_lack("peak_memory", "no memory")


def _measure_peak(draft: Draft, kind: str, peak: float | None) -> None:
    if peak:
        measure_peak_in_mebibytes(
            draft,
            peak,
            kind=kind,
            raw=f"{peak:.2f}MiB",
            unit_reported="MiB",
            reason="largest line, first process; printed around the first iterations",
        )


_LINE: Final = re.compile(
    r"\biteration: (?P<step>\d{1,15}) / (?P<all>\d{1,15}) \| (?P<figures>consumed_tokens: .*)"
)
_FIGURE: Final = re.compile(r"(?P<name>\w{1,60}): (?P<value>[\d.]{1,30}(?:e[-+]?\d{1,3})?[A-Z]?)")
_LETTERS: Final = {"": 0, "K": 1, "M": 2, "G": 3, "B": 3, "T": 4, "P": 5, "E": 6}
_SAMPLES: Final = "elapsed_time_per_iteration_ms"
_TIMES: Final = (_SAMPLES, "time_per_iteration_ms")
_DIGITS: Final = 3


@dataclass(frozen=True)
class Figure:
    """A figure as written, and what it may be: its value within half of its third digit."""

    raw: str
    value: float
    half: float

    @property
    def low(self) -> float:
        """The least that is written so."""
        return self.value - self.half

    @property
    def high(self) -> float:
        """The most that is written so."""
        return self.value + self.half


@dataclass(frozen=True)
class _NanotronIteration:
    """One line: its iteration, how many there are to be, and its figures by name."""

    step: int
    all: int
    figures: Mapping[str, Figure]

    @property
    def milliseconds(self) -> Figure:
        """The time of the iteration."""
        return next(self.figures[name] for name in _TIMES if name in self.figures)

    @property
    def samples(self) -> int | None:
        """Samples of the iteration, where the batch is written in these and not in tokens."""
        batch = self.figures.get("global_batch_size") if _SAMPLES in self.figures else None
        return int(batch.value) if batch and batch.value and batch.half <= 1 else None


def _read_iterations(lines: Sequence[str]) -> list[_NanotronIteration]:
    """Return the lines of iterations that have a time and tokens per second."""
    return list(_iterations(lines))


def _iterations(lines: Sequence[str]) -> Iterator[_NanotronIteration]:
    for line in lines:
        found = _LINE.search(line)
        figures = _parse_figures(found["figures"]) if found else {}
        times = [figures[name].value for name in _TIMES if name in figures]
        if found and times and times[0] > 0 and "tokens_per_sec" in figures:
            yield _NanotronIteration(int(found["step"]), int(found["all"]), figures)


def _parse_figures(text: str) -> dict[str, Figure]:
    """Return the figures between bars; what is no number, such as ``eta``, is left out."""
    found = (_FIGURE.fullmatch(part.strip()) for part in text.split("|"))
    parsed = {match["name"]: parse_figure(match["value"]) for match in found if match}
    return {name: figure for name, figure in parsed.items() if figure is not None}


def parse_figure(text: str) -> Figure | None:
    """Return a number with its letter as three digits of it, or None.

    >>> parse_figure("11.5K")
    Figure(raw='11.5K', value=11500.0, half=50.0)
    >>> parse_figure("1.2Q"), parse_figure("1.2.3")
    (None, None)
    """
    letter = text[-1] if text[-1].isalpha() else ""
    number = number_of(text.removesuffix(letter))
    if number is None or letter not in _LETTERS:
        return None
    value = float(number) * 1000.0 ** _LETTERS[letter]
    half = 10.0 ** (floor(log10(value)) - _DIGITS + 1) / 2 if value > 0 else 0.0
    return Figure(text, value, half)


def _count_gpus(steps: Sequence[_NanotronIteration]) -> int | None:
    """Return the GPUs by which all rates of one are those of all, if only one number does."""
    pairs = [
        (step.figures["tokens_per_sec"], step.figures["tokens_per_sec_per_gpu"])
        for step in steps
        if "tokens_per_sec_per_gpu" in step.figures
    ]
    if not pairs or any(one.low <= 0 for _, one in pairs):
        return None
    fewest = ceil(max(whole.low / one.high for whole, one in pairs))
    most = floor(min(whole.high / one.low for whole, one in pairs))
    return fewest if fewest == most > 0 else None
