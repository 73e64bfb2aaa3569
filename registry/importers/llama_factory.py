"""LLaMA-Factory: ``trainer_log.jsonl`` with the results and the YAML of the run."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.base import Imported, Refusal
from registry.importers.hf_trainer import (
    furthest_state,
    is_results,
    is_settings,
    is_state,
    measure_run,
    read_trainer_run,
    state_batch,
    state_settings,
    totals_of,
    used_files,
)
from registry.importers.llama_factory_settings import choose_configs, is_config, state_config
from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.readings import OF_FIRST_PROCESS, largest, measure_peak
from registry.importers.shared.segments import (
    ProgressEntry,
    Segment,
    parse_clock,
    split_segments,
    sum_segment_evaluations,
)
from registry.importers.shared.shapes import number_of
from registry.importers.shared.totals import measure_totals
from registry.importers.trainer_log import is_trainer_log
from registry.importers.trainer_log_settings import state_trainer_log

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile
    from registry.importers.shared.totals import Evaluations

_KEYS: Final = frozenset({"current_steps", "total_steps", "elapsed_time"})

#: What an entry has of a training, be it before its first loss, and of a prediction has not.
_TRAINED: Final = frozenset({"loss", "eval_loss", "epoch"})

#: How far the log's clock may lie from the total time of the results that belong to it.
_CLOCK_SLACK_SECONDS: Final = 60.0
_CLOCK_SLACK: Final = 0.01

_UNCLEAR: Final = "several runs wrote into one another and cannot be told apart"
_UNOWNED: Final = "its total time belongs to no run of the log beside it"


class LlamaFactoryImporter:
    """Reads the log that LLaMA-Factory writes beside the Trainer's own files."""

    name = "llama-factory"
    is_single_file = False
    expects = (
        "a trainer_log.jsonl (current_steps, total_steps, elapsed_time), or results with "
        "train_runtime, or trainer_state.json, beside the run's YAML (finetuning_type) or "
        "LlamaBoard's (llamaboard_config.yaml)"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a log with steps and the time elapsed, or the Trainer's files beside a YAML."""
        if not any(_is_log(file) or is_config(file) for file in files):
            return []
        return [file for file in files if _is_log(file) or is_results(file) or is_state(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the runs in the log; what two runs wrote into one another is refused."""
        log = next((file for file in files if _is_log(file)), None)
        if log is None:
            return self._read_results(files, options)
        if not any(entry.keys() & _TRAINED for entry in log.document):
            raise SubmissionError("a prediction run: no step of it has a loss; nothing was trained")
        segments = split_segments(_progress(log))
        results = _merged_results(files)
        owner = _owner(segments, results)
        clear = [segment for segment in segments if not segment.is_ambiguous]
        drafts = []
        for segment in clear:
            place = f"{log.name}, {segment.lines}"
            draft = Draft(environment={"framework": "llama-factory"}, place=place)
            _state_settings(draft, files, options)
            own = results if segment is owner else {}
            state = furthest_state(files) if segment is owner else None
            state_batch(draft, state.document if state else {})
            _measure_segment(draft, segment, own, is_resumed=_is_resumed(segment, segments))
            draft.cite(log, segment.lines)
            if len(segments) > 1:
                draft.observation["run_id"] = segment.lines
            drafts.append(draft)
        configs = choose_configs(files)
        used = [log, *(f for f in files if f is not log and (f in configs or _is_used(f)))]
        unclear = [segment.lines for segment in segments if segment.is_ambiguous]
        refused = [Refusal(log.path, f"{', '.join(unclear)}: {_UNCLEAR}")] if unclear else []
        if owner is None:
            refused += [Refusal(file.path, _UNOWNED) for file in files if is_results(file)]
        if not drafts:
            return Imported(refused=tuple(refused))
        runs = "a LLaMA-Factory run" if len(drafts) == 1 else f"{len(drafts)} LLaMA-Factory runs"
        found = import_drafts(self.name, runs, used, drafts, options)
        return replace(found, refused=tuple(refused))

    def _read_results(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of the Trainer's results with the YAML that it was started with."""
        draft = Draft()
        _state_settings(draft, files, options)
        run = read_trainer_run(files)
        measure_run(draft, run)
        if not run.history and any(_evaluates(file) for file in choose_configs(files)):
            draft.flags.add("includes_evaluation")
        for file in used_files(files):
            draft.cite(file)
        draft.missing.append("no trainer_log.jsonl")
        settings = [file for file in files if is_trainer_log(file) or is_settings(file)]
        used = [*used_files(files), *choose_configs(files), *settings]
        return import_drafts(self.name, "results of a LLaMA-Factory run", used, [draft], options)


def _is_log(file: RunFile) -> bool:
    if file.kind not in ("jsonl", "json"):
        return False
    entries = file.document if isinstance(file.document, list) else [file.document]
    entries = [entry for entry in entries if isinstance(entry, dict)]
    return bool(entries) and all(entry.keys() >= _KEYS for entry in entries[:3])


def _is_used(file: RunFile) -> bool:
    return is_results(file) or is_state(file) or is_trainer_log(file) or is_settings(file)


def _evaluates(config: RunFile) -> bool:
    """Return whether a configuration has the training evaluate while it goes on."""
    keys = ("eval_strategy", "evaluation_strategy")
    return any(str(config.document.get(key)) in ("steps", "epoch") for key in keys)


def _progress(log: RunFile) -> Iterator[ProgressEntry]:
    for line, entry in zip(log.lines, log.document, strict=True):
        step, total = number_of(entry.get("current_steps")), number_of(entry.get("total_steps"))
        elapsed = parse_clock(str(entry.get("elapsed_time")))
        if step is not None and total is not None and elapsed is not None:
            yield ProgressEntry(line, int(step), int(total), elapsed, entry)


def _merged_results(files: Sequence[RunFile]) -> dict[str, Any]:
    results: dict[str, Any] = {}
    for file in files:
        if is_results(file):
            results |= totals_of(file)
    return results


def _owner(segments: Sequence[Segment], results: Mapping[str, Any]) -> Segment | None:
    """Return the last run whose clock agrees with the total time of the results."""
    seconds = number_of(results.get("train_runtime"))
    for segment in reversed(segments):
        if seconds is None or segment.is_ambiguous or not segment.is_complete:
            continue
        if abs(segment.last.elapsed - seconds) <= _CLOCK_SLACK_SECONDS + _CLOCK_SLACK * seconds:
            return segment
    return None


def _state_settings(draft: Draft, files: Sequence[RunFile], options: ImportOptions) -> None:
    configs = choose_configs(files)
    for file in files:
        if file in configs:
            state_config(draft, file.document, options)
        elif is_trainer_log(file):
            state_trainer_log(draft, file.document, options)
    state_settings(draft, files, options)
    draft.environment["framework"] = "llama-factory"


def _is_resumed(segment: Segment, segments: Sequence[Segment]) -> bool:
    """Return whether a run went on from a checkpoint of an earlier one in the log."""
    before = [other for other in segments if other.first.line < segment.first.line]
    return any(
        other.last.total == segment.last.total and other.first.step < segment.first.step
        for other in before
    )


def _measure_segment(
    draft: Draft, segment: Segment, results: Mapping[str, Any], *, is_resumed: bool
) -> None:
    """Add the figures of one run: from the results where they are its own, else from its log."""
    draft.state("n_steps", segment.last.total, "total_steps of the log")
    evaluations = sum_segment_evaluations(segment)
    if results and is_resumed:
        _measure_log(draft, segment, evaluations)
        draft.missing.append(
            "no rates: after a restart the results divide all steps by the time since then"
        )
    elif results:
        measure_totals(draft, results, segment.last.total, evaluations)
    else:
        _measure_log(draft, segment, evaluations)
        draft.missing.append("no results that belong to this run (train_results.json)")
    draft.measure("tokens_per_second", results.get("effective_tokens_per_sec"))
    if not is_resumed and not draft.has("tokens_per_second"):
        _measure_throughput(draft, segment, evaluations)
    losses = [p.entry["loss"] for p in segment.entries if "loss" in p.entry]
    if losses and not draft.has("train_loss"):
        draft.measure("train_loss", losses[-1], statistic="last")
    _measure_memory(draft, segment)


def _measure_log(draft: Draft, segment: Segment, evaluations: Evaluations) -> None:
    """Add what the log alone says; its clock has whole seconds."""
    first, last = segment.first, segment.last
    n_evaluated = sum("eval_loss" in progress.entry for progress in segment.entries[1:])
    left_out = "left out" if n_evaluated <= evaluations.count else "included"
    if evaluations.count or n_evaluated:
        draft.flags.add("includes_evaluation")
    if segment.is_complete:
        since = "clock of the log, whole seconds, from its last start on"
        high, raw = last.elapsed + 1, str(last.entry["elapsed_time"])
        draft.measure("total_time", last.elapsed, high=high, raw=raw, reason=since)
    else:
        draft.leave_open(segment.end)
        draft.missing.append(f"no total time: {segment.end}")
    steps = last.step - first.step
    if steps > 0 and last.elapsed > first.elapsed:
        training = last.elapsed - first.elapsed - evaluations.seconds
        draft.derive(
            "step_time",
            training / steps,
            f"clock of the log from step {first.step} to {last.step}, evaluation {left_out}",
            statistic="mean",
            low=max(0.0, training - 1) / steps,
            high=(training + 1) / steps,
        )
    draft.measure("n_steps", last.step)


def _measure_throughput(draft: Draft, segment: Segment, evaluations: Evaluations) -> None:
    """Add the tokens of all processes, padding included, since the start (``throughput``)."""
    entry = next((p.entry for p in reversed(segment.entries) if "throughput" in p.entry), {})
    rate = number_of(entry.get("throughput"))
    if rate:
        if evaluations.count:
            draft.flags.add("includes_evaluation")
        draft.measure(
            "tokens_per_second",
            rate,
            statistic="mean",
            raw=str(entry["throughput"]),
            reason="the log's throughput: all tokens since the start, padding too, over its clock",
        )
        if not draft.has("n_tokens"):
            draft.measure("n_tokens", entry.get("total_tokens"))


def _measure_memory(draft: Draft, segment: Segment) -> None:
    for key, kind in (("vram_allocated", "allocated"), ("vram_reserved", "reserved")):
        peak = largest((progress.entry for progress in segment.entries), key)
        if peak is not None:
            measure_peak(draft, peak, **OF_FIRST_PROCESS, kind=kind, raw=str(peak))
    draft.note_lack("peak_memory", "no memory (LLaMA-Factory logs it with RECORD_VRAM=1)")
