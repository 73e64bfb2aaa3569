"""What the trials of a plan are called: by the settings that differ between them."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.trial_settings import NAMES
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
    """Return a label for each trial by its id; what most of the trials share is left out.

    A trial that is alone is called by what people ask about first.
    """
    varied = find_varied(trials)
    if not varied:
        return {trial.trial_id: trial.label for trial in trials}
    usual = {name: _find_usual(trials, name) for name in varied}
    return {trial.trial_id: _format(trial, usual) for trial in trials}


def _find_usual(trials: Sequence[Trial], name: str) -> Any:
    """Return the value that more than half of the trials have, else None."""
    values = [getattr(trial.settings, name) for trial in trials]
    counted = Counter(map(repr, values))  # not all of them can be hashed
    return next((value for value in values if 2 * counted[repr(value)] > len(values)), None)


def _format(trial: Trial, usual: Mapping[str, Any]) -> str:
    values = {name: getattr(trial.settings, name) for name in usual}
    own = {name: value for name, value in values.items() if value != usual[name]}
    stated = (own or values).items()
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
