"""Rows are checked in every part, also where citations of earlier observations came later."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from registry.store.check import check_registry
from registry.store.check_rows import check_rows
from registry.store.ids import format_ids
from registry.store.parts import Part, PartFile
from registry.store.snapshot import read_snapshot
from tests.unit.store.registries import add_numbers, build_document

if TYPE_CHECKING:
    from registry.api import Registry


@pytest.fixture
def cited(db: Registry) -> Registry:
    """Return a registry of three parts; the later two bring citations of the first."""
    for locators in (("a",), ("b",), ("c", "d")):
        for locator in locators:
            db.add(build_document(0, locator=locator))
        add_numbers(db, 1 + len(locator))
        db.fold()
        add_numbers(db, *range(10, 10 + ord(locators[0]) - ord("a")))
        db.fold()
    return db


def test_citations_that_came_later_are_counted_by_the_check(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    assert len(snapshot.state.parts) > 2
    assert sum(part.rows("later_citations") for part in snapshot.state.parts) == 2
    assert check_registry(cited.location).problems == ()


def test_later_citations_of_another_number_are_named(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    parts = [
        replace(part, files={n: f for n, f in part.files.items() if not n.startswith("later")})
        for part in snapshot.state.parts
    ]
    assert list(check_rows(parts, snapshot)) == [
        ("results", "table results: found values of n_citations that are not the view's")
    ]


def with_ids(part: Part, table: str, data: bytes) -> Part:
    """Return a part with other ids, as if they had been written so."""
    name = f"{table}.ids"
    (part.path / name).write_bytes(data)
    file = PartFile(len(data), hashlib.sha256(data).hexdigest())
    return replace(part, files={**part.files, name: file})


@pytest.mark.parametrize("table", ["observations", "citations", "submissions"])
def test_ids_are_checked_in_a_part_without_models_too(cited: Registry, table: str) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    assert last.file("models") is None
    damaged = with_ids(last, table, format_ids("observations", [{"observation_id": "0f" * 16}]))
    found = list(check_rows([*others, damaged], snapshot))
    message = f"{last.path / table}.ids: found ids that differ from those of the rows"
    assert found == [("ids", message)]


def test_missing_ids_are_named(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    files = {name: file for name, file in last.files.items() if name != "observations.ids"}
    found = list(check_rows([*others, replace(last, files=files)], snapshot))
    message = f"{last.path / 'observations'}.ids: found ids that differ from those of the rows"
    assert found == [("ids", message)]


def with_table(part: Part, table: str, rows: pa.Table) -> Part:
    """Return a part with other rows, as if they had been written so."""
    path = part.path / f"{table}.parquet"
    pq.write_table(rows, path)
    data = path.read_bytes()
    file = PartFile(len(data), hashlib.sha256(data).hexdigest(), rows.num_rows)
    return replace(part, files={**part.files, path.name: file})


def test_many_more_rows_than_documents_give_are_named_without_reading_them(
    cited: Registry,
) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    rows = pq.read_table(last.path / "measurements.parquet").slice(0, 1)
    damaged = with_table(last, "measurements", pa.concat_tables([rows] * 20_000))
    ((kind, message),) = check_rows([*others, damaged], snapshot)
    assert kind == "rows"
    assert message.startswith("table measurements: found 200")
    assert "expected what the documents give" in message


@pytest.mark.parametrize("table", ["observations", "results"])
def test_a_column_of_another_type_is_named(cited: Registry, table: str) -> None:
    snapshot = read_snapshot(cited.location)
    *others, last = snapshot.state.parts
    rows = pq.read_table(last.path / f"{table}.parquet")
    place = rows.schema.get_field_index("source_id")
    numbers = pa.array([7] * rows.num_rows)
    damaged = with_table(last, table, rows.set_column(place, "source_id", numbers))
    found = list(check_rows([*others, damaged], snapshot))
    assert found
    assert {kind for kind, _ in found} <= {"rows", "results", "contract"}


def halved(part: Part) -> Part:
    """Return a part whose measurements are half of what its documents state."""
    rows = pq.read_table(part.path / "measurements.parquet")
    place = rows.schema.get_field_index("value")
    values = pc.divide(rows["value"], 2)
    return with_table(
        part, "measurements", rows.set_column(place, rows.schema.field(place), values)
    )


def test_rows_are_compared_beside_parts_of_another_contract(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    first, *others = snapshot.state.parts
    earlier = replace(first, contract="another")
    hints: list[str] = []
    assert list(check_rows([earlier, *others], snapshot, hints)) == []
    assert hints == []
    found = list(check_rows([earlier, *others[:-1], halved(others[-1])], snapshot))
    assert {kind for kind, _ in found} == {"rows"}
    assert "table measurements: row" in found[0][1]


def test_rows_of_another_contract_are_compared_too(cited: Registry) -> None:
    snapshot = read_snapshot(cited.location)
    for place, part in enumerate(snapshot.state.parts):
        if not part.rows("measurements"):
            continue
        parts = list(snapshot.state.parts)
        parts[place] = replace(halved(part), contract="another")
        found = list(check_rows(parts, snapshot))
        assert {kind for kind, _ in found} == {"rows"}
        assert "found value = " in found[0][1]


@pytest.mark.parametrize("change", ["column", "row", "type", "key"])
def test_what_another_contract_has_otherwise_is_a_hint_with_the_way_out(
    cited: Registry, change: str
) -> None:
    snapshot = read_snapshot(cited.location)
    first, *others = snapshot.state.parts
    rows = pq.read_table(first.path / "observations.parquet")
    place = rows.schema.get_field_index("run_id")
    changed = {
        "column": rows.drop_columns(["run_id"]),
        "row": rows.slice(1),
        "type": rows.set_column(place, "run_id", rows["run_id"].cast(pa.large_string())),
        "key": rows.drop_columns(["observation_id"]),
    }[change]
    hints: list[str] = []
    earlier = replace(with_table(first, "observations", changed), contract="another")
    assert list(check_rows([earlier, *others], snapshot, hints)) == []
    assert hints == [
        (
            "rows of parts that another contract wrote were not all compared with their documents "
            "(observations); `registry fold --all` derives them again, so that they can be"
        )
    ]
