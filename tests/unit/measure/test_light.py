"""What a measured process loads, keeps and gives away."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from registry.measure import environment
from registry.measure.record_files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path


def test_importing_the_recorder_loads_nothing_heavy() -> None:
    modules = (
        *("registry.measure", "registry.measure.ratios", "registry.measure.recording.session"),
        *(f"registry.measure.running.{name}" for name in ("job", "plan", "rerun", "sweep")),
        "registry.measure.running.wrapped_command",
    )
    code = (
        f"import sys, {', '.join(modules)}; "
        "print([name for name in ('torch', 'transformers', 'numpy', 'pandas', 'duckdb', 'pyarrow', "
        "'click') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_child_needs_nothing_but_the_standard_library() -> None:
    code = (
        "import sys, registry.measure.recording.session, "
        "registry.measure.recording.measured_process; "
        "print([name for name in ('pydantic', 'yaml') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_environment_names_no_folder_and_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "secret")
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "file:/home/someone/x")
    row = environment.collect_environment()
    assert row["settings"]["OMP_NUM_THREADS"] == "3"
    text = json.dumps(row)
    assert "secret" not in text
    assert "/home" not in text
    assert row["python_version"] == ".".join(str(part) for part in sys.version_info[:3])


def test_a_document_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    write_json(path, {"a": 1})
    with pytest.raises(ValueError, match="Out of range float"):
        write_json(path, {"a": float("nan")})
    assert read_json(path) == {"a": 1}
    assert [each.name for each in tmp_path.iterdir()] == ["record.json"]


def test_garbage_is_no_document(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    path.write_bytes(b'{"a": \xff')
    assert read_json(path) is None
    assert read_json(tmp_path / "missing.json") is None
