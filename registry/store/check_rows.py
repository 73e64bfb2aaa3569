"""Check the rows of parts: against the contract, and against what their documents give."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from registry.contract import TABLES, load_table
from registry.contract.arrow import rows_table, table_schema
from registry.contract.fingerprint import is_current
from registry.contract.frames import MOST_NAMED, check_frame
from registry.dataframe import nullable
from registry.errors import StoreError, excerpt
from registry.store.derive_tables import CATALOGUE_TABLES, derive_tables, select_new
from registry.store.documents import read_all_documents
from registry.store.files import for_engine
from registry.store.ids import IDENTIFIED, KnownIds, format_ids
from registry.store.parquet import READ_ERRORS, ordered_table, read_table
from registry.store.results import compute_results

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from pathlib import Path

    from registry.store.derive_tables import Rows
    from registry.store.parts import Part
    from registry.store.snapshot import Snapshot

Found = tuple[str, str]

#: Rows beyond what the documents give that are still compared one by one.
_MOST_SURPLUS = 10_000

_EXPECTED = "expected what the documents give"


def check_rows(
    parts: Sequence[Part], snapshot: Snapshot, hints: list[str] | None = None
) -> Iterator[Found]:
    """Yield (kind, message) of everything wrong with the rows of some parts together.

    Parts that another contract wrote may differ from what would be written today: they are compared
    in what both have, see `_check_evolved`. The rows of documents that another contract let in are
    those that follow, whatever is valid today. What could not be compared is added to ``hints``.
    """
    today = [part for part in parts if is_current(part.contract)]
    others = [part for part in parts if part not in today]
    try:
        rows = derive_tables(read_all_documents(parts))
        of_others = _rows_beside(others, today) if others else {}
        rows = _rows_beside(today, others) if others else rows
    except StoreError as error:
        yield "documents", str(error).partition("; ")[0]
        return
    try:
        yield from _check_tables(today, rows, snapshot, is_whole=not others)
        surplus = list(_find_surplus(others, of_others)) if others else []
        yield from (
            surplus or _check_evolved(others, of_others, [] if hints is None else hints)
            if others
            else ()
        )
    except READ_ERRORS as error:
        reason = str(error).splitlines()[0]
        yield "rows", f"found a table that cannot be read as its columns say: {reason}; {_EXPECTED}"


def _rows_beside(parts: Sequence[Part], others: Sequence[Part]) -> Rows:
    """Return the rows that parts hold of what follows from their documents, beside others."""
    known = KnownIds([part.ids for part in (*parts, *others)])
    rows = derive_tables(read_all_documents(parts), known)
    return select_new(rows, KnownIds([part.ids for part in others]))


def _check_tables(
    parts: Sequence[Part], rows: Rows, snapshot: Snapshot, *, is_whole: bool
) -> Iterator[Found]:
    """Yield what is wrong with tables; where they are not the ``whole``, none are computed."""
    surplus = [*_find_surplus(parts, rows)]
    if surplus:  # so many that reading them may take all memory
        yield from surplus
        return
    stored = {name: read_table(name, _files(parts, name)) for name in TABLES}
    judged = stored
    if any(part.is_earlier for part in parts):
        today = [part for part in parts if not part.is_earlier]
        judged = {name: read_table(name, _files(today, name)) for name in TABLES}
    found = [*_check_contract(judged), *_check_derived(stored, rows)]
    yield from found
    if not found:
        if is_whole:
            yield from _check_computed(parts, stored, snapshot)
        yield from _check_ids(parts)


def _find_surplus(parts: Sequence[Part], rows: Rows) -> Iterator[Found]:
    """Yield the tables that say to hold many more rows than the documents give."""
    n_observations = len(rows["observations"])
    expected = {name: len(rows[name]) for name in TABLES} | {"results": n_observations}
    for name, wanted in expected.items():
        counted = [pq.read_metadata(for_engine(file)).num_rows for file in _files(parts, name)]
        if sum(counted) > _MOST_SURPLUS + wanted:
            yield "rows", f"table {name}: found {sum(counted)} rows; {_EXPECTED}: {wanted}"


def _files(parts: Sequence[Part], name: str) -> list:  # type: ignore[type-arg]
    return [file for part in parts if (file := part.file(name))]


def _check_contract(stored: dict[str, pa.Table]) -> Iterator[Found]:
    for name, table in stored.items():
        for text in check_frame(name, table.to_pandas(types_mapper=nullable)):
            yield "contract", text


def _check_derived(stored: dict[str, pa.Table], rows: dict[str, list]) -> Iterator[Found]:  # type: ignore[type-arg]
    """Yield rows that are not those that follow from the documents."""
    for name in TABLES:
        expected = ordered_table(name, rows[name])
        table = stored[name]
        if name != "submissions":
            keys = [(key, "ascending") for key in load_table(name).key]
            table = table.sort_by(keys)
        if not table.equals(expected):
            yield from _describe_difference(name, table, expected)


def _describe_difference(name: str, table: pa.Table, expected: pa.Table) -> Iterator[Found]:
    found, wanted = (
        {_key_text(name, row): row for row in some.to_pylist()} for some in (table, expected)
    )
    lines = [f"found no row {key}" for key in wanted.keys() - found.keys()]
    lines += [f"found a row {key} that no document gives" for key in found.keys() - wanted.keys()]
    for key in found.keys() & wanted.keys():
        for column, value in wanted[key].items():
            if found[key][column] != value:
                lines.append(f"row {key}: found {column} = {excerpt(found[key][column])}")
    if not lines:
        lines = [f"found {table.num_rows} rows, {expected.num_rows} of them distinct"]
    for line in sorted(lines)[:MOST_NAMED]:
        yield "rows", f"table {name}: {line}; {_EXPECTED}"


def _key_text(name: str, row: dict) -> str:  # type: ignore[type-arg]
    return " ".join(str(row[key]) for key in load_table(name).key)


def _check_computed(
    parts: Sequence[Part], stored: dict[str, pa.Table], snapshot: Snapshot
) -> Iterator[Found]:
    """Yield where the stored `results` are not what the view gives, where readers use them."""
    current = [part for part in parts if part.is_current(snapshot.catalogue_hash)]
    if len(current) < len(parts) or not any(part.rows("observations") for part in parts):
        return
    inputs = {name: table for name, table in stored.items() if name != "retractions"}
    catalogue = snapshot.catalogue
    inputs |= {name: ordered_table(name, catalogue.rows(name)) for name in CATALOGUE_TABLES}
    expected = compute_results(inputs)
    results = _recounted(parts)
    if not results.equals(expected.cast(results.schema)):
        for name in expected.column_names:
            if results.num_rows != expected.num_rows or not results[name].equals(
                expected[name].cast(results[name].type)
            ):
                yield "results", f"table results: found values of {name} that are not the view's"


def _recounted(parts: Sequence[Part]) -> pa.Table:
    """Return the stored results with the citations that later parts brought."""
    results = read_table("results", _files(parts, "results")).sort_by("observation_id")
    later = read_table("later_citations", _files(parts, "later_citations"))
    if not later.num_rows:
        return results
    more: dict[str, int] = {}
    for row in later.to_pylist():
        more[row["observation_id"]] = more.get(row["observation_id"], 0) + row["n"]
    counts = [
        n + more.get(key, 0)
        for key, n in zip(
            results["observation_id"].to_pylist(), results["n_citations"].to_pylist(), strict=True
        )
    ]
    place = results.schema.get_field_index("n_citations")
    return results.set_column(place, results.schema.field(place), pa.array(counts, pa.int64()))


def _check_ids(parts: Sequence[Part]) -> Iterator[Found]:
    for part in parts:
        for name in IDENTIFIED:
            file, ids = part.file(name), part.ids(name)
            if file is None:
                continue
            rows = read_table(name, [file]).select(load_table(name).key).to_pylist()
            if ids is None or bytes(ids.data) != format_ids(name, rows):
                yield "ids", f"{part.path / name}.ids: found ids that differ from those of the rows"


# Check the rows of parts that another contract wrote, in what both contracts have.

_Keyed = dict[tuple[Any, ...], dict[str, Any]]


def _check_evolved(
    parts: Sequence[Part], rows: Rows, hints: list[str]
) -> Iterator[tuple[str, str]]:
    """Yield (kind, message) of rows that are not what the documents of their parts state.

    Another contract may give other keys, columns and derived rows: what has no counterpart today is
    not wrong; that it was not compared is added to ``hints``.
    """
    uncompared = []
    for name in TABLES:
        files = [file for part in parts if (file := part.file(name))]
        try:
            stored = _keyed(name, read_table(name, files))
            wanted = _keyed(name, rows_table(name, rows[name]))
            columns = _shared_columns(name, files)
        except (*READ_ERRORS, TypeError):
            uncompared.append(name)
            continue
        yield from _describe(name, stored, wanted, columns)
        if not _is_all_compared(stored, wanted, columns):
            uncompared.append(name)
    if uncompared:
        hints.append(
            f"rows of parts that another contract wrote were not all compared with their documents "
            f"({', '.join(uncompared)}); `registry fold --all` derives them again, so "
            "that they can be",
        )


def _keyed(name: str, table: pa.Table) -> _Keyed:
    return {tuple(row[key] for key in load_table(name).key): row for row in table.to_pylist()}


def _shared_columns(name: str, files: Sequence[Path]) -> set[str]:
    """Return the columns that all files have, in the type of today."""
    found = [pq.read_schema(for_engine(file)) for file in files]
    return {
        field.name
        for field in table_schema(name)
        if all(field.name in s.names and s.field(field.name).type == field.type for s in found)
    }


def _describe(
    name: str, stored: _Keyed, wanted: _Keyed, columns: set[str]
) -> Iterator[tuple[str, str]]:
    lines = [
        f"row {' '.join(map(str, key))}: found {column} = {excerpt(stored[key][column])}"
        for key in stored.keys() & wanted.keys()
        if not _is_derived(wanted[key])
        for column in columns
        if stored[key][column] != wanted[key][column]
    ]
    for line in sorted(lines)[:MOST_NAMED]:
        yield "rows", f"table {name}: {line}; expected what the documents give"


def _is_all_compared(stored: _Keyed, wanted: _Keyed, columns: set[str]) -> bool:
    """Return whether each row has its counterpart, and nothing is beyond the shared columns."""
    return stored.keys() == wanted.keys() and not any(
        (column not in columns and row[column] is not None)
        or (_is_derived(row) and stored[key][column] != row[column])
        for key, row in wanted.items()
        for column in row
    )


def _is_derived(row: Mapping[str, Any]) -> bool:
    return row.get("origin") == "derived"
