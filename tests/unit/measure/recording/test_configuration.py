"""What live objects say of a training, where they are not made as most are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from registry.measure.recording.configuration import (
    find_adapters,
    is_compiled,
    optimizer_word,
    read_checkpointing,
    read_method,
    read_quantization,
)
from registry.measure.recording.loop_job import LoopJob
from registry.measure.recording.parameters import count_parameters


class CheckpointWrapper:
    """Torch's wrapper of a module, by its name."""


class Layers:
    """A model of modules."""

    def __init__(self, *modules: Any) -> None:
        self._modules = modules

    def modules(self) -> list[Any]:
        return [self, *self._modules]


def test_torchs_wrapper_checkpoints_whatever_the_models_own_switch_says() -> None:
    switch = SimpleNamespace(gradient_checkpointing=False)
    assert read_checkpointing(Layers(switch)) is False
    assert read_checkpointing(Layers(switch, CheckpointWrapper())) is True


def test_a_parametrized_weight_is_not_taken_for_a_quantized_one() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 4))
    assert read_quantization(model) == {}


@pytest.mark.parametrize("how", ["no", "wrapped", "in its place", "forward", "a part"])
def test_a_compiled_model_is_known_however_it_was_compiled(how: str) -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
    if how == "wrapped":
        model = torch.compile(model, backend="eager")
    if how == "in its place":
        model.compile(backend="eager")
    if how == "forward":
        model.forward = torch.compile(model.forward, backend="eager")
    if how == "a part":
        model[0] = torch.compile(model[0], backend="eager")
    assert is_compiled(model) is (how != "no")


@pytest.mark.parametrize(
    ("name", "group", "word"),
    [
        ("AdamW", {"rank": 8, "update_proj_gap": 200}, "galore_adamw"),
        ("AdamW8bit", {"update_proj_gap": 200}, "other"),
        ("AdamW", {}, "adamw"),
    ],
)
def test_an_optimizer_that_projects_gradients_is_galores(
    name: str, group: dict[str, Any], word: str
) -> None:
    optimizer = type(name, (), {"__module__": "galore_torch", "param_groups": [{}, group]})()
    assert optimizer_word(optimizer) == word


def test_the_rank_of_another_method_than_lora_is_a_setting_of_its_own() -> None:
    torch = pytest.importorskip("torch")
    peft = pytest.importorskip("peft")
    config = peft.LoHaConfig(r=4, target_modules=["0"])
    model = peft.get_peft_model(torch.nn.Sequential(torch.nn.Linear(16, 16)), config)
    assert find_adapters(model) is model
    row = read_method(model, count_parameters(model))
    assert (row["method"], row["peft_config"]) == ("loha", {"r": 4})


class DataParallel:
    """Torch's module that splits a batch over the devices of one process, by its name."""

    training = True

    def __init__(self, device_ids: list[int]) -> None:
        self.device_ids = device_ids
        self.module = self

    def parameters(self) -> list[Any]:
        return []

    def modules(self) -> list[Any]:
        return [self]


@pytest.mark.parametrize(
    ("devices", "size"), [([], 6), ([3], 6), ([0, 1], 3), ([0, 1, 2, 3], None)]
)
def test_a_split_batch_is_that_of_the_devices_it_is_split_over(
    devices: list[int], size: int | None
) -> None:
    batches = SimpleNamespace(
        read_length=dict,
        sizes=SimpleNamespace(most_common=lambda _: [(6, 1)]),
        per_step={},
        are_clear=True,
    )
    job = LoopJob(DataParallel(devices), [])
    assert job.read_length(batches).get("micro_batch_size") == size  # type: ignore[arg-type]


def test_a_model_that_never_trains_its_positions_is_trained_in_full() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.ModuleDict(
        {"embed_positions": torch.nn.Embedding(8, 4), "head": torch.nn.Linear(4, 4)}
    )
    model["embed_positions"].requires_grad_(False)  # noqa: FBT003 - torch's own signature
    assert read_method(model, count_parameters(model)) == {"method": "full"}
    model["head"].bias.requires_grad_(False)  # noqa: FBT003 - likewise
    assert read_method(model, count_parameters(model)) == {"method": "freeze"}


def test_an_optimizer_whose_state_is_shared_out_is_named_by_what_it_shares() -> None:
    class AdamW8bit:
        param_groups = ()

    class ZeroRedundancyOptimizer:
        optim = AdamW8bit()

    assert optimizer_word(ZeroRedundancyOptimizer()) == "adamw_8bit"


def test_an_optimizer_whose_state_is_shared_out_is_stage_one_of_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch: Any = pytest.importorskip("torch")

    class DistributedDataParallel(torch.nn.Module):  # type: ignore[misc] # torch is not typed here
        def __init__(self) -> None:
            super().__init__()
            self.module = torch.nn.Linear(4, 4)

    class ZeroRedundancyOptimizer(torch.optim.SGD):  # type: ignore[misc] # likewise
        @property
        def optim(self) -> Any:
            return torch.optim.SGD(self.param_groups[0]["params"])

    monkeypatch.setenv("WORLD_SIZE", "2")
    model = DistributedDataParallel()
    job = LoopJob(model, [ZeroRedundancyOptimizer(model.parameters())])
    row, _ = job.read_configuration(count_parameters(job.model, job.optimizers))
    assert (row["sharding"], row["optimizer"]) == ("zero1", "sgd")
