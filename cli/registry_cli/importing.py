"""Read logs for ``registry add``, and say what was taken and what was not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SubmissionError
from registry.importers import ImportOptions, read_files
from registry.query.params import parse_assignment
from registry.store.snapshot import load_catalogue
from registry_cli import console

if TYPE_CHECKING:
    from registry.store.folder import Location

#: Most files that are named as not being logs.
_MOST_REFUSED = 10


def import_logs(
    location: Location,
    files: tuple[str, ...],
    kind: str,
    overrides: tuple[str, ...],
    mapping: Path | None,
) -> list[tuple[str, Any]]:
    """Return the submissions that logs hold; raise SubmissionError if there is none."""
    catalogue = load_catalogue(location)
    stated = {name: str(value) for name, value in map(parse_assignment, overrides)}
    options = ImportOptions(catalogue=catalogue, overrides=stated, mapping=mapping)
    imported = read_files([Path(name) for name in files], kind, options=options)
    for message in imported.taken:
        console.hint(f"taken: {message}")
    for message in dict.fromkeys(imported.missing):
        console.hint(f"not found: {message}")
    for refusal in imported.refused[:_MOST_REFUSED]:
        console.warning(f"refused: {refusal.path}: {refusal.reason}")
    if len(imported.refused) > _MOST_REFUSED:
        console.warning(f"refused: {len(imported.refused) - _MOST_REFUSED} more files")
    if not imported.submissions:
        raise SubmissionError(
            "no training run found; nothing was recorded", origin=", ".join(files)
        )
    return [(", ".join(files), document) for document in imported.submissions]
