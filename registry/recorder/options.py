"""What the caller may choose about a recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

#: Environment variable that names the folder in which a measured child leaves its records.
RECORD_FOLDER = "REGISTRY_RECORD_FOLDER"

#: Version of what the recorder measures; raised when the meaning of a figure changes.
RECORDER_VERSION = 1


@dataclass(frozen=True)
class Options:
    """Options of a recording.

    Attributes:
        warmup_steps: First steps that the figures leave out; at least one step always remains.
        out: File to write the submission to.
        on_record: Called with the submission, such as a registry's ``add``.
        memory_from: ``start``: peaks cover the whole process; ``train``: they begin with the
            training, which resets the process's own peak counters.
        device_sample_seconds: Time between two samples of the device's memory in use.
        model_reported: Name by which the user calls the model.
        weights: ``random`` where the weights are; the recorder cannot see that by itself.
        provenance: Further entries of the observation's provenance.
    """

    warmup_steps: int = 2
    out: str | Path | None = None
    on_record: Callable[[dict[str, Any]], object] | None = None
    memory_from: str = "start"
    device_sample_seconds: float = 0.1
    model_reported: str | None = None
    weights: str | None = None
    provenance: dict[str, Any] = field(default_factory=dict)
