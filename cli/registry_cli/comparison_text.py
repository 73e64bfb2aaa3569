"""Comparisons as people read them: as text, and as Markdown for a pull request."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from registry.comparison.configurations import Compared
    from registry.measure.ratios import Ratio
    from registry.measure.releases import Change

    #: How much slower, and how much larger, B may be than A; the second is the first where None.
    Factors = tuple[float, float | None]


def format_compared(compared: Compared) -> Iterator[str]:
    """Yield the lines of one comparison; a failure stands in the first."""
    label = compared.label
    yield f"{compared.regression.upper()}: {label}" if compared.regression else label
    yield f"  a {_format_runs(compared.a)}   b {_format_runs(compared.b)}"
    if compared.time is not None:
        yield f"  time    b / a = {_format_ratio(compared.time)}"
    if compared.memory is not None:
        yield f"  memory  b / a = {_format_ratio(compared.memory)}"
    for metric, (a, b) in compared.totals.items():
        yield f"  {metric}: {a:.6g} s and {b:.6g} s, b / a = {b / a:.3f}"
    if compared.note:
        yield f"  note    {compared.note}"


def _format_runs(ids: tuple[str, ...]) -> str:
    if not ids:
        return "none that ended well"
    return ids[0] if len(ids) == 1 else f"{ids[0]} and {len(ids) - 1} more"


def _format_ratio(ratio: Ratio) -> str:
    text = f"{ratio.value:.3f}"
    if ratio.low is not None and ratio.high is not None and ratio.confidence is not None:
        text += f"  ({ratio.confidence:.0%} interval {ratio.low:.3f} to {ratio.high:.3f}"
        text += f", {ratio.n_a} and {ratio.n_b} runs)"
    details = ", ".join(word for word in (ratio.metric, ratio.note) if word)
    return f"{text}  [{details}]" if details else text


def format_verdict(found: Sequence[Compared], factors: Factors) -> str:
    """Return the verdict in a line."""
    n_worse = sum(compared.exceeds(*factors) for compared in found)
    verb = "is" if n_worse <= 1 else "are"
    time, memory = factors
    by = f"a factor of {time:g}"
    if memory not in (None, time):
        by += f" in time or {memory:g} in memory"
    return f"{n_worse or 'none'} of {len(found)} {verb} worse by more than {by}"


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
    yield "| configuration | outcome | time b / a | memory b / a | runs a, b |"
    yield "| --- | --- | --- | --- | --- |"
    for compared in found:
        yield f"| {' | '.join(_format_cells(compared, factors))} |"
    if changes:
        yield ""
        yield f"What differs: {'; '.join(_escape(str(change)) for change in changes)}."
    for remark in remarks:
        yield ""
        yield f"Note: {_escape(remark)}."


def _format_cells(compared: Compared, factors: Factors) -> Iterator[str]:
    time_factor, memory_factor = factors
    yield _escape(compared.label)
    yield f"**{_escape(compared.regression)}**" if compared.regression else "ok"
    yield _format_cell(compared.time, time_factor)
    yield _format_cell(compared.memory, memory_factor or time_factor)
    yield f"{len(compared.a)}, {len(compared.b)}"


def _format_cell(ratio: Ratio | None, factor: float) -> str:
    if ratio is None:
        return ""
    text = f"{ratio.value:.3f}"
    if ratio.low is not None and ratio.high is not None:
        text += f" ({ratio.low:.3f} to {ratio.high:.3f})"
    return f"**{text}**" if ratio.exceeds(factor) else text


def _escape(text: str) -> str:
    """Return a text that Markdown shows as it is: names come from files that others wrote."""
    for mark in r"\`*_[]<>|":
        text = text.replace(mark, f"\\{mark}")
    return text
