"""What is recorded of loops that go on at once in several threads of one process."""

from __future__ import annotations

import gc
import threading
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from registry.measure.failure import Failure
from registry.measure.recording.loop_hooks import LoopRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.measure.recording.conftest import Watch

torch: Any = pytest.importorskip("torch")

WIDTHS = (8, 16, 24, 32)

Row = dict[str, Any]


def make(watch: Watch, width: int) -> tuple[Any, Any]:
    """Return a model and an optimizer that was made under the recorders' eyes."""
    model = torch.nn.Sequential(torch.nn.Embedding(32, width), torch.nn.Linear(width, 32))
    return model, watch.adamw(model)


def train(model: Any, optimizer: Any, rows: int, together: threading.Barrier, n: int = 6) -> None:
    """Train with batches of so many rows, each step after one of each other thread."""
    for _ in range(n):
        together.wait(30)
        ids = torch.randint(0, 32, (rows, 6))
        torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def run_threads(*targets: Callable[[], None]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)


def batches(found: list[Row]) -> list[int]:
    return sorted(observation["configuration"]["micro_batch_size"] for observation in found)


def names(observation: Row) -> set[str]:
    figures = {row["metric"] for row in observation["measurements"]}
    return figures.union(*observation["samples"])


def test_trainings_in_threads_are_observations_of_their_own(watch: Watch) -> None:
    together = threading.Barrier(len(WIDTHS))
    run_threads(*(lambda w=w: train(*make(watch, w), w, together) for w in WIDTHS))
    found = watch.observations()
    assert batches(found) == [*WIDTHS]
    for observation in found:
        width = observation["configuration"]["micro_batch_size"]
        assert observation["configuration"]["trainable_params"] == 64 * width + 32
        assert [step["step"] for step in observation["samples"]] == [1, 2, 3, 4, 5, 6]


def test_no_peak_is_stated_of_trainings_that_go_on_at_once(watch: Watch) -> None:
    together = threading.Barrier(2)
    run_threads(*(lambda w=w: train(*make(watch, w), w, together) for w in WIDTHS[:2]))
    for observation in watch.observations():
        assert "side_by_side" in observation["flags"]
        assert "at once in one process" in observation["provenance"]["memory_not_stated"]
        assert not names(observation) & {"peak_memory", "host_rss_bytes"}
        assert "step_time" in names(observation)


def test_what_one_thread_makes_others_may_train(watch: Watch) -> None:
    together = threading.Barrier(len(WIDTHS))
    made = [(*make(watch, width), width, together) for width in WIDTHS]
    run_threads(*(partial(train, *each) for each in made))
    assert batches(watch.observations()) == [*WIDTHS]


def test_trainings_of_threads_that_follow_each_other_have_their_own_peaks(watch: Watch) -> None:
    alone = threading.Barrier(1)
    for width in WIDTHS:
        each = (*make(watch, width), width, alone)
        run_threads(partial(train, *each))
    found = watch.observations()
    assert batches(found) == [*WIDTHS]
    assert not any("memory_not_stated" in observation["provenance"] for observation in found)
    assert all("peak_memory" in names(observation) for observation in found)


def test_a_training_may_go_on_in_another_thread(watch: Watch) -> None:
    each = (*make(watch, 8), 8, threading.Barrier(1))
    for _ in range(3):
        run_threads(partial(train, *each))
    (found,) = watch.observations()
    assert len(found["samples"]) == 18
    assert "peak_memory" in names(found)


def test_a_generator_and_its_critic_are_one_training_in_any_thread(watch: Watch) -> None:
    alone = threading.Barrier(1)
    made = [(*make(watch, width), 4, alone, 1) for width in (16, 8)]

    def both() -> None:
        for _ in range(6):
            for each in made:
                train(*each)

    run_threads(both)
    (found,) = watch.observations()
    assert len(found["samples"]) == 6


def test_a_thread_that_fails_is_the_failure_of_its_own_training(watch: Watch) -> None:
    together = threading.Barrier(2)

    def fail() -> None:
        train(*make(watch, 8), 8, together)
        watch.recorders.fail_here(Failure("oom", "OutOfMemoryError: out of memory", "train"))

    run_threads(fail, lambda: train(*make(watch, 16), 16, together))
    found = {o["configuration"]["micro_batch_size"]: o["outcome"] for o in watch.observations()}
    assert found == {8: "oom", 16: "ok"}


def test_a_model_of_a_thread_that_has_ended_is_let_go(watch: Watch) -> None:
    left = []

    def one() -> None:
        model, optimizer = make(watch, 8)
        left.append(weakref.ref(model))
        train(model, optimizer, 8, threading.Barrier(1))

    for _ in range(2):
        run_threads(one)
        make(watch, 16)  # in this thread, which goes on
    gc.collect()
    assert [model() for model in left] == [None, None]


def test_two_threads_may_find_at_once_that_another_has_ended(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_threads(lambda: train(*make(watch, 8), 8, threading.Barrier(1)))
    original = LoopRecorder.finish
    others = iter([16])

    def finish(recorder: LoopRecorder, *arguments: Any, **named: Any) -> None:
        for width in others:  # another thread makes an optimizer while this one writes the record
            make(watch, width)
        original(recorder, *arguments, **named)

    monkeypatch.setattr(LoopRecorder, "finish", finish)
    train(*make(watch, 24), 24, threading.Barrier(1))
    assert batches(watch.observations()) == [8, 24]


def test_a_child_does_not_wait_for_a_thread_of_its_parent(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, optimizer = make(watch, 8)
    looks, may_end = threading.Event(), threading.Event()
    original = LoopRecorder._holds_parameters
    (looking,) = watch.recorders._all

    def look(recorder: LoopRecorder, module: Any) -> bool:
        if recorder is not looking or threading.current_thread() is threading.main_thread():
            return original(recorder, module)
        looks.set()
        may_end.wait(60)
        return False

    monkeypatch.setattr(LoopRecorder, "_holds_parameters", look)
    thread = threading.Thread(target=model, args=(torch.zeros(1, 6, dtype=int),))
    thread.start()
    assert looks.wait(60)
    watch.recorders.begin_in_child()  # as if this process had been forked now
    train(model, optimizer, 8, threading.Barrier(1))
    assert thread.is_alive()
    may_end.set()
    thread.join(60)
    assert batches(watch.observations()) == [8]
