"""Say of a file that no importer takes what it is instead, as far as its content shows."""

from __future__ import annotations

from shlex import quote
from typing import TYPE_CHECKING, Any

from registry.importers.shared.monitor import explain_monitor, read_monitor

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.importers.base import RunFile

_CHAT = frozenset({"messages", "conversations", "role", "instruction", "response", "prompt"})
_DIFFUSION = frozenset(
    {"unet", "vae", "noise_scheduler", "noise_offset", "snr_gamma", "unet_lr", "timestep"}
)
UNKNOWN = "not recognized as a training log or result of any known framework"
#: What is said of a training of which neither the beginning nor the end is there.
NO_TOTALS = (
    "losses of the Trainer without a time: found no line `{'train_runtime': …, 'train_loss': …}`, "
    "which it prints when training ends; expected one, or trainer_state.json of a "
    "checkpoint"
)
_ONLY_EVALUATED = (
    "evaluations of a training run, without the run itself: found no train_runtime; expected "
    "trainer_state.json, train_results.json or the log of the run"
)
_NO_OUTPUT = (
    "a notebook that shows no totals of a training run: found neither TrainOutput(…), nor "
    "{'train_runtime': …, 'train_loss': …}, nor Unsloth's `… seconds used for training.`; expected "
    "one in the output of a cell; show what trainer.train() returned, and save it with its outputs"
)
_OF_WANDB = (
    "what a run handed to Weights & Biases, without its totals: found no train_runtime, which the "
    "Trainer logs when training ends; expected it in the wandb-summary.json beside config.yaml"
)
_CUT_OFF = (
    "called a notebook, but not JSON: cut off, or damaged; expected the whole file; save it again"
)
_OF_LLAMA_FACTORY = frozenset({"finetuning_type", "top.finetuning_type"})
_MODEL = frozenset({"architectures", "hidden_size", "num_hidden_layers"})


def explain_refusal(file: RunFile) -> str:
    """Return why nothing is taken of a file."""
    if file.kind == "csv" or read_monitor(file) or explain_monitor(file):
        return _explain_table(file)
    if file.kind == "text" and file.path.suffix == ".ipynb":
        return _CUT_OFF
    if file.kind == "text" and any("{'loss': " in line for line in file.document):
        return NO_TOTALS
    return _explain_other_kind(file) or _explain_settings(file) or UNKNOWN


def _explain_table(file: RunFile) -> str:
    path = quote(str(file.path))
    if read_monitor(file):
        return (
            "readings of nvidia-smi without a run; expected the log of the training beside them: "
            f"`registry add LOG {path}`"
        )
    return explain_monitor(file) or (
        "a table from no known framework; say what its columns mean with a mapping: "
        f"`registry import {path} --draft > mapping.yaml` drafts one; fill in what is '?', "
        f"then `registry import {path} --mapping mapping.yaml` adds the rows"
    )


def _explain_other_kind(file: RunFile) -> str | None:
    """Return what a file holds instead of a training of a language model, or None."""
    keys = set(_keys(file.document))
    if file.kind in ("json", "yaml") and "_wandb" in keys:
        return _OF_WANDB
    if file.kind in ("jsonl", "json") and keys & _CHAT and "loss" not in keys:
        return "a chat transcript or training data, not the log of a run"
    if keys & _DIFFUSION or str(_first(file.document).get("_class_name", "")).endswith("Pipeline"):
        return "a diffusion run; the registry holds language-model training"
    if is_prediction_only(keys) and "epoch" in keys:  # of a model that is being trained
        return _ONLY_EVALUATED
    if is_prediction_only(keys):
        return "evaluation or prediction results only; nothing was trained here"
    return None


def _explain_settings(file: RunFile) -> str | None:
    keys = set(_keys(file.document))
    if {"cells", "nbformat"} <= keys:
        return _NO_OUTPUT
    if keys & _OF_LLAMA_FACTORY:
        return (
            "settings of LLaMA-Factory without their run; expected beside them what it writes: "
            "trainer_log.jsonl, trainer_state.json, train_results.json or running_log.txt"
        )
    if "peft_type" in keys:
        return "an adapter configuration without a training log next to it"
    if keys & _MODEL:
        return "a model configuration without a training log next to it"
    return None


def is_prediction_only(keys: Iterable[str]) -> bool:
    """Return whether keys are those of an evaluation or prediction without training."""
    words = {key.partition("_")[0] for key in keys if "_" in key}
    return bool(words & {"predict", "eval", "test"}) and "train" not in words and "loss" not in keys


def _keys(document: Any) -> list[str]:
    entries = document if isinstance(document, list) else [document]
    return [str(key) for entry in entries[:200] if isinstance(entry, dict) for key in entry]


def _first(document: Any) -> dict[str, Any]:
    first = document[0] if isinstance(document, list) and document else document
    return first if isinstance(first, dict) else {}
