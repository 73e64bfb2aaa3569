"""A session of Spark or Sail sees the tables and views that `registry query` sees."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import registry
from benchmarks.readers import compare_views
from registry.contract import TABLES, view_names
from registry.errors import QueryError
from registry.query.model import Dataset, Relation
from registry.query.spark import register_dataset
from registry.store.folder import create_registry
from registry.store.read import read_dataset
from tests.unit.views.view_cases import ROUTES, hand_in, list_ready, load_cases, take_route

pytestmark = pytest.mark.filterwarnings("ignore::Warning:pyspark", "ignore::ResourceWarning")

CASES = list_ready(load_cases())
#: What is made of layers; the other views are made from it alone, and compared once.
LAYERED = (*TABLES, "results")
NAMES = (*TABLES, *view_names())
RECORDS = Path(__file__).parents[2] / "records"


@pytest.fixture(scope="session")
def first_handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry that holds the first submission of each case of a view, not folded."""
    path: Path = tmp_path_factory.mktemp("cases") / "registry"
    create_registry(path, curated=False)
    hand_in(registry.open(path), CASES, later=False)
    return path


@pytest.mark.parametrize("route", ROUTES)
def test_what_is_pending_or_folded_is_the_same_row_by_row(
    session: Any, first_handed_in: Path, tmp_path: Path, route: str
) -> None:
    opened = registry.open(shutil.copytree(first_handed_in, tmp_path / "my registry"))
    take_route(opened, CASES, route)
    names = NAMES if route == "folded between" else LAYERED
    dataset, _ = read_dataset(opened.location, opened.at)
    compared = list(compare_views(session, dataset, names))
    assert [one for one in compared if not one.is_equal] == []
    assert [one.view for one in compared if not one.rows] in ([], ["samples"])


def test_a_row_of_the_curated_records_and_of_the_user_counts_once(
    session: Any, tmp_path: Path
) -> None:
    create_registry(tmp_path / "registry")
    opened = registry.open(tmp_path / "registry")
    lines = (RECORDS / "sources" / "cpu-smoke" / "submissions.jsonl").read_text(encoding="utf-8")
    opened.add(json.loads(lines.splitlines()[0]))
    opened.fold()
    names = opened.spark(session)
    assert set(NAMES) <= set(names)
    for name in ("observations", "results", "sources", "models"):
        assert session.table(name).count() == len(opened.load(name))


def test_what_is_added_later_is_seen_after_another_call(session: Any, tmp_path: Path) -> None:
    create_registry(tmp_path / "registry", curated=False)
    opened = registry.open(tmp_path / "registry")
    seen = []
    for documents in (iter(()), CASES[0].documents()):
        opened.add_many(documents)
        registry.spark(session, tmp_path / "registry")
        seen.append(session.table("observations").count())
    assert seen == [0, len(opened.load("observations"))]
    assert seen[1] > 0


def _evolved(path: Path, columns: dict[str, Any]) -> Dataset:
    pq.write_table(pa.table(columns), path / "old.parquet")
    expected = (("name", "VARCHAR"), ("n", "BIGINT"), ("words", "VARCHAR[]"))
    relation = Relation("things", (path / "old.parquet",), expected, evolved=True)
    return Dataset((relation,), readable=(path,))


def test_a_column_that_an_earlier_contract_lacked_is_null_and_one_that_is_gone_is_left_out(
    session: Any, tmp_path: Path
) -> None:
    dataset = _evolved(tmp_path, {"gone": [1], "name": ["a"]})
    assert register_dataset(session, dataset) == ("things",)
    rows = [row.asDict() for row in session.sql("select * from things").collect()]
    assert rows == [{"name": "a", "n": None, "words": None}]


def test_a_column_that_was_of_another_type_is_refused(session: Any, tmp_path: Path) -> None:
    dataset = _evolved(tmp_path, {"name": ["a"], "n": ["1"]})
    with pytest.raises(QueryError) as error:
        register_dataset(session, dataset)
    assert str(error.value) == (
        f"{tmp_path}/old.parquet: column 'n': found string, expected int64; "
        "`registry fold --all` rewrites the tables"
    )


@pytest.mark.usefixtures("session")
def test_the_example_of_the_docs_prints_what_they_say(tmp_path: Path) -> None:
    is_sail = find_spec("pysail") is not None
    page = (RECORDS.parent / "docs" / "spark.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```(python|text)\n(.*?)```", page, re.DOTALL)
    codes = [text for kind, text in blocks if kind == "python"]
    (code,) = (text for text in codes if ("pysail" in text) == is_sail)
    (printed,) = (text for kind, text in blocks if kind == "text")
    (tmp_path / "example.py").write_text(code, encoding="utf-8")
    run = subprocess.run(
        [sys.executable, "-W", "ignore", tmp_path / "example.py"],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
        cwd=RECORDS.parent,
        timeout=240,
    )
    assert run.stdout == printed
