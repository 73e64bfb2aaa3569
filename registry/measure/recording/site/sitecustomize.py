"""Runs at the start of every Python process of a measured command.

It stands on PYTHONPATH in front of any other ``sitecustomize``, which it runs as well. It does not
put the registry's own environment on the job's path, and nothing it meets may reach the job.
"""

# ruff: noqa: INP001 - a folder for PYTHONPATH, not a package
import importlib.machinery
import importlib.util
import os
import sys
from contextlib import suppress
from pathlib import Path

_HERE = Path(__file__).resolve().parent


def _load_registry() -> None:
    """Have the package this file belongs to found by its place, without touching the job's path.

    The package's own ``__init__`` does not run: what it sets up for users would meet the job's
    imports later, when this package is out of sight.
    """
    folder = _HERE.parents[2]
    spec = importlib.util.spec_from_file_location(
        "registry", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    if spec is not None:
        sys.modules["registry"] = importlib.util.module_from_spec(spec)


def _run_next() -> None:
    """Run the ``sitecustomize`` that this one stands in front of."""
    elsewhere = [path for path in sys.path if Path(path or ".").resolve() != _HERE]
    spec = importlib.machinery.PathFinder.find_spec("sitecustomize", elsewhere)
    if spec is not None and spec.loader is not None:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))


def _activate() -> None:
    """Measure this process; where that cannot be, leave a mark that says why."""
    from registry.measure.recording.marks import leave_loaded, leave_trouble  # noqa: PLC0415

    try:
        from registry.measure.recording.measured_process import activate, hide_own_modules  # noqa: PLC0415

        hide_own_modules()
        activate()
        leave_loaded()
    except Exception as error:  # noqa: BLE001 - whatever it is, the job goes on
        leave_trouble(error)


def _leave_old() -> None:
    """Leave the mark of trouble where this Python is too old to load anything of this package."""
    version = ".".join(map(str, sys.version_info[:3]))
    path = os.environ["REGISTRY_RECORD_FOLDER"] + "/trouble"
    with open(path, "w", encoding="utf-8") as file:  # noqa: PTH123 - at each start of a Python
        file.write("Python " + version + ": the recorder expects Python 3.11 or newer")


with suppress(Exception):
    if sys.version_info < (3, 11):  # noqa: UP036 - the job's Python, which may be any
        _leave_old()
    else:
        _load_registry()
        _activate()
with suppress(ImportError):
    _run_next()
