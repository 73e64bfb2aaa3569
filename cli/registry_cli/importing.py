"""Read logs for ``registry add``, and say what was taken and what was not."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SubmissionError
from registry.importers import ImportOptions, parse_overrides, read_files
from registry.store.snapshot import load_catalogue
from registry.text import format_count
from registry_cli import console

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.importers import Refusal
    from registry.store.folder import Location

#: Most reasons for which files are refused that are shown, and most files that are named for one.
_MOST_REASONS = 10
_MOST_NAMED = 5


def import_logs(
    location: Location,
    files: tuple[str, ...],
    kind: str,
    overrides: tuple[str, ...],
    mapping: Path | None,
) -> list[tuple[str, Any]]:
    """Return the submissions that logs hold; raise SubmissionError if there is none."""
    catalogue = load_catalogue(location)
    stated = parse_overrides(overrides)
    options = ImportOptions(catalogue=catalogue, overrides=stated, mapping=mapping)
    imported = read_files([Path(name) for name in files], kind, options=options)
    for message in imported.taken:
        console.hint(f"taken: {message}")
    for message in dict.fromkeys(imported.missing):
        console.hint(f"not found: {message}")
    _warn_of_refused(imported.refused)
    if not imported.submissions:
        raise SubmissionError(
            "no training run found; nothing was recorded", origin=", ".join(files)
        )
    return [(", ".join(files), document) for document in imported.submissions]


def _warn_of_refused(refused: Iterable[Refusal]) -> None:
    """Say which files were refused, each reason once with the files that it is about."""
    by_reason: dict[str, list[str]] = {}
    for refusal in refused:
        by_reason.setdefault(refusal.reason, []).append(str(refusal.path))
    for reason, paths in islice(by_reason.items(), _MOST_REASONS):
        more = f" and {len(paths) - _MOST_NAMED} more" if len(paths) > _MOST_NAMED else ""
        console.warning(f"refused: {', '.join(paths[:_MOST_NAMED])}{more}: {reason}")
    left = sum(map(len, islice(by_reason.values(), _MOST_REASONS, None)))
    if left:
        console.warning(f"refused: {format_count(left, 'more file')}")
