"""What is kept in git."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LARGEST = 2_000_000


def test_no_file_in_git_is_larger_than_2_mb() -> None:
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("no git checkout")
    files = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    assert len(files) > 1000
    assert [path.name for path in files if path.is_file() and path.stat().st_size > LARGEST] == []
