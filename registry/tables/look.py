"""What the columns of a table look like, before anybody has said what they mean."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from registry.tables.cell_reader import bare_text, is_absent, read_failure
from registry.tables.guess import dimension_of, guess_metric, guess_setting
from registry.tables.guess_apart import is_number
from registry.tables.guess_figures import (
    SPEED,
    doubt_of_answers,
    doubt_of_context,
    doubt_of_estimates,
    doubt_of_needs,
    doubt_of_own_memory,
    doubt_of_second,
    find_evaluation,
    is_evaluation,
    says_training,
)
from registry.tables.guess_settings import guess_pivots, guess_table, names_cards
from registry.tables.guess_words import OPEN
from registry.tables.header import read_header, spoken
from registry.tables.inline import plain_text
from registry.tables.matching import transpose
from registry.units import parse_outcome_word

if TYPE_CHECKING:
    from collections.abc import Collection

    from registry.catalogue import Catalogue
    from registry.tables.guess import Guess
    from registry.tables.guess_figures import Doubt
    from registry.tables.guess_settings import PivotGuess
    from registry.tables.matching import TableDocument
    from registry.tables.raw_table import BodyRow, RawTable
    from registry.units import OutcomeWord

#: Fewest columns of a table of several observations that may lie on its side; one of two columns
#: lists what is known of one.
_FEWEST_COLUMNS = 3

#: Longest name of a setting above the names of rows; a longer text is about the table.
_LONGEST_NAME = 30

#: Columns of the contract whose texts are listed one by one, with what each means.
LISTED: Final = (
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
_METRIC: Final = re.compile(
    r"(?i)metrics?|measure(?:ment)?s?|m[eé]tri(?:ca|que)s?|kennzahl(?:en)?|指标|指標|지표"
)
#: Metrics that a card has as well: how much it holds, and how fast it is.
_OF_MACHINES: Final = {"peak_memory", "flops_per_second"}
#: Metrics that a model has, whether it is trained or not.
_OF_MODELS: Final = ("trainable_params", "n_params")


def measured_tables(document: TableDocument, catalogue: Catalogue) -> list[RawTable]:
    """Return the tables of a document in which something looks measured."""
    return [table for table in document.tables if _is_measured(table, catalogue)]


def _is_measured(table: RawTable, catalogue: Catalogue) -> bool:
    if table.problem is not None or not table.rows:
        return False
    return look_at(table, catalogue).is_measured


@dataclass(frozen=True)
class TableLook:
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
            or bool(self.pivots and any(map(SPEED.search, self.table.heading[-1:])))
            or any(
                pivot.cell.metric != OPEN or pivot.to not in LISTED or pivot.to == "gpu_id"
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


def look_at(table: RawTable, catalogue: Catalogue) -> TableLook:
    """Return what a table looks like; on its side where its rows, not its columns, are measured.

    They are where the first column says that it names metrics, or all of its cells do.
    """
    look = _look_upright(table, catalogue)
    first = look.texts_of_first()
    is_list = len(table.columns) < _FEWEST_COLUMNS
    names_metrics = _name_metrics(first) if is_list else _are_metrics(first)
    names_metrics = names_metrics or _are_of_other_kinds(table)
    is_upright = look.is_measured and not (names_metrics or _METRIC.fullmatch(table.columns[0]))
    if is_upright or (is_list and not names_metrics):
        return look
    turned = _without_long_label(_look_upright(transpose(table), catalogue, is_list=is_list))
    is_better = turned.is_measured and (names_metrics or not turned.pivots)
    return replace(turned, is_transposed=True) if is_better else look


def _are_of_other_kinds(table: RawTable) -> bool:
    """Return whether the figures of every column after the first are of several kinds: of its rows.

    They are amounts of memory in one row, and times in another.
    """
    places = range(1, len(table.columns))
    kinds = [{dimension_of(row.cells[place].text) for row in table.rows} for place in places]
    return bool(kinds) and all({"memory", "duration"} <= of_column for of_column in kinds)


def _without_long_label(turned: TableLook) -> TableLook:
    """Return a look at a table on its side whose first header cell, if it is a text, says nothing.

    It stands above the names of the rows, and need not name what the other columns are.
    """
    name = turned.table.columns[0]
    guess = turned.guesses.get(name)
    if guess is None or len(name) <= _LONGEST_NAME:
        return turned
    return replace(turned, guesses=turned.guesses | {name: replace(guess, to=None)})


def _name_metrics(texts: list[str]) -> bool:
    """Return whether texts name metrics, in a list of what is known of one run.

    One is enough beside what a run is of, its model or its cards.
    """
    n_metrics = sum(guess_metric(text).metric is not None for text in texts)
    return n_metrics > 1 or (n_metrics == 1 and any(map(_names_what_ran, texts)))


def _names_what_ran(text: str) -> bool:
    return guess_metric(text).metric is None and guess_setting(text) in ("model_id", "gpu_id")


def _are_metrics(texts: list[str]) -> bool:
    """Return whether texts name what rows measure, such as ``Memory (GB)`` and ``Speed``."""
    named = [guess_metric(text).metric is not None for text in texts]
    pairs = zip(texts, named, strict=True)
    return (
        len(texts) > 1 and any(named) and all(is_named or SPEED.search(t) for t, is_named in pairs)
    )


def _look_upright(table: RawTable, catalogue: Catalogue, *, is_list: bool = False) -> TableLook:
    """Return what a table looks like as it stands; a list of what is known of one run has one."""
    guesses = guess_table(table, catalogue)
    context = doubt_of_context((*table.heading[-1:], *table.prose))
    context = context or doubt_of_estimates((*reversed(table.prose), *reversed(table.heading)))
    context = context or doubt_of_needs(table.columns) or _doubt_of_corner(table, guesses)
    guesses = _doubt_machine(guesses) if is_list else guesses
    pivots = [] if is_list else guess_pivots(table, guesses, catalogue)
    if context is not None:
        guesses = {name: _with_doubt(guess, context) for name, guess in guesses.items()}
        pivots = [replace(pivot, cell=_with_doubt(pivot.cell, context)) for pivot in pivots]
    answers = doubt_of_answers(list(map(spoken, table.columns))) if context is None else None
    if answers is not None:
        guesses = {
            name: guess if says_training(name) or guess.doubt else _with_doubt(guess, answers)
            for name, guess in guesses.items()
        }
        pivots = [replace(pivot, cell=_with_doubt(pivot.cell, answers)) for pivot in pivots]
    pivoted = {name for pivot in pivots for name in pivot.names}
    others = {name: guess for name, guess in guesses.items() if name not in pivoted}
    others = _doubt_second(others)
    look = TableLook(table, others, pivots)
    of_cards = [name for name in others if names_cards(name, catalogue)]
    return replace(look, guesses=_with_failures(look, of_cards if len(of_cards) > 1 else []))


def _doubt_of_corner(table: RawTable, guesses: dict[str, Guess]) -> Doubt | None:
    """Return why figures may be of no training where the name of the first column says evaluation.

    It stands above what the figures are called, or what they are of.
    """
    name = table.columns[0]
    is_of_names = not guesses[name].is_figures and is_evaluation(name)
    return find_evaluation(name) if is_of_names else None


def _doubt_machine(guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Return guesses of a list in which only what a card has looks measured, beside the card."""
    metrics = {guess.metric for guess in guesses.values()} - {None}
    has_card = any(guess.to == "gpu_id" for guess in guesses.values())
    if not metrics or not metrics <= _OF_MACHINES or not has_card:
        return guesses
    return {
        name: replace(guess, doubt=guess.doubt or doubt_of_own_memory(name))
        if guess.metric
        else guess
        for name, guess in guesses.items()
    }


def _doubt_second(guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Return guesses of which every whole time but the first is in doubt: a run has one."""
    times = [
        name
        for name, guess in guesses.items()
        if guess.metric == "total_time" and guess.doubt is None and not guess.parts
    ]
    doubts = {name: doubt_of_second(times[0]) for name in times[1:]}
    return guesses | {name: replace(guesses[name], doubt=doubt) for name, doubt in doubts.items()}


def _with_doubt(guess: Guess, doubt: Doubt) -> Guess:
    return replace(guess, doubt=doubt) if guess.metric not in (None, OPEN, *_OF_MODELS) else guess


def _with_failures(look: TableLook, of_cards: Collection[str]) -> dict[str, Guess]:
    """Return what columns look like: one like nothing else that speaks of failures is an outcome's.

    Only one can be; of others that say the same, an import tells. Failures among numbers, and those
    of several columns ``of_cards``, are of the setting that the column is, not of the row's run.
    """
    guesses = dict(look.guesses)
    if any(guess.to == "outcome" for guess in guesses.values()):
        return guesses
    for name, guess in look.guesses.items():
        is_free = guess.to is None and guess.metric is None and guess.doubt is None
        said = read_failures(name, look) if is_free else {}
        if any(word is not None for word in said.values()):
            guesses[name] = replace(guess, says_failures=True)
            has_numbers = any(word is None and _is_given_number(t) for t, word in said.items())
            if not has_numbers and name not in of_cards:
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


def read_failures(name: str, look: TableLook) -> dict[str, OutcomeWord | None]:
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
