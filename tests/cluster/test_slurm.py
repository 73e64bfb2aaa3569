"""Sweeps on a real Slurm of two simulated nodes."""

from __future__ import annotations

import json
import re
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Wait = Callable[[Callable[[], object], str], None]

#: Steps of a trial that runs long enough for something to happen to it.
LONG = 500


@pytest.fixture
def sweeps(sweeps: Any, slurm: Any) -> Any:
    """Give a registry whose commands find the cluster."""
    sweeps.environment |= slurm.environment
    return sweeps


def test_an_array_of_trials_is_recorded_and_not_run_twice(sweeps: Any) -> None:
    plan = sweeps.write_plan(ranks=(2, 4, 8), device="auto")
    said = sweeps.run(plan, "--backend", "slurm", "--array", "--partition", "sim")
    assert sweeps.outcomes() == [(2, "ok"), (4, "ok"), (8, "ok")], said
    provenance = [json.loads(row["provenance"]) for row in sweeps.recorded()]
    assert {each["backend"] for each in provenance} == {"slurm"}
    assert all(each["gpus_visible"] in "0123" for each in provenance)
    again = sweeps.run(plan, "--backend", "slurm", "--array", "--partition", "sim")
    assert "3 skipped" in again
    assert len(sweeps.recorded()) == 3


def test_what_no_node_has_is_refused_before_anything_is_submitted(sweeps: Any) -> None:
    plan = sweeps.write_plan(device="cuda", n_gpus=5)
    said = sweeps.run(plan, "--backend", "slurm", status=1)
    assert (
        "found a trial that asks for 5 GPUs and 1 processors of one node; expected no more than a "
        "node has: 2 x (4 GPUs, 8 processors)"
    ) in said
    said = sweeps.run(plan, "--backend", "slurm", "--partition", "gpu", status=1)
    assert "no node is up in partition gpu; expected one of sim* (up, 2 nodes)" in said
    assert not (sweeps.folder / "runs").exists()


def test_a_job_that_fails_before_its_trial_begins_says_where_its_output_is(sweeps: Any) -> None:
    failing = ("--sbatch", "error=/nonexistent/folder/file")  # it cannot be opened
    said = sweeps.run(sweeps.write_plan(), "--backend", "slurm", *failing, status=1)
    found = re.search(r"never began: slurm \(FAILED\); see what its job said in (\S+),", said)
    assert found, said
    assert Path(found[1]).is_dir()
    assert sweeps.recorded() == []


def start_stepping(sweeps: Any, slurm: Any) -> tuple[Any, str]:
    """Return the driver of a trial that makes steps, and the job that it is."""
    plan = sweeps.write_plan(steps=LONG)
    driver = sweeps.start(plan, "--backend", "slurm", "--cpus", "1")
    sweeps.wait_for_steps(1)
    (job,) = slurm.list_jobs()
    return driver, job


def test_a_requeued_trial_is_recorded_as_interrupted_and_runs_again(
    sweeps: Any, slurm: Any
) -> None:
    driver, job = start_stepping(sweeps, slurm)
    slurm.ask("scontrol", "requeue", job)
    said, _ = driver.communicate(timeout=200)
    assert sweeps.outcomes() == [(2, "interrupted"), (2, "ok")], said
    assert driver.returncode == 0
    first, second = sweeps.recorded()
    assert first["configuration_id"] == second["configuration_id"]
    assert first["outcome_detail"] == "stopped by SIGTERM of slurm (requeued)"


def test_a_warned_trial_is_recorded_as_interrupted_and_submitted_again(
    sweeps: Any, slurm: Any
) -> None:
    driver, job = start_stepping(sweeps, slurm)
    slurm.ask("scancel", "--signal=USR2", job)
    said, _ = driver.communicate(timeout=200)
    assert sweeps.outcomes() == [(2, "interrupted"), (2, "ok")], said
    assert sweeps.recorded()[0]["outcome_detail"] == "stopped by SIGUSR2 of slurm (COMPLETED)"


def test_a_cancelled_job_is_not_submitted_again_until_the_next_call(
    sweeps: Any, slurm: Any
) -> None:
    plan = sweeps.write_plan(ranks=(2, 4, 8), steps=LONG)  # each has a node to itself
    driver = sweeps.start(plan, "--backend", "slurm")
    sweeps.wait_for_steps(2)
    (waiting,) = slurm.list_jobs("PENDING")
    slurm.ask("scancel", waiting)
    slurm.ask("scancel", slurm.list_jobs()[0])
    said, _ = driver.communicate(timeout=200)
    assert sorted(outcome for _, outcome in sweeps.outcomes()) == ["interrupted", "ok"], said
    assert "it never began: slurm (CANCELLED)" in said
    assert driver.returncode == 1
    again = sweeps.run(plan, "--backend", "slurm")
    assert sorted(sweeps.outcomes(), key=lambda row: row[1])[1:] == [
        (2, "ok"),
        (4, "ok"),
        (8, "ok"),
    ], again


def test_a_killed_node_costs_an_attempt(sweeps: Any, slurm: Any) -> None:
    plan = sweeps.write_plan(ranks=(2, 4), steps=LONG)
    driver = sweeps.start(plan, "--backend", "slurm")
    sweeps.wait_for_steps(2)
    slurm.kill_node("sim1")
    said, _ = driver.communicate(timeout=200)
    slurm.start_node("sim1")
    outcomes = sorted(sweeps.outcomes(), key=lambda row: row[1])
    assert [outcome for _, outcome in outcomes] == ["interrupted", "ok", "ok"], said
    assert {rank for rank, outcome in outcomes if outcome == "ok"} == {2, 4}


def test_a_second_call_takes_up_what_a_killed_driver_left(sweeps: Any) -> None:
    plan = sweeps.write_plan(ranks=(2, 4, 8), steps=LONG)
    driver = sweeps.start(plan, "--backend", "slurm", "--array")
    sweeps.wait_for_steps(2)
    driver.kill()
    driver.communicate()
    said = sweeps.run(plan, "--backend", "slurm", "--array")
    assert sweeps.outcomes() == [(2, "ok"), (4, "ok"), (8, "ok")], said
    assert len(sweeps.find("node.json")) == 3  # each ran once


def test_ctrl_c_ends_the_jobs(sweeps: Any, slurm: Any, wait_until: Wait) -> None:
    plan = sweeps.write_plan(ranks=(2, 4, 8), steps=LONG)
    driver = sweeps.start(plan, "--backend", "slurm")
    wait_until(lambda: len(sweeps.find("node.json")) == 2, "two trials have begun")
    driver.send_signal(signal.SIGINT)
    said, _ = driver.communicate(timeout=60)
    assert driver.returncode == 130
    assert "interrupted after 0 of 3 trials" in said
    wait_until(lambda: not slurm.list_jobs("RUNNING,PENDING,COMPLETING"), "no job is left")
    assert sweeps.recorded() == []


def test_a_trial_on_two_nodes_is_one_observation(sweeps: Any) -> None:
    said = sweeps.run(sweeps.write_plan(device="auto", n_nodes=2), "--backend", "slurm")
    (row,) = sweeps.recorded()
    found = {name: row[name] for name in ("outcome", "n_nodes", "n_gpus", "sharding")}
    assert found == {"outcome": "ok", "n_nodes": 2, "n_gpus": 2, "sharding": "ddp"}, said
    assert "ranks_missing" not in json.loads(row["provenance"])
    too_many = sweeps.write_plan(device="auto", n_nodes=3)
    assert "expected at most the 2 nodes" in sweeps.run(too_many, "--backend", "slurm", status=1)
