"""Where each trial of a sweep runs, and whether a result of it is there already."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from registry.measure.environment import find_version
from registry.measure.record_files import read_json
from registry.measure.running.trial_run import is_record
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from registry.measure.running.backends.interface import Backend
    from registry.measure.running.trials import Trial

#: Distributions whose version makes an earlier result out of date.
_DECISIVE = (
    "accelerate",
    "bitsandbytes",
    "deepspeed",
    "flash-attn",
    "peft",
    "torch",
    "transformers",
    "triton",
)

#: Outcomes that stand; a trial with another one is run again.
_FINAL = ("ok", "oom")

#: The file of a trial's folder that says that its result was recorded.
SUBMISSION_NAME = "submission.json"


def find_places(trials: Sequence[Trial], folder: Path, backend: Backend) -> dict[str, Path]:
    """Return the folder of each trial by its id: another environment has another one."""
    return {
        trial.trial_id: folder / f"{trial.trial_id}-{backend.environment_key(trial)}"
        for trial in trials
    }


def find_done(trials: Sequence[Trial], folder: Path, backend: Backend) -> dict[str, float | None]:
    """Return the trials that have a result here, by id, with the seconds that their jobs took."""
    places = find_places(trials, folder, backend)
    return {name: read_seconds(place) for name, place in places.items() if is_done(place)}


def read_seconds(place: Path) -> float | None:
    """Return how long the job of an earlier result took; None where it does not say."""
    document = read_json(place / SUBMISSION_NAME)
    if not is_record(document):
        return None
    seconds = document["observations"][0].get("provenance", {}).get("process_seconds")
    return float(seconds) if isinstance(seconds, int | float) else None


def is_done(place: Path) -> bool:
    """Return whether a trial's folder holds a recorded result that a repetition would not change.

    A trial that ended with an error or was interrupted may end otherwise the next time.
    """
    document = read_json(place / SUBMISSION_NAME)
    return is_record(document) and document["observations"][0]["outcome"] in _FINAL


def list_decisive_versions() -> dict[str, str]:
    """Return the versions of the packages here that decide a trial's result."""
    return {name: version for name in _DECISIVE if (version := find_version(name))}


def hash_environment(content: dict[str, Any]) -> str:
    """Return a short hash of what, beside the trial, decides its result."""
    return hashlib.sha256(canonical_json(content).encode()).hexdigest()[:8]
