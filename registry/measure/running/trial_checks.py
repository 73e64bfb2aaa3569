"""What the settings of a trial must be together, found before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.errors import did_you_mean
from registry.measure.running.module_names import ENDS, MODULE_NAMES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.measure.trial_settings import Settings

_ALL_LINEAR = ("all-linear",)


def check_together(settings: Settings) -> Iterator[str]:
    """Yield what no job can do with these settings, whatever its model."""
    if settings.method == "full" and settings.quantization != "none":
        yield (
            f"method full with quantization {settings.quantization}: quantized weights take no "
            "gradient; expected an adapter; exclude the combination"
        )
    if settings.weights == "pretrained" and settings.model.endswith(".json"):
        yield (
            f"model {settings.model!r} with pretrained weights: a configuration has no weights; "
            "expected a folder or a name of the hub"
        )
    if settings.device == "cpu" and settings.attention == "flash2":
        yield "attention flash2 on device cpu: it needs a GPU; expected sdpa or eager"


def check_targets(settings: Settings, source: dict[str, Any]) -> Iterator[str]:
    """Yield the target modules that the model does not have, where its modules are known.

    PEFT passes over such a name where another one of the list is found, and the trial would measure
    something else.
    """
    kind = source.get("config", {}).get("model_type")
    if settings.method == "full" or settings.lora_target_modules == _ALL_LINEAR:
        return
    names = MODULE_NAMES.get(kind)
    if names is None:
        return
    for target in settings.lora_target_modules:
        if target.rpartition(".")[2] not in (*names, *ENDS):
            yield (
                f"lora_target_modules: found {target!r}{did_you_mean(target, names)}; expected "
                f"all-linear, or modules of {kind}: {', '.join(names)}"
            )
