"""What the kernel says of a process in ``/proc/PID/stat``."""

from __future__ import annotations

from pathlib import Path
from typing import Final

#: Places among the fields from the state on: proc(5) counts it as the third.
STATE: Final = 0
PARENT: Final = 1
STARTED: Final = 19


def read_stat(process: int | str = "self") -> list[str]:
    """Return the fields from the state on, behind the name, which may hold anything.

    Raises OSError where there is no such process, or no /proc.
    """
    text = Path("/proc", str(process), "stat").read_text(encoding="ascii", errors="replace")
    return text.rpartition(")")[2].split()
