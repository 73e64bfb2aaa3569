"""Check the integrity of a registry, and name what is wrong with the way out.

What a registry's own documents call and say of models and cards, beside the catalogue of today.

A later release may describe a card that a user had described, or give a model another id. What was
recorded stays as it was stated; answers use the catalogue's figures.
"""

from __future__ import annotations

from collections import Counter, deque
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from registry.errors import RegistryError, StoreError
from registry.store.curated import REBUILD, read_curated
from registry.store.derive_tables import CATALOGUE_TABLES, derive_tables
from registry.store.documents import read_all_documents
from registry.store.folder import QUARANTINE
from registry.store.ids import ERASED
from registry.store.legacy import read_legacy
from registry.store.lock import LOCK
from registry.store.manifest import REPAIR
from registry.store.parts import DESCRIPTION, Part, check_files, hash_file
from registry.store.renamed import RENAMED, read_folder
from registry.store.row_counts import count_rows
from registry.store.snapshot import Snapshot, describe_erasures, ids_of, read_snapshot
from registry.store.state import (
    find_damaged_manifests,
    find_left_out,
    list_unnamed_parts,
    read_earlier_parts,
    read_state,
)
from registry.store.valid_documents import select_valid, validate_stored
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.catalogue import Catalogue
    from registry.errors import SubmissionError
    from registry.store.derive_tables import Document, Row
    from registry.store.folder import Folder, Location


@dataclass(frozen=True, slots=True)
class Problem:
    """Something wrong: what kind of thing, where, and what to do."""

    kind: str
    place: str
    message: str

    def __str__(self) -> str:
        """Return the problem on one line."""
        return (
            f"{self.kind}: {self.place}: {self.message}"
            if self.place
            else f"{self.kind}: {self.message}"
        )


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a check looked at and what it found."""

    #: Rows of each table, and ``journal`` for pending submissions.
    counts: dict[str, int]
    problems: tuple[Problem, ...]
    #: What is not wrong but may be of interest.
    hints: tuple[str, ...] = ()

    @property
    def is_sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


def check_registry(location: Location) -> CheckReport:
    """Verify everything that a registry's folder states.

    Manifests and the files they name; every row against the contract and against what its document
    gives; the computed tables; the journal. Raises MissingRegistryError where there is none.
    """
    folder = location.own
    if folder.is_curated:
        return _check_curated(location)
    if not folder.is_registry:
        return CheckReport({}, (), ("nothing has been added yet; the curated records are in use",))
    problems: list[Problem] = []
    try:
        folder.pull(history=True)
        problems += [Problem("manifest", "", text) for _, text in find_damaged_manifests(folder)]
        read_state(folder)
        snapshot = read_snapshot(location)
        read_folder(folder)
    except RegistryError as error:
        found = Problem("state", "", str(error))
        return CheckReport({}, (*problems, *([] if problems else [found])))
    problems += _check_history(folder, snapshot)
    uncompared: list[str] = []
    problems += _check_parts(folder, snapshot, uncompared)
    problems += _check_leftovers(folder, snapshot)
    problems += _check_renamed(folder, snapshot)
    problems += [Problem("journal", "", text) for text in snapshot.journal.problems]
    return CheckReport(
        count_rows(snapshot, snapshot.legacy),
        tuple(problems),
        (*_hints(folder, snapshot), *uncompared),
    )


def _check_history(folder: Folder, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield what is wrong with files of earlier versions; if they are right, what is left out."""
    try:
        earlier = list(read_earlier_parts(folder, snapshot.state))
        yield from (problem for part in earlier for problem in _find_further(folder, part))
        if found := [text for part in earlier for text in check_files(part)]:
            yield from (Problem("files", "", text) for text in found)
            return
        for place in find_left_out(folder, snapshot.state):
            yield Problem(
                "manifest",
                place,
                "found documents that the newest version lacks; expected all of an earlier "
                f"version; {REPAIR}",
            )
    except StoreError as error:
        yield Problem("files", "", str(error))


def _check_parts(folder: Folder, snapshot: Snapshot, uncompared: list[str]) -> Iterator[Problem]:
    """Yield what is wrong with files, or if they are right, with rows.

    What rows could not be compared is added to ``uncompared``.
    """
    if snapshot.state.is_legacy:
        try:
            read_legacy(folder, snapshot.state.manifest.version)
        except StoreError as error:
            yield Problem("files", "", str(error))
        return
    found = [text for part in snapshot.state.parts for text in check_files(part)]
    yield from (Problem("files", "", text) for text in found)
    if not found:
        from registry.store.check_rows import check_rows  # noqa: PLC0415 - loads pandas

        for kind, text in check_rows(snapshot.state.parts, snapshot, uncompared):
            yield Problem(kind, "", f"{text}; {REPAIR}")


def _describe_admitted(snapshot: Snapshot) -> Iterator[str]:
    """Yield a hint on documents that an earlier contract let in and that of today would not."""
    parts = [part for part in snapshot.state.parts if part.is_earlier]
    if not parts:
        return
    from registry.store.documents import read_all_documents  # noqa: PLC0415 - loads pyarrow

    refused: list[str] = []

    def refuse(document: Document, error: SubmissionError) -> None:
        refused.append(f"document {document.submission_id[:12]}: {error.problems[0]}")

    with suppress(StoreError):  # what cannot be read is reported with its file
        documents = read_all_documents(parts)
        deque(select_valid(documents, snapshot.catalogue, validate_stored, refuse), maxlen=0)
    if refused:
        others = f"; so do {len(refused) - 1} more" if len(refused) > 1 else ""
        yield f"{refused[0]}: it is kept, because an earlier contract accepted it{others}"


def _describe_apart(snapshot: Snapshot) -> Iterator[str]:
    """Yield hints on models and cards that the catalogue calls or describes otherwise."""
    with suppress(StoreError):  # what cannot be read is reported with its file
        yield from describe_apart(snapshot)


def _describe_quarantine(folder: Folder) -> Iterator[str]:
    """Yield a hint on what was set aside."""
    names = folder.storage.list(QUARANTINE)
    if names:
        yield (
            f"{folder.path / QUARANTINE}: holds {format_count(len(names), 'file')} that could not "
            "be read; `registry add FILE` records a document that is valid today"
        )


def _check_leftovers(folder: Folder, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield files that the newest parts do not name, and a lock that is not a file."""
    lock = folder.tables / LOCK
    if lock.is_symlink() or (lock.exists() and not lock.is_file()):
        yield Problem("files", "", f"{lock}: is not a regular file; expected a lock; remove it")
    for part in snapshot.state.parts:
        yield from _find_further(folder, part)


def _find_further(folder: Folder, part: Part) -> Iterator[Problem]:
    names = folder.storage.list(f"tables/parts/{part.name}")
    for name in sorted(set(names) - set(part.files) - {DESCRIPTION}):
        yield Problem(
            "files",
            "",
            f"{part.path / name}: found a file that the part does not name; expected none; "
            "remove it",
        )


def _check_renamed(folder: Folder, snapshot: Snapshot) -> Iterator[Problem]:
    """Yield old ids that lead to no observation."""
    renamed = read_folder(folder)
    pending = derive_tables(snapshot.pending)["observations"] if renamed else ()
    known = {row["observation_id"] for row in pending}
    for table in ("observations", ERASED) if renamed else ():
        known |= {key.hex() for key in snapshot.known.keys(table)}
    for old, new in renamed.items():
        if new not in known:
            yield Problem(
                "ids",
                str(folder.path / RENAMED),
                f"old id {old[:12]} leads to {new[:12]}, which no observation has; expected a "
                "current id; correct the line, or remove it if the observation was withdrawn",
            )


def _describe_retractions(snapshot: Snapshot, *, is_curated: bool = False) -> Iterator[str]:
    """Yield a hint on retractions of what no observation is, under its id or that of today.

    Those of the curated records have to name the id of today: readers of theirs follow none.

    What was erased is nowhere, and what the curated records withdrew may be gone from them.
    """
    if snapshot.curated is None:  # then what was withdrawn may be in those that are left out
        return
    pending = derive_tables(snapshot.pending)
    rows = [*pending["retractions"], *_read_retractions(snapshot.parts)]
    there = ids_of(snapshot.parts) | {row["observation_id"] for row in pending["observations"]}
    for identity in sorted({row["observation_id"] for row in rows if not row.get("erased")}):
        today = identity if is_curated else snapshot.renamed.get(identity, identity)
        if not there & {identity, today}:
            yield (
                f"retraction of {identity[:12]}: no observation has this id today, so it withdraws "
                "nothing; if the observation is still there under another id, withdraw that with "
                "`registry retract ID --reason REASON`; `registry ls` lists what there is"
            )


def _read_retractions(parts: Iterable[Part]) -> Iterator[Row]:
    files = [
        file for part in parts if part.rows("retractions") and (file := part.file("retractions"))
    ]
    if files:
        from registry.store.parquet import read_table  # noqa: PLC0415 - loads pyarrow

        with suppress(ValueError, OSError):  # what cannot be read is reported with its file
            yield from read_table("retractions", files).to_pylist()


def _check_curated(location: Location) -> CheckReport:
    folder = location.own
    try:
        curated = read_curated(folder)
        read_folder(folder)
        problems = [Problem("files", "", text) for text in _check_built(curated.part)]
        problems += [Problem("source", "", text) for text in curated.problems]
        hints = [f"{name}: not in the tables yet; {REBUILD}" for name in curated.pending_sources]
        if not problems and (folder.path / "sources").is_dir():
            from registry.store.build import check_tables  # noqa: PLC0415 - loads pyarrow

            result = check_tables(folder.path)
            problems = [
                Problem(
                    "tables", str(folder.tables / name), f"not what the sources give; {REBUILD}"
                )
                for name in result.changed
            ]
            if result.pending == ("schemas",):
                hints.append(f"the tables were made under another contract; {REBUILD}")
        snapshot = read_snapshot(location)
        problems += _check_renamed(folder, snapshot)
        hints += _describe_retractions(snapshot, is_curated=True)
    except RegistryError as error:
        return CheckReport({}, (Problem("curated", "", str(error)),))
    problems += [Problem("journal", "", text) for text in snapshot.journal.problems]
    return CheckReport(count_rows(snapshot, snapshot.legacy), tuple(problems), tuple(hints))


def _check_built(part: Part | None) -> Iterator[str]:
    if part is None:
        return
    for name, file in part.files.items():
        path = part.path / name
        if not path.is_file() or hash_file(path) != file.sha256:
            yield f"{path}: missing, or not as `registry build` wrote it; {REBUILD}"


def _hints(folder: Folder, snapshot: Snapshot) -> Iterator[str]:
    if snapshot.state.is_legacy:
        yield (
            "an earlier release wrote these tables: they are derived again on every read; "
            "`registry fold` rewrites them for good"
        )
    elif any(not part.is_current(snapshot.catalogue_hash) for part in snapshot.state.parts):
        yield (
            "some tables were written under another contract or with other models: `results` is "
            "computed on every read; `registry fold --all` rewrites them for good"
        )
    yield from _describe_admitted(snapshot)
    yield from _describe_apart(snapshot)
    yield from _describe_quarantine(folder)
    yield from _describe_retractions(snapshot)
    yield from describe_erasures(snapshot)
    for name in list_unnamed_parts(folder, snapshot.state):
        yield (
            f"{folder.parts / name}: no version names this part, and all its documents are "
            "elsewhere; `registry prune` removes it"
        )


#: Most differences that are named.
_MOST: Final = 10


def describe_apart(snapshot: Snapshot) -> Iterator[str]:
    """Yield where documents describe or name a model or card otherwise than the catalogue.

    Raises StoreError where a document cannot be read.
    """
    documents = [*read_all_documents(snapshot.state.parts), *snapshot.journal.entries]
    found = dict.fromkeys(_find_apart(documents, snapshot.catalogue))
    yield from islice(found, _MOST)
    if len(found) > _MOST:
        yield f"and {format_count(len(found) - _MOST, 'more such difference')}"


def _find_apart(documents: Iterable[Document], catalogue: Catalogue) -> Iterator[str]:
    named: Counter[tuple[str, str]] = Counter()
    for document in documents:
        for table in CATALOGUE_TABLES:
            key, known = catalogue.by_id(table)
            for row in document.plain.get(table, ()):
                for identity, name, own, value in catalogue.differences(table, row):
                    yield (
                        f"{table.removesuffix('s')} {identity!r}: {name} is {own!r} in the "
                        f"catalogue and {value!r} in one of your documents; answers use the "
                        "catalogue's"
                    )
            stated = (
                one["configuration"].get(key) for one in document.plain.get("observations", ())
            )
            named.update((table, name) for name in stated if name is not None and name not in known)
    for (table, name), count in named.items():
        yield _format_unknown(table, name, count, catalogue)


def _format_unknown(table: str, name: str, count: int, catalogue: Catalogue) -> str:
    resolve = catalogue.resolve_model if table == "models" else catalogue.resolve_gpu
    today = resolve(name)
    now = f"is {today!r} in the catalogue now" if today else "is not in the catalogue"
    kept = f"{format_count(count, 'observation')} of yours"
    stay = "stays" if count == 1 else "stay"
    return (
        f"{table.removesuffix('s')} {name!r} {now}: {kept} {stay} under that name, without its "
        "figures"
    )
