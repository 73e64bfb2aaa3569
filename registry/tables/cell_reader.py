"""Read one cell as its column's meaning says: values, outcome words, and the texts of figures."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from registry.errors import UnitError, did_you_mean, excerpt
from registry.reading.patterns import compile_pattern
from registry.tables.column_spec import FORM_PARTS
from registry.tables.inline import plain_text
from registry.tables.values import Stated, parse_cell_value, target_column
from registry.units import (
    OutcomeWord,
    find_failure,
    is_cut,
    parse_outcome_word,
    split_card_list,
    split_cell,
    split_glued,
    split_remark,
    strip_markup,
)
from registry.units.known import rate_units_by_spelling, units_by_spelling
from registry.units.number import NUMBER

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from registry.reading.patterns import PatternMatch
    from registry.tables.column_spec import ColumnSpec, FigureSpec, LabelSpec, PatternSpec
    from registry.tables.values import Values

#: Most characters of a text that a message shows: whole names, to be copied into the mapping.
_LONGEST_TEXT = 200

_REFERENCE = re.compile(r"\\([0-9])")

#: What a column called ``is_oom`` says of a run that ran out of memory.
_TRUE = ("yes", "true", "1", "\u2713", "\u2714", "\u2705", "x")
#: A mark right behind a word, with nothing but a bracket or white space behind it.
_MARK_BEHIND_WORD = re.compile(
    r"(?<=[^\W_])(?:\*{1,3}|[\u2020\u2021\u00a7\u00b6])(?=[\s(\[\uff08,]|$)"
)
#: Words of other languages for what is estimated or expected.
ESTIMATED_ABROAD = "估算|估计|预估|预计|预期|理论|見積|推定|추정|gesch[aä]tzt"
#: What nobody measured; "measured, not estimated" is no such text.
_ESTIMATE = re.compile(
    r"(?i)(?<!not )(?<!no )\b(?:est\.|(?:estimat(?:ed?|es|ion)|theoretical(?:ly)?|calculated|"
    r"predict(?:ed|ion)|projected|extrapolated|simulated)\b)"
    rf"|{ESTIMATED_ABROAD}|預估|estim[eé]e?\b|estimad[oa]\b"
)
_IS = re.compile(r"(?i)^(?:is|was|has|had|did|hit) ")

#: Words behind an amount that only say that it is of a card's memory.
_OF_A_CARD = re.compile(
    r"(?i)(?<=[^\W\d_])(\+?)\s+(?:of\s+)?(?:vram|gpu (?:ram|mem(?:ory)?)|显存|видеопамяти)$"
)
#: A figure with its unit, and the words behind it.
_WORDS_BEHIND = re.compile(
    rf"(?P<text>[^\w\s]?\s*{NUMBER}\s*(?P<unit>[^\W\d_]+(?:/[^\W\d_]+)*)),?\s+"
    r"(?P<remark>(?!per\b)[^\W\d_][^\d()/]*)"
)
#: What an observation says that fits and has no figure.
FITS = {
    "outcome": Stated("ok"),
    "outcome_detail": Stated("it fits; the source gives no figure"),
}


@dataclass(frozen=True)
class FigureText:
    """The text of one figure before it is read: what it measures, its remark, whose card's it is.

    ``column`` is the header it stands under, ``where`` the place for messages, ``written`` the text
    as it stands in the document where that has another decimal mark.
    """

    figure: FigureSpec
    text: str
    column: str
    where: str
    remark: str | None = None
    device_index: int | None = None
    written: str | None = None


@dataclass
class FigureCell:
    """What a cell of figures holds: their texts, values said beside them, and footnote marks."""

    texts: list[FigureText] = field(default_factory=list)
    values: Values = field(default_factory=dict)
    footnotes: list[str] = field(default_factory=list)


def bare_text(cell: str) -> str:
    """Return a cell's text without markup and footnote marks."""
    return strip_markup(plain_text(cell)).text


def footnote_of(cell: str) -> str | None:
    """Return the footnote mark of a cell, or None."""
    return strip_markup(plain_text(cell)).footnote


def marks_of_column(name: str) -> tuple[str, ...]:
    """Return the footnote marks in a column's name, behind any of its words.

    >>> marks_of_column("LoRA* (GiB)"), marks_of_column("7B** memory"), marks_of_column("2*A100")
    (('*',), ('**',), ())
    """
    last = footnote_of(name)
    marks = [found[0] for found in _MARK_BEHIND_WORD.finditer(plain_text(name))]
    return tuple(dict.fromkeys([*marks, *([] if last is None else [last])]))


def texts_of(cell: str) -> tuple[str, ...]:
    """Return the ways in which a mapping may name a cell: as written, without markup, or marks."""
    return (cell.strip(), plain_text(cell), bare_text(cell))


def read_values(cell: str, spec: LabelSpec, absent: Collection[str] = (), *, where: str) -> Values:
    """Return the values that a cell of a column of values states; none for an absent one.

    Raises:
        UnitError: the mapping gives the text no meaning, or it is none of the column's type.
    """
    for known in texts_of(cell):
        if known in spec.values:
            return spec.value_of(known)
    text = bare_text(cell)
    said = match_pattern(text, spec.patterns, where=where, k_is=spec.k_is)
    if said is not None:
        return said
    if is_absent(cell, absent):
        return {}
    if spec.to is None or spec.values:
        raise UnitError(
            f"{where}: found {excerpt(text, _LONGEST_TEXT)}, expected a text that the mapping "
            f"gives a meaning{did_you_mean(text, spec.values)}{_listed(spec)}"
        )
    try:
        return {spec.to: parse_cell_value(spec.to, text, where=where, k_is=spec.k_is)}
    except UnitError as error:
        raise _with_way_to_an_outcome(error, text) from error


def _with_way_to_an_outcome(error: UnitError, text: str) -> UnitError:
    """Return the error of a setting's cell; of one that says how a run ended, with the way out."""
    outcome = parse_outcome_word(text).outcome
    if outcome is None:
        return error
    said = f"{{pattern: {re.escape(text)}, set: {{outcome: {outcome}}}}}"
    return UnitError(f"{error}; where it says how the row's run ended: `patterns: [{said}]`")


def match_pattern(
    text: str,
    patterns: Sequence[PatternSpec],
    *,
    where: str,
    k_is: int | None = None,
    anywhere: bool = False,
) -> Values | None:
    """Return what the first pattern says that fits a text, or some part of it; None for none."""
    for pattern in patterns:
        compiled = compile_pattern(pattern.pattern)
        match = compiled.search(text) if anywhere else compiled.fullmatch(text)
        if match:
            return {
                name: _expand(name, stated, match, where=where, k_is=k_is)
                for name, stated in pattern.set.items()
            }
    return None


def _listed(spec: LabelSpec) -> str:
    known = [*spec.values, *(pattern.pattern for pattern in spec.patterns)]
    return f": one of {', '.join(repr(text) for text in known)}"


def _expand(
    name: str, stated: Stated, match: PatternMatch, *, where: str, k_is: int | None
) -> Stated:
    """Put the groups of a match into one of a pattern's values."""

    def fill(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        return _REFERENCE.sub(lambda reference: match[int(reference[1])] or "", text)

    if isinstance(stated.value, list | dict):
        return Stated(_fill_all(stated.value, fill), stated.because)
    if isinstance(stated.value, str) and _REFERENCE.search(stated.value):
        if target_column(name).type == "list<string>":
            return Stated([fill(stated.value)], stated.because)
        value = parse_cell_value(name, fill(stated.value), where=where, k_is=k_is).value
        return Stated(value, stated.because)
    return stated


def _fill_all(value: Any, fill: Callable[[Any], Any]) -> Any:
    """Return a list or table with each of its texts filled in, however deep."""
    if isinstance(value, list):
        return [_fill_all(item, fill) for item in value]
    if isinstance(value, dict):
        return {name: _fill_all(item, fill) for name, item in value.items()}
    return fill(value)


def is_absent(cell: str, absent: Collection[str]) -> bool:
    """Return whether a cell says nothing: empty, or a mark that says so."""
    text = bare_text(cell)
    return text in absent or parse_outcome_word(text).kind == "absent"


def read_failure(column: str, cell: str) -> OutcomeWord | None:
    """Return what a cell of any column says of a run that failed, None for nothing.

    The outcome is open where a longer text speaks of a failure: it may be about another run.
    """
    text = bare_text(cell)
    named = parse_outcome_word(_IS.sub("", column.replace("_", " ")).strip(" ?"))
    word = named if text.lower() in _TRUE else parse_outcome_word(text)
    if word.outcome in ("oom", "error"):
        return replace(word, raw=text)
    return None if find_failure(text) is None else OutcomeWord("other", None, text)


def find_estimate(cell: str) -> str | None:
    """Return the words of a cell of any column by which nobody measured its row; None for none.

    >>> find_estimate("calculated, see below"), find_estimate("measured, not estimated")
    ('calculated', None)
    """
    found = _ESTIMATE.search(bare_text(cell))
    return None if found is None else found[0]


def read_outcome(
    cell: str, spec: ColumnSpec, absent: Collection[str], *, where: str
) -> Values | None:
    """Return what a cell of figures says in the place of figures; None where it holds figures.

    A remark in parentheses behind a word says what it says behind a figure.

    Raises:
        UnitError: the mapping gives the remark no meaning.
    """
    said = _read_word(cell, spec, absent)
    if said is None and spec.parts:
        return _read_words_of_parts(cell, spec, absent, where=where)
    word, remark = split_remark(bare_text(cell))
    if said is not None or remark is None or _has_form(bare_text(cell), spec):
        return said
    said = _read_word(word, spec, absent)
    if said is None:
        return None
    beside = match_pattern(remark, spec.remarks, where=where, k_is=spec.k_is)
    if beside is None:
        raise UnitError(
            f"{where}: found the remark {remark!r} behind {word!r}, expected its meaning under "
            "`remarks` of the column; write `set: {}` there if it changes nothing"
        )
    return {**said, **beside}


def _read_words_of_parts(
    cell: str, spec: ColumnSpec, absent: Collection[str], *, where: str
) -> Values | None:
    """Return what the parts of a cell say of which none is a figure, such as ``OOM / -``."""
    try:
        parts = _split_parts(bare_text(cell), spec, where=where)
    except UnitError:  # of a cell of figures, it is raised where these are read
        return None
    values: Values = {}
    for part in parts:
        said = _read_word(part, spec, absent)
        if said is None:
            return None
        for name, stated in said.items():
            _state(values, name, stated, where)
    return values


def _split_parts(text: str, spec: ColumnSpec, *, where: str) -> tuple[str, ...]:
    return split_cell(text, len(spec.parts), where=where, separator=spec.separator)


def _read_word(text: str, spec: ColumnSpec, absent: Collection[str]) -> Values | None:
    for known in texts_of(text):
        if known in spec.words:
            return spec.words[known]
    if is_absent(text, (*absent, *spec.absent)):
        return {}
    word = parse_outcome_word(bare_text(text))
    if word.kind == "no_oom":
        return dict(FITS)
    return None if word.outcome is None else {"outcome": Stated(word.outcome)}


def _has_form(text: str, spec: ColumnSpec) -> bool:
    forms = (form for figure in spec.figures for form in figure.form)
    return any(compile_pattern(form).fullmatch(text) for form in forms)


def read_figure_cell(
    cells: Mapping[str, str], column: str, spec: ColumnSpec, n_gpus: int | None, *, where: str
) -> FigureCell:
    """Return the figures of a cell as texts, with what else it says.

    Raises:
        UnitError: the text does not have the form that the mapping expects of it.
    """
    marked = strip_markup(plain_text(cells[column]))
    found = FigureCell(footnotes=[marked.footnote] if marked.footnote else [])
    figures = _figures_of(cells, spec, where=where)
    texts = _split_parts(marked.text, spec, where=where) if spec.parts else (marked.text,)
    for text, figure in zip(texts, figures, strict=True):
        word = _read_word(text, spec, ()) if spec.parts else None
        for name, stated in (word or {}).items():
            _state(found.values, name, stated, where)
        if word is not None:  # the part holds no figure
            continue
        for index, card in _split_cards(text, spec, n_gpus, found, where=where):
            place = where if index is None else f"{where}, card {index}"
            found.texts.append(
                _take_apart(
                    card, figure, spec, found=found, column=column, index=index, where=place
                )
            )
    return found


def _figures_of(cells: Mapping[str, str], spec: ColumnSpec, *, where: str) -> list[FigureSpec]:
    """Return the figures of a cell, in order."""
    if spec.figures_by is None:
        return spec.figures
    names = spec.figures_by.figures
    text = cells.get(spec.figures_by.column, "")
    known = next((known for known in texts_of(text) if known in names), None)
    if known is None:
        raise UnitError(
            f"{where}: found {text!r} in column {spec.figures_by.column!r}, expected one of "
            f"{', '.join(names)}{did_you_mean(text, names)}"
        )
    return [names[known]]


def _split_cards(
    text: str, spec: ColumnSpec, n_gpus: int | None, found: FigureCell, *, where: str
) -> list[tuple[int | None, str]]:
    """Return the text of each card with its number, or the one text of all together."""
    cards: Sequence[str] = ()
    if spec.card_list:
        cards = split_card_list(text, where=where)
        if n_gpus not in (None, 1, len(cards)):  # 1 is what is usual where a cell lists none
            raise UnitError(
                f"{where}: found {excerpt(text, _LONGEST_TEXT)}, a list of {len(cards)}, of a run "
                f"on {n_gpus} cards; expected the figure of each card; correct the number of "
                "cards, or read the column without `card_list`, as a total or of one card (`scope`)"
            )
        _state(found.values, "n_gpus", Stated(len(cards), "the cell lists so many cards"), where)
    elif (n_gpus or 1) > 1 and spec.cards is not None:
        cards = split_glued(text, n_gpus or 1, where=where, pattern=spec.cards)
    elif (n_gpus or 1) > 1 and spec.cards_separator is not None:
        cards = split_cell(text, n_gpus or 1, where=where, separator=spec.cards_separator)
    return list(enumerate(cards)) if len(cards) > 1 else [(None, cards[0] if cards else text)]


def _take_apart(  # noqa: PLR0913 - the text, what it means, and where it stands
    text: str,
    figure: FigureSpec,
    spec: ColumnSpec,
    *,
    found: FigureCell,
    column: str,
    index: int | None,
    where: str,
) -> FigureText:
    """Return a figure's text without what stands around it; that goes into ``found``."""
    text, remark = _apply_form(text, figure, found, where)
    if remark is None:
        text, remark = _split_unit_or_remark(text, figure)
    if remark is not None:
        said = match_pattern(remark, spec.remarks, where=where, k_is=spec.k_is)
        for name, stated in (said or {}).items():
            _state(found.values, name, stated, where)
        remark = remark if said is None else None
    device = figure.device_index if index is None else index
    return FigureText(figure, text, column, where, remark, device)


def _split_unit_or_remark(text: str, figure: FigureSpec) -> tuple[str, str | None]:
    """Split a remark off a figure; a unit in parentheses is the figure's own.

    Words behind a unit are a remark too, but those that only call memory the card's.
    """
    bare, remark = split_remark(text)
    if remark is not None and any(
        remark in units_by_spelling(dimension) for dimension in ("memory", "duration")
    ):
        return f"{bare} {remark}", None
    if figure.canonical_unit == "byte":
        bare = _OF_A_CARD.sub(r"\1", bare)
    words = _WORDS_BEHIND.fullmatch(bare) if remark is None else None
    if words is None or is_cut(bare, 0, words.end("text")):
        return bare, remark
    is_known = words["unit"] in _units_of(figure.canonical_unit)
    return (words["text"], words["remark"]) if is_known else (bare, remark)


@lru_cache(maxsize=16)
def _units_of(canonical: str) -> frozenset[str]:
    if canonical == "byte":
        return frozenset(units_by_spelling("memory"))
    times = units_by_spelling("duration") if canonical == "second" else ()
    return frozenset((*times, *rate_units_by_spelling()))


def _apply_form(
    text: str, figure: FigureSpec, found: FigureCell, where: str
) -> tuple[str, str | None]:
    """Return the figure and the remark that the first form gives which fits the text."""
    for form in figure.form:
        compiled = compile_pattern(form)
        match = compiled.fullmatch(text)
        if match is None:
            continue
        parts = {name: part for name, part in match.groupdict().items() if part}
        if "footnote" in parts:
            found.footnotes.append(parts["footnote"])
        if "gpu" in parts:
            _state(found.values, "gpu_id", Stated(parts["gpu"]), where)
        for name in parts.keys() - set(FORM_PARTS):
            _state(found.values, name, parse_cell_value(name, parts[name], where=where), where)
        _validate_whole_value(text, match, compiled.groupindex, where=where)
        value = " ".join(filter(None, (parts.get("value", ""), parts.get("unit"))))
        return value, parts.get("remark")
    return text, None


def _validate_whole_value(
    text: str, match: PatternMatch, parts: Mapping[str, int], *, where: str
) -> None:
    """Refuse a form that takes one end of a range for the figure, or leaves out what bounds it."""
    start, end = match.span(parts["value"])
    others = [match.span(group) for name, group in parts.items() if name not in ("value", "unit")]
    first = max((stop for _, stop in others if 0 <= stop <= start), default=0)
    last = min((begin for begin, _ in others if begin >= end), default=len(text))
    if is_cut(text[first:last], start - first, end - first):
        raise UnitError(
            f"{where}: found {text!r}, of which the form takes {match['value']!r} and drops the "
            "rest of a range, a sum or a bound; expected all of it in the part `value`, such as "
            "`(?P<value>.+)`"
        )


def _state(values: Values, name: str, stated: Stated, where: str) -> None:
    known = values.setdefault(name, stated)
    if known.value != stated.value:
        raise UnitError(
            f"{where}: found {name} {known.value!r} and {stated.value!r} in one cell, expected one"
        )
