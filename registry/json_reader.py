"""Read JSON that somebody else wrote: strictly, within limits, with errors that name the place."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, BinaryIO

from registry.errors import SubmissionError

if TYPE_CHECKING:
    from pathlib import Path

#: Largest submission that is read, in bytes: about a hundred thousand observations.
LARGEST_DOCUMENT = 256 * 2**20

#: Deepest nesting that is read; a submission has five levels.
DEEPEST_NESTING = 64

_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|NaN|-?Infinity')


def read_json_file(path: Path, *, limit: int = LARGEST_DOCUMENT) -> Any:
    """Return the JSON document in a file; raise SubmissionError where it is not one."""
    try:
        with path.open("rb") as file:
            return read_json_stream(file, origin=str(path), limit=limit)
    except OSError as error:
        raise SubmissionError(
            f"cannot be read: {error.strerror or error}; expected a readable file",
            origin=str(path),
        ) from None


def read_json_stream(file: BinaryIO, *, origin: str, limit: int = LARGEST_DOCUMENT) -> Any:
    """Return the JSON document in a stream of bytes, of which at most ``limit`` are read."""
    return parse_json(read_text(file, origin=origin, limit=limit), origin=origin)


def read_text(file: BinaryIO, *, origin: str, limit: int = LARGEST_DOCUMENT) -> str:
    """Return the UTF-8 text of a stream, of which at most ``limit`` bytes are read."""
    data = file.read(limit + 1)
    if len(data) > limit:
        raise SubmissionError(
            f"longer than {limit} bytes; expected a document below that; split it, or hand in "
            "whole tables (a folder as `registry export` writes it)",
            origin=origin,
        )
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SubmissionError(
            f"byte {error.start}: not UTF-8; expected JSON in UTF-8; save it in that encoding",
            origin=origin,
        ) from None


def parse_json(text: str, *, origin: str) -> Any:
    """Return the document in a JSON text: no duplicate keys, no NaN, bounded nesting."""
    if not text.strip():
        raise SubmissionError("found nothing; expected a JSON document", origin=origin)
    reject = _Reject(text, origin)
    try:
        document = json.loads(
            text, object_pairs_hook=reject.duplicate_keys, parse_constant=reject.constant
        )
    except json.JSONDecodeError as error:
        raise SubmissionError(
            f"line {error.lineno}, column {error.colno}: {error.msg.lower()}; expected JSON; "
            "check that the file is complete",
            origin=origin,
        ) from None
    except RecursionError:
        document = None
        too_deep = True
    except ValueError as error:  # an integer of more digits than Python converts
        raise SubmissionError(f"{error}; expected figures of this world", origin=origin) from None
    else:
        too_deep = _is_deeper(document, DEEPEST_NESTING)
    if too_deep:
        raise SubmissionError(
            f"nested deeper than {DEEPEST_NESTING} levels; expected a submission, which has five",
            origin=origin,
        )
    return document


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
                f"key {twice!r} stands twice in one object; expected once; remove one",
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


def _is_deeper(document: Any, limit: int) -> bool:
    level = [document]
    for _ in range(limit):
        level = [child for item in level for child in _children(item)]
        if not level:
            return False
    return True


def _children(item: Any) -> list[Any]:
    if isinstance(item, dict):
        return [child for child in item.values() if isinstance(child, dict | list)]
    if isinstance(item, list):
        return [child for child in item if isinstance(child, dict | list)]
    return []
