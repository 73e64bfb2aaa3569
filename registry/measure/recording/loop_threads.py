"""Tell apart the loops that go on at once in the threads of one process."""

from __future__ import annotations

import sys
import threading
from typing import TYPE_CHECKING, Any

from registry.measure.recording.loop_hooks import LoopRecorder
from registry.measure.recording.marks import trouble_noted

if TYPE_CHECKING:
    from registry.measure.failure import Failure


class LoopRecorders:
    """A recorder for each thread that trains: trainings of several threads go on at once.

    A training is of the thread that calls its model, and an optimizer of the one that makes it,
    until another one steps with it.
    """

    def __init__(self, optimizer_module: Any) -> None:
        #: Other threads change it at any moment: a copy is walked, which takes no lock.
        self._all: list[LoopRecorder] = []
        optimizer_module.register_optimizer_step_post_hook(self._after_step)

    def expect(self, optimizer: Any) -> None:
        """Look for the module that an optimizer trains, which this thread has made."""
        self._leave_ended()
        (self._find() or self._add()).expect(optimizer)

    def _leave_ended(self) -> None:
        """Complete the records of threads that have ended, and let go of their models."""
        threads = sys._current_frames().keys()  # noqa: SLF001 - also of those that are no Thread
        for each in tuple(self._all):
            if each.thread not in threads and each.is_over():
                self._leave(each)

    def _leave(self, recorder: LoopRecorder) -> None:
        """Complete the record of a recorder's training, unless another thread has just done so."""
        try:
            self._all.remove(recorder)
        except ValueError:
            return
        recorder.finish(is_followed=True)

    def _find(self) -> LoopRecorder | None:
        """Return this thread's recorder, or that of an ended one that had the same number."""
        here = threading.get_ident()
        return next((each for each in tuple(self._all) if each.thread == here), None)

    def _add(self) -> LoopRecorder:
        self._all.append(LoopRecorder(self._bind))
        return self._all[-1]

    def _bind(self, recorder: LoopRecorder) -> None:
        """Have a recorder be this thread's own; a training of the one that was is over."""
        before = self._find()
        if before is not None and before is not recorder:
            self._leave(before)
        recorder.thread = threading.get_ident()

    def _after_step(self, optimizer: Any, *_: Any) -> None:
        with trouble_noted():  # never in the way of the job
            for recorder in tuple(self._all):  # a plain loop takes half as long
                if recorder.is_training_with(optimizer):
                    recorder.after_step(optimizer)
                    return
            owner = self._find() or self._add()
            others = (each for each in tuple(self._all) if each is not owner)
            if any(each.give_up(optimizer) for each in others):
                owner.expect(optimizer)
            owner.after_step(optimizer)

    def begin_in_child(self) -> None:
        """Leave the trainings to the process that was forked."""
        for recorder in self._all:
            recorder.begin_in_child()

    def fail_here(self, failure: Failure) -> None:
        """Complete the record of this thread's training, which ends with an exception."""
        recorder = self._find()
        if recorder is not None:
            recorder.finish(failure)

    def finish(self, failure: Failure | None = None) -> None:
        """Complete the records of all trainings that go on.

        Of several, those fail that are in a step, else the last one; the others have ended before.
        """
        training = [each for each in tuple(self._all) if each.session.is_training]
        training.sort(key=lambda each: each.border)
        in_step = [each for each in training if each.session.recording.is_in_step]
        for each in training:
            said = failure if each in (in_step or training[-1:]) else None
            each.finish(said, is_followed=not said and each is not training[-1])
