"""Names of the matrices in decoders, by ``model_type``.

A name that no matrix has is not an error in PEFT where another one of the list is found: the job
trains something else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from registry.errors import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: What stands for all linear layers but the output layer, alone.
ALL_LINEAR: Final = "all-linear"
_ATTENTION = ("q_proj", "k_proj", "v_proj", "o_proj")
_LLAMA = (*_ATTENTION, "gate_proj", "up_proj", "down_proj")
_FUSED = ("query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h")
_GPT2 = ("c_attn", "c_proj", "c_fc")

#: Of decoders that transformers builds; held against them by a test.
MODULE_NAMES: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        (
            *("llama", "mistral", "qwen2", "qwen3", "gemma", "gemma2", "gemma3_text", "granite"),
            *("olmo", "olmo2", "stablelm", "cohere"),
        ),
        _LLAMA,
    ),
    "phi3": ("qkv_proj", "o_proj", "gate_up_proj", "down_proj"),
    "phi": ("q_proj", "k_proj", "v_proj", "dense", "fc1", "fc2"),
    "nemotron": (*_ATTENTION, "up_proj", "down_proj"),
    "starcoder2": (*_ATTENTION, "c_fc", "c_proj"),
    "gpt2": _GPT2,
    "gpt_bigcode": _GPT2,
    "gpt_neox": _FUSED,
    "bloom": _FUSED,
    "falcon": _FUSED,
    "gptj": ("q_proj", "k_proj", "v_proj", "out_proj", "fc_in", "fc_out"),
    "opt": ("q_proj", "k_proj", "v_proj", "out_proj", "fc1", "fc2"),
    "mpt": ("Wqkv", "out_proj", "up_proj", "down_proj"),
}

_DELTA = ("in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj", "conv1d")
_MAMBA2 = ("in_proj", "out_proj", "conv1d")
#: Of a tower of Qwen's kind.
_EYES = ("qkv", "proj", "linear_fc1", "linear_fc2")

#: Of latent attention, of whose queries the configuration narrows some (`q_lora_rank`), and of
#: Qwen's first generation, Ling and InternLM2, whose code comes with their weights: the source
#: qwen-finetune-profile, Ling's modeling_bailing_moe.py, and modeling_internlm2.py.
_OTHERS: Final[dict[str, tuple[str, ...]]] = {
    **dict.fromkeys(
        ("deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite", "minicpm3", "youtu"),
        (
            *("q_proj", "q_a_proj", "q_b_proj", "kv_a_proj_with_mqa", "kv_b_proj", "o_proj"),
            *("gate_proj", "up_proj", "down_proj"),
        ),
    ),
    "qwen": ("c_attn", "c_proj", "w1", "w2"),
    "internlm2": ("wqkv", "wo", "w1", "w2", "w3"),
    "bailing_moe": ("query_key_value", "dense", "gate_proj", "up_proj", "down_proj"),
    "qwen3_5_text": (*_LLAMA, *_DELTA),
    "qwen3_5": (*_LLAMA, *_DELTA, *_EYES),
    "qwen3_5_moe_text": (*_LLAMA, "shared_expert_gate", *_DELTA),
    "qwen3_5_moe": (*_LLAMA, "shared_expert_gate", *_DELTA, *_EYES),
    "llama4_text": (*_LLAMA, "router"),
    "llama4": (*_LLAMA, "router", "fc1", "fc2", "linear_1", "linear"),
    **dict.fromkeys(("glm4v", "glm46v"), (*_LLAMA, "gate_up_proj", "qkv", "proj", "downsample")),
    "glm4v_moe": (*_LLAMA, "qkv", "proj", "downsample"),
    "nemotron_h": (
        *(*_ATTENTION, "up_proj", "down_proj"),
        *("fc1_latent_proj", "fc2_latent_proj", *_MAMBA2),
    ),
    **dict.fromkeys(("falcon_h1", "bamba"), (*_LLAMA, *_MAMBA2)),
    "mimo_v2_flash": _LLAMA,
}

#: Mixtures whose experts PEFT adapts though transformers 5 holds those of a layer in one tensor
#: (`peft.utils.transformers_weight_conversion`).
FUSED_AND_ADAPTED: Final = frozenset(
    {
        *("afmoe", "deepseek_v2", "deepseek_v3", "ernie4_5_moe", "exaone_moe", "flex_olmo"),
        *("glm4_moe", "glm4_moe_lite", "hunyuan_v1_moe", "kimi_k2", "minimax", "minimax_m2"),
        *("mixtral", "olmoe", "qwen2_moe", "qwen3_moe", "qwen3_next", "solar_open"),
    }
)

_OF_MAMBA = (ALL_LINEAR, "out_proj", "conv1d")
#: Targets on which PEFT 0.21 ends in an error, by family.
REFUSED_BY_PEFT: Final[dict[str, tuple[str, ...]]] = {
    "falcon_h1": _OF_MAMBA,  # Mamba's kernels read these weights by themselves
    "nemotron_h": _OF_MAMBA,
    "gemma4": _LLAMA,  # the tower wraps its matrices of these names
}

#: Embeddings and output layers, as the decoders above call them.
ENDS: Final = (
    *("lm_head", "embed_tokens", "wte", "wpe", "embed_in", "embed_out", "embed_positions"),
    "word_embeddings",
)


def check_modules(
    model_type: str | None, targets: Iterable[str], where: str = "lora_target_modules"
) -> Iterator[str]:
    """Yield what is wrong with targets that no matrix of a family has.

    Of families that are not listed, nothing is known but that ``all-linear`` stands alone.
    """
    given = tuple(targets)
    if given == (ALL_LINEAR,):
        return
    if ALL_LINEAR in given:
        others = ", ".join(target for target in given if target != ALL_LINEAR)
        yield f"{where}: found {ALL_LINEAR} together with {others}; expected it alone"
        return
    names = known_modules(model_type)
    if not names:
        return
    for target in given:
        if last_name(target) not in (*names, *ENDS):
            near = did_you_mean(target, (*names, ALL_LINEAR))
            yield (
                f"{where}: found {target!r}{near}; expected "
                f"all-linear, or modules of {model_type}: {', '.join(names)}"
            )


def known_modules(model_type: str | None) -> tuple[str, ...]:
    """Return the names of a family's matrices; none where they are not known."""
    return MODULE_NAMES.get(model_type or "") or _OTHERS.get(model_type or "", ())


def last_name(target: str) -> str:
    """Return the name of a module without the path before it, as PEFT matches it.

    >>> last_name("self_attn.q_proj")
    'q_proj'
    """
    return target.rpartition(".")[2]
