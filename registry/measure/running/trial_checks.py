"""What the settings of a trial must be together, found before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.catalogue.module_names import check_modules

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.measure.trial_settings import Settings

#: Methods of PEFT that have no number of virtual tokens unless they are given one.
_NEED_VIRTUAL_TOKENS = (
    "multitask_prompt_tuning",
    "p_tuning",
    "prefix_tuning",
    "prompt_tuning",
)


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
    if settings.method in _NEED_VIRTUAL_TOKENS and not settings.peft.get("num_virtual_tokens"):
        yield (
            f"method {settings.method} without a number of virtual tokens: PEFT has no default for "
            "it; expected for example peft = { num_virtual_tokens = 8 }, beside other methods in "
            "an [[include]]"
        )


def check_targets(settings: Settings, source: dict[str, Any]) -> Iterator[str]:
    """Yield the target modules that the model does not have, where its modules are known.

    PEFT passes over such a name where another one of the list is found, and the trial would measure
    something else.
    """
    if settings.method != "full":
        kind = source.get("config", {}).get("model_type")
        yield from check_modules(kind, settings.lora_target_modules)
