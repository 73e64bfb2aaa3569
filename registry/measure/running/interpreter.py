"""What another Python environment has installed, as a process of it says."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
import shutil
import sys
import tempfile
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import registry
from registry.errors import SourceError
from registry.measure.child_process import (
    ERRORS_NAME,
    OUTPUT_NAME,
    job_environment,
    module_command,
    run_process,
)
from registry.measure.environment import collect_environment, find_version
from registry.measure.failure import shorten
from registry.measure.trial_settings import RECORDER_VERSION

Row = dict[str, Any]

_MODULE = "registry.measure.running.interpreter"

_DISTRIBUTION = "peft-registry"

#: Distributions that every trial needs.
_NEEDED = ("torch", "transformers", "peft", "accelerate")

#: Seconds that an interpreter has to start and say what it has.
_PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Interpreter:
    """A Python interpreter that can run trials.

    Attributes:
        python: Its path.
        environment: Row of ``environments``: what it could load.
    """

    python: str
    environment: Row


def probe_interpreter(python: str) -> Interpreter:
    """Ask an interpreter what it has. Raises SourceError where it cannot run trials."""
    path = _find(python)
    with tempfile.TemporaryDirectory(prefix="registry-probe-") as name:
        folder = Path(name)
        try:
            run_process(
                module_command(_MODULE, python=path),
                environment=job_environment(os.environ),
                folder=folder,
                timeout_seconds=_PATIENCE_SECONDS,
            )
        except OSError as error:
            raise SourceError(
                f"{python}: cannot be started: {error.strerror}; expected a Python interpreter, "
                "such as .venv/bin/python"
            ) from None
        said = (folder / OUTPUT_NAME).read_text(encoding="utf-8", errors="replace")
        errors = (folder / ERRORS_NAME).read_text(encoding="utf-8", errors="replace")
    return Interpreter(path, _validate(python, _parse(said), errors))


def _find(python: str) -> str:
    """Return the absolute path; links stay, because a virtual environment is known by its own."""
    found = shutil.which(python)
    if found is None:
        raise SourceError(
            f"{python}: no such program; expected a Python interpreter, such as .venv/bin/python"
        )
    return str(Path(found).absolute())


def _parse(said: str) -> Row | None:
    try:
        told = json.loads(said)
    except ValueError:
        return None
    return told if isinstance(told, dict) and "environment" in told else None


#: What a Python says that lacks a module, or fails while it loads one.
_PYTHONS_OWN = re.compile(r"Traceback|No module named|Error while finding module")


def _validate(python: str, told: Row | None, errors: str) -> Row:
    install = f"{shlex.quote(python)} -m pip install"
    if told is None:
        last = shorten(errors.strip().rsplit("\n", 1)[-1]) or "it said nothing"
        if not _PYTHONS_OWN.search(errors):
            raise SourceError(
                f"{python}: does not respond as Python does ({last}); expected a Python "
                "interpreter, such as .venv/bin/python"
            )
        raise SourceError(
            f"{python}: cannot load this registry ({last}); expected it to be installed there too, "
            "without its extras, which would change what is compared; install it with: "
            f"{install} {_requirement()}"
        )
    here = {"registry": registry.__version__, "recorder": read_recorder_mark()}
    there = {name: told.get(name) for name in here}
    if there != here:
        raise SourceError(
            f"{python}: has registry {there['registry']} with recorder {there['recorder']}; "
            f"expected {here['registry']} with recorder {here['recorder']}, as here, so that both "
            f"measure alike; install it with: {install} --force-reinstall --no-deps "
            f"{_requirement()}"
        )
    if told.get("missing"):
        missing = " ".join(map(str, told["missing"]))
        raise SourceError(
            f"{python}: has no {missing.replace(' ', ', ')}; expected {', '.join(_NEEDED)}, which "
            f"trials need; install with: {install} {missing}"
        )
    environment: Row = told["environment"]
    return environment


def _requirement() -> str:
    """Return what pip installs to have this registry: where it came from, else its version."""
    distribution = metadata.distribution(_DISTRIBUTION)
    origin = json.loads(distribution.read_text("direct_url.json") or "{}")
    url = str(origin.get("url", ""))
    if "vcs_info" in origin:
        vcs = origin["vcs_info"]
        return shlex.quote(f"{vcs['vcs']}+{url}@{vcs['commit_id']}")
    if url:
        return shlex.quote(url.removeprefix("file://"))
    return f"{_DISTRIBUTION}=={distribution.version}"


def read_recorder_mark() -> str:
    """Return the recorder's version and a hash of its code: checkouts of one version may differ."""
    folder = Path(__file__).parents[1]
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder)}\n".encode() + path.read_bytes())
    return f"{RECORDER_VERSION}.{digest.hexdigest()[:8]}"


def main() -> None:
    """Say what this interpreter has, as JSON."""
    told = {
        "registry": registry.__version__,
        "recorder": read_recorder_mark(),
        "environment": collect_environment(installed=True),
        "missing": [name for name in _NEEDED if find_version(name) is None],
    }
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
