"""Commands that begin with ``env``, run with the machine's own ``env``."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from registry.measure.running.wrapped_command import keep_variables

OURS = {"PYTHONPATH": "/recorder:before", "FOLDER": "/records"}
SHOW = (
    "import json, os; print(json.dumps({n: os.environ.get(n) for n in ('PYTHONPATH', 'FOLDER')}))"
)


@pytest.mark.parametrize(
    ("prefix", "path"),
    [
        (["env"], "/recorder:before"),
        (["/usr/bin/env", "SEED=1"], "/recorder:before"),
        (["env", "PYTHONPATH=src"], "/recorder:src"),
        (["env", "PYTHONPATH=a", "SEED=1", "PYTHONPATH=b:c"], "/recorder:b:c"),
        (["env", "PYTHONPATH="], "/recorder"),
        (["env", "-i"], "/recorder"),
        (["env", "-", "PYTHONPATH=src"], "/recorder:src"),
        (["env", "-iv", "--", "PYTHONPATH=src"], "/recorder:src"),
        (["env", "--ignore-environment", "SEED=1"], "/recorder"),
        (["env", "-u", "PYTHONPATH"], "/recorder"),
        (["env", "-uPYTHONPATH", "-u", "FOLDER"], "/recorder"),
        (["env", "--unset=PYTHONPATH", "-C", "/", "FOLDER=/theirs"], "/recorder"),
        (["env", "--unset", "FOLDER", "--chdir=/"], "/recorder:before"),
    ],
)
def test_what_a_prefix_changes_leaves_the_recorder_in_place(prefix: list[str], path: str) -> None:
    command = [*prefix, sys.executable, "-c", SHOW]
    kept = keep_variables(command, first={"PYTHONPATH": "/recorder"}, exact={"FOLDER": "/records"})
    done = subprocess.run(kept, env=OURS, capture_output=True, check=True)
    assert json.loads(done.stdout) == {"PYTHONPATH": path, "FOLDER": "/records"}


@pytest.mark.parametrize(
    "command",
    [
        ["python", "train.py", "PYTHONPATH=src"],
        ["env", "-S", "PYTHONPATH=src python train.py"],
        ["env", "--unknown", "PYTHONPATH=src", "python"],
        ["env", "python", "PYTHONPATH=src"],
        ["env", "-u"],
        [],
    ],
)
def test_other_commands_are_left_as_they_are(command: list[str]) -> None:
    assert keep_variables(command, first={"PYTHONPATH": "/r"}, exact={}) == command
