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
        self.batches = SimpleNamespace(n_waiting=0)

    def attach(self, job: Any) -> None:
        self.told.append(f"attach {job.name}")

    def finish(self, loss: Any, n_samples: Any) -> None:
        self.told.append(f"finish {loss} {n_samples}")

    def count(self, inputs: Any, n_samples: int) -> None:
        self.told.append(f"count {inputs} {n_samples}")
        self.batches.n_waiting += 1

    def fail(self, error: BaseException) -> None:
        self.told.append(f"fail {type(error).__name__}")

    def note_error(self, error: BaseException) -> None:
        self.told.append(f"error {type(error).__name__}")


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
            self.state = SimpleNamespace(global_step=4, max_steps=4)

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


@pytest.mark.parametrize("calls_trainers", [True, False])
def test_the_batch_of_a_trainers_own_step_is_counted_once(*, calls_trainers: bool) -> None:
    record_by_default(Recorder)

    class Trainer:
        """A trainer as transformers has them, but for its loop."""

        def __init__(self) -> None:
            self.callback_handler = SimpleNamespace(callbacks=["flow"])
            self.args = SimpleNamespace(per_device_train_batch_size=2)

        def train(self) -> None:
            self.training_step("model", {"ids": 1, "extra": 2})

        def training_step(self, model: Any, inputs: Any) -> None:
            """Do nothing."""

    wrap_trainer(Trainer)

    class OwnTrainer(Trainer):
        """One whose step takes something from the batch."""

        def training_step(self, model: Any, inputs: Any) -> None:
            inputs.pop("extra")
            if calls_trainers:
                super().training_step(model, inputs)

    trainer = OwnTrainer()
    trainer.train()
    batch = {"ids": 1} if calls_trainers else {"ids": 1, "extra": 2}
    _, recorder = trainer.callback_handler.callbacks
    assert recorder.session.told[1:-1] == [f"count {batch} 2"]


def test_a_step_tells_its_loss_or_its_exception() -> None:
    record_by_default(Recorder)
    ends: list[Any] = [0.5, MemoryError()]

    class Trainer:
        """A trainer as transformers has them, whose second step fails."""

        def __init__(self) -> None:
            self.callback_handler = SimpleNamespace(callbacks=["flow"])
            self.args = SimpleNamespace(per_device_train_batch_size=2)

        def train(self) -> None:
            for number in range(2):
                self.training_step("model", number)

        def training_step(self, _: Any, inputs: int) -> Any:
            """Return a loss, or raise."""
            if isinstance(ends[inputs], BaseException):
                raise ends[inputs]
            return ends[inputs]

    wrap_trainer(Trainer)
    trainer = Trainer()
    with pytest.raises(MemoryError):
        trainer.train()
    _, recorder = trainer.callback_handler.callbacks
    assert recorder.session.telling == 0.5
    assert recorder.session.told[-2:] == ["error MemoryError", "fail MemoryError"]
