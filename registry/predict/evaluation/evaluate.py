"""How good the predictions are on sources that the predictor has never seen.

A source is held out whole: its rows, what it calls usual, and what is known of its software. Its
configurations are asked as its tables state them. What they leave open stays open.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from importlib.resources import files
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from registry.contract.resources import parse_yaml
from registry.errors import StoreError
from registry.predict.answer.meant import find_meant
from registry.predict.answer.prediction import (
    DOES_NOT_FIT,
    FITS,
    Prediction,
    bounded,
    chance_of_fitting,
    judge,
)
from registry.predict.calibration.fit_rows import (
    MEMORY,
    TIME,
    UNTOLD,
    USABLE,
    measured_terms,
    memory_rows,
    time_rows,
)
from registry.predict.calibration.gaussian_process import fit
from registry.predict.calibration.intervals import (
    hold_out,
    hold_out_open,
    hold_out_times,
    interval,
    open_quantile,
    reach_of_times,
    score_quantile,
    thin,
)
from registry.predict.calibration.mixture import Interval, widened
from registry.predict.calibration.named import hold_out_named, named_quantile
from registry.predict.calibration.runs import PURPOSES
from registry.predict.calibration.unstated import count_usual, settle
from registry.predict.formula.published import PUBLISHED
from registry.predict.formula.term import total

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from registry.predict.calibration.gaussian_process import Fit, Floats
    from registry.predict.calibration.intervals import HeldOpen
    from registry.predict.calibration.named import HeldNamed
    from registry.predict.calibration.open_question import OpenMixture
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

#: Memory of the cards that each row is judged on, over what was measured: where a verdict matters.
NEAR = (0.7, 0.76, 0.83, 0.91, 1.1, 1.2, 1.31, 1.43)


@dataclass(frozen=True)
class Judged:
    """One figure, what was answered, and what was measured."""

    source: str
    answer: Interval
    measured: float
    observation_id: str = ""
    #: All that the question may mean, where it leaves something open.
    meanings: OpenMixture | None = None

    @property
    def error(self) -> float:
        """Relative error of the answer."""
        return abs(self.answer.value / self.measured - 1)

    @property
    def is_inside(self) -> bool:
        """Whether the interval holds what was measured."""
        return self.answer.low <= self.measured <= self.answer.high

    @cached_property
    def verdicts(self) -> tuple[tuple[bool, str], ...]:
        """Whether it fits, and the verdict, on each of the near cards."""
        return tuple((share >= 1, judge(self._found, self._near(share))) for share in NEAR)

    @cached_property
    def chances(self) -> tuple[tuple[bool, float], ...]:
        """Whether it fits, and the chance that is said, on each of the near cards."""
        return tuple(
            (share >= 1, chance_of_fitting(self._found, self._near(share))) for share in NEAR
        )

    @cached_property
    def _found(self) -> Prediction:
        return Prediction(self.answer, {}, "source", meanings=self.meanings)

    def _near(self, share: float) -> float:
        """Return the bytes of a card of which so many times the measured peak can be used."""
        return share * self.measured / USABLE


@dataclass(frozen=True)
class Score:
    """How good the answers to some rows are; shares are of 1."""

    name: str
    n_rows: int
    median_error: float
    p90_error: float
    #: None for a predictor that has no intervals.
    coverage: float | None = None
    half_width: float | None = None
    #: Shares of the decided verdicts on near cards that are wrong, and of all that are open.
    false_fits: float | None = None
    false_refusals: float | None = None
    undecided: float | None = None


def score(name: str, judged: Sequence[Judged]) -> Score:
    """Return the score of some rows, in which each source has the same weight."""
    weights = _equal_weights([one.source for one in judged])
    errors = np.array([one.error for one in judged])
    found = Score(name, len(judged), *(_quantile(errors, weights, q) for q in (0.5, 0.9)))
    if all(one.answer.low == one.answer.high for one in judged):
        return found
    widths = np.array([one.answer.high / one.answer.value - 1 for one in judged])
    inside = np.array([one.is_inside for one in judged])
    false_fits, false_refusals, undecided = _verdict_shares(judged, weights)
    return replace(
        found,
        coverage=float(inside @ weights),
        half_width=_quantile(widths, weights, 0.5),
        false_fits=false_fits,
        false_refusals=false_refusals,
        undecided=undecided,
    )


def _verdict_shares(judged: Sequence[Judged], weights: Floats) -> tuple[float, float, float]:
    """Return the shares of false fits and false refusals of what is decided, and of the rest."""
    false_fits = false_refusals = decided = 0.0
    for one, weight in zip(judged, weights, strict=True):
        for fits, verdict in one.verdicts:
            share = float(weight) / len(NEAR)
            false_fits += share * (verdict == FITS and not fits)
            false_refusals += share * (verdict == DOES_NOT_FIT and fits)
            decided += share * (verdict in (FITS, DOES_NOT_FIT))
    whole = decided or 1.0
    return false_fits / whole, false_refusals / whole, max(1 - decided, 0.0)


@dataclass(frozen=True)
class Said:
    """What became of the chances of fitting that were said within a band; shares are of 1."""

    #: The sources that are judged, and the band: from so much on, below so much.
    name: str
    low: float
    high: float
    #: Share of all near cards that is in the band, the mean chance said, the share that fits.
    share: float
    mean_chance: float
    fits: float


#: Where the bands of `Said` end.
BANDS = (0.0, 0.05, 0.2, 0.4, 0.6, 0.8, 0.95, 1.0)


def held_against(name: str, judged: Sequence[Judged]) -> Iterator[Said]:
    """Yield how many of the near cards it fits, by the chance that was said."""
    weights = _equal_weights([one.source for one in judged]) / len(NEAR)
    said = np.array([[chance for _, chance in one.chances] for one in judged])
    fits = np.array([[it_fits for it_fits, _ in one.chances] for one in judged], dtype=float)
    each = np.broadcast_to(weights[:, None], said.shape)
    band = np.digitize(said, BANDS[1:-1])
    for number, (low, high) in enumerate(pairwise(BANDS)):
        inside = band == number
        share = float(each[inside].sum())
        if share:
            means = (float(each[inside] @ values[inside]) / share for values in (said, fits))
            yield Said(name, low, high, share, *means)


def _equal_weights(sources: Sequence[str]) -> Floats:
    counts = {source: sources.count(source) for source in dict.fromkeys(sources)}
    return np.array([1 / counts[source] / len(counts) for source in sources])


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the smallest value up to which a share of the weight lies."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weights[order])
    place = min(int(np.searchsorted(reached, share - 1e-9)), len(values) - 1)
    return float(values[order][place])


@lru_cache(maxsize=1)
def held_back() -> frozenset[str]:
    """Return the sources that were kept back while the predictor was made."""
    text = (files("registry.predict.evaluation") / "held_back.yaml").read_text(encoding="utf-8")
    return frozenset(parse_yaml(text))


@dataclass(frozen=True)
class Evaluation:
    """All that is reported, by section of the page."""

    #: Peaks, asked as the sources state them: each source, then those seen and those kept back.
    stated: tuple[Score, ...]
    #: What became of the chances said of the same rows.
    chances: tuple[Said, ...]
    #: The same rows, asked with all settings that are known of the source's software.
    informed: tuple[Score, ...]
    #: Others' formulas on the same rows, and ours without any measured figure.
    peers: tuple[Score, ...]
    #: Asked as the sources state them, their software named: the like held out.
    named: tuple[Score, ...]
    #: Rows held out one by one, the rest of their source known.
    near: tuple[Score, ...]
    #: Times of a step, asked as the sources state them, each source held out.
    time: tuple[Score, ...]
    #: The same, rows held out one by one.
    near_time: tuple[Score, ...]


def evaluate(
    observations: Iterable[ObservedRun], sources: Iterable[str] | None = None
) -> Evaluation:
    """Return the scores of the predictions on all runs of fine-tuning. Takes minutes.

    ``sources`` are those that are held out and judged; all with a measured peak, if left out.
    Scores of some sources alone have intervals that are widened by those alone. Raises StoreError
    where fewer than two sources have a measured peak or a measured time.
    """
    seen = _settled(observations)
    _require_sources(seen)
    memory, time = fit(thin(memory_rows(seen)), MEMORY), fit(thin(time_rows(seen)), TIME)
    wanted = list(sources or _measured_sources(seen))
    stated = _open(hold_out_open(seen, memory, wanted), seen)
    # lengths are no setting of software: those that the peak makes likely stay open
    knowing = [
        replace(
            one, asked=one.learned.changed(stack=None, longest_sample=one.question.longest_sample)
        )
        for one in seen
    ]
    informed = _open(hold_out_open(knowing, memory, wanted), seen)
    rows = [one for one in seen if one.source_id in wanted and one.measured_memory]
    return Evaluation(
        stated=_by_source(stated),
        chances=tuple(
            said for name, rows in _groups(stated).items() for said in held_against(name, rows)
        ),
        informed=_pooled(informed),
        peers=_peers(rows),
        named=_named(seen, memory),
        near=(_near(memory, "one row held out"),),
        time=_time(seen, time),
        near_time=(_without_verdicts(_near(time, "one row held out")),),
    )


def judge_peaks(observations: Iterable[ObservedRun]) -> list[Judged]:
    """Return each measured peak of fine-tuning with what is answered without its source.

    It is asked as the source states it. Takes tens of seconds.
    """
    seen = _settled(observations)
    memory = fit(thin(memory_rows(seen)), MEMORY)
    return _open(hold_out_open(seen, memory, _measured_sources(seen)), seen)


def _settled(observations: Iterable[ObservedRun]) -> list[ObservedRun]:
    given = [one for one in observations if one.purpose == PURPOSES[0]]
    return settle(given, count_usual(given))


def _require_sources(seen: Sequence[ObservedRun]) -> None:
    measured = {
        "peak": {one.source_id for one in seen if one.measured_memory},
        "time": {one.source_id for one in seen if one.measured_time},
    }
    for figure, sources in measured.items():
        if len(sources) < 2:  # noqa: PLR2004 - one is held out
            raise StoreError(
                f"found {len(sources)} sources with a measured {figure} of fine-tuning; expected "
                "at least two, since each is predicted from the others; evaluate a registry with "
                "the curated records, or add observations"
            )


def _measured_sources(seen: Iterable[ObservedRun]) -> list[str]:
    return list(dict.fromkeys(one.source_id for one in seen if one.measured_memory))


def _open(held: Sequence[HeldOpen], seen: Iterable[ObservedRun]) -> list[Judged]:
    """Return the answers, each widened by the scores of all sources but its own.

    None is below what leaner runs of other sources took, as in the product.
    """
    folds = dict.fromkeys((one.group, one.seen.source_id) for one in held)
    by = {(group, source): open_quantile(held, group, source) for group, source in folds}
    measured = defaultdict(list)
    for one in seen:
        if one.measured_memory:
            measured[one.question.model.shape].append(one)

    def answer(one: HeldOpen, asked: Question) -> Interval:
        figure = widened(one.plain, by[one.group, one.seen.source_id])
        alike = measured[asked.model.shape]
        others = [other for other in alike if other.source_id != one.seen.source_id]
        found = Prediction(figure, {}, "source", meanings=one.meanings)
        return bounded(found, asked, others, find_meant(asked, others)).figure

    return [
        Judged(
            one.seen.source_id,
            answer(one, one.seen.asked),
            one.seen.peak_bytes or 0.0,
            one.seen.observation_id,
            one.meanings,
        )
        for one in held
        if one.seen.asked is not None
    ]


def _by_source(judged: Sequence[Judged]) -> tuple[Score, ...]:
    sources = sorted({one.source for one in judged}, key=lambda name: (name in held_back(), name))
    each = [score(name, [one for one in judged if one.source == name]) for name in sources]
    return (*each, *_pooled(judged))


def _pooled(judged: Sequence[Judged]) -> tuple[Score, ...]:
    return tuple(score(name, rows) for name, rows in _groups(judged).items())


def _groups(judged: Sequence[Judged]) -> dict[str, list[Judged]]:
    groups = {
        "all sources": list(judged),
        "seen while it was made": [one for one in judged if one.source not in held_back()],
        "kept back": [one for one in judged if one.source in held_back()],
    }
    return {name: rows for name, rows in groups.items() if rows}


def _peers(rows: Sequence[ObservedRun]) -> tuple[Score, ...]:
    """Return the scores of formulas that know no measured figure, on what the sources state."""

    def judged(of: Callable[[Question, str | None], float]) -> list[Judged]:
        asked = [(one, of(one.asked or one.question, one.memory_kind)) for one in rows]
        return [
            Judged(one.source_id, Interval(value, value, value), one.peak_bytes or 0.0)
            for one, value in asked
        ]

    ours = score("our formula alone", judged(lambda *asked: total(measured_terms(*asked))))
    return (
        ours,
        *(
            score(name, judged(lambda question, _, of=of: of(question)))  # type: ignore[misc]
            for name, of in PUBLISHED.items()
        ),
    )


def _named(seen: Sequence[ObservedRun], fitted: Fit) -> tuple[Score, ...]:
    held = hold_out_named(seen, fitted, count_usual(seen))
    names = {"model": "all runs of a model held out", "row": "a fifth of the runs held out"}
    folds = dict.fromkeys((one.nearness, str(one.stack), one.fold) for one in held)
    by = {fold: named_quantile(held, *fold) for fold in folds}

    def judged(one: HeldNamed) -> Judged:
        figure = widened(one.plain, by[one.nearness, str(one.stack), one.fold])
        return Judged(str(one.stack), figure, one.seen.peak_bytes or 0.0, meanings=one.meanings)

    return tuple(
        score(name, rows)
        for near, name in names.items()
        if (rows := [judged(one) for one in held if one.nearness == near])
    )


def _near(fitted: Fit, name: str) -> Score:
    held = hold_out(fitted, "row")
    reach = score_quantile(held, "row")
    judged = [
        Judged(
            str(one.row.groups["stack"]),
            interval(one.mean, one.deviation, reach),
            one.row.value,
        )
        for one in held
        if one.nearness == "row"
    ]
    return score(name, judged)


def _time(seen: Sequence[ObservedRun], fitted: Fit) -> tuple[Score, ...]:
    """Return the scores of times, each source asked as it states its runs and widened by others."""
    held = hold_out_times(seen, fitted)
    kinds = [(one.fold, one.spread) for one in held]
    reach = {kind: reach_of_times(held, kind[1], besides=kind[0]) for kind in {*kinds}}
    judged = [
        Judged(str(one.fold), interval(one.mean, one.deviation, reach[kind]), one.row.value)
        for kind, one in zip(kinds, held, strict=True)
    ]
    told = {
        name: [one for (_, spread), one in zip(kinds, judged, strict=True) if spread == kind]
        for name, kind in (("lengths stated", ""), ("lengths not stated", UNTOLD))
    }
    pooled = [score(name, rows) for name, rows in told.items() if rows]
    return tuple(map(_without_verdicts, (*_by_source(judged), *pooled)))


def _without_verdicts(found: Score) -> Score:
    return replace(found, false_fits=None, false_refusals=None, undecided=None)
