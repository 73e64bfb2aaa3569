"""PaddleNLP and PaddleFormers: the log of their trainer, also in PaddleMIX and ERNIEKit.

Settings of trainings with PaddleNLP and PaddleFormers: the arguments and the start they print.

An argument stands on a line of its own, ``name            : value``, in logs of 2022 without
the blank behind the colon. PaddleNLP's words for quantized weights name no library.
Sources: ``print_config`` and ``train`` in ``paddlenlp/trainer/trainer.py``, ``llm/run_finetune.py``
and ``paddlenlp/trainer/training_args.py`` of https://github.com/PaddlePaddle/PaddleNLP.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from registry.importers.paddlenlp_figures import (
    is_paddle_end,
    is_paddle_step,
    measure_paddle_run,
    read_paddle_lines,
)
from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import LogImporter, state_end
from registry.importers.shared.readings import first_values
from registry.importers.shared.shapes import number_of, whole_of
from registry.importers.shared.training_arguments import OBJECTIVES, state_optimizer

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

#: Those that have the trainer, each built upon some of the later ones, as paths name them.
_FRAMEWORKS: Final = ("erniekit", "paddlemix", "paddleformers", "paddlenlp")
_NAMED: Final = re.compile(rf"\b(?:{'|'.join(_FRAMEWORKS)})\b", re.IGNORECASE)


class PaddlenlpImporter(LogImporter):
    """Reads a console log of the trainer of PaddleNLP or PaddleFormers."""

    name = "paddlenlp"
    what = "a PaddleNLP log"
    expects = (
        "a log with lines such as `[    INFO] - loss: 0.68, learning_rate: 2.9e-05, "
        "global_step: 20, …, interval_runtime: 1.9257, …, interval_steps_per_second: 5.193, …`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize a line of steps with the seconds that they took."""
        return any(map(is_paddle_step, lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        arguments = read_paddle_arguments(log.document)
        draft = Draft()
        named = {found.lower() for line in log.document for found in _NAMED.findall(line)}
        framework = next((name for name in _FRAMEWORKS if name in named), None)
        draft.environment |= {"framework": framework} if framework else {}
        planned = state_paddle_settings(draft, arguments, log.document, options)
        measure_paddle_run(draft, log.document, whole_of(arguments.get("process_index")) or 0)
        _state_end(draft, log.document, planned)
        draft.lacks["gpu_id"] = "no accelerator; state it"
        draft.cite(log)
        return draft


def _state_end(draft: Draft, lines: Sequence[str], planned: int | None) -> None:
    """State that a run failed, or where its log ends; none of both where its steps were done."""
    if any(map(is_paddle_end, lines)):
        return
    ends = f"the log ends at step {read_paddle_lines(lines)[-1].step}"
    state_end(draft, lines, is_paddle_step, f"{ends} of {planned}" if planned else ends)


_ARGUMENT: Final = re.compile(
    r"\[ *(?:INFO|DEBUG)\](?:\x1b\[0m)? - (?P<name>[a-z]\w{0,60}) *: ?"
    r"(?P<value>\S.{0,500}?)\s*(?:\x1b\[0m)?$"
)
_START: Final = re.compile(
    r"\[ *(?:INFO|DEBUG)\](?:\x1b\[0m)? -  +(?P<name>[A-Z][^=]{0,80}?) = (?P<value>[\d.,]{1,30})"
)
#: Lines of the start, and the columns they are.
_COLUMNS: Final = {
    "Instantaneous batch size per device": "micro_batch_size",
    "Gradient Accumulation steps": "grad_accum_steps",
    "Total train batch size (w. parallel, distributed & accumulation)": "global_batch_size",
    "Num examples": "n_samples",
}
_PLANNED: Final = "Total optimization steps"
#: Arguments that are counts, and the columns they are.
_COUNTS: Final = {
    "per_device_train_batch_size": "micro_batch_size",
    "gradient_accumulation_steps": "grad_accum_steps",
    "world_size": "n_gpus",
}
#: Arguments that split a training, and the columns they are where they are above one.
_PARALLEL: Final = {
    "tensor_parallel_degree": "tensor_parallel",
    "tensor_model_parallel_size": "tensor_parallel",
    "pipeline_parallel_degree": "pipeline_parallel",
    "pipeline_model_parallel_size": "pipeline_parallel",
    "sep_parallel_degree": "context_parallel",
    "sep_parallel_size": "context_parallel",
    "context_parallel_degree": "context_parallel",
    "context_parallel_size": "context_parallel",
}
_LENGTHS: Final = ("max_seq_len", "max_length", "max_seq_length")
#: Arguments that train something else than all weights, of which the first three are LoRA's.
_ADAPTERS: Final = ("lora", "rslora", "pissa", "lokr", "vera", "prefix_tuning", "reft")
_QUANTIZED: Final = {
    "nf4": (4, "nf4"),
    "fp4": (4, "fp4"),
    "weight_only_int4": (4, "int4"),
    "weight_only_int8": (8, "int8"),
}
_SHARDING: Final = re.compile(r"\bstage([123])\b", re.IGNORECASE)


def read_paddle_arguments(lines: Sequence[str]) -> dict[str, str]:
    """Return the arguments that a log prints, each as it stands there first."""
    return first_values(_ARGUMENT, lines)


def state_paddle_settings(
    draft: Draft, arguments: Mapping[str, str], lines: Sequence[str], options: ImportOptions
) -> int | None:
    """State what a log says before its steps; return the steps that the training has, or None.

    The lines of the start win over the arguments, from which the trainer made them.
    """
    # evaluations print some of the same after the training has started
    start = {name: value.replace(",", "") for name, value in first_values(_START, lines).items()}
    for name, column in _COLUMNS.items():
        draft.state(column, whole_of(start.get(name)))
    state_model(draft, [arguments.get("model_name_or_path")], options)
    for name, column in _COUNTS.items():
        draft.state(column, whole_of(arguments.get(name)))
    for name, column in _PARALLEL.items():
        size = whole_of(arguments.get(name))
        draft.state(column, size if size and size > 1 else None)
    if arguments.get("device") == "cpu":
        draft.state("gpu_id", "cpu", "device in the printed arguments")
    _state_length(draft, arguments)
    _state_training(draft, arguments)
    _state_method(draft, arguments)
    _state_quantization(draft, arguments)
    return whole_of(start.get(_PLANNED))


def _is_on(arguments: Mapping[str, str], name: str) -> bool | None:
    return {"true": True, "1": True, "false": False, "0": False}.get(
        arguments.get(name, "").lower()
    )


def _state_length(draft: Draft, arguments: Mapping[str, str]) -> None:
    """State the longest sequence, where the names that it has in scripts do not contradict."""
    lengths = {length for name in _LENGTHS if (length := whole_of(arguments.get(name)))}
    draft.state("seq_len", lengths.pop() if len(lengths) == 1 else None)
    packs = [_is_on(arguments, name) for name in ("zero_padding", "packing")]
    draft.state("packing", next((said for said in packs if said is not None), None))


def _state_training(draft: Draft, arguments: Mapping[str, str]) -> None:
    steps = number_of(arguments.get("max_steps"))
    if steps is None or steps <= 0:
        draft.state("n_epochs", number_of(arguments.get("num_train_epochs")))
    stage = arguments.get("stage", "").lower()
    draft.state("objective", OBJECTIVES.get(stage))
    draft.state("gradient_checkpointing", _is_on(arguments, "recompute"))
    types = [name for name in ("bf16", "fp16") if _is_on(arguments, name)]
    draft.state("compute_dtype", types[0] if len(types) == 1 else None)
    state_optimizer(draft, arguments.get("optim"))
    sharding = arguments.get("sharding", "")
    found = _SHARDING.search(sharding)
    draft.state("sharding", f"zero{found[1]}" if found else None)
    draft.state("offload", "stated" if "offload" in sharding.lower() else None)
    draft.state("attention", "flash" if _is_on(arguments, "use_flash_attention") else None)


def _state_method(draft: Draft, arguments: Mapping[str, str]) -> None:
    """State LoRA, or full where a log prints that no adapters are trained."""
    kind = arguments.get("fine_tuning", "").lower()
    on = {name for name in _ADAPTERS if _is_on(arguments, name)}
    is_lora = kind == "lora" or "lora" in on
    if is_lora and not on - {"lora", "rslora", "pissa"}:
        draft.state("method", "lora")
        draft.state("lora_rank", whole_of(arguments.get("lora_rank")))
        draft.state("use_rslora", _is_on(arguments, "rslora"))
    elif not on and (kind == "full" or _is_on(arguments, "lora") is False):
        said = "fine_tuning is full" if kind == "full" else "lora is False"
        draft.state("method", "full", f"{said}, and no other adapters in the printed arguments")


def _state_quantization(draft: Draft, arguments: Mapping[str, str]) -> None:
    name = arguments.get("weight_quantize_algo", "").lower()
    bits, kind = _QUANTIZED.get(name, (None, None))
    draft.state("quant_bits", bits)
    draft.state("quant_type", kind)
    for key in ("qlora_weight_double_quant", "weight_double_quant"):
        draft.state("double_quant", _is_on(arguments, key) if bits else None)
