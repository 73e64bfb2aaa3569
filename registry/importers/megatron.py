"""Megatron-LM, its relatives, NeMo and MindSpeed-LLM: a line for each iteration or ten.

What the lines of Megatron, Megatron-Bridge, GPT-NeoX, NeMo and MindSpeed-LLM mean.

Memory is divided by 2^20 where Megatron says MB, by 1e9 where Megatron-Bridge says gigabytes, by
2^30 where a HIP device is asked, ms-swift says GiB or MindSpeed-LLM says GB; NeMo prints bytes.
Rates are those of one GPU, but for the tokens of MindSpeed-LLM and the samples of GPT-NeoX, which
are those of all. A line
with two figures, ``13372.8/13364.7``, has that of its iterations first and the mean of the run
behind.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.deepspeed_figures import measure_deepspeed_peak, read_lines
from registry.importers.shared.draft import Draft
from registry.importers.shared.logs import OUT_OF_MEMORY, LogImporter, validate_growing
from registry.importers.shared.readings import choose_timed, figures_by_name, largest
from registry.importers.shared.shapes import whole_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

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
        return bool(_read_iterations(lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:  # noqa: ARG002 - a log says all
        """Return the run of a log."""
        steps = _read_iterations(log.document)
        validate_growing(step.step for step in steps)
        draft = Draft(environment={"framework": steps[0].framework})
        _state_arguments(draft, log.document, steps)
        _state_end(draft, log.document, steps[-1])
        _measure_speed(draft, steps)
        losses = [steps[-1].figures[name] for name in _LOSSES if name in steps[-1].figures]
        draft.measure("train_loss", losses[0] if losses else None, statistic="last")
        _measure_steps(draft, log.document, steps)
        _measure_memory(draft, log.document, steps)
        timers = read_lines(log.document).timers
        if timers and not draft.has("peak_memory"):
            measure_deepspeed_peak(draft, timers)
        draft.note_lack("peak_memory", "no memory")
        draft.cite(log)
        return draft


def _state_arguments(draft: Draft, lines: Sequence[str], steps: Sequence[_Iteration]) -> None:
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


def _state_end(draft: Draft, lines: Sequence[str], last: _Iteration) -> None:
    if any(map(OUT_OF_MEMORY.search, lines)):
        draft.observation["outcome"] = "oom"
    elif last.step < last.all and not any(map(_ENDED.search, lines)):
        draft.leave_open(f"the log ends at iteration {last.step} of {last.all}")


def _measure_steps(draft: Draft, lines: Sequence[str], steps: Sequence[_Iteration]) -> None:
    """Add the steps of the run; of one that went on, those since its checkpoint."""
    done = steps[-1].step + 1 - steps[-1].counts_from
    loaded = [int(found["step"]) for line in lines if (found := _LOADED.search(line))]
    if loaded and 0 < loaded[0] < done:
        draft.note_resumed(f"a checkpoint of iteration {loaded[0]} was loaded", done)
        done -= loaded[0]
    draft.measure("n_steps", done)


_ITERATION: Final = re.compile(
    r"\biteration:? +(?P<step>\d{1,15}) ?/ *(?P<all>\d{1,15}) *\|(?P<figures>.*)"
)
_FIGURE: Final = re.compile(
    r"\s*(?P<name>[A-Za-z][^:|=]*?)\s*[:=]\s*(?P<value>[-+0-9.eE]+)(?:/[-+0-9.eE]+)?(?:TFLOPS)?\s*(?:\||$)"
)
_NEMO: Final = "train step timing in s"
#: NeMo's bar, which is drawn again and again: its epoch, its steps and what stands behind them.
_BAR: Final = re.compile(
    r"Epoch (?P<epoch>\d{1,6}): {0,3}:? {1,4}\d{1,3}%\|[^|]{0,60}\| (?P<done>\d{1,12})/"
    r"(?P<all>\d{1,12}) \[[^\],]{1,40}"
    r"(?P<figures>, [^\]]{0,600}train_step_timing in s=[^\]]{1,300})"
)
#: What GPT-NeoX writes before the iteration.
_SAMPLES: Final = "samples/sec"
_NEOX: Final = re.compile(rf"\b{_SAMPLES}: (?P<rate>\d{{1,15}}\.?\d{{0,30}}) *\| *iteration ")
#: Megatron-Bridge's line before that of the iteration.
_BRIDGE: Final = re.compile(
    r"Step Time : [\d.]+s GPU utilization: (?P<tflops>\d{1,15}\.?\d{0,30})MODEL_TFLOP"
)
_MEMORY: Final = re.compile(
    r"memory \(MB\) \| allocated: [\d.]+ \| max allocated: (?P<allocated>\d{1,15}\.?\d{0,30}) \| "
    r"reserved: [\d.]+ \| max reserved: (?P<reserved>\d{1,15}\.?\d{0,30})"
)
_GIGABYTES: Final = {
    kind: re.compile(rf"\bmem-max-{kind}-gigabytes: (?P<{kind}>[\d.]+)")
    for kind in ("allocated", "reserved", "active")
}
#: ms-swift's trainer of Megatron, whose figure is the largest so far.
_SWIFT: Final = re.compile(r"\bmemory\(GiB\): (?P<reserved>\d{1,15}\.?\d{0,30})")
#: MindSpeed-LLM's trainer of FSDP2, whose figures are the largest of all processes so far.
_MINDSPEED: Final = {
    kind: re.compile(rf"\bmax_memory_{kind}\(GB\): (?P<{kind}>\d{{1,15}}\.?\d{{0,30}})")
    for kind in ("allocated", "reserved")
}
_HIP: Final = re.compile(r"hip mem usage/free/total/usage_ratio: (?P<device>\d{1,15}\.?\d{0,30})GB")

#: Names of an iteration's seconds, and what one of them is.
_SECONDS: Final = {
    "elapsed time per iteration (ms)": 1e-3,
    "elapsed time per iteration ms": 1e-3,
    "elapsed time per iteration (s)": 1,
    _NEMO: 1,
}
#: Rates of a line: their names, the metric, and what one of them is.
_RATES: Final = (
    (
        (
            "throughput per GPU (TFLOP/s/GPU)",
            "TFLOPS per GPU",
            "TFLOPs",
            "approx flops per GPU",
            "bridge",
        ),
        "flops_per_second",
        10**12,
    ),
    (
        (
            "tokens per sec per gpu",
            "tokens per gpu per second (tgs)",
            "tokens per GPU (tokens/s/GPU)",
        ),
        "tokens_per_second",
        1,
    ),
)
#: NeMo's names of memory in bytes, and the kinds they are.
_BYTES: Final = {
    "peak memory usage": "allocated",
    "max memory allocated": "allocated",
    "max memory reserved": "reserved",
}
#: Iterations at the start of a run that compile and warm up.
_WARMUP: Final = 3


@dataclass(frozen=True)
class _Iteration:
    """One line: its last iteration, how many there are to be, seconds of one, further figures."""

    step: int
    all: int
    seconds: float
    figures: Mapping[str, float]

    @property
    def framework(self) -> str:
        """What prints such a line."""
        if "max memory allocated(GB)" in self.figures:
            return "mindspeed-llm"
        if _SAMPLES in self.figures:
            return "gpt-neox"
        return "nemo" if _NEMO in self.figures else "megatron-lm"

    @property
    def counts_from(self) -> int:
        """0 where the first iteration is 0, as NeMo has it."""
        return 0 if _NEMO in self.figures else 1


def _read_iterations(lines: Sequence[str]) -> list[_Iteration]:
    """Return the lines of iterations that have a time, else the bars that have one."""
    return list(_iterations(lines)) or list(_bars(lines).values())


def _bars(lines: Sequence[str]) -> dict[int, _Iteration]:
    """Return what NeMo's bars say by their step, as each was drawn last."""
    found: dict[int, _Iteration] = {}
    for line in lines:
        for bar in _BAR.finditer(line) if "train_step_timing" in line else ():
            figures = _figures(bar["figures"].replace(",", "|"))
            of_epoch, done = int(bar["all"]), int(bar["done"])
            step = int(bar["epoch"]) * of_epoch + done - 1
            if figures.get(_NEMO, 0) > 0 and done:
                found.pop(step, None)  # a step that comes again goes to the end: of a restart
                found[step] = _Iteration(step, step - done + of_epoch, figures[_NEMO], figures)
    return found


def _iterations(lines: Sequence[str]) -> Iterator[_Iteration]:
    before: dict[str, float] = {}
    for line in lines:
        bridge = _BRIDGE.search(line)
        neox = _NEOX.search(line)
        if bridge:
            before = {"bridge": float(bridge["tflops"])}
        elif neox:
            before = {_SAMPLES: float(neox["rate"])}
        found = _ITERATION.search(line)
        figures = before | _figures(found["figures"]) if found else {}
        seconds = [figures[name] * unit for name, unit in _SECONDS.items() if name in figures]
        if found and seconds and seconds[0] > 0:
            yield _Iteration(int(found["step"]), int(found["all"]), seconds[0], figures)
            before = {}


def _figures(text: str) -> dict[str, float]:
    found = figures_by_name(_FIGURE, text)
    return {name.replace("_", " "): value for name, value in found.items()}


def _measure_speed(draft: Draft, steps: Sequence[_Iteration]) -> None:
    """Add the time of an iteration and the rates beside it, without those that warm up."""
    timed, said = choose_timed(draft, steps, _steady(steps))
    seconds = median(step.seconds for step in timed)
    draft.measure("step_time", seconds, statistic="median", reason=said)
    batch = steps[-1].figures.get("global batch size")
    if batch:
        draft.state("global_batch_size", int(batch))
        draft.derive("samples_per_second", batch / seconds, "global batch / time of an iteration")
    for names, metric, scale in _RATES:
        rates = [step.figures[name] for step in timed for name in names if name in step.figures]
        if rates:
            value, reason = median(rates) * scale, f"{said}; per GPU"
            draft.measure_process(metric, value, statistic="median", reason=reason)
    samples = [step.figures[_SAMPLES] for step in timed if _SAMPLES in step.figures]
    if samples and not batch:
        reason = f"{said}; of all processes"
        draft.measure("samples_per_second", median(samples), statistic="median", reason=reason)
    tokens = [step.figures["tokens/s"] for step in timed if "tokens/s" in step.figures]
    if tokens and steps[-1].framework == "mindspeed-llm":
        reason = f"{said}; of all processes"
        draft.measure("tokens_per_second", median(tokens), statistic="median", reason=reason)


def _steady(steps: Sequence[_Iteration]) -> Sequence[_Iteration]:
    """Return the lines without warm-up, none of a log that has no others.

    A line of many iterations holds it all, one of one a part. A log that begins later, such as an
    excerpt, has left it out already.
    """
    first, interval = steps[0], steps[1].step - steps[0].step if len(steps) > 1 else 1
    is_start = first.step - first.counts_from < interval
    last_warm = max(first.step, _WARMUP + first.counts_from - 1) if is_start else -1
    return [step for step in steps if step.step > last_warm]


def _measure_memory(draft: Draft, lines: Sequence[str], steps: Sequence[_Iteration]) -> None:
    """Add the peaks that the log has: of several processes, that of the fullest."""
    patterns = [(_MEMORY, "MB", 2**20), (_HIP, "GB", 2**30), (_SWIFT, "GiB", 2**30)]
    patterns += [(pattern, "GB", 10**9) for pattern in _GIGABYTES.values()]
    patterns += [(pattern, "GB", 2**30) for pattern in _MINDSPEED.values()]
    for pattern, unit, size in patterns:
        found = [match.groupdict() for line in lines if (match := pattern.search(line))]
        for kind in pattern.groupindex:
            _measure_peak(draft, kind, largest(found, kind), unit, size)
    for name, kind in _BYTES.items():
        peak = largest((step.figures for step in steps), name)
        if peak:
            draft.measure_process("peak_memory", peak, kind=kind, unit_reported="B")


def _measure_peak(draft: Draft, kind: str, peak: float | None, unit: str, size: int) -> None:
    if peak:
        said = {"raw": f"{peak:g} {unit}", "unit_reported": unit, "kind": kind}
        reason = f"divided by {size:,}; the fullest of the processes that print it"
        draft.measure("peak_memory", peak * size, scope="max_gpu", reason=reason, **said)
