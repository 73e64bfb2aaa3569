"""LoRA of frameworks that build it themselves."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from registry.measure.recording.configuration import read_method
from registry.measure.recording.parameters import Parameters, count_parameters


class Parameter:
    """What is asked of a parameter."""

    dtype = "torch.float32"

    def __init__(self, count: int, *, is_trained: bool, shape: tuple[int, ...] = ()) -> None:
        self.count = count
        self.requires_grad = is_trained
        self.shape = shape

    def numel(self) -> int:
        return self.count

    def is_floating_point(self) -> bool:
        return True


class Model:
    """A model of named parameters and modules."""

    def __init__(self, trained: dict[str, int | tuple[int, int]], modules: dict[str, Any]) -> None:
        self._trained = {
            name: Parameter(size, is_trained=True)
            if isinstance(size, int)
            else Parameter(math.prod(size), is_trained=True, shape=size)
            for name, size in trained.items()
        }
        self._modules = modules

    def named_parameters(self) -> list[tuple[str, Parameter]]:
        base = [("layers.0.attn.q_proj.weight", Parameter(1000, is_trained=False))]
        return base + list(self._trained.items())

    def named_modules(self) -> list[tuple[str, Any]]:
        return list(self._modules.items())

    def modules(self) -> list[Any]:
        return list(self._modules.values())


TORCHTUNE = Model(
    {"layers.0.attn.q_proj.lora_a.weight": 8, "layers.0.attn.q_proj.lora_b.weight": 8},
    {"layers.0.attn.q_proj": SimpleNamespace(rank=8, alpha=16)},
)
LITGPT = Model(
    {"h.0.attn.qkv.lora_A": 12, "h.0.attn.qkv.lora_B": 4},
    {"h.0.attn.qkv": SimpleNamespace(r=4, lora_alpha=16)},
)
DORA = Model(
    {"attn.v_proj.lora_a.weight": 8, "attn.v_proj.magnitude": 1},
    {"attn.v_proj": SimpleNamespace(rank=2, alpha=4.0)},
)
#: As in "LLMs from scratch": a module beside the linear one holds both matrices.
HELD = Model(
    {"blocks.0.att.W_query.lora.A": 16, "blocks.0.att.W_query.lora.B": 16},
    {
        "blocks.0.att.W_query": SimpleNamespace(),
        "blocks.0.att.W_query.lora": SimpleNamespace(rank=16, alpha=32),
    },
)
#: As minLoRA has it: a parametrization of the weight, in a list.
PARAMETRIZED = Model(
    {"attn.q_proj.parametrizations.weight.0.lora_A": (4, 8)},
    {"attn.q_proj.parametrizations.weight.0": SimpleNamespace(rank=4, lora_alpha=8)},
)
#: Layers in a list, and matrices of whose rank nothing but their shapes tells.
LISTED = Model(
    {"ff.layers.2.lora.A": (32, 6), "ff.layers.2.lora.B": (6, 2)},
    {"ff.layers.2.lora": SimpleNamespace(alpha=12)},
)
#: As fsdp_qlora has it: a module each for the matrices and for the magnitude.
HELD_DORA = Model(
    {
        "attn.v_proj.dora_layer.lora_A.weight": (4, 8),
        "attn.v_proj.dora_layer.lora_B.weight": (8, 4),
        "attn.v_proj.magnitude_layer.magnitude": 8,
    },
    {},
)
BARE = Model({"lora_A": 8}, {})


def read(model: Model) -> tuple[Parameters, dict[str, Any]]:
    parameters = count_parameters(model)
    return parameters, read_method(model, parameters)


@pytest.mark.parametrize(
    ("model", "method", "rank", "alpha", "targets"),
    [
        (TORCHTUNE, "lora", 8, 16.0, ["q_proj"]),
        (LITGPT, "lora", 4, 16.0, ["qkv"]),
        (DORA, "dora", 2, 4.0, ["v_proj"]),
        (HELD, "lora", 16, 32.0, ["W_query"]),
        (PARAMETRIZED, "lora", 4, 8.0, ["q_proj"]),
        (LISTED, "lora", 6, 12.0, ["layers.2"]),
        (HELD_DORA, "dora", 4, None, ["v_proj"]),
        (BARE, "lora", None, None, None),
    ],
)
def test_an_adapter_that_peft_did_not_make_is_found(
    model: Model, method: str, rank: int | None, alpha: float | None, targets: list[str] | None
) -> None:
    parameters, row = read(model)
    assert row["method"] == method
    found = (row.get("lora_rank"), row.get("lora_alpha"), row.get("lora_target_modules"))
    assert found == (rank, alpha, targets)
    assert parameters.n_params > 1000


def test_an_adapter_is_no_part_of_the_base_model() -> None:
    for model in (TORCHTUNE, HELD, HELD_DORA):
        parameters, _ = read(model)
        assert (parameters.n_base_params, parameters.n_trainable_base) == (1000, 0)


def test_a_model_that_trains_other_parameters_has_none() -> None:
    assert read(Model({"head.weight": 8}, {}))[1] == {"method": "freeze"}


def test_the_base_of_a_model_inside_a_module_is_counted_without_its_adapter() -> None:
    wrapped = SimpleNamespace(base_model=SimpleNamespace(prefix="vera_"))
    model = Model({"model.q_proj.vera_lambda_b": 8}, {"model": wrapped})
    assert count_parameters(model).n_base_params == 1000
