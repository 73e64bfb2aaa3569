"""Marks that the recorder leaves beside the records: that it was loaded, or what was in its way.

Whoever reads an empty folder can then tell a command that trained nothing from one whose Python
never met the recorder. Standard library only, in words that old Pythons know too.
"""

from __future__ import annotations

import platform
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.measure.trial_settings import RECORD_FOLDER, told

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_LOADED, _TROUBLE = "loaded", "trouble"

#: Longest part of a mark's text that is read.
_HEAD_BYTES = 300

#: What a mark says that is there and could not be written to.
_UNWRITTEN = "it could write no file: the disk may be full, or the size of files limited"


@dataclass(frozen=True)
class Marks:
    """What the processes of a command left of the recorder itself.

    Attributes:
        loaded: Whether the recorder was loaded in any of them.
        trouble: What was in its way in the last one where something was.
    """

    loaded: bool = False
    trouble: str | None = None


def leave_loaded() -> None:
    """Say that the recorder was loaded in this process."""
    _leave(_LOADED, "")


def leave_trouble(error: BaseException) -> None:
    """Say what keeps the recorder from its work in this process."""
    _leave(_TROUBLE, f"Python {platform.python_version()}: {type(error).__name__}: {error}")


@contextmanager
def trouble_noted() -> Iterator[None]:
    """Have whatever keeps the recorder from its work left as a mark; none of it reaches the job."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - the job goes on whatever the recorder meets
        leave_trouble(error)


def _leave(name: str, text: str) -> None:
    folder = told(RECORD_FOLDER)
    with suppress(OSError, ValueError):  # never in the way of the job
        if folder:
            with open(f"{folder}/{name}", "w", encoding="utf-8") as file:  # noqa: PTH123 - at each start of a Python
                file.write(text)


def read_marks(folder: Path) -> Marks:
    """Return the marks in a folder; anybody in the command may have written them."""
    trouble = None
    with suppress(OSError), (folder / _TROUBLE).open("rb") as file:
        text = " ".join(file.read(_HEAD_BYTES).decode("utf-8", errors="replace").split())
        trouble = text or _UNWRITTEN
    return Marks((folder / _LOADED).exists(), trouble)
