"""Trials side by side: each GPU belongs to one of them, and the record says that there were others.

No GPU is needed: a stand-in for the job's interpreter writes down what it was given.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
import types
from pathlib import Path
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.errors import SourceError
from registry.measure.running.backends.local import Local
from registry.measure.running.plan import parse_plan
from registry.measure.running.slots import Slot, Slots, find_gpu_names, find_gpus
from registry.measure.running.sweep import Progress, Sweep, run_plan
from registry.measure.running.trial_run import trial_environment
from registry.measure.running.trials import Trial, expand_trials
from registry.submission.derive import complete_observation
from registry.submission.prepare import prepare_submission

ROOT = Path(__file__).parents[4]
CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})

#: A job that waits until as many as its rank says are running, then says what it may use.
FAKE = """#!{python}
import json, os, pathlib, sys, time
sys.path.insert(0, {root!r})
from registry.measure.failure import Failure
from registry.measure.running.unfinished import describe_unfinished
spec_path, result_path = sys.argv[-2:]
spec = json.load(open(spec_path))
here = pathlib.Path({here!r})
mine = here / spec["trial_id"]
mine.write_text(json.dumps([
    os.environ.get("CUDA_VISIBLE_DEVICES"), sorted(os.sched_getaffinity(0)),
    os.environ.get("OMP_NUM_THREADS")]))
until = time.monotonic() + 20
while time.monotonic() < until and len(list(here.iterdir())) < spec["settings"]["seed"]:
    time.sleep(0.02)
pathlib.Path(result_path).with_suffix(".jsonl").write_text(
    json.dumps({{"rank": 0}}) + "\\n" + json.dumps({{"step": {{"step": 7}}}}) + "\\n" + "cut sho")
if spec["settings"]["seed"]:
    time.sleep(1.5)
pathlib.Path(result_path).with_suffix(".jsonl").unlink()
document = describe_unfinished(spec, Failure("oom", "as asked"))
document["observations"][0]["measurements"] = [{{"metric": "total_time", "value": 1.0}}]
pathlib.Path(result_path).write_text(json.dumps(document))
"""


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "here"
    folder.mkdir()
    return folder


@pytest.fixture
def python(tmp_path: Path, here: Path) -> str:
    path = tmp_path / "fake-python"
    path.write_text(FAKE.format(python=sys.executable, root=str(ROOT), here=str(here)))
    path.chmod(0o755)
    return str(path)


def plan_of(n_trials: int, **settings: Any) -> Any:
    document = {
        "model": "m",
        "models": {"m": {"model_type": "llama", "hidden_size": 8}},
        "matrix": {"seq_len": list(range(8, 8 + n_trials))},
        **settings,
    }
    return parse_plan(document, origin="p")


def trials_of(n_trials: int, **settings: Any) -> list[Trial]:
    return expand_trials(plan_of(n_trials, **settings))


def sweep_of(
    folder: Path, python: str, slots: Slots, n_trials: int, **settings: Any
) -> tuple[Sweep, list[dict[str, Any]], list[Progress]]:
    rows: list[dict[str, Any]] = []
    events: list[Progress] = []

    def add(submission: dict[str, Any]) -> None:
        prepared = prepare_submission(submission, CATALOGUE, origin="trial")
        rows.append(complete_observation(prepared.document["observations"][0]))

    sweep = run_plan(
        plan_of(n_trials, **settings),
        folder / "runs",
        add=add,
        backend=Local(slots, python),
        progress=events.append,
        watch_steps=True,
    )
    return sweep, rows, events


def test_trials_on_gpus_run_side_by_side_each_on_its_own(
    tmp_path: Path, here: Path, python: str
) -> None:
    slots = Slots(gpus=("4", "5"))
    sweep, rows, events = sweep_of(tmp_path, python, slots, 2, seed=2)
    assert [result.outcome for result in sweep.results] == ["oom", "oom"]
    visible = [json.loads(path.read_text())[0] for path in here.iterdir()]
    assert sorted(visible) == ["4", "5"]
    assert [row["flags"] for row in rows] == [["side_by_side"]] * 2
    assert {row["provenance"]["trials_beside"] for row in rows} == {1}
    stepped = [event for event in events if event.event == "stepped"]
    assert any(event.steps == ((7, 10), (7, 10)) for event in stepped)


def test_ctrl_c_ends_all_that_run(tmp_path: Path, here: Path, python: str) -> None:
    def interrupt() -> None:
        while len(list(here.iterdir())) < 2:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    thread.start()
    sweep, rows, _ = sweep_of(tmp_path, python, Slots(gpus=("0", "1")), 3, seed=9)
    thread.join()
    assert (sweep.interrupted, rows, len(sweep.left)) == (True, [], 3)
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not [command for command in commands if str(tmp_path / "runs").encode() in command]


def test_trials_on_cpu_share_the_cores_where_that_is_asked_for(
    tmp_path: Path, here: Path, python: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        pytest.skip("one processor")
    slots = Slots(2, gpus=())
    _, rows, _ = sweep_of(tmp_path, python, slots, 2, seed=2, device="cpu")
    given = [json.loads(path.read_text()) for path in here.iterdir()]
    half = len(cpus) // 2
    assert sorted(core for _, cores, _ in given for core in cores) == cpus[: 2 * half]
    assert {threads for _, _, threads in given} == {str(max(half // 2, 1))}
    assert [row["flags"] for row in rows] == [["side_by_side"]] * 2


def test_trials_on_cpu_run_one_by_one_where_it_is_not(
    tmp_path: Path, here: Path, python: str
) -> None:
    _, rows, events = sweep_of(tmp_path, python, Slots(gpus=("0",)), 2, device="cpu")
    assert len(list(here.iterdir())) == 2
    assert all("flags" not in row and "trials_beside" not in row["provenance"] for row in rows)
    order = [event.event for event in events if event.event != "stepped"]
    assert order == ["started", "finished"] * 2


def test_a_larger_trial_waits_until_there_are_enough_gpus() -> None:
    one, two = trials_of(1)[0], trials_of(1, n_gpus=2)[0]
    slots = Slots(gpus=("0", "1"))
    first = slots.take(one)
    assert first == Slot(gpus=("0",))
    assert slots.take(two) is None
    slots.give_back(first)
    both = slots.take(two)
    assert both == Slot(gpus=("0", "1"))
    assert slots.take(one) is None


def test_a_trial_on_cpu_is_alone_on_a_machine_with_gpus() -> None:
    on_gpu, on_cpu = trials_of(1)[0], trials_of(1, device="cpu")[0]
    slots = Slots(gpus=("0", "1"))
    alone = slots.take(on_cpu)
    assert alone == Slot()
    assert slots.take(on_gpu) is None
    slots.give_back(alone)
    assert slots.take(on_gpu) == Slot(gpus=("0",))
    assert slots.take(on_cpu) is None


def test_no_more_run_at_once_than_asked_for() -> None:
    trial = trials_of(1)[0]
    slots = Slots(1, gpus=("0", "1"))
    assert slots.take(trial) is not None
    assert slots.take(trial) is None


def test_what_cannot_run_here_is_said_before_the_first_trial() -> None:
    with pytest.raises(SourceError) as caught:
        Slots(gpus=("0", "1")).check(trials_of(1, n_gpus=4))
    assert str(caught.value) == "n_gpus: found 4; expected at most the 2 GPUs of this machine"
    with pytest.raises(SourceError) as caught:
        Slots(9, gpus=(), cpus=(0, 1)).check(trials_of(1))
    assert str(caught.value) == (
        "parallel: found 9 trials at once on 2 processors; expected at most one for each processor"
    )
    Slots(gpus=(), cpus=(0,)).check(trials_of(1, n_gpus=4))  # four processes
    Slots(gpus=(), cpus=tuple(range(16))).check(trials_of(1, n_gpus=16))
    with pytest.raises(SourceError) as caught:
        Slots(gpus=(), cpus=(0, 1)).check(trials_of(1, n_gpus=1000))
    assert str(caught.value) == (
        "n_gpus: found 1000, which without GPUs are as many processes; expected at most 8 on the "
        "2 processors of this machine"
    )


@pytest.mark.parametrize(
    ("stated", "found"),
    [("", ()), ("-1", ()), ("2", ("2",)), ("3, GPU-ab", ("3", "GPU-ab")), ("NoDevFiles", ())],
)
def test_gpus_are_those_that_may_be_seen(stated: str, found: tuple[str, ...]) -> None:
    assert find_gpus({"CUDA_VISIBLE_DEVICES": stated}) == found


def test_gpus_are_counted_by_the_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = types.SimpleNamespace(
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: 2,
        nvmlDeviceGetHandleByIndex=lambda index: index,
        nvmlDeviceGetName=lambda handle: [b"NVIDIA A", "NVIDIA B"][handle],
    )
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert find_gpu_names() == ["NVIDIA A", "NVIDIA B"]
    assert find_gpus({}) == ("0", "1")


def test_a_job_on_gpus_keeps_the_threads_that_it_would_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    environment = trial_environment(trials_of(1)[0], Slot(gpus=("1",)))
    assert environment["CUDA_VISIBLE_DEVICES"] == "1"
    assert "OMP_NUM_THREADS" not in environment
