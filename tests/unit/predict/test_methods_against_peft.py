"""What PEFT's modules keep for the backward pass is what the formula counts: PEFT is run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from registry.catalogue.linear import LINEAR
from registry.catalogue.meta_model import build_on_meta
from registry.catalogue.module_names import ALL_LINEAR, REFUSED_BY_PEFT
from registry.predict.architecture import architecture_from_config
from registry.predict.formula.activations import layer_activation_bytes
from registry.predict.formula.methods import kept_of_weights, kept_per_token
from registry.predict.question import Question, check_question
from tests.unit.catalogue.varied import VARIED
from tests.unit.predict.tiny import TINY

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")
peft = pytest.importorskip("peft")

# PEFT warns of norms and of names that transformers has renamed.
pytestmark = [
    pytest.mark.filterwarnings("ignore::FutureWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]
LAYERS = 2
MODEL = replace(
    TINY, n_layers=LAYERS, hidden_size=256, intermediate_size=768, vocab_size=512, n_heads=8,
    n_kv_heads=2, head_dim=32,
)  # fmt: skip
LENGTH = 64
TARGETS = ["q_proj", "v_proj"]


def build(*, frozen: bool = True) -> Any:
    config = transformers.LlamaConfig(
        hidden_size=256, intermediate_size=768, num_hidden_layers=LAYERS, num_attention_heads=8,
        num_key_value_heads=2, vocab_size=512, tie_word_embeddings=True,
    )  # fmt: skip
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    return model.requires_grad_(not frozen)


def saved_bytes(model: Any, samples: int) -> int:
    """Return the bytes that the graph keeps besides parameters."""
    model.enable_input_require_grads()
    own = {one.untyped_storage().data_ptr() for one in [*model.parameters(), *model.buffers()]}
    sizes: dict[int, int] = {}
    alive = []

    def pack(tensor: Any) -> Any:
        alive.append(tensor)
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            sizes[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(input_ids=torch.ones(samples, LENGTH, dtype=torch.long), use_cache=False)
    return sum(sizes.values())


def kept(model: Any) -> tuple[float, float]:
    """Return bytes by token and layer, and bytes by layer whatever the tokens."""
    few, many = saved_bytes(model, 2), saved_bytes(model, 4)
    return (many - few) / (2 * LENGTH * LAYERS), (2 * few - many) / LAYERS


#: By method: PEFT's settings, and the rank.
CONFIGS: dict[str, tuple[Any, int | None]] = {
    "lora": (lambda: peft.LoraConfig(r=8, target_modules=TARGETS), 8),
    "dora": (lambda: peft.LoraConfig(r=8, target_modules=TARGETS, use_dora=True), 8),
    "vera": (lambda: peft.VeraConfig(r=16, target_modules=TARGETS), 16),
    "loha": (lambda: peft.LoHaConfig(r=8, target_modules=TARGETS), 8),
    "lokr": (lambda: peft.LoKrConfig(r=8, target_modules=TARGETS), 8),
    "fourierft": (lambda: peft.FourierFTConfig(n_frequency=1000, target_modules=TARGETS), None),
    "ia3": (
        lambda: peft.IA3Config(
            target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"]
        ),
        None,
    ),
    "ln_tuning": (
        lambda: peft.LNTuningConfig(target_modules=["input_layernorm", "post_attention_layernorm"]),
        None,
    ),
}


@pytest.mark.parametrize("method", list(CONFIGS))
def test_an_adapter_keeps_what_peft_keeps(method: str) -> None:
    config, rank = CONFIGS[method]
    plain, wrapped = kept(build()), kept(peft.get_peft_model(build(), config()))
    question = Question(MODEL, method=method, seq_len=LENGTH, lora_rank=rank)
    assert wrapped[0] - plain[0] == pytest.approx(kept_per_token(question), rel=0.01)
    if kept_of_weights(question):
        assert wrapped[1] - plain[1] == pytest.approx(kept_of_weights(question), rel=0.1)


#: Families whose layers are not all alike, and the modules beside the decoder's.
LISTED = [(kind, config) for kind in LINEAR for config in VARIED.get(kind, ())]
LISTED += [(kind, config) for kind in ("qwen3_5", "llama4", "glm4v") for config in VARIED[kind]]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("kind", "config"), LISTED)
def test_lora_trains_what_peft_trains(kind: str, config: dict[str, Any]) -> None:
    stated = {"model_type": kind, **config}
    model = architecture_from_config(stated)
    refused = REFUSED_BY_PEFT.get(kind, ())
    names = tuple({one.name for one in model.modules} - {*refused})
    settings = peft.LoraConfig(
        r=8, target_modules=list(names), exclude_modules=".*(vis|audio|multi_modal).*"
    )
    with torch.device("meta"):
        built = peft.get_peft_model(build_on_meta(stated), settings)
    trained = sum(one.numel() for one in built.parameters() if one.requires_grad)
    question = Question(model, method="lora", seq_len=64, lora_rank=8, lora_target_modules=names)
    assert question.adapter_params == trained


@pytest.mark.parametrize("kind", REFUSED_BY_PEFT)
def test_peft_refuses_what_is_warned_of(kind: str) -> None:
    stated = {"model_type": kind, **VARIED[kind][0]}
    name = REFUSED_BY_PEFT[kind][0]
    with pytest.raises(ValueError, match=r"incompatible|not supported"), torch.device("meta"):
        peft.get_peft_model(build_on_meta(stated), peft.LoraConfig(target_modules=_as_peft(name)))
    question = Question(
        architecture_from_config(stated), method="lora", seq_len=64, lora_target_modules=(name,)
    )
    assert any("PEFT 0.21 ends in an error" in one for one in check_question(question))


def _as_peft(name: str) -> Any:
    return name if name == ALL_LINEAR else [name]


@pytest.mark.parametrize("frozen", [True, False])
def test_a_layer_keeps_what_transformers_keeps(frozen: bool) -> None:  # noqa: FBT001 - a parameter of the test
    method = "lora" if frozen else "full"
    counted = layer_activation_bytes(Question(MODEL, method=method, seq_len=LENGTH)) / LENGTH
    last_norm = 4 * 256 if frozen else 8 * 256  # and, trained, what enters the output layer
    assert kept(build(frozen=frozen))[0] - last_norm / LAYERS == pytest.approx(counted, rel=0.01)
