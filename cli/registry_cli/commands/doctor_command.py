"""``registry doctor``."""

from __future__ import annotations

import contextlib
import os
import platform
import shutil
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click

from registry import __version__
from registry.errors import RegistryError
from registry.query.confine import landlock_abi
from registry.store.curated import MANIFEST
from registry.store.folder import ENVIRONMENT_VARIABLE, NO_HOME, Folder, Location
from registry.store.parts import hash_file
from registry.store.row_counts import count_rows
from registry.store.snapshot import read_snapshot
from registry_cli import console
from registry_cli.group import HintedChoice
from registry_cli.measuring import describe_left_over
from registry_cli.options import locate, registry_option

_PACKAGES = ("duckdb", "pyarrow", "pandas", "pandera", "pydantic", "click", "numpy")
_TRAINING = ("torch", "transformers", "peft", "accelerate", "bitsandbytes", "trl", "nvidia-ml-py")
_LITTLE_SPACE_BYTES = 1 << 30


@click.command(name="doctor")
@click.option("-f", "--format", "format_name", type=HintedChoice(["text", "json"]), default="text")
@registry_option
def command(*, format_name: str, registry_path: Path | None) -> int:
    """Show what is installed, which registry is in use and why, and what is wrong with either.

    \b
    Example:
      registry doctor
    """  # noqa: D301 - \b keeps the example's lines
    problems: list[str] = []
    report = {
        "peft-registry": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": {name: _version(name) for name in _PACKAGES},
        "training": {name: _version(name) for name in _TRAINING},
        "accelerator": "nvidia" if shutil.which("nvidia-smi") else "none found (no nvidia-smi)",
        "confinement": _confinement(),
        "registry": _describe_registry(registry_path, problems),
    }
    problems += [f"{name} is not installed" for name in _PACKAGES if _version(name) is None]
    left_over = describe_left_over()
    if format_name == "json":
        console.data({**report, "left over": left_over, "problems": problems})
    else:
        _print_report(report)
        for text in left_over:
            console.say(f"left over: {text}")
        for problem in problems:
            console.say(f"problem: {problem}")
    return 1 if problems else 0


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _confinement() -> str:
    abi = landlock_abi()
    if abi:
        return f"Landlock, version {abi}"
    return "no Landlock: queries load their tables into memory and have no file access"


def _describe_registry(path: Path | None, problems: list[str]) -> dict[str, Any]:
    try:
        location = locate(path)
        snapshot = read_snapshot(location)
    except RegistryError as error:
        problems.append(str(error))
        return {}
    manifest = snapshot.state.manifest
    own = location.own.path
    described = {
        "path": "none: this user has no home folder" if own == NO_HOME else location.own.name,
        "chosen by": _reason(path, location),
        "curated records": str(location.curated.path) if location.curated else "none",
        "curated tables": _hash_curated(location),
        "version": manifest.version,
        "manifest": manifest.content_hash if manifest.version else "none",
        "observations": count_rows(snapshot, snapshot.pending).get("observations", 0),
        "pending submissions": len(snapshot.journal.entries),
    }
    problems += [*snapshot.journal.problems, *_check_disk(location.own)]
    return described


def _hash_curated(location: Location) -> str:
    """Return what the curated tables are cited by: their manifest names the content of each."""
    folder = location.own if location.own.is_curated else location.curated
    with contextlib.suppress(FileNotFoundError):  # nothing is built yet
        if folder is not None:
            return hash_file(folder.path / MANIFEST)
    return "none"


def _reason(path: Path | None, location: Location) -> str:
    if path is not None:
        return "--registry"
    if os.environ.get(ENVIRONMENT_VARIABLE):
        return ENVIRONMENT_VARIABLE
    return "./records" if location.own.path == Path("records") else "default"


def _check_disk(folder: Folder) -> list[str]:
    path = folder.path
    if path == NO_HOME:
        return []  # one can only read then, which is no fault of the installation
    while not path.exists() and path != path.parent:
        path = path.parent
    problems = []
    if not os.access(path, os.W_OK):
        problems.append(f"{path} is not writable; name another registry to add to")
    if shutil.disk_usage(path).free < _LITTLE_SPACE_BYTES:
        problems.append(f"{path}: less than 1 GiB is free on its disk")
    return problems


def _print_report(report: dict[str, Any]) -> None:
    for name, value in report.items():
        if isinstance(value, dict):
            console.say(f"{name}:")
            for key, item in value.items():
                console.say(f"  {key:<20} {'not installed' if item is None else item}")
        else:
            console.say(f"{name}: {value}")
