"""Report to recorders what callbacks do not see: exceptions, evaluation, checkpoints, batches.

A callback has no hook for an exception and none for the begin of an evaluation, so the methods of
Trainer itself are wrapped, once per process. A trainer without a recorder is not affected.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

from registry.measure.recording.configuration import micro_batch_size
from registry.measure.recording.trainer_job import TrainerJob

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.measure.recording.session import Session

_MARK = "_registry_wrapped"

#: The threads in which a recorded trainer is training at this moment.
_at_work: list[int] = []

#: What makes the recorder of a trainer that has none, in a measured process.
_default: list[Callable[[], Any]] = []


def record_by_default(make_recorder: Callable[[], Any]) -> None:
    """Give a recorder to every trainer that begins to train without one."""
    _default[:] = [make_recorder]


def is_trainer_at_work() -> bool:
    """Return whether a recorded trainer is training in this thread: what happens is its own."""
    return bool(_at_work) and threading.get_ident() in _at_work


def _count_samples(metrics: dict[str, Any]) -> float | None:
    """Return the samples that the trainer itself counted, from its rate and its time."""
    rate, seconds = metrics.get("train_samples_per_second"), metrics.get("train_runtime")
    return rate * seconds if rate and seconds else None


def _read_early_stop(trainer: Any) -> int | None:
    """Return the step after which a trainer stopped by itself; None where it took all of them."""
    state = getattr(trainer, "state", None)
    step, wanted = getattr(state, "global_step", None), getattr(state, "max_steps", None)
    is_early = isinstance(step, int) and isinstance(wanted, int) and step < wanted
    return step if is_early else None


def session_of(trainer: Any) -> Session | None:
    """Return the session of a trainer's recorder; one that the user added goes first."""
    handler = getattr(trainer, "callback_handler", None)
    sessions = [
        callback.session
        for callback in getattr(handler, "callbacks", ())
        if getattr(callback, "is_registry_recorder", False)
    ]
    return sessions[-1] if sessions else None


def _session_for(trainer: Any) -> Session | None:
    """Return the session of a trainer's recorder; where there is none, that of the default one.

    It is given at the begin of a training, because frameworks replace the callbacks that a trainer
    starts with. It stands right behind the first callback, which controls the flow.
    """
    session = session_of(trainer)
    callbacks = getattr(getattr(trainer, "callback_handler", None), "callbacks", None)
    if session is None and _default and isinstance(callbacks, list):
        recorder = _default[0]()
        callbacks.insert(1, recorder)
        session = recorder.session
    return session


def wrap_trainer(trainer_class: Any) -> None:
    """Wrap the methods of Trainer, unless they are wrapped already."""
    if getattr(trainer_class, _MARK, False):
        return
    setattr(trainer_class, _MARK, True)
    trainer_class.train = _wrap_train(trainer_class.train)
    trainer_class.training_step = _mark(_wrap_step(trainer_class.training_step))
    for kind, name in (("eval", "evaluate"), ("eval", "predict"), ("save", "_save_checkpoint")):
        if hasattr(trainer_class, name):
            setattr(trainer_class, name, _wrap_apart(kind, getattr(trainer_class, name)))


def _wrap_train(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def train(self: Any, *arguments: Any, **named: Any) -> Any:
        session = _session_for(self)
        if session is None:
            return original(self, *arguments, **named)
        _wrap_own_step(type(self))
        session.attach(TrainerJob(self))
        _at_work.append(threading.get_ident())
        try:
            output = original(self, *arguments, **named)
        except BaseException as error:
            session.fail(error)
            raise
        finally:
            _at_work.remove(threading.get_ident())
        stopped_at = _read_early_stop(self)
        if stopped_at is not None:
            session.note_early_stop(stopped_at)
        metrics = getattr(output, "metrics", None) or {}
        n_samples = _count_samples(metrics)
        session.finish(getattr(output, "training_loss", None), n_samples)
        return output

    return train


def _wrap_step(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def training_step(self: Any, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        session = session_of(self)
        if session is None:
            return original(self, model, inputs, *more, **named)
        session.count(inputs, micro_batch_size(self))
        return _noted(session, lambda: original(self, model, inputs, *more, **named))

    return training_step


def _noted(session: Session, take_step: Callable[[], Any]) -> Any:
    """Take a step, and have its loss or its exception noted."""
    try:
        loss = take_step()
    except BaseException as error:
        session.note_error(error)
        raise
    # a graph would be held until the next step
    session.telling = loss.detach() if getattr(loss, "requires_grad", False) else loss
    return loss


def _wrap_own_step(trainer_class: Any) -> None:
    """Have the batches counted of a class with a step of its own, which may not call Trainer's.

    What Trainer's own step is handed goes first, if that is called: it is what is trained on.
    """
    original = trainer_class.training_step
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def training_step(self: Any, model: Any, inputs: Any, *more: Any, **named: Any) -> Any:
        session = session_of(self)
        if session is None:
            return original(self, model, inputs, *more, **named)
        before = session.batches.n_waiting
        given = dict(inputs) if hasattr(inputs, "items") else inputs  # a step may take from it
        try:
            return _noted(session, lambda: original(self, model, inputs, *more, **named))
        finally:
            if session.batches.n_waiting == before:
                session.count(given, micro_batch_size(self))

    trainer_class.training_step = _mark(training_step)


def _mark(function: Callable[..., Any]) -> Callable[..., Any]:
    setattr(function, _MARK, True)
    return function


def _wrap_apart(kind: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *arguments: Any, **named: Any) -> Any:
        session = session_of(self)
        if session is None:
            return original(self, *arguments, **named)
        with session.apart(kind):
            return original(self, *arguments, **named)

    return method
