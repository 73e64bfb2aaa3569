"""Processes that are killed at any instant: what was acknowledged is there once, nothing is half.

REGISTRY_CRASH_ROUNDS sets how many processes of each kind are killed.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest

import registry
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from pathlib import Path

ROUNDS = int(os.environ.get("REGISTRY_CRASH_ROUNDS", "15"))

#: Submissions that one `registry add` hands in, and observations in each.
SUBMISSIONS = 25
OBSERVATIONS = 2

CONFIGURATION: dict[str, Any] = {"model_id": "llama-2-7b", "method": "lora", "gpu_id": "rtx-3090"}


def build_lines(start: int) -> bytes:
    """Return submissions as JSON lines; each holds two observations that belong together."""
    lines = [json.dumps(build_submission(start + number)) for number in range(SUBMISSIONS)]
    return "\n".join(lines).encode()


def build_submission(number: int) -> dict[str, Any]:
    observations: list[dict[str, Any]] = [
        {
            "outcome": "ok",
            "run_id": f"{number}-{part}",
            "configuration": {**CONFIGURATION, "seq_len": 128 * (number + 1)},
            "measurements": [{"metric": "step_time", "value": 1.0 + number}],
        }
        for part in range(OBSERVATIONS)
    ]
    return {"source": {"source_id": "crash"}, "observations": observations}


@dataclass
class Crashes:
    """Commands on one registry, killed at random instants."""

    command: Path
    folder: Path
    random: random.Random
    #: Longest time a command that was left alone took, by its name.
    seconds: dict[str, float] = field(default_factory=dict)
    acknowledged: set[str] = field(default_factory=set)
    handed_in: int = 0
    killed: Counter[str] = field(default_factory=Counter)

    def run(self, name: str, *, kill: bool, stdin: bytes = b"") -> bytes:
        """Run a command, kill it at a random instant of its life, and return its whole lines."""
        with tempfile.TemporaryFile() as file:
            file.write(stdin)
            file.seek(0)
            begin = time.monotonic()
            child = subprocess.Popen(
                [self.command, name, *_ARGUMENTS[name], "--registry", self.folder],
                stdin=file,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        if not kill:
            stdout, stderr = child.communicate(timeout=300)
            assert child.returncode == 0, stderr.decode()
            self.seconds[name] = time.monotonic() - begin
            return stdout
        delay = self.random.uniform(0, 1.1 * self.seconds[name])
        try:
            stdout, _ = child.communicate(timeout=delay)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            stdout, _ = child.communicate()
            self.killed[name] += 1
        return stdout

    def add(self, *, kill: bool) -> None:
        """Hand in new submissions; remember those that were acknowledged."""
        lines = build_lines(self.handed_in)
        self.handed_in += SUBMISSIONS
        for line in self.run("add", kill=kill, stdin=lines).splitlines(keepends=True):
            if line.endswith(b"\n"):
                self.acknowledged.add(json.loads(line)["submission_id"])

    def check(self) -> None:
        """See that all that was acknowledged is there, once, and that nothing is half there."""
        rows = registry.open(self.folder).query(
            "select submission_id as id, n_observations as n from submissions"
        )
        found = Counter(row["id"] for row in rows.rows())
        assert self.acknowledged <= found.keys()
        assert set(found.values()) <= {1}
        whole = registry.open(self.folder).query(
            "select split_part(run_id, '-', 1) as number, count(*) as n "
            "from results join observations using (observation_id) group by all"
        )
        assert {row["n"] for row in whole.rows()} <= {OBSERVATIONS}
        assert len(whole) == len(found)

    def report(self) -> None:
        """Tell what was done, for whoever runs the full size."""
        killed = ", ".join(f"{n} of {name}" for name, n in sorted(self.killed.items()))
        sys.stdout.write(
            f"killed {killed}; {self.handed_in} submissions handed in, "
            f"{len(self.acknowledged)} acknowledged\n"
        )


_ARGUMENTS = {"add": ["-", "--json"], "fold": ["--wait", "5"]}


@pytest.fixture
def crashes(command: Path, tmp_path: Path) -> Crashes:
    """Return a registry with some folded and some pending submissions."""
    create_registry(tmp_path / "registry", curated=False)
    crashes = Crashes(command, tmp_path / "registry", random.Random(7))  # noqa: S311 - instants, no secrets
    crashes.add(kill=False)
    crashes.run("fold", kill=False)
    crashes.add(kill=False)
    return crashes


def check_sound(command: Path, folder: Path) -> None:
    done = subprocess.run(
        [command, "check", "--registry", folder], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout


def test_killed_writers_lose_nothing_and_leave_nothing_half(crashes: Crashes) -> None:
    for number in range(ROUNDS):
        crashes.add(kill=True)
        if number % 5 == 0:
            crashes.check()
    crashes.check()
    crashes.report()
    assert crashes.killed["add"] > ROUNDS // 2
    crashes.run("fold", kill=False)
    crashes.check()
    check_sound(crashes.command, crashes.folder)


def test_killed_folds_lose_nothing_and_the_next_one_goes_on(crashes: Crashes) -> None:
    for number in range(ROUNDS):
        crashes.add(kill=number % 2 == 0)
        crashes.run("fold", kill=True)
        if number % 5 == 0:
            crashes.check()
    crashes.check()
    crashes.report()
    assert crashes.killed["fold"] > ROUNDS // 2
    crashes.run("fold", kill=False)
    crashes.check()
    check_sound(crashes.command, crashes.folder)
    assert list((crashes.folder / "journal").glob("*.json")) == []
    assert list((crashes.folder / "tables").glob(".tmp-*")) == []


HOLD = """
import signal, sys
from pathlib import Path
from registry.store.folder import Folder
from registry.store.lock import table_lock
with table_lock(Folder(Path(sys.argv[1]))):
    print("held", flush=True)
    signal.pause()
"""


def test_the_lock_of_a_killed_fold_is_free_at_once(crashes: Crashes) -> None:
    holder = subprocess.Popen(
        [crashes.command.parent / "python", "-c", HOLD, crashes.folder], stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    refused = subprocess.run(
        [crashes.command, "fold", "--wait", "0", "--registry", crashes.folder],
        capture_output=True,
        text=True,
        check=False,
    )
    holder.kill()
    holder.communicate()
    assert refused.returncode == 1
    assert f"another process (pid {holder.pid}) is folding" in refused.stderr
    assert crashes.run("fold", kill=False).startswith(b"folded 25 submissions, 50 new observations")
