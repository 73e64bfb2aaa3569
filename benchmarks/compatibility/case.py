"""What a case is: somebody's training, how it is started, and what is known of it beforehand."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: The folder of this package, with the scripts that the cases' own interpreters run.
HERE = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Place:
    """Where a case runs.

    Attributes:
        python: Interpreter of the environment that the case's framework is installed in.
        sources: Folder of clones of the repositories whose scripts are run.
        work: Folder of this case alone; ``tiny.py`` has put model and data there.
    """

    python: Path
    sources: Path
    work: Path

    @property
    def model(self) -> Path:
        """Folder of the tiny model and its tokenizer."""
        return self.work / "model"

    @property
    def out(self) -> Path:
        """Folder for what the framework writes."""
        return self.work / "out"

    def script(self, path: str) -> Path:
        """Return a script of a clone."""
        return self.sources / path

    def program(self, name: str) -> Path:
        """Return a program that the environment installs."""
        return self.python.parent / name


@dataclass(frozen=True)
class Case:
    """A training under the recorder.

    Attributes:
        environment: Name of the environment whose interpreter runs it.
        packages: Distributions that it needs; the first names the framework.
        repository: ``owner/name`` whose clone is needed among the sources, if any.
        told: Columns of ``configurations`` as the command states them.
        command: Gives the command for a place, and prepares what it needs there.
        printed: Pattern of a figure in the framework's own output, by name; the last match counts.
        variables: Environment variables of the command.
        remark: What of the case, or of a deviation, a reader must know.
        is_in_code: Whether the script names the recorder itself, and is not wrapped.
    """

    name: str
    title: str
    environment: str
    packages: tuple[str, ...]
    command: Callable[[Place], list[str]]
    told: Mapping[str, Any]
    repository: str | None = None
    printed: Mapping[str, str] = field(default_factory=dict)
    variables: Mapping[str, str] = field(default_factory=dict)
    remark: str = ""
    is_in_code: bool = False
    limit_seconds: float = 600


def prepare(place: Place, script: str, *arguments: str, own: bool = True) -> None:
    """Run a script of this package, with the case's own interpreter or with this one.

    Raises SystemExit where it fails.
    """
    python = place.python if own else Path(sys.executable)
    command = [str(python), str(HERE / script), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script}: exit {done.returncode}\n{done.stderr[-2000:]}")
