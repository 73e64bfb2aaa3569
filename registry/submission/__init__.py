"""Submissions: what a document may say, how it is validated, and what follows from it.

``Submission``, ``Observation``, ``Configuration`` and the other parts are pydantic classes for
writing a submission in Python; they are made from the contract when first asked for.
"""

from __future__ import annotations

from typing import Any

#: Names of the classes, as ``schemas/submission.yaml`` calls the parts.
PARTS = (
    "Citation",
    "Configuration",
    "Environment",
    "Gpu",
    "Measurement",
    "Model",
    "Observation",
    "Retraction",
    "Sample",
    "Source",
    "Submission",
)


def __getattr__(name: str) -> Any:
    if name in PARTS:
        from registry.submission.classes import part_class  # noqa: PLC0415 - loads pydantic

        return part_class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
