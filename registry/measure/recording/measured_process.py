"""Measure a process that knows nothing of it: started by the ``sitecustomize`` beside this package.

Adds the recorder to every Hugging Face Trainer of the process and, at the process's end, leaves a
note with the figures of the process itself.
"""

from __future__ import annotations

import atexit
import importlib.abc
import importlib.util
import os
import sys
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.failure import classify_failure
from registry.measure.trial_settings import RECORD_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.machinery import ModuleSpec
    from types import ModuleType, TracebackType

_TRAINER_MODULE = "transformers.trainer"

#: The modules of this package while they are out of the job's sight.
_hidden: dict[str, ModuleType] = {}


def hide_own_modules() -> None:
    """Take this package out of ``sys.modules``: the job may have a ``registry`` of its own."""
    _hidden.update(_take_modules())


@contextmanager
def own_modules() -> Iterator[None]:
    """Have ``registry`` mean this package for a moment, and then again what the job means by it."""
    theirs = _take_modules()
    sys.modules.update(_hidden)
    try:
        yield
    finally:
        hide_own_modules()
        sys.modules.update(theirs)


def _take_modules() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "registry"]
    return {name: sys.modules.pop(name) for name in names}


class AfterImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module right after its import, and changes nothing else."""

    def __init__(self, name: str, then: Any) -> None:
        self._name = name
        self._then = then
        self._busy = False

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the module's own spec with a loader that calls the function afterwards."""
        del path, target
        if fullname != self._name or self._busy:
            return None
        self._busy = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._busy = False
        if spec is not None and spec.loader is not None:
            self._extend(spec.loader)
        return spec

    def _extend(self, loader: Any) -> None:
        original = loader.exec_module
        then = self._then

        def exec_module(module: ModuleType) -> None:
            original(module)
            with suppress(Exception):  # the job's import has succeeded, and must
                then(module)

        loader.exec_module = exec_module


def add_recorder(trainer_module: Any) -> None:
    """Add the recorder to the callbacks that every new Trainer starts with."""
    with own_modules():
        from registry.measure.recording.callback import (  # noqa: PLC0415 - loads transformers
            DefaultRecorder,
        )
    trainer_module.DEFAULT_CALLBACKS.append(DefaultRecorder)


class ProcessNote:
    """The figures of the process itself, written at its end."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._began = time.monotonic()
        self._owner = os.getpid()
        self._failure: dict[str, Any] = {}
        self._excepthook = sys.excepthook

    def start(self) -> None:
        """Have the note written at the end, and exceptions noted."""
        sys.excepthook = self._note_exception
        atexit.register(self.write)

    def _note_exception(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        with suppress(Exception):  # the job's own report comes first
            failure = classify_failure(error, training=False)
            self._failure = {"outcome": failure.outcome, "outcome_detail": failure.detail}
        self._excepthook(kind, error, traceback)

    def write(self) -> None:
        """Write the note; a forked child of the process writes none."""
        if os.getpid() != self._owner:
            return
        with suppress(Exception):  # the job is over, and ended as it did
            _write_note(self._folder, time.monotonic() - self._began, self._failure)


def _write_note(folder: Path, seconds: float, failure: dict[str, Any]) -> None:
    with own_modules():
        from registry.measure.environment import (  # noqa: PLC0415 - a process starts faster
            collect_environment,
            collect_provenance,
        )
        from registry.measure.memory_meter import Peaks  # noqa: PLC0415 - likewise
        from registry.measure.record_files import write_json  # noqa: PLC0415 - likewise
    peaks = Peaks()
    peaks.rank = int(os.environ.get("RANK", "0") or 0)
    peaks.observe_allocator()
    peaks.observe_host()
    note = {
        "seconds": seconds,
        "rank": peaks.rank,
        "is_rank": "RANK" in os.environ,
        "peaks": peaks.rows(),
        "environment": collect_environment(),
        "provenance": collect_provenance(),
        "has_torch": "torch" in sys.modules,
        "has_trainer": _TRAINER_MODULE in sys.modules,
        **failure,
    }
    write_json(folder / f"process-{os.getpid()}.json", note)


def activate() -> None:
    """Measure this process, where a record is asked for."""
    folder = os.environ.get(RECORD_FOLDER)
    if not folder:
        return
    sys.meta_path.insert(0, AfterImport(_TRAINER_MODULE, add_recorder))
    ProcessNote(folder).start()
