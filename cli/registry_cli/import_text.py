"""Observations of a submission as text, each figure beside the cell it was read from."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.submission.spec import part_spec
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterator


#: What is shown of an observation beside its outcome, settings and figures.
_SHOWN = ("evidence", "run_id", "outcome_detail", "flags")


def format_observations(submission: dict[str, Any]) -> Iterator[str]:
    """Yield lines that show each observation: its places, settings, outcome, figures and cells."""
    for observation in submission["observations"]:
        yield from _format_observation(observation)


def _format_observation(observation: dict[str, Any]) -> Iterator[str]:
    places = "; ".join(citation["locator"] for citation in observation["citations"])
    settings = observation["configuration"] | observation.get("environment", {})
    listed = ", ".join(f"{name}={_format(value)}" for name, value in settings.items())
    yield f"{places}: {observation['outcome']}"
    yield f"    {listed}"
    said = [f"{name}={_format(observation[name])}" for name in _SHOWN if name in observation]
    if said:
        yield f"    {', '.join(said)}"
    defaults = part_spec().nested["observations"].part.nested["measurements"].part.defaults
    for figure in observation.get("measurements", ()):
        yield f"    {_format_figure(defaults | figure)}"
    for citation in observation["citations"]:
        cells = citation.get("cells", {})
        if cells:
            yield "    cells: " + " | ".join(f"{name}: {text!r}" for name, text in cells.items())


def _format(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _format_figure(figure: dict[str, Any]) -> str:
    value = figure["value"]
    shown = format_memory(int(value)) if figure.get("kind") else f"{value:.10g}"
    device = figure.get("device_index")
    whose = figure["scope"] if device is None else f"card {device}"
    said = [figure["statistic"], whose, figure.get("kind")]
    unit = figure.get("unit_reported")
    raw = f" from {figure['raw']!r}" if "raw" in figure else ""  # a log's number is the figure
    read = raw + (f" in {unit}" if raw and unit else "")
    reason = f"; {figure['reason']}" if figure.get("reason") else ""
    return f"{figure['metric']} = {shown} ({', '.join(filter(None, said))}){read}{reason}"
