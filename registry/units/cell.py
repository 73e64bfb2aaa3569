"""Table cells that hold more than one figure, a mark, or a word in the place of a figure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from registry.contract.resources import read_yaml
from registry.units.number import MAX_TEXT, unit_error

_BOLD = re.compile(r"\*\*(?P<text>.+?)\*\*(?P<marks>\*{0,3})", re.DOTALL)
_FOOTNOTE = re.compile(r"(?P<text>.*[^*\\\s])\s*(?P<marks>(?:\*{1,3}|[†‡]))", re.DOTALL)
_PLACEHOLDER = re.compile(r"x{2,}(?:\.x+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A cell without its marks; ``raw`` is the cell as written.

    What a footnote mark means (extrapolated, another card, …) is the source's to say.
    """

    raw: str
    text: str
    is_bold: bool
    has_footnote: bool


@dataclass(frozen=True, slots=True)
class OutcomeWord:
    """What a cell says in the place of a figure.

    ``kind`` is ``oom``, ``error``, ``no_oom`` (it fitted, no figure given), ``absent`` (no figure
    and no outcome: ``-``, ``N/A``, ``TBD``, empty) or ``other`` (no word that is known, so most
    likely a figure). ``outcome`` is the observation's outcome that follows, None where none does.
    """

    kind: Literal["oom", "error", "no_oom", "absent", "other"]
    outcome: Literal["oom", "error", "ok"] | None
    raw: str


def strip_markup(text: str) -> MarkedText:
    """Take bold and footnote marks off a cell.

    >>> strip_markup("**4440***")
    MarkedText(raw='**4440***', text='4440', is_bold=True, has_footnote=True)
    """
    bare, is_bold, has_footnote = text.strip(), False, False
    if bold := _BOLD.fullmatch(bare):
        bare, is_bold, has_footnote = bold["text"].strip(), True, bool(bold["marks"])
    if len(bare) <= MAX_TEXT and (footnote := _FOOTNOTE.fullmatch(bare)):
        bare, has_footnote = footnote["text"], True
    return MarkedText(text, bare, is_bold, has_footnote)


def split_cell(text: str, parts: int, *, where: str, separator: str = "/") -> tuple[str, ...]:
    """Split a cell of several figures, such as ``6.7G / 1.0s/it``, into exactly ``parts`` texts.

    A separator between white space is preferred to a bare one, which may belong to a unit.

    >>> split_cell("6.7G / 1.0s/it", 2, where="row 1")
    ('6.7G', '1.0s/it')

    Raises:
        UnitError: the separator does not give that many parts, or one of them is empty.
    """
    mark = re.escape(separator)
    for between in (rf"\s+{mark}\s+", rf"\s*{mark}\s*"):
        found = tuple(part.strip() for part in re.split(between, text.strip()))
        if len(found) == parts and all(found):
            return found
    raise unit_error(where, text, f"{parts} figures separated by {separator!r}")


def parse_outcome_word(text: str) -> OutcomeWord:
    """Return whether a cell holds an outcome or no figure at all. It never fails.

    ``No OOM`` is no OOM, ``N/A`` neither. A figure beside the word (``24G, OOM at 4096``) makes
    the cell ``other``: which of them counts is the mapping's to say.

    >>> parse_outcome_word("OOM ❌").outcome
    'oom'
    """
    words = read_yaml("units.yaml")["outcome_words"]
    bare = strip_markup(text).text
    word = " ".join(bare.strip(words["decoration"] + " \t\n").lower().split())
    if word in words["no_oom"]:
        return OutcomeWord("no_oom", "ok", text)
    if word in words["oom"] or word.startswith(tuple(words["oom_starts"])):
        return OutcomeWord("oom", "oom", text)
    if word in words["error"] or word.startswith(tuple(words["error_starts"])):
        return OutcomeWord("error", "error", text)
    if bare.lower() in words["absent"] or _PLACEHOLDER.fullmatch(bare):
        return OutcomeWord("absent", None, text)
    return OutcomeWord("other", None, text)
