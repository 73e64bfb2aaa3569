"""What runs the trials of a plan: this machine, or a cluster. One file for each."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from registry.measure.running.backends.cluster import Cluster
from registry.measure.running.backends.local import Local
from registry.measure.running.backends.ray_cluster import Ray, require_ray
from registry.measure.running.backends.slurm import Slurm, require_submitit
from registry.measure.running.slots import Slots

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.measure.running.backends.interface import Backend


@dataclass(frozen=True)
class BackendOptions:
    """What a user may ask of a backend; each takes what is about it.

    Attributes:
        parallel: How many trials may run at once.
        n_cpus: Processors that a trial on a cluster asks for.
        address: Where a Ray cluster is.
        partition: Partition of Slurm.
        array: Whether Slurm gets job arrays.
        sbatch: Further options of sbatch, by their long names.
    """

    parallel: int | None = None
    n_cpus: int | None = None
    address: str | None = None
    partition: str | None = None
    array: bool = False
    sbatch: Mapping[str, str] = field(default_factory=dict)


def _build_local(options: BackendOptions) -> Backend:
    return Local(Slots(options.parallel))


def _build_slurm(options: BackendOptions) -> Backend:
    require_submitit()
    engine = Slurm(options.partition, array=options.array, options=options.sbatch)
    return Cluster(engine, parallel=options.parallel, n_cpus=options.n_cpus)


def _build_ray(options: BackendOptions) -> Backend:
    require_ray()
    return Cluster(Ray(options.address), parallel=options.parallel, n_cpus=options.n_cpus)


#: What builds each backend, by the name that a user knows it by. No engine is loaded before.
BACKENDS: dict[str, Callable[[BackendOptions], Backend]] = {
    "local": _build_local,
    "ray": _build_ray,
    "slurm": _build_slurm,
}
