"""What clusters have in common, with an engine that runs orders in this process or loses them."""

from __future__ import annotations

import os
import signal
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import SourceError
from registry.measure.child_process import Finished
from registry.measure.record_files import read_json, write_json
from registry.measure.running.backends import BACKENDS, BackendOptions, cluster, slurm
from registry.measure.running.backends.attempt import (
    CLAIM_NAME,
    END_NAME,
    NODE_NAME,
    Order,
    attempt_folder,
    build_order,
    read_end,
    run_attempt,
)
from registry.measure.running.backends.cluster import Cluster, ClusterJob, Fate, Shape, count_beside
from registry.measure.running.backends.ray_cluster import Ray
from registry.measure.running.held_trials import FOLDER
from registry.measure.running.plan import parse_plan
from registry.measure.running.sweep import Sweep, run_plan
from registry.measure.running.trial_run import Team, job_command
from registry.measure.running.trials import expand_trials

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.measure.running.trials import Trial


@dataclass
class Engine:
    """Leaves the end of each attempt that ``ends`` names, or the fate that ``fates`` does."""

    ends: list[Finished | None] = field(default_factory=list)
    fates: list[Fate] = field(default_factory=list)
    shapes: tuple[Shape, ...] = (Shape(8, 4), Shape(8, 4))
    orders: list[Order] = field(default_factory=list)
    cancelled: list[Any] = field(default_factory=list)
    known: frozenset[str] = frozenset()
    name: str = "engine"
    spans_nodes: bool = False

    def list_shapes(self) -> Sequence[Shape]:
        return self.shapes

    def describe(self) -> dict[str, Any]:
        return {}

    def launch(self, orders: Sequence[Order], n_gpus: int) -> list[str]:
        assert n_gpus >= 0
        for order in orders:
            self.orders.append(order)
            self.begin(order, 0)
        return [f"job-{order.ticket}" for order in orders]

    def begin(self, order: Order, restart: int) -> None:
        end = self.ends.pop(0)
        folder = attempt_folder(Path(order.place), order.ticket, restart)
        folder.mkdir()
        if end is not None or not self.fates or not self.fates[0].said.startswith("before"):
            write_json(folder / NODE_NAME, {"node": "n", "began": time.time(), "gpus": "0,7"})
        if end is not None:
            write_json(folder / END_NAME, end.__dict__)

    def find(self, claim: Mapping[str, Any]) -> Any:
        return claim.get("job_id") if claim.get("ticket") in self.known else None

    def find_fates(self, jobs: Sequence[ClusterJob]) -> dict[str, Fate]:
        found = {}
        for job in jobs:
            end = read_end(job.folder)
            if end is None or end.stopped_by is not None:
                found[job.ticket] = self.fates.pop(0)
                if found[job.ticket].goes_on:
                    self.begin(self.orders[-1], job.restart + 1)
        return found

    def cancel(self, handles: Sequence[Any]) -> None:
        self.cancelled += handles

    def close(self) -> None:
        pass


OK, STOPPED = Finished(1, 2.0, load_average=0.5), Finished(-15, 1.0, stopped_by="SIGTERM")


@pytest.fixture(autouse=True)
def _no_lag(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cluster, "_LAG_SECONDS", 0.0)
    monkeypatch.setattr(cluster, "_LOOK_SECONDS", 0.01)


def plan_of(n_trials: int = 1, **stated: Any) -> Any:
    document = {
        "model": "m",
        "models": {"m": {"model_type": "llama", "hidden_size": 8}},
        "matrix": {"seq_len": list(range(8, 8 + n_trials))},
        **stated,
    }
    return parse_plan(document, origin="p")


def trials_of(n_trials: int = 1, **stated: Any) -> list[Trial]:
    return expand_trials(plan_of(n_trials, **stated))


def sweep_of(folder: Path, engine: Engine, n_trials: int = 1) -> tuple[Sweep, list[dict[str, Any]]]:
    added: list[dict[str, Any]] = []
    sweep = run_plan(plan_of(n_trials), folder / "runs", add=added.append, backend=Cluster(engine))
    return sweep, [document["observations"][0] for document in added]


def test_an_attempt_that_ends_by_itself_is_judged_as_on_one_machine(tmp_path: Path) -> None:
    sweep, (row,) = sweep_of(tmp_path, Engine([OK]))
    assert (row["outcome"], row["outcome_detail"]) == ("error", "exit status 1")
    provenance = row["provenance"]
    assert (provenance["backend"], provenance["gpus_visible"]) == ("engine", "0,7")
    assert (provenance["process_seconds"], provenance["load_average"]) == (2.0, 0.5)
    assert sweep.left == []


def test_a_requeued_attempt_is_recorded_and_the_next_one_watched(tmp_path: Path) -> None:
    engine = Engine([STOPPED, OK], [Fate("requeued", goes_on=True)])
    sweep, rows = sweep_of(tmp_path, engine)
    assert [row["outcome"] for row in rows] == ["interrupted", "error"]
    assert rows[0]["outcome_detail"] == "stopped by SIGTERM of engine (requeued)"
    assert rows[0]["provenance"]["exit"] == "stopped by SIGTERM of engine (requeued)"
    assert len(engine.orders) == 1
    assert (sweep.count("interrupted"), sweep.count("error")) == (0, 1)


def test_a_lost_attempt_is_recorded_and_submitted_again_three_times_at_most(tmp_path: Path) -> None:
    engine = Engine([None] * 3, [Fate("NODE_FAIL", again=True)] * 3)
    sweep, rows = sweep_of(tmp_path, engine)
    assert [row["outcome_detail"] for row in rows] == ["stopped by engine (NODE_FAIL)"] * 3
    assert len({order.ticket for order in engine.orders}) == 3
    assert sweep.count("interrupted") == 1


def test_a_job_that_never_began_has_no_record_and_its_trial_is_left(tmp_path: Path) -> None:
    sweep, rows = sweep_of(tmp_path, Engine([None], [Fate("before: CANCELLED")]))
    assert rows == []
    (said,) = sweep.not_begun
    assert said == (
        "m lora 8: it never began: engine (before: CANCELLED); run the same plan again to resubmit "
        "it"
    )
    assert len(sweep.left) == 1


def test_of_a_job_that_ended_before_its_trial_began_the_output_is_named(tmp_path: Path) -> None:
    fate = Fate("before: FAILED", output="runs/slurm/7")
    sweep, _ = sweep_of(tmp_path, Engine([None], [fate]))
    (said,) = sweep.not_begun
    assert said == (
        "m lora 8: it never began: engine (before: FAILED); see what its job said in runs/slurm/7, "
        "and fix that; run the same plan again to resubmit it"
    )


def test_a_job_killed_for_want_of_memory_is_out_of_memory(tmp_path: Path) -> None:
    fate = Fate("OUT_OF_MEMORY", out_of_memory=True)
    _, (row,) = sweep_of(tmp_path, Engine([None], [fate]))
    assert row["outcome"] == "oom"


def test_what_ended_while_nobody_looked_is_taken_in(tmp_path: Path) -> None:
    (trial,) = trials_of()
    left = Cluster(Engine([OK]))
    place = tmp_path / "runs" / f"{trial.trial_id}-{left.environment_key(trial)}"
    left.submit([(trial, place)])
    engine = Engine()
    _, rows = sweep_of(tmp_path, engine)
    assert ([row["outcome"] for row in rows], engine.orders) == (["error"], [])
    engine = Engine([OK])  # it was recorded: this is another attempt
    _, rows = sweep_of(tmp_path, engine)
    assert len(rows) == len(engine.orders) == 1


def test_an_attempt_whose_recording_was_cut_short_is_recorded_and_not_taken_in_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def add_and_die(document: dict[str, Any]) -> None:
        documents.append(document)
        raise KilledError

    documents: list[dict[str, Any]] = []
    (tmp_path / "moved").symlink_to(tmp_path)
    backend = Cluster(Engine([OK]))
    with pytest.raises(KilledError):
        run_plan(plan_of(), tmp_path / "moved" / "runs", add=add_and_die, backend=backend)
    monkeypatch.chdir(tmp_path)
    engine = Engine([OK])  # for the trial ended with an error, which is tried again
    added: list[dict[str, Any]] = []
    run_plan(plan_of(), "runs", add=added.append, backend=Cluster(engine))
    assert added[0] == documents[0]
    assert (len(added), len(engine.orders)) == (2, 1)


def test_what_still_runs_is_watched_on_and_what_is_gone_submitted_anew(tmp_path: Path) -> None:
    (trial,) = trials_of()
    first = Cluster(Engine([None]))
    (job,) = first.submit([(trial, tmp_path / "place")])
    second = Cluster(Engine(known=frozenset([job.ticket])))
    (again,) = second.submit([(trial, tmp_path / "place")])
    assert (again.ticket, again.handle) == (job.ticket, f"job-{job.ticket}")
    third = Cluster(Engine([OK]))
    (anew,) = third.submit([(trial, tmp_path / "place")])
    assert anew.ticket != job.ticket


def test_a_cancelled_sweep_leaves_no_claim(tmp_path: Path) -> None:
    (trial,) = trials_of()
    engine = Engine([None])
    backend = Cluster(engine)
    (job,) = backend.submit([(trial, tmp_path / "place")])
    backend.cancel()
    assert engine.cancelled == [job.handle]
    assert not (tmp_path / "place" / CLAIM_NAME).exists()


def test_of_two_calls_at_once_the_second_is_refused_and_nothing_runs_twice(tmp_path: Path) -> None:
    second = Engine([OK] * 2)

    class First(Engine):
        def find_fates(self, jobs: Sequence[ClusterJob]) -> dict[str, Fate]:
            with pytest.raises(SourceError, match="found 2 of 2 trials held by another"):
                sweep_of(tmp_path, second, 2)
            return super().find_fates(jobs)

    _, rows = sweep_of(tmp_path, First([OK] * 2), 2)
    assert len(rows) == 2
    assert second.orders == []
    assert sweep_of(tmp_path, Engine([OK] * 2), 2)[0].refused == []


def test_a_call_that_was_taken_for_dead_records_nothing_and_leaves_the_jobs(tmp_path: Path) -> None:
    class Suspended(Engine):
        def find_fates(self, jobs: Sequence[ClusterJob]) -> dict[str, Fate]:
            assert len(jobs) == 2
            for word in (tmp_path / "runs" / FOLDER).iterdir():  # as who takes over does
                word.unlink()
            return {}  # the second one is under way

    engine = Suspended([OK, None])
    with pytest.raises(SourceError, match="another call is running these trials now"):
        sweep_of(tmp_path, engine, 2)
    assert engine.cancelled == []
    assert len(list(tmp_path.rglob(CLAIM_NAME))) == 2
    assert not list(tmp_path.rglob("submission.json"))


def test_no_more_are_submitted_than_may_run_at_once(tmp_path: Path) -> None:
    backend = Cluster(Engine([None] * 3), parallel=2)
    waiting = [(trial, tmp_path / trial.trial_id) for trial in trials_of(3)]
    assert len(backend.submit(waiting)) == 2
    assert backend.submit(waiting[2:]) == []


def test_a_trial_asks_for_its_share_of_a_node(tmp_path: Path) -> None:
    engine = Engine([None] * 3)
    backend = Cluster(engine)
    trials = [*trials_of(), *trials_of(n_gpus=2), *trials_of(device="cpu")]
    backend.submit([(trial, tmp_path / trial.trial_id) for trial in trials])
    assert [order.n_cpus for order in engine.orders] == [2, 4, 8]
    with pytest.raises(SourceError) as caught:
        backend.check(trials_of(n_gpus=5))
    assert str(caught.value) == (
        "found a trial that asks for 5 GPUs and 1 processors of one node; expected no more than a "
        "node has: 2 x (4 GPUs, 8 processors); change n_gpus of the plan, or --cpus"
    )


def test_several_nodes_are_for_engines_that_give_them() -> None:
    several = trials_of(n_nodes=3)
    with pytest.raises(SourceError) as caught:
        Cluster(Engine()).check(several)
    assert str(caught.value) == (
        "n_nodes: found 3; expected 1 with --backend engine; run the plan with --backend slurm"
    )
    with pytest.raises(SourceError) as caught:
        Cluster(Engine(spans_nodes=True)).check(several)
    assert str(caught.value) == (
        "n_nodes: found 3; expected at most the 2 nodes that have 1 GPUs and 2 processors"
    )
    with pytest.raises(SourceError) as caught:
        BACKENDS["local"](BackendOptions()).check(several)
    assert str(caught.value) == (
        "n_nodes: found 3; expected 1 on this machine; run the plan with --backend slurm"
    )


def test_a_part_of_several_nodes_meets_the_first_one(tmp_path: Path) -> None:
    (trial,) = trials_of(n_nodes=2, n_gpus=4)
    command = job_command(trial, tmp_path, "python", Team(1, "10.0.0.1", 29_000))
    assert command[4:10] == [
        "--nnodes=2",
        "--node-rank=1",
        "--master-addr=10.0.0.1",
        "--master-port=29000",
        "--nproc-per-node=4",
        "--module",
    ]
    assert trial.label == "m lora 8 2x4x ddp"


def test_the_number_of_nodes_has_not_changed_the_ids_of_trials_on_one() -> None:
    (before,) = trials_of()
    assert before.trial_id == "3d6fa2e060d9d990"
    assert trials_of(n_nodes=2)[0].trial_id != before.trial_id


def test_neighbours_are_those_of_the_same_node_at_the_same_time() -> None:
    (trial,) = trials_of()

    def job(node: str, began: float, seconds: float | None) -> ClusterJob:
        finished = None if seconds is None else Finished(0, seconds)
        made = ClusterJob(trial, Path(), Path(), finished, ticket="", handle="")
        made.node = {"node": node, "began": began}
        return made

    me = job("a", 10.0, 10.0)
    others = [job("a", 0.0, 12.0), job("a", 15.0, None), job("b", 10.0, 10.0), job("a", 20.0, 1.0)]
    assert count_beside(me, [me, *others]) == 1
    assert count_beside(me, [me, *others, job("a", 16.0, 1.0)]) == 2


def test_an_attempt_that_could_not_start_is_told_once_and_runs_anew(tmp_path: Path) -> None:
    (trial,) = trials_of()
    left = Cluster(Engine([OK]))
    place = tmp_path / "runs" / f"{trial.trial_id}-{left.environment_key(trial)}"
    (job,) = left.submit([(trial, place)])
    write_json(job.folder / END_NAME, {"error": [13, "Permission denied", "python"]})
    with pytest.raises(PermissionError):
        sweep_of(tmp_path, Engine())
    _, rows = sweep_of(tmp_path, Engine([OK]))
    assert len(rows) == 1


class Executor:
    """Submits as many jobs as a queue has room for, as submitit's does."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.n = 0

    def submit(self, *_: object) -> Any:
        if self.n == self.room:
            raise RuntimeError("sbatch: error: QOSMaxSubmitJobPerUserLimit")
        self.n += 1
        return SimpleNamespace(job_id=str(self.n))


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Have Slurm's commands noted; squeue does not answer."""
    commands: list[tuple[str, ...]] = []

    def ask(*command: str) -> list[str]:
        commands.append(command)
        if command[0] == "squeue":
            raise SourceError("slurm: squeue failed: the controller is away")
        return ["8|gpu:4|sim*|idle"] if command[0] == "sinfo" else []

    monkeypatch.setattr(slurm, "_ask", ask)
    return commands


def test_of_a_submission_that_is_refused_midway_nothing_stays(
    tmp_path: Path, asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slurm.Slurm, "_executor", lambda *_: Executor(2))
    trials = trials_of(3)
    waiting = [(trial, tmp_path / trial.trial_id) for trial in trials]
    with pytest.raises(SourceError, match=r"sbatch refused the job: .*MaxSubmitJobPerUserLimit"):
        Cluster(slurm.Slurm()).submit(waiting)
    assert ("scancel", "--quiet", "1", "2") in asked
    assert not list(tmp_path.rglob(CLAIM_NAME))


def test_a_job_that_was_submitted_is_not_gone_while_the_controller_is_away(
    asked: list[tuple[str, ...]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(slurm.Slurm, "_executor", lambda *_: Executor(9))
    engine = slurm.Slurm()
    engine._states = {"7": ("RUNNING", 0)}
    (trial,) = trials_of()
    (job,) = Cluster(engine).submit([(trial, tmp_path / "t")])
    assert engine.find_fates([job]) == {}
    assert engine.find_fates([job]) == {}
    assert [command[0] for command in asked].count("squeue") == 1  # not at every look


def test_a_node_runs_the_order_and_a_signal_ends_it(tmp_path: Path) -> None:
    (trial,) = trials_of(device="cpu")
    order = build_order(trial, tmp_path, ticket="t", n_cpus=1)
    write_json(tmp_path / CLAIM_NAME, {"ticket": "t"})
    before = signal.getsignal(signal.SIGTERM)

    def kill_once_it_runs() -> None:
        while not (tmp_path / "t-1" / NODE_NAME).exists():
            threading.Event().wait(0.01)
        os.kill(os.getpid(), signal.SIGUSR2)

    killer = threading.Thread(target=kill_once_it_runs)
    killer.start()
    run_attempt(order, node="n", job_id="7", restart=1)
    killer.join()
    assert signal.getsignal(signal.SIGTERM) == before
    node, end = read_json(tmp_path / "t-1" / NODE_NAME), read_end(tmp_path / "t-1")
    assert (node["node"], node["job_id"], node["n_cpus"]) == ("n", "7", 1)
    assert end is not None
    assert end.stopped_by == "SIGUSR2"


def test_an_order_that_is_out_of_date_is_not_run(tmp_path: Path) -> None:
    (trial,) = trials_of()
    order = build_order(trial, tmp_path, ticket="old", n_cpus=1)
    write_json(tmp_path / CLAIM_NAME, {"ticket": "new"})
    run_attempt(order, node="n")
    assert [path.name for path in tmp_path.iterdir()] == [CLAIM_NAME]


def test_a_node_that_does_not_see_the_registry_says_so(tmp_path: Path) -> None:
    (trial,) = trials_of()
    order = build_order(trial, tmp_path / "gone", ticket="t", n_cpus=1)
    with pytest.raises(SourceError, match="no such folder on node n; expected the registry in a"):
        run_attempt(order, node="n")


@pytest.mark.parametrize(
    ("known", "fate"),
    [
        (("RUNNING", 0), None),
        (("PENDING", 0), None),
        (("PENDING", 1), Fate("requeued", goes_on=True)),
        (("COMPLETING", 0), None),
        (("CANCELLED", 0), Fate("CANCELLED")),
        (("NODE_FAIL", 0), Fate("NODE_FAIL", again=True)),
        (("OUT_OF_MEMORY", 0), Fate("OUT_OF_MEMORY", out_of_memory=True)),
        (None, Fate("the job is gone", again=True)),
    ],
)
def test_states_of_slurm(known: tuple[str, int] | None, fate: Fate | None) -> None:
    assert slurm._judge(known, 0) == fate


@pytest.mark.parametrize(
    ("gres", "n_gpus"),
    [("(null)", 0), ("gpu:4", 4), ("gpu:h100:8(S:0-1)", 8), ("gpu:a:2,gpu:b:1,mps:100", 3)],
)
def test_gpus_of_a_node(gres: str, n_gpus: int) -> None:
    assert sum(map(int, slurm._GPUS.findall(gres))) == n_gpus


def test_a_machine_without_slurm_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _: object())
    monkeypatch.setenv("PATH", "")
    with pytest.raises(SourceError, match="found no sbatch, srun, squeue, sinfo on PATH"):
        BACKENDS["slurm"](BackendOptions())


def test_an_address_that_nobody_listens_at_is_refused_before_ray_waits() -> None:
    pytest.importorskip("ray")
    with pytest.raises(SourceError, match=r"nothing answers at 127\.0\.0\.1:1"):
        Ray("127.0.0.1:1").list_shapes()
