"""EleutherAI's calculator (EleutherAI/cookbook, ``calc/calc_transformer_mem.py``), run as it is."""

from __future__ import annotations

import io
import re
from contextlib import redirect_stdout
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any

from benchmarks.peers.refused import refuse_if

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.predict.question import Question

_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3, "fsdp": 3, "fsdp_grad_op": 2}
_ANSWER = re.compile(r"Per-GPU Memory Required for Training: ([0-9.]+) GiB")


def load(script: Path) -> Callable[[Question], float]:
    """Return what asks the calculator in a checkout of theirs."""
    spec = spec_from_file_location("calc_transformer_mem", script)
    if spec is None or spec.loader is None:
        raise ImportError(f"{script}: expected calc_transformer_mem.py")
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return lambda question: _answer(module, question)


def _answer(module: Any, question: Question) -> float:
    """Return its peak in bytes; it has full training in mixed precision with AdamW alone."""
    refuse_if(not question.full, "adapters")
    refuse_if(question.offload not in (None, "none"), "offload")
    refuse_if("adamw" not in question.setting("optimizer"), "optimizer")
    refuse_if("8bit" in question.setting("optimizer"), "optimizer")
    arguments = module.config_parser().parse_args(_arguments(question))
    printed = io.StringIO()
    with redirect_stdout(printed):
        module.calc_mem(arguments)
    found = _ANSWER.search(printed.getvalue())
    if found is None:
        raise ValueError(f"expected a line of {_ANSWER.pattern}: {printed.getvalue()}")
    return float(found[1]) * 2**30


def _arguments(question: Question) -> list[str]:
    model = question.model
    stage = _STAGES.get(question.sharding or "", 0) if question.n_gpus > 1 else 0
    stated = {
        "--num-gpus": question.n_gpus,
        "--zero-stage": stage,
        "--batch-size-per-gpu": question.micro_batch_size,
        "--sequence-length": question.seq_len,
        "--vocab-size": model.vocab_size,
        "--hidden-size": model.hidden_size,
        "--num-attention-heads": model.n_heads,
        "--num-layers": model.n_layers,
        "--ffn-expansion-factor": model.intermediate_size / model.hidden_size,
        "--num-mlp-linears": 3 if model.gated_mlp else 2,
        "--kv-size-ratio": model.n_kv_heads / model.n_heads,
        "--num-experts": model.n_experts or 0,
    }
    words = [text for name, value in stated.items() for text in (name, str(value))]
    checkpointed = question.setting("gradient_checkpointing")
    return [*words, *(["--checkpoint-activations"] if checkpointed else [])]
