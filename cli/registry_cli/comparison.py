"""Compare observations pair by pair, and show the ratios."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QueryError, SourceError
from registry.measure.ratios import Ratio, compare_memory, compare_observations, find_figure

if TYPE_CHECKING:
    from collections.abc import Iterator

Row = dict[str, Any]

#: Columns that identify a configuration for people.
_TELLING = ("model_id", "method", "quant_bits", "lora_rank", "seq_len", "micro_batch_size")

_ID_DIGITS = 12


@dataclass(frozen=True)
class Compared:
    """One configuration on both sides."""

    label: str
    a: str
    b: str
    time: Ratio | None
    memory: Ratio | None
    #: Run times of a and b in seconds, by metric.
    totals: dict[str, tuple[float, float]]
    note: str = ""

    def exceeds(self, factor: float) -> bool:
        """Return whether b is slower or larger than a by more than the factor."""
        ratios = (ratio for ratio in (self.time, self.memory) if ratio is not None)
        return any(ratio.exceeds(factor) for ratio in ratios)


def compare_sides(side_a: list[Row], side_b: list[Row]) -> list[Compared]:
    """Return the comparison of each configuration that both sides have.

    Two single observations are compared whatever their configurations. Of several observations of
    one configuration the samples are pooled. Raises QueryError where nothing is shared.
    """
    if len(side_a) == 1 and len(side_b) == 1:
        a, b = side_a[0], side_b[0]
        return [_compared(a, b, note=_difference(a, b))]
    pooled_a, pooled_b = _pooled(side_a), _pooled(side_b)
    shared = [key for key in pooled_a if key in pooled_b]
    if not shared:
        raise QueryError(
            f"{len(side_a)} and {len(side_b)} observations share no configuration; expected the "
            "same configuration on both sides; compare two single observations by their ids"
        )
    return [_compared(pooled_a[key], pooled_b[key]) for key in shared]


def _pooled(side: list[Row]) -> dict[str, Row]:
    """Return one observation per configuration: the last that ended well, all their samples."""
    pooled: dict[str, Row] = {}
    for row in side:
        if row["outcome"] != "ok":
            continue
        key = row["configuration"]["configuration_id"]
        samples = [*pooled.get(key, {}).get("samples", []), *row.get("samples", [])]
        pooled[key] = {**row, "samples": samples}
    return pooled


def _compared(a: Row, b: Row, note: str = "") -> Compared:
    try:
        time = compare_observations(a, b)
    except SourceError as error:
        time, note = None, f"{note}; {error}".removeprefix("; ")
    return Compared(
        label=format_label(a["configuration"]),
        a=a["observation_id"][:_ID_DIGITS],
        b=b["observation_id"][:_ID_DIGITS],
        time=time,
        memory=compare_memory(a, b),
        totals=_totals(a, b),
        note=note,
    )


def _totals(a: Row, b: Row) -> dict[str, tuple[float, float]]:
    found = {
        metric: (find_figure(a, metric), find_figure(b, metric))
        for metric in ("train_time", "total_time")
    }
    return {metric: (x, y) for metric, (x, y) in found.items() if x and y}


def _difference(a: Row, b: Row) -> str:
    first, second = a["configuration"], b["configuration"]
    names = sorted(
        name
        for name in first.keys() | second.keys()
        if name != "configuration_id" and first.get(name) != second.get(name)
    )
    return f"configurations differ in {', '.join(names)}" if names else ""


def format_label(configuration: Row) -> str:
    """Return a short description of a configuration."""
    return " ".join(
        f"{name.removesuffix('_id')}={configuration[name]}"
        for name in _TELLING
        if name in configuration
    )


def format_compared(compared: Compared) -> Iterator[str]:
    """Yield the lines of one comparison."""
    yield compared.label
    yield f"  a {compared.a}   b {compared.b}"
    if compared.time is not None:
        yield f"  time    b / a = {_format_ratio(compared.time)}"
    if compared.memory is not None:
        yield f"  memory  b / a = {_format_ratio(compared.memory)}"
    for metric, (a, b) in compared.totals.items():
        yield f"  {metric}: {a:.6g} s and {b:.6g} s, b / a = {b / a:.3f}"
    if compared.note:
        yield f"  note    {compared.note}"


def _format_ratio(ratio: Ratio) -> str:
    text = f"{ratio.value:.3f}"
    if ratio.low is not None and ratio.high is not None and ratio.confidence is not None:
        text += f"  ({ratio.confidence:.0%} interval {ratio.low:.3f} to {ratio.high:.3f}"
        text += f", {ratio.n_a} and {ratio.n_b} samples)"
    details = ", ".join(word for word in (ratio.metric, ratio.note) if word)
    return f"{text}  [{details}]" if details else text
