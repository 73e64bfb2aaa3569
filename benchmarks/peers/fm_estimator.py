"""IBM's fm-training-estimator: its theoretical part, as 0.1.3 computes it, stated anew.

The package itself loads tokenizers from the hub and builds each model; its regression needs data
of its own. What is here are its sums: parameters, gradients, states and activations.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.peers.refused import refuse_if
from registry.predict.formula.adapters import target_widths

if TYPE_CHECKING:
    from registry.predict.question import Question

#: FSDP alone is modelled beside one device and DDP.
_SHARDINGS = (None, "none", "ddp", "fsdp", "fsdp_grad_op")
#: Bytes that it adds to a quantized weight for its scales.
_SCALES = 0.0625


def answer(question: Question) -> float:
    """Return its peak in bytes; raise Refused for what it does not model."""
    refuse_if(question.method not in ("full", "lora"), "method")
    refuse_if(question.sharding not in _SHARDINGS, "sharding")
    refuse_if(question.offload not in (None, "none"), "offload")
    refuse_if(question.quantized and not question.bitsandbytes, "method of quantization")
    width = 4 if question.setting("compute_dtype") in ("fp32", "tf32") else 2
    trained = _trained(question)
    spread = question.n_gpus if question.sharding in ("fsdp", "fsdp_grad_op") else 1
    weights = _weights(question, width) / (1 if question.sharding == "fsdp_grad_op" else spread)
    return weights + 3 * width * trained / spread + _activations(question, width)


def _full_params(question: Question) -> float:
    """Its count for full training: a GPT-2 of this width."""
    model = question.model
    hidden = model.hidden_size
    return model.n_layers * (12 * hidden**2 + 13 * hidden) + (model.vocab_size + 4) * hidden


def _trained(question: Question) -> float:
    return _full_params(question) if question.full else question.adapter_params


def _weights(question: Question, width: int) -> float:
    if question.full:
        return width * _full_params(question)
    count = question.model.n_params + question.adapter_params
    each = width if question.quant_bits is None else question.quant_bits / 8 + _SCALES
    return each * count


def _activations(question: Question, width: int) -> float:
    model, tokens = question.model, question.tokens
    if question.full:
        ratio = 10 + 24 + 5 * model.n_heads * question.seq_len / model.hidden_size
        layers = 1 if question.setting("gradient_checkpointing") else model.n_layers
        return tokens * model.hidden_size * layers * ratio * width / 2
    rank = question.setting("lora_rank")
    widths = target_widths(model, question.lora_target_modules)
    kept = model.n_layers * sum(inner + rank for _, inner, _ in widths)
    return float(tokens * width * (model.hidden_size + kept))
