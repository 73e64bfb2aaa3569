"""Measure a process that knows nothing of it: started by the ``sitecustomize`` beside this package.

Adds the recorder to every Hugging Face Trainer of the process, and watches for optimizers that no
Trainer makes.
"""

from __future__ import annotations

import atexit
import functools
import os
import sys
from _thread import RLock
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from registry.measure.failure import classify_failure
from registry.measure.recording.after_import import after_import
from registry.measure.recording.marks import trouble_noted
from registry.measure.trial_settings import RECORD_FOLDER, keep_told, told

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from types import ModuleType, TracebackType

    from registry.measure.failure import Failure

_TRAINER_MODULE = "transformers.trainer"
_OPTIMIZER_MODULE = "torch.optim.optimizer"
_PROCESS_MODULE = "multiprocessing.process"
_THREAD_MODULE = "threading"

#: The modules of this package while they are out of the job's sight, and whose turn it is to have
#: them in sight: threads may train at once.
_hidden: dict[str, ModuleType] = {}
_turn = RLock()


def hide_own_modules() -> None:
    """Take this package out of ``sys.modules``: the job may have a ``registry`` of its own."""
    _hidden.update(_take_modules())


@contextmanager
def own_modules() -> Iterator[None]:
    """Have ``registry`` mean this package for a moment, and then again what the job means by it."""
    with _turn:
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
    with own_modules():
        from registry.measure.recording.callback import DefaultRecorder  # noqa: PLC0415 - loads transformers
        from registry.measure.recording.trainer_hooks import record_by_default, wrap_trainer  # noqa: PLC0415 - likewise
    record_by_default(DefaultRecorder)
    wrap_trainer(trainer_module.Trainer)


class LoopWatch:
    """Has loops without a Trainer recorded, from the first optimizer of the process on."""

    def __init__(self) -> None:
        self._recorder: Any = None
        self._failure: Any = None
        self._excepthook = sys.excepthook

    def start(self) -> None:
        """Have exceptions noted, and the record completed at the process's end.

        A child that multiprocessing forked ends by ``os._exit``, and a process that becomes another
        program by ``os.execve``.
        """
        sys.excepthook = self._note_exception
        atexit.register(self.finish)
        os._exit = self._before(os._exit, is_end=lambda status: status == 0)
        for name in ("execv", "execve"):
            setattr(os, name, self._before(getattr(os, name), is_end=lambda *_: True))
        os.register_at_fork(after_in_child=self._begin_in_child)
        done = _turn.release
        os.register_at_fork(before=_turn.acquire, after_in_parent=done, after_in_child=done)

    def watch_children(self, process_module: Any) -> None:
        """Have the exception noted that ends a child of ``multiprocessing``, which catches it."""
        process_class = process_module.BaseProcess
        original = process_class.run

        @functools.wraps(original)
        def run(process: Any) -> None:
            try:
                original(process)
            except BaseException as error:
                cause: BaseException | None = error
                if isinstance(error, SystemExit):  # which torch makes of another exception
                    cause = error.__context__ if error.code else None
                if cause is not None and process_module.parent_process() is not None:
                    self._note(cause)
                raise

        process_class.run = run

    def watch_threads(self, threading_module: Any) -> None:
        """Have the exception noted that ends a thread: its process goes on."""
        original = threading_module.excepthook

        @functools.wraps(original)
        def excepthook(said: Any) -> None:
            with suppress(Exception):  # the job's own report comes in any case
                if self._recorder is not None and said.exc_value is not None:
                    self._recorder.fail_here(_classify(said.exc_value))
            original(said)

        threading_module.excepthook = excepthook

    def watch(self, optimizer_module: Any) -> None:
        """Call the recorder with every optimizer that is made; it is loaded for the first one."""
        optimizer_class = optimizer_module.Optimizer
        original = optimizer_class.__init__

        @functools.wraps(original)
        def made(optimizer: Any, *arguments: Any, **named: Any) -> None:
            original(optimizer, *arguments, **named)
            with trouble_noted():  # the job's optimizer is made, and must be
                self._load(optimizer_module).expect(optimizer)

        optimizer_class.__init__ = made

    def _load(self, optimizer_module: Any) -> Any:
        with _turn:
            if self._recorder is None:
                with own_modules():
                    from registry.measure.recording.loop_threads import LoopRecorders  # noqa: PLC0415 - a process starts faster
                self._recorder = LoopRecorders(optimizer_module)
        return self._recorder

    def _note_exception(
        self, kind: type[BaseException], error: BaseException, traceback: TracebackType | None
    ) -> None:
        self._note(error)
        self._excepthook(kind, error, traceback)

    def _note(self, error: BaseException) -> None:
        with suppress(Exception, KeyboardInterrupt):  # the job's own report comes first
            self._failure = _classify(error)

    def _before(self, original: Any, *, is_end: Callable[..., bool]) -> Any:
        """Return a function that ends the process with its record complete, where it ends well."""

        @functools.wraps(original)
        def end(*arguments: Any, **named: Any) -> Any:
            with suppress(Exception):
                if self._failure is not None or is_end(*arguments, **named):
                    self.finish()
            return original(*arguments, **named)

        return end

    def _begin_in_child(self) -> None:
        """Leave the record to the process that was forked; the child's own trainings are others."""
        self._failure = None
        with suppress(Exception):  # the job has forked, and goes on
            if self._recorder is not None:
                self._recorder.begin_in_child()

    def finish(self) -> None:
        """Complete the record of a loop."""
        if self._recorder is not None:
            with trouble_noted():  # the job is over, and ended as it did
                self._recorder.finish(self._failure)


def _classify(error: BaseException) -> Failure:
    return classify_failure(error, training=True, quoted=False)


def activate() -> None:
    """Measure this process, where a record is asked for."""
    if not told(RECORD_FOLDER):
        return
    keep_told()
    loops = LoopWatch()
    after_import(_TRAINER_MODULE, add_recorder)
    after_import(_OPTIMIZER_MODULE, loops.watch)
    after_import(_PROCESS_MODULE, loops.watch_children)
    after_import(_THREAD_MODULE, loops.watch_threads)
    loops.start()
