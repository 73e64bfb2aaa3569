"""Take parts of a document whose shape is anybody's guess: what is of another type is not there."""

from __future__ import annotations

import re
from pathlib import PurePath, PureWindowsPath
from typing import Any, Final

#: Figures outside of these measure nothing, and their products would leave the range of floats.
_SMALLEST: Final = 1e-30
_LARGEST: Final = 1e30

#: Largest count that a column holds.
_LARGEST_COUNT: Final = 2**63 - 1

#: How a path of Windows begins that is not relative.
_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")

#: Parts of the name of a repository of the Hub: its owner and its own.
_HUB_PARTS: Final = 2

_NUMBER: Final = re.compile(r"\s*[-+]?\d[\d.]*(?:[eE][-+]?\d+)?\s*")


def number_of(value: Any) -> float | int | None:
    """Return a number, also one that stands as text, or None.

    >>> number_of("4.851"), number_of(True), number_of("n/a"), number_of(10**400)
    (4.851, None, None, None)
    """
    if isinstance(value, str) and _NUMBER.fullmatch(value):
        try:
            value = float(value)
        except ValueError:
            return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if value == 0 or _SMALLEST <= abs(value) <= _LARGEST else None


def count_of(value: Any) -> int | None:
    """Return a whole number above zero, or None.

    >>> count_of(3), count_of(0), count_of(True), count_of("3")
    (3, None, None, None)
    """
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    return value if is_whole and 0 < value <= _LARGEST_COUNT else None


def whole_of(text: Any) -> int | None:
    """Return a whole number above zero that stands as text, or None.

    >>> whole_of("64"), whole_of("64.0"), whole_of("auto"), whole_of("9" * 5000)
    (64, 64, None, None)
    """
    number = number_of(text)
    return int(number) if number and 0 < number <= _LARGEST_COUNT and number % 1 == 0 else None


def bool_of(value: Any) -> bool | None:
    """Return a truth value, or None."""
    return value if isinstance(value, bool) else None


def path_of(text: str) -> PurePath:
    r"""Return a path as its own machine writes it: on Windows with a drive, or with backslashes.

    >>> path_of(r"C:\models\Llama-2-7b").name, path_of("/data/Llama-2-7b").name
    ('Llama-2-7b', 'Llama-2-7b')
    """
    is_windows = bool(_DRIVE.match(text)) or ("\\" in text and "/" not in text)
    return PureWindowsPath(text) if is_windows else PurePath(text)


def is_path(text: str) -> bool:
    """Return whether a name is a path of some machine, and not that of a repository of the Hub.

    >>> is_path("D:/models/Llama-2-7b"), is_path("meta-llama/Llama-2-7b")
    (True, False)
    """
    path = path_of(text)
    is_windows = isinstance(path, PureWindowsPath)
    return text.startswith((".", "/", "~")) or is_windows or len(path.parts) > _HUB_PARTS


def section_of(document: Any, key: str) -> dict[str, Any]:
    """Return a mapping below a key; an empty one where there is none."""
    value = document.get(key) if isinstance(document, dict) else None
    return value if isinstance(value, dict) else {}


def entries_of(document: Any, key: str) -> list[dict[str, Any]]:
    """Return the mappings in a list below a key; none where there is no list."""
    value = document.get(key) if isinstance(document, dict) else None
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list) else []


def name_of_model(path: str) -> str:
    r"""Return the name of a model in a cache of the Hub or of ModelScope, else the path as it is.

    >>> name_of_model("/data/modelscope/Qwen2___5-7B-Instruct")
    '/data/modelscope/Qwen2.5-7B-Instruct'
    >>> name_of_model("/data/hub/models--Qwen--Qwen2.5-3B-Instruct/snapshots/aa8e")
    'Qwen/Qwen2.5-3B-Instruct'
    >>> name_of_model(r"C:\Users\me\hub\models--Qwen--Qwen2.5-3B\snapshots\aa8e")
    'Qwen/Qwen2.5-3B'
    """
    for part in re.split(r"[/\\]", path):
        kind, *names = part.split("--", 2)
        if kind == "models" and len(names) == _HUB_PARTS and all(names):
            return "/".join(names)
    return path.replace("___", ".")
