"""Files of others in one file of ours: JSON lines, each with a name and what is kept of its text.

A line holds ``name`` and one of ``json`` (the document), ``text``, or ``lines`` (text by number,
where only some lines are kept).
"""

from __future__ import annotations

import contextlib
import json
import re
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SourceError, SubmissionError
from registry.reading.json_reader import parse_json, read_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: Names of packed files, in a source's folder.
PACKED: Final = "files*.jsonl"

#: Largest packed file, in bytes: what a version control system still shows.
_LARGEST: Final = 1_900_000

#: Last line of a file that may be kept: the lines between are filled in when it is unpacked.
_MOST_LINES: Final = 5_000_000


#: Most characters of a source's files once unpacked: six times those of the largest of the records.
_MOST_UNPACKED: Final = 16 * 2**20

#: What a file counts beside its text, so that empty ones come to an end too.
_FILE_COSTS: Final = 64


def pack_files(
    named: Mapping[str, str], *, keep: str | None = None, cut: str | None = None
) -> Iterator[str]:
    """Yield the contents of packed files, each of at most 1.9 MB.

    ``named`` are texts by name. ``keep`` is a regular expression: of a text that is no JSON only
    the lines stay in which it is found. What ``cut`` matches is left out of each line.
    """
    packed: list[str] = []
    size = 0
    for name, text in named.items():
        line = json.dumps(_pack(name, text, keep, cut), ensure_ascii=False, separators=(",", ":"))
        added = len(line.encode()) + 1
        if packed and size + added > _LARGEST:
            yield "".join(packed)
            packed, size = [], 0
        packed.append(f"{line}\n")
        size += added
    if packed:
        yield "".join(packed)


def _pack(name: str, text: str, keep: str | None, cut: str | None) -> dict[str, Any]:
    if name.endswith(".json"):
        with contextlib.suppress(SubmissionError):  # else it stays as it is written
            return {"name": name, "json": parse_json(text, origin=name)}
        return {"name": name, "text": text}
    if not keep and not cut:
        return {"name": name, "text": text}
    lines = {
        str(number): re.sub(cut, "", line) if cut else line
        for number, line in enumerate(text.splitlines(), start=1)
        if keep is None or re.search(keep, line)
    }
    return {"name": name, "lines": lines}


def unpack_files(folder: Path, into: Path) -> list[Path]:
    """Write the files that a source's folder has packed, under their names; return their paths.

    Lines that were left out are empty, so that the others keep their numbers.

    Raises:
        SourceError: a packed file is not as it must be, names no place inside ``into``, or is too
            large once unpacked.
    """
    written: list[Path] = []
    size = 0
    for packed in sorted(folder.glob(PACKED)):
        text = read_text(packed, origin=str(packed))
        for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
            origin = f"{packed}, line {number}"
            path = into / _read_name(parsed := parse_json(line, origin=origin), origin)
            if path.exists():
                raise SourceError(f"{origin}: found {parsed['name']!r} again, expected it once")
            unpacked = _unpack(parsed, origin)
            size += len(unpacked) + _FILE_COSTS
            if size > _MOST_UNPACKED:
                raise SourceError(
                    f"{origin}: found more than {_MOST_UNPACKED} characters in the files so far; "
                    "expected fewer; keep only the lines that are read (`registry source new DOC "
                    "--keep REGEX`), or make two sources of it"
                )
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(unpacked, encoding="utf-8", newline="")
            written.append(path)
    return written


def _read_name(parsed: Any, origin: str) -> str:
    name = parsed.get("name") if isinstance(parsed, dict) else None
    path = PurePosixPath(name) if isinstance(name, str) else PurePosixPath("/")
    if path.is_absolute() or ".." in path.parts or not path.name or "\\" in str(path):
        raise SourceError(
            f"{origin}: found the name {name!r}; expected that of a file, without .. and without "
            "a slash in front"
        )
    return str(path)


def _unpack(parsed: Mapping[str, Any], origin: str) -> str:
    if isinstance(text := parsed.get("text"), str):
        return text
    if "json" in parsed:
        return json.dumps(parsed["json"], ensure_ascii=False)
    lines = parsed.get("lines")
    if isinstance(lines, dict) and all(_is_line(*item) for item in lines.items()):
        return "".join(_fill_in({int(number): line for number, line in lines.items()}))
    raise SourceError(f"{origin}: found no json, text or lines by number, expected one of them")


def _is_line(number: str, text: Any) -> bool:
    return isinstance(text, str) and number.isdecimal() and 0 < int(number) <= _MOST_LINES


def _fill_in(lines: Mapping[int, str]) -> Iterable[str]:
    before = 0
    for number, line in sorted(lines.items()):
        yield "\n" * (number - before - 1)
        yield f"{line}\n"
        before = number
