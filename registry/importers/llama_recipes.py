"""llama-recipes (llama-cookbook): a progress bar for each epoch, its peaks, and the epoch's line.

The time of an epoch holds neither validation nor checkpoints. The bar counts optimizer steps, the
words before it batches. Peaks are those of the first process, in whole GiB, rounded down.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import TYPE_CHECKING, Final

from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import LogImporter, find_failure, validate_growing
from registry.importers.shared.readings import GIBIBYTE
from registry.importers.shared.shapes import whole_of
from registry.importers.shared.training_arguments import state_quantization

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import ImportOptions, RunFile

_NUMBER: Final = r"\d{1,15}(?:\.\d{1,20})?"
#: "epcoh" is how it was written in 2023.
_EPOCH: Final = re.compile(
    rf"\bEpoch (?P<epoch>\d{{1,6}}): train_perplexity=\S{{1,30}}, "
    rf"train_epoch_loss=(?P<loss>{_NUMBER})\S{{0,30}}, ep(?:och|coh) time (?P<seconds>{_NUMBER})s"
)
_BAR: Final = re.compile(
    r"\bTraining Epoch: (?P<epoch>\d{1,6})/(?P<all>\d{1,6}), step \d{1,15}/(?P<batches>\d{1,15}) "
    r"completed.{0,60}?\|[^|]{0,1000}\| *(?P<done>\d{1,15})/(?P<steps>\d{1,15}) \["
)
_PEAK: Final = re.compile(
    r"\b(?:Max CUDA memory (?P<kind>allocated|reserved)|Peak (?P<active>active) CUDA memory) was "
    r"(?P<peak>\d{1,6}) GB"
)
_EVALUATION: Final = re.compile(rf"\beval_epoch_loss=tensor\((?P<loss>{_NUMBER})")
_PARAMETERS: Final = re.compile(
    r"trainable params: (?P<trainable>[\d,]{1,25}) \|\| all params: (?P<all>[\d,]{1,25})"
)
_MODEL: Final = re.compile(r"^ *--> Model (?P<name>\S+) *$|--model_name[= ](?P<given>\S+)")
_SAMPLES: Final = re.compile(r"--> Training Set Length = (?P<n>\d{1,15})\b")
#: Arguments of the command, where the log shows it.
_ARGUMENT: Final = re.compile(
    r"--(?P<name>peft_method|batch_size_training|gradient_accumulation_steps|quantization)\b"
    r"(?:[= ](?P<value>\w{1,30}))?"
)
#: How it quantizes: without a word, or with the older ``True``, to 8 bits.
_BITS: Final = {"": 8, "True": 8, "8bit": 8, "4bit": 4}
_METHODS: Final = {"lora": "lora", "llama_adapter": "adaption_prompt", "prefix": "prefix_tuning"}


class LlamaRecipesImporter(LogImporter):
    """Reads a console log of llama-recipes."""

    name = "llama-recipes"
    what = "a llama-recipes log"
    expects = (
        "a console log with lines such as `Epoch 1: train_perplexity=5.38, train_epoch_loss=1.68, "
        "epoch time 12864.6s`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize the line of an epoch."""
        return any(map(_EPOCH.search, lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        lines = log.document
        epochs = [found for line in lines if (found := _EPOCH.search(line))]
        validate_growing(int(epoch["epoch"]) for epoch in epochs)
        bars = [found for line in lines for found in _BAR.finditer(line)]
        validate_growing(epoch for epoch, _ in groupby(int(bar["epoch"]) for bar in bars))
        draft = Draft(environment={"framework": "llama-recipes"})
        _state_settings(draft, lines, options)
        _state_end(draft, lines, epochs, bars)
        _measure_epochs(draft, epochs, bars)
        _measure_peaks(draft, lines)
        evaluated = [found["loss"] for line in lines if (found := _EVALUATION.search(line))]
        draft.measure("eval_loss", evaluated[-1] if evaluated else None, statistic="last")
        draft.lacks |= {"gpu_id": "no card", "n_gpus": "no number of cards"}
        draft.cite(log)
        return draft


def _state_settings(draft: Draft, lines: Sequence[str], options: ImportOptions) -> None:
    said = {
        found["name"]: found["value"] or "" for line in lines for found in _ARGUMENT.finditer(line)
    }
    names = [found["given"] or found["name"] for line in lines if (found := _MODEL.search(line))]
    state_model(draft, names, options)
    draft.state("method", _METHODS.get(said.get("peft_method", "")), "--peft_method in the command")
    draft.state("micro_batch_size", whole_of(said.get("batch_size_training", "")))
    draft.state("grad_accum_steps", whole_of(said.get("gradient_accumulation_steps", "")))
    bits = _BITS.get(said["quantization"]) if "quantization" in said else None
    state_quantization(draft, method="bitsandbytes", bits=bits, kind="nf4")
    for line in lines:
        if found := _SAMPLES.search(line):
            draft.state("n_samples", int(found["n"]))
        if (found := _PARAMETERS.search(line)) and not draft.has("n_params"):
            draft.measure("trainable_params", found["trainable"].replace(",", ""))
            draft.measure("n_params", found["all"].replace(",", ""))


def _state_end(
    draft: Draft,
    lines: Sequence[str],
    epochs: Sequence[re.Match[str]],
    bars: Sequence[re.Match[str]],
) -> None:
    done, planned = int(epochs[-1]["epoch"]), int(bars[-1]["all"]) if bars else None
    draft.state("n_epochs", planned)
    if planned is None:
        draft.leave_open("the log does not say how many epochs there were to be")
    elif done < planned:
        draft.leave_open(f"the log ends after epoch {done} of {planned}")
        draft.observation |= find_failure(lines, _EPOCH.search)


def _measure_epochs(
    draft: Draft, epochs: Sequence[re.Match[str]], bars: Sequence[re.Match[str]]
) -> None:
    """Add the time of the epochs, and of a step where each of them has its bar."""
    seconds = sum(float(epoch["seconds"]) for epoch in epochs)
    reason = f"of {len(epochs)} epochs, without validation and checkpoints"
    draft.measure("train_time", seconds, statistic="sum", reason=reason)
    draft.measure("train_loss", epochs[-1]["loss"], statistic="last", reason="of its last epoch")
    steps = {bar["epoch"]: int(bar["done"]) for bar in bars}
    if not all(steps.get(epoch["epoch"]) for epoch in epochs):
        draft.missing.append("no time of a step: not each epoch has its progress bar")
        return
    n_steps = sum(steps[epoch["epoch"]] for epoch in epochs)
    draft.measure("n_steps", n_steps)
    reason = f"{reason}: {seconds:g} s / {n_steps} steps"
    draft.derive("step_time", seconds / n_steps, reason, statistic="mean")
    accumulated = int(bars[-1]["batches"]) // max(int(bars[-1]["steps"]), 1)
    draft.state("grad_accum_steps", accumulated or None, "batches / steps of an epoch")


def _measure_peaks(draft: Draft, lines: Sequence[str]) -> None:
    found = [match for line in lines if (match := _PEAK.search(line))]
    for kind in ("allocated", "reserved", "active"):
        peaks = [int(match["peak"]) for match in found if kind in (match["kind"], match["active"])]
        if peaks:
            draft.measure_process(
                "peak_memory",
                max(peaks) * GIBIBYTE,
                low=max(peaks) * GIBIBYTE,
                high=(max(peaks) + 1) * GIBIBYTE,
                kind=kind,
                raw=f"{max(peaks)} GB",
                unit_reported="GB",
                reading="GiB",
                reason="divided by 2^30 and rounded down; largest epoch, first process",
            )
    if not found:
        draft.missing.append("no memory")
