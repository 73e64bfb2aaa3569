"""Trials as tasks of a Ray cluster that is already running.

Ray keeps no task of a driver that has gone, so that nothing is left to take up but results.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import socket
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from registry.errors import MissingExtraError, SourceError
from registry.measure.failure import format_head
from registry.measure.running.backends.attempt import Order, run_attempt
from registry.measure.running.backends.cluster import Fate, Shape

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.measure.running.backends.cluster import ClusterJob

#: Seconds in which a cluster's address has to take a connection; Ray itself waits for minutes.
_PATIENCE_SECONDS = 10.0

_START = "ray start --head --node-ip-address=127.0.0.1"


@dataclass
class Ray:
    """The tasks of one driver; ``address`` is the cluster's, found by Ray where None."""

    address: str | None = None
    name: str = "ray"
    spans_nodes: bool = False

    def describe(self) -> dict[str, Any]:
        """Return what of its options decides a result: a cluster's address says nothing of it."""
        return {}

    def list_shapes(self) -> list[Shape]:
        """Return what each node has that is up."""
        return [
            Shape(int(node["Resources"].get("CPU", 0)), int(node["Resources"].get("GPU", 0)))
            for node in self._connect().nodes()
            if node["Alive"]
        ]

    def _connect(self) -> Any:
        """Return Ray's module, connected. Raises SourceError where there is no cluster."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        ray = import_module("ray")
        if ray.is_initialized():
            return ray
        address = self.address or os.environ.get("RAY_ADDRESS") or "auto"
        _check_reachable(address)
        try:
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            raise SourceError(
                f"ray: no cluster at {address} ({format_head(error)}); expected one that runs; "
                f"start one with: {_START}; or name its address with --address"
            ) from None
        return ray

    def launch(self, orders: Sequence[Order], n_gpus: int) -> list[Any]:
        """Hand orders over as tasks; return a reference to each.

        A worker runs one trial and ends. Ray does not repeat what is lost: that is recorded first.
        """
        ray = self._connect()
        task = ray.remote(max_retries=0, max_calls=1)(run_in_ray)
        return [
            task.options(num_gpus=n_gpus, num_cpus=order.n_cpus).remote(order) for order in orders
        ]

    def find(self, claim: Mapping[str, Any]) -> None:
        """Nothing of an earlier driver is left."""

    def find_fates(self, jobs: Sequence[ClusterJob]) -> dict[str, Fate]:
        """Return what came of the tasks that have ended, by the jobs' tickets."""
        gone = {job.ticket: Fate("the task is gone", again=True) for job in jobs if not job.handle}
        known = [job for job in jobs if job.handle]
        if not known:
            return gone
        handles = [job.handle for job in known]
        ended = set(self._connect().wait(handles, num_returns=len(handles), timeout=0)[0])
        return gone | {job.ticket: self._judge(job.handle) for job in known if job.handle in ended}

    def _judge(self, handle: Any) -> Fate:
        ray = self._connect()
        errors = ray.exceptions
        try:
            ray.get(handle)
        except errors.RayTaskError as error:
            if isinstance(error.cause, SourceError):
                raise SourceError(str(error.cause)) from None
            return Fate(format_head(error.cause))
        except errors.OutOfMemoryError:
            return Fate("out of memory", out_of_memory=True)
        except errors.TaskCancelledError:
            return Fate("cancelled")
        except errors.RayError as error:
            return Fate(type(error).__name__, again=True)
        return Fate("the task ended", again=True)

    def cancel(self, handles: Sequence[Any]) -> None:
        """End tasks, and the workers that run them."""
        for handle in handles:
            if handle is not None:
                self._connect().cancel(handle, force=True)

    def close(self) -> None:
        """Leave the cluster."""
        import_module("ray").shutdown()


def require_ray() -> None:
    """Raise MissingExtraError where Ray is not installed."""
    if importlib.util.find_spec("ray") is None:
        raise MissingExtraError(
            "the backend ray needs Ray, which this Python does not have; install with: "
            "pip install 'peft-registry[ray]'"
        )


def run_in_ray(order: Order) -> None:
    """Run the trial of an order: the task, in a worker."""
    context = import_module("ray").get_runtime_context()
    run_attempt(order, node=context.get_node_id(), job_id=context.get_task_id())


def _check_reachable(address: str) -> None:
    """Raise SourceError where nothing listens at an address of the form HOST:PORT."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not host or not port.isdecimal():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _PATIENCE_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise SourceError(
            f"ray: nothing answers at {address} ({error}); expected the address of a running "
            f"cluster, as ray status shows it; start one with: {_START}"
        ) from None
