"""Peak memory of one device by formula, term by term: pure arithmetic, no torch.

`memory_terms` returns the summands of the peak. Each has the bytes that its formula gives, the
part of the answer it belongs to, and how far the formula may be off (a relative deviation):
calibration scales the terms within that, on what was measured.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.predict.formula.adapters import adapter_inputs
from registry.predict.question import SHARDS_GRADIENTS, SHARDS_OPTIMIZER, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from registry.predict.question import Question

GIB = 2**30
_DTYPE_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 1}
#: Parts of an answer, in the order in which they are shown.
PARTS = (
    "weights", "gradients", "optimizer", "adapters", "activations", "logits", "context",
    "fragmentation",
)  # fmt: skip


@dataclass(frozen=True)
class Term:
    """One summand of a peak or of a time."""

    name: str
    part: str
    value: float
    #: Standard deviation of the factor by which the formula may be off.
    doubt: float
    #: Whether it grows with the tokens of a micro-batch.
    transient: bool = False


def memory_terms(question: Question) -> list[Term]:
    """Return the summands of the peak of one device, in bytes.

    The peak is what stays (weights, gradients, optimizer state, adapters, context) plus the larger
    of two moments: the start of the backward pass (activations and logits alive) and the
    optimizer's step (its temporaries alive).
    """
    stay = [*_weights(question), *_trained(question), *_runtime(question)]
    backward = [*_activations(question), *_logits(question), *_fragmentation(question)]
    step = _step_temporaries(question)
    moment = max((backward, step), key=lambda terms: sum(term.value for term in terms))
    return [term for term in (*stay, *moment) if term.value]


def total(terms: list[Term]) -> float:
    """Return the sum of the terms, in their unit."""
    return sum(term.value for term in terms)


def weight_bytes(question: Question) -> int:
    """Return the bytes of one unquantized base weight."""
    dtype = question.param_dtype or question.setting("compute_dtype")
    return _DTYPE_BYTES.get(dtype, 2)


def _weights(question: Question) -> list[Term]:
    """Weights: parameters x bytes each; a quantizer leaves the embeddings as they are.

    Blockwise quantization adds its scales: 4 bytes per 64 weights in NF4 and FP4 (Dettmers et al.
    2023, QLoRA, section 3), about 2.5 bytes per 128 in GPTQ's groups. PEFT turns what bitsandbytes
    left unquantized to fp32 (`prepare_model_for_kbit_training`).
    """
    model, bits = question.model, question.quant_bits
    if question.offloaded:
        return [Term("offload_window", "weights", _gathered(question), 0.6)]
    shards = question.shards(SHARDS_WEIGHTS)
    if bits is None:
        held = model.n_params * weight_bytes(question) / shards
        return [Term("weights", "weights", held, 0.03), *_gathered_terms(question)]
    scales = model.linear_params * (4 / 64 if _bitsandbytes(question) else 2.5 / 128)
    wide = _bitsandbytes(question) * 2 * model.embedding_params
    return [
        Term("quantized_weights", "weights", model.linear_params * bits / 8 / shards, 0.04),
        Term("scales", "weights", scales * (bits < _ROWWISE_BITS) / shards, 0.5),
        Term("embeddings", "weights", 2 * model.embedding_params / shards, 0.03),
        Term("fp32_embeddings", "weights", wide / shards, 0.25),
        *_gathered_terms(question),
    ]


#: From this many bits on, one scale serves an entire row, which weighs nothing.
_ROWWISE_BITS = 8


def _bitsandbytes(question: Question) -> bool:
    return question.quant_method in (None, "bitsandbytes")


def _gathered_terms(question: Question) -> list[Term]:
    """Return what a device holds of the weights that are sharded over others."""
    if question.sharding not in ("zero3", "fsdp", "hsdp"):
        return []
    return [Term("gathered", "weights", _gathered(question), 0.6)]


def _gathered(question: Question) -> float:
    """Weights gathered at a time: DeepSpeed's stage3_max_live_parameters (1e9) and prefetch.

    Source: documentation of DeepSpeed's ZeRO configuration (defaults).
    """
    return 3.0 * min(question.model.n_params, 1_000_000_000)


#: States that an optimizer keeps of each parameter, in the width of the parameter; AdamW keeps two.
_STATES = {
    "sgd": 0.0, "adafactor": 0.1, "lion": 1.0, "paged_lion_32bit": 1.0, "muon": 1.0, "rmsprop": 1.0,
}  # fmt: skip
#: Bytes a parameter of the optimizers whose states have 8 bits, whatever the parameter has.
_EIGHT_BIT = {"adamw_8bit": 2.0, "paged_adamw_8bit": 2.0, "lion_8bit": 1.0, "paged_lion_8bit": 1.0}


def optimizer_bytes(question: Question, state_bytes: int) -> float:
    """Return the optimizer's bytes per trained parameter: AdamW keeps two moments."""
    name = question.setting("optimizer")
    return _EIGHT_BIT.get(name) or _STATES.get(name, 2.0) * state_bytes


def _trained(question: Question) -> list[Term]:
    """Gradients and optimizer state of what is trained.

    Full training in one 16-bit dtype: 2 + 4 bytes (gradient, two moments); mixed precision keeps
    an fp32 master copy: 2 + 12 (Rajbhandari et al. 2020, ZeRO, section 3.1); DeepSpeed also holds
    the gradients of a step in fp32. Adapters are fp32: 4 + 4 + 8.
    """
    if question.offloaded and question.full:
        return []
    terms = _adapters(question)
    if question.full:
        terms += _full(question, question.model.n_params, "full")
    elif question.trains_embeddings:
        embeddings = question.model.embedding_params
        copy = embeddings * weight_bytes(question) / question.shards(SHARDS_WEIGHTS)
        terms.append(Term("embedding_copies", "weights", copy, 0.1))
        terms += _full(question, embeddings, "embedding")
    return terms


def _full(question: Question, params: int, name: str) -> list[Term]:
    width = weight_bytes(question)
    gradients = params * width / question.shards(SHARDS_GRADIENTS)
    spread = question.shards(SHARDS_OPTIMIZER)
    if question.deepspeed:
        state = params * (4 + optimizer_bytes(question, 4)) / spread
        wide = params * 4 / spread
        return [
            Term(f"{name}_gradients", "gradients", gradients, 0.1),
            Term(f"{name}_fp32_gradients", "gradients", wide, 0.5),
            Term(f"{name}_mixed_optimizer", "optimizer", state, 0.1),
        ]
    state = params * optimizer_bytes(question, width) / spread
    return [
        Term(f"{name}_gradients", "gradients", gradients, 0.1),
        Term(f"{name}_optimizer", "optimizer", state, 0.15),
    ]


def _adapters(question: Question) -> list[Term]:
    params = question.adapter_params
    spread = question.shards(SHARDS_OPTIMIZER)
    return [
        Term("adapters", "adapters", params * 4, 0.3),
        Term("adapter_gradients", "gradients", params * 4, 0.3),
        Term("adapter_optimizer", "optimizer", params * optimizer_bytes(question, 4) / spread, 0.3),
    ]


def _step_temporaries(question: Question) -> list[Term]:
    """PyTorch's multi-tensor AdamW computes a denominator of the size of the trained parameters."""
    if question.offloaded:
        return []
    width = 4 if question.deepspeed else weight_bytes(question)
    trained = question.trained_params - question.adapter_params
    spread = question.shards(SHARDS_OPTIMIZER)
    used = (trained * width + question.adapter_params * 4) / spread
    return [Term("step_temporaries", "optimizer", used, 0.5, transient=False)]


def layer_activation_bytes(question: Question) -> float:
    """Return what one layer keeps for its backward pass, without the attention matrix.

    Formula: 16-bit inputs and outputs of the norms, projections and the MLP of one layer, 8 hidden
    and 4 intermediate widths a token, as in Korthikanti et al. 2022 (Reducing Activation
    Recomputation), section 4.1, for a gated MLP without dropout.
    """
    model = question.model
    width = 2 * (8 * model.hidden_size + 4 * model.intermediate_size * _active_experts(question))
    return float(question.tokens * width)


def _active_experts(question: Question) -> int:
    return question.model.n_experts_active or 1


def _activations(question: Question) -> list[Term]:
    """Activations: one 16-bit vector a token and layer with checkpointing, plus one entire layer.

    Eager attention keeps its matrix: heads x seq² scores, as scores, fp32 softmax and 16-bit
    probabilities (2 + 4 + 2 bytes). Adapters in fp32 keep an fp32 copy of their module's input.
    """
    model = question.model
    layers = 1 if question.setting("gradient_checkpointing") else model.n_layers
    terms = [
        Term("layer_activations", "activations", layers * layer_activation_bytes(question),
             0.3, transient=True),
    ]  # fmt: skip
    if layers == 1:
        kept = 2.0 * question.tokens * model.hidden_size * model.n_layers
        terms.append(Term("checkpoints", "activations", kept, 0.2, transient=True))
    if not question.full:
        cast = 4.0 * question.tokens * adapter_inputs(model, question.lora_target_modules)
        terms.append(Term("adapter_inputs", "activations", layers * cast, 0.6, transient=True))
    if question.setting("attention") == "eager":
        matrix = 8.0 * model.n_heads * question.tokens * question.seq_len * layers
        terms.append(Term("attention_matrix", "activations", matrix, 0.5, transient=True))
    return terms


def _logits(question: Question) -> list[Term]:
    """Logits: tokens x vocabulary, alive in several copies at the start of the backward pass.

    16-bit logits (2), their fp32 copy (4), the log-probabilities (4) and the gradient (4): 14
    bytes each, in the transformers that compute the loss in the model. An output layer in fp32
    adds 2.
    """
    each = 14 + (2 if question.quantized and _bitsandbytes(question) else 0)
    held = float(each * question.tokens * question.model.vocab_size)
    return [Term("logits", "logits", held, 0.2, transient=True)]


def _fragmentation(question: Question) -> list[Term]:
    """Blocks that the caching allocator cannot use again where samples vary in length.

    The largest blocks are copies of the logits; a longer sample than all before finds the cached
    ones too small. It shows where samples beyond 2,048 tokens occur.
    """
    if not question.varies:
        return []
    beyond = question.micro_batch_size * max(0, question.seq_len - 2048)
    held = 10.0 * beyond * question.model.vocab_size
    return [Term("fragmentation", "fragmentation", held, 1.0, transient=True)]


def _runtime(question: Question) -> list[Term]:
    """CUDA context, kernels and library workspaces; DeepSpeed's and NCCL's buckets.

    About 1.3 GB were seen before the first tensor (seed `vram-qa`); 0.5-1 GB is usual today.
    DeepSpeed's buckets hold 5e8 elements at most (defaults of its ZeRO configuration).
    """
    terms = [Term("context", "context", 1.0e9, 0.5)]
    if question.deepspeed:
        bucket = 4.0 * min(max(question.trained_params, 50_000_000), 500_000_000)
        terms.append(Term("buckets", "context", bucket, 0.7))
    return terms
