"""Read what can be read of a damaged part: its documents, else its rows."""

from __future__ import annotations

import json
from contextlib import suppress
from itertools import chain
from operator import itemgetter
from typing import TYPE_CHECKING, Any

from registry.contract import TABLES, load_table
from registry.errors import StoreError
from registry.store.compose import compose_described, compose_documents, compose_retractions
from registry.store.derive_tables import Document, derive_tables, read_document
from registry.store.files import require_regular
from registry.store.parquet import READ_ERRORS, read_rows
from registry.submission.identity import document_id

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from registry.store.derive_tables import Row, Rows

#: How many times its size a file may unpack to, and how much it may in any case: what is written
#: here unpacks to 20 to 200 times its size, but a small file can repeat a row for ever.
_MOST_UNPACKED = 1000
_ALWAYS_READ = 64 * 2**20

#: Tables whose rows belong to observations of several parts.
_SHARED = ("sources", "configurations", "environments")

#: Tables whose rows tell that an observation is reported.
_REPORTED = ("observations", "citations")

#: Tables whose rows are an observation's own.
_OWN = ("observations", "measurements", "samples")


def recover_part(path: Path, others: Sequence[Path], notes: list[str]) -> Iterator[Document]:
    """Yield the documents of a part, composed from its rows where they cannot be read.

    Rows that its observations share with those of ``others`` are in the first part that had them.
    What is wrong is added to ``notes``.
    """
    rows = _read(path / "submissions.parquet", notes)
    damaged = 0
    for row in rows or ():
        if _is_whole(row):
            yield Document(row["submission_id"], row["document"], _parse(row["document"]))
        else:
            damaged += 1
    if rows is None or damaged:
        notes.append(
            f"{path}: documents damaged or missing; their observations are composed from the rows"
        )
        yield from _compose(path, others, notes)


def _is_whole(row: Row) -> bool:
    text = row.get("document")
    return isinstance(text, str) and document_id(text) == row.get("submission_id")


def _parse(text: str) -> Any:
    """Return what a document says; None where it is no JSON, which no validation lets pass."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _compose(path: Path, others: Sequence[Path], notes: list[str]) -> Iterator[Document]:
    tables = {name: _read_rows(path, name, notes) for name in TABLES if name != "submissions"}
    given = derive_tables(_read_whole(dict.fromkeys((path, *others))))
    new = _find_new(tables, given)
    for name in _SHARED:
        tables[name] += [*given[name], *(row for o in others for row in _read_rows(o, name, []))]
    lacking = {row["observation_id"] for name in _REPORTED for row in new[name]}
    own = {row["observation_id"] for row in tables["observations"]}
    notes += [
        f"{path}: observation {identity} is in no part; its citation is left out"
        for identity in sorted(_take_over(tables, lacking - own, given, others))
    ]
    tables["observations"] = _select_composable(path, tables, lacking, notes)
    yield from compose_documents(tables)
    yield from _compose_described(path, tables, new, notes)
    yield from compose_retractions(new["retractions"])


def _take_over(tables: Rows, wanted: set[str], given: Rows, others: Sequence[Path]) -> set[str]:
    """Add observations from the documents or the first of the others that has each.

    Return those that nobody has.
    """
    read = ({name: _read_rows(other, name, []) for name in _OWN} for other in others)
    for rows in chain([given], read) if wanted else ():
        found = wanted & {row["observation_id"] for row in rows["observations"]}
        for name in _OWN if found else ():  # measurements may be there without their observation
            rest = [row for row in tables[name] if row["observation_id"] not in found]
            tables[name] = rest + [row for row in rows[name] if row["observation_id"] in found]
        wanted = wanted - found
    return wanted


def _select_composable(path: Path, tables: Rows, lacking: set[str], notes: list[str]) -> list[Row]:
    """Return the observations that are lacking and have a configuration."""
    there = {row["configuration_id"] for row in tables["configurations"]}
    for row in tables["observations"]:
        if row["configuration_id"] not in there:
            lost = f"its configuration {row['configuration_id']} is in no part"
            notes.append(f"{path}: observation {row['observation_id']}: {lost}; it is left out")
    return [
        row
        for row in tables["observations"]
        if row["configuration_id"] in there and row["observation_id"] in lacking
    ]


def _compose_described(path: Path, tables: Rows, new: Rows, notes: list[str]) -> Iterator[Document]:
    """Yield documents of the sources, models and GPUs that come with no observation."""
    reported = {row["source_id"] for row in tables["observations"]}
    sources = [row for row in new["sources"] if row["source_id"] not in reported]
    described = [row[f"{name}_id"] for name in ("model", "gpu") for row in new[f"{name}s"]]
    if reported:  # what is composed of these describes them
        new = {**new, "models": [], "gpus": []}
    elif described and not sources:
        sources = tables["sources"][:1]
        place = f"put under {sources[0]['source_id']}" if sources else "left out"
        names = ", ".join(sorted(described))
        notes.append(f"{path}: the source that describes {names} is not known; {place}")
    yield from compose_described(new, sources)


def _read_whole(paths: Iterable[Path]) -> Iterator[Document]:
    """Yield the documents of parts that rows follow from."""
    for path in paths:
        for row in filter(_is_whole, _read(path / "submissions.parquet", []) or ()):
            with suppress(StoreError):
                document = read_document(row["submission_id"], row["document"], path)
                derive_tables([document])
                yield document


def _find_new(tables: Rows, given: Rows) -> Rows:
    """Return the rows that stand for themselves and that documents do not give."""
    new = {}
    for name in (*_REPORTED, "sources", "models", "gpus", "retractions"):
        key = itemgetter(*load_table(name).key)
        known = set(map(key, given[name]))
        new[name] = [row for row in tables[name] if key(row) not in known]
    return new


def _read_rows(path: Path, name: str, notes: list[str]) -> list[dict[str, Any]]:
    file = path / f"{name}.parquet"
    return (_read(file, notes) or []) if file.exists() else []


def _read(path: Path, notes: list[str]) -> list[dict[str, Any]] | None:
    try:
        require_regular(path)
        largest = max(_ALWAYS_READ, _MOST_UNPACKED * path.stat().st_size)
        rows = read_rows(path, largest)
    except (*READ_ERRORS, StoreError) as error:
        notes.append(f"{path}: cannot be read ({str(error).splitlines()[0]})")
        return None
    if rows is None:
        notes.append(f"{path}: unpacks to more than {largest} bytes; it is not read")
    return rows
