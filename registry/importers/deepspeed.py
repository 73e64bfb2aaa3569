"""DeepSpeed: the lines that its engine prints while it trains, DeepSpeed-Chat's included."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.deepspeed_figures import CLOCK_SLACK, Lines, measure_lines, read_lines
from registry.importers.deepspeed_timer import find_accumulation
from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import OUT_OF_MEMORY, LogImporter
from registry.importers.shared.micro_batches import accumulation_of
from registry.importers.shared.readings import first_values
from registry.importers.shared.shapes import number_of, whole_of
from registry.importers.shared.training_arguments import state_lora_sizes, state_training_arguments
from registry.importers.trainer_log_progress import TOTALS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

#: Settings as the engine prints its configuration.
_SETTING: Final = re.compile(
    r"(?<!\w)(?P<name>train_micro_batch_size_per_gpu|gradient_accumulation_steps|train_batch_size|"
    r"world_size|zero_optimization_stage|bfloat16_enabled|fp16_enabled)"
    r"\"?(?: *\.{2,}|:| =| {2}) *(?P<value>\w+)"
)
_VERSION: Final = re.compile(r"DeepSpeed info: version=(?P<version>\d[\w.]*)")
_COMMAND: Final = re.compile(r"\bcmd = .*\.py ")
_ARGUMENT: Final = re.compile(r" --(?P<key>\w+)(?:[ =](?!--)(?P<value>\S+))?")
#: A process that the launcher saw to its end.
_ENDED: Final = re.compile(r"launch\.py.*Process \d+ exits successfully")

#: Arguments of DeepSpeed-Chat that are Hugging Face's under another name.
_NAMES: Final = {
    "actor_model_name_or_path": "model_name_or_path",
    "per_device_training_batch_size": "per_device_train_batch_size",
    "actor_zero_stage": "zero_stage",
    "actor_lora_dim": "lora_dim",
    "actor_gradient_checkpointing": "gradient_checkpointing",
}


class DeepspeedImporter(LogImporter):
    """Reads a console log of DeepSpeed."""

    name = "deepspeed"
    what = "a DeepSpeed log"
    expects = (
        "a console log with DeepSpeed's lines of speed (SamplesPerSec, or those of DeepSpeed-Chat)"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize the engine's line of speed, or DeepSpeed-Chat's, without a Trainer's totals."""
        return read_lines(lines).is_training and not any(map(TOTALS.search, lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        draft = Draft(environment={"framework": "deepspeed"})
        lines = read_lines(log.document)
        command = _parse_command(log.document)
        state_engine(draft, log.document)
        _state_command(draft, command, options)
        _state_end(draft, log.document)
        _state_accumulation(draft, lines, log.document)
        measure_lines(draft, lines, options)
        _state_gpus(draft, lines, options)
        draft.missing.append("no total time")
        draft.cite(log)
        return draft


def _state_end(draft: Draft, lines: Sequence[str]) -> None:
    if any(map(OUT_OF_MEMORY.search, lines)):
        draft.observation["outcome"] = "oom"
    elif not any(map(_ENDED.search, lines)):
        draft.leave_open("the log does not say whether the run went to its end")


def state_engine(draft: Draft, lines: Sequence[str]) -> None:
    """State the version of the engine, and its configuration as it prints it."""
    said = first_values(_SETTING, lines)
    for line in lines:
        version = _VERSION.search(line)
        if version:
            draft.environment["deepspeed_version"] = version["version"].rstrip(".,")
    for key, column in (
        ("train_micro_batch_size_per_gpu", "micro_batch_size"),
        ("gradient_accumulation_steps", "grad_accum_steps"),
        ("train_batch_size", "global_batch_size"),
        ("world_size", "n_gpus"),
    ):
        draft.state(column, whole_of(said.get(key)))
    flags = {
        "bf16": said.get("bfloat16_enabled") == "True",
        "fp16": said.get("fp16_enabled") == "True",
    }
    state_training_arguments(draft, {**flags, **_sharding(said.get("zero_optimization_stage"))})


def _sharding(stage: str | None) -> dict[str, Any]:
    return {"deepspeed": {"zero_optimization": {"stage": whole_of(stage)}}} if stage else {}


def _parse_command(lines: Sequence[str]) -> dict[str, Any]:
    """Return the arguments of the command that the launcher prints, numbers as such."""
    command = next((line for line in lines if _COMMAND.search(line)), "")
    found = {match["key"]: match["value"] or True for match in _ARGUMENT.finditer(command)}
    numbers = {
        _NAMES.get(key, key): whole_of(value) or number_of(value) or value
        for key, value in found.items()
    }
    return {key: value for key, value in numbers.items() if key != "deepspeed"}


def _state_command(draft: Draft, command: Mapping[str, Any], options: ImportOptions) -> None:
    """State what the command says; the adapters' size is an argument of DeepSpeed-Chat's own."""
    state_model(draft, [command.get("model_name_or_path")], options)
    stage = str(command.get("zero_stage", ""))
    state_training_arguments(draft, {**command, **_sharding(stage)})
    draft.state("seq_len", command.get("max_seq_len"))
    if command.get("lora_dim"):
        draft.state("method", "lora", "--lora_dim in the command")
        state_lora_sizes(draft, command, command["lora_dim"], None)
    elif "zero_stage" in command:
        draft.state("method", "full", "a command of DeepSpeed-Chat without --lora_dim")


def _state_accumulation(draft: Draft, lines: Lines, document: Sequence[str]) -> None:
    """State the micro-batches of a step as the counts of the lines tell them."""
    if lines.timers and not lines.rounds:  # in RLHF two engines print into one another
        found = find_accumulation(document, lines.timers[-1])
        if found is not None:
            draft.state("grad_accum_steps", *found)


def _state_gpus(draft: Draft, lines: Lines, options: ImportOptions) -> None:
    """State the cards by the batch of a step, which rate and clock give where nothing says it."""
    micro = draft.configuration.get("micro_batch_size")
    batch = lines.batch_by_clock()
    if "n_gpus" in draft.configuration or not isinstance(micro, int) or batch is None:
        return
    accumulated = accumulation_of(draft, options)
    if not lines.timers[-1].is_of_steps:
        each, what = micro, "micro-batch"
    elif accumulated:
        each, what = micro * accumulated, "step"
    else:
        return
    n_gpus = round(batch / each)
    if n_gpus and abs(batch - n_gpus * each) < CLOCK_SLACK * n_gpus * each:
        reason = f"samples/s x seconds of a {what} by the log's clock: {batch:.1f} samples"
        if accumulated:
            draft.state("global_batch_size", n_gpus * micro * accumulated, reason)
        draft.state("n_gpus", n_gpus, f"{reason}, {each} on each")
