"""Folders of records that killed runs left."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING

import pytest

from registry.measure.running.records_folder import (
    LeftOver,
    find_left_over,
    note_added,
    read_run,
    records_folder,
)

if TYPE_CHECKING:
    from pathlib import Path


def test_only_folders_with_records_that_nobody_uses_are_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("registry-run-a", "registry-run-c", "other"):
        (tmp_path / name).mkdir()
    (tmp_path / "registry-run-d").symlink_to(tmp_path / "registry-run-a")
    (tmp_path / "registry-run-e").write_text("")
    for name in ("registry-run-a/record-0-1-1.jsonl", "other/record-0-1-1.jsonl"):
        (tmp_path / name).write_text("")
    with records_folder({"label": "main"}) as own:
        (own / "record-0-1-1.json").write_text("{}")
        assert read_run(own) == {"label": "main"}
        assert find_left_over() == [LeftOver(tmp_path / "registry-run-a")]
    assert not own.exists()


def test_where_no_folder_may_be_written_to_no_run_left_anything(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """On a read-only root tempfile finds no folder, and ``registry doctor`` is to say so much."""

    def find_none() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", find_none)
    assert find_left_over() == []


#: A process that writes a record as a recorder does, until its input ends.
_WRITES = """
import sys
from pathlib import Path
from registry.measure.recording.progress import Progress
from registry.measure.recording.record import Record
progress = Progress(Path(sys.argv[1]), 0, Record("0", "", {}, {}, {"model_id": "m"}, None))
print("writes", flush=True)
sys.stdin.read()
"""


def test_a_folder_whose_command_goes_on_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    folder = tmp_path / "registry-run-a"
    command = [sys.executable, "-c", _WRITES, str(folder / "record-0-1-1.jsonl")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writes\n"
        assert find_left_over() == [LeftOver(folder, is_growing=True)]
        writer.kill()  # its lock ends with it
    assert find_left_over() == [LeftOver(folder)]


@pytest.mark.parametrize("content", ["", "[1]", '{"label": 1}', '{"label": {}}'])
def test_what_is_no_word_of_a_run_is_passed_over(content: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(content)
    assert read_run(tmp_path) == {}


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
    assert find_left_over() == [LeftOver(folder)]
