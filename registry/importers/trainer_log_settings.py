"""Settings that LLaMA-Factory and the Trainer print before a training begins."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.notebook_settings import state_banner, state_default_length
from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.training_arguments import (
    DTYPES,
    state_quantization,
    state_training_arguments,
    target_modules,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions

_EXAMPLES: Final = "Num examples"
#: Counts that the Trainer prints, and the columns they are.
_COUNTS: Final = {
    "Instantaneous batch size per device": "micro_batch_size",
    "Gradient Accumulation steps": "grad_accum_steps",
    "Total train batch size (w. parallel, distributed & accumulation)": "global_batch_size",
    "Num Epochs": "n_epochs",
    "Total optimization steps": "n_steps",
    _EXAMPLES: "n_samples",
}
_COUNT: Final = re.compile(
    r"(?:>> {3}|^\s{0,8})(?P<name>[A-Z][^=]*?) = (?P<value>\d[\d,]{0,20})\s*$"
)
#: The epochs of data whose length is not known.
_ENDLESS: Final = "Num Epochs = 9,223,372,036,854,775,807"

#: Paths of Windows have spaces; they are of a length that a line of many takes no square of time.
_WORDS: Final = {
    name: re.compile(pattern)
    for name, pattern in {
        "weights": r"initialized from the model checkpoint at (\S+?)\.?$",
        "config": r"loading configuration file (?:config\.json from cache at )?"
        r"(\S.{0,500})[/\\]config\.json",
        "file": r"loading weights file (?:\S+ from cache at )?(\S.{0,500})[/\\][^/\\\s]{1,200}$",
        "method": r"Fine-tuning method: (\w+)",
        "modules": r"Found linear modules: (\S+)",
        "bits": r"Quantizing model to (\d) bit",
        "quantizer": r"Quantizing model to \d bit with (\w+)",
        "dtype": r"compute dtype: torch\.(\w+)",
        "transformers": r'^ *"transformers_version": "(\d[\w.]*)"',
        "trained": r"(?:trainable params:|Trainable parameters =) ([\d,]+)(?= \|\||/| of )",
        # Unsloth's older `N/M` counts two quantized parameters as one
        "params": r"(?:all params:|Trainable parameters = [\d,]+ of) ([\d,]+)",
    }.items()
}
#: Training arguments that a script prints as JSON, without those that hold others.
_ARGUMENTS: Final = re.compile(r'\{[^{}]*"per_device_train_batch_size"[^{}]*\}')
#: What the first line of Unsloth's banners says, beside a picture of characters.
_UNSLOTH: Final = re.compile(r"Unsloth(?: - |: Fast | 20\d\d\.)")
#: Sentences of LLaMA-Factory, the column and its value.
_SENTENCES: Final = (
    ("Gradient checkpointing enabled", "gradient_checkpointing", True),
    ("Using torch SDPA", "attention", "sdpa"),
    ("Using FlashAttention-2", "attention", "flash2"),
    ("Using vanilla attention", "attention", "eager"),
)


def state_trainer_log(draft: Draft, lines: Sequence[str], options: ImportOptions) -> None:
    """State what the lines say of model, method, batch and cards."""
    words = _find_words(lines)
    names = [words[key] for key in ("weights", "file", "config") if key in words]
    state_model(draft, names, options)
    draft.state("method", words.get("method", "").lower() or None)
    draft.state("lora_target_modules", target_modules(words.get("modules")))
    state_quantization(
        draft,
        method=words.get("quantizer"),
        bits=int(words["bits"]) if "bits" in words else None,
    )
    draft.state("compute_dtype", DTYPES.get(words.get("dtype", "")))
    if "transformers" in words:
        draft.environment["transformers_version"] = words["transformers"]
    draft.environment["framework"] = _framework(words, lines)
    for sentence, column, value in _SENTENCES:
        if any(sentence in line for line in lines):
            draft.state(column, value)
    _state_counts(draft, lines)
    if any(map(_UNSLOTH.search, lines)):
        state_banner(draft, "\n".join(lines), options)
        draft.environment["framework"] = "unsloth"
    state_training_arguments(draft, _find_arguments(lines))
    state_default_length(draft, "\n".join(lines))
    draft.measure("trainable_params", words.get("trained", "").replace(",", ""))
    draft.measure("n_params", words.get("params", "").replace(",", ""))


def _framework(words: Mapping[str, str], lines: Sequence[str]) -> str:
    """Return what runs the Trainer, where its lines say so."""
    if "method" in words:
        return "llama-factory"
    return "axolotl" if any("[axolotl." in line for line in lines) else "transformers"


def _find_words(lines: Sequence[str]) -> dict[str, str]:
    """Return what stands first for each name."""
    words: dict[str, str] = {}
    for line in lines:
        for name, pattern in _WORDS.items():
            found = pattern.search(line) if name not in words else None
            if found:
                words[name] = found[1]
    return words


def _find_arguments(lines: Sequence[str]) -> Mapping[str, Any]:
    """Return the training arguments that a script printed; nothing where they differ."""
    printed = []
    for text in _ARGUMENTS.findall("\n".join(lines)):
        try:
            arguments = json.loads(text)
        except ValueError:
            continue
        if arguments not in printed:
            printed.append(arguments)
    return printed[0] if len(printed) == 1 else {}


def _state_counts(draft: Draft, lines: Sequence[str]) -> None:
    """State the counts behind "Running training", and the cards that their batch comes to."""
    begun = next((i for i, line in enumerate(lines) if "***** Running training *****" in line), 0)
    # without a length, as of a stream, the examples are those of the steps asked for
    is_stream = any(_ENDLESS in line for line in lines[begun:])
    for line in lines[begun:]:
        found = _COUNT.search(line)
        if found and found["name"] in _COUNTS and not (is_stream and found["name"] == _EXAMPLES):
            draft.state(_COUNTS[found["name"]], int(found["value"].replace(",", "")))
    micro, accumulated, whole = (
        draft.configuration.get(column)
        for column in ("micro_batch_size", "grad_accum_steps", "global_batch_size")
    )
    if micro and accumulated and whole and whole % (micro * accumulated) == 0:
        reason = f"total batch {whole} / ({micro} x {accumulated})"
        draft.state("n_gpus", whole // (micro * accumulated), reason)
