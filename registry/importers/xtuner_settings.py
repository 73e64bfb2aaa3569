"""Settings of XTuner until 0.2: the configuration that MMEngine's runner prints, and the system.

The configuration is Python of assignments, of which the values are constants, lists and calls of
``dict``. Defaults are those of ``xtuner/model/sft.py`` in
https://github.com/InternLM/xtuner, releases 0.1.0 to 0.2.0.
"""

from __future__ import annotations

import ast
import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import state_model
from registry.importers.shared.shapes import bool_of, count_of, number_of, section_of, whole_of
from registry.importers.shared.training_arguments import (
    ATTENTION,
    DTYPES,
    state_bitsandbytes,
    state_lora_sizes,
    state_optimizer,
    state_training_arguments,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions
    from registry.importers.shared.draft import Draft

_BEGINS: Final = re.compile(r"- mmengine - INFO - Config:\s*$")
#: Where a statement begins.
_STATEMENT: Final = re.compile(r"^(?=[A-Za-z_]\w* = )", re.MULTILINE)
_NEXT: Final = re.compile(r"^(?:\d{4}/)?\d\d/\d\d \d\d:\d\d:\d\d - mmengine - ")
#: Characters of a configuration beyond which it is none.
_LONGEST: Final = 200_000

_GPU: Final = re.compile(r"^\s*GPU [\d,]{1,400}: (?P<name>\S.{0,80}?)\s*$")
_GPUS: Final = re.compile(r"^\s*GPU number: (?P<count>\d{1,7})\s*$")
_ALONE: Final = "- mmengine - INFO - Distributed training is not used"
_VERSIONS: Final = {
    "torch_version": re.compile(r"^\s*PyTorch: (?P<v>\d[\w.+]*)\s*$"),
    "python_version": re.compile(r"^\s*Python: (?P<v>\d[\d.]*)"),
}

#: Classes of XTuner that train one language model, and the objective where it is one only.
_MODELS: Final = {
    "SupervisedFinetune": None,
    "DPO": "dpo",
    "ORPO": "orpo",
    "RewardModel": "reward",
}
#: Classes of optimizers, by their whole name or its last part, and the contract's word.
_OPTIMIZERS: Final = {
    "torch.optim.AdamW": "adamw_torch",
    "PagedAdamW32bit": "paged_adamw_32bit",
    "PagedAdamW8bit": "paged_adamw_8bit",
    "AdamW8bit": "adamw_8bit",
    "Lion8bit": "lion_8bit",
}


def state_system(draft: Draft, lines: Sequence[str], options: ImportOptions) -> None:
    """State the cards, how many processes train on them, and versions, as the runner prints them.

    Cards of several models are left open: those that train are not told.
    """
    names = {found["name"] for line in lines if (found := _GPU.match(line))}
    if len(names) == 1:
        name = names.pop()
        draft.state("gpu_id", options.catalogue.resolve_gpu(name) or name)
    count = next((found["count"] for line in lines if (found := _GPUS.match(line))), None)
    draft.state("n_gpus", whole_of(count))
    if any(_ALONE in line for line in lines):
        draft.state("n_gpus", 1, "it prints that distributed training is not used")
    for column, pattern in _VERSIONS.items():
        found = next((match for line in lines if (match := pattern.match(line))), None)
        if found:
            draft.environment[column] = found["v"]


def state_dumped_settings(draft: Draft, lines: Sequence[str], options: ImportOptions) -> None:
    """State the settings of the configuration that a log has; note one without its model."""
    text = _find_configuration(lines)
    if text is None:
        return
    config = parse_configuration(text)
    if "model" not in config:
        draft.missing.append("no settings of the model: its configuration is not printed whole")
    if "xtuner." in text:
        draft.environment["framework"] = "xtuner"
    model = section_of(config, "model")
    llm = section_of(model, "llm")
    names = [llm.get("pretrained_model_name_or_path"), config.get("pretrained_model_name_or_path")]
    state_model(draft, names, options)
    if _last_part(model.get("type")) in _MODELS:
        _state_training(draft, model, llm)
        _state_samples(draft, config)
    _state_batch(draft, config)
    _state_strategy(draft, config)
    draft.state("n_epochs", number_of(section_of(config, "train_cfg").get("max_epochs")))


def _find_configuration(lines: Sequence[str]) -> str | None:
    begun = next((i for i, line in enumerate(lines) if _BEGINS.search(line)), None)
    if begun is None:
        return None
    after = enumerate(lines[begun + 1 :], begun + 1)
    end = next((i for i, line in after if not line.strip() or _NEXT.match(line)), len(lines))
    return "\n".join(lines[begun + 1 : end])


def parse_configuration(text: str) -> dict[str, Any]:
    r"""Return the assignments of a configuration by name; what another process broke is left out.

    >>> parse_configuration("lr = 2e-05\nmodel = dict(llm=dict(r=64), type='A')\nbatch = (1,")
    {'lr': 2e-05, 'model': {'llm': {'r': 64}, 'type': 'A'}}
    """
    if len(text) > _LONGEST:
        return {}
    found: dict[str, Any] = {}
    for statement in _STATEMENT.split(text):
        found |= _parse_statement(statement)
    return found


def _parse_statement(text: str) -> dict[str, Any]:
    try:
        return {
            target.id: _value_of(statement.value)
            for statement in ast.parse(text).body
            if isinstance(statement, ast.Assign)
            for target in statement.targets
            if isinstance(target, ast.Name)
        }
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}  # the last two are what the parser says of brackets without an end


def _value_of(node: ast.expr) -> Any:
    """Return the value of constants, lists and calls of dict; None for what is none of these."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.List | ast.Tuple):
        return [_value_of(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        pairs = zip(node.keys, node.values, strict=True)
        return {
            key.value: _value_of(value) for key, value in pairs if isinstance(key, ast.Constant)
        }
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict":
        return {item.arg: _value_of(item.value) for item in node.keywords if item.arg}
    return None


def _last_part(name: Any) -> str:
    return str(name or "").rpartition(".")[2]


def _state_training(draft: Draft, model: Mapping[str, Any], llm: Mapping[str, Any]) -> None:
    """State the method of a class that trains one language model, or adapters of it."""
    draft.state("objective", _MODELS[_last_part(model.get("type"))])
    lora = section_of(model, "lora")
    if lora:
        _state_lora(draft, lora)
    elif model.get("lora") is None:
        draft.state("method", "full", "no lora in the model of the configuration")
    state_bitsandbytes(draft, section_of(llm, "quantization_config"))
    stated = bool_of(model.get("use_activation_checkpointing"))
    default = None if stated is not None else "XTuner's default"
    draft.state("gradient_checkpointing", True if stated is None else stated, default)
    draft.state("attention", ATTENTION.get(str(llm.get("attn_implementation"))))


def _state_lora(draft: Draft, lora: Mapping[str, Any]) -> None:
    if _last_part(lora.get("type")) != "LoraConfig":
        return
    draft.state("method", "dora" if lora.get("use_dora") is True else "lora")
    state_lora_sizes(draft, lora, count_of(lora.get("r")), lora.get("target_modules"))
    if lora.get("target_modules") is None:
        reason = "no target_modules: XTuner takes all linear layers but the head"
        draft.state("lora_target_modules", ["all-linear"], reason)


def _state_samples(draft: Draft, config: Mapping[str, Any]) -> None:
    draft.state("seq_len", count_of(config.get("max_length")))
    packs = bool_of(config.get("pack_to_max_length"))
    draft.state("packing", packs)
    if packs and "seq_len" in draft.configuration:
        draft.state("length_distribution", "full", "pack_to_max_length in the configuration")


def _state_batch(draft: Draft, config: Mapping[str, Any]) -> None:
    """State the batch of a process, and the iterations of a step."""
    loader = section_of(config, "train_dataloader")
    draft.state("micro_batch_size", count_of(loader.get("batch_size")))
    wrapper, strategy = section_of(config, "optim_wrapper"), section_of(config, "strategy")
    draft.state("grad_accum_steps", count_of(strategy.get("gradient_accumulation_steps")))
    draft.state("grad_accum_steps", count_of(wrapper.get("accumulative_counts")))
    if wrapper and not strategy:
        draft.state("grad_accum_steps", 1, "no accumulative_counts in the configuration")
    kind = str(section_of(wrapper, "optimizer").get("type") or "")
    word = _OPTIMIZERS.get(kind) or _OPTIMIZERS.get(_last_part(kind)) or _last_part(kind)
    state_optimizer(draft, word)
    if _last_part(wrapper.get("type")) == "AmpOptimWrapper":
        draft.state("compute_dtype", DTYPES.get(str(wrapper.get("dtype"))))


def _state_strategy(draft: Draft, config: Mapping[str, Any]) -> None:
    """State what a strategy of DeepSpeed says, within its own configuration or beside it."""
    strategy = section_of(config, "strategy")
    if _last_part(strategy.get("type")) != "DeepSpeedStrategy":
        return
    said = section_of(strategy, "config") or strategy
    zero = section_of(said, "zero_optimization")
    types = {name: section_of(said, name).get("enabled") is True for name in ("bf16", "fp16")}
    state_training_arguments(draft, {"deepspeed": {"zero_optimization": zero}, **types})
    parallel = number_of(strategy.get("sequence_parallel_size"))
    draft.state(
        "context_parallel", parallel if isinstance(parallel, int) and parallel > 1 else None
    )
