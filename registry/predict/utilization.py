"""How much of a card's dense peak a measured run used."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.predict.calibration.runs import read_runs_sql
from registry.predict.formula.flops import Flops, count_flops
from registry.predict.question import question_of

if TYPE_CHECKING:
    from collections.abc import Mapping

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


def utilization_of(row: Mapping[str, Any]) -> Utilization | None:
    """Return the utilization of a row of ``runs.sql``; None where its figures do not say.

    What is needed: tokens per second (or samples per second of filled sequences), the model's
    shape, the card's peak. Operations of the adapters themselves count where their parameters are
    stated. The view ``utilization`` computes the same.
    """
    rate = _tokens_per_second(row)
    if rate is None or row.get("n_gpus") is None or row.get("gpu_id") is None:
        return None
    trainable = row.get("trainable_params")
    # what is multiplied with does not depend on how weights and an optimizer's states are kept,
    # and all but full training differ in how many parameters are trained alone
    method = "full" if row.get("method") == "full" else "lora"
    counts = {"trainable_params": trainable or 0, "gpu_id": None, "quant_bits": None}
    counts |= {"method": method, "optimizer": None}
    question = question_of({**row, **counts})
    if trainable is None and row.get("trains_embeddings"):
        embeddings = question.model.embedding_params
        question = question.changed(trainable_params=embeddings)
    length, peak = _tokens_per_sample(row), _peak(row)
    if length is None or peak is None:
        return None
    found = utilize(question, tokens=length, rate=rate / row["n_gpus"], peak_flops=peak)
    if row.get("compute_dtype") is None and 1 < found.model <= _fastest_peak(row) / peak:
        return None  # more than its 16-bit peak: it was not computed in 16 bits
    return found


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


def _samples_per_second(row: Mapping[str, Any]) -> float | None:
    if row.get("samples_per_second") is not None:
        return float(row["samples_per_second"])
    if row.get("global_batch_size") and row.get("seconds_per_step"):
        return float(row["global_batch_size"]) / float(row["seconds_per_step"])
    return None


def _tokens_per_second(row: Mapping[str, Any]) -> float | None:
    if row.get("tokens_per_second") is not None:
        return float(row["tokens_per_second"])
    samples = _samples_per_second(row)
    if samples is None or row.get("length_distribution") != "full" or not row.get("seq_len"):
        return None
    return samples * float(row["seq_len"])


def _tokens_per_sample(row: Mapping[str, Any]) -> float | None:
    tokens, samples = row.get("tokens_per_second"), _samples_per_second(row)
    if tokens is None or samples is None:
        return float(row["seq_len"]) if row.get("seq_len") else None
    each = float(tokens) / samples
    return min(each, float(row["seq_len"])) if row.get("seq_len") else each


def _peak(row: Mapping[str, Any]) -> float | None:
    dtype = row.get("compute_dtype")
    if dtype is not None:
        known: float | None = row.get(f"peak_flops_{dtype}")
        return known
    return row.get("peak_flops_bf16") or row.get("peak_flops_fp16")


def _fastest_peak(row: Mapping[str, Any]) -> float:
    names = [*(f"peak_flops_{d}" for d in ("fp32", "tf32", "fp16", "bf16", "fp8")), "peak_ops_int8"]
    return max(float(row.get(name) or 0) for name in names)


def read_utilization(registry: Registry, observation_id: str) -> Utilization | None:
    """Return the utilization of one observation, by its id or the beginning of it.

    None where its figures do not say. Raises QuestionError for an id that no measured run has.
    """
    wanted = f"from ({read_runs_sql()}) where starts_with(observation_id, $id)"
    rows = registry.query(wanted, id=observation_id).rows()
    if len(rows) != 1:
        raise QuestionError(
            f"observation {observation_id!r}: found {len(rows)} runs; expected one; list them with "
            "`registry ls`"
        )
    return utilization_of(rows[0])
