"""Axolotl: its console log, or the trainer state it leaves, with the YAML of the run.

The keys were renamed over time, so they are found by their words; numbers may be text; a rate of
``'0'`` tokens per second is no reading. Axolotl resets CUDA's peaks: the largest entry is the peak.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.hf_trainer import (
    TrainerRun,
    is_settings,
    is_state,
    measure_run,
    state_settings,
)
from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.logs import find_failure, printed_entries
from registry.importers.shared.readings import OF_FIRST_PROCESS, measure_peak, measure_token_rate
from registry.importers.shared.shapes import entries_of, number_of
from registry.importers.shared.totals import half_width, is_total
from registry.importers.shared.training_arguments import (
    ATTENTION,
    state_lora_sizes,
    state_quantization,
    state_training_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

#: Words in the keys of memory, in the order in which they are looked for, and the kind they mean.
_KINDS: Final = {"reserved": "reserved", "alloc": "allocated", "active": "active"}

_BAR: Final = re.compile(r"(?<!\d)(?P<done>\d{1,15})/(?P<all>\d{1,15}) \[")


class AxolotlImporter:
    """Reads what Axolotl prints or leaves in its trainer state."""

    name = "axolotl"
    is_single_file = False
    expects = (
        "entries with memory/… or tokens_per_second_per_gpu in a console log or a "
        "trainer_state.json, or that state beside the run's YAML (base_model, micro_batch_size)"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize log entries with Axolotl's memory or token keys, or its YAML beside a state."""
        has_yaml = any(_is_yaml(file) for file in files)
        return [
            file
            for file in files
            if any(_is_own(entry) for entry in _entries(file)) or (has_yaml and is_state(file))
        ]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run that the log describes."""
        main = self.main_files(files)
        entries = [entry for file in main for entry in _entries(file)]
        draft = Draft()
        for file in files:
            if _is_yaml(file):
                _state_yaml(draft, file.document, options)
        state_settings(draft, files, options)
        draft.environment["framework"] = "axolotl"
        is_log = not any(map(is_state, main))
        what = "the log ends" if is_log else "state of a checkpoint"
        measure_run(draft, TrainerRun(_state(main, entries), _totals(entries), what))
        _state_end(draft, main)
        _measure_memory(draft, entries)
        _measure_tokens(draft, entries)
        used = [*main, *(file for file in files if _is_yaml(file) or is_settings(file))]
        for file in main:
            draft.cite(file)
        if draft.has("peak_memory"):
            draft.missing = [text for text in draft.missing if "memory" not in text]
        return import_drafts(self.name, "an Axolotl run", used, [draft], options)


def _entries(file: RunFile) -> list[dict[str, Any]]:
    """Return the log entries of a trainer state, of JSON lines or of a console log."""
    if is_state(file):
        return entries_of(file.document, "log_history")
    if file.kind == "jsonl":
        return [entry for entry in file.document if isinstance(entry, dict)]
    return list(printed_entries(file.document)) if file.kind == "text" else []


def _state_end(draft: Draft, main: Sequence[RunFile]) -> None:
    """Say how a console without totals ended, where it tells."""
    lines = [line for file in main if file.kind == "text" for line in file.document]
    if draft.observation.get("outcome") == "unknown":
        draft.observation |= find_failure(lines, lambda line: any(printed_entries([line])))


def _is_own(entry: Mapping[str, Any]) -> bool:
    return any(key.startswith("memory/") or _is_token_rate(key) for key in entry)


def _is_token_rate(key: str) -> bool:
    return "per_gpu" in key and ("tokens_per_sec" in key or "per_sec_per_gpu" in key)


def _is_yaml(file: RunFile) -> bool:
    return file.kind in ("yaml", "json") and {"base_model", "micro_batch_size"} <= file.keys


def _totals(entries: Sequence[dict[str, Any]]) -> dict[str, Any]:
    return next((entry for entry in reversed(entries) if is_total(entry)), {})


def _state(main: Sequence[RunFile], entries: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the trainer state, or what a console log shows of it: the progress bar's steps."""
    for file in main:
        if is_state(file):
            return dict(file.document)
    lines = [line for file in main if file.kind == "text" for line in file.document]
    shown = [found for line in lines for found in _BAR.finditer(line)]
    most = max((int(found["all"]) for found in shown), default=0)
    done = max((int(found["done"]) for found in shown if int(found["all"]) == most), default=0)
    steps = {"global_step": done, "max_steps": most} if done else {}
    return {"log_history": entries, **steps}


def _state_yaml(draft: Draft, config: Mapping[str, Any], options: ImportOptions) -> None:
    """State the settings of the YAML that the run was started with."""
    state_model(draft, [config.get("base_model")], options)
    adapter = config.get("adapter")
    draft.state("method", "lora" if adapter == "qlora" else adapter or "full")
    if adapter and config.get("peft_use_dora") is True:
        draft.configuration["method"] = "dora"
    if adapter:
        linear = "all-linear" if config.get("lora_target_linear") is True else None
        modules = config.get("lora_target_modules") or linear
        state_lora_sizes(draft, config, config.get("lora_r"), modules)
    for key, bits in (("load_in_4bit", 4), ("load_in_8bit", 8)):
        if config.get(key) is True:
            kind = "nf4" if adapter == "qlora" else None
            state_quantization(draft, method="bitsandbytes", bits=bits, kind=kind)
    draft.state("seq_len", config.get("sequence_len"))
    draft.state("packing", config.get("sample_packing"))
    draft.state("micro_batch_size", config.get("micro_batch_size"))
    if config.get("flash_attention") is True:
        draft.state("attention", ATTENTION["flash_attn"])
    draft.state("attention", ATTENTION.get(str(config.get("attn_implementation"))))
    state_training_arguments(draft, {**config, "optim": config.get("optimizer")} | _dtype(config))


def _dtype(config: Mapping[str, Any]) -> dict[str, Any]:
    epochs = config.get("num_epochs", config.get("num_train_epochs"))
    return {"num_train_epochs": number_of(epochs), "bf16": config.get("bf16") is True}


def _measure_memory(draft: Draft, entries: Sequence[Mapping[str, Any]]) -> None:
    peaks: dict[str, tuple[float, str]] = {}
    for entry in entries:
        for key, value in entry.items():
            kind = _kind(key)
            number = number_of(value)
            if kind and number and number > peaks.get(kind, (0.0, ""))[0]:
                peaks[kind] = (number, str(value))
    for kind, (number, raw) in peaks.items():
        measure_peak(
            draft,
            number,
            half_width(raw),
            **OF_FIRST_PROCESS,
            kind=kind,
            raw=raw,
            unit_reported="GiB",
        )


def _kind(key: str) -> str | None:
    if not key.startswith("memory/"):
        return None
    return next((kind for word, kind in _KINDS.items() if word in key), None)


def _measure_tokens(draft: Draft, entries: Sequence[Mapping[str, Any]]) -> None:
    readings = [
        number
        for entry in entries
        for key, value in entry.items()
        if _is_token_rate(key) and (number := number_of(value))
    ]
    reason = "readings; first process, tokens that are trained on"
    measure_token_rate(draft, readings, reason)
