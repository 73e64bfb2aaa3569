"""Text that was written by others, made safe to read on a terminal, and made into ids."""

from __future__ import annotations

import re
from json.encoder import encode_basestring_ascii
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def escape_unprintable(text: str, keep: str = "") -> str:
    r"""Return ``text`` with every character that a terminal would act on, or hide, as JSON has it.

    These are control characters, line and paragraph separators, spaces that are not the plain one,
    what changes the direction of the text, and what has no width. Those in ``keep`` stay.

    >>> print(escape_unprintable("a\tb\u202ec\x9b"))
    a\tb\u202ec\u009b
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c in keep else _escape(c) for c in text)


def _escape(character: str) -> str:
    # no codec: the query's process could not load one any more
    return encode_basestring_ascii(character)[1:-1]


def format_count(n: int, noun: str) -> str:
    """Return a number with its noun.

    >>> format_count(1, "table"), format_count(2, "table")
    ('1 table', '2 tables')
    """
    return f"{n} {noun}{'' if n == 1 else 's'}"


def format_markdown_table(
    head: Sequence[str], rows: Iterable[Sequence[str]], rules: Sequence[str] = ()
) -> str:
    r"""Return a Markdown table, in whose cells a bar is no border.

    >>> print(format_markdown_table(("a", "b"), [("1", "2|3")]))
    | a | b |
    | --- | --- |
    | 1 | 2\|3 |
    """
    lines = (head, rules or ("---",) * len(head), *rows)
    cells = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(line)} |" for line in cells)


def lower_first(text: str) -> str:
    """Return a sentence as it stands inside another: not in capitals, unless it begins with some.

    >>> lower_first("Hash of all."), lower_first("SHA-256 of all.")
    ('hash of all.', 'SHA-256 of all.')
    """
    return text if text[:2].isupper() else text[:1].lower() + text[1:]


def format_slug(text: str, otherwise: str = "unknown") -> str:
    """Return a text as a lower-case slug; ``otherwise`` where none of it can stand in one.

    >>> format_slug("NVIDIA GeForce RTX 3090")
    'nvidia-geforce-rtx-3090'
    """
    return re.sub(r"[^a-z0-9._-]+", "-", text.lower()).strip("-._") or otherwise
