"""Bring what all processes of a job measured together at its end, without ever blocking it.

The processes leave their part in the job's own key-value store and only the first one waits, with a
time limit: a collective operation would hang the job if one process had no recorder.
"""

from __future__ import annotations

import json
from contextlib import suppress
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from registry.measure.recording.configuration import read_rank
from registry.measure.recording.loaded import loaded

if TYPE_CHECKING:
    from pathlib import Path

#: Seconds that the first process waits for the part of another.
_PATIENCE_SECONDS = 60

Part = dict[str, Any]


def rank_path(path: Path, rank: int) -> Path:
    """Return where a process leaves its record: the first one there, each other beside it."""
    return path if rank == 0 else path.with_name(f"{path.stem}.rank{rank}{path.suffix}")


def gather_parts(part: Part, run: int) -> list[Part]:
    """Return the parts of all processes on the first one; on the others only their own.

    ``run`` tells apart several trainings of one job. A part that does not come in time is missing.
    """
    rank, n_ranks = read_rank()
    store = _store() if n_ranks > 1 else None
    if store is None:
        return [part]
    if rank:
        store.set(_key(run, rank), json.dumps(part))
        return [part]
    parts = [part]
    for other in range(1, n_ranks):
        with suppress(Exception):  # a time-out, or a store that is gone
            key = _key(run, other)
            store.wait([key], timedelta(seconds=_PATIENCE_SECONDS))
            parts.append(json.loads(store.get(key)))
    return [each for each in parts if each is not None]


def forfeit_part(run: int) -> None:
    """Say that this process has no part, so that the first one does not wait for it."""
    with suppress(Exception):  # the recorder is failing already
        rank, n_ranks = read_rank()
        store = _store() if n_ranks > 1 and rank else None
        if store is not None:
            store.set(_key(run, rank), json.dumps(None))


def _key(run: int, rank: int) -> str:
    return f"registry-recorder/{run}/{rank}"


def _store() -> Any:
    distributed = loaded("torch.distributed")
    if distributed is None or not distributed.is_initialized():
        return None
    return distributed.distributed_c10d._get_default_store()  # noqa: SLF001 - torch offers no other way


def merge_steps(parts: list[Part]) -> list[dict[str, Any]]:
    """Return the steps of all processes as one: tokens and samples added, the slowest's seconds.

    A step is over when the last process has ended it. The longest time of each step would be too
    much: a process that ends one step late has a shorter next one.
    """
    merged = []
    spent = [0.0] * len(parts)
    ended = 0.0
    for rows in zip(*(part["steps"] for part in parts), strict=False):
        row = dict(rows[0])
        spent = [before + each["seconds"] for before, each in zip(spent, rows, strict=True)]
        row["seconds"], ended = max(spent) - ended, max(spent)
        for name in ("tokens", "samples"):
            if all(name in each for each in rows):
                row[name] = sum(each[name] for each in rows)
        for name in [name for name in row if name.endswith("_bytes")]:
            row[name] = max(each.get(name, 0) for each in rows)
        merged.append(row)
    return merged


def merge_peaks(parts: list[Part], *, on_cpu: bool) -> dict[str, dict[int, int]]:
    """Return peak bytes by kind and device.

    In a job of several processes, a process's device is numbered by its rank.
    """
    merged: dict[str, dict[int, int]] = {}
    for part in parts:
        for kind, device, value in part["peaks"]:
            index = part["rank"] if len(parts) > 1 or kind == "host_rss" else device
            if kind == "host_rss" or not on_cpu:
                row = merged.setdefault(kind, {})
                row[index] = max(row.get(index, 0), value)
    return merged
