"""The registry's observations as predictions need them: a question and what was measured."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from math import erf, exp, log, sqrt
from typing import TYPE_CHECKING, Any

from registry.contract.resources import parse_yaml
from registry.errors import QuestionError, did_you_mean
from registry.predict.calibration.fit_rows import measured_terms
from registry.predict.formula.peak_memory import total
from registry.predict.question import Question, question_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from registry.api import Registry

#: Tokens of a sample: mean and deviation, where the data set's publisher states them.
#: cls-fudan-news-zh: ms-swift's table of data sets, counted with Qwen's tokenizer.
TOKENS_OF_DATASETS = {"cls-fudan-news-zh": (3234.4, 2547.5)}


@dataclass(frozen=True)
class ObservedRun:
    """One measured run."""

    observation_id: str
    source_id: str
    outcome: str
    evidence: str
    question: Question
    #: Peak of the fullest device, in bytes; the mean where only the total is known.
    peak_bytes: float | None = None
    #: Seconds of one micro-batch on one device, the optimizer's share included.
    seconds: float | None = None
    #: Memory of each card that the run was allowed to use, where that is less than all.
    memory_limit_bytes: int | None = None
    memory_kind: str | None = None
    framework: str | None = None
    #: What was trained for: see `PURPOSES`.
    purpose: str = "fine-tuning"
    #: The question as the source states it, without what is known of its software; for judging.
    asked: Question | None = field(default=None, compare=False)
    #: Settings that nobody states, as its figures make them likeliest; for learning.
    settled: Mapping[str, Any] | None = None
    #: Settings that its record leaves open, and that are known of its software or its source.
    known_of_source: tuple[str, ...] = ()

    @cached_property
    def learned(self) -> Question:
        """The question with the settings that it is learned from."""
        return self.question.changed(**self.settled) if self.settled else self.question

    @cached_property
    def formula_bytes(self) -> float:
        """The peak that the formula gives it, of the kind of memory that was measured."""
        return total(measured_terms(self.learned, self.memory_kind))

    @property
    def measured_memory(self) -> bool:
        """Whether it has a measured peak."""
        return self.outcome == "ok" and self.evidence == "measured" and self.peak_bytes is not None

    @property
    def measured_time(self) -> bool:
        """Whether it has a measured time."""
        return self.outcome == "ok" and self.evidence == "measured" and self.seconds is not None


def read_observations(registry: Registry, source_id: str | None = None) -> list[ObservedRun]:
    """Return the runs of a registry that ended well or ran out of memory, in the order of ids.

    Those of one source, where it is named. Runs of models whose shape is not known are left out.
    Raises QueryError, StoreError.
    """
    chosen: dict[str, Any] = {} if source_id is None else {"source_id": source_id}
    one = " where source_id = $source_id" if chosen else ""
    runs = registry.query(f"from ({read_runs_sql()}){one} order by observation_id", **chosen)
    gpus = {row["gpu_id"]: row for row in registry.query("from gpus").rows()}
    return collect_observations(runs.rows(), gpus)


def read_runs_sql() -> str:
    """Return the query of the observations that predictions need."""
    return (files("registry.predict.calibration") / "runs.sql").read_text(encoding="utf-8")


def collect_observations(
    rows: Iterable[Mapping[str, Any]], gpus: Mapping[str, Mapping[str, Any]]
) -> list[ObservedRun]:
    """Return the observations of rows of ``runs.sql`` whose model's shape is known."""
    found = []
    for row in rows:
        try:
            found.append(observation_of(row, gpus))
        except QuestionError:
            continue
    return found


def observation_of(row: Mapping[str, Any], gpus: Mapping[str, Mapping[str, Any]]) -> ObservedRun:
    """Return one observation; raise QuestionError where its model's shape is not known."""
    full = _with_stack(row, gpus)
    question = question_of(full)
    missing = [name for name in _SIZES if full.get(name) is None]
    if missing:
        raise QuestionError(f"{row['observation_id']}: found no {', '.join(missing)}")
    asked = replace(question_of({**row, "mean_tokens": _mean_tokens(row)}), stack=None)
    return ObservedRun(
        observation_id=row["observation_id"],
        source_id=row["source_id"],
        outcome=row["outcome"],
        evidence=row["evidence"],
        question=question,
        peak_bytes=_peak(full, question),
        seconds=_seconds(full, question),
        memory_limit_bytes=row.get("memory_limit_bytes"),
        memory_kind=row.get("memory_kind"),
        framework=row.get("framework"),
        purpose=_purpose(row),
        asked=asked,
        known_of_source=tuple(
            one.name
            for one in fields(Question)
            if one.name != "stack"
            and getattr(asked, one.name) is None
            and getattr(question, one.name) is not None
        ),
    )


#: What a run must state to be compared with a prediction.
_SIZES = ("seq_len", "micro_batch_size")

#: Purposes that are judged apart: only the first is what people ask about.
PURPOSES = ("fine-tuning", "encoder", "pretraining")

#: Families of models that read in both directions: no causal language models.
_ENCODERS = frozenset(
    {"bert", "roberta", "distilbert", "albert", "electra", "deberta", "transformer-xl", "vit"}
)


def _purpose(row: Mapping[str, Any]) -> str:
    if row.get("is_finetuning") is False:
        return "pretraining"
    return "encoder" if row.get("family") in _ENCODERS else "fine-tuning"


def _with_stack(row: Mapping[str, Any], gpus: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Return the row with what is known of its source's software where it says nothing itself."""
    full = dict(row)
    for entry in _stacks():
        if entry["source_id"] == row["source_id"] and _holds(entry["when"], row):
            for name, value in entry["set"].items():
                if full.get(name) is None or value == "eager":
                    full[name] = value
    if row.get("gpu_id") is None and full.get("gpu_id"):
        full.update(gpus.get(full["gpu_id"], {}))
    full["mean_tokens"] = full.get("mean_tokens") or _mean_tokens(full)
    return full


def _mean_tokens(row: Mapping[str, Any]) -> float | None:
    """Return the mean tokens of a sample: of the data set, else as the two rates have it."""
    known = TOKENS_OF_DATASETS.get(row.get("dataset") or "")
    if known and row.get("seq_len"):
        return mean_tokens_below(row["seq_len"], *known)
    tokens, samples = row.get("tokens_per_second"), row.get("samples_per_second")
    return float(tokens) / float(samples) if tokens and samples else None


def _holds(when: Mapping[str, Any], row: Mapping[str, Any]) -> bool:
    return all(row.get(name) == value for name, value in when.items())


@lru_cache(maxsize=1)
def _stacks() -> list[dict[str, Any]]:
    text = (files("registry.predict.calibration") / "stacks.yaml").read_text(encoding="utf-8")
    entries: list[dict[str, Any]] = parse_yaml(text)
    return entries


def mean_tokens_below(limit: float, mean: float, deviation: float) -> float:
    """Return the mean length of samples that are cut at ``limit``, lengths being lognormal.

    Formula: E[min(X, c)] of a lognormal X.
    """
    variance = log(1 + (deviation / mean) ** 2)
    location, spread = log(mean) - variance / 2, sqrt(variance)

    def below(x: float) -> float:
        return 0.5 * (1 + erf(x / sqrt(2)))

    cut = (log(limit) - location) / spread
    return exp(location + variance / 2) * below(cut - spread) + limit * (1 - below(cut))


def _peak(row: Mapping[str, Any], question: Question) -> float | None:
    if row.get("peak_memory_bytes_per_gpu") is not None:
        return float(row["peak_memory_bytes_per_gpu"])
    if row.get("peak_memory_bytes") is not None:
        return float(row["peak_memory_bytes"]) / question.n_gpus
    return None


def _seconds(row: Mapping[str, Any], question: Question) -> float | None:
    step = _seconds_per_step(row)
    if step is not None and row.get("grad_accum_steps"):
        return step / float(row["grad_accum_steps"])
    each = _seconds_per_sample(row) or _seconds_per_sequence(row, question)
    if each is None:
        return None
    data_parallel = 1 if question.sharding == "device_map" else question.n_gpus
    return each * question.micro_batch_size * data_parallel


def _seconds_per_step(row: Mapping[str, Any]) -> float | None:
    if row.get("seconds_per_step") is not None:
        return float(row["seconds_per_step"])
    if row.get("total_seconds") and row.get("n_steps"):
        return float(row["total_seconds"]) / float(row["n_steps"])
    return None


def _seconds_per_sample(row: Mapping[str, Any]) -> float | None:
    """Return seconds per sample over all devices: of the run's total, whose figure is finer.

    A run of so many steps need not have seen the whole data set.
    """
    if row.get("total_seconds") and row.get("n_samples") and not row.get("n_steps"):
        return float(row["total_seconds"]) / float(row["n_samples"])
    if row.get("samples_per_second"):
        return 1 / float(row["samples_per_second"])
    return None


def _seconds_per_sequence(row: Mapping[str, Any], question: Question) -> float | None:
    """Return seconds per sequence over all devices, of the tokens of sequences that are filled."""
    if not question.is_filled or not row.get("tokens_per_second"):
        return None
    return question.seq_len / float(row["tokens_per_second"])


def resolve_stack(name: str, observations: Iterable[ObservedRun]) -> str:
    """Return the source whose measurements stand for a source or framework of this name.

    Of several sources of one framework, the one with the most runs. Raises QuestionError for a
    name that nothing was measured of.
    """
    seen = [one for one in observations if one.measured_memory or one.measured_time]
    sources = Counter(one.source_id for one in seen)
    if name in sources:
        return name
    named = Counter(one.source_id for one in seen if one.framework == name)
    if named:
        return named.most_common(1)[0][0]
    known = sorted({*sources, *(one.framework for one in seen if one.framework)})
    raise QuestionError(
        f"stack: found {name!r}{did_you_mean(name, known)}; expected a source or framework that "
        f"was measured: {', '.join(known)}"
    )
