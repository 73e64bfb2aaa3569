"""What nvidia-smi showed while a run went on: the memory of the fullest card, and its name.

Readings are MiB in use on the device, of all processes, at intervals: what lies between two of
them is not seen. Lines of several cards stand one under another.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from registry.importers.base import Imported, join_imported

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from registry.importers.base import ImportOptions, RunFile
    from registry.importers.shared.draft import Draft

_HEADER: Final = re.compile(r"\s*memory\.used \[MiB\]\s*")
_READING: Final = re.compile(r"\s*(?P<mebibytes>\d+)(?: MiB)?\s*")
_WITH_UNIT: Final = re.compile(r"\s*\d+ MiB\s*")
#: What nvidia-smi calls other columns that it is asked for.
_QUERIED: Final = re.compile(
    r"\s*(?:memory|utilization|temperature|power|clocks|fan|pcie)\.[\w.]+(?: \[[^\]]+\])?\s*"
)
#: The memory of one process on a card, as `--query-compute-apps` calls it.
_OF_PROCESS: Final = re.compile(r"\s*used_(?:gpu_)?memory(?: \[MiB\])?\s*")
_NAMED: Final = re.compile(rf"{_QUERIED.pattern}|{_OF_PROCESS.pattern}")
_COMMAND: Final = "`nvidia-smi --query-gpu=timestamp,name,memory.used --format=csv -l 1`"
_MEBIBYTE: Final = 2**20
#: Readings up to this are those of a card without a training: its driver, its display.
_IDLE_MEBIBYTES: Final = 200
#: How far the framework's own peak may lie above the device's, by rounding.
_SLACK: Final = 1.01


@dataclass(frozen=True)
class Monitor:
    """The most that a card showed, and what the card is called where that stands there."""

    peak_mebibytes: int
    name: str | None = None

    @property
    def is_idle(self) -> bool:
        """Whether no training can have run on the card."""
        return self.peak_mebibytes <= _IDLE_MEBIBYTES


def read_monitor(file: RunFile) -> Monitor | None:
    """Return the readings of a file, or None where it is no monitor."""
    return parse_monitor(_rows_of(file))


def _rows_of(file: RunFile) -> list[list[str]]:
    """Return the rows of a CSV file, its header first, whatever its name ends in."""
    if file.kind == "csv" and file.document:
        return [list(file.document[0]), *(list(row.values()) for row in file.document)]
    lines = file.document if file.kind == "text" else []
    if lines and any(map(_NAMED.fullmatch, lines[0].split(","))):
        return [line.split(",") for line in lines]
    return []


def explain_monitor(file: RunFile) -> str | None:
    """Return what readings of nvidia-smi lack to be memory; None where they do not, or are none."""
    header = next(iter(_rows_of(file)), [])
    if any(map(_OF_PROCESS.fullmatch, header)) and not any(map(_HEADER.fullmatch, header)):
        found = ", ".join(cell.strip() for cell in header)
        return (
            "readings of nvidia-smi of single processes, which lack what others and the driver "
            f"hold of the card; found {found}; expected memory.used, as {_COMMAND} writes it"
        )
    queried = [cell for cell in header if _QUERIED.fullmatch(cell)]
    if queried and not any(map(_HEADER.fullmatch, header)):
        found = ", ".join(cell.strip() for cell in header)
        return (
            f"readings of nvidia-smi without memory; found {found}; expected memory.used, as "
            f"{_COMMAND} writes it"
        )
    if sum(bool(_WITH_UNIT.fullmatch(cell)) for cell in header) > 1:
        return (
            "readings of nvidia-smi without a header; found several columns in MiB, expected "
            f"memory.used alone or the header that {_COMMAND} writes"
        )
    return None


def parse_monitor(rows: Sequence[Sequence[str]]) -> Monitor | None:
    """Return the readings of rows; without a header the one column of MiB is the memory."""
    header = list(rows[0]) if rows else []
    named = [i for i, cell in enumerate(header) if _HEADER.fullmatch(cell)]
    columns = named or [i for i, cell in enumerate(header) if _WITH_UNIT.fullmatch(cell)]
    if len(columns) != 1:
        return None
    readings = list(_readings(rows, columns[0]))
    names = [i for i, cell in enumerate(header) if cell.strip() == "name"]
    name = rows[1][names[0]].strip() if names and len(rows) > 1 else None
    return Monitor(max(readings), name) if readings else None


def _readings(rows: Iterable[Sequence[str]], column: int) -> Iterator[int]:
    for row in rows:
        found = _READING.fullmatch(row[column]) if len(row) > column else None
        if found:
            yield int(found["mebibytes"])


def measure_monitor(draft: Draft, monitor: Monitor) -> None:
    """Add the memory that a monitor saw, unless its card was idle."""
    if monitor.is_idle:
        draft.missing.append(_idle(monitor))
    else:
        draft.measure(**_figure(monitor))


def _idle(monitor: Monitor) -> str:
    return f"no memory: the monitor shows {monitor.peak_mebibytes} MiB at most, an idle card"


def _figure(monitor: Monitor) -> dict[str, Any]:
    return {
        "metric": "peak_memory",
        "value": monitor.peak_mebibytes * _MEBIBYTE,
        "kind": "device",
        "scope": "max_gpu",
        "raw": f"{monitor.peak_mebibytes} MiB",
        "unit_reported": "MiB",
        "reason": "most that nvidia-smi showed of a card, at intervals",
    }


def add_monitors(found: Imported, files: Sequence[RunFile], options: ImportOptions) -> Imported:
    """Add to each run of an import the monitor beside its log: of its name, or the only one."""
    monitors = [(file, monitor) for file in files if (monitor := read_monitor(file))]
    observations = [row for document in found.submissions for row in document["observations"]]
    unread = {file.name: why for file in files if (why := explain_monitor(file))}
    lacking = [f"{name}: {why}" for name, why in unread.items() if observations]
    parts = [found, Imported(missing=tuple(lacking))]
    for row in observations if monitors else ():
        logs = [name.rpartition(".")[0] for name in row["provenance"]["files"]]
        own = [pair for pair in monitors if any(pair[0].name.startswith(f"{log}_") for log in logs)]
        if not own and len(observations) == 1:
            own = monitors
        if len(own) == 1:
            parts.append(_add_monitor(row, *own[0], options))
    return join_imported(parts)


def _add_monitor(
    row: dict[str, Any], file: RunFile, monitor: Monitor, options: ImportOptions
) -> Imported:
    if monitor.is_idle:
        return Imported(missing=(f"{file.name}: {_idle(monitor)}",))
    figure = _figure(monitor)
    if _own_peak(row) > _SLACK * figure["value"]:
        reason = "the run's own peak is larger: a monitor of another card, or of long intervals"
        return Imported(missing=(f"{file.name}: no memory taken, {reason}",))
    row.setdefault("measurements", []).append(figure)
    row["provenance"]["files"][file.name] = file.sha256
    gpu = options.catalogue.resolve_gpu(monitor.name) if monitor.name else None
    if gpu and "gpu_id" not in row["configuration"]:
        row["configuration"]["gpu_id"] = gpu
        row.setdefault("inferences", {})["gpu_id"] = f"the name in {file.name}"
    taken = (f"{file.name}: memory of the card while the run went on",)
    return Imported(taken=taken, missing=_lack_of_card(row, file, monitor))


def _lack_of_card(row: dict[str, Any], file: RunFile, monitor: Monitor) -> tuple[str, ...]:
    """Return why a monitor does not say which card it is, where nothing else does."""
    if "gpu_id" in row["configuration"]:
        return ()
    if monitor.name is None:
        return (f"{file.name}: no card: it has no column name (--set gpu_id=…)",)
    return (f"{file.name}: no card: {monitor.name!r} is none of the catalogue (--set gpu_id=…)",)


def _own_peak(row: dict[str, Any]) -> float:
    """Return the largest peak of one card that the framework itself measured."""
    return max(
        (
            figure["value"]
            for figure in row.get("measurements", ())
            if figure["metric"] == "peak_memory"
            and figure.get("scope", "total") in ("per_gpu", "max_gpu")
        ),
        default=0,
    )
