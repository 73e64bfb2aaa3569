"""One attempt at a trial on a node of a cluster: what the node is told, does and leaves.

The driver writes an order, the node runs the trial in a folder of this attempt alone, so that one
that was thought to be dead spoils no other, and leaves two files: what node it is, at the begin,
and how the trial ended. The folders lie where all nodes see them.
"""

from __future__ import annotations

import os
import signal
import time
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.measure.child_process import Finished
from registry.measure.environment import collect_environment
from registry.measure.record_files import read_json, write_json
from registry.measure.running.keeper import read_finished, start_keeper
from registry.measure.running.slots import VISIBLE
from registry.measure.running.trial_run import Team, job_command, prepare_folder, trial_environment
from registry.measure.running.trials import Trial
from registry.measure.trial_settings import settings_of

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator

Row = dict[str, Any]

#: Files of a trial's folder: which submission it belongs to; of an attempt's: the node, the end.
CLAIM_NAME, NODE_NAME, END_NAME = "claim.json", "node.json", "end.json"

#: Variables that engines set for their own ends; a trial gets what the driver has.
_RESTORED = ("OMP_NUM_THREADS",)

#: Signals by which a scheduler says that a job must go, and what they mean.
_STOPPING = {
    signal.SIGTERM: "SIGTERM",  # pre-empted, cancelled, or its node drained
    signal.SIGUSR2: "SIGUSR2",  # the job's time limit is near
}


@dataclass(frozen=True)
class Order:
    """What a node is told: plain data.

    Attributes:
        spec: The trial.
        place: Its folder.
        ticket: Which submission this is.
        n_cpus: Processors that it may use.
        variables: Environment variables as the driver has them; None where it lacks one.
    """

    spec: Row
    place: str
    ticket: str
    n_cpus: int
    variables: dict[str, str | None]


def build_order(trial: Trial, place: Path, *, ticket: str, n_cpus: int) -> Order:
    """Return the order for a trial."""
    variables = {name: os.environ.get(name) for name in _RESTORED}
    return Order(trial.as_spec(), str(place.resolve()), ticket, n_cpus, variables)


def attempt_folder(place: Path, ticket: str, restart: int) -> Path:
    """Return the folder of an attempt: ``restart`` counts how often the engine began it anew."""
    return place / f"{ticket}-{restart}"


def run_attempt(
    order: Order,
    *,
    node: str,
    job_id: str | None = None,
    restart: int = 0,
    team: Team | None = None,
) -> None:
    """Run the trial of an order here, and leave its end in the attempt's folder.

    ``node`` tells this node from others, and stays in that folder. An order that another
    submission has taken the place of is not run. Raises SourceError where the driver's folder is
    not there. Of a ``team`` of nodes each runs its part, and the first one says how all ended.
    """
    place = Path(order.place)
    if not place.is_dir():
        raise SourceError(
            f"{place}: no such folder on node {node}; expected the registry in a folder "
            "that all nodes of the cluster see; name one with --registry"
        )
    if read_claim(place).get("ticket") != order.ticket:
        return
    trial = Trial(order.spec["trial_id"], settings_of(order.spec["settings"]), order.spec["model"])
    whole = attempt_folder(place, order.ticket, restart)
    folder = prepare_folder(trial, whole / f"node-{team.rank}" if team and team.rank else whole)
    for name, value in order.variables.items():
        os.environ.pop(name, None)
        os.environ.update({} if value is None else {name: value})
    command = job_command(trial, whole.resolve(), team=team)
    with _stopping_signals() as stop:
        write_json(folder / NODE_NAME, _describe_node(order, node, job_id))
        try:
            finished = _run(trial, folder, command, order.n_cpus, stop)
        except OSError as error:
            write_json(folder / END_NAME, {"error": [error.errno, error.strerror, error.filename]})
        else:
            write_json(folder / END_NAME, asdict(finished))


def _run(trial: Trial, folder: Path, command: list[str], n_cpus: int, stop: _Stop) -> Finished:
    """Run the trial under a keeper, as on one machine; a signal to this process ends it."""
    began = time.monotonic()
    stop.keeper = start_keeper(
        command,
        environment=trial_environment(trial, n_cpus=n_cpus),
        folder=folder,
        timeout_seconds=trial.settings.timeout_seconds,
    )
    stop.pass_on()
    stop.keeper.wait()
    finished = read_finished(folder, stop.keeper, time.monotonic() - began)
    stopped_by = stop.said or ("SIGTERM" if finished.returncode == -signal.SIGTERM else None)
    return replace(finished, stopped_by=stopped_by, load_average=os.getloadavg()[0])


@dataclass
class _Stop:
    """What told this process to stop, and the keeper that has to know."""

    keeper: subprocess.Popen[bytes] | None = None
    said: str | None = None

    def handle(self, number: int, _: object = None) -> None:
        self.said = self.said or _STOPPING[signal.Signals(number)]
        self.pass_on()

    def pass_on(self) -> None:
        if self.said is not None and self.keeper is not None:
            self.keeper.terminate()


@contextmanager
def _stopping_signals() -> Iterator[_Stop]:
    """Catch the signals of a scheduler, whose own handlers are put back in the end."""
    stop = _Stop()
    before = {number: signal.signal(number, stop.handle) for number in _STOPPING}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _describe_node(order: Order, node: str, job_id: str | None) -> Row:
    return {
        "node": node,
        "job_id": job_id,
        "began": time.time(),
        "n_cpus": order.n_cpus,
        "gpus": os.environ.get(VISIBLE) or None,
        "environment": collect_environment(installed=True),
    }


def read_claim(place: Path) -> Row:
    """Return which submission a trial's folder belongs to; empty where to none."""
    claim = read_json(place / CLAIM_NAME)
    return claim if isinstance(claim, dict) and isinstance(claim.get("ticket"), str) else {}


def read_end(folder: Path) -> Finished | None:
    """Return how an attempt ended; None until then. Raises OSError where it could not start."""
    end = read_json(folder / END_NAME)
    if end is None:
        return None
    if "error" in end:
        raise OSError(*end["error"])
    return Finished(**end)
