"""What stands around the tables of Markdown: headings, bold lines, prose, captions, folds.

A caption stands above its table or below it; in which of the two places a document has them, a
section shows as a whole (`move_captions`). What ``<details>`` folds away has headings of its own.
"""

from __future__ import annotations

import html
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.tables.raw_table import DraftTable

_ENTITY = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|\w+);")
_TAG = re.compile(r"<[^<>]*>")
_TICKS = re.compile("`+")
_NO_CAPTION = re.compile(r"\s*(?:[-*+!<|]|\d+[.)])|.*[.!?;\u3002\uff01\uff1f\uff1b]\s*$")
_MAX_CAPTION_CHARACTERS = 60
#: A caption that says of the how manieth table it is.
_NUMBERED = re.compile(
    r"[*_\s]*(?:tab(?:le|elle|leau|la|ela)?\.?|таблица|表格?)\s*(?P<number>[0-9]{1,3})"
    r"\s*(?:[:.|\uff1a\u3001(\u2013\u2014*_-]|$)",
    re.IGNORECASE,
)
_ITALIC = re.compile(r"(?:([*_])(?![*_\s]).+(?<![*_\s])\1|<(em|i)>.+</\2>)")
_LINK = re.compile(r"!?\[([^\[\]]*)\]\([^()\s]*(?:\s[^()]*)?\)")
_DETAILS = re.compile(r"<(/?)details\b[^>]*>", re.IGNORECASE)
_SUMMARY = re.compile(
    r"<details\b[^>]*>\s*<summary\b[^>]*>(.*?)</summary\s*>", re.IGNORECASE | re.DOTALL
)
_MOST_SUMMARY_LINES = 4
_MOST_PARAGRAPHS, _LONGEST_PARAGRAPH = 2, 600


@dataclass
class Headings:
    """What stands above the current line."""

    outer: tuple[str, ...] = ()
    levels: dict[int, str] = field(default_factory=dict)
    bold: str = ""
    paragraph: list[str] = field(default_factory=list)
    is_paragraph_open: bool = False
    prose: list[list[str]] = field(default_factory=list)
    #: The first block since the last table, and how many there are.
    first: list[str] = field(default_factory=list)
    n_blocks: int = 0
    is_bold_last: bool = False

    def add_heading(self, level: int, text: str) -> None:
        """Note a heading: it ends those of its level and below."""
        self.levels = {above: kept for above, kept in self.levels.items() if above < level}
        if text:
            self.levels[level] = text
        self.bold = ""
        self.prose = []
        self.end_block()

    def add_bold(self, text: str) -> None:
        """Note a line that is all bold."""
        self.bold = text
        self.end_block()
        self.n_blocks += 1
        self.first = [f"**{text}**"] if self.n_blocks == 1 else self.first
        self.is_bold_last = True

    def add_text(self, line: str) -> None:
        """Note a line of a paragraph."""
        if not self.is_paragraph_open:
            self.paragraph = []
            self.n_blocks += 1
            self.first = self.paragraph if self.n_blocks == 1 else self.first
            self.prose = [*self.prose[1 - _MOST_PARAGRAPHS :], []]
        self.paragraph.append(line.strip())
        self.prose[-1].append(line.strip())
        self.is_paragraph_open = True

    def end_block(self) -> None:
        """Forget the paragraph: something else now stands between it and what follows."""
        self.paragraph, self.is_paragraph_open, self.is_bold_last = [], False, False

    def end_table(self) -> None:
        """Forget what stood above a table."""
        self.prose, self.first, self.n_blocks = [], [], 0
        self.end_block()

    def paragraphs(self) -> tuple[str, ...]:
        """Return the last paragraphs since the heading, for people to read."""
        return tuple(" ".join(lines)[:_LONGEST_PARAGRAPH] for lines in self.prose if lines)

    def path(self) -> tuple[str, ...]:
        """Return the headings above, then the bold line and the caption where there are such."""
        parts = [self.levels[level] for level in sorted(self.levels)]
        return tuple(part for part in (*self.outer, *parts, self.bold, self.caption()) if part)

    def open_details(self, summary: str) -> Headings:
        """Return what stands above what a ``<details>`` folds away."""
        path = self.path()
        return Headings((*path, summary) if summary else path)

    def caption_above(self) -> str:
        """Return the caption, or the bold line, right above."""
        return self.caption() or (self.bold if self.is_bold_last else "")

    def caption_below(self) -> tuple[str, bool]:
        """Return the line right below the last table that may be its caption, and if it is plain.

        One with the number of a table may be long, and others may follow it; so may one in italics.
        """
        line = self.first[0] if len(self.first) == 1 else ""
        if _NUMBERED.match(line):
            return clean_heading(_first_sentence(line.replace("**", ""))), False
        if _ITALIC.fullmatch(line) and len(line) <= _LONGEST_PARAGRAPH:
            return clean_heading(line), False
        # what ends with a colon is about what follows
        is_caption = not _NO_CAPTION.match(line) and not line.endswith((":", "\uff1a"))
        is_short = len(line) <= _MAX_CAPTION_CHARACTERS and is_caption
        return (clean_heading(line) if is_short and self.n_blocks == 1 else ""), True

    def caption(self) -> str:
        """Return the short line right above that does not end like a sentence; empty for none."""
        line = self.paragraph[0] if len(self.paragraph) == 1 else ""
        is_caption = len(line) <= _MAX_CAPTION_CHARACTERS and not _NO_CAPTION.match(line)
        return clean_heading(line) if is_caption else ""


@dataclass
class PlacedTables:
    """Where tables that begin on one line stand in the list of all, and the texts around them.

    ``above`` is the caption right above, ``below`` the text of a line right below that may be one,
    ``is_plain`` says that nothing but its place makes it one.
    """

    number: int
    tables: list[DraftTable]
    places: range
    above: str
    below: str = ""
    is_plain: bool = True

    def move_caption(self, taken: str) -> None:
        """Give the tables the caption below them, and take away that of the table before."""
        for at in self.places:
            table = self.tables[at]
            heading = [text for text in table.heading if not taken or text != taken]
            prose = tuple(text for text in table.prose if not taken or clean_heading(text) != taken)
            caption = [self.below] if self.below else []
            self.tables[at] = replace(table, heading=(*heading, *caption), prose=prose)


def move_captions(section: Sequence[PlacedTables]) -> None:
    """Move the captions of a section's tables where they stand below them, not above.

    They do where the number in one of them is that of the table above it; and where there is one
    below each table and none above the first, unless that is one short line below one table.
    """
    numbers = [(placed, _NUMBERED.match(placed.below)) for placed in section]
    is_numbered = any(found and int(found["number"]) == one.number for one, found in numbers)
    is_even = all(placed.below for placed in section) and not any(p.above for p in section[:1])
    is_told = len(section) > 1 or not any(placed.is_plain for placed in section)
    if is_numbered or (is_even and is_told):
        before = ["", *(placed.below for placed in section)]
        for placed, taken in zip(section, before, strict=False):
            placed.move_caption(taken)


@dataclass(frozen=True)
class Fold:
    """Where a ``<details>`` opens, with its summary and the lines that this takes, or closes."""

    opens: bool
    summary: str = ""
    n_lines: int = 1


def find_folds(lines: list[str]) -> dict[int, list[Fold]]:
    """Return by line where a ``<details>`` opens and where it closes; one never closed is none."""
    opened: list[tuple[int, int]] = []
    found: dict[int, list[Fold]] = {}
    for number, line in enumerate(lines):
        if "details" not in line.lower():
            continue
        for tag in _DETAILS.finditer(without_code_spans(line)):
            if not tag[1]:
                opened.append((number, len(found.setdefault(number, []))))
                found[number].append(_read_fold(lines, number))
            elif opened:
                opened.pop()
                found.setdefault(number, []).append(Fold(opens=False))
    for number, place in reversed(opened):
        del found[number][place]
    return found


def _read_fold(lines: list[str], number: int) -> Fold:
    """Return the ``<details>`` that a line opens, called as its summary there or right below."""
    below = "\n".join(lines[number : number + _MOST_SUMMARY_LINES])
    summary = _SUMMARY.match(below[below.lower().index("<details") :])
    if summary is None:
        return Fold(opens=True)
    before = below[: below.lower().index("<details") + summary.end()]
    text = " ".join(summary[1].split())
    return Fold(opens=True, summary=clean_heading(text), n_lines=before.count("\n") + 1)


def _first_sentence(line: str) -> str:
    """Return a caption without the explanations that follow in a long one."""
    end = re.search(r"[.\u3002](?=\s|$)", line[_MAX_CAPTION_CHARACTERS // 3 :])
    is_long = len(line) > _MAX_CAPTION_CHARACTERS
    return line[: _MAX_CAPTION_CHARACTERS // 3 + end.start()] if is_long and end else line


def without_summaries(text: str) -> str:
    """Return HTML without the names of its folds, each on as many lines as before."""
    return _SUMMARY.sub(lambda found: "<details>" + "\n" * found[0].count("\n"), text)


def decode_entities(text: str) -> str:
    """Return a text with the characters that its entities stand for."""
    return _ENTITY.sub(lambda entity: html.unescape(entity[0]), text)


def clean_heading(text: str) -> str:
    """Return a heading's text without tags, links, emphasis and a colon at its end."""
    bare = _LINK.sub(r"\1", _TAG.sub("", text)).replace("\\*", "*")
    return decode_entities(bare).strip(" \t*_:\uff1a")


def without_code_spans(line: str) -> str:
    """Return a line without its code spans, in a time that grows with its length alone.

    >>> without_code_spans("a `b` c ``d ` e`` f `")
    'a  c  f `'
    """
    runs = [match.span() for match in _TICKS.finditer(line)]
    closing: dict[int, int] = {}  # the next run of each, of the same length
    latest: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        if length in latest:
            closing[number] = latest[length]
        latest[length] = number
    kept, place, number = [], 0, 0
    while number < len(runs):
        if number in closing:
            kept.append(line[place : runs[number][0]])
            number = closing[number]
            place = runs[number][1]
        number += 1
    return "".join((*kept, line[place:]))
