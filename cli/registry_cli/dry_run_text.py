"""What ``registry add --dry-run`` would record: a line of 80 columns for each observation."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from registry.submission.derive import fill_configuration
from registry.text import format_count
from registry.units import format_duration, format_memory

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    Row = dict[str, Any]

_WIDTH: Final = 80
#: Most observations that are shown of a submission; --json has all.
_MOST_LINES: Final = 20

#: Kinds of memory, and statistics of a peak and of a typical sample, in the order of `results`.
_KINDS: Final = ("device", "reserved", "active", "allocated", "unknown", "host_rss")
_PEAKS: Final = ("max", "value")
_TYPICAL: Final = ("median", "value", "mean")
#: Figures of speed, the first of which that an observation has is shown, and what is behind it.
_SPEEDS: Final = {
    "step_time": "/step",
    "samples_per_second": " samples/s",
    "tokens_per_second": " tokens/s",
    "steps_per_second": " steps/s",
    "total_time": "",
}


def format_dry_run(observations: Sequence[Row]) -> Iterator[str]:
    """Yield a line for each observation, and how many more there are."""
    for observation in islice(observations, _MOST_LINES):
        yield _join([*_parts(observation)])
    if len(observations) > _MOST_LINES:
        more = format_count(len(observations) - _MOST_LINES, "more observation")
        yield f"  … and {more} (--json shows them all)"


def _join(parts: Sequence[str]) -> str:
    """Return a line of as many parts as fit, and what is left out said so; no name is cut."""
    lines = [
        f"  {', '.join(parts[:n])}{', …' if n < len(parts) else ''}"
        for n in range(1, len(parts) + 1)
    ]
    fitting = [line for line in lines if len(line) <= _WIDTH]
    return fitting[-1] if fitting else lines[0]


def _parts(observation: Row) -> Iterator[str]:
    """Yield what is told of an observation, the most telling first, as a line may be cut off."""
    configuration, figures = dict(observation["configuration"]), observation.get("measurements", ())
    fill_configuration(configuration)
    yield f"{observation['outcome']}: {configuration['model_id']} {_format_method(configuration)}"
    yield _format_cards(configuration)
    if figures:
        yield _format_peak(figures, configuration.get("n_gpus")) or "no memory"
        yield _format_speed(figures) or "no speed"
    sizes = _format_sizes(configuration)
    yield from [sizes] if sizes else []


def _format_method(configuration: Row) -> str:
    said = [configuration["method"]]
    said += [f"r{configuration['lora_rank']}"] if "lora_rank" in configuration else []
    said += [f"{configuration['quant_bits']}-bit"] if "quant_bits" in configuration else []
    return " ".join(said)


def _format_sizes(configuration: Row) -> str | None:
    """Return the samples of a micro-batch and the longest of them in tokens."""
    batch, length = (configuration.get(name) for name in ("micro_batch_size", "seq_len"))
    if batch and length:
        return f"{batch}x{length}"
    if length:
        return f"length {length}"
    return f"batch {batch}" if batch else None


def _format_cards(configuration: Row) -> str:
    gpu, n_gpus = configuration.get("gpu_id"), configuration.get("n_gpus")
    if gpu is None:
        return format_count(n_gpus, "unnamed card") if n_gpus else "card not stated"
    return gpu if n_gpus in (1, None) else f"{n_gpus}x {gpu}"


def _format_peak(figures: Sequence[Row], n_gpus: int | None) -> str | None:
    """Return the peak of the fullest card, else the mean, else that of all; of the first kind."""
    peaks = [
        figure
        for figure in figures
        if figure["metric"] == "peak_memory" and figure["statistic"] in _PEAKS
    ]
    if not peaks:
        return None
    kind = min((figure["kind"] for figure in peaks), key=_KINDS.index)
    found = min((figure for figure in peaks if figure["kind"] == kind), key=_place_peak)
    kind = "" if kind == "unknown" else f" {kind}"
    of_all = " in all" if found["scope"] == "total" and n_gpus != 1 else ""
    return f"{format_memory(int(found['value']))}{kind}{of_all}"


def _place_peak(figure: Row) -> tuple[int, int, float]:
    """Return the place of a peak: the fullest of single cards, then their mean, then the total."""
    scope, statistic = figure["scope"], figure["statistic"]
    if scope in ("per_gpu", "max_gpu"):
        return 0, 0, -figure["value"]
    return 1 if scope == "mean_gpu" else 2, _PEAKS.index(statistic), 0


def _format_speed(figures: Sequence[Row]) -> str | None:
    for metric, behind in _SPEEDS.items():
        typical = [
            figure
            for figure in figures
            if figure["metric"] == metric and figure["statistic"] in _TYPICAL
        ]
        if typical:
            found = min(typical, key=_place_speed)
            is_time = metric.endswith("_time")
            value = format_duration(found["value"]) if is_time else f"{found['value']:.4g}"
            return f"{value}{behind}{'' if found['scope'] == 'total' else ' per GPU'}"
    return None


def _place_speed(figure: Row) -> tuple[bool, int]:
    """Return the place of a speed: that of all cards first, then the most typical statistic."""
    return figure["scope"] != "total", _TYPICAL.index(figure["statistic"])
