"""The clock of a training job."""

from __future__ import annotations

from registry.measure.recording.clock import Recording, Step, mark_warmup


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_step_reaches_from_border_to_border() -> None:
    clock = _Clock()
    recording = Recording(clock)
    recording.begin_train()
    clock.now += 2.0
    assert recording.end_step(1).seconds == 2.0
    clock.now += 0.5
    assert recording.end_step(2).seconds == 0.5


def test_evaluation_and_checkpoints_are_no_step_time() -> None:
    clock = _Clock()
    recording = Recording(clock)
    recording.begin_train()
    clock.now += 1.0
    recording.end_step(1)
    with recording.apart("eval"):
        clock.now += 10.0
    with recording.apart("save"):
        clock.now += 5.0
    clock.now += 1.0
    assert recording.end_step(2).seconds == 1.0
    assert recording.seconds_apart == {"eval": 10.0, "save": 5.0}


def test_what_follows_the_last_step_is_no_training_unless_it_is_a_step_that_fails() -> None:
    clock = _Clock()
    recording = Recording(clock)
    assert recording.train_seconds() is None
    recording.begin_train()
    recording.begin_step(1)
    clock.now += 1.0
    assert (recording.train_seconds(), recording.train_seconds(failed=True)) == (None, 1.0)
    recording.end_step(1)
    with recording.apart("eval"):
        clock.now += 10.0
    clock.now += 4.0  # saving by hand, or whatever the script does
    assert (recording.train_seconds(), recording.train_seconds(failed=True)) == (1.0, 1.0)
    recording.begin_step(2)
    recording.end_train()
    clock.now += 8.0
    assert (recording.train_seconds(), recording.train_seconds(failed=True)) == (1.0, 5.0)
    assert recording.total_seconds() == 15.0


def test_an_evaluation_inside_a_checkpoint_counts_once() -> None:
    clock = _Clock()
    recording = Recording(clock)
    recording.begin_train()
    with recording.apart("save"):
        clock.now += 1.0
        with recording.apart("eval"):
            clock.now += 2.0
    assert recording.seconds_apart == {"save": 3.0}


def test_a_second_begin_forgets_the_first() -> None:
    clock = _Clock()
    recording = Recording(clock)
    recording.begin_train()
    recording.end_step(1)
    recording.begin_train()
    assert recording.steps == []


def test_batches_of_a_step_add_up_and_the_next_starts_from_nothing() -> None:
    recording = Recording(_Clock())
    recording.begin_train()
    recording.count_batch(64, 2)
    recording.count_batch(64, 2)
    first = recording.end_step(1)
    second = recording.end_step(2)
    assert (first.tokens, first.samples) == (128, 4)
    assert (second.tokens, second.samples) == (None, None)


def test_a_loss_goes_to_the_step_it_was_logged_after() -> None:
    recording = Recording(_Clock())
    recording.begin_train()
    recording.end_step(1)
    recording.note_loss(1, 2.5)
    recording.note_loss(7, 9.9)
    assert [step.loss for step in recording.steps] == [2.5]


def test_at_least_one_step_is_no_warmup() -> None:
    steps = [Step(1, 1.0), Step(2, 1.0)]
    assert [step.warmup for step in mark_warmup(steps, 5)] == [True, False]
    assert [step.warmup for step in mark_warmup(steps[:1], 5)] == [False]
    assert mark_warmup([], 2) == []
