"""Commands that are measured without knowing it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from registry.catalogue import Catalogue
from registry.contract import vocabulary
from registry.errors import SourceError
from registry.recorder.options import RECORD_FOLDER
from registry.runner.wrap import (
    format_command,
    read_folder,
    reason_without_record,
    run_command,
    wrapped_environment,
)
from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str, **environment: str) -> Any:
    return run_command(command, environment={**os.environ, **environment})


def test_a_command_without_a_trainer_is_recorded_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(vocabulary("method"), "unknown", "Not stated.")
    done = run(sys.executable, "-c", "import time; time.sleep(0.1); x = bytearray(10)")
    assert (done.returncode, done.outcome) == (0, "ok")
    assert done.note == "the process loaded neither torch nor Hugging Face Trainer"
    prepared = prepare_submission(done.submission, Catalogue(), origin="run")
    observation = prepared.document["observations"][0]
    figures = {row["metric"]: row["value"] for row in observation["measurements"]}
    assert 0.1 < figures["total_time"] < 60
    assert figures["peak_memory"] > 1 << 20
    assert observation["provenance"]["note"] == done.note


@pytest.mark.parametrize(
    ("code", "returncode", "outcome"),
    [
        ("raise SystemExit(7)", 7, "error"),
        ("raise MemoryError", 1, "oom"),
        ("import os; os.kill(os.getpid(), 9)", 137, "interrupted"),
        ("import os; os.kill(os.getpid(), 11)", 139, "error"),
    ],
)
def test_the_exit_is_passed_on_and_recorded(code: str, returncode: int, outcome: str) -> None:
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.outcome) == (returncode, outcome)


def test_output_streams_through(capfd: pytest.CaptureFixture[str]) -> None:
    run(sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("out\n", "err\n")


def test_a_command_that_is_no_python_is_recorded_too() -> None:
    done = run("true")
    assert done.note is not None
    assert done.note.startswith("no Python process left a note")


def test_a_command_that_does_not_exist_is_refused() -> None:
    with pytest.raises(SourceError, match="no-such-command: cannot be started: No such file"):
        run("no-such-command")


def test_another_sitecustomize_runs_as_well(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = 'ran'\n")
    code = "import sys; sys.exit(0 if sys.mine == 'ran' else 3)"
    assert run(sys.executable, "-c", code, PYTHONPATH=str(tmp_path)).returncode == 0


def test_the_job_does_not_see_our_packages() -> None:
    code = (
        "import sys; sys.exit(sum('recorder' not in p and 'site-packages' in p for p in sys.path))"
    )
    plain = run(sys.executable, "-I", "-c", code).returncode
    assert run(sys.executable, "-c", code).returncode == plain


def test_a_broken_recorder_does_not_break_the_job(tmp_path: Path) -> None:
    environment = wrapped_environment(os.environ, str(tmp_path / "does" / "not" / "exist"))
    assert RECORD_FOLDER in environment
    done = run_command([sys.executable, "-c", "print()"], environment=environment)
    assert done.returncode == 0


def test_garbage_in_the_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "record-0-1-1.json").write_text('{"observations": "')
    (tmp_path / "process-1.json").write_text("[1]")
    assert read_folder(tmp_path) == ([], [])
    (tmp_path / "process-2.json").write_text(json.dumps({"has_torch": True}))
    records, notes = read_folder(tmp_path)
    assert records == []
    assert reason_without_record(notes) == (
        "the process used torch without Hugging Face Trainer: steps cannot be told apart"
    )


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["torchrun", "--nproc-per-node=2", "/data/train.py", "--key", "x"], "torchrun train.py"),
        (["python", "-m", "trainer.main", "--token=secret"], "python -m trainer.main"),
        (["/usr/bin/python3", "-c", "print('secret')"], "python3 -c"),
    ],
)
def test_arguments_of_the_script_are_not_recorded(command: list[str], shown: str) -> None:
    assert format_command(command) == shown
