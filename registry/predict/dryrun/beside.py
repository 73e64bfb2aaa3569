"""Dry runs beside measured trials of the same job: how far dry runs were off.

``trials.csv`` holds the dry run's figure of each trial that ``python -m benchmarks.dry_run_trials
--write`` executed; what was measured stands in the records alone. Loads no torch.
"""

from __future__ import annotations

import csv
import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING

from registry.predict.calibration.quantiles import equal_quantile

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from registry.predict.calibration.runs import ObservedRun

#: The framework of the trials: transformers' Trainer, as ``registry run`` starts it.
FRAMEWORK = "transformers"
FILE_NAME = "trials.csv"


@dataclass(frozen=True)
class ExecutedTrial:
    """A measured trial with its dry run; bytes that the allocator held."""

    model_id: str
    measured: float
    executed: float

    @property
    def score(self) -> float:
        """Logarithmic error of the dry run, without its sign."""
        return abs(math.log(self.measured / self.executed))


@lru_cache(maxsize=1)
def read_executed() -> Mapping[str, int]:
    """Return what dry runs said, in bytes, by the id of the observation they stand beside."""
    text = (files("registry.predict.dryrun") / FILE_NAME).read_text(encoding="utf-8")
    rows = csv.DictReader(text.splitlines())
    return {row["observation_id"]: int(row["peak_reserved_bytes"]) for row in rows}


def collect_trials(observations: Iterable[ObservedRun]) -> list[ExecutedTrial]:
    """Return the trials among observations that a dry run stands beside."""
    executed = read_executed()
    return [
        ExecutedTrial(
            one.question.model.model_id, one.peak_bytes or 0.0, executed[one.observation_id]
        )
        for one in observations
        if one.observation_id in executed and one.measured_memory and one.memory_kind == "reserved"
    ]


def reach_of(trials: Sequence[ExecutedTrial]) -> float:
    """Return how far the 90 % interval of a dry run reaches, in logarithms.

    As intervals of open questions do (`equal_quantile`); each model counts the same.
    """
    return equal_quantile([(one.score, one.model_id) for one in trials])
