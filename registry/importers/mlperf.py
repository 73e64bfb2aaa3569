"""MLPerf training: ``:::MLLOG`` result logs, with the JSON that describes the system.

A log has a clock and the samples of all accelerators together; the system's JSON has the hardware.
The ten logs of a system are ten runs of one configuration.
"""

from __future__ import annotations

import json
import re
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.shapes import count_of, number_of, section_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

Event = dict[str, Any]

_MARK: Final = ":::MLLOG "

#: Benchmarks of language models: model, method, objective, and the length that the rules set.
_BENCHMARKS: Final = {
    "llama2_70b_lora": ("llama-2-70b", "lora", "sft", 8192),
    "llama31_8b": ("llama-3.1-8b", "full", "pretrain", 8192),
    "llama31_405b": ("llama-3.1-405b", "full", "pretrain", 8192),
    "gpt3": ("gpt3-175b", "full", "pretrain", 2048),
    "bert": ("bert-large-uncased", "full", "pretrain", 512),
}
_SETTINGS: Final = {
    "global_batch_size": "global_batch_size",
    "gradient_accumulation_steps": "grad_accum_steps",
    "lora_rank": "lora_rank",
    "lora_alpha": "lora_alpha",
    "train_samples": "n_samples",
}


class MlperfImporter:
    """Reads result logs of MLPerf training."""

    name = "mlperf"
    is_single_file = False
    expects = "a log of MLPerf training, with lines that begin with :::MLLOG"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize lines with MLPerf's mark."""
        return [file for file in files if file.kind == "text" and any(_events(file.document[:50]))]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the runs of some logs, with the system that they were run on."""
        logs = self.main_files(files)
        systems = [file for file in files if {"submitter", "accelerator_model_name"} <= file.keys]
        drafts = []
        for log in logs:
            events = list(_events(log.document))
            draft = Draft(provenance={"benchmark": "MLPerf training"})
            _state_run(draft, events)
            for system in _systems_of(log, events, systems):
                _state_system(draft, system.document, options)
            draft.lacks.setdefault(
                "gpu_id", "no accelerator; add the JSON of the system beside the log, or state it"
            )
            _measure_events(draft, events)
            draft.cite(log)
            drafts.append(draft)
        what = "an MLPerf result" if len(logs) == 1 else f"{len(logs)} MLPerf results"
        used = [*logs, *systems]
        return import_drafts(self.name, what, used, drafts, options, kind="benchmark")


def _systems_of(
    log: RunFile, events: Sequence[Event], systems: Sequence[RunFile]
) -> Sequence[RunFile]:
    """Return the description of the system that a log is of, by its folder or by what it says.

    MLPerf's rules name the folder of a system's logs, below its submitter's, as its description;
    what a log itself calls the system may be a word that nobody filled in.
    """
    named = [file for file in systems if file.path.stem == log.path.parent.name]
    owners = log.path.parent.parent.name
    owned = [file for file in named if file.path.parent.name == owners]
    platform = _value(events, "submission_platform")
    said = [file for file in systems if file.document.get("system_name") == platform]
    return (owned or named or said or (systems if len(systems) == 1 else []))[:1]


def _events(lines: Sequence[str]) -> Iterator[Event]:
    for line in lines:
        _, mark, text = line.partition(_MARK)
        if not mark:
            continue
        try:
            event = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(event, dict) and isinstance(event.get("key"), str):
            yield event


def _value(events: Sequence[Event], key: str) -> Any:
    return next((event.get("value") for event in events if event["key"] == key), None)


def _state_run(draft: Draft, events: Sequence[Event]) -> None:
    name = str(_value(events, "submission_benchmark"))
    draft.observation["model_reported"] = name
    if name in _BENCHMARKS:
        model, method, objective, length = _BENCHMARKS[name]
        draft.state("model_id", model, f"the benchmark {name}")
        draft.state("method", method, f"the benchmark {name}")
        draft.state("objective", objective, f"the benchmark {name}")
        draft.state("seq_len", length, "the rules of the benchmark")
        draft.state("length_distribution", "full", "the rules of the benchmark: packed sequences")
    for key, column in _SETTINGS.items():
        number = number_of(_value(events, key))
        draft.state(column, int(number) if number is not None else None)
    seed, division = (_value(events, key) for key in ("seed", "submission_division"))
    draft.observation["run_id"] = f"seed {seed}" if seed is not None else None
    draft.provenance |= {"submitter": _value(events, "submission_org"), "division": division}


# The JSON in which a submitter of MLPerf describes a system; its values are free text.


def _state_system(draft: Draft, system: Mapping[str, Any], options: ImportOptions) -> None:
    """State the hardware and the software that the description of a system has."""
    name = re.sub(r"\s+\(.*", "", str(system["accelerator_model_name"]))
    inside = re.search(r"\((.*)\)", str(system["accelerator_model_name"]))
    names = [str(system["accelerator_model_name"]), *([inside[1]] if inside else []), name]
    found = next((gpu for each in names if (gpu := _resolve(each, options))), None)
    draft.state("gpu_id", found, f"the system's accelerator: {system['accelerator_model_name']}")
    if found is None:
        draft.lacks["gpu_id"] = f"accelerator {name!r} is not in the catalogue"
    nodes, cards = (_count(system.get(key)) for key in ("number_of_nodes", "accelerators_per_node"))
    draft.state("n_nodes", nodes)
    draft.state("gpus_per_node", cards)
    if nodes and cards:
        draft.state("n_gpus", nodes * cards, "nodes x accelerators of a node")
    stack = system.get("other_software_stack")
    stack = stack[0] if isinstance(stack, list) and stack else stack
    for key, column in (
        ("cuda_version", "cuda_version"),
        ("cuda_driver_version", "driver_version"),
        ("nccl_version", "nccl_version"),
    ):
        version = section_of({"stack": stack}, "stack").get(key)
        if isinstance(version, str) and version:
            draft.environment[column] = version
    for key, column in (("operating_system", "os"), ("host_processor_model_name", "cpu")):
        draft.environment[column] = str(system.get(key) or "") or None
    draft.environment = {key: value for key, value in draft.environment.items() if value}
    draft.provenance["framework"] = system.get("framework")


def _resolve(name: str, options: ImportOptions) -> str | None:
    """Return the card of a name, also one that goes on with its memory or its cooling."""
    words = name.replace(",", " ").split()
    ends = range(len(words), 0, -1)
    return next(
        (gpu for end in ends if (gpu := options.catalogue.resolve_gpu(" ".join(words[:end])))), None
    )


def _count(value: Any) -> int | None:
    number = number_of(value)
    return count_of(int(number)) if number is not None else None


# Figures of an MLPerf log: its clock, its statistics, its last evaluation.

_OUTCOMES: Final = {"success": "ok", "aborted": "interrupted"}
#: Events of statistics, the metric they hold, and what is said of them.
_RATES: Final = (
    ("throughput", "samples_per_second", "blocks; all accelerators, evaluation left out"),
    ("train_step_time", "step_time", "blocks; mean of a block's steps"),
    ("train_step_timing in s", "step_time", "steps"),
)


def _measure_events(draft: Draft, events: Sequence[Event]) -> None:
    """Add the time, the rates and the loss that the events of a log hold."""
    times = {event["key"]: number_of(event.get("time_ms")) for event in events}
    start, stop = times.get("run_start"), times.get("run_stop")
    if start is not None and stop is not None and stop > start:
        status = next(
            section_of(e, "metadata").get("status") for e in events if e["key"] == "run_stop"
        )
        draft.observation["outcome"] = _OUTCOMES.get(str(status), "unknown")
        draft.flags.add("includes_evaluation")
        reason = "run_stop - run_start; evaluations included, initialization left out"
        draft.derive("total_time", (stop - start) / 1000, reason)
    else:
        draft.leave_open("the log has no run_start and run_stop")
        draft.missing.append("no total time: the log has no run_start and run_stop")
    losses = [
        event.get("value") for event in events if event["key"] in ("eval_loss", "eval_accuracy")
    ]
    draft.measure("eval_loss", losses[-1] if losses else None, reason="last evaluation")
    counts = (count_of(section_of(event, "metadata").get("samples_count")) for event in events)
    draft.measure("n_samples", max((count for count in counts if count), default=None))
    _measure_rates(draft, events)
    draft.missing.append("no memory: MLPerf logs hold none")


def _measure_rates(draft: Draft, events: Sequence[Event]) -> None:
    for key, metric, said in _RATES:
        values = [
            rate
            for event in events
            if event["key"] == "tracked_stats"
            and (rate := number_of(section_of(event, "value").get(key)))
        ]
        if not values:
            continue
        value, reason = median(values), f"of {len(values)} {said}"
        if key == "throughput" and draft.observation.get("model_reported") == "gpt3":
            reason += "; GPT-3's logs count tokens under this name"
            draft.measure("tokens_per_second", value, statistic="median", reason=reason)
        else:
            draft.measure(metric, value, statistic="median", reason=reason)
