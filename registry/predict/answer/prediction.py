"""The peak and the time of one configuration, by part and with their intervals."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TYPE_CHECKING

from registry.predict.answer.leaner import (
    agrees_with_peak,
    find_ceiling,
    find_floor,
    list_as_learned,
    list_as_stated,
)
from registry.predict.answer.meant import are_one_kind, find_meant, holding
from registry.predict.calibration.fit_rows import USABLE, memory_row, moment_rows, time_row
from registry.predict.calibration.mixture import COVERAGE, widened
from registry.predict.calibration.open_question import Learned, group_of, mix
from registry.predict.calibration.unstated import open_settings
from registry.predict.formula.peak_memory import PARTS
from registry.predict.formula.step_time import has_known_speed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.predict.answer.leaner import Bound, Run
    from registry.predict.answer.meant import Meant
    from registry.predict.calibration.fit_rows import FitRow
    from registry.predict.calibration.intervals import Calibrated, Calibration
    from registry.predict.calibration.mixture import Interval
    from registry.predict.calibration.open_question import OpenMixture
    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

#: Verdicts on a card.
FITS, DOES_NOT_FIT, UNDECIDED = "fits", "does not fit", "undecided"
#: Chance of needing more from which on nothing is said to fit: what an interval leaves above it.
SURPRISE = (1 - COVERAGE) / 2
#: What a prediction rests on, by how near the nearest measured run is.
PREDICTORS = {
    "row": "nearest observation and the formula's difference",
    "model": "formula, calibrated on other models with the same software",
    "source": "formula, widened by errors on other software, over what the question leaves open",
    "dry run": "dry run on fake tensors, with the formula's interval",
    "dry run alone": "dry run on fake tensors, with the interval of dry runs compared with a card",
}
_EXECUTED = ("dry run", "dry run alone")


@dataclass(frozen=True)
class Prediction:
    """A figure with its 90 % interval, and what it is the sum of."""

    figure: Interval
    #: What the formula gives for each part, and what calibration adds, under ``calibration``.
    parts: Mapping[str, float]
    nearness: str
    #: The measured run that raised the figure, where it was raised.
    floor: ObservedRun | None = None
    #: The measured run that lowered it, where it was lowered.
    ceiling: ObservedRun | None = None
    #: Runs that the question may mean, to which the ends of the interval reach, where they do.
    least: ObservedRun | None = None
    most: ObservedRun | None = None
    #: All that the question may mean, each with its answer; None where it leaves nothing open.
    meanings: OpenMixture | None = None

    @property
    def predictor(self) -> str:
        """The predictor that answered, in words."""
        return PREDICTORS[self.nearness]

    def chance_above(self, n_bytes: float) -> float:
        """Return how likely what the question may mean needs more; 0 if nothing is left open."""
        return 0.0 if self.meanings is None else 1 - self.meanings.mixture.below(n_bytes)

    @cached_property
    def enough(self) -> float:
        """Bytes from which on it fits: the upper end, or more where meanings left out need it.

        Intervals are as wide as they have to be to hold what was measured, and may leave out a
        meaning that is not unlikely.
        """
        high = self.figure.high
        if self.meanings is None or self.chance_above(high) <= SURPRISE:
            return high
        return max(high, self.meanings.mixture.quantile(1 - SURPRISE))


def predict_memory(question: Question, calibration: Calibration) -> Prediction:
    """Return the peak of one device, in bytes, held against what was measured (`bounded`)."""
    found = predict_unbounded(question, calibration)
    measured = calibration.measured_of(question.model)
    return bounded(found, question, measured, find_meant(question, measured))


def bounded(
    found: Prediction, question: Question, measured: Sequence[ObservedRun], meant: Meant
) -> Prediction:
    """Return the prediction, held against what was measured.

    No less than what leaner runs took, its interval as wide as the runs that the question may mean.
    ``measured`` are runs with a peak of models of its shape, ``meant`` those of `find_meant`.
    """
    return holding(_within(found, question, measured), meant, question.gpu)


def _within(found: Prediction, question: Question, measured: Sequence[ObservedRun]) -> Prediction:
    """Return the prediction, no less than what leaner runs took and no more than heavier ones.

    For a question that leaves settings open, such a run was on the same kind of card or stack,
    and does not bound the lower end from below. Lengths of samples are no such setting: runs are
    taken as filled, as most are.
    """
    left = {*open_settings(question)} - {"longest_sample"}
    if not left or found.meanings is None:
        runs = list_as_stated(question, measured)
        return raise_to_floor(_lowered(found, question, runs), question, runs)
    alike = measured
    if question.stack is None:
        alike = [one for one in measured if are_one_kind(one.question.gpu, question.gpu)]
    if not alike:
        return found
    meant = found.meanings.plausible[0].question.changed(gpu=question.gpu, stack=question.stack)
    runs = list_as_learned(meant, alike)
    above = [run for run in runs if question.stack is not None or agrees_with_peak(run[1])]
    below = _lowered(found, meant, above)
    floor = find_floor(meant, runs, below.figure.value)
    return below if floor is None else _raised(below, floor, below.figure.low)


def predict_unbounded(question: Question, calibration: Calibration) -> Prediction:
    """Return the peak of one device, in bytes, whatever leaner runs took."""
    parts = dict.fromkeys(PARTS, 0.0)
    executed = calibration.executed
    own = None if executed is None else executed.own_of(question)
    if own is not None:
        return Prediction(own, _parts_of(memory_row(question), own, parts), "dry run alone")
    if question.stack is not None:
        return _executed(_predict_on_stack(question, calibration, parts), calibration)
    mixed = mix_of(question, calibration).scaled(calibration.factor)
    figure = widened(mixed.plain, calibration.memory.reach["open"][group_of(question)])
    row = memory_row(mixed.plausible[0].question)
    nearness = "source" if executed is None else "dry run"
    return Prediction(figure, _parts_of(row, figure, parts), nearness, meanings=mixed)


def mix_of(question: Question, calibration: Calibration, *, cases: bool = False) -> OpenMixture:
    """Return the answers to all that a question may mean; ``cases`` as in `complete`."""
    memory, usual = calibration.memory, calibration.usual_on(question.stack)
    return mix(question, Learned(memory.fit, usual, calibration.stacks), cases=cases)


def _predict_on_stack(
    question: Question, calibration: Calibration, parts: dict[str, float]
) -> Prediction:
    """Return the peak on a stack that is named: over what its runs and others make plausible."""
    memory = calibration.memory
    if not open_settings(question):
        return _predict(moment_rows(question), memory, parts)
    mixed = mix_of(question, calibration)
    row = memory_row(mixed.plausible[0].question)
    nearness = memory.nearness(row)
    if nearness == "source":
        figure = widened(mixed.plain, memory.reach["open"][group_of(question)])
    else:
        figure = widened(mixed.around(COVERAGE), memory.reach_named(row))
    return Prediction(figure, _parts_of(row, figure, parts), nearness, meanings=mixed)


def raise_to_floor(found: Prediction, question: Question, runs: Sequence[Run]) -> Prediction:
    """Return the prediction, all of it no less than what a run took that asked for no more."""
    floor = find_floor(question, runs, found.figure.low)
    return found if floor is None else _raised(found, floor, max(found.figure.low, floor.bytes))


def moved(
    found: Prediction, least: float = 0.0, most: float = inf, highest: float = inf
) -> Prediction:
    """Return the prediction within what a run proves, in bytes.

    All of it is at least ``least``, its figure at most ``most``, its upper end at most ``highest``.
    """
    figure = found.figure
    value = min(max(figure.value, least), most)
    low = min(max(figure.low, least), value)
    high = max(min(figure.high, highest), value)
    return replace(
        _shifted(found, type(figure)(value, low, high)),
        least=found.least if low == figure.low else None,
        most=found.most if high == figure.high else None,
    )


def _shifted(found: Prediction, figure: Interval) -> Prediction:
    """Return the prediction with another figure; the parts add up to it."""
    more = figure.value - found.figure.value
    parts = {**found.parts, "calibration": found.parts.get("calibration", 0.0) + more}
    return replace(found, figure=figure, parts=parts)


def _lowered(found: Prediction, question: Question, runs: Sequence[Run]) -> Prediction:
    """Return the prediction with its figure no more than what a run took that asked for no less.

    Its upper end moves with it. What a dry run of the question itself says stays.
    """
    figure = found.figure
    ceiling = find_ceiling(question, runs, figure.value)
    if ceiling is None or ceiling.bytes >= figure.value or found.nearness in _EXECUTED:
        return found
    value = ceiling.bytes
    lowered = type(figure)(value, min(figure.low, value), figure.high * value / figure.value)
    return replace(_shifted(found, lowered), ceiling=ceiling.run)


def _raised(found: Prediction, floor: Bound, low: float) -> Prediction:
    """Return the prediction with its figure no less than a floor; its upper end moves with it."""
    figure = found.figure
    if low <= figure.low and floor.bytes <= figure.value:
        return found
    value = max(figure.value, floor.bytes)
    raised = type(figure)(value, low, figure.high * value / figure.value)
    ceiling = found.ceiling if value == figure.value else None
    return replace(_shifted(found, raised), floor=floor.run, ceiling=ceiling)


def predict_time(question: Question, calibration: Calibration) -> Prediction:
    """Return the seconds of one micro-batch of one device, the optimizer's share included.

    On the user's own stack where none is named and his own runs were timed (`OwnTimes`).
    """
    return _predict([time_row(calibration.own_times.meaning(question))], calibration.time, {})


def _predict(rows: Sequence[FitRow], calibrated: Calibrated, parts: dict[str, float]) -> Prediction:
    row, figure = calibrated.predict_highest(rows)
    return Prediction(figure, _parts_of(row, figure, parts), calibrated.nearness(row))


def _parts_of(row: FitRow, figure: Interval, parts: dict[str, float]) -> dict[str, float]:
    for term in row.terms:
        parts[term.part] = parts.get(term.part, 0.0) + term.value
    parts["calibration"] = figure.value - row.formula
    return parts


def _executed(found: Prediction, calibration: Calibration) -> Prediction:
    if calibration.executed is None:
        return found
    scaled = _shifted(found, _scaled(found.figure, calibration.factor))
    mixed = found.meanings and found.meanings.scaled(calibration.factor)
    return replace(scaled, nearness="dry run", meanings=mixed)


def judge(found: Prediction, capacity_bytes: float) -> str:
    """Return the verdict on a card: decided where all of the interval is on one side of its memory.

    It does not fit for certain where a meaning that is not unlikely needs more. A process gets at
    most 98 % of what the driver shows.
    """
    usable = USABLE * capacity_bytes
    if usable >= found.enough:
        return FITS
    return DOES_NOT_FIT if found.figure.low > usable else UNDECIDED


def chance_of_fitting(found: Prediction, capacity_bytes: float) -> float:
    """Return how likely it fits a card, from 0 to 1.

    At least 95 % exactly where `judge` says that it fits, below 5 % where it says that it does not.
    """
    return replace(found.figure, high=found.enough).below(USABLE * capacity_bytes)


@dataclass(frozen=True)
class Cost:
    """Time and money of a run, each with its 90 % interval as (low, high)."""

    seconds_per_step: Interval
    seconds_per_epoch: Interval | None
    gpu_hours: Interval | None
    #: In the currency of the price.
    price: Interval | None


def estimate_cost(
    question: Question,
    calibration: Calibration,
    *,
    n_samples: int | None = None,
    n_epochs: float = 1.0,
    price_per_gpu_hour: float | None = None,
) -> Cost:
    """Return what a run takes: seconds per optimizer step, per epoch, GPU-hours, money.

    ``n_samples`` are those of an epoch; without them only the step is known.
    """
    batch = predict_time(question, calibration).figure
    step = _scaled(batch, question.setting("grad_accum_steps"))
    if n_samples is None:
        return Cost(step, None, None, None)
    epoch = _scaled(batch, n_samples / _samples_at_a_time(question))
    hours = _scaled(epoch, n_epochs * question.n_gpus / 3600)
    money = None if price_per_gpu_hour is None else _scaled(hours, price_per_gpu_hour)
    return Cost(step, epoch, hours, money)


def _samples_at_a_time(question: Question) -> float:
    """Return how many samples all cards together train on in the time of a micro-batch."""
    parallel = 1 if question.sharding == "device_map" else question.n_gpus
    return question.samples_per_sequence * question.micro_batch_size * parallel


def predict_samples(
    questions: Sequence[Question], calibration: Calibration
) -> list[Interval | None]:
    """Return the seconds of a sample, all cards together; None where the speed is not known."""
    own = calibration.own_times
    rows = [time_row(own.meaning(one)) for one in questions if has_known_speed(one)]
    batches = iter(calibration.time.predict_many(rows) if rows else ())
    return [
        _scaled(next(batches), 1 / _samples_at_a_time(one)) if has_known_speed(one) else None
        for one in questions
    ]


def _scaled(figure: Interval, factor: float) -> Interval:
    return type(figure)(figure.value * factor, figure.low * factor, figure.high * factor)
