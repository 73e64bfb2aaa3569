"""The engine's errors in the user's words: what is wrong, where, and the way out."""

from __future__ import annotations

import re
from typing import Any

from registry.text import lower_first

_KIND = re.compile(r"^[A-Za-z ]*Error: ")
_CANDIDATES = re.compile(r"\n(?:Did you mean|Candidate bindings:|Candidate tables:) *([^\n]*)")
_PLACE = re.compile(r"\n+(LINE \d+:.*)\Z", re.DOTALL)
_NO_COLUMN = re.compile(r'^Referenced column "([^"]+)" not found')
_SETTING = re.compile(r' Use "SET [^"]*" to [^.]*\.')
_QUOTED_PATH = re.compile(r'file "([^"]*)"')
_PATH_AS_TABLE = re.compile(r'Table with name "?([^"\n]*[/\\][^"\n]*?)"? does not exist')
_BUILT_IN = re.compile(r'"?(pg_|sqlite_|duckdb_|pragma_)')
_EXTENSION = re.compile(r"exists in the (\w+) extension")

_TEXT_AND_NUMBER = re.compile(
    r"(?i)could not convert string|\bVARCHAR\b.*\b(?:\w*INT\w*|DOUBLE|DECIMAL|BOOL\w*)\b"
)
_FILE_OF_OTHER_TYPES = re.compile(
    r'Error while reading file "([^"]*)": failed to cast column "([^"]*)" from type (.+?) to (.+?):'
)

#: A file that the engine cannot read: of the registry, as a query reaches no other.
_UNREADABLE_FILE = re.compile(r"""(?i)\bfile ['"](/[^'"\n]*\.parquet)['"]""")

#: How a message about a file whose columns do not fit ends.
WRITTEN_OTHERWISE = (
    "was written under another contract than this release's; rewrite it with `registry fold --all`"
)
ONLY_TABLES = "a query can reach only the registry's own tables (see them with: show tables)"


def format_bytes(count: int) -> str:
    """Return a number of bytes in binary units.

    >>> format_bytes(4 << 30), format_bytes(300 << 20)
    ('4.0 GiB', '300 MiB')
    """
    if count >= 1 << 30:
        return f"{count / (1 << 30):.1f} GiB"
    return f"{count >> 20} MiB"


def format_memory_error(memory_bytes: int) -> str:
    """Return the message of a query that needs more than it may have."""
    return (
        f"query: needs more than the {format_bytes(memory_bytes)} of memory it may use;"
        " select fewer rows or columns, aggregate earlier, or raise the memory limit"
    )


def format_timeout(seconds: float) -> str:
    """Return the message of a query that was ended at its time limit."""
    return (
        f"query: ended at its time limit of {seconds:g} s;"
        " narrow it with where or limit, or raise the limit"
    )


def format_crash(reason: str, memory_bytes: int) -> str:
    """Return the message of a query whose process ended without an answer."""
    return (
        f"query: the engine's process ended with {reason} before it answered;"
        f" it may have needed more than its {format_bytes(memory_bytes)} of memory,"
        " or have hit a bug in DuckDB: nothing but its output was touched; simplify the query"
    )


def _format_reach(text: str) -> str | None:
    """Return a message where the statement reached for a file or an extension."""
    if extension := _EXTENSION.search(text):
        return f"query: needs the extension {extension[1]!r}, but {ONLY_TABLES}"
    if path := _PATH_AS_TABLE.search(text):
        return f"query: reaches for file {path[1]!r}, but {ONLY_TABLES}"
    refused = "file system operations are disabled" in text or "Permission denied" in text
    if not refused and "has been disabled by" not in text:
        return None
    path = _QUOTED_PATH.search(text)
    what = f"file {path[1]!r}" if path else "a file"
    return f"query: reaches for {what}, but {ONLY_TABLES}"


def format_engine_error(error: Exception, memory_bytes: int) -> str:
    """Return what an error of the engine means to whoever wrote the query."""
    text = str(error)
    if type(error).__name__ == "OutOfMemoryException" or "bad_alloc" in text:
        return format_memory_error(memory_bytes)
    if other := _FILE_OF_OTHER_TYPES.search(text):
        path, column, found, expected = other.groups()
        return (
            f"query: {path}: column {column!r}: found {found}, expected {expected}; the file "
            f"{WRITTEN_OTHERWISE}"
        )
    if (path := _UNREADABLE_FILE.search(text)) and not _format_reach(text):
        reason = lower_first(_KIND.sub("", text).partition("\n")[0].rstrip("!. "))
        return (
            f"query: {path[1]}: cannot be read ({reason}); expected it as the registry wrote it; "
            "run `registry check`, which says what is wrong and what helps"
        )
    place = _PLACE.search(text)
    body = _KIND.sub("", text[: place.start()] if place else text).strip()
    message = _format_reach(text) or f"query: {_format_body(body)}"
    name = _NO_COLUMN.match(body)
    if name and place and f'"{name[1]}"' in place[1]:
        message += f"; write text in single quotes: '{name[1]}'"
    return f"{message}\n{place[1].rstrip()}" if place else message


def is_number_for_text(error: Exception) -> bool:
    """Return whether an error may come from a number where the statement needs text."""
    return type(error).__name__ in ("BinderException", "ConversionException") and bool(
        _TEXT_AND_NUMBER.search(str(error))
    )


def _format_body(body: str) -> str:
    near = _CANDIDATES.search("\n" + body)
    if near:
        body = _CANDIDATES.sub("", "\n" + body).strip()
        names = near[1].strip(" ?")
        body = body.rstrip("!. ")
        body += "" if _BUILT_IN.match(names) else f"; did you mean {names}?"
    body = _SETTING.sub(" Simplify the statement.", body)  # which cannot set anything
    return lower_first(re.sub(r"\s*\n\s*", " ", body))


def is_unknown_name(engine: Any, error: Exception) -> bool:
    """Return whether an error may vanish once all tables and views exist."""
    return isinstance(error, engine.CatalogException | engine.BinderException)
