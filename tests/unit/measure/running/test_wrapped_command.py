"""Commands that are measured without knowing it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pytest

from registry.catalogue import Catalogue
from registry.errors import SourceError
from registry.measure.running.wrapped_command import (
    format_command,
    read_folder,
    reason_without_record,
    run_command,
    wrapped_environment,
)
from registry.measure.trial_settings import RECORD_FOLDER
from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from pathlib import Path


def run(*command: str, **environment: str) -> Any:
    return run_command(command, environment={**os.environ, **environment})


def test_a_command_without_a_trainer_is_recorded_as_a_whole(
    tmp_path: Path,
) -> None:
    path = tmp_path / "seconds"
    code = (
        "import pathlib, time; began = time.perf_counter(); sum(range(10**6)); "
        f"pathlib.Path({str(path)!r}).write_text(str(time.perf_counter() - began))"
    )
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.outcome) == (0, "ok")
    assert done.note == "the process loaded neither torch nor Hugging Face Trainer"
    prepared = prepare_submission(done.submission, Catalogue(), origin="run")
    observation = prepared.document["observations"][0]
    figures = {row["metric"]: row["value"] for row in observation["measurements"]}
    assert figures["total_time"] > float(path.read_text()) > 0
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
        "import sys; sys.exit(sum('recording' not in p and 'site-packages' in p for p in sys.path))"
    )
    plain = run(sys.executable, "-I", "-c", code).returncode
    assert run(sys.executable, "-c", code).returncode == plain


def test_the_job_may_have_a_registry_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "__init__.py").write_text("OURS = 7\n")
    (tmp_path / "registry" / "measure.py").write_text("OURS = 8\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "assert 'registry' not in sys.modules\n"
        "import registry, registry.measure\n"
        "sys.exit(registry.OURS + registry.measure.OURS)\n"
    )
    done = run(sys.executable, str(script))
    assert (done.returncode, done.outcome) == (15, "error")
    assert done.note == "the process loaded neither torch nor Hugging Face Trainer"


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


#: A record as a process leaves it: the parts that are looked at before it is validated.
RECORD: dict[str, Any] = {
    "schema_version": 1,
    "source": {"source_id": "run-0", "title": "Recorded run 0", "kind": "run"},
    "models": [{"model_id": "tiny", "model_type": "llama"}],
    "observations": [
        {
            "outcome": "ok",
            "observed_at": "2026-01-02T03:04:05+00:00",
            "run_id": "0",
            "configuration": {"model_id": "tiny", "method": "full", "gpus_per_node": 1},
            "measurements": [{"metric": "total_time", "value": 1.0}],
        }
    ],
}

INVALID = "the record that a process of it left is not a valid submission"


def run_and_leave(tmp_path: Path, name: str, content: str) -> Any:
    """Run a command that leaves a file in the folder of records."""
    (tmp_path / "content").write_text(content)
    code = (
        f"import os, shutil; shutil.copy({str(tmp_path / 'content')!r}, "
        f"os.path.join(os.environ[{RECORD_FOLDER!r}], {name!r})); raise SystemExit(3)"
    )
    command = [sys.executable, "-c", code]
    return run_command(command, environment=dict(os.environ), catalogue=Catalogue())


def test_a_record_of_a_process_is_what_is_recorded(tmp_path: Path) -> None:
    done = run_and_leave(tmp_path, "record-0-1-1.json", json.dumps(RECORD))
    assert (done.returncode, done.note) == (3, None)
    assert done.submission["models"] == RECORD["models"]


def changed(**observation: Any) -> str:
    (row,) = RECORD["observations"]
    return json.dumps({**RECORD, "observations": [{**row, **observation}]})


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"observations": RECORD["observations"]}),
        json.dumps({**RECORD, "source": None}),
        json.dumps({**RECORD, "models": [1]}),
        json.dumps({**RECORD, "gpus": {"gpu_id": 1}}),
        changed(configuration={}),
        changed(measurements="none"),
        changed(measurements=[{"metric": "total_time", "value": -1}]),
        changed(provenance=[1]),
        changed(observed_at="yesterday"),
        changed(run_id={"a": 1}),
    ],
)
def test_a_run_with_a_malformed_record_is_recorded_as_a_whole(content: str, tmp_path: Path) -> None:
    done = run_and_leave(tmp_path, "record-0-1-1.json", content)
    assert (done.returncode, done.outcome, done.note) == (3, "error", INVALID)
    prepared = prepare_submission(done.submission, Catalogue(), origin="run")
    (observation,) = prepared.document["observations"]
    assert observation["provenance"]["note"] == INVALID
    assert {row["metric"] for row in observation["measurements"]} >= {"total_time"}


@pytest.mark.parametrize(
    "note",
    [
        {"seconds": "x"},
        {"seconds": 1.0},
        {"rank": [], "seconds": 1.0, "peaks": []},
        {"rank": 0, "seconds": 1e9, "peaks": [["host_rss"]]},
        {"rank": 0, "seconds": 1e9, "peaks": [], "environment": {"banana": 1}},
        {"rank": 0, "seconds": 1e9, "peaks": [], "provenance": 7},
    ],
)
def test_a_run_with_a_malformed_note_is_recorded_all_the_same(
    note: dict[str, Any], tmp_path: Path
) -> None:
    done = run_and_leave(tmp_path, "process-1.json", json.dumps(note))
    assert (done.returncode, done.outcome) == (3, "error")
    prepare_submission(done.submission, Catalogue(), origin="run")


def test_modules_of_the_current_folder_stay_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "script").mkdir()
    for name in ("transformers", "sitecustomize", "registry", "json"):
        (tmp_path / "here" / f"{name}.py").write_text("raise SystemExit(9)\n")
    script = tmp_path / "script" / "train.py"
    script.write_text(
        "import os, sys, json\n"
        "sys.exit(any(os.path.samefile(path or '.', '.') for path in sys.path if "
        "os.path.isdir(path or '.')))\n"
    )
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert run(sys.executable, str(script)).returncode == 0
    assert run(sys.executable, str(script), PYTHONPATH="").returncode == 0


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
