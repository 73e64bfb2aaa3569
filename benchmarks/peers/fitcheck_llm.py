"""fitcheck-llm (PyPI), run as it is: its own parser, its own formulas, its own refusals."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from benchmarks.peers.refused import Refused, refuse_if

if TYPE_CHECKING:
    from registry.predict.question import Question

_MIB = 2**20
#: Its words for optimizers; others have none.
_OPTIMIZERS = {
    "adamw": "adamw",
    "adamw_torch": "adamw",
    "adamw_torch_fused": "adamw",
    "adamw_hf": "adamw",
    "adamw_8bit": "adam8bit",
    "paged_adamw_8bit": "adam8bit",
    "sgd": "sgd",
}
#: Cards whose overhead it has measured; on all others it takes its default profile.
_MEASURED = {"t4": "t4"}


def answer(question: Question) -> float:
    """Return its peak in bytes; raise Refused with its reason."""
    refuse_if(question.n_gpus > 1, "several devices")
    refuse_if(question.method not in ("full", "lora"), "method")
    refuse_if(question.offload not in (None, "none"), "offload")
    refuse_if(question.setting("optimizer") not in _OPTIMIZERS, "optimizer")
    refuse_if(question.setting("loss_kernel") != "whole", "kernel of the loss")
    refuse_if(question.quantized and not question.bitsandbytes, "method of quantization")
    refuse_if(question.trains_embeddings and not question.full, "trained embeddings")
    refuse_if(question.model.n_experts, "mixture of experts")
    fitcheck = import_module("fitcheck")
    try:
        report = fitcheck.estimate(_model(question), _training(fitcheck, question), _card(question))
    except ValueError as error:
        raise Refused(str(error)) from error
    return float(report.total_mib * _MIB)


def _model(question: Question) -> Any:
    """Return its model: parameters counted by its formula, checked against those published.

    It refuses a model whose published parameters are more than 2 % off its formula.
    """
    parser, model = import_module("fitcheck.config_parser"), question.model
    raw = {
        "hidden_size": model.hidden_size,
        "num_hidden_layers": model.n_layers,
        "num_attention_heads": model.n_heads,
        "num_key_value_heads": model.n_kv_heads,
        "intermediate_size": model.intermediate_size,
        "vocab_size": model.vocab_size,
        "head_dim": model.head_dim,
        "tie_word_embeddings": model.tied_embeddings,
    }
    fields = parser._parse_fields(raw)  # noqa: SLF001 - what it does to a config.json
    counted = parser._count_params(fields)  # noqa: SLF001
    count = parser._reconcile_param_count(model.model_id, model.n_params, counted)  # noqa: SLF001
    return parser.ModelConfig(name=model.model_id, num_params=count, **vars(fields))


def _training(fitcheck: Any, question: Question) -> Any:
    refuse_if(question.quant_bits not in (None, 4, 8), "bits")
    dtype = question.setting("compute_dtype")
    targets = question.lora_target_modules or ("q_proj", "v_proj")
    if "all-linear" in targets:
        targets = import_module("fitcheck.memory.lora").LORA_TARGETS_FULL
    return fitcheck.TrainingConfig(
        precision="fp32" if dtype == "tf32" else dtype,
        quantization={None: "none", 4: "nf4", 8: "int8"}[question.quant_bits],
        optimizer=_OPTIMIZERS[question.setting("optimizer")],
        batch_size=question.micro_batch_size,
        seq_len=question.seq_len,
        lora_rank=None if question.full else question.setting("lora_rank"),
        lora_targets=list(targets),
        grad_checkpoint=bool(question.setting("gradient_checkpointing")),
        flash_attn=question.setting("attention") != "eager",
    )


def _card(question: Question) -> Any:
    cards = import_module("fitcheck.gpu_db")
    gpu = question.gpu
    if gpu is not None and gpu.gpu_id in _MEASURED:
        return cards.get_gpu(_MEASURED[gpu.gpu_id])
    return cards.get_gpu(vram_mib=80 * 1024 if gpu is None else gpu.memory_bytes // _MIB)
