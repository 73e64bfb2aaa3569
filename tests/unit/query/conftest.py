from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa
import pytest
from pyarrow import parquet

from registry.query import child
from registry.query.confine import landlock_abi
from registry.query.model import Dataset, Limits, Query, Relation, View
from registry.query.process import start_worker

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

LIMITS = Limits(memory_bytes=256 << 20, seconds=20, threads=2)


@pytest.fixture(autouse=True)
def _working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Relative paths in hostile SQL land where the snapshot sees them."""
    folder = tmp_path / "cwd"
    folder.mkdir()
    monkeypatch.chdir(folder)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "tables"
    place.mkdir()
    rows = pa.table({"id": pa.array(range(10), pa.int64()), "name": [f"n{i}" for i in range(10)]})
    parquet.write_table(rows, place / "a.parquet")
    return place


@pytest.fixture
def dataset(folder: Path) -> Dataset:
    return Dataset(
        relations=(
            Relation("a", (folder / "a.parquet",), (("id", "BIGINT"), ("name", "VARCHAR"))),
            Relation("empty", (), (("k", "INTEGER"), ("t", "TIMESTAMPTZ"))),
        ),
        views=(
            View("small", "select id, name from a where id < 3"),
            View("counted", "select count(*) as n from small"),
        ),
        readable=(folder,),
        comments=lambda: (("a", "id", "the key"), ("small", "", "the first three")),
    )


@pytest.fixture
def patch_child(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function that has the children of this test run some code before they serve."""

    def patch(code: str) -> None:
        body = f"exec({code!r}); from registry.query.worker import main"
        monkeypatch.setattr(
            child, "SERVE", child.SERVE.replace("from registry.query.worker import main", body)
        )

    return patch


class Ask(Protocol):
    def __call__(self, sql: str, **options: Any) -> str: ...


@pytest.fixture
def ask(dataset: Dataset) -> Ask:
    """Run a query and return what it wrote."""

    def run(
        sql: str,
        params: dict[str, Any] | None = None,
        *,
        over: Dataset = dataset,
        limits: Limits = LIMITS,
        landlock: bool = True,
        **options: Any,
    ) -> str:
        query = Query(sql, params or {}, options.get("format", "csv"), limits, landlock)
        with tempfile.TemporaryFile() as file:
            with start_worker() as worker:
                worker.run(over, query, file.fileno())
            return os.pread(file.fileno(), 1 << 24, 0).decode()

    return run


@pytest.fixture(params=[True, False], ids=["landlock", "memory"])
def landlock(request: pytest.FixtureRequest) -> bool:
    if request.param and not landlock_abi():
        pytest.skip("the kernel has no Landlock")
    return bool(request.param)
