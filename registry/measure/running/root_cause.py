"""What torchrun says of the process that ended a job of several; its own status is always 1."""

from __future__ import annotations

import re
from dataclasses import dataclass

from registry.measure.child_process import format_exit

_ROOT_CAUSE = re.compile(
    r"^Root Cause \(first observed failure\):\s*\n\[\d+\]:\s*\n(?:  .*\n)*?"
    r"  rank +: (\d+).*\n  exitcode +: (-?\d+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class RootCause:
    """The first process of a job that failed, and its exit status (negative: the signal)."""

    rank: int
    returncode: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"rank {self.rank} failed first: {format_exit(self.returncode)}"


def find_root_cause(last_words: str) -> RootCause | None:
    r"""Return what torchrun names as the root cause at the end of its output, if it does.

    >>> said = "Root Cause (first observed failure):\n[0]:\n  time      : now\n"
    >>> said += "  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: 9)  (SIGABRT)\n"
    >>> str(find_root_cause(said))
    'rank 1 failed first: killed by signal 6 (SIGABRT)'
    """
    found = _ROOT_CAUSE.findall(last_words)
    return RootCause(int(found[-1][0]), int(found[-1][1])) if found else None
