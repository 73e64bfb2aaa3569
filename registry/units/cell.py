"""Table cells that hold more than one figure, a mark, or a word in the place of a figure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

from registry.contract.resources import read_yaml
from registry.units.number import MAX_TEXT, unit_error

if TYPE_CHECKING:
    from collections.abc import Iterator

_BOLD = re.compile(r"\*\*(?P<text>.+?)\*\*(?P<marks>\*{0,3})", re.DOTALL)
_FOOTNOTE = re.compile(
    r"(?P<text>.*[^*\\\s\u00b9\u00b2\u00b3\u2074-\u2079])\s*"
    r"(?P<marks>\*{1,3}|[†‡§¶]|[\u00b9\u00b2\u00b3\u2074-\u2079]{1,2}|\[\^[\w*†‡§¶,-]{1,8}\]"
    r"|\$\^\{?[\w*†‡§¶,-]{1,8}\}?\$)",
    re.DOTALL,
)
_RAISED = re.compile(r"\[\^(?P<mark>.+)\]|\$\^\{?(?P<formula>.+?)\}?\$")
_REMARK = re.compile(
    r"(?P<text>.*\S)\s*[(\uff08](?P<remark>[^()\uff08\uff09]+)[)\uff09]", re.DOTALL
)
_TIMES = re.compile(
    r"(?:(?P<before>[0-9]{1,5})\s*[*xX\u00d7]\s*)?(?P<text>[^*xX\u00d7]+?)(?:\s*[*xX\u00d7]\s*(?P<after>[0-9]{1,5}))?"
)
_MOST_CARDS = 10_000
_PLACEHOLDER = re.compile(r"x{2,}(?:\.x+)?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A cell without its marks; ``raw`` is the cell as written.

    What a footnote mark means (extrapolated, another card, …) is the source's to say: ``footnote``
    is the mark, None where there is none.
    """

    raw: str
    text: str
    is_bold: bool
    footnote: str | None


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
    MarkedText(raw='**4440***', text='4440', is_bold=True, footnote='*')
    """
    bare, is_bold, mark = text.strip(), False, None
    if bold := _BOLD.fullmatch(bare):
        bare, is_bold, mark = bold["text"].strip(), True, bold["marks"] or None
    if len(bare) <= MAX_TEXT and (footnote := _FOOTNOTE.fullmatch(bare)):
        bare, mark = footnote["text"], _plain_mark(footnote["marks"])
    return MarkedText(text, bare, is_bold, mark)


def _plain_mark(mark: str) -> str:
    """Return a mark as it stands without markup: ``*`` for ``[^*]``, ``[^a]`` for ``$^a$``."""
    raised = _RAISED.fullmatch(mark)
    if raised is None:
        return mark
    inner = raised["mark"] or raised["formula"]
    return inner if not inner.strip("*†‡§¶") else f"[^{inner}]"


def split_remark(text: str) -> tuple[str, str | None]:
    """Split a figure from the remark in parentheses behind it; None where there is none.

    >>> split_remark("22G (Each GPU, Need 1 GPU)")
    ('22G', 'Each GPU, Need 1 GPU')
    """
    found = _REMARK.fullmatch(text.strip()) if len(text) <= MAX_TEXT else None
    return (found["text"], found["remark"].strip()) if found else (text, None)


def split_card_list(text: str, *, where: str) -> tuple[str, ...]:
    """Return the text of each card's figure in a list over the cards.

    >>> split_card_list("61.34+73.00", where="row 1")
    ('61.34', '73.00')
    >>> split_card_list("35.65GiB*2", where="row 1")
    ('35.65GiB', '35.65GiB')

    Raises:
        UnitError: a number of cards cannot be told from a figure, as in ``8 * 74``.
    """
    if len(text) > MAX_TEXT:
        raise unit_error(where, text, f"figures of cards of at most {MAX_TEXT} characters")
    terms = [part.strip() for part in re.split(r"[+|\uff0c;]|,(?![0-9]{3})", text)]
    cards = [card for term in terms for card in _repeat(term, text, where=where)]
    if len(cards) > _MOST_CARDS:
        raise unit_error(where, text, f"at most {_MOST_CARDS} cards")
    return tuple(cards)


def _repeat(term: str, text: str, *, where: str) -> list[str]:
    found = _TIMES.fullmatch(term)
    if found is None or (found["before"] and found["after"]):
        raise unit_error(
            where, text, "figures of cards such as '8 * 74G', '61.3+73.0' or '9G | 6G'"
        )
    times = found["before"] or found["after"]
    if times and not re.search(r"[^\W\d_]", found["text"]):
        raise unit_error(where, text, "a unit that tells the figure from the number of cards")
    return [found["text"].strip()] * min(int(times or 1), _MOST_CARDS + 1)


def split_cell(text: str, parts: int, *, where: str, separator: str = "/") -> tuple[str, ...]:
    """Split a cell of several figures, such as ``6.7G / 1.0s/it``, into exactly ``parts`` texts.

    A separator between white space is preferred to a bare one, which may belong to a unit; so may
    any that no figure follows.

    >>> split_cell("6.7G / 1.0s/it", 2, where="row 1")
    ('6.7G', '1.0s/it')

    Raises:
        UnitError: the separator does not give that many parts, or one of them is empty.
    """
    for found in ways_to_split(text, separator):
        if len(found) == parts and all(found):
            return found
    raise unit_error(where, text, f"{parts} figures separated by {separator!r}")


def ways_to_split(text: str, separator: str = "/") -> Iterator[tuple[str, ...]]:
    """Yield the parts that a separator gives: between white space, anywhere, before figures only.

    >>> list(ways_to_split("6.7G/1.0s/it"))[2]
    ('6.7G', '1.0s/it')
    """
    mark = re.escape(separator)
    before_figure = rf"\s*{mark}\s*(?=[^\w\s]?\s*[0-9])"
    for between in (rf"\s+{mark}\s+", rf"\s*{mark}\s*", before_figure):
        yield tuple(part.strip() for part in re.split(between, text.strip()))


def find_failure(text: str) -> str | None:
    """Return the words of a text that say that a run failed, wherever they stand; None for none.

    >>> find_failure("OOM at step 3"), find_failure("fits, without any OOM")
    ('OOM', None)
    """
    return next((found["said"] for found in _failures().finditer(text) if found["said"]), None)


@lru_cache(maxsize=1)
def _failures() -> re.Pattern[str]:
    """Return the form of words of failures, denied or, as the group ``said``, not."""
    known = read_yaml("units.yaml")["outcome_words"]
    words = sorted((*known["oom"], *known["error"]), key=len, reverse=True)
    listed = "|".join(map(re.escape, words))
    return re.compile(
        r"(?:(?:\b(?:no|not|never|without|w/o|avoid\w*|prevent\w*)|n't)\W+(?:(?:an?|any|the)\W+)?"
        rf"|[未无非没])(?:{listed})|(?<![A-Za-z0-9])(?P<said>{listed})(?![A-Za-z0-9])",
        re.IGNORECASE,
    )


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
