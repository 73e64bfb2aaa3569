"""The plain text of a cell: links, emphasis, code marks and tags taken off, as GitHub shows it."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from markdown_it.token import Token

_PARSER: Final = MarkdownIt("commonmark").enable("strikethrough")
_MARKUP: Final = re.compile(r"[*_`~\\<&\[!]")

_NO_BREAK: Final = re.compile(r"(?<![0-9])[\u00a0\u202f]|[\u00a0\u202f](?![0-9]{3}(?![0-9]))")

#: A ten of which a raised number is the power.
_TEN: Final = re.compile(r"(?<![\d.,])10$")

#: Longer texts are no figures or names, and are left as they are.
_LONGEST: Final = 2000


def plain_text(cell: str) -> str:
    """Return a cell's text without markup; marks of footnotes stay.

    What is struck through stays so: a source that strikes a figure out has withdrawn it. A space
    at which no line may break is a space, but inside of a number, where it parts thousands.

    >>> plain_text("[**A100** 40GB](https://example.org)"), plain_text("**4440***")
    ('A100 40GB', '4440*')
    """
    text = _NO_BREAK.sub(" ", cell.strip())
    if len(text) > _LONGEST or not _MARKUP.search(text):
        return text
    return _render(text)


@lru_cache(maxsize=65536)
def _render(text: str) -> str:
    (inline,) = _PARSER.parseInline(text)
    return _join(inline.children or ()).strip()


def _join(tokens: Sequence[Token]) -> str:
    text = ""
    for token in tokens:
        if token.type in ("text", "code_inline", "text_special"):
            text += token.content
        elif token.type in ("softbreak", "hardbreak"):
            text += "\n"
        elif token.type in ("s_open", "s_close"):
            text += "~~"
        elif token.type == "image":
            text += _join(token.children or ())
        elif token.type == "html_inline":
            text += _tag(token.content, text)
    return text


def _tag(tag: str, before: str) -> str:
    """Return what a tag stands for: a line break, or a mark."""
    name = re.sub(r"[^a-z0-9/]", "", tag.lower().split()[0])
    if name in ("br", "br/", "p", "/p", "li"):
        return "\n"
    return mark_of_tag(name, before)


def mark_of_tag(name: str, before: str) -> str:
    """Return how a tag is written in a cell: the mark of a footnote, a power, what is struck out.

    ``name`` has a slash in front where the tag ends; ``before`` is the cell's text so far.

    >>> mark_of_tag("sup", "9.5"), mark_of_tag("/sup", "9.5[^1"), mark_of_tag("sup", "3 x 10")
    ('[^', ']', '^')
    """
    if name == "sup":
        return "^" if _TEN.search(before) else "[^"
    if name == "/sup":
        return "]" if before.rfind("[^") > before.rfind("]") else ""
    if name in ("s", "/s", "del", "/del", "strike", "/strike"):
        return "~~"
    return ""
