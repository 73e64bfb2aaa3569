"""Read JSON that somebody else wrote: strictly, within limits, with errors that name the place."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, BinaryIO, Final

from registry.errors import SubmissionError
from registry.reading.bounded_file import ReadingError, decode_text, read_bytes, read_stream

#: Largest submission that is read, in bytes: about a hundred thousand observations.
LARGEST_DOCUMENT: Final = 256 * 2**20

#: Most values of a document, of which each takes some hundred bytes of memory, however short it is.
MOST_VALUES: Final = 20_000_000

_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')


def read_json_file(path: Path, *, limit: int = LARGEST_DOCUMENT) -> Any:
    """Return the JSON document in a file; raise SubmissionError where it is not one."""
    return parse_json(read_text(path, origin=str(path), limit=limit), origin=str(path))


def read_text(source: Path | BinaryIO, *, origin: str, limit: int = LARGEST_DOCUMENT) -> str:
    """Return the UTF-8 text of a regular file or of an open stream, at most ``limit`` bytes.

    Raises SubmissionError where it cannot be read, is longer or is no UTF-8.
    """
    try:
        if isinstance(source, Path):
            data = read_bytes(source, limit=limit, what="a document")
        else:
            data = read_stream(source, limit=limit, what="a document", origin=origin)
        return decode_text(data, origin=origin)
    except ReadingError as error:
        raise SubmissionError(error.reason, origin=origin) from None


def check_values(text: str, *, origin: str) -> None:
    """Raise SubmissionError where a text holds more values than fit into the memory."""
    if has_many_values(text):
        raise SubmissionError(
            f"found more than {MOST_VALUES} values; expected fewer in one document; split it",
            origin=origin,
        )


def has_many_values(text: str) -> bool:
    """Return whether a JSON text holds too many values, by the marks between and around them."""
    return len(text) > MOST_VALUES and sum(map(text.count, ",[{")) > MOST_VALUES


def parse_json(text: str, *, origin: str) -> Any:
    """Return the document in a JSON text: no duplicate keys, no NaN, no endless nesting."""
    if not text.strip():
        raise SubmissionError("found nothing; expected a JSON document", origin=origin)
    reject = _Reject(text, origin)
    try:
        return json.loads(
            text, object_pairs_hook=reject.duplicate_keys, parse_constant=reject.constant
        )
    except json.JSONDecodeError as error:
        problem = (
            f"line {error.lineno}, column {error.colno}: {error.msg.lower()}; expected JSON; "
            "check that the file is complete"
        )
    except RecursionError:
        problem = "nested too deeply; expected a submission, which has five levels"
    except ValueError:  # an integer of more digits than Python converts
        digits = sys.get_int_max_str_digits()
        problem = (
            f"found an integer of more than {digits} digits; expected a number that its column "
            "can hold"
        )
    raise SubmissionError(problem, origin=origin)


class _Reject:
    """Hooks of the JSON parser that refuse what JSON allows but no document should hold."""

    def __init__(self, text: str, origin: str) -> None:
        self.text = text
        self.origin = origin

    def duplicate_keys(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        document = dict(pairs)
        if len(document) < len(pairs):
            seen: set[str] = set()
            twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
            raise SubmissionError(
                f"key {twice!r} appears twice in one object; expected once; remove one",
                origin=self.origin,
            )
        return document

    def constant(self, name: str) -> float:
        raise SubmissionError(
            f"{self._place(name)}: found {name}; expected a finite number; leave the figure out "
            "where there is none",
            origin=self.origin,
        )

    def _place(self, name: str) -> str:
        """Return where a constant first stands outside of strings."""
        found = (match for match in _STRING_OR_CONSTANT.finditer(self.text) if match[0] == name)
        start = next(found).start()
        line_start = self.text.rfind("\n", 0, start) + 1
        return f"line {self.text.count(chr(10), 0, start) + 1}, column {start - line_start + 1}"


def is_deeper(value: Any, most: int) -> bool:
    """Return whether objects and lists stand inside each other at more than so many levels."""
    level = [value] if isinstance(value, dict | list | tuple) else []
    for _ in range(most):
        inner = (each.values() if isinstance(each, dict) else each for each in level)
        level = [v for values in inner for v in values if isinstance(v, dict | list | tuple)]
    return bool(level)
