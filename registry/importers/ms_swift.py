"""ms-swift: ``logging.jsonl``, or the same entries on a console, with the run's ``args.json``."""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.logs import find_failure, parse_literal, printed_entries
from registry.importers.shared.readings import first_values, largest, measure_peak
from registry.importers.shared.segments import ProgressEntry, Segment, parse_clock, split_segments
from registry.importers.shared.shapes import number_of, whole_of
from registry.importers.shared.totals import is_total, measure_totals, sum_evaluations
from registry.importers.shared.training_arguments import (
    ATTENTION,
    DTYPES,
    OBJECTIVES,
    state_lora,
    state_quantization,
    state_training_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_STEP: Final = "global_step/max_steps"

_SPEEDS: Final = {"train_speed(iter/s)": "steps_per_second", "train_speed(s/it)": "step_time"}
_PARAMETERS: Final = re.compile(r"(?P<all>[\d.]+)M Params \((?P<trainable>[\d.]+)M Trainable")
_SIZE: Final = re.compile(r"size=(?P<size>\d+)")
_LONGEST: Final = re.compile(r"\bmax=(?P<longest>\d+)(?:\.0*)?(?=,|$)")


#: Where a console lists all arguments, one of them, and what is decided of them afterwards.
_ARGUMENTS: Final = re.compile(r"\bargs: \w{1,60}\(")
_ARGUMENT: Final = re.compile(
    r"\b(?P<name>[a-z]\w{0,60})=(?P<value>'[^']{0,300}'|\[[^\]]{0,500}\]|[^,\n]{0,300}?)"
    r"(?=,|\)|$)"
)
_DECIDED: Final = re.compile(r"\bSetting args\.(?P<name>\w{1,60}): (?P<value>\S{1,300})")
#: What a console says of data and parameters, by the name that the log's last line has for it.
_SUMMARY: Final = re.compile(
    r"\b(?P<name>Dataset Token Length|model_parameter_info): (?P<value>.{1,200})"
)
_WORLD: Final = re.compile(r"\bworld_size: (?P<n>\d{1,6})\b")
_FIRST_CARD: Final = "'device_map': 'cuda:0'"
_MOST_ARGUMENTS: Final = 1_000


class MsSwiftImporter:
    """Reads the log that ms-swift writes, whose numbers may be text."""

    name = "ms-swift"
    is_single_file = False
    expects = "a logging.jsonl (global_step/max_steps), or a console that prints its entries"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a log with the step and the steps in all as one text, or a console with it."""
        logs = [file for file in files if file.kind == "jsonl" and _entries(file)]
        return logs or [file for file in files if file.kind == "text" and _entries(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run in the log; of a log with restarts, the part that has the totals."""
        log, *others = self.main_files(files)
        if others and log.kind == "text":
            names = ", ".join(file.name for file in (log, *others))
            raise SubmissionError(f"several consoles next to each other ({names}); name one")
        entries = _entries(log)
        segments = split_segments(_progress(entries))
        has_loss = any("loss" in entry or is_total(entry) for _, entry in entries)
        if not has_loss and not any(segment.last.step for segment in segments):
            raise SubmissionError("no step of it has a loss; nothing was trained here")
        args = next((file for file in files if _is_args(file)), None)
        lines = log.document if log.kind == "text" else []
        settings = _printed_args(lines) if args is None else args.document
        draft = Draft(environment={"framework": "ms-swift"})
        if settings:
            _state_args(draft, settings, options)
        said = first_values(_SUMMARY, lines)
        if "Dataset Token Length" in said:
            said["train_dataset"] = said["Dataset Token Length"]
        _measure_log(draft, {**entries[-1][1], **said}, segments[-1])
        if log.kind == "text" and draft.observation.get("outcome") == "unknown":
            draft.observation |= find_failure(log.document, lambda line: _STEP in line)
        draft.cite(log, f"line {segments[-1].last.line}")
        if len(segments) > 1:
            draft.missing.append(f"{len(segments) - 1} earlier parts of a log with restarts")
        if not settings:
            draft.missing.append("no settings (args.json)")
        used = [log] if args is None else [log, args]
        return import_drafts(self.name, "an ms-swift run", used, [draft], options)


def _entries(file: RunFile) -> list[tuple[int, dict[str, Any]]]:
    """Return the entries of a log with their lines; none where it is no log of ms-swift."""
    if file.kind == "jsonl":
        is_log = any(_STEP in entry for entry in file.document[:5])
        return list(zip(file.lines, file.document, strict=True)) if is_log else []
    lines = file.document if file.kind == "text" else []
    printed = [(number, line) for number, line in enumerate(lines, 1) if _STEP in line]
    return [(number, entry) for number, line in printed for entry in printed_entries([line])]


_KINDS: Final = ("tuner_type", "train_type", "sft_type")


def _is_args(file: RunFile) -> bool:
    return not file.keys.isdisjoint(_KINDS) and "model" in file.keys


def _printed_args(lines: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that a console lists, on one line or on many; {} for none."""
    begun = next((at for at, line in enumerate(lines) if _ARGUMENTS.search(line)), len(lines))
    found: dict[str, Any] = {}
    for line in islice(lines, begun, begun + _MOST_ARGUMENTS):
        found |= {part["name"]: _parse(part["value"]) for part in _ARGUMENT.finditer(line)}
        if line.rstrip().endswith(")"):
            break
    if found.keys().isdisjoint(_KINDS):
        return {}
    decided = first_values(_DECIDED, lines)
    found |= {name: _parse(value) for name, value in decided.items() if found.get(name) is None}
    world = next((int(seen["n"]) for line in lines if (seen := _WORLD.search(line))), 0)
    # one process may use several cards, by a device_map
    if world > 1 or any(_FIRST_CARD in line for line in lines):
        found["global_world_size"] = world
    return found


def _parse(text: str) -> Any:
    """Return a value as Python prints it; what is none stays text."""
    return parse_literal(text, text.removeprefix("torch."))


def _progress(entries: Sequence[tuple[int, dict[str, Any]]]) -> Iterator[ProgressEntry]:
    for line, entry in entries:
        done, _, planned = str(entry.get(_STEP, "")).partition("/")
        if done.isdigit() and planned.isdigit():
            elapsed = parse_clock(str(entry.get("elapsed_time"))) or 0.0
            yield ProgressEntry(line, int(done), int(planned), elapsed, entry)


def _state_args(draft: Draft, args: Mapping[str, Any], options: ImportOptions) -> None:
    """State the settings; of the defaults that args.json lists, only those the method uses."""
    state_model(draft, [args.get("model"), args.get("model_type")], options)
    version = args.get("swift_version")
    if version:
        draft.environment["framework_version"] = str(version)
    kind = str(args.get("tuner_type") or args.get("train_type") or args.get("sft_type"))
    if kind == "lora":
        state_lora(draft, args, args.get("target_modules"))
    kind = "llama_pro" if kind == "llamapro" else kind
    draft.state("method", "galore" if args.get("use_galore") is True else kind)
    draft.state("objective", OBJECTIVES.get(str(args.get("rlhf_type") or _objective(args))))
    state_quantization(
        draft,
        method=args.get("quant_method"),
        bits=args.get("quant_bits"),
        kind=args.get("bnb_4bit_quant_type"),
        double=args.get("bnb_4bit_use_double_quant"),
    )
    dtype = DTYPES.get(str(args.get("torch_dtype")))
    draft.state("param_dtype", dtype)
    draft.state("seq_len", args.get("max_length"))
    for column in ("packing", "padding_free"):
        draft.state(column, args.get(column))
    draft.state("attention", ATTENTION.get(str(args.get("attn_impl"))))
    world = args.get("global_world_size")
    if isinstance(world, int) and world > 0:
        draft.state("n_gpus", world, "global_world_size")
    state_training_arguments(draft, args)


def _objective(args: Mapping[str, Any]) -> str | None:
    """Return what is trained for: without a word of reinforcement, a causal model is tuned."""
    return "sft" if args.get("task_type") == "causal_lm" and "rlhf_type" not in args else None


def _measure_log(draft: Draft, summary: Mapping[str, Any], segment: Segment) -> None:
    entries = [progress.entry for progress in segment.entries]
    totals = next((entry for entry in entries if is_total(entry)), None)
    last = segment.last
    draft.state("n_steps", last.total, f"{_STEP} of the log")
    if totals is not None:
        measure_totals(draft, totals, last.step, sum_evaluations(entries))
    else:
        draft.leave_open(segment.end)
        draft.missing.append(f"no total time: {segment.end}")
        draft.measure("n_steps", last.step)
        _measure_speed(draft, entries)
    _measure_memory(draft, entries)
    _measure_summary(draft, summary)
    _measure_longest(draft, summary, entries)


def _measure_speed(draft: Draft, entries: Sequence[Mapping[str, Any]]) -> None:
    """Add the last speed of a log without totals; recent versions write its inverse."""
    reason = "steps done / time since the start, evaluation included"
    for key, metric in _SPEEDS.items():
        speed = next((entry[key] for entry in reversed(entries) if number_of(entry.get(key))), None)
        if speed is not None:
            draft.measure(metric, speed, raw=str(speed), unit_reported=key, reason=reason)
    if any("eval_runtime" in entry for entry in entries):
        draft.flags.add("includes_evaluation")


def _measure_memory(draft: Draft, entries: Sequence[Mapping[str, Any]]) -> None:
    peak = largest(entries, "memory(GiB)")
    if peak is None:
        draft.missing.append("no memory")
        return
    measure_peak(
        draft,
        peak,
        scope="max_gpu",
        kind="reserved",
        raw=f"{peak:g}",
        unit_reported="GiB",
        reason="largest entry, first process: with a device_map, all of its cards",
    )


def _measure_summary(draft: Draft, summary: Mapping[str, Any]) -> None:
    """Add what the last line says of parameters and data."""
    found = _PARAMETERS.search(str(summary.get("model_parameter_info", "")))
    if found:
        for metric, group in (("trainable_params", "trainable"), ("n_params", "all")):
            value = round(float(found[group]) * 1e6)
            draft.measure(
                metric, value, low=value - 50, high=value + 50, raw=found[group], unit_reported="M"
            )
    size = _SIZE.search(str(summary.get("train_dataset", "")))
    if size:
        draft.state("n_samples", int(size["size"]))


def _measure_longest(
    draft: Draft, summary: Mapping[str, Any], entries: Sequence[Mapping[str, Any]]
) -> None:
    """Add the longest sample's tokens, where it is a sequence and longer ones were allowed.

    Not of a run over a part of the data, in which the longest sample need not be.
    """
    epochs = [float(n) for entry in entries if (n := number_of(entry.get("epoch"))) is not None]
    found = _LONGEST.search(str(summary.get("train_dataset", "")))
    if max(epochs, default=1.0) < 1:
        return
    longest = whole_of(found["longest"]) if found else None
    limit = number_of(draft.configuration.get("seq_len"))
    is_alone = draft.configuration.get("packing") is not True
    if found and longest and limit and longest < limit and is_alone:
        draft.measure("sequence_length", longest, statistic="max", raw=found[0])
