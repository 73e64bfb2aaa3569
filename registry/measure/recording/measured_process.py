"""Measure a process that knows nothing of it: started by the ``sitecustomize`` beside this package.

Adds the recorder to every Hugging Face Trainer of the process, and watches for optimizers that no
Trainer makes.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from registry.measure.failure import classify_failure
from registry.measure.recording.after_import import after_import
from registry.measure.recording.marks import leave_trouble
from registry.measure.trial_settings import RECORD_FOLDER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType, TracebackType

_TRAINER_MODULE = "transformers.trainer"
_OPTIMIZER_MODULE = "torch.optim.optimizer"

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


def add_recorder(trainer_module: Any) -> None:
    """Have every Trainer recorded that begins to train without a recorder of its own."""
    try:
        with own_modules():
            from registry.measure.recording.callback import (  # noqa: PLC0415 - loads transformers
                DefaultRecorder,
            )
            from registry.measure.recording.trainer_hooks import (  # noqa: PLC0415 - likewise
                record_by_default,
                wrap_trainer,
            )
        record_by_default(DefaultRecorder)
        wrap_trainer(trainer_module.Trainer)
    except Exception as error:  # noqa: BLE001 - the job's import has succeeded, and must
        leave_trouble(error)


class LoopWatch:
    """Has loops without a Trainer recorded, from the first optimizer of the process on."""

    def __init__(self) -> None:
        self._recorder: Any = None
        self._failure: Any = None
        self._owner = os.getpid()
        self._excepthook = sys.excepthook

    def start(self) -> None:
        """Have exceptions noted, and the record completed at the process's end."""
        sys.excepthook = self._note_exception
        atexit.register(self.finish)

    def watch(self, optimizer_module: Any) -> None:
        """Call the recorder with every optimizer that is made; it is loaded for the first one."""
        optimizer_class = optimizer_module.Optimizer
        original = optimizer_class.__init__

        @functools.wraps(original)
        def made(optimizer: Any, *arguments: Any, **named: Any) -> None:
            original(optimizer, *arguments, **named)
            try:
                self._load(optimizer_module).expect(optimizer)
            except Exception as error:  # noqa: BLE001 - the job's optimizer is made, and must be
                leave_trouble(error)

        optimizer_class.__init__ = made

    def _load(self, optimizer_module: Any) -> Any:
        if self._recorder is None:
            with own_modules():
                from registry.measure.recording.loop_hooks import (  # noqa: PLC0415 - a process starts faster
                    LoopRecorder,
                )
            self._recorder = LoopRecorder()
            self._recorder.install(optimizer_module)
        return self._recorder

    def _note_exception(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        with suppress(Exception, KeyboardInterrupt):  # the job's own report comes first
            self._failure = classify_failure(error, training=True, quoted=False)
        self._excepthook(kind, error, traceback)

    def finish(self) -> None:
        """Complete the record of a loop; a forked child of the process has none."""
        if self._recorder is not None and os.getpid() == self._owner:
            with suppress(Exception):  # the job is over, and ended as it did
                self._recorder.finish(self._failure)


def activate() -> None:
    """Measure this process, where a record is asked for."""
    if not os.environ.get(RECORD_FOLDER):
        return
    loops = LoopWatch()
    after_import(_TRAINER_MODULE, add_recorder)
    after_import(_OPTIMIZER_MODULE, loops.watch)
    loops.start()
