"""What is recorded of loops that do otherwise than one pass, one gradient and one step in turn."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.unit.measure.recording.conftest import Watch

torch: Any = pytest.importorskip("torch")


def make(width: int = 8) -> Any:
    return torch.nn.Sequential(torch.nn.Embedding(32, width), torch.nn.Linear(width, 32))


def draw(rows: int = 4, width: int = 6) -> Any:
    return torch.randint(0, 32, (rows, width))


def find_loss(model: Any, ids: Any) -> Any:
    return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())


def step(optimizer: Any) -> None:
    optimizer.step()
    optimizer.zero_grad()


def metrics(observation: dict[str, Any]) -> dict[str, float]:
    return {row["metric"]: row["value"] for row in observation["measurements"]}


def settings(observation: dict[str, Any], *names: str) -> list[Any]:
    return [observation["configuration"].get(name) for name in names]


#: What a micro-batch is, and what follows from it.
BATCH = ("micro_batch_size", "grad_accum_steps", "seq_len")


def test_each_gradient_of_one_pass_is_one_of_a_micro_batch(watch: Watch) -> None:
    model = make()
    optimizer = watch.adamw(model)
    for _ in range(6):
        for _ in range(3):
            find_loss(model, draw()).backward()
        step(optimizer)
    (found,) = watch.observations()
    assert settings(found, *BATCH) == [4, 3, 6]
    assert metrics(found)["n_samples"] == 6 * 3 * 4


@pytest.mark.parametrize("factor", [1.0, float("nan"), float("inf")])
def test_weights_that_are_no_numbers_any_more_are_flagged(watch: Watch, factor: float) -> None:
    model = make()
    optimizer = watch.adamw(model)
    for number in range(6):
        (find_loss(model, draw()) * (factor if number > 3 else 1)).backward()
        step(optimizer)
    (found,) = watch.observations()
    assert ("not_finite" in found.get("flags", ())) is (factor != 1.0)


def pairs(model: Any, optimizer: Any) -> None:
    (find_loss(model, draw()) - find_loss(model, draw())).exp().backward()
    step(optimizer)


def metrics_too(model: Any, optimizer: Any) -> None:
    ids = draw()
    find_loss(model, ids).backward()
    step(optimizer)
    model(ids).argmax()


@pytest.mark.parametrize("loop", [pairs, metrics_too])
def test_passes_that_share_a_gradient_are_no_micro_batches(
    loop: Callable[[Any, Any], None], watch: Watch
) -> None:
    model = make()
    optimizer = watch.adamw(model)
    for _ in range(6):
        loop(model, optimizer)
    (found,) = watch.observations()
    assert settings(found, *BATCH) == [None, 1, None]
    assert metrics(found)["n_steps"] == 6
    assert not {"n_samples", "samples_per_second", "tokens_per_second"} & {*metrics(found)}


def test_a_pass_before_all_steps_hides_the_first_one_alone(watch: Watch) -> None:
    model = make()
    optimizer = watch.adamw(model)
    model(draw())
    for _ in range(6):
        find_loss(model, draw()).backward()
        step(optimizer)
    (found,) = watch.observations()
    assert settings(found, *BATCH) == [4, 1, 6]
    assert Counter(row.get("samples") for row in found["samples"]) == {4: 5, None: 1}


def test_passes_between_which_weights_change_are_not_accumulated(watch: Watch) -> None:
    model = make()
    optimizer = watch.expect(torch.optim.LBFGS(model.parameters(), max_iter=4))
    for _ in range(6):
        ids = draw()

        def again(ids: Any = ids) -> Any:
            optimizer.zero_grad()
            loss = find_loss(model, ids)
            loss.backward()
            return loss

        optimizer.step(again)
    (found,) = watch.observations()
    assert settings(found, *BATCH) == [None, None, None]
    assert metrics(found)["n_steps"] == 6


@pytest.mark.parametrize(("is_new", "expected"), [(True, [None, None, None]), (False, [4, 2, 6])])
def test_a_batch_that_is_passed_again_is_accumulated_only_if_all_steps_have_it(
    *, is_new: bool, expected: list[int | None], watch: Watch
) -> None:
    model = make()
    optimizer = watch.adamw(model)
    ids = draw()
    for _ in range(6):
        ids = draw() if is_new else ids
        for _ in range(2):
            find_loss(model, ids).backward()
            model[0].weight.data.add_(1e-3)  # which the count of its changes leaves out
        step(optimizer)
    (found,) = watch.observations()
    assert settings(found, *BATCH) == expected
    assert ("samples_per_second" in metrics(found)) is not is_new


@pytest.mark.parametrize("kind", ["reentrant", "other"])
def test_a_pass_that_is_computed_again_is_no_second_one(kind: str, watch: Watch) -> None:
    checkpoint = pytest.importorskip("torch.utils.checkpoint").checkpoint
    model = make()
    optimizer = watch.adamw(model)
    for _ in range(6):
        for _ in range(2):
            start = torch.zeros(1, requires_grad=True)
            ids = draw()
            loss = checkpoint(
                lambda ids, _: find_loss(model, ids), ids, start, use_reentrant=kind == "reentrant"
            )
            loss.backward()
        step(optimizer)
    (found,) = watch.observations()
    assert settings(found, *BATCH) == [4, 2, 6]
    assert found["configuration"]["gradient_checkpointing"]


def test_steps_of_another_models_optimizer_are_not_counted(watch: Watch) -> None:
    large, small = make(16), make(4)
    optimizer, other = watch.adamw(large), watch.adamw(small)
    for _ in range(6):
        find_loss(large, draw()).backward()
        step(optimizer)
        (find_loss(small, draw()) + large(draw()).detach().mean()).backward()
        step(other)
    (found,) = watch.observations()
    assert metrics(found)["n_steps"] == 6
    assert "n_samples" not in metrics(found)


def test_an_optimizer_that_was_copied_is_the_models_still(watch: Watch) -> None:
    model = make()
    made = watch.adamw(model)
    optimizer = torch.optim.SGD.__new__(torch.optim.SGD)
    optimizer.__setstate__(torch.optim.SGD(model.parameters()).__dict__)
    for each in (made, optimizer, optimizer):
        find_loss(model, draw()).backward()
        step(each)
    (found,) = watch.observations()
    assert metrics(found)["n_steps"] == 3


def test_models_whose_optimizers_were_made_first_are_two_trainings(watch: Watch) -> None:
    teacher, student = make(16), make(4)
    first, second = watch.adamw(teacher), watch.adamw(student)
    for _ in range(6):
        find_loss(teacher, draw()).backward()
        step(first)
    for _ in range(16):
        with torch.no_grad():
            teacher(draw())
        find_loss(student, draw(2)).backward()
        step(second)
    large, small = watch.observations()
    assert [metrics(each)["n_params"] for each in (large, small)] == [
        sum(p.numel() for p in model.parameters()) for model in (teacher, student)
    ]
    assert [metrics(each)["n_steps"] for each in (large, small)] == [6, 6]
    assert settings(large, *BATCH) == [4, 1, 6]
    assert settings(small, *BATCH) == [2, 1, 6]
    assert "resumed" in small["flags"]
    assert small["provenance"]["resumed_from_step"] == 10
    took = metrics(large)
    assert took["total_time"] == pytest.approx(took["train_time"], rel=0.01)


def test_an_optimizer_for_later_does_not_end_the_training(watch: Watch) -> None:
    model, probe = make(16), make(4)
    optimizer = watch.adamw(model)
    for n in range(8):
        if n == 4:
            watch.adamw(probe)
        find_loss(model, draw()).backward()
        step(optimizer)
    (found,) = watch.observations()
    assert metrics(found)["n_steps"] == 8
