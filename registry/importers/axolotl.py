"""Axolotl: its console log, or the trainer state it leaves, with the settings of the run.

The keys were renamed over time, so they are found by their words; numbers may be text; a rate of
``'0'`` tokens per second is no reading. Axolotl resets CUDA's peaks: the largest entry is the peak.
A log begins with the settings as JSON, with defaults and the number of processes; where it does
not, they are those of the YAML beside it.
"""

from __future__ import annotations

import json
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
from registry.importers.shared.logs import find_failure, import_logs, printed_entries
from registry.importers.shared.readings import OF_FIRST_PROCESS, measure_peak, measure_token_rate
from registry.importers.shared.shapes import count_of, entries_of, number_of
from registry.importers.shared.totals import half_width, is_total, rate_of
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

#: How the line ends below which a log prints the settings.
_PRINTS: Final = re.compile(r"\b(?:config|cfg):$")
#: Keys of what is kept in the memory of the host, and the contract's word for it.
_OFFLOADS: Final = {
    "expert_offload": "params",
    "layer_offloading": "params",
    "activation_offloading": "activations",
}
_TRAINED: Final = re.compile(r"trainable params: (?P<n>\d[\d,]*) \|\|")


class AxolotlImporter:
    """Reads what Axolotl prints or leaves in its trainer state."""

    name = "axolotl"
    is_single_file = False
    expects = (
        "entries with memory/… or tokens_per_second_per_gpu in a console log or a "
        "trainer_state.json, or that state beside the run's YAML (base_model, micro_batch_size)"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize Axolotl's memory or token keys, or its settings: printed, or beside a state."""
        has_yaml = any(_is_yaml(file) for file in files)
        return [
            file
            for file in files
            if any(map(_is_own, _entries(file)))
            or (has_yaml and is_state(file))
            or (any(_entries(file)) and _printed_config(_lines([file])))
        ]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of the files; logs with totals of their own are runs of their own."""
        main = self.main_files(files)
        logs = _logs_of_runs(main)
        if len(logs) > 1:
            what = "an Axolotl log"
            return import_logs(
                self.name, what, logs, lambda log: _draft([log], files, options), options
            )
        draft = _draft(main, files, options)
        _, yamls = _config_of(main, files)
        settings = [file for file in files if file in yamls or is_settings(file)]
        return import_drafts(self.name, "an Axolotl run", [*main, *settings], [draft], options)


def _logs_of_runs(main: Sequence[RunFile]) -> list[RunFile]:
    """Return a console log of each run; Axolotl may write the same one twice."""
    logs: dict[str, RunFile] = {}
    for file in main:
        if file.kind == "text":
            logs.setdefault(str(_totals(_entries(file)) or file.path), file)
    return list(logs.values())


def _draft(main: Sequence[RunFile], files: Sequence[RunFile], options: ImportOptions) -> Draft:
    """Return what the files of one run say."""
    entries = [entry for file in main for entry in _entries(file)]
    draft = Draft()
    _state_config(draft, main, files, options)
    state_settings(draft, files, options)
    draft.environment["framework"] = "axolotl"
    is_log = not any(map(is_state, main))
    what = "the log ends" if is_log else "state of a checkpoint"
    measure_run(draft, TrainerRun(_state(main, entries), _totals(entries), what))
    _state_end(draft, main)
    _measure_memory(draft, entries)
    _measure_tokens(draft, entries)
    found = next(filter(None, map(_TRAINED.search, _lines(main))), None)
    draft.measure("trainable_params", found["n"].replace(",", "") if found else None)
    for file in main:
        draft.cite(file)
    if draft.has("peak_memory"):
        draft.missing = [text for text in draft.missing if "memory" not in text]
    return draft


def _lines(main: Sequence[RunFile]) -> list[str]:
    """Return the lines of the console logs."""
    return [line for file in main if file.kind == "text" for line in file.document]


def _state_config(
    draft: Draft, main: Sequence[RunFile], files: Sequence[RunFile], options: ImportOptions
) -> None:
    """State the settings that the log prints, else those of the YAML beside it."""
    printed, yamls = _config_of(main, files)
    if printed:
        _state_yaml(draft, printed, options)
        _state_processes(draft, printed)
    elif yamls and all(file.document == yamls[0].document for file in yamls):
        _state_yaml(draft, yamls[0].document, options)
    elif yamls:
        names = ", ".join(file.name for file in yamls)
        draft.missing.append(f"no settings: {names} differ; leave one beside the log")


def _config_of(
    main: Sequence[RunFile], files: Sequence[RunFile]
) -> tuple[dict[str, Any], list[RunFile]]:
    """Return the settings that the logs print, and where they print none the YAML beside them."""
    printed = _printed_config(_lines(main))
    return printed, [] if printed else [file for file in files if _is_yaml(file)]


def _printed_config(lines: Sequence[str]) -> dict[str, Any]:
    """Return the settings that a log prints as JSON before the training: the first such lines."""
    texts = [line.rstrip() for line in lines]
    begins = (i for i, text in enumerate(texts, start=1) if _PRINTS.search(text))
    begin = next((i for i in begins if texts[i : i + 1] == ["{"]), None)
    if begin is None or "}" not in texts[begin:]:
        return {}
    try:
        found = json.loads("\n".join(texts[begin : texts.index("}", begin) + 1]))
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) and "base_model" in found else {}


def _state_processes(draft: Draft, config: Mapping[str, Any]) -> None:
    """State what only a log tells: how many processes there are, and the version of torch."""
    n_gpus = count_of(config.get("world_size"))
    draft.state("n_gpus", n_gpus, "world_size of the settings that the log prints")
    capabilities = config.get("env_capabilities")
    version = capabilities.get("torch_version") if isinstance(capabilities, dict) else None
    if isinstance(version, str):
        draft.environment["torch_version"] = version


def _entries(file: RunFile) -> list[dict[str, Any]]:
    """Return the log entries of a trainer state, of JSON lines or of a console log."""
    if is_state(file):
        return entries_of(file.document, "log_history")
    if file.kind == "jsonl":
        return [entry for entry in file.document if isinstance(entry, dict)]
    return list(printed_entries(file.document)) if file.kind == "text" else []


def _state_end(draft: Draft, main: Sequence[RunFile]) -> None:
    """Say how a console without totals ended, where it tells."""
    if draft.observation.get("outcome") == "unknown":
        end = find_failure(_lines(main), lambda line: any(printed_entries([line])))
        draft.observation |= end


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
    shown = [(line, bar) for line in _lines(main) for bar in _BAR.finditer(line)]
    length = _length_of_training(shown, _totals(entries))
    done = max((int(bar["done"]) for _, bar in shown if int(bar["all"]) == length), default=0)
    steps = {"global_step": done, "max_steps": length} if done else {}
    return {"log_history": entries, **steps}


def _length_of_training(
    shown: Sequence[tuple[str, re.Match[str]]], totals: Mapping[str, Any]
) -> int:
    """Return the length of the training's bar: those of data and of evaluations may be longer."""
    rate = rate_of(totals.get("train_steps_per_second"))
    seconds = number_of(totals.get("train_runtime"))
    lengths = {int(bar["all"]) for _, bar in shown}
    agreeing = {n for n in lengths if rate is not None and seconds and rate.agrees(n / seconds)}
    logged = {int(bar["all"]) for line, bar in shown if "'loss':" in line}
    return max(agreeing or logged or lengths, default=0)


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
    for key, offload in _OFFLOADS.items():
        draft.state("offload", offload if config.get(key) else None, key)


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
