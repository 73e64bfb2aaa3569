r"""Regular expressions that somebody else wrote: they end in time, whatever they are matched with.

The engine is RE2 (the package ``google-re2``), whose time grows with the text's length alone. The
package ``regex`` can be told to stop, but not while it expands ``((a{1000}){1000}){1000}``. RE2 has
neither lookarounds nor references back, and its ``\d``, ``\w`` and ``\s`` are ASCII.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Longest pattern, in characters, and the memory it may take once compiled, in bytes.
_LONGEST_PATTERN: Final = 2000
_MOST_MEMORY: Final = 4 * 2**20


class PatternMatch(Protocol):
    """What a pattern found: groups by number or name, as Python's ``re`` has them."""

    def __getitem__(self, group: int | str) -> str | None: ...  # noqa: D105 - as in re
    def span(self, group: int) -> tuple[int, int]: ...  # noqa: D102 - as in re
    def groupdict(self) -> dict[str, str | None]: ...  # noqa: D102 - as in re


class Pattern(Protocol):
    """A compiled regular expression, as Python's ``re`` has them."""

    groups: int
    groupindex: Mapping[str, int]

    def fullmatch(self, text: str, pos: int = ..., endpos: int = ...) -> PatternMatch | None: ...  # noqa: D102
    def search(self, text: str) -> PatternMatch | None: ...  # noqa: D102


@lru_cache(maxsize=1024)
def compile_pattern(text: str) -> Pattern:
    """Return a regular expression; raise ValueError where the text is none, or is too large."""
    import re2  # noqa: PLC0415 - only where somebody's pattern is used

    if len(text) > _LONGEST_PATTERN:
        raise ValueError(
            f"found a pattern of {len(text)} characters, expected at most {_LONGEST_PATTERN}"
        )
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MOST_MEMORY
    try:
        compiled: Any = re2.compile(text, options)
    except re2.error as error:
        raise ValueError(
            f"found pattern {text!r}, expected a regular expression ({_reason(error)}); "
            "lookarounds and references back are not supported"
        ) from None
    return compiled  # type: ignore[no-any-return]


def _reason(error: Exception) -> str:
    found = error.args[0] if error.args else error
    return found.decode(errors="replace") if isinstance(found, bytes) else str(found)
