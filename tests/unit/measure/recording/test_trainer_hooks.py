"""Which recorder a trainer gets, and when."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from registry.measure.recording import trainer_hooks
from registry.measure.recording.trainer_hooks import record_by_default, wrap_trainer

if TYPE_CHECKING:
    from collections.abc import Iterator


class Session:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def attach(self, job: Any) -> None:
        self.told.append(f"attach {job.name}")

    def finish(self, loss: Any, n_samples: Any) -> None:
        self.told.append(f"finish {loss} {n_samples}")


class Recorder:
    """A callback that records."""

    is_registry_recorder = True

    def __init__(self) -> None:
        self.session = Session()


def make_trainer(*callbacks: Any) -> Any:
    class Trainer:
        """A trainer as transformers has them."""

        def __init__(self) -> None:
            self.callback_handler = SimpleNamespace(callbacks=["flow", *callbacks])

        def train(self) -> Any:
            metrics = {"train_runtime": 2.0, "train_samples_per_second": 3.0}
            return SimpleNamespace(metrics=metrics, training_loss=1.5)

        def training_step(self) -> None:
            """Do nothing."""

    wrap_trainer(Trainer)
    return Trainer()


@pytest.fixture(autouse=True)
def _nothing_by_default() -> Iterator[None]:
    yield
    trainer_hooks._default.clear()


def test_a_trainer_whose_callbacks_were_replaced_is_recorded() -> None:
    record_by_default(Recorder)
    trainer = make_trainer("theirs")
    trainer.train()
    flow, recorder, theirs = trainer.callback_handler.callbacks
    assert (flow, theirs) == ("flow", "theirs")
    assert recorder.session.told == ["attach Trainer", "finish 1.5 6.0"]


def test_a_trainer_that_trains_twice_keeps_its_recorder() -> None:
    record_by_default(Recorder)
    trainer = make_trainer()
    trainer.train()
    trainer.train()
    (_, recorder) = trainer.callback_handler.callbacks
    assert len(recorder.session.told) == 4


def test_a_recorder_of_the_users_own_is_the_only_one() -> None:
    record_by_default(Recorder)
    own = Recorder()
    trainer = make_trainer(own)
    trainer.train()
    assert trainer.callback_handler.callbacks == ["flow", own]
    assert len(own.session.told) == 2


def test_a_trainer_without_a_recorder_is_left_alone() -> None:
    trainer = make_trainer()
    trainer.train()
    assert trainer.callback_handler.callbacks == ["flow"]
