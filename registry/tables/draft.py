"""Draft a mapping of a document's tables: what is known is filled in, what is open is a ``?``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.tables.cell_reader import (
    bare_text,
    find_estimate,
    footnote_of,
    is_absent,
    marks_of_column,
)
from registry.tables.decimal_marks import find_open_mark, has_decimal_comma
from registry.tables.draft_figure import as_yaml, draft_figure
from registry.tables.guess import names_largest_batch
from registry.tables.guess_apart import find_untold
from registry.tables.guess_figures import names_needed_cards
from registry.tables.guess_settings import names_number_of_cards, values_of
from registry.tables.guess_words import OPEN, read_method, read_settings
from registry.tables.header import read_header
from registry.tables.inline import plain_text
from registry.tables.look import LISTED, look_at, measured_tables, read_failures
from registry.tables.matching import TABLE_SUFFIXES
from registry.tables.title_settings import read_assigned, read_titles, titles_apart
from registry.text import format_slug
from registry.units import parse_outcome_word

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.tables.guess_settings import PivotGuess
    from registry.tables.look import TableLook
    from registry.tables.matching import TableDocument
    from registry.tables.raw_table import RawTable

#: What each text of a column says, None where it says nothing.
_Texts = dict[str, dict[str, Any] | None]

#: Most distinct texts of a column that are listed with their meanings.
_MOST_TEXTS = 60

#: Columns of yes and no, listed where other words stand for them.
_SWITCHES: Final = ("gradient_checkpointing", "packing")
_YES_OR_NO: Final = ("yes", "no", "true", "false")
_TELLS_APART: Final = "rows that are otherwise alike differ here: its meaning, or {ignore: why}"
#: Headers of columns that may say which cards, and how many, a row ran on.
_OF_CARDS: Final = re.compile(
    r"(?i)gpu|npu|\bgcds?\b|\bcards?\b|hardware|cluster|\bnodes?\b|machine|devices?\b|accelerator|"
    r"卡|硬件|机器|机型|集群|设备|環境|ハードウェア|하드웨어|장비"
)
_SAYS_CARDS: Final = "the cards of each row, or their number? its meaning, or {ignore: why}"
_NEEDS_CARDS: Final = "cards that are needed, or those of each row? its meaning, or {ignore: why}"
_OF_ALL_CARDS: Final = (
    "the time of all cards together: a figure with `divide_by: n_gpus`, or {ignore: why}"
)
_WHOSE_BATCH: Final = "  # of each card, or of all together (to: global_batch_size)?"
_SAYS_WHOSE: Final = re.compile(r"(?i)micro|mbs|device|local|\b(?:per|each)\b|_per_|/|单|每")
_LARGEST_BATCH: Final = "the largest that fits, or the batch of the row's run? else {ignore: why}"
_SAYS_METHOD: Final = "the method of each row? its meaning, or {ignore: why}"
_FAILS_AMONG_NUMBERS: Final = "numbers and failures of which runs? its meaning, or {ignore: why}"
_MEASURED_OR_NOT: Final = "measured, or not? `evidence: estimated` or another, or {} for measured"
_TITLES_DIFFER: Final = "  # tables alike have other headings: state below what these say of runs"
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
        yield f"  {name}: {as_yaml(OPEN if text is None else text)}"
    if not is_final:
        yield "  # add url, publisher, published_on, licence, revision if they are known"
    elif None in told.values():
        yield f"  # delete a line with {OPEN!r} if nobody can know it"


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
        yield f"  {as_yaml(mark)}: {OPEN!r}"
    if any(look_at(table, catalogue).has_empty_places for table in tables):
        yield "skip: [{empty: true}]"


class _Drafter:
    """Writes the parts of a mapping for single tables."""

    def __init__(self, catalogue: Catalogue, tables: list[RawTable]) -> None:
        self._catalogue = catalogue
        self._tables = tables
        self._has_commas = any(
            has_decimal_comma(text)
            for table in tables
            for look in (look_at(table, catalogue),)
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
        look = look_at(table, self._catalogue)
        file = f"  # {document.files[table.index - 1]}" if document.files else ""
        yield f"  - match: {{table: {table.index}}}{file}"
        titles = titles_apart(table, self._tables)
        if table.heading:
            yield f"    title: {as_yaml(table.heading[-1])}{_TITLES_DIFFER if titles else ''}"
        if look.is_transposed:
            yield "    transposed: true"
        yield from self._draft_defaults(look, read_titles(titles))
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

    def _draft_columns(self, look: TableLook) -> Iterator[tuple[str, list[str]]]:
        """Yield the columns that look like something, each with its lines."""
        taken: set[str] = set()
        hints = self._find_hints(look)
        for name, guess in look.guesses.items():
            if guess.metric is not None:
                decimal = self._find_decimal(look.texts_of(name))
                figure = draft_figure(guess, one_card=look.is_of_one_card, decimal=decimal)
                yield name, [f"      {as_yaml(name)}: {figure}"]
            elif guess.doubt is not None:
                yield name, [f"      {as_yaml(name)}: {as_yaml({'ignore': guess.doubt.reason})}"]
            elif isinstance(setups := hints.get(name), dict):
                yield name, list(_draft_texts(name, setups))
            elif name in hints:
                yield name, [f"      {as_yaml(name)}: {as_yaml(OPEN)}  # {hints[name]}"]
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

    def _find_hints(self, look: TableLook) -> dict[str, str | _Texts]:
        """Return the columns whose meaning is asked for: what it may be, or what each text says."""
        unread = _unread(look)
        hints: dict[str, str | _Texts] = {}
        hints |= dict.fromkeys(find_untold(look.table, self._meanings(look), unread), _TELLS_APART)
        hints |= {name: said for name in unread if (said := _read_setups(name, look))}
        for name in unread:
            if look.guesses[name].is_figures and read_header(name).card_time:
                hints[name] = _OF_ALL_CARDS
            elif _OF_CARDS.search(name) and _varies(name, look):
                hints[name] = _NEEDS_CARDS if names_needed_cards(name) else _SAYS_CARDS
            elif names_largest_batch(name):
                hints[name] = _LARGEST_BATCH
            elif _is_of_methods(name, look):
                hints[name] = _SAYS_METHOD
        failing = (n for n, guess in look.guesses.items() if guess.says_failures and not guess.to)
        return hints | dict.fromkeys(failing, _FAILS_AMONG_NUMBERS)

    def _meanings(self, look: TableLook) -> dict[str, dict[str, str]]:
        """Return what each text of a column that is read says, by column."""
        read = {name: guess.to for name, guess in look.guesses.items() if guess.to is not None}
        return {
            name: {
                text: repr(values_of(to, text, self._catalogue)) if to in LISTED else text
                for text in look.texts_of(name)
            }
            for name, to in read.items()
            if name not in _unread(look)
        }

    def _draft_pivot(self, pivot: PivotGuess, look: TableLook) -> Iterator[str]:
        """Yield the lines of columns of which each makes an observation."""
        yield "      # each of these columns is an observation of its own; else map them above"
        yield f"      - columns: {as_yaml(pivot.pattern)}"
        if pivot.to is None or pivot.to in LISTED:
            yield "        values:"
            for label in pivot.labels:
                said = values_of(pivot.to, label, self._catalogue) if pivot.to else OPEN
                said = _without_usual_bits(said, look)
                yield f"          {as_yaml(label.strip())}: {as_yaml(said)}"
        else:
            yield f"        to: {pivot.to}"
        if pivot.to == "seq_len" and any(map(_is_in_thousands, pivot.labels)):
            yield f"        k_is: {OPEN!r}  # 1000 or 1024"
        decimal = self._find_decimal([t for name in pivot.names for t in look.texts_of(name)])
        cell = draft_figure(pivot.cell, pivot.beside, in_pivot=True, decimal=decimal)
        yield f"        cell: {cell}"

    def _draft_defaults(self, look: TableLook, titled: Mapping[str, Any]) -> Iterator[str]:
        """Yield what the rows do not state: what every observation needs, its cards, the title."""
        stated = {guess.to for guess in look.guesses.values()} | {p.to for p in look.pivots}
        if _names_numbers(look):
            stated.add("n_gpus")
        said = {name: value for name, value in titled.items() if name not in stated}
        missing = [name for name in _REQUIRED if name not in {*stated, *said}]
        if missing or said or _settings_of_headers(look).keys() - stated:
            yield "    defaults:"
        for name in missing:
            optional = name in ("gpu_id", "n_gpus")
            hint = "  # delete the line if the document does not say" if optional else ""
            yield f"      {name}: {OPEN!r}{hint}"
        for name, value in said.items():
            yield f"      {name}: {OPEN!r}  # {as_yaml(value)}, if a heading says so of the runs"
        for name, numbers in _settings_of_headers(look).items():
            if name not in {*stated, *said, *missing}:
                yield f"      {name}: {OPEN!r}  # {numbers}, if a header says so of the whole row"

    def _draft_values(self, name: str, to: str, texts: list[str], look: TableLook) -> Iterator[str]:
        given = [text for text in texts if not is_absent(text, ())]
        is_long = any(map(_is_in_thousands, given))
        if to == "seq_len" and is_long:
            yield f"      {as_yaml(name)}: {{to: seq_len, k_is: {OPEN!r}}}  # 1000 or 1024"
        elif not _is_listed(to, given) or len(given) > _MOST_TEXTS:
            hint = _WHOSE_BATCH if _is_of_unsaid_cards(name, to) and self._has_cards(look) else ""
            said = as_yaml({"to": to} | _patterns_of_failures(given))
            yield f"      {as_yaml(name)}: {said}{hint}"
        else:
            yield f"      {as_yaml(name)}:"
            yield "        values:"
            for text in dict.fromkeys(map(plain_text, given)):
                said = _without_usual_bits(values_of(to, text, self._catalogue), look)
                yield f"          {as_yaml(text)}: {as_yaml(said)}"

    def _has_cards(self, look: TableLook) -> bool:
        """Return whether a row names more than one card."""
        numbers = (
            value.get("n_gpus") if isinstance(value, dict) else bare_text(text)
            for name, guess in look.guesses.items()
            if guess.to in ("gpu_id", "n_gpus")
            for text in look.texts_of(name)
            for value in (values_of(guess.to, text, self._catalogue),)
        )
        return any(n.isdigit() and int(n) > 1 for n in map(str, numbers))


def _settings_of_headers(look: TableLook) -> dict[str, str]:
    """Return the settings that headers of figures assign numbers to, where no pivot reads them."""
    pivoted = {name for pivot in look.pivots for name in pivot.names}
    names = [name for name, guess in look.guesses.items() if guess.metric and name not in pivoted]
    found: dict[str, dict[int, None]] = {}
    for setting, number in (pair for name in names for pair in read_assigned(name)):
        found.setdefault(setting, {})[number] = None
    return {setting: " or ".join(map(str, numbers)) for setting, numbers in found.items()}


def _is_of_unsaid_cards(name: str, to: str) -> bool:
    """Return whether a header calls a batch no more than that."""
    return to == "micro_batch_size" and _SAYS_WHOSE.search(name) is None


def _without_usual_bits(said: Any, look: TableLook) -> Any:
    """Return what a text says without the bits that QLoRA usually has, if a column tells them."""
    if not isinstance(said, dict) or not any(g.to == "quant_bits" for g in look.guesses.values()):
        return said
    return {k: v for k, v in said.items() if not (k == "quant_bits" and isinstance(v, dict))}


def _varies(name: str, look: TableLook) -> bool:
    return len({bare_text(text) for text in look.texts_of(name)}) > 1


def _is_of_methods(name: str, look: TableLook) -> bool:
    """Return whether a column such as ``LoRA`` tells by its cells which rows are of that method."""
    reading = read_method(name)
    is_method = reading.said["method"] != OPEN and not reading.left_over
    is_told = any(guess.to == "method" for guess in look.guesses.values())
    return is_method and not is_told and _varies(name, look)


def _read_setups(name: str, look: TableLook) -> _Texts:
    """Return what each text of a column such as ``TP2, PP8, mbs=4`` says; nothing unless all do.

    A column that says what another says already is none.
    """
    given = [plain_text(text) for text in look.texts_of(name) if not is_absent(text, ())]
    readings = {text: read_settings(bare_text(text)) for text in given}
    known = {guess.to for guess in look.guesses.values()}
    is_read = all(reading.said and not known & reading.said.keys() for reading in readings.values())
    return {text: reading.values() for text, reading in readings.items()} if is_read else {}


def _patterns_of_failures(texts: list[str]) -> dict[str, Any]:
    """Return the key that tells a run's end where cells of a setting say nothing but it."""
    words = {bare_text(text): parse_outcome_word(text).outcome for text in texts}
    patterns = [
        {"pattern": re.escape(text), "set": {"outcome": outcome}}
        for text, outcome in words.items()
        if outcome is not None
    ]
    return {"patterns": patterns} if patterns else {}


def _draft_failures(name: str, look: TableLook) -> Iterator[str]:
    """Yield what the texts of a column say that speak of failures; the others say nothing."""
    given = read_failures(name, look)
    said = {
        text: None if word is None else {"outcome": str(word.outcome or OPEN)}
        for text, word in given.items()
    }
    yield from _draft_texts(name, said)


def _draft_estimates(name: str, look: TableLook) -> Iterator[str]:
    """Yield what the texts of a column say by which nobody measured a row; the others say nothing.

    Which kind of evidence the row is, is for whoever reads the document to say.
    """
    given = dict.fromkeys(map(plain_text, look.texts_of(name)))
    said = {text: {"evidence": OPEN} if find_estimate(text) else None for text in given}
    yield from _draft_texts(name, said, f"  # {_MEASURED_OR_NOT}")


def _draft_texts(
    name: str, said: Mapping[str, dict[str, Any] | None], hint: str = ""
) -> Iterator[str]:
    """Yield what each text of a column says, and that those say nothing which have None."""
    yield f"      {as_yaml(name)}:{hint}"
    yield "        values:"
    for text, values in said.items():
        if values is not None:
            yield f"          {as_yaml(text)}: {as_yaml(values)}"
    if any(values is None and not is_absent(text, ()) for text, values in said.items()):
        yield "        patterns: [{pattern: '(?s).*', set: {}}]  # other texts say nothing"


def _unread(look: TableLook) -> list[str]:
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
    return to in LISTED or (to in _SWITCHES and not is_plain)


def _names_numbers(look: TableLook) -> bool:
    """Return whether what names the cards says each time how many there are."""
    texts = [t for name, g in look.guesses.items() if g.to == "gpu_id" for t in look.texts_of(name)]
    texts += [label for pivot in look.pivots if pivot.to == "gpu_id" for label in pivot.labels]
    return bool(texts) and all(names_number_of_cards(bare_text(text)) for text in texts)


def _is_in_thousands(text: str) -> bool:
    return re.fullmatch(r"[0-9.]+\s*[kKM]", bare_text(text)) is not None
