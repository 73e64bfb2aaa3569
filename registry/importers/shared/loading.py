"""Read the files of a folder once, each by what it holds: JSON, JSON lines, CSV, YAML or text."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import re
from typing import TYPE_CHECKING, Any

from registry.errors import SubmissionError
from registry.importers.base import Refusal, RunFile
from registry.reading import ReadingError, read_bytes
from registry.reading.bounded_file import DEEPEST, walk_folder
from registry.reading.json_reader import MOST_VALUES, has_many_values
from registry.reading.yaml_reader import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

#: Largest file that is read as a log, in bytes; weights and optimizer states lie above it.
LARGEST_LOG = 64 * 2**20

#: Most cells of a CSV table: a row may be shorter in the file than the header makes it.
_MOST_CELLS = 2_000_000

#: Endings of files that hold weights, pictures or caches, which no importer looks into.
_OPAQUE = (
    *(".safetensors", ".bin", ".pt", ".pth", ".gguf", ".npz", ".npy", ".model"),
    *(".png", ".jpg", ".parquet", ".arrow", ".zip", ".gz", ".pyc"),
)

#: Most digits of a number: an integer of more is no float.
_MOST_DIGITS = 300

_ENDLESS = re.compile(rf"\d{{{_MOST_DIGITS + 1}}}")

#: Share of lines that must be JSON objects for a file to be JSON lines; the last may be cut off.
_JSON_LINES_SHARE = 0.5


def collect_files(paths: Iterable[Path]) -> tuple[list[RunFile], list[Refusal]]:
    """Return the readable files among paths and folders, and those that cannot be read."""
    files, refused = [], []
    for path in paths:
        if not path.exists():
            raise SubmissionError("not found; expected a file or a folder", origin=path.name)
        too_deep: list[Path] = []
        for file in walk_files(path, too_deep):
            loaded = load_file(file)
            if isinstance(loaded, Refusal):
                refused.append(loaded)
            else:
                files.append(loaded)
        reason = f"lies more than {DEEPEST} folders deep in {path}; name it to read what it holds"
        refused += [Refusal(folder, reason) for folder in too_deep]
    return files, refused


def walk_files(path: Path, too_deep: list[Path] | None = None) -> Iterator[Path]:
    """Yield a file, or the files of a folder that may be logs, in order of their names.

    Folders in it that lie too deep to be looked into go to ``too_deep``.
    """
    if not path.is_dir():
        yield path
        return
    walked = walk_folder(path, [] if too_deep is None else too_deep)
    for file in sorted(folder / name for folder, names in walked for name in names):
        # what is gone meanwhile, or may not be looked at, is no file
        if os.path.isfile(file) and file.suffix not in _OPAQUE:  # noqa: PTH113 - see above
            yield file


def load_file(path: Path) -> RunFile | Refusal:
    """Return one file with its content parsed, or why it cannot be read."""
    try:
        data = read_bytes(path, limit=LARGEST_LOG, what="a log")
        text = data.decode("utf-8-sig")
        if "\x00" in text:
            return Refusal(path, "not text")
        if any(len(line) > _MOST_DIGITS and _ENDLESS.search(line) for line in text.splitlines()):
            return Refusal(path, f"found a number of more than {_MOST_DIGITS} digits")
        kind, document, lines = _parse(text, path)
    except ReadingError as error:
        return Refusal(path, error.reason)
    except UnicodeDecodeError:
        return Refusal(path, "not text in UTF-8")
    return RunFile(path, hashlib.sha256(data).hexdigest(), kind, document, lines)


def _parse(text: str, path: Path) -> tuple[str, Any, tuple[int, ...]]:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        rows = _parse_csv(text, "\t" if suffix == ".tsv" else ",", path.name)
        return "csv", rows, tuple(range(2, len(rows) + 2))
    stripped = text.lstrip()
    if stripped.startswith(("{", "[")):
        if has_many_values(stripped):
            raise ReadingError(path.name, f"found more than {MOST_VALUES} values; split the file")
        parsed = None if suffix == ".jsonl" else _parse_json(stripped)
        if isinstance(parsed, dict | list):
            return "json", parsed, ()
        entries = list(_json_lines(text))
        if len(entries) >= _JSON_LINES_SHARE * max(1, len(_lines(text))):
            return "jsonl", [entry for _, entry in entries], tuple(line for line, _ in entries)
    if suffix in (".yaml", ".yml"):
        return "yaml", parse_yaml(text, origin=path.name), ()
    lines = text.splitlines()
    return "text", lines, tuple(range(1, len(lines) + 1))


def _parse_csv(text: str, delimiter: str, origin: str) -> list[dict[str, str]]:
    """Return the rows by column; cells that a row lacks are empty, those it has beyond are left."""
    reader = csv.DictReader(io.StringIO(text, newline=""), delimiter=delimiter, restval="")
    rows = []
    try:
        names = reader.fieldnames or ()
        for row in reader:
            rows.append({name: row[name] for name in names})
            if len(rows) * max(1, len(names)) > _MOST_CELLS:
                raise ReadingError(origin, f"found more than {_MOST_CELLS} cells; split the table")
    except csv.Error as error:
        raise ReadingError(
            origin, f"line {reader.reader.line_num}: {error}; expected CSV with shorter cells"
        ) from error
    return rows


def _parse_json(text: str) -> Any:
    """Return the JSON in a text, or None; NaN, which trainers write for a loss, is no figure."""
    try:
        return json.loads(text, parse_constant=lambda _: None)
    except (ValueError, RecursionError):
        return None


def _lines(text: str) -> list[str]:
    """Return the lines of JSON lines; U+2028 and its like, which JSON has in strings, end none."""
    return text.removesuffix("\n").split("\n")


def _json_lines(text: str) -> Iterator[tuple[int, dict[str, Any]]]:
    for number, line in enumerate(_lines(text), start=1):
        entry = _parse_json(line) if line.strip() else None
        if isinstance(entry, dict):
            yield number, entry
