"""What the trials of a plan are called: by the settings that differ between them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.trial_settings import NAMES
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.measure.running.trials import Trial


def find_varied(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Return the settings that are not the same for all trials."""
    first = trials[0].settings if trials else None
    return tuple(
        name
        for name in NAMES
        if any(getattr(trial.settings, name) != getattr(first, name) for trial in trials)
    )


def label_trials(trials: Sequence[Trial]) -> dict[str, str]:
    """Return a label for each trial by its id; what is the same for all is left out.

    A trial that is alone is called by what people ask about first.
    """
    varied = find_varied(trials)
    if not varied:
        return {trial.trial_id: trial.label for trial in trials}
    return {trial.trial_id: _format(trial, varied) for trial in trials}


def _format(trial: Trial, names: Sequence[str]) -> str:
    stated = ((name, getattr(trial.settings, name)) for name in names)
    return " ".join(
        f"{name.removesuffix('_bytes')}={_value(name, value)}"
        for name, value in stated
        if value not in (None, {})
    )


def _value(name: str, value: Any) -> str:
    if name == "memory_limit_bytes":
        return format_memory(value)
    if name in ("model", "dataset"):
        return Path(value).name
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:g}" if isinstance(value, float) else json.dumps(value).strip('"')
