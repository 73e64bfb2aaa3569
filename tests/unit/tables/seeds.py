"""Find observations of the seed sources, and their figures."""

from __future__ import annotations

from typing import Any

Observation = dict[str, Any]
Seeds = dict[str, list[Observation]]


def select(observations: list[Observation], **wanted: Any) -> list[Observation]:
    """Return observations whose configuration holds these values; None is not stated."""
    return [
        observation
        for observation in observations
        if all(observation["configuration"].get(name) == value for name, value in wanted.items())
    ]


def the(observations: list[Observation], **wanted: Any) -> Observation:
    """Return the one observation whose configuration holds these values."""
    (found,) = select(observations, **wanted)
    return found


def cited(observations: list[Observation], locator: str) -> list[Observation]:
    """Return the observations that one place of the document reports."""
    return [
        observation
        for observation in observations
        if locator in {citation["locator"] for citation in observation["citations"]}
    ]


def figure(observation: Observation, metric: str, **wanted: Any) -> dict[str, Any]:
    """Return the one measurement of a metric, among those with these values."""
    (found,) = (
        measurement
        for measurement in observation["measurements"]
        if measurement["metric"] == metric
        and all(measurement.get(name) == value for name, value in wanted.items())
    )
    return dict(found)
