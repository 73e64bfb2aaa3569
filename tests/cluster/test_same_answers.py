"""The same plan gives the same observations, wherever its trials run."""

from __future__ import annotations

from typing import Any

#: Columns that say what was asked for and what came of it.
SAME = ("configuration_id", "outcome", "n_gpus", "lora_rank", "gpu_id")


def test_a_plan_gives_the_same_on_this_machine_on_slurm_and_on_ray(
    sweeps: Any, slurm: Any, ray_cluster: Any
) -> None:
    sweeps.environment |= slurm.environment
    asked = [
        ("--backend", "local"),
        ("--backend", "slurm", "--array"),
        ("--backend", "ray", "--address", ray_cluster.address),
    ]
    plan = sweeps.write_plan(ranks=(2, 4), include={"lora_rank": 8, "timeout_seconds": 1.0})
    for options in asked:
        sweeps.run(plan, *options, status=1)  # one trial has no time
    rows = [tuple(row[name] for name in SAME) for row in sweeps.recorded()]
    assert {row[1:] for row in rows} == {
        ("ok", 1, 2, "cpu"),
        ("ok", 1, 4, "cpu"),
        ("interrupted", 1, 8, "cpu"),
    }
    assert all(rows.count(row) == 3 for row in set(rows))
