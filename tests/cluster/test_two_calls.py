"""Two calls of a plan at the same time, wherever its trials run."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.parametrize("backend", ["local", "slurm", "ray"])
def test_of_two_calls_at_once_one_is_refused_and_nothing_runs_twice(
    backend: str, sweeps: Any, request: pytest.FixtureRequest
) -> None:
    pytest.importorskip("torch", reason="trials need the extra train")
    plan = sweeps.write_plan(ranks=(2, 4, 8))
    options = ["--backend", backend]
    if backend == "slurm":
        sweeps.environment |= request.getfixturevalue("slurm").environment
    if backend == "ray":
        options += ["--address", request.getfixturevalue("ray_cluster").address]
    drivers = [sweeps.start(plan, *options) for _ in range(2)]
    said = {driver.communicate(timeout=300)[0]: driver.returncode for driver in drivers}
    assert sorted(said.values()) == [0, 1], said
    (refused,) = (text for text, status in said.items() if status)
    assert "plan: found 3 of 3 trials held by another call" in refused
    assert sweeps.outcomes() == [(2, "ok"), (4, "ok"), (8, "ok")]
    assert len(sweeps.find("stdout.txt")) == 3
