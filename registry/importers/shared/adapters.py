"""Hold the count of trained parameters against the adapters that the same files state.

Whoever opens a template and changes its model, but does not train, saves the figures of the
template's model below the name of another: the count tells.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from registry.errors import QuestionError
from registry.importers.shared.shapes import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

#: Share by which a count may be off: that of a log in millions is rounded.
_SLACK: Final = 0.01
#: Settings of PEFT that leave the adapters as they usually are; variants have others.
_USUAL: Final = {"bias": "none", "init_lora_weights": True, "fan_in_fan_out": False}


def find_other_count(draft: Draft, options: ImportOptions) -> str | None:
    """Return how many parameters the adapters have, where the files count others; else None."""
    settings = draft.configuration
    model = options.catalogue.models.get(settings.get("model_id", ""), {})
    counted = next((f["value"] for f in draft.figures if f["metric"] == "trainable_params"), 0)
    if not counted or not _is_plain_lora(settings) or model.get("n_experts"):
        return None
    expected = _count(model, settings)
    if not expected or abs(counted / expected - 1) <= _SLACK:
        return None
    named = f"{settings['model_id']} with rank {settings['lora_rank']}"
    return (
        f"it counts {counted:,.0f} trained parameters, the adapters of {named} have {expected:,}: "
        "figures of another model or rank?"
    )


def _is_plain_lora(settings: Mapping[str, Any]) -> bool:
    """Return whether rank and modules are all that the adapters depend on."""
    is_told = bool(count_of(settings.get("lora_rank")) and settings.get("lora_target_modules"))
    further = settings.get("peft_config") or {}
    is_usual = all(key in _USUAL and _USUAL[key] == value for key, value in further.items())
    is_lora = settings.get("method") == "lora" and not settings.get("trains_embeddings")
    return is_told and is_lora and is_usual


def _count(model: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    """Return the parameters of the adapters; None for a model that nothing is known of."""
    from registry.predict.architecture import architecture_of  # noqa: PLC0415 - of few logs
    from registry.predict.question import Question  # noqa: PLC0415 - of few logs

    modules = tuple(settings["lora_target_modules"])
    try:
        asked = {"lora_rank": settings["lora_rank"], "lora_target_modules": modules}
        return Question(model=architecture_of(model), method="lora", **asked).adapter_params
    except QuestionError:
        return None
