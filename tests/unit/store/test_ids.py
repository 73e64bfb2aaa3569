from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING

import pytest

from registry.errors import StoreError
from registry.store.ids import IdFile, KnownIds, format_ids, row_key

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO, THREE = (bytes([number]) * 16 for number in (1, 2, 3))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "observations.ids"
    path.write_bytes(ONE + THREE)
    return path


@pytest.fixture
def ids(path: Path) -> IdFile:
    data = path.read_bytes()
    return IdFile(path, len(data), hashlib.sha256(data).hexdigest(), "run `registry repair`")


def test_an_id_is_found_where_it_is_among_them(ids: IdFile) -> None:
    assert [one in ids for one in (ONE, TWO, THREE)] == [True, False, True]
    assert (len(ids), ids[1]) == (2, THREE)


@pytest.mark.parametrize("data", [b"", ONE, ONE + TWO], ids=["emptied", "cut", "replaced"])
def test_ids_other_than_were_written_are_refused(ids: IdFile, path: Path, data: bytes) -> None:
    path.write_bytes(data)
    with pytest.raises(StoreError) as caught:
        KnownIds([lambda _: ids]).contains("observations", ONE)
    assert str(caught.value) == (
        f"{path}: found content that differs from what was written; run `registry repair`"
    )


def test_missing_ids_are_refused(ids: IdFile, path: Path) -> None:
    path.unlink()
    with pytest.raises(StoreError) as caught:
        len(ids)
    assert str(caught.value) == (
        f"{path}: cannot be read (No such file or directory); run `registry repair`"
    )


def test_the_id_of_a_row_is_16_bytes_of_its_hash() -> None:
    assert row_key("observations", {"observation_id": "0f" * 32}) == b"\x0f" * 16
    expected = hashlib.sha256(b"rtx-4090").digest()[:16]
    assert row_key("gpus", {"gpu_id": "rtx-4090"}) == expected
    citation = {"observation_id": "0f", "source_id": "blog", "locator": "table 1"}
    expected = hashlib.sha256(b"0f\x1fblog\x1ftable 1").digest()[:16]
    assert row_key("citations", citation) == expected
    rows = [{"observation_id": digits * 16} for digits in ("cd", "ab", "cd")]
    assert format_ids("observations", rows) == b"\xab" * 16 + b"\xcd" * 16
