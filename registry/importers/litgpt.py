"""LitGPT and Lit-GPT: a line for each iteration, then the time, the tokens and the memory.

An iteration is a micro-batch of one process; the line of one that ends an optimizer step says so.
The time at the end holds validations, samples of text and checkpoints; tokens are those of all
processes, padding included. "GB" is 1e9, the peak is that of the first process.
"""

from __future__ import annotations

import re
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import LogImporter, state_end, validate_growing
from registry.importers.shared.readings import first_values
from registry.importers.shared.shapes import whole_of
from registry.importers.shared.totals import half_width
from registry.importers.shared.training_arguments import (
    DTYPES,
    state_lora_sizes,
    state_quantization,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,15})?"
_STEP: Final = re.compile(
    rf"\biter +(?P<iter>\d{{1,15}})(?: \|)? +st[eE]p +(?P<step>\d{{1,15}})\b.{{0,40}}?\bloss"
    rf"(?: train)?(?: \(curr\))?:? +(?P<loss>{_NUMBER}|nan).{{0,100}}?"
    rf"\biter time: +(?P<ms>{_NUMBER}) ?ms(?P<whole> \([a-z.]{{0,12}}step\))?"
)
_TIME: Final = re.compile(rf"\bTraining [tT]ime *: +(?P<seconds>{_NUMBER}) ?s\b")
_MEMORY: Final = re.compile(rf"\bMemory [uU]sed *: +(?P<peak>{_NUMBER}) GB\b")
_RATE: Final = re.compile(rf"\| - Tok/sec *: +(?P<rate>{_NUMBER}) tok/s")
_TOKENS: Final = re.compile(r"\| - Total Tokens \(w/ Padding\) *: +(?P<tokens>\d{1,15})\b")
_TRAINABLE: Final = re.compile(r"Number of trainable parameters: (?P<n>\d[\d,]{0,20})")
_LENGTH: Final = re.compile(r"the model's maximum sequence length is (?P<length>\d{1,9})\b")
_VALIDATION: Final = re.compile(rf"\bval loss:? (?P<loss>{_NUMBER}), val time: (?P<ms>{_NUMBER})")
#: The arguments, as LitGPT prints them before it trains; Lit-GPT of 2023 had others.
_SETTING: Final = re.compile(
    r"(?P<name>checkpoint_dir|devices|num_nodes|precision|quantize|lora_r|lora_alpha|lora_dropout"
    r"|micro_batch_size|global_batch_size|gradient_accumulation_iters|epochs|max_steps)'?[:=] ?"
    r"(?:PosixPath\()?'?(?P<value>[^\s',)]{1,300})"
)
_COUNTS: Final = {
    "micro_batch_size": "micro_batch_size",
    "global_batch_size": "global_batch_size",
    "gradient_accumulation_iters": "grad_accum_steps",
}
#: The weights, as Lit-GPT prints them where it prints no checkpoint_dir.
_WEIGHTS: Final = re.compile(r"Loading model '(?P<folder>[^']{1,300})/lit_model\.pth'")
_BITS: Final = {"nf4": 4, "fp4": 4, "int8": 8}
_GIGABYTE: Final = 10**9


class LitgptImporter(LogImporter):
    """Reads a console log of LitGPT."""

    name = "litgpt"
    what = "a LitGPT log"
    expects = (
        "a console log with lines such as `Epoch 1 | iter 2 step 1 | loss train: 1.6, val: n/a | "
        "iter time: 548.72 ms (step)`, or the report at its end (`| - Tok/sec : …`)"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize an iteration, or the report at the end."""
        return any(_STEP.search(line) or _RATE.search(line) for line in lines)

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        lines = log.document
        steps = [found for line in lines for found in _STEP.finditer(line)]
        validate_growing(int(step["iter"]) for step in steps)
        draft = Draft(environment={"framework": "litgpt"})
        _state_settings(draft, lines, options)
        _measure_steps(draft, steps)
        _measure_end(draft, lines)
        validations = [found for line in lines if (found := _VALIDATION.search(line))]
        if validations:
            draft.flags.add("includes_evaluation")
            draft.measure("eval_loss", validations[-1]["loss"], statistic="last")
            seconds = sum(float(found["ms"]) for found in validations) / 1000
            draft.measure("eval_time", seconds, statistic="sum")
        draft.lacks["gpu_id"] = "no accelerator; state it"
        draft.cite(log)
        return draft


def _first(pattern: re.Pattern[str], lines: Sequence[str]) -> re.Match[str] | None:
    return next((found for line in lines if (found := pattern.search(line))), None)


def _state_settings(draft: Draft, lines: Sequence[str], options: ImportOptions) -> None:
    """State the arguments; those of a merge, which follow the training, are none of it."""
    end = next((i for i, line in enumerate(lines) if _TIME.search(line)), len(lines))
    said = first_values(_SETTING, lines[:end])
    weights = _first(_WEIGHTS, lines[:end])
    names = [said.get("checkpoint_dir", "").rstrip("/"), weights and weights["folder"]]
    state_model(draft, names, options)
    if "lora_r" in said:
        draft.state("method", "lora", "lora_r in the arguments")
        state_lora_sizes(draft, said, whole_of(said["lora_r"]), None)
    for name, column in _COUNTS.items():
        draft.state(column, whole_of(said.get(name, "")))
    planned = whole_of(said.get("max_steps", ""))
    draft.state("n_steps", planned)
    draft.state("n_epochs", None if planned else whole_of(said.get("epochs", "")))
    nodes, devices = (whole_of(said.get(name, "")) for name in ("num_nodes", "devices"))
    draft.state("n_gpus", devices and devices * (nodes or 1), "devices x num_nodes")
    _state_types(draft, said)
    length, trainable = _first(_LENGTH, lines), _first(_TRAINABLE, lines)
    if length:
        draft.state("seq_len", int(length["length"]))
        draft.state("length_distribution", "variable", "LitGPT pads to the longest of each batch")
    draft.measure("trainable_params", trainable and trainable["n"].replace(",", ""))


def _state_types(draft: Draft, said: Mapping[str, str]) -> None:
    dtype, _, kept = said.get("precision", "").partition("-")
    draft.state("compute_dtype", DTYPES.get(dtype, {"16": "fp16", "32": "fp32"}.get(dtype)))
    if kept == "true":
        draft.state("param_dtype", draft.configuration.get("compute_dtype"))
    kind = said.get("quantize", "").removeprefix("bnb.").partition("-")
    state_quantization(
        draft, method=None, bits=_BITS.get(kind[0]), kind=kind[0], double=kind[2] == "dq"
    )


def _measure_steps(draft: Draft, steps: Sequence[re.Match[str]]) -> None:
    """Add the time of a step where all its micro-batches have their line, the first left out."""
    if not steps:
        return
    draft.measure("train_loss", steps[-1]["loss"], statistic="last")
    draft.measure("n_steps", int(steps[-1]["step"]))
    whole = list(_whole_steps(steps))
    sizes = {len(parts) for parts in whole}
    if len(sizes) != 1:
        draft.missing.append("no time of a step: not all of its micro-batches have a line")
        return
    accumulated = sizes.pop()
    draft.state("grad_accum_steps", accumulated, "iterations between the optimizer's steps")
    seconds = median(sum(parts) for parts in whole) / 1000
    reason = f"of {len(whole)} steps, the first left out; their {accumulated} iterations together"
    draft.derive("step_time", seconds, reason, statistic="median")


def _whole_steps(steps: Sequence[re.Match[str]]) -> Iterator[list[float]]:
    """Yield the milliseconds of the micro-batches of each step, where all of them have a line."""
    ends = [i for i, step in enumerate(steps) if step["whole"]]
    for before, after in pairwise(ends):
        first, last = steps[before], steps[after]
        n_steps, n_iterations = (int(last[name]) - int(first[name]) for name in ("step", "iter"))
        if n_steps == n_iterations:  # a step is one micro-batch
            yield [float(last["ms"])]
        elif n_steps == 1 and n_iterations == after - before:
            yield [float(step["ms"]) for step in steps[before + 1 : after + 1]]


def _measure_end(draft: Draft, lines: Sequence[str]) -> None:
    """Add the totals; memory that is printed before them is that of another program."""
    time = _first(_TIME, lines)
    if time is None:
        draft.missing.append("no total time and no memory: the log does not reach the end")
        state_end(draft, lines, _STEP.search, "the log does not say that the training ended")
        return
    draft.measure(
        "total_time",
        time["seconds"],
        raw=time["seconds"],
        unit_reported="s",
        reason="validations, samples of text and checkpoints included",
    )
    tokens, rate, peak = (_first(pattern, lines) for pattern in (_TOKENS, _RATE, _MEMORY))
    draft.measure("n_tokens", tokens and tokens["tokens"], reason="of all processes, padding too")
    if rate:
        reason = "tokens of all processes, padding too, in the whole time"
        draft.measure("tokens_per_second", rate["rate"], raw=rate["rate"], reason=reason)
    if peak is None:
        draft.missing.append("no memory")
        return
    value, half = float(peak["peak"]), half_width(peak["peak"])
    draft.measure_process(
        "peak_memory",
        value * _GIGABYTE,
        low=(value - half) * _GIGABYTE,
        high=(value + half) * _GIGABYTE,
        kind="allocated",
        raw=f"{peak['peak']} GB",
        unit_reported="GB",
        reading="GB",
        reason="LitGPT divides by 1e9; of the first process, loading included",
    )
