"""The option that chooses the runs of a label."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from registry.comparison.recorded import read_labels
from registry.errors import FilterError
from registry.measure.releases import HOW_TO_LABEL
from registry.query.filters import find_word
from registry_cli.output import reader_of

if TYPE_CHECKING:
    from registry.query.model import Dataset


label_option = click.option(
    "--label", metavar="NAME", help="Only with this label (registry run --label)."
)


def validate_label(label: str | None, dataset: Dataset) -> str | None:
    """Return a label; raise FilterError for one that no run has."""
    if label is None:
        return None
    labels = read_labels(reader_of(dataset))
    if not labels:
        raise FilterError(
            f"label {label!r} is not known: no run has one yet; a run gets one with: {HOW_TO_LABEL}"
        )
    return label if label in labels else find_word("label", label, labels)
