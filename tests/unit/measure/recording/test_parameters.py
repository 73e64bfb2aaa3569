"""What counts as the base model's own: its size does not depend on the method that trains it."""

from __future__ import annotations

from typing import Any

import pytest

from registry.measure.recording.parameters import count_parameters, is_added


@pytest.mark.parametrize(
    ("name", "prefix", "expected"),
    [
        ("base_model.model.q_proj.base_layer.weight", "lora_", False),
        ("base_model.model.q_proj.lora_A.default.weight", "lora_", True),
        ("base_model.model.q_proj.ranknum.default", "lora_", True),
        ("prompt_encoder.default.embedding.weight", None, True),
        ("base_model.model.lm_head.modules_to_save.default.weight", "lora_", True),
        ("base_model.layers.1.self_attn.adaption_prompt", None, True),
        ("model.embed_tokens.weight", None, False),
    ],
)
def test_what_peft_adds_is_told_from_the_base_model(
    name: str, prefix: str | None, *, expected: bool
) -> None:
    assert is_added(name, prefix) is expected


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning")  # of PEFT
@pytest.mark.parametrize("method", ["lora", "adalora", "ia3", "oft", "shira", "ln_tuning"])
def test_a_model_has_as_many_parameters_under_each_method(method: str) -> None:
    torch = pytest.importorskip("torch")
    peft = pytest.importorskip("peft")
    transformers = pytest.importorskip("transformers")
    config = transformers.LlamaConfig(
        hidden_size=32, num_hidden_layers=2, intermediate_size=64, num_attention_heads=2,
        vocab_size=64,
    )  # fmt: skip
    with torch.device("cpu"):
        model = transformers.LlamaForCausalLM(config)
    n_params = sum(parameter.numel() for parameter in model.parameters())
    more = {
        "adalora": {"total_step": 8, "tinit": 1, "tfinal": 2},
        "oft": {"oft_block_size": 8},
        "shira": {"r": 4},
    }
    targets = {} if method == "ln_tuning" else {"target_modules": ["q_proj", "v_proj"]}
    if method == "ia3":
        targets["feedforward_modules"] = []
    adapted = peft.get_peft_model(
        model,
        peft.get_peft_config(
            {
                "peft_type": method.upper(),
                "task_type": "CAUSAL_LM",
                **targets,
                **more.get(method, {}),
            }
        ),
    )
    assert count_parameters(adapted).n_base_params == n_params


def test_what_no_optimizer_steps_is_not_trained() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Linear(4, 2))
    embedding, head = (list(part.parameters()) for part in model)

    def n_trainable(*held: list[Any]) -> int:
        optimizers = [torch.optim.SGD(parameters, lr=0.1) for parameters in held]
        return count_parameters(model, optimizers).n_trainable

    assert n_trainable(head) == 10
    assert n_trainable(head, embedding) == 42
    copies = [parameter.detach().clone().requires_grad_() for parameter in head]
    assert n_trainable() == n_trainable(copies) == n_trainable(head, copies) == 42


def test_the_embeddings_of_a_model_that_names_none_are_found() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Sequential(torch.nn.Embedding(8, 4), torch.nn.Linear(4, 2))
    assert count_parameters(model).trains_embeddings
    assert count_parameters(torch.nn.ModuleList([model])).trains_embeddings
    model[0].requires_grad_(requires_grad=False)
    assert not count_parameters(model).trains_embeddings


def test_the_embeddings_that_a_model_within_names_are_those_that_count() -> None:
    torch = pytest.importorskip("torch")

    base: Any = torch.nn.Module

    class Inner(base):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = torch.nn.Embedding(8, 4), torch.nn.Embedding(16, 4)

        def get_input_embeddings(self) -> Any:
            return self.words

    inner = Inner()
    outer = torch.nn.Sequential(inner)
    assert count_parameters(outer).trains_embeddings
    inner.words.requires_grad_(requires_grad=False)
    assert not count_parameters(outer).trains_embeddings
