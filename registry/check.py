"""Check every promise of a registry at hand, and name what is wrong with the way out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.errors import RegistryError, StoreError
from registry.store.fold import find_leftovers
from registry.store.journal import read_journal
from registry.store.manifest import Manifest, read_manifest
from registry.store.whole import read_catalogue
from registry.validation import prepare_submission

if TYPE_CHECKING:
    from registry.store.folder import Folder

RESTORE = "restore the file from a backup, or rebuild the registry from an export"


@dataclass(frozen=True, slots=True)
class Problem:
    """One broken promise: which, where, and what to do."""

    promise: str
    place: str
    message: str

    def __str__(self) -> str:
        """Return the problem on one line."""
        return f"{self.promise}: {self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check looked at and what it found."""

    #: Rows of each table, and ``journal`` for pending submissions.
    counts: dict[str, int]
    problems: tuple[Problem, ...]
    #: What is no problem and may be of interest: files that nothing names.
    hints: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether every promise is kept."""
        return not self.problems


Problems = Iterator[Problem]


def check_registry(folder: Folder) -> CheckReport:
    """Verify every promise on a registry; the folded rows are read part by part.

    Where the manifest or a file is damaged, what rests on it is not looked at: mend that first.
    Raises StoreError where the folder holds no registry.
    """
    folder.require()
    try:
        manifest = read_manifest(folder)
    except StoreError as error:
        return CheckReport({}, (Problem("manifest", str(folder.tables), str(error)),))
    problems = list(_check_folded(folder, manifest))
    problems += _check_journal(folder, manifest)
    return CheckReport(_count(folder, manifest), tuple(problems), _hints(folder))


def _check_folded(folder: Folder, manifest: Manifest) -> Problems:
    """Yield problems of the folded state: files first, then rows, then what follows from rows."""
    from registry import check_files, check_rebuild, check_rows  # noqa: PLC0415 - heavy

    for stage in (
        check_files.check_files,
        check_files.check_schemas,
        check_rows.check_part_rows,
        check_rows.check_keys,
        check_files.check_ids,
        check_files.check_catalogue,
        check_rebuild.check_documents,
        check_rebuild.check_results,
    ):
        found = list(stage(folder, manifest))
        yield from found
        if found and stage in (check_files.check_files, check_files.check_schemas):
            return


def _check_journal(folder: Folder, manifest: Manifest) -> Problems:
    journal = read_journal(folder)
    for text in journal.problems:
        yield Problem("journal", str(folder.journal), text)
    try:
        catalogue = read_catalogue(folder, manifest)
    except StoreError as error:
        yield Problem("catalogue", str(folder.tables), str(error))
        return
    for entry in journal.entries:
        models, gpus = entry.document.get("models", ()), entry.document.get("gpus", ())
        catalogue = catalogue.extended(models, gpus)
    for entry in journal.entries:
        place = f"journal/{entry.submission_id}.json"
        try:
            prepared = prepare_submission(entry.document, catalogue, origin=place)
        except RegistryError as error:
            way_out = "remove the file and hand a corrected submission in"
            yield Problem("journal", place, f"{error}; {way_out}")
            continue
        if prepared.text != entry.text:
            message = (
                "found a document that is not in canonical form; hand it in with `registry add`"
            )
            yield Problem("journal", place, f"{message}, then remove the file")


def _count(folder: Folder, manifest: Manifest) -> dict[str, int]:
    names = {table for part in manifest.parts for table in part.tables} | set(manifest.whole)
    counts = {name: manifest.rows(name) for name in sorted(names - {"recited", "results"})}
    return {**counts, "journal": len(read_journal(folder).entries)}


def _hints(folder: Folder) -> tuple[str, ...]:
    return tuple(
        f"{path}: no version names this file, a killed process left it; `registry fold` removes it"
        for path in find_leftovers(folder)
    )
