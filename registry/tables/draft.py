"""Draft a mapping of a document's tables: what is known is filled in, what is open is a ``?``."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import yaml

from registry.tables.cell_reader import (
    bare_text,
    find_estimate,
    footnote_of,
    is_absent,
    marks_of_column,
    read_failure,
)
from registry.tables.column_spec import SHARED_METRICS
from registry.tables.decimal_marks import find_open_mark, has_decimal_comma
from registry.tables.guess import guess_metric
from registry.tables.guess_apart import find_untold, is_number
from registry.tables.guess_figures import (
    doubt_of_context,
    doubt_of_estimates,
    doubt_of_needs,
    names_needed_cards,
)
from registry.tables.guess_settings import (
    guess_pivots,
    guess_table,
    names_number_of_cards,
    values_of,
)
from registry.tables.guess_words import OPEN, read_method
from registry.tables.header import read_header
from registry.tables.inline import plain_text
from registry.tables.matching import TABLE_SUFFIXES
from registry.tables.transposed import transpose
from registry.text import format_slug
from registry.units import parse_outcome_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.tables.guess import Guess
    from registry.tables.guess_figures import Doubt
    from registry.tables.guess_settings import PivotGuess
    from registry.tables.matching import TableDocument
    from registry.tables.raw_table import BodyRow, RawTable
    from registry.units import OutcomeWord

#: Most distinct texts of a column that are listed with their meanings.
_MOST_TEXTS = 60

#: Fewest columns of a table of several observations that may lie on its side; one of two columns
#: lists what is known of one.
_FEWEST_COLUMNS = 3

#: Columns of the contract whose texts are listed one by one, with what each means.
_LISTED: Final = (
    "model_id",
    "gpu_id",
    "method",
    "compute_dtype",
    "quant_bits",
    "optimizer",
    "sharding",
    "offload",
    "attention",
    "outcome",
)
#: Columns of yes and no, listed where other words stand for them.
_SWITCHES: Final = ("gradient_checkpointing", "packing")
_YES_OR_NO: Final = ("yes", "no", "true", "false")
_TELLS_APART: Final = "rows that are otherwise alike differ here: its meaning, or {ignore: why}"
#: Headers of columns that may say which cards, and how many, a row ran on.
_OF_CARDS: Final = re.compile(
    r"(?i)gpu|npu|\bcards?\b|hardware|cluster|\bnodes?\b|machine|devices?\b|accelerator|"
    r"卡|硬件|机器|机型|集群|设备|環境|ハードウェア|하드웨어|장비"
)
_SAYS_CARDS: Final = "the cards of each row, or their number? its meaning, or {ignore: why}"
_NEEDS_CARDS: Final = "cards that are needed, or those of each row? its meaning, or {ignore: why}"
_SAYS_METHOD: Final = "the method of each row? its meaning, or {ignore: why}"
_FAILS_AMONG_NUMBERS: Final = "numbers and failures of which runs? its meaning, or {ignore: why}"
_MEASURED_OR_NOT: Final = "measured, or not? `evidence: estimated` or another, or {} for measured"
_METRIC: Final = re.compile(
    r"(?i)metrics?|measure(?:ment)?s?|m[eé]tri(?:ca|que)s?|kennzahl(?:en)?|指标|指標|지표"
)
#: What rows may measure, where their cells say of what and in which unit.
_SPEED: Final = re.compile(r"(?i)speed|throughput|geschwindigkeit|速度|吞吐|スループット|속도")
#: Metrics that a model has, whether it is trained or not.
_OF_MODELS: Final = ("trainable_params", "n_params")
_REQUIRED: Final = ("model_id", "method", "gpu_id", "n_gpus")


def draft_mapping(
    path: Path,
    document: TableDocument,
    catalogue: Catalogue,
    stated: Mapping[str, str | None] | None = None,
) -> str:
    """Return a mapping in YAML for the tables of a document in which something looks measured.

    ``stated`` are columns of the source: what it says is filled in, what it has no text for is
    open. Without it, the source has what the document itself tells.
    """
    tables = measured_tables(document, catalogue)
    drafter = _Drafter(catalogue, tables)
    body = [line for table in tables for line in drafter.draft_table(table, document)]
    lines = [
        f"# A draft of the mapping of {path.name}. Fill in what is {OPEN!r}, check the rest.",
        "source:",
        *_draft_source(path, document, stated),
        *_draft_common(tables, catalogue),
        "tables:",
        *body,
    ]
    if not tables:
        lines.append(f"  - match: {{table: {OPEN!r}}}  # no column of any table looks measured")
    return "\n".join(line for line in lines if line) + "\n"


def _draft_source(
    path: Path, document: TableDocument, stated: Mapping[str, str | None] | None
) -> Iterator[str]:
    told: dict[str, str | None] = {"source_id": slug_of(path), "title": title_of(path, document)}
    is_copy = path.suffix.lower() in TABLE_SUFFIXES and stated is None
    told |= {"kind": "document"} | ({} if is_copy else {"sha256": document.sha256})
    yield from format_source({**told, **(stated or {})}, is_final=stated is not None)


def format_source(told: Mapping[str, str | None], *, is_final: bool) -> Iterator[str]:
    """Yield the lines below ``source:``, with what is to be filled in, and where more can be said.

    ``is_final`` says that whoever adds the source was asked for all of it.
    """
    for name, text in told.items():
        yield f"  {name}: {_yaml(OPEN if text is None else text)}"
    if not is_final:
        yield "  # add url, publisher, published_on, licence, revision if they are known"
    elif None in told.values():
        yield f"  # delete a line with {OPEN!r} if nobody can know it"


def measured_tables(document: TableDocument, catalogue: Catalogue) -> list[RawTable]:
    """Return the tables of a document in which something looks measured."""
    return [table for table in document.tables if _is_measured(table, catalogue)]


def _is_measured(table: RawTable, catalogue: Catalogue) -> bool:
    if table.problem is not None or not table.rows:
        return False
    return _look_at(table, catalogue).is_measured


@dataclass(frozen=True)
class _Look:
    """What the columns of a table look like: those of pivots, and all others.

    Where ``is_transposed``, the table is the document's on its side.
    """

    table: RawTable
    guesses: dict[str, Guess]
    pivots: list[PivotGuess]
    is_transposed: bool = False

    @property
    def is_measured(self) -> bool:
        """Whether a column holds figures of a run: known ones, or ones by hardware or length.

        Models and methods are compared by their accuracy as well, but by that none runs out of
        memory, and below a heading of speed it is none.
        """
        metrics = [guess.metric for guess in self.guesses.values()]
        return (
            any(metrics)
            or self._has_oom
            or bool(self.pivots and any(map(_SPEED.search, self.table.heading[-1:])))
            or any(
                pivot.cell.metric != OPEN or pivot.to not in _LISTED or pivot.to == "gpu_id"
                for pivot in self.pivots
            )
        )

    @property
    def _has_oom(self) -> bool:
        texts = (bare_text(cell.text) for row in self.table.rows for cell in row.cells)
        return any(parse_outcome_word(text).outcome == "oom" for text in texts)

    def texts_of(self, name: str) -> list[str]:
        """Return the different texts of a column, in order."""
        place = self.table.columns.index(name)
        return list(dict.fromkeys(row.cells[place].text for row in self.table.rows))

    def has_figures(self, row: BodyRow) -> bool:
        """Return whether a row of the table holds a figure, of whatever metric."""
        names = [name for name, guess in self.guesses.items() if guess.metric]
        names += [name for pivot in self.pivots for name in pivot.names]
        texts = (row.cells[self.table.columns.index(name)].text for name in names)
        return any(parse_outcome_word(bare_text(text)).kind == "other" for text in texts)

    def texts_of_first(self) -> list[str]:
        """Return the different texts of the first column that say something."""
        texts = map(bare_text, self.texts_of(self.table.columns[0]))
        return [text for text in texts if not is_absent(text, ())]

    @property
    def is_of_one_card(self) -> bool:
        """Whether a column says of every row that it ran on one card."""
        numbers = [name for name, guess in self.guesses.items() if guess.to == "n_gpus"]
        return bool(numbers) and {bare_text(t) for t in self.texts_of(numbers[0])} == {"1"}

    @property
    def has_empty_places(self) -> bool:
        """Whether a row, or a place of a pivot, says nothing."""
        names = [name for name, guess in self.guesses.items() if guess.metric]
        figures = [self.table.columns.index(name) for name in names]
        outcomes = [name for name, guess in self.guesses.items() if guess.to == "outcome"]
        said = [*figures, *map(self.table.columns.index, outcomes)]
        is_empty = any(
            all(is_absent(row.cells[place].text, ()) for place in said)
            for row in (self.table.rows if figures else ())
        )
        pivoted = [name for pivot in self.pivots for name in pivot.names]
        return is_empty or any(is_absent(t, ()) for name in pivoted for t in self.texts_of(name))


def _look_at(table: RawTable, catalogue: Catalogue) -> _Look:
    """Return what a table looks like; on its side where its rows, not its columns, are measured.

    They are where the first column says that it names metrics, or all of its cells do.
    """
    look = _look_upright(table, catalogue)
    first = look.texts_of_first()
    is_list = len(table.columns) < _FEWEST_COLUMNS
    names_metrics = _name_metrics(first) if is_list else _are_metrics(first)
    is_upright = look.is_measured and not (names_metrics or _METRIC.fullmatch(table.columns[0]))
    if is_upright or (is_list and not names_metrics):
        return look
    turned = _look_upright(transpose(table), catalogue)
    is_better = turned.is_measured and (names_metrics or not turned.pivots)
    return replace(turned, is_transposed=True) if is_better else look


def _name_metrics(texts: list[str]) -> bool:
    """Return whether several texts name a metric, in a list of what is known of one run."""
    return sum(guess_metric(text).metric is not None for text in texts) > 1


def _are_metrics(texts: list[str]) -> bool:
    """Return whether texts name what rows measure, such as ``Memory (GB)`` and ``Speed``."""
    named = [guess_metric(text).metric is not None for text in texts]
    pairs = zip(texts, named, strict=True)
    return (
        len(texts) > 1 and any(named) and all(is_named or _SPEED.search(t) for t, is_named in pairs)
    )


def _look_upright(table: RawTable, catalogue: Catalogue) -> _Look:
    guesses = guess_table(table, catalogue)
    context = doubt_of_context((*table.heading[-1:], *table.prose))
    context = context or doubt_of_estimates((*reversed(table.prose), *reversed(table.heading)))
    context = context or doubt_of_needs(table.columns)
    pivots = guess_pivots(table, guesses, catalogue)
    if context is not None:
        guesses = {name: _with_doubt(guess, context) for name, guess in guesses.items()}
        pivots = [replace(pivot, cell=_with_doubt(pivot.cell, context)) for pivot in pivots]
    pivoted = {name for pivot in pivots for name in pivot.names}
    others = {name: guess for name, guess in guesses.items() if name not in pivoted}
    look = _Look(table, others, pivots)
    return replace(look, guesses=_with_failures(look))


def _with_doubt(guess: Guess, doubt: Doubt) -> Guess:
    return replace(guess, doubt=doubt) if guess.metric not in (None, OPEN, *_OF_MODELS) else guess


def _with_failures(look: _Look) -> dict[str, Guess]:
    """Return what columns look like: one like nothing else that speaks of failures is an outcome's.

    Only one can be; of others that say the same, an import tells. Failures among numbers are of
    the setting that the column is, not of the row's run.
    """
    guesses = dict(look.guesses)
    if any(guess.to == "outcome" for guess in guesses.values()):
        return guesses
    for name, guess in look.guesses.items():
        is_free = guess.to is None and guess.metric is None and guess.doubt is None
        said = _read_failures(name, look) if is_free else {}
        if any(word is not None for word in said.values()):
            guesses[name] = replace(guess, says_failures=True)
            if not any(word is None and _is_given_number(text) for text, word in said.items()):
                guesses[name] = replace(guesses[name], to="outcome")
                return guesses
    if any(guess.says_failures for guess in guesses.values()):
        return {name: _as_of_other_runs(name, guess) for name, guess in guesses.items()}
    return guesses


def _as_of_other_runs(name: str, guess: Guess) -> Guess:
    """Return the guess of a column of numbers beside one of numbers and failures: it is alike."""
    is_alike = guess.is_figures and guess.to is None and guess.metric is None
    is_setting = is_alike and guess.doubt is None and not read_header(name).relative
    return replace(guess, says_failures=True) if is_setting else guess


def _is_given_number(text: str) -> bool:
    return is_number(text) and not is_absent(text, ())


def _read_failures(name: str, look: _Look) -> dict[str, OutcomeWord | None]:
    """Return what the different texts of a column say of runs that failed, None for nothing.

    A longer text beside figures is a remark on another run: these are of one that came to its end.
    """
    place = look.table.columns.index(name)
    said: dict[str, OutcomeWord | None] = {}
    for row in look.table.rows:
        text = row.cells[place].text
        word = read_failure(name, text)
        is_remark = word is not None and word.outcome is None and look.has_figures(row)
        key = plain_text(text)
        said[key] = said.get(key) or (None if is_remark else word)
    return said


def slug_of(path: Path) -> str:
    """Return an id of a source that is called as its document."""
    name = path.name if path.is_dir() else path.stem
    return format_slug(name, otherwise="source")


def title_of(path: Path, document: TableDocument) -> str:
    """Return the first heading of a document, else its file's name."""
    headings = (table.heading[0] for table in document.tables if table.heading)
    return next(headings, path.name)


def _draft_common(tables: list[RawTable], catalogue: Catalogue) -> Iterator[str]:
    """Yield what holds for all tables: footnote marks, and rows that say nothing."""
    marks = [
        mark
        for table in tables
        for mark in (
            *(mark for name in table.columns for mark in marks_of_column(name)),
            *(footnote_of(cell.text) for row in table.rows for cell in row.cells),
        )
        if mark is not None
    ]
    for number, mark in enumerate(dict.fromkeys(marks)):
        if number == 0:
            yield "footnotes:  # what each mark says, as columns and values; {} for nothing"
        yield f"  {_yaml(mark)}: {OPEN!r}"
    if any(_look_at(table, catalogue).has_empty_places for table in tables):
        yield "skip: [{empty: true}]"


class _Drafter:
    """Writes the parts of a mapping for single tables."""

    def __init__(self, catalogue: Catalogue, tables: list[RawTable]) -> None:
        self._catalogue = catalogue
        self._has_commas = any(
            has_decimal_comma(text)
            for table in tables
            for look in (_look_at(table, catalogue),)
            for name, guess in look.guesses.items()
            if guess.is_figures
            for text in look.texts_of(name)
        )

    def _find_decimal(self, texts: list[str]) -> str | None:
        """Return the decimal mark of a column's figures where it is to be stated."""
        if any(map(has_decimal_comma, texts)):
            has_points = any(re.search(r"(?<![0-9.])[0-9]+\.[0-9]{1,2}(?![0-9])", t) for t in texts)
            return OPEN if has_points else ","
        return OPEN if self._has_commas and any(map(find_open_mark, texts)) else None

    def draft_table(self, table: RawTable, document: TableDocument) -> Iterator[str]:
        """Yield the lines of one table's entry."""
        look = _look_at(table, self._catalogue)
        file = f"  # {document.files[table.index - 1]}" if document.files else ""
        yield f"  - match: {{table: {table.index}}}{file}"
        if table.heading:
            yield f"    title: {_yaml(table.heading[-1])}"
        if look.is_transposed:
            yield "    transposed: true"
        yield from self._draft_defaults(look)
        rest = list(look.guesses)
        for name, lines in self._draft_columns(look):
            if len(rest) == len(look.guesses):
                yield "    columns:"
            rest.remove(name)
            yield from lines
        for number, pivot in enumerate(look.pivots):
            yield from ["    pivot:"] if number == 0 else []
            yield from self._draft_pivot(pivot, look)
        yield "    ignore: rest" + (f"  # {', '.join(map(repr, rest))}" if rest else "")

    def _draft_columns(self, look: _Look) -> Iterator[tuple[str, list[str]]]:
        """Yield the columns that look like something, each with its lines."""
        taken: set[str] = set()
        unread = _unread(look)
        untold = find_untold(look.table, self._meanings(look), unread)
        of_cards = [name for name in unread if _OF_CARDS.search(name) and _varies(name, look)]
        of_methods = [name for name in unread if _is_of_methods(name, look)]
        for name, guess in look.guesses.items():
            if guess.metric is not None:
                decimal = self._find_decimal(look.texts_of(name))
                figure = _draft_figure(guess, one_card=look.is_of_one_card, decimal=decimal)
                yield name, [f"      {_yaml(name)}: {figure}"]
            elif guess.doubt is not None:
                yield name, [f"      {_yaml(name)}: {_yaml({'ignore': guess.doubt.reason})}"]
            elif guess.says_failures and guess.to is None:
                yield name, [f"      {_yaml(name)}: {_yaml(OPEN)}  # {_FAILS_AMONG_NUMBERS}"]
            elif name in of_cards:
                hint = _NEEDS_CARDS if names_needed_cards(name) else _SAYS_CARDS
                yield name, [f"      {_yaml(name)}: {_yaml(OPEN)}  # {hint}"]
            elif name in of_methods:
                yield name, [f"      {_yaml(name)}: {_yaml(OPEN)}  # {_SAYS_METHOD}"]
            elif name in untold:
                yield name, [f"      {_yaml(name)}: {_yaml(OPEN)}  # {_TELLS_APART}"]
            elif guess.to is None and any(map(find_estimate, look.texts_of(name))):
                yield name, list(_draft_estimates(name, look))
            elif guess.to is not None and guess.to not in taken:
                taken.add(guess.to)
                texts = look.texts_of(name)
                drafted = (
                    _draft_failures(name, look)
                    if guess.says_failures
                    else self._draft_values(name, guess.to, texts, look)
                )
                yield name, list(drafted)

    def _meanings(self, look: _Look) -> dict[str, dict[str, str]]:
        """Return what each text of a column that is read says, by column."""
        read = {name: guess.to for name, guess in look.guesses.items() if guess.to is not None}
        return {
            name: {
                text: repr(values_of(to, text, self._catalogue)) if to in _LISTED else text
                for text in look.texts_of(name)
            }
            for name, to in read.items()
            if name not in _unread(look)
        }

    def _draft_pivot(self, pivot: PivotGuess, look: _Look) -> Iterator[str]:
        """Yield the lines of columns of which each makes an observation."""
        yield "      # each of these columns is an observation of its own; else map them above"
        yield f"      - columns: {_yaml(pivot.pattern)}"
        if pivot.to is None or pivot.to in _LISTED:
            yield "        values:"
            for label in pivot.labels:
                said = values_of(pivot.to, label, self._catalogue) if pivot.to else OPEN
                said = _without_usual_bits(said, look)
                yield f"          {_yaml(label.strip())}: {_yaml(said)}"
        else:
            yield f"        to: {pivot.to}"
        if pivot.to == "seq_len" and any(map(_is_in_thousands, pivot.labels)):
            yield f"        k_is: {OPEN!r}  # 1000 or 1024"
        decimal = self._find_decimal([t for name in pivot.names for t in look.texts_of(name)])
        cell = _draft_figure(pivot.cell, pivot.beside, in_pivot=True, decimal=decimal)
        yield f"        cell: {cell}"

    def _draft_defaults(self, look: _Look) -> Iterator[str]:
        """Yield what the rows do not state: what every observation needs, and its cards."""
        stated = {guess.to for guess in look.guesses.values()} | {p.to for p in look.pivots}
        if _names_numbers(look):
            stated.add("n_gpus")
        missing = [name for name in _REQUIRED if name not in stated]
        if missing:
            yield "    defaults:"
        for name in missing:
            optional = name in ("gpu_id", "n_gpus")
            hint = "  # delete the line if the document does not say" if optional else ""
            yield f"      {name}: {OPEN!r}{hint}"

    def _draft_values(self, name: str, to: str, texts: list[str], look: _Look) -> Iterator[str]:
        given = [text for text in texts if not is_absent(text, ())]
        is_long = any(map(_is_in_thousands, given))
        if to == "seq_len" and is_long:
            yield f"      {_yaml(name)}: {{to: seq_len, k_is: {OPEN!r}}}  # 1000 or 1024"
        elif not _is_listed(to, given) or len(given) > _MOST_TEXTS:
            yield f"      {_yaml(name)}: {_yaml({'to': to} | _patterns_of_failures(given))}"
        else:
            yield f"      {_yaml(name)}:"
            yield "        values:"
            for text in dict.fromkeys(map(plain_text, given)):
                said = _without_usual_bits(values_of(to, text, self._catalogue), look)
                yield f"          {_yaml(text)}: {_yaml(said)}"


def _without_usual_bits(said: Any, look: _Look) -> Any:
    """Return what a text says without the bits that QLoRA usually has, if a column tells them."""
    if not isinstance(said, dict) or not any(g.to == "quant_bits" for g in look.guesses.values()):
        return said
    return {k: v for k, v in said.items() if not (k == "quant_bits" and isinstance(v, dict))}


def _varies(name: str, look: _Look) -> bool:
    return len({bare_text(text) for text in look.texts_of(name)}) > 1


def _is_of_methods(name: str, look: _Look) -> bool:
    """Return whether a column such as ``LoRA`` tells by its cells which rows are of that method."""
    reading = read_method(name)
    is_method = reading.said["method"] != OPEN and not reading.left_over
    is_told = any(guess.to == "method" for guess in look.guesses.values())
    return is_method and not is_told and _varies(name, look)


def _patterns_of_failures(texts: list[str]) -> dict[str, Any]:
    """Return the key that tells a run's end where cells of a setting say nothing but it."""
    words = {bare_text(text): parse_outcome_word(text).outcome for text in texts}
    patterns = [
        {"pattern": re.escape(text), "set": {"outcome": outcome}}
        for text, outcome in words.items()
        if outcome is not None
    ]
    return {"patterns": patterns} if patterns else {}


def _draft_failures(name: str, look: _Look) -> Iterator[str]:
    """Yield what the texts of a column say that speak of failures; the others say nothing."""
    given = _read_failures(name, look)
    said = {
        text: None if word is None else {"outcome": str(word.outcome or OPEN)}
        for text, word in given.items()
    }
    yield from _draft_texts(name, said)


def _draft_estimates(name: str, look: _Look) -> Iterator[str]:
    """Yield what the texts of a column say by which nobody measured a row; the others say nothing.

    Which kind of evidence the row is, is for whoever reads the document to say.
    """
    given = dict.fromkeys(map(plain_text, look.texts_of(name)))
    said = {text: {"evidence": OPEN} if find_estimate(text) else None for text in given}
    yield from _draft_texts(name, said, f"  # {_MEASURED_OR_NOT}")


def _draft_texts(
    name: str, said: Mapping[str, dict[str, str] | None], hint: str = ""
) -> Iterator[str]:
    """Yield what each text of a column says, and that those say nothing which have None."""
    yield f"      {_yaml(name)}:{hint}"
    yield "        values:"
    for text, values in said.items():
        if values is not None:
            yield f"          {_yaml(text)}: {_yaml(values)}"
    if any(values is None and not is_absent(text, ()) for text, values in said.items()):
        yield "        patterns: [{pattern: '(?s).*', set: {}}]  # other texts say nothing"


def _unread(look: _Look) -> list[str]:
    """Return the columns that look like nothing, or like what another says already."""
    known: dict[str, str] = {}
    for name, guess in look.guesses.items():
        if guess.to is not None and guess.metric is None and guess.doubt is None:
            known.setdefault(guess.to, name)
    return [
        name
        for name, guess in look.guesses.items()
        if guess.metric is None and guess.doubt is None and name not in known.values()
    ]


def _is_listed(to: str, texts: list[str]) -> bool:
    """Return whether a draft lists the texts of a column of the contract."""
    is_plain = all(bare_text(text).lower() in _YES_OR_NO for text in texts)
    return to in _LISTED or (to in _SWITCHES and not is_plain)


def _names_numbers(look: _Look) -> bool:
    """Return whether what names the cards says each time how many there are."""
    texts = [t for name, g in look.guesses.items() if g.to == "gpu_id" for t in look.texts_of(name)]
    texts += [label for pivot in look.pivots if pivot.to == "gpu_id" for label in pivot.labels]
    return bool(texts) and all(names_number_of_cards(bare_text(text)) for text in texts)


def _is_in_thousands(text: str) -> bool:
    return re.fullmatch(r"[0-9.]+\s*[kKM]", bare_text(text)) is not None


def _draft_figure(
    guess: Guess,
    beside: str | None = None,
    *,
    one_card: bool = False,
    in_pivot: bool = False,
    decimal: str | None = None,
) -> str:
    """Return the meaning of a figure, or of the parts of a cell of several.

    ``beside`` is the text elsewhere that gives its unit. Of runs on one card nobody needs to say
    whose figure it is. What the columns of a pivot are called is their setting, so that their unit
    is enough to tell what they measure.
    """
    doubt = guess.doubt if guess.doubt and (guess.doubt.is_by_name or not in_pivot) else None
    parts = [
        _figure_of(part, beside, doubt, one_card=one_card, decimal=decimal)
        for part in (guess.parts or (guess,))
    ]
    text = _yaml({"separator": "/", "parts": parts} if guess.parts else {"figure": parts[0]})
    if doubt is not None:
        return f"{text}  # {doubt.reason}; else {{ignore: why}}"
    is_open = any(part.get("scope") == OPEN for part in parts)
    return f"{text}  # {_scopes(guess)}" if is_open else text


def _figure_of(
    guess: Guess, beside: str | None, doubt: Doubt | None, *, one_card: bool, decimal: str | None
) -> dict[str, Any]:
    """Return the keys of one figure; ``doubt`` leaves its metric open."""
    figure: dict[str, Any] = {"metric": OPEN if doubt else guess.metric}
    if guess.metric in SHARED_METRICS and not one_card:
        is_share = guess.header.per_gpu and guess.metric != "peak_memory"
        figure["scope"] = "mean_gpu" if is_share else OPEN
    figure |= {"kind": guess.kind} if guess.kind and guess.metric == "peak_memory" else {}
    figure |= {"statistic": guess.statistic} if guess.statistic else {}
    if guess.unit and beside is not None:
        figure |= {"default_unit": guess.unit, "default_reason": f"{beside!r} says so"}
    elif guess.unit:
        figure |= {"unit": guess.unit}
    elif guess.lacks_unit:
        figure |= {"default_unit": OPEN, "default_reason": OPEN}
    if guess.header.clock is not None:
        clock = guess.header.clock
        figure |= {"read_as": clock, "reason": f"the header says {clock}"}
    if guess.divide_by is not None and doubt is None:
        of_steps = f"the header says that it is the time of {guess.divide_by:,} steps"
        figure |= {"divide_by": guess.divide_by, "because": of_steps}
    figure |= _factor_of_header(guess)
    return figure | ({"decimal": decimal} if decimal else {})


def _factor_of_header(guess: Guess) -> dict[str, Any]:
    """Return the keys that say in which thousands a header counts, and of what period its rates."""
    header = guess.header
    if guess.metric in ("trainable_params", "n_params"):
        return {"unit": header.counted_in.symbol} if header.counted_in else {}
    if header.dimension != "rate" or guess.unit is None:
        return {}
    factor: dict[str, Any] = {}
    said = []
    if header.counted_in is not None:
        factor["multiply_by"] = header.counted_in.factor
        said.append(f"counts in {header.counted_in.text!r}")
    if header.period is not None:
        seconds = header.period.factor
        factor["divide_by"] = int(seconds) if seconds.denominator == 1 else float(seconds)
        said.append(f"says per {header.period.symbol}")
    return factor | ({"because": f"the header {' and '.join(said)}"} if said else {})


def _scopes(guess: Guess) -> str:
    """Return the scopes that may be meant."""
    shares = "max_gpu (the fullest card) or mean_gpu"
    return shares if guess.header.per_gpu else f"total, {shares}"


def _yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=10**9, sort_keys=False
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
