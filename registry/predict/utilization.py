"""How much of a card's dense peak a measured run used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.predict.formula.flops import Flops, count_flops

if TYPE_CHECKING:
    from registry.api import Registry
    from registry.predict.question import Question


@dataclass(frozen=True)
class Utilization:
    """Operations of one token, tokens a second of one card, and their share of its peak."""

    flops: Flops
    tokens_per_second_per_gpu: float
    peak_flops: float
    #: Forward and backward operations over the peak (Chowdhery et al. 2022, PaLM, appendix B).
    model: float
    #: With what checkpointing computes twice; None where checkpointing is not recorded.
    hardware: float | None


def utilize(question: Question, *, tokens: float, rate: float, peak_flops: float) -> Utilization:
    """Return what share of a card's peak a rate is.

    ``tokens`` are those of a sample, ``rate`` is in tokens per second of one card, ``peak_flops``
    its dense peak.
    """
    counted = count_flops(question.changed(micro_batch_size=1), tokens)
    passes = (counted.forward, counted.backward, counted.recompute)
    flops = Flops(*(part / tokens for part in passes))
    stated = question.gradient_checkpointing is not None
    hardware = flops.hardware * rate / peak_flops if stated else None
    return Utilization(flops, rate, peak_flops, flops.model * rate / peak_flops, hardware)


#: The observations that begin with an id, each with its row of the view, whose columns are null
#: where the figures give no utilization.
_FOUND = """
select r.observation_id, r.flags, u.* exclude (observation_id)
from results as r
left join utilization as u using (observation_id)
where starts_with(observation_id, $id)
"""


def read_utilization(registry: Registry, observation_id: str) -> dict[str, Any] | None:
    """Return the row of the view ``utilization``, with ``flags``, by an id or the beginning of it.

    None where the observation's figures do not say. Raises QuestionError for an id that none has
    or several have.
    """
    rows = registry.query(_FOUND, id=observation_id).rows()
    if len(rows) != 1:
        raise QuestionError(
            f"observation {observation_id!r}: found {len(rows)} observations; expected one; list "
            "them with `registry ls`"
        )
    return None if rows[0]["model_flops_utilization"] is None else rows[0]
