"""What stays on a device from step to step: weights, gradients, optimizer state, buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.formula.optimizers import (
    embedding_bytes,
    state_bytes,
    step_copies,
    updates_in_place,
)
from registry.predict.formula.term import Term
from registry.predict.sharding import FSDP, SHARDS_GRADIENTS, SHARDS_OPTIMIZER, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from registry.predict.question import Question

#: Bytes in which weights of a dtype are held. fp8 is a dtype of products: weights stay in 16 bits.
_DTYPE_BYTES = {"fp32": 4, "tf32": 4, "fp16": 2, "bf16": 2, "fp8": 2}
_FP32_BYTES, HALF_BYTES = 4, 2


def weight_bytes(question: Question) -> int:
    """Return the bytes of one unquantized base weight."""
    return _DTYPE_BYTES.get(question.held_dtype, HALF_BYTES)


def compute_bytes(question: Question) -> int:
    """Return the bytes in which a weight enters a product."""
    return _DTYPE_BYTES.get(question.setting("compute_dtype"), HALF_BYTES)


def weights(question: Question) -> list[Term]:
    """Weights: parameters x bytes each; a quantizer leaves the embeddings as they are.

    Blockwise quantization adds its scales (`scale_bytes`). PEFT turns what bitsandbytes
    left unquantized to fp32 (`prepare_model_for_kbit_training`); Unsloth does not. bitsandbytes
    quantizes linear layers: experts that transformers 5 fuses into one tensor are none (read off
    `replace_with_bnb_linear`, and checked by a dry run).
    """
    model, bits = question.model, question.quant_bits
    if question.offloads_params:
        return [Term("offload_window", "weights", _gathered(question, question.n_params), 0.6)]
    shards = question.shards(SHARDS_WEIGHTS)
    if bits is None:
        held = question.n_params * weight_bytes(question) / shards
        return [
            Term("weights", "weights", held, 0.03),
            *_cast_weights(question),
            *_gathered_terms(question),
        ]
    quantized = model.linear_params - question.plain_experts
    plain = _FP32_BYTES if question.keeps_fp32_embeddings else HALF_BYTES
    scales = quantized * scale_bytes(question)
    wide = question.keeps_fp32_embeddings * 2 * model.plain_params
    return [
        Term("quantized_weights", "weights", quantized * bits / 8 / shards, 0.04),
        Term("experts", "weights", plain * question.plain_experts / shards, 0.03),
        Term("scales", "weights", scales / shards, 0.5),
        Term("embeddings", "weights", 2 * model.plain_params / shards, 0.03),
        Term("fp32_embeddings", "weights", wide / shards, 0.25),
        *_gathered_terms(question),
    ]


#: From this many bits on, one scale serves an entire row, which weighs nothing.
_ROWWISE_BITS = 8


def scale_bytes(question: Question) -> float:
    """Return the bytes of the scales of one quantized weight.

    4 bytes per 64 weights in NF4 and FP4; where they are quantized too, one byte, and 4 for each
    256 of them (Dettmers et al. 2023, QLoRA, section 3). About 2.5 per 128 in GPTQ's groups.
    """
    if question.quant_bits is None or question.quant_bits >= _ROWWISE_BITS:
        return 0.0
    if question.doubles:
        return 1 / 64 + 4 / (64 * 256)
    return 4 / 64 if question.bitsandbytes else 2.5 / 128


def _cast_weights(question: Question) -> list[Term]:
    """16-bit copies of fp32 weights under autocast.

    Source: PyTorch's documentation of autocast: casts of weights that need a gradient are cached
    to the end of the forward pass; those of frozen weights live in the graph, with checkpointing
    in that of one layer. FSDP and DeepSpeed cast what they gather instead.
    """
    narrower = compute_bytes(question) < weight_bytes(question)
    if not narrower or question.sharding in FSDP or question.deepspeed:
        return []
    layers = question.model.n_layers
    once = question.setting("gradient_checkpointing") and not question.full
    count = question.model.linear_params / (layers if once else 1)
    cast = compute_bytes(question) * count / question.shards(SHARDS_WEIGHTS)
    return [Term("cast_weights", "weights", cast, 0.5)]


def _gathered_terms(question: Question) -> list[Term]:
    """Return what a device holds of the weights that are sharded over others."""
    shards = question.shards(SHARDS_WEIGHTS)
    if question.sharding not in (*FSDP, "zero3") or shards == 1:
        return []
    elsewhere = question.n_params * (1 - 1 / shards)
    return [Term("gathered", "weights", _gathered(question, elsewhere), 0.6)]


def _gathered(question: Question, elsewhere: float) -> float:
    """Bytes gathered at a time of the ``elsewhere`` parameters that other devices hold.

    FSDP: the layer at work and the one prefetched, and the root unit with the embeddings and the
    output layer (PyTorch's FSDP notes, "prefetching"; `transformer_auto_wrap_policy`). DeepSpeed:
    stage3_max_live_parameters and stage3_prefetch_bucket_size, 1.5e9 elements in all (defaults of
    its ZeRO configuration). Never more than there is elsewhere.
    """
    model, width = question.model, compute_bytes(question)
    narrow = width if question.quant_bits is None else question.quant_bits / 8
    if question.sharding not in FSDP:
        # a live parameter is a gathered one, quantized where the weights are
        return narrow * min(elsewhere, 1_500_000_000)
    layers = 2 * model.linear_params / model.n_layers
    root = min(model.plain_params, elsewhere)
    return narrow * min(layers, max(elsewhere - root, 0)) + width * root


def trained(question: Question) -> list[Term]:
    """Optimizer state of what is trained, and its copies in other precisions.

    All weights in one dtype: two moments of AdamW in that dtype. DeepSpeed with 16-bit weights
    keeps fp32 masters and moments: 12 bytes (Rajbhandari et al. 2020, ZeRO, section 3.1), and
    holds the gradients of a step in fp32. Adapters are fp32 throughout: 4 + 8.
    """
    terms = _adapters(question)
    if question.full:
        terms += _full(question, question.n_params, "full")
    elif question.trains_embeddings:
        embeddings = question.model.embedding_params
        copy = embeddings * weight_bytes(question) / question.shards(SHARDS_WEIGHTS)
        terms.append(Term("embedding_copies", "weights", copy, 0.1))
        terms += _full(question, embeddings, "embedding")
    return terms


def _full(question: Question, params: int, name: str) -> list[Term]:
    if question.offloads_optimizer:
        return []
    spread = question.shards(SHARDS_OPTIMIZER)
    if question.deepspeed:
        state = params * (_FP32_BYTES + state_bytes(question, _FP32_BYTES)) / spread
        wide = params * _FP32_BYTES / spread
        return [
            Term(f"{name}_fp32_gradients", "gradients", wide, 0.5),
            Term(f"{name}_mixed_optimizer", "optimizer", state, 0.1),
        ]
    state = params * state_bytes(question, weight_bytes(question)) / spread
    state += _embedded(question) * embedding_bytes(question) / spread
    return [Term(f"{name}_optimizer", "optimizer", state, 0.15)]


def _adapters(question: Question) -> list[Term]:
    params = question.adapter_params
    terms = [
        Term("adapters", "adapters", params * _FP32_BYTES / question.shards(SHARDS_WEIGHTS), 0.3)
    ]
    if not question.offloads_optimizer:
        state = params * state_bytes(question, _FP32_BYTES) / question.shards(SHARDS_OPTIMIZER)
        terms.append(Term("adapter_optimizer", "optimizer", state, 0.3))
    return terms


def gradients(question: Question) -> list[Term]:
    """Gradients: in the dtype of what is trained, spread as the sharding spreads them.

    With the optimizer in the backward pass, those of the largest trained module alone. ZeRO-2 and
    3 with the optimizer on the host send them there as they come; so does FSDP with parameters
    there, a unit at a time.
    """
    width, shards = weight_bytes(question), question.shards(SHARDS_GRADIENTS)
    if question.optimizer_in_backward:
        return [Term("module_gradients", "gradients", _module_gradient(question) / shards, 0.5)]
    if question.offloads_params:
        return _unit_gradients(question) if question.full else []
    if question.offloads_optimizer and question.sharding in _SENT:
        return []
    terms = [
        Term("adapter_gradients", "gradients", question.adapter_params * _FP32_BYTES / shards, 0.3)
    ]
    if question.full:
        held = question.n_params * width / shards
        terms += [Term("full_gradients", "gradients", held, 0.1), *_unit_gradients(question)]
    elif question.trains_embeddings:
        held = question.model.embedding_params * width / shards
        terms.append(Term("embedding_gradients", "gradients", held, 0.1))
    return terms


#: Shardings of DeepSpeed whose gradients are partitioned as they come.
_SENT = ("zero2", "zero3")


def _embedded(question: Question) -> int:
    """Parameters of the input embedding."""
    return question.model.vocab_size * question.model.hidden_size


def _largest(question: Question) -> float:
    """Parameters of the largest module: an embedding, or a layer's matrix."""
    model = question.model
    matrix = model.linear_params / model.n_layers / 3
    return max(_embedded(question), model.layer_embedding_params, matrix)


def _module_gradient(question: Question) -> float:
    """Bytes of the gradient of the largest module that is trained: of adapters, a layer's."""
    if question.full:
        return _largest(question) * weight_bytes(question)
    if question.trains_embeddings:
        return _embedded(question) * weight_bytes(question)
    return question.adapter_params / question.model.n_layers * _FP32_BYTES


def _unit_gradients(question: Question) -> list[Term]:
    """FSDP's gradients of the units at work, before they are reduced: a layer and the root.

    With parameters on the host, a card has no share of them besides.
    """
    shards = question.shards(SHARDS_GRADIENTS)
    if question.sharding not in FSDP or (shards == 1 and not question.offloads_params):
        return []
    model = question.model
    unit = model.linear_params / model.n_layers + model.plain_params
    elsewhere = 1.0 if question.offloads_params else 1 - 1 / shards
    held = compute_bytes(question) * unit * elsewhere
    return [Term("unit_gradients", "gradients", held, 0.6)]


def step_temporaries(question: Question) -> list[Term]:
    """PyTorch's multi-tensor AdamW computes a denominator of the size of the trained parameters.

    Fused kernels, bitsandbytes' and SGD update in place, Adafactor one parameter after the other.
    """
    if question.offloads_optimizer or question.optimizer_in_backward:
        return []
    if updates_in_place(question):
        return _largest_copies(question)
    width = _FP32_BYTES if question.deepspeed else weight_bytes(question)
    rest = question.trained_params - question.adapter_params
    spread = question.shards(SHARDS_OPTIMIZER)
    used = (rest * width + question.adapter_params * _FP32_BYTES) / spread
    return [Term("step_temporaries", "optimizer", used, 0.5)]


def _largest_copies(question: Question) -> list[Term]:
    """Adafactor's fp32 copies of the largest parameter; else both gradients of a tied embedding.

    The two uses of a tied embedding have a gradient each, and a sum of its own (autograd's input
    buffer): two beside the one that stays, at the end of the backward pass. Both agree within 2 %
    with the allocator's peaks of an H100 (source `gpu-sweep`: SGD, Lion, AdamW in 8 bits, paged).
    """
    if not (question.full or question.trains_embeddings):
        return []
    copies = step_copies(question) * _FP32_BYTES * _largest(question)
    tied = 2 * weight_bytes(question) * _embedded(question) * bool(question.model.tied_embeddings)
    spread = question.shards(SHARDS_GRADIENTS)
    return [Term("step_temporaries", "optimizer", max(copies, tied) / spread, 0.3)]


def runtime(question: Question) -> list[Term]:
    """CUDA context, kernels and library workspaces; buckets of DeepSpeed and of DDP.

    About 1.3 GB were seen before the first tensor (seed `vram-qa`); 0.5-1 GB is usual today.
    DeepSpeed's buckets hold 5e8 elements at most (defaults of its ZeRO configuration). DDP keeps a
    second copy of the gradients in its buckets (PyTorch, `gradient_as_bucket_view=False`).
    """
    terms = [Term("context", "context", 1.0e9, 0.5)]
    if question.deepspeed:
        bucket = 4.0 * min(max(question.trained_params, 50_000_000), 500_000_000)
        terms.append(Term("buckets", "context", bucket, 0.7))
    elif question.n_gpus > 1 and question.sharding in (None, "none", "ddp"):
        rest = question.trained_params - question.adapter_params
        bucket = rest * weight_bytes(question) + question.adapter_params * _FP32_BYTES
        terms.append(Term("ddp_buckets", "gradients", float(bucket), 0.5))
    return terms
