"""Sweeps on a real Ray of two nodes with simulated GPUs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Wait = Callable[[Callable[[], object], str], None]

#: Steps of a trial that runs long enough for something to happen to it.
LONG = 500


@pytest.fixture
def ask(ray_cluster: Any) -> tuple[str, ...]:
    """Give the options that name the cluster."""
    return ("--backend", "ray", "--address", ray_cluster.address)


def test_trials_on_gpus_are_recorded_and_not_run_twice(sweeps: Any, ask: tuple[str, ...]) -> None:
    plan = sweeps.write_plan(ranks=(2, 4, 8), device="auto")
    said = sweeps.run(plan, *ask)
    assert sweeps.outcomes() == [(2, "ok"), (4, "ok"), (8, "ok")], said
    provenance = [json.loads(row["provenance"]) for row in sweeps.recorded()]
    assert {each["backend"] for each in provenance} == {"ray"}
    assert all(each["gpus_visible"] in "0123" for each in provenance)
    assert "3 skipped" in sweeps.run(plan, *ask)


def test_a_trial_of_several_gpus_says_which_it_had_and_keeps_its_threads(
    sweeps: Any, ask: tuple[str, ...]
) -> None:
    sweeps.environment["OMP_NUM_THREADS"] = "3"  # Ray says 1 to its workers
    said = sweeps.run(sweeps.write_plan(device="auto", n_gpus=2), *ask)
    (row,) = sweeps.recorded()
    assert (row["outcome"], row["n_gpus"]) == ("ok", 2), said
    assert len(json.loads(row["provenance"])["gpus_visible"].split(",")) == 2
    assert json.loads(row["settings"])["OMP_NUM_THREADS"] == "3"


def test_what_no_node_has_is_refused_at_once(sweeps: Any, ask: tuple[str, ...]) -> None:
    said = sweeps.run(sweeps.write_plan(device="cuda", n_gpus=5), *ask, status=1)
    assert "2 x (4 GPUs, 4 processors)" in said
    assert not (sweeps.folder / "runs").exists()


def test_a_trial_on_two_nodes_is_refused_at_once(sweeps: Any, ask: tuple[str, ...]) -> None:
    said = sweeps.run(sweeps.write_plan(device="auto", n_nodes=2), *ask, status=1)
    assert (
        "n_nodes: found 2; expected 1 with --backend ray; run the plan with --backend slurm" in said
    )
    assert not (sweeps.folder / "runs").exists()


def test_a_cluster_that_is_not_there_is_said_at_once(sweeps: Any, ray_cluster: Any) -> None:
    assert ray_cluster.address
    plan = sweeps.write_plan()
    said = sweeps.run(plan, "--backend", "ray", "--address", "127.0.0.1:1", status=1)
    assert "nothing answers at 127.0.0.1:1" in said


def test_a_killed_node_costs_an_attempt(
    sweeps: Any, ray_cluster: Any, ask: tuple[str, ...]
) -> None:
    plan = sweeps.write_plan(ranks=(2, 4), steps=LONG)  # each has a node to itself
    driver = sweeps.start(plan, *ask)
    sweeps.wait_for_steps(2)
    ray_cluster.remove_node(ray_cluster.worker_nodes.copy().pop(), allow_graceful=False)
    said, _ = driver.communicate(timeout=200)
    ray_cluster.add_node(num_cpus=4, num_gpus=4)
    outcomes = sorted(sweeps.outcomes(), key=lambda row: row[1])
    assert [outcome for _, outcome in outcomes] == ["interrupted", "ok", "ok"], said
    assert {rank for rank, outcome in outcomes if outcome == "ok"} == {2, 4}


def test_a_second_call_runs_what_a_killed_driver_left(
    sweeps: Any, ask: tuple[str, ...], wait_until: Wait
) -> None:
    plan = sweeps.write_plan(ranks=(2, 4, 8), steps=LONG)
    driver = sweeps.start(plan, *ask)
    wait_until(sweeps.recorded, "a trial is recorded")
    driver.kill()
    driver.communicate()
    n_done = len(sweeps.recorded())
    said = sweeps.run(plan, *ask)
    well = [row for row in sweeps.outcomes() if row[1] == "ok"]
    assert well == [(2, "ok"), (4, "ok"), (8, "ok")], said
    # what ran when its driver was killed may have had the time to say so
    others = [row for row in sweeps.outcomes() if row[1] != "ok"]
    assert len(others) <= 3 - n_done, said
    assert all(row in [(4, "interrupted"), (8, "interrupted")] for row in others), said
    assert f"{n_done} skipped" in said
