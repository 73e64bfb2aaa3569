from __future__ import annotations

import hashlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from registry.errors import QueryError
from registry.query import reach
from registry.query.model import Dataset, Digest, Query, Relation
from registry.query.process import start_worker

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def verified(dataset: Dataset, folder: Path) -> Dataset:
    """Return the dataset with what its file held when it was written."""
    data = (folder / "a.parquet").read_bytes()
    digest = Digest(len(data), hashlib.sha256(data).hexdigest(), "run `registry repair`")
    table, *rest = dataset.relations
    return replace(dataset, relations=(replace(table, digests=(digest,)), *rest))


def ask(dataset: Dataset, sql: str) -> bytes:
    with start_worker() as worker:
        return worker.fetch(dataset, Query(sql, format="csv"))


def flip_last_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


def test_a_file_that_holds_what_was_written_is_read(verified: Dataset) -> None:
    assert ask(verified, "select count(*) as n from a") == b"n\n10\n"


@pytest.mark.parametrize("kind", ["of another size", "of the same size", "empty"])
def test_a_file_with_other_content_is_refused(verified: Dataset, folder: Path, kind: str) -> None:
    path = folder / "a.parquet"
    if kind == "of the same size":
        flip_last_byte(path)
    else:
        os.truncate(path, 0 if kind == "empty" else path.stat().st_size + 1)
    with pytest.raises(QueryError) as caught:
        ask(verified, "select count(*) as n from small")
    assert str(caught.value) == (
        f"{path}: found content that differs from what was written; run `registry repair`"
    )


def test_only_the_files_that_a_statement_uses_are_verified(verified: Dataset, folder: Path) -> None:
    flip_last_byte(folder / "a.parquet")
    assert ask(verified, "select count(*) as n from empty") == b"n\n0\n"


def test_of_a_large_file_the_size_must_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reach, "LARGEST_HASHED", 9)
    path = tmp_path / "large.parquet"
    path.write_bytes(b"0123456789")
    relation = Relation("large", (path,), digests=(Digest(10, "no such hash", ""),))
    reach.validate_contents(relation)
    path.write_bytes(b"012345678")
    with pytest.raises(QueryError):
        reach.validate_contents(relation)
