"""Errors a user can meet, one class per boundary.

Every message says where, what was found, what was expected and the way out, in one paragraph.
"""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


#: Folders that stand for something else, and what messages call them.
_SHOWN: dict[str, str] = {}


def show_as(folder: str, name: str) -> None:
    """Have messages name a folder by what it is a private copy of."""
    _SHOWN[folder] = name


def shown(text: object) -> str:
    """Return a text with private copies named by what they are copies of."""
    found = str(text)
    for folder, name in _SHOWN.items():
        found = found.replace(folder, name)
    return found


class RegistryError(Exception):
    """Base of all errors that are caused by the input or the machine, not by a bug."""

    def __str__(self) -> str:
        """Return the message."""
        return shown(super().__str__())


class UnitError(RegistryError):
    """A text does not state a quantity unambiguously."""


class ContractError(RegistryError):
    """The contract in ``schemas/`` contradicts itself or cannot be read."""


class SubmissionError(RegistryError):
    """A submission is not valid; ``problems`` holds one message per place."""

    def __init__(self, problems: str | list[str], *, origin: str = "submission") -> None:
        self.problems = [problems] if isinstance(problems, str) else problems
        self.origin = origin
        place = f"{origin}: " if origin else ""
        super().__init__("\n".join(f"{place}{problem}" for problem in self.problems))


class SourceError(RegistryError):
    """A document or its mapping cannot be read."""


class StoreError(RegistryError):
    """A registry's folder is missing, damaged, unwritable or from a newer version."""


class MissingRegistryError(StoreError):
    """The named registry does not exist."""


class QueryError(RegistryError):
    """A query is not valid, or tries to read what it may not."""


class QueryTimeoutError(QueryError):
    """A query exceeded its time limit and was stopped."""


class QuestionError(RegistryError):
    """A prediction was requested for something that cannot be run or is not known."""


class FilterError(RegistryError):
    """A filter of a list or a chart names something that does not exist."""


class ChartError(RegistryError):
    """A chart cannot be drawn, or would pool what must stay separate."""


class MissingExtraError(RegistryError):
    """A package of an optional extra is not installed."""


def excerpt(value: object, width: int = 60) -> str:
    """Return what was found as a message shows it: cut where it is long.

    >>> excerpt(None), excerpt("abcdefgh", width=6)
    ('null', "'abcd…")
    """
    try:
        text = "null" if value is None else repr(value)
    except RecursionError:
        text = "a value nested too deeply"
    except ValueError:  # of an integer, Python writes so many digits only
        text = "an integer of thousands of digits"
    return text if len(text) <= width else text[: width - 1] + "…"


#: Near words among which one of the same letters is looked for: two letters changed places.
_NEAREST = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'x'?"`` for the nearest known word, or an empty string.

    Case is ignored. Of the nearest words, one of the same letters comes first.

    >>> did_you_mean("quant_bit", ["quant_bits", "seq_len"])
    "; did you mean 'quant_bits'?"
    >>> did_you_mean("lroa", ["road", "lora"])
    "; did you mean 'lora'?"
    """
    by_folded = {name.lower(): name for name in known}
    near = get_close_matches(word.lower(), list(by_folded), n=_NEAREST, cutoff=0.6)
    near.sort(key=lambda name: sorted(name) != sorted(word.lower()))
    return f"; did you mean {by_folded[near[0]]!r}?" if near else ""
