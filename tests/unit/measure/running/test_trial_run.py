"""Faults of the child: each is a result, and none stops the sweep or leaves a process behind."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import threading
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pytest

from registry.api import open_registry
from registry.catalogue import Catalogue
from registry.errors import SubmissionError
from registry.measure import child_process
from registry.measure.child_process import Finished, format_exit, job_environment
from registry.measure.failure import Failure
from registry.measure.memory_meter import Peaks
from registry.measure.record_files import read_json, write_json
from registry.measure.running import job
from registry.measure.running.backends.local import Local
from registry.measure.running.plan import parse_plan
from registry.measure.running.sweep import Progress, Sweep, run_plan
from registry.measure.running.trial_run import TrialResult, judge, name_source, run_trial
from registry.measure.running.trials import Trial, expand_trials
from registry.measure.running.unfinished import describe_unfinished
from registry.store.add import add_submissions
from registry.store.derive_tables import Document, derive_tables
from registry.store.folder import create_registry, find_registry
from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from collections.abc import Iterable

CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})

#: How torchrun ends its output where a process failed.
TORCHRUN = """
============================================================
registry.measure.running.job FAILED
------------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-22_13:53:46
  host      : localhost
  rank      : 0 (local_rank: 0)
  exitcode  : -15 (pid: 8222)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 8222
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-22_13:53:46
  host      : localhost
  rank      : 1 (local_rank: 1)
  exitcode  : CODE (pid: 8223)
  error_file: <N/A>
  traceback : <N/A>
============================================================
"""

#: Stands in for the interpreter of a job: does to itself what the model's name says.
FAKE = """#!{python}
import json, os, pathlib, subprocess, sys, time
spec_path, result_path = sys.argv[-2:]
spec = json.load(open(spec_path))
name = spec["settings"]["model"]

def write(text):
    pathlib.Path(result_path).write_text(text)

def record(outcome="ok"):
    sys.path.insert(0, {root!r})
    from registry.measure.failure import Failure
    from registry.measure.running.unfinished import describe_unfinished
    document = describe_unfinished(spec, Failure(outcome, "as asked"))
    figure = {{"metric": "total_time", "value": 1.0}}
    document["observations"][0]["measurements"] = [figure]
    write(json.dumps(document))

if name == "ok":
    record()
elif name == "exception":
    raise RuntimeError("no such thing as a free lunch")
elif name == "oom":
    raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 5 bytes")
elif name == "memory":
    raise MemoryError
elif name == "sigkill":
    os.kill(os.getpid(), 9)
elif name == "segfault":
    os.kill(os.getpid(), 11)
elif name == "hang":
    pathlib.Path({running!r}).write_text(str(os.getpid()))
    time.sleep(600)
elif name == "noisy":
    sys.stderr.write("x" * 200_000)
    sys.stdout.write("y" * 200_000)
    record()
elif name == "garbage":
    write('{{"observations": [{{"outcome": "fine"')
elif name == "silent":
    pass
elif name == "recorded-kill":
    record("interrupted")
    os.kill(os.getpid(), 9)
elif name == "launcher":
    record("ok")
    sys.exit("Traceback:\\nRendezvousConnectionError: the connection failed")
elif name == "warned":
    record("ok")
    sys.exit("UserWarning: nothing that matters")
elif name.startswith("rank-"):
    record("interrupted" if name.endswith("9") else "ok")
    sys.stderr.write({torchrun!r}.replace("CODE", name.removeprefix("rank-")))
    sys.exit(1)
elif name == "grandchildren":
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    pids = [subprocess.Popen(sleep, start_new_session=new).pid for new in (False, True)]
    pathlib.Path(result_path).with_name("pids.txt").write_text(json.dumps(pids))
    record()
"""


@pytest.fixture
def fake_python(tmp_path: Path) -> str:
    path = tmp_path / "fake-python"
    root = str(Path(__file__).parents[4])
    running = tmp_path / "running"
    os.mkfifo(running)
    filled = {"python": sys.executable, "root": root, "running": str(running)}
    path.write_text(FAKE.format(**filled, torchrun=TORCHRUN))
    path.chmod(0o755)
    return str(path)


def make_models(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Return a model for each name, each of another shape: the same shape is the same trial."""
    return {
        name: {"model_type": "llama", "hidden_size": 8 * width, "num_hidden_layers": 1}
        for width, name in enumerate(names, 1)
    }


def make_trials(*names: str, **settings: Any) -> list[Trial]:
    document = {
        "models": make_models(names),
        "matrix": {"model": list(names)},
        "device": "cpu",
        **settings,
    }
    return expand_trials(parse_plan(document, origin="p.toml"))


def run(name: str, folder: Path, python: str, **settings: Any) -> TrialResult:
    result = run_trial(make_trials(name, **settings)[0], folder / name, python=python)
    prepare_submission(result.submission, CATALOGUE, origin=name)  # every result is a valid row
    return result


@pytest.mark.parametrize(
    ("name", "outcome", "detail"),
    [
        ("exception", "error", "exit status 1: RuntimeError: no such thing as a free lunch"),
        ("oom", "oom", "exit status 1; its last output mentions memory"),
        ("memory", "oom", "exit status 1; its last output mentions memory"),
        ("sigkill", "interrupted", "killed by signal 9 (SIGKILL)"),
        ("segfault", "error", "killed by signal 11 (SIGSEGV)"),
        ("garbage", "error", "exit status 0, but the job left no readable result"),
        ("silent", "error", "exit status 0, but the job left no readable result"),
        ("recorded-kill", "interrupted", "killed by signal 9 (SIGKILL)"),
        (
            "rank--6",
            "error",
            "exit status 1; rank 1 failed first: killed by signal 6 (SIGABRT)",
        ),
        (
            "rank--9",
            "interrupted",
            "exit status 1; rank 1 failed first: killed by signal 9 (SIGKILL)",
        ),
        ("launcher", "error", "exit status 1: RendezvousConnectionError: the connection failed"),
        ("warned", "error", "exit status 1"),
        ("rank-3", "error", "exit status 1; rank 1 failed first: exit status 3"),
    ],
)
def test_a_fault_of_the_child_is_an_outcome(
    name: str, outcome: str, detail: str, tmp_path: Path, fake_python: str
) -> None:
    result = run(name, tmp_path, fake_python)
    assert (result.outcome, result.detail) == (outcome, detail)
    assert result.submission["observations"][0]["provenance"]["spec"]["trial_id"]


def test_a_process_of_several_that_the_kernel_killed_is_out_of_memory() -> None:
    (trial,) = make_trials("tiny")
    last_words = TORCHRUN.replace("CODE", "-9")
    found = judge(Finished(1, 1.0, kernel_oom_kills=1), None, trial, last_words)
    assert found is not None
    assert found.outcome == "oom"
    assert "rank 1 failed first: killed by signal 9 (SIGKILL) while the kernel" in found.detail


PRIMITIVE = "RuntimeError: could not create a primitive"


@pytest.mark.parametrize(
    ("limit", "peak", "outcome"),
    [("1 GiB", 900, "oom"), ("1 GiB", None, "oom"), ("9 GiB", 900, None), (None, 900, None)],
)
def test_words_that_leave_it_open_mean_the_limit_where_it_was_near(
    limit: str | None, peak: int | None, outcome: str | None
) -> None:
    stated = {"memory_limit": limit} if limit else {}
    (trial,) = make_trials("tiny", **stated)
    document = describe_unfinished(trial.as_spec(), Failure("error", PRIMITIVE))
    figures = [{"metric": "peak_memory", "value": peak * 2**20}] if peak else []
    document["observations"][0]["measurements"] = figures
    found = judge(Finished(1, 1.0), document, trial, "")
    assert (found and found.outcome) == outcome
    if found:
        assert found.detail == f"at the memory limit: {PRIMITIVE}"


@pytest.mark.parametrize("limit", ["1 GiB", None])
def test_a_thread_that_could_not_be_had_is_the_limits_fault_if_there_is_one(
    limit: str | None,
) -> None:
    (trial,) = make_trials("tiny", **({"memory_limit": limit} if limit else {}))
    said = "OMP: Error #34: System unable to allocate\nlibgomp: Thread creation failed: no resource"
    said = said.partition("\n")[2]
    found = judge(Finished(1, 1.0), None, trial, said)
    assert found is not None
    assert found.outcome == ("oom" if limit else "error")


def test_all_trials_of_a_plan_are_one_source_that_is_named_after_it(
    tmp_path: Path, fake_python: str
) -> None:
    sweep, added, _ = sweep_of(["ok", "exception"], tmp_path, fake_python)
    source = {"source_id": "p", "title": "Trials of the plan p", "kind": "run"}
    assert [result.outcome for result in sweep.results] == ["ok", "error"]
    assert [document["source"] for document in added] == [source, source]


def test_a_trial_that_is_run_twice_is_two_observations_of_its_source(
    tmp_path: Path, fake_python: str
) -> None:
    found = [run("ok", tmp_path / name, fake_python).submission for name in ("here", "there")]
    prepared = [prepare_submission(each, CATALOGUE, origin="ok") for each in found]
    rows = derive_tables(
        Document(each.submission_id, each.text, each.document) for each in prepared
    )
    assert [row["source_id"] for row in rows["sources"]] == ["p"]
    assert [row["source_id"] for row in rows["observations"]] == ["p", "p"]


@pytest.mark.parametrize(
    ("name", "source_id"),
    [("Night run: A/B", "night-run-a-b"), ("rerun of qwen-7b", "rerun-of-qwen-7b")],
)
def test_a_source_id_is_the_slug_of_the_plans_name(name: str, source_id: str) -> None:
    (trial,) = make_trials("ok", name=name)
    source = name_source(trial, {"source_id": "run-1", "title": "t", "kind": "run"})
    assert source == {
        "source_id": source_id,
        "title": f"Trials of the plan {source_id}",
        "kind": "run",
    }


@pytest.mark.parametrize("name", ["\u8bad\u7ec3", "..."])
def test_a_plan_whose_name_makes_no_slug_leaves_each_trial_a_source_of_its_own(name: str) -> None:
    (trial,) = make_trials("ok", name=name)
    source = name_source(trial, {"source_id": "run-1", "title": "t", "kind": "run"})
    assert source["source_id"] == "run-1"


def test_the_name_of_a_plan_changes_no_trial() -> None:
    first, second = (make_trials("ok", name=name)[0] for name in ("a", "b"))
    assert first.trial_id == second.trial_id
    assert first.as_spec() == second.as_spec()


def test_a_record_holds_the_load_of_the_machine(
    tmp_path: Path, fake_python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (7.256, 1.0, 1.0))
    (observation,) = run("exception", tmp_path, fake_python).submission["observations"]
    assert observation["provenance"]["load_average"] == 7.26


def test_a_hanging_child_ends_at_the_time_limit(tmp_path: Path, fake_python: str) -> None:
    result = run("hang", tmp_path, fake_python, timeout_seconds=0.5)
    assert (result.outcome, result.detail) == ("interrupted", "time limit of 0.5 s")


def test_much_output_does_not_stop_the_child(tmp_path: Path, fake_python: str) -> None:
    result = run("noisy", tmp_path, fake_python, timeout_seconds=30)
    assert result.outcome != "interrupted"
    assert (tmp_path / "noisy" / "stderr.txt").stat().st_size == 200_000
    assert (tmp_path / "noisy" / "stdout.txt").stat().st_size == 200_000


def test_no_grandchild_is_left_behind(tmp_path: Path, fake_python: str) -> None:
    run("grandchildren", tmp_path, fake_python)
    pids = json.loads((tmp_path / "grandchildren" / "pids.txt").read_text())
    assert len(pids) == 2
    for pid in pids:
        assert not is_alive(pid)


def is_alive(pid: int) -> bool:
    """Return whether a process runs; one that is dead and not yet waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def sweep_of(names: list[str], folder: Path, python: str, **options: Any) -> tuple[Sweep, Any, Any]:
    document = {
        "models": make_models(names),
        "matrix": {"model": names},
        "device": "cpu",
    }
    added: list[dict[str, Any]] = []
    events: list[Progress] = []
    sweep = run_plan(
        parse_plan(document, origin="p.toml"),
        folder / "runs",
        add=added.append,
        progress=events.append,
        backend=Local(python=python),
        **options,
    )
    return sweep, added, events


def test_faults_do_not_stop_the_sweep_and_a_second_call_runs_what_failed(
    tmp_path: Path, fake_python: str
) -> None:
    names = ["exception", "sigkill", "oom", "garbage"]
    sweep, added, events = sweep_of(names, tmp_path, fake_python)
    outcomes = [result.outcome for result in sweep.results]
    assert outcomes == ["error", "interrupted", "oom", "error"]
    assert len(added) == 4
    assert [event.event for event in events] == ["started", "finished"] * 4
    assert events[0].eta_seconds is None
    assert events[-1].eta_seconds == 0
    assert sweep.way_on is None

    again, added, events = sweep_of(names, tmp_path, fake_python)
    assert [trial.settings.model for trial in again.skipped] == ["oom"]
    assert [result.outcome for result in again.results] == ["error", "interrupted", "error"]
    assert len(added) == 3
    assert [event.event for event in events if event.trial in again.skipped] == ["skipped"]

    anew, added, _ = sweep_of(names, tmp_path, fake_python, resume=False)
    assert (len(anew.results), len(added)) == (4, 4)


def test_a_trial_in_flight_that_is_killed_is_recorded_and_the_sweep_goes_on(
    tmp_path: Path, fake_python: str
) -> None:
    killer = threading.Thread(target=lambda: os.kill(running_job(tmp_path), signal.SIGKILL))
    killer.start()
    sweep, _, _ = sweep_of(["hang", "exception"], tmp_path, fake_python)
    killer.join()
    assert [result.outcome for result in sweep.results] == ["interrupted", "error"]


def running_job(folder: Path) -> int:
    """Wait for a job that hangs and return its pid."""
    return int((folder / "running").read_text())


def jobs_of(folder: Path) -> list[int]:
    """Return the processes that run a trial of this folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and entry.name != str(os.getpid()):
            with contextlib.suppress(OSError):
                if str(folder / "runs").encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
    return found


def test_ctrl_c_ends_cleanly_and_says_how_to_go_on(tmp_path: Path, fake_python: str) -> None:
    def interrupt() -> None:
        running_job(tmp_path)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    sweep, added, _ = sweep_of(["exception", "hang", "oom"], tmp_path, fake_python)
    assert sweep.interrupted
    assert len(added) == 1
    assert sweep.way_on == (
        "interrupted after 1 of 3 trials; their results are kept; run the same plan again to "
        "continue with the others"
    )
    assert jobs_of(tmp_path) == []


def test_a_result_that_cannot_be_added_is_not_done(tmp_path: Path, fake_python: str) -> None:
    def refuse(document: dict[str, Any]) -> None:
        raise OSError(document["source"]["source_id"])

    plan = parse_plan(
        {"model": "exception", "models": {"exception": {"model_type": "llama"}}}, origin="p"
    )
    with pytest.raises(OSError, match=r"^p$"):
        run_plan(plan, tmp_path, add=refuse, backend=Local(python=fake_python))
    assert not list(tmp_path.glob("*/submission.json"))


@pytest.mark.parametrize("is_added", [True, False])
def test_a_call_that_is_killed_while_it_records_neither_loses_nor_doubles_a_result(
    *, is_added: bool, tmp_path: Path, fake_python: str
) -> None:
    folder = tmp_path / "registry"
    create_registry(folder)
    location = find_registry(folder)

    class KilledError(BaseException):
        pass

    def add(document: dict[str, Any]) -> None:
        add_submissions(location, [("a trial", document)])

    def add_and_die(document: dict[str, Any]) -> None:
        if is_added:
            add(document)
        raise KilledError

    plan = parse_plan({"models": make_models(["oom"]), "model": "oom", "device": "cpu"}, origin="p")
    backend = partial(Local, python=fake_python)
    with pytest.raises(KilledError):
        run_plan(plan, folder / "runs", add=add_and_die, backend=backend())
    sweep = run_plan(plan, folder / "runs", add=add, backend=backend())
    assert [(len(sweep.skipped), len(sweep.left)), sweep.count("oom")] == [(0, 0), 1]
    sweep = run_plan(plan, folder / "runs", add=add, backend=backend())
    assert (len(sweep.skipped), len(sweep.results)) == (1, 0)
    sql = "select outcome from observations"
    assert open_registry(folder, curated=False).query(sql).rows() == [{"outcome": "oom"}]


def test_a_result_that_the_registry_refuses_is_run_again_and_stops_no_other(
    tmp_path: Path, fake_python: str
) -> None:
    def refuse(document: dict[str, Any]) -> None:
        if document["observations"][0]["provenance"]["spec"]["settings"]["model"] == "oom":
            raise SubmissionError("no", origin="it")

    document = {"models": make_models(["oom", "ok"]), "matrix": {"model": ["oom", "ok"]}}
    plan = parse_plan({**document, "device": "cpu"}, origin="p")
    sweep = run_plan(plan, tmp_path, add=refuse, backend=Local(python=fake_python))
    assert sweep.refused == ["model=oom: it: no"]
    assert [result.trial.settings.model for result in sweep.results] == ["ok"]
    again = run_plan(plan, tmp_path, add=lambda _: None, backend=Local(python=fake_python))
    assert [result.trial.settings.model for result in again.results] == ["oom"]
    assert [trial.settings.model for trial in again.skipped] == ["ok"]


def test_keys_and_tokens_do_not_reach_the_job() -> None:
    given = {"PATH": "/bin", "HF_TOKEN": "x", "AWS_SECRET_ACCESS_KEY": "x", "NCCL_DEBUG": "INFO"}
    assert job_environment(given) == {"PATH": "/bin", "NCCL_DEBUG": "INFO", "PYTHONSAFEPATH": "1"}


def test_a_job_finds_the_package_where_this_process_did_and_nothing_else(tmp_path: Path) -> None:
    folder = str(Path(child_process.__file__).parents[2])
    given = {"PYTHONPATH": os.pathsep.join(("", str(tmp_path), folder))}
    assert job_environment(given) == {"PYTHONPATH": folder, "PYTHONSAFEPATH": "1"}
    assert job_environment({"PYTHONPATH": str(tmp_path)}) == {"PYTHONSAFEPATH": "1"}


def test_an_exit_is_told_in_words() -> None:
    assert format_exit(0) == "exit status 0"
    assert format_exit(-200) == "killed by signal 200"


def test_a_trial_without_a_record_says_what_was_asked(tmp_path: Path) -> None:
    del tmp_path
    trial = make_trials("x", quantization="nf4", double_quant=True, seq_len=64)[0]
    document = describe_unfinished(trial.as_spec(), Failure("oom", "MemoryError", "load"))
    observation = document["observations"][0]
    assert observation["provenance"]["configuration_from"] == "spec"
    configuration = observation["configuration"]
    assert configuration["quant_type"] == "nf4"
    assert configuration["quant_bits"] == 4
    assert configuration["double_quant"] is True
    assert configuration["seq_len"] == 64


def test_a_process_that_recorded_its_failure_keeps_that_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process has written nothing yet when another one fails."""
    (trial,) = make_trials("tiny")
    write_json(tmp_path / "spec.json", trial.as_spec())
    own = tmp_path / "result.rank1.json"

    def fail(*_: Any) -> None:
        raise MemoryError

    def record_and_fail(*_: Any) -> None:
        write_json(own, {"recorded": "whole"})
        raise MemoryError

    monkeypatch.setenv("RANK", "1")
    arguments = [str(tmp_path / "spec.json"), str(tmp_path / "result.json")]
    for run_job in (record_and_fail, fail):
        monkeypatch.setattr(job, "run_job", run_job)
        with pytest.raises(MemoryError):
            job.main(arguments)
        assert read_json(own) == {"recorded": "whole"}
    own.unlink()
    with pytest.raises(MemoryError):
        job.main(arguments)
    assert read_json(own)["observations"][0]["outcome"] == "oom"


def test_a_process_whose_parent_puts_its_failure_together_says_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (trial,) = make_trials("tiny")
    write_json(tmp_path / "spec.json", trial.as_spec())

    def record_and_fail(*_: Any) -> None:
        (tmp_path / "result.rank1.jsonl").write_text("{}")
        raise MemoryError

    monkeypatch.setenv("RANK", "1")
    monkeypatch.setattr(job, "run_job", record_and_fail)
    with pytest.raises(MemoryError):
        job.main([str(tmp_path / "spec.json"), str(tmp_path / "result.json")])
    assert not (tmp_path / "result.rank1.json").exists()


def test_a_process_of_several_that_began_no_training_tells_no_peak_of_all(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    monkeypatch.setitem(sys.modules, "torch", ModuleType("torch"))
    monkeypatch.setattr("registry.measure.running.unfinished.cuda", lambda: None)
    monkeypatch.setattr(Peaks, "observe_allocator", lambda _: {})
    (trial,) = make_trials("x", n_gpus=2, device="cpu")
    failure = Failure("oom", "MemoryError", "load")
    document = describe_unfinished(trial.as_spec(), failure, {"torch_version": "2.13.0"})
    (observation,) = document["observations"]
    assert observation["provenance"]["ranks_missing"] == 1
    rows = observation["measurements"]
    assert {(row["scope"], row["device_index"]) for row in rows} == {("per_gpu", 1)}
