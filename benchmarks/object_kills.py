"""Kill clients of a registry on object storage at random instants, and count what is lost.

Run as ``python -m benchmarks.object_kills s3://BUCKET/PREFIX [KILLS]``, with a server that the
environment names (AWS_ENDPOINT_URL and keys) and nothing at the address. Four clients at a time
add, fold and prune; all of them are killed. The exit status is 1 where anything is wrong.
"""

from __future__ import annotations

import random
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.synthetic import build_documents
from registry.api import open_registry
from registry.store.add import add_submissions
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import create_registry, find_registry
from registry.store.manifest import CommittedError
from registry.store.prune import prune

_AT_ONCE = 4
_SEED = 7


@dataclass
class Found:
    """What was acknowledged, and what is there afterwards."""

    n_killed: int = 0
    acknowledged: set[str] = field(default_factory=set)
    n_documents: int = 0
    lost: set[str] = field(default_factory=set)
    n_doubled: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def is_right(self) -> bool:
        """Whether nothing is lost, doubled, half or wrong."""
        return not (self.lost or self.n_doubled or self.problems)


def work(address: str, seed: int) -> None:
    """Add, fold and prune until somebody kills this process; say what was recorded."""
    location = find_registry(address)
    print("ready", flush=True)
    for number, document in enumerate(build_documents(10_000, seed=seed)):
        (added,) = add_submissions(location, [("here", document)])
        print(added.submission_id, flush=True)
        if number % 3 == 2:
            fold(location)
        if number % 5 == 4:
            try:
                prune(location.own)
            except CommittedError:  # another fold was faster: next time
                continue


def kill_clients(address: str, n_kills: int) -> Found:
    """Kill that many clients of a new registry; return what is there afterwards."""
    draw = random.Random(_SEED)  # noqa: S311 - instants, no secrets
    create_registry(Path(address), curated=False)
    found = Found()
    while found.n_killed < n_kills:
        clients = [_start(address, found.n_killed + number) for number in range(_AT_ONCE)]
        for client in clients:
            if client.stdout is None or client.stdout.readline() != "ready\n":
                found.problems.append("a client did not start")
        for client in clients:
            time.sleep(draw.uniform(0, 0.8))
            ended = client.poll()
            client.kill()
            lines = client.communicate()[0].splitlines(keepends=True)
            found.acknowledged |= {line.strip() for line in lines if line.endswith("\n")}
            found.problems += [] if ended is None else [f"a client ended with {ended}"]
        found.n_killed += _AT_ONCE
    _look(address, found)
    return found


def _start(address: str, seed: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, "-m", "benchmarks.object_kills", address, f"seed={seed}"]
    return subprocess.Popen(
        arguments, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[1]
    )


def _look(address: str, found: Found) -> None:
    """Check the registry as the last kill left it, after a fold, and after a removal."""
    for step in (lambda _: None, fold, lambda location: prune(location.own)):
        location = find_registry(address)
        step(location)
        found.problems += map(str, check_registry(location).problems)
    rows = open_registry(address).query("select submission_id as id from submissions").rows()
    ids = [row["id"] for row in rows]
    found.n_documents = len(ids)
    found.lost = found.acknowledged - {*ids}
    found.n_doubled = len(ids) - len({*ids})


def main(address: str, option: str = "200") -> int:
    """Measure and print, or be a client."""
    if option.startswith("seed="):
        work(address, int(option.removeprefix("seed=")))
        return 0
    found = kill_clients(address, int(option))
    print(
        f"{found.n_killed} clients killed, {len(found.acknowledged)} documents acknowledged, "
        f"{found.n_documents} there; {len(found.lost)} lost, {found.n_doubled} doubled, "
        f"{len(found.problems)} problems"
    )
    for problem in found.problems[:10]:
        print(f"  {problem}")
    return 0 if found.is_right else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
