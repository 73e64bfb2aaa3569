"""Comparisons as people read them: as text, and as Markdown for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.comparison.configurations import MISSING
from registry.comparison.verdicts import judge
from registry.measure.ratios import format_times

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.comparison.configurations import Compared
    from registry.comparison.verdicts import Factors, Judgement
    from registry.measure.ratios import Ratio
    from registry.measure.releases import Change


#: What a step time does not see: pauses between steps, evaluation, saving.
_NOT_JUDGED = "median of each side, not judged"


def format_compared(compared: Compared, factors: Factors | None = None) -> Iterator[str]:
    """Yield the lines of one comparison, a failure in the first, with factors its verdict last."""
    label = compared.label
    yield f"{compared.regression.upper()}: {label}" if compared.regression else label
    yield f"  a {_format_runs(compared.a)}   b {_format_runs(compared.b)}"
    if compared.time is not None:
        yield f"  time    b / a = {_format_ratio(compared.time)}"
    if compared.memory is not None:
        yield f"  memory  b / a = {_format_ratio(compared.memory)}"
    for metric, (a, b) in compared.totals.items():
        yield f"  {metric}: {a:.6g} s and {b:.6g} s, b / a = {format_times(b / a)}  [{_NOT_JUDGED}]"
    for text in (compared.note, *compared.remarks, *_list_failed(compared)):
        if text:
            yield f"  note    {text}"
    if factors is not None:
        yield f"  verdict {_format_judged(judge(compared, factors))}"


def _list_failed(compared: Compared) -> Iterator[str]:
    """Yield which runs of each side failed, by their ids."""
    for name, ids in (("a", compared.failed_a), ("b", compared.failed_b)):
        if ids:
            yield f"failed in {name}: {_format_runs(ids)}"


def _format_judged(judged: Judgement) -> str:
    details = ", ".join(judged.why)
    return f"{judged.verdict}: {details}" if details else judged.verdict


def _format_runs(ids: tuple[str, ...]) -> str:
    if not ids:
        return "none that succeeded"
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def _format_ratio(ratio: Ratio) -> str:
    text = format_times(ratio.value)
    if ratio.low is not None and ratio.high is not None and ratio.confidence is not None:
        low, high = format_times(ratio.low), format_times(ratio.high)
        text += f"  ({ratio.confidence:.0%} interval {low} to {high}"
        text += f", {ratio.n_a} and {ratio.n_b} runs)"
    details = ", ".join(word for word in (ratio.metric, ratio.note) if word)
    return f"{text}  [{details}]" if details else text


#: How both sides of a comparison get an interval.
_RUN_AGAIN = "run both sides again: an interval needs two runs on each"


def format_verdict(
    found: Sequence[Compared], factors: Factors, *, for_an_interval: str = _RUN_AGAIN
) -> str:
    """Return the verdict in a line: how many are worse, are not, and cannot be told.

    Where an interval is missing, it ends with what to do ``for_an_interval``.
    """
    judged = [judge(compared, factors) for compared in found]
    n_worse, n_untold, n_fine = (
        sum(each.verdict == verdict for each in judged)
        for verdict in ("worse", "cannot be told", "not worse")
    )
    by = f"worse by more than {_format_factors(factors)}"
    if n_worse:
        untold = f"; {n_untold} cannot be told" if n_untold else ""
        worse = _format_worse(found, judged, by)
        return f"{n_worse} of {len(found)} {_be(n_worse)} {worse}{untold}"
    if not n_untold:
        return f"not worse: none of {len(found)} is {by}"
    they = "it is" if n_untold == 1 else "they are"
    fine = f"; {n_fine} {_be(n_fine)} not worse" if n_fine else ""
    return f"cannot be told for {n_untold} of {len(found)} whether {they} {by}{fine}" + _way_out(
        judged, for_an_interval
    )


def _format_worse(found: Sequence[Compared], judged: Sequence[Judgement], by: str) -> str:
    """Return in what they are worse; each counts once, by its failure where it has one."""
    worse = [one for one, each in zip(found, judged, strict=True) if each.verdict == "worse"]
    n_missing = sum(compared.regression == MISSING for compared in worse)
    n_by = sum(not compared.regression for compared in worse)
    n_failed = len(worse) - n_missing - n_by
    if n_by == len(worse):
        return by
    kinds = (
        (n_failed, "fails" if n_failed == 1 else "fail"),
        (n_missing, f"{_be(n_missing)} missing"),
        (n_by, f"{_be(n_by)} {by}"),
    )
    told = [f"{'it' if len(worse) == 1 else n} {what}" for n, what in kinds if n]
    return f"worse: {', '.join(told)}"


def _be(n: int) -> str:
    return "is" if n == 1 else "are"


def _format_factors(factors: Factors) -> str:
    time, memory = factors
    by = f"a factor of {time:g}"
    return by if memory in (None, time) else f"{by} in time or {memory:g} in memory"


def _way_out(judged: Sequence[Judgement], for_an_interval: str) -> str:
    """Return what makes a verdict possible where runs are too few or differ too much."""
    reasons = [reason for each in judged for reason in each.reasons]
    if any("no interval" in reason for reason in reasons):
        return f"; {for_an_interval}"
    if any("may be" in reason for reason in reasons):
        return "; more alternating runs make intervals narrower"
    return ""


def format_markdown(
    found: Sequence[Compared],
    *,
    names: tuple[str, str],
    factors: Factors,
    changes: Sequence[Change] = (),
    remarks: Sequence[str] = (),
) -> Iterator[str]:
    """Yield the lines of a summary in Markdown; what is worse is set in bold."""
    a, b = (_escape(name) for name in names)
    yield f"### Training: {a} → {b}"
    yield ""
    verdict = format_verdict(found, factors)
    yield f"**{verdict[0].upper()}{verdict[1:]}.**"
    yield ""
    yield "| configuration | outcome | time b / a | memory b / a | runs a, b | verdict |"
    yield "| --- | --- | --- | --- | --- | --- |"
    for compared in found:
        yield f"| {' | '.join(_format_cells(compared, factors))} |"
    if changes:
        yield ""
        yield f"What differs: {'; '.join(_escape(str(change)) for change in changes)}."
    for remark in remarks:
        yield ""
        yield f"Note: {_escape(remark)}."
    notes = [(each.label, "; ".join(_list_notes(each))) for each in found]
    if any(text for _, text in notes):
        yield ""
        yield from (f"- {_escape(f'{label}: {text}')}." for label, text in notes if text)


def _list_notes(compared: Compared) -> Iterator[str]:
    """Yield what the table has no column for."""
    for metric, (a, b) in compared.totals.items():
        yield f"{metric} {a:.4g} s and {b:.4g} s, b / a = {format_times(b / a)} ({_NOT_JUDGED})"
    yield from filter(None, (compared.note, *compared.remarks))


def _format_cells(compared: Compared, factors: Factors) -> Iterator[str]:
    judged = judge(compared, factors)
    yield _escape(compared.label)
    yield f"**{_escape(compared.regression)}**" if compared.regression else _outcome(compared)
    yield _format_cell(compared.time, is_worse="time" in judged.worse_in)
    yield _format_cell(compared.memory, is_worse="memory" in judged.worse_in)
    yield f"{len(compared.a)}, {len(compared.b)}"
    yield _escape(_format_judged(judged))


def _outcome(compared: Compared) -> str:
    return "ok" if compared.b else "fails"


def _format_cell(ratio: Ratio | None, *, is_worse: bool) -> str:
    if ratio is None:
        return ""
    text = format_times(ratio.value)
    if ratio.low is not None and ratio.high is not None:
        text += f" ({format_times(ratio.low)} to {format_times(ratio.high)})"
    return f"**{text}**" if is_worse else text


def format_nothing(names: tuple[str, str], reason: str) -> Iterator[str]:
    """Yield the lines of a summary in Markdown where nothing could be compared."""
    a, b = map(_escape, names)
    yield f"### Training: {a} → {b}"
    yield ""
    yield f"**Nothing could be compared:** {_escape(reason)}."


def _escape(text: str) -> str:
    """Return a text that Markdown shows as it is: names come from files that others wrote."""
    for mark in r"\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text
