"""What a Spark session is refused before it is asked anything."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import registry
from registry.errors import QueryError
from registry.query.model import Dataset, Digest, Relation
from registry.query.spark import register_dataset

if TYPE_CHECKING:
    from pathlib import Path


class NeverAsked:
    """Stands where a session is expected that must not be reached."""

    def createDataFrame(self) -> None:  # noqa: N802 - Spark's name
        raise AssertionError


def _dataset(path: Path, *digests: Digest) -> Dataset:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"n": [1]}), path)
    return Dataset((Relation("things", (path,), digests=digests),), readable=(path.parent,))


def test_what_is_no_session_is_refused() -> None:
    with pytest.raises(QueryError) as error:
        registry.spark("local[2]")
    assert str(error.value) == (
        "session: found str, expected a SparkSession; make one with "
        "pyspark.sql.SparkSession.builder.getOrCreate()"
    )


def test_a_path_that_spark_takes_for_a_pattern_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine [2]" / "things.parquet"
    with pytest.raises(QueryError) as error:
        register_dataset(NeverAsked(), _dataset(path))
    assert str(error.value) == (
        f"{path}: found one of * ? [ \\ ] {{ }} in the path, expected none: Spark takes it for a "
        "pattern; move the registry to another folder"
    )


def test_a_file_that_is_not_as_it_was_written_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "things.parquet"
    with pytest.raises(QueryError, match="found content that differs from what was written; mend"):
        register_dataset(NeverAsked(), _dataset(path, Digest(1, "0" * 64, "mend it")))
