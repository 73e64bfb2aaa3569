"""What the lines of NVIDIA's scripts for BERT on SQuAD and for Transformer-XL mean."""

from __future__ import annotations

import re
from statistics import median
from typing import TYPE_CHECKING, Final

from registry.importers.shared.shapes import number_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.shared.draft import Draft

_BERT: Final = re.compile(
    r"e2e_train_time : (?P<seconds>\d{1,15}\.?\d{0,30}) +"
    r"training_sequences_per_second : (?P<rate>\d{1,15}\.?\d{0,30}) "
    r"+final_loss : (?P<loss>\d{1,15}\.?\d{0,30})"
)
_XL: Final = re.compile(r"^Training throughput: (?P<rate>\d{1,15}\.?\d{0,30}) tok/s")
_XL_TIME: Final = re.compile(r"^Training time: (?P<minutes>\d{1,15}\.?\d{0,30}) minutes")
_XL_STEP: Final = re.compile(
    r"\| ms/batch +(?P<milliseconds>\d{1,15}\.?\d{0,30}) \| tok/s +(?P<rate>\d{1,15}\.?\d{0,30})"
)
_PARAMS: Final = re.compile(r"^#params = (?P<count>\d{1,15})")
_SIZES: Final = {"512": "base", "1024": "large"}
#: More than the samples that SQuAD 1.1 makes at a length of 384, which are about 88,500.
_MOST_FEATURES: Final = 90_000
#: How far the tokens of a step may lie from a batch, by rounding.
_SLACK: Final = 0.02


def has_rate(line: str) -> bool:
    """Return whether a line is that with which a training ends."""
    return bool(_BERT.search(line) or _XL.match(line))


def measure_bert(draft: Draft, said: Mapping[str, str], lines: Sequence[str]) -> None:
    """Add the figures of BERT; ``--bert_model`` says large of both sizes, the configuration not."""
    size = "large" if any("bert_large" in line for line in lines) else "base"
    draft.state("model_id", f"bert-{size}-uncased", "the configuration file of the model")
    draft.state("seq_len", count_in(said, "max_seq_length"))
    accumulated = count_in(said, "gradient_accumulation_steps") or 1
    batch = count_in(said, "train_batch_size")
    draft.state("grad_accum_steps", accumulated)
    draft.state("micro_batch_size", batch // accumulated if batch else None)
    found = next((match for line in lines if (match := _BERT.search(line))), None)
    if found is None:
        return
    seconds = float(found["seconds"])
    draft.measure("total_time", seconds, raw=found["seconds"], unit_reported="s")
    draft.measure("train_loss", found["loss"])
    epochs = number_of(said.get("num_train_epochs")) or 1
    if float(found["rate"]) * seconds > _MOST_FEATURES * epochs:
        _leave_rate(draft, found["rate"], epochs)
        return
    reason = "all GPUs, the first steps included"
    draft.measure("samples_per_second", found["rate"], raw=found["rate"], reason=reason)
    steps = draft.configuration.get("n_steps")
    if steps:
        reason = f"{seconds:g} s / {steps} steps, the first included"
        draft.derive("step_time", seconds / steps, reason, statistic="mean")


def _leave_rate(draft: Draft, rate: str, epochs: float) -> None:
    """Leave out a rate of steps that were asked for, where the epochs ended before them."""
    draft.flags.add("figures_disagree")
    draft.provenance["rate_printed"] = rate
    steps = draft.configuration.pop("n_steps", None)
    draft.missing.append(
        f"no rate: it prints {rate} samples/s of {steps} steps, more than {epochs:g} epochs hold"
    )


def measure_xl(draft: Draft, said: Mapping[str, str], lines: Sequence[str]) -> None:
    """Add the figures of Transformer-XL, a model that is described by its count of parameters."""
    size = _SIZES.get(said.get("d_model", ""), said.get("d_model", "unknown"))
    model = f"transformer-xl-{size}-wt103"
    n_params = next((int(found["count"]) for line in lines if (found := _PARAMS.match(line))), None)
    described = {"model_id": model, "n_params": n_params, "source": "#params in the log"}
    draft.models = [{key: value for key, value in described.items() if value}]
    draft.state("model_id", model, "d_model of the log")
    draft.state("objective", "pretrain", "training from scratch")
    draft.state("weights", "random", "training from scratch")
    draft.state("seq_len", count_in(said, "tgt_len"))
    for line in lines:
        if found := _XL.match(line):
            reason = "all GPUs"
            draft.measure("tokens_per_second", found["rate"], raw=found["rate"], reason=reason)
        if found := _XL_TIME.match(line):
            minutes = float(found["minutes"])
            bounds = {"low": (minutes - 0.005) * 60, "high": (minutes + 0.005) * 60}
            said_so = {"raw": found["minutes"], "unit_reported": "min"}
            draft.measure("total_time", minutes * 60, **bounds, **said_so)
    steps = [found for line in lines if (found := _XL_STEP.search(line))]
    if steps and draft.has("tokens_per_second"):
        _measure_xl_steps(draft, said, steps)


def _measure_xl_steps(
    draft: Draft, said: Mapping[str, str], steps: Sequence[re.Match[str]]
) -> None:
    """Add the time of a step; tokens in it tell whether the batch is that of all GPUs."""
    seconds = median(float(found["milliseconds"]) for found in steps) / 1000
    reason = f"of {len(steps)} lines of ten steps"
    draft.measure("step_time", seconds, statistic="median", reason=reason)
    batch, length = count_in(said, "batch_size"), count_in(said, "tgt_len")
    tokens = median(float(found["rate"]) for found in steps) * seconds
    if batch and length and abs(tokens - batch * length) < _SLACK * tokens:
        reason = f"tok/s x seconds of a step: {tokens:.0f} tokens, {batch} x {length}"
        draft.state("global_batch_size", batch, reason)


def count_in(said: Mapping[str, str], key: str) -> int | None:
    """Return a count that an argument states, also as ``200.0``, or None."""
    return whole_of(said.get(key))
