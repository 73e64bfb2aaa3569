"""Files of a part that no fold wrote, under a manifest that names them: a folder from somebody."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.errors import QueryError, StoreError
from registry.store.check import check_registry
from registry.store.export import export_folder
from registry.store.fold import commit
from registry.store.manifest import Manifest, manifest_name
from registry.store.parts import DESCRIPTION, PartFile, describe_part, part_name, read_part
from registry.store.repair import repair
from registry.store.state import read_state
from tests.unit.store.registries import add_numbers, count_runs, runs

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.api import Registry
    from registry.store.folder import Folder

#: In microseconds, beyond the years that Python has.
_FAR_OFF = -(2**62)


def replace_file(folder: Folder, name: str, change: Callable[[pa.Table], bytes]) -> None:
    """Change a file of the only part, and all that says what is in it."""
    (old,) = read_state(folder).parts
    data = change(pq.read_table(old.path / name, partitioning=None))
    file = PartFile(len(data), hashlib.sha256(data).hexdigest(), old.files[name].rows)
    description = describe_part(old.contract, old.catalogue, {**old.files, name: file})
    new = old.path.rename(folder.parts / part_name(description))
    (new / name).write_bytes(data)
    (new / DESCRIPTION).write_bytes(description)
    folder.storage.path(manifest_name(1)).unlink()
    commit(folder, Manifest(), [read_part(folder, new.name)])


def write(table: pa.Table) -> bytes:
    sink = io.BytesIO()
    pq.write_table(table, sink)
    return sink.getvalue()


def with_column(name: str, values: Callable[[int], pa.Array]) -> Callable[[pa.Table], bytes]:
    def change(table: pa.Table) -> bytes:
        place = table.schema.get_field_index(name)
        return write(table.set_column(place, name, values(table.num_rows)))

    return change


def doubled(table: pa.Table) -> bytes:
    return write(table.append_column("document", table["document"]))


def with_a_name_that_is_no_text(table: pa.Table) -> bytes:
    data = write(table.append_column("QQQQ", pa.array(range(table.num_rows))))
    return data.replace(b"QQQQ", b"\xff\xfe\xff\xfe")


def texts_that_are_none(n: int) -> pa.Array:
    data = pa.array([b"\xff%d" % number for number in range(n)], pa.binary())
    return pa.Array.from_buffers(pa.string(), n, data.buffers())


def structs(n: int) -> pa.Array:
    return pa.array([{"a": "b"}] * n)


def other_ids(n: int) -> pa.Array:
    return pa.array(map(str, range(n)))


FOREIGN: dict[str, tuple[str, Callable[[pa.Table], bytes]]] = {
    "column twice": ("submissions.parquet", doubled),
    "name no text": ("submissions.parquet", with_a_name_that_is_no_text),
    "texts no texts": ("submissions.parquet", with_column("document", texts_that_are_none)),
    "struct": (
        "submissions.parquet",
        with_column("document", structs),
    ),
    "other ids": (
        "submissions.parquet",
        with_column("submission_id", other_ids),
    ),
    "far off": (
        "observations.parquet",
        with_column("observed_at", lambda n: pa.array([_FAR_OFF] * n, pa.timestamp("us", "UTC"))),
    ),
    "no number": ("measurements.parquet", with_column("value", lambda n: pa.array(["x"] * n))),
    "no key": (
        "measurements.parquet",
        with_column("observation_id", lambda n: pa.nulls(n, pa.string())),
    ),
    "no Parquet": ("results.parquet", lambda _: b"hello"),
}


def export_problem(db: Registry, tmp_path: Path) -> str:
    """Return why a registry cannot be exported; what to do alone, where it can."""
    try:
        export_folder(db.location, tmp_path / "export")
    except StoreError as error:
        return str(error)
    return "registry repair"


@pytest.mark.parametrize("name", FOREIGN)
def test_a_file_that_no_fold_wrote_is_named_and_mended(
    name: str, db: Registry, folder: Folder, tmp_path: Path
) -> None:
    add_numbers(db, 0, 1)
    db.fold()
    replace_file(folder, *FOREIGN[name])
    assert any("registry repair" in p.message for p in check_registry(db.location).problems)
    assert "registry repair" in export_problem(db, tmp_path)
    repair(db.location)
    assert check_registry(db.location).problems == ()
    assert count_runs(db.location) == runs(0, 1)


def test_a_query_says_of_a_file_that_it_cannot_read_what_helps(
    db: Registry, folder: Folder
) -> None:
    add_numbers(db, 0)
    db.fold()
    replace_file(folder, *FOREIGN["no Parquet"])
    with pytest.raises(QueryError, match=r"results\.parquet: cannot be read.*`registry check`"):
        db.query("from results").df()
