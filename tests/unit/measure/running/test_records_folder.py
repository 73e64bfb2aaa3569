"""Folders of records that killed runs left."""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from registry.measure.running.records_folder import find_left_over, note_added, records_folder

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def test_only_folders_with_records_that_nobody_uses_are_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("registry-run-a", "registry-run-b", "registry-run-c", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "registry-run-d").symlink_to(tmp_path / "registry-run-a")
    (tmp_path / "registry-run-e").write_text("")
    for name in ("registry-run-a/record-0-1-1.jsonl", "other/record-0-1-1.jsonl"):
        (tmp_path / name).write_text("")
        os.utime(tmp_path / name, (0, 0))
    (tmp_path / "registry-run-b" / "record-0-1-1.jsonl").write_text("")  # grew a moment ago
    with records_folder() as own:
        (own / "record-0-1-1.json").write_text("{}")
        os.utime(own / "record-0-1-1.json", (0, 0))
        assert find_left_over() == [tmp_path / "registry-run-a"]
    assert not own.exists()


def test_what_was_added_is_left_over_again_only_if_it_grew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder, other = tmp_path / "registry-run-a", tmp_path / "mine"
    for each in (folder, other):
        each.mkdir()
        (each / "record-0-1-1.jsonl").write_text("")
        os.utime(each / "record-0-1-1.jsonl", (100, 100))
        note_added(each)
    assert find_left_over() == []
    assert len(list(other.iterdir())) == 1  # a folder of the user's is left as it is
    os.utime(folder / "added", (50, 50))
    assert find_left_over() == [folder]
