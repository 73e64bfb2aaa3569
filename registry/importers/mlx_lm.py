"""mlx-lm: what its tuner prints every few iterations, as mlx-vlm and mlx-examples do.

An iteration is one micro-batch. ``It/sec`` is the iterations between two lines / the seconds in
them, without validation. It is wrong where fewer iterations lie between two lines than usual, and
in early versions where a validation does; such lines are no speed, and neither is the first, which
compiles. ``Tokens/sec`` counts tokens with a loss, neither padding nor masked prompts, of all
processes. ``Peak mem`` is the largest that the first process's arrays held since it began, loading
and validation included: divided by 2^30 until 2024-11-07, by 1e9 since, under the same name. The
progress bar of a validation shows a later version.

Settings of mlx-lm: ``adapter_config.json`` or a YAML beside the log, or the command in it.

Of the number of layers, the last are trained; ``full`` trains them as they are, but neither the
embeddings nor the head. The batch is that of all processes together.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, state_model
from registry.importers.shared.logs import find_failure, import_logs, validate_growing
from registry.importers.shared.micro_batches import Iterations, measure_iterations
from registry.importers.shared.readings import GIBIBYTE
from registry.importers.shared.shapes import bool_of, number_of, section_of, whole_of
from registry.importers.shared.training_arguments import state_optimizer, target_modules

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_NUMBER: Final = r"\d{1,15}\.\d{1,30}"
_STEP: Final = re.compile(
    r"\bIter (?P<step>\d{1,15}): Train loss (?P<loss>[\d.]{1,40}|nan|-?inf)"
    r"(?:, Learning Rate [-+.\de]{1,40})?"
    rf", It/sec (?P<rate>{_NUMBER}), Tokens/sec (?P<tokens>{_NUMBER})(?![\d.])"
    r"(?:, Trained Tokens (?P<trained>\d{1,15})(?:\.0)?(?=[,\s]|$))?"
    rf"(?:, Peak mem (?P<peak>{_NUMBER}) GB)?"
)
_VALIDATION: Final = re.compile(
    rf"\bIter (?P<step>\d{{1,15}}): Val loss (?P<loss>{_NUMBER}), Val took (?P<seconds>{_NUMBER})s"
)
_PLANNED: Final = re.compile(r"Starting training\.\.\., iters: (?P<iters>\d{1,15})\b")
_PROCESSES: Final = re.compile(r"^Node \d{1,6} of (?P<count>\d{1,6})\s*$")
#: The parameters of adapters, in millions.
_TRAINABLE: Final = re.compile(rf"Trainable parameters: [\d.]{{1,20}}% \((?P<millions>{_NUMBER})M/")
#: The bar of a validation, which mlx-lm shows since 2025-05.
_BAR: Final = "Calculating loss...:"
_SAVED: Final = re.compile(r"Saved final (?:adapter )?weights to ")

_GIGABYTE: Final = 10**9
#: Half of the last decimal of rates, of memory, and of the parameters in millions.
_HALF: Final = 0.0005


class MlxLmImporter:
    """Reads a console log of mlx-lm's tuner."""

    name = "mlx-lm"
    is_single_file = False
    expects = (
        "a console log with lines such as `Iter 10: Train loss 1.2, …, It/sec 0.5, "
        "Tokens/sec 300.1, …`"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize the line of a training, by content and not by name."""
        return [
            file for file in files if file.kind == "text" and any(map(_STEP.search, file.document))
        ]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log; settings beside a log are those of the only one."""
        logs = self.main_files(files)
        beside = files if len(logs) == 1 else ()
        return import_logs(
            self.name, "an mlx-lm log", logs, lambda log: _draft(log, beside, options), options
        )


def _draft(log: RunFile, beside: Sequence[RunFile], options: ImportOptions) -> Draft:
    steps = [found for line in log.document for found in _STEP.finditer(line)]
    validate_growing(int(step["step"]) for step in steps)
    validations = [found for line in log.document if (found := _VALIDATION.search(line))]
    draft = Draft(environment={"framework": "mlx"})
    settings = _find_settings(log, beside)
    if settings is not None:
        if settings.file is not None:
            draft.provenance["files"] = {settings.file.name: settings.file.sha256}
        _state_settings(draft, settings, options, _count_processes(log.document))
    _state_end(draft, log.document, int(steps[-1]["step"]))
    _measure_speed(draft, steps, validations, options)
    _measure_validations(draft, validations)
    _measure_memory(draft, steps, is_decimal=any(_BAR in line for line in log.document))
    _measure_sizes(draft, log.document, steps[-1])
    draft.lacks["gpu_id"] = "no accelerator; state it"
    draft.missing.append("no total time; the log has no clock")
    draft.cite(log)
    return draft


def _count_processes(lines: Sequence[str]) -> int:
    """Return how many processes train together; each of several says so."""
    return next((int(found["count"]) for line in lines if (found := _PROCESSES.match(line))), 1)


def _state_end(draft: Draft, lines: Sequence[str], last: int) -> None:
    planned = next((int(found["iters"]) for line in lines if (found := _PLANNED.search(line))), 0)
    failure = find_failure(lines, _STEP.search)
    if failure:
        draft.observation |= failure
    elif planned > last:
        draft.leave_open(f"the log ends at iteration {last} of {planned}")
    elif not planned and not any(map(_SAVED.search, lines)):
        draft.leave_open("the log does not say whether the run went to its end")


def _measure_speed(
    draft: Draft,
    steps: Sequence[re.Match[str]],
    validations: Sequence[re.Match[str]],
    options: ImportOptions,
) -> None:
    """Add the rates of lines in the middle, without those that are no speed."""
    steady = _steady(steps, {int(found["step"]) for found in validations})
    if not steady:
        draft.flags.add("short_run")
    timed = steady or steps
    said = f"of {len(timed)} lines, {len(steps) - len(timed)} of {len(steps)} left out"
    rate = median(float(step["rate"]) for step in timed)
    iterations = Iterations(
        done=int(steps[-1]["step"]),
        seconds=1 / rate if rate > _HALF else None,
        low=1 / (rate + _HALF),
        high=1 / (rate - _HALF) if rate > _HALF else None,
        reason=f"1 / It/sec {said}; without validation",
    )
    measure_iterations(draft, iterations, options)
    tokens = median(float(step["tokens"]) for step in timed)
    reason = f"{said}; tokens with a loss, of all processes, without validation"
    draft.measure("tokens_per_second", tokens, statistic="median", reason=reason)
    draft.measure("train_loss", steps[-1]["loss"], statistic="last")


def _steady(steps: Sequence[re.Match[str]], validated: set[int]) -> list[re.Match[str]]:
    """Return the lines whose iterations are as many as usual, with no validation among them."""
    numbers = [int(step["step"]) for step in steps]
    usual = median(after - before for before, after in pairwise(numbers)) if numbers[1:] else 0
    return [
        step
        for before, after, step in zip(numbers, numbers[1:], steps[1:], strict=False)
        if after - before == usual and not any(before < at <= after for at in validated)
    ]


def _measure_validations(draft: Draft, validations: Sequence[re.Match[str]]) -> None:
    if not validations:
        return
    draft.flags.add("includes_evaluation")
    draft.inferences["flags"] = "the peak of memory is one of training and validation"
    draft.measure("eval_loss", validations[-1]["loss"], statistic="last")
    seconds = sum(float(found["seconds"]) for found in validations)
    reason = f"of {len(validations)} validations"
    draft.measure("eval_time", seconds, statistic="sum", reason=reason)


def _measure_memory(draft: Draft, steps: Sequence[re.Match[str]], *, is_decimal: bool) -> None:
    """Add the peak in GB; of a version that is not told, ``high`` has it in GiB."""
    peak = max((float(step["peak"]) for step in steps if step["peak"]), default=0.0)
    if not peak:
        draft.missing.append("no memory")
        return
    reason = "the largest so far of the first process, loading included; "
    reason += (
        "divided by 1e9, as the bar of its validation shows"
        if is_decimal
        else "divided by 1e9, or by 2^30 before 2024-11-07: the log does not say which"
    )
    draft.measure_process(
        "peak_memory",
        peak * _GIGABYTE,
        kind="allocated",
        low=(peak - _HALF) * _GIGABYTE,
        high=(peak + _HALF) * (_GIGABYTE if is_decimal else GIBIBYTE),
        raw=f"{peak:.3f} GB",
        unit_reported="GB",
        reading="GB",
        reason=reason,
    )


def _measure_sizes(draft: Draft, lines: Sequence[str], last: re.Match[str]) -> None:
    draft.measure("n_tokens", last["trained"], reason="tokens with a loss, of all processes")
    found = next((match for line in lines if (match := _TRAINABLE.search(line))), None)
    if found:
        millions = float(found["millions"])
        draft.measure(
            "trainable_params",
            millions * 10**6,
            low=(millions - _HALF) * 10**6,
            high=(millions + _HALF) * 10**6,
            raw=f"{found['millions']}M",
        )


_COMMAND: Final = re.compile(r"\bmlx_lm[. ]lora (?=.*--train\b)")
_ARGUMENT: Final = re.compile(r"\s-{1,2}(?P<key>[a-z][a-z-]{0,40})(?:[ =](?!-\D)(?P<value>\S+))?")
#: Keys that only its settings have.
_KEYS: Final = frozenset({"fine_tune_type", "lora_parameters", "steps_per_report"})
#: Methods by ``fine_tune_type``.
_METHODS: Final = {"lora": "lora", "dora": "dora", "full": "freeze"}
_PARTIAL: Final = "MLX's full trains the layers, not the embeddings"
#: How names of models end whose weights MLX has quantized.
_PACKED: Final = re.compile(r"[-_](?P<bits>[2-8])bit\b", re.IGNORECASE)


@dataclass(frozen=True)
class _MlxLmSettings:
    """Settings by name, and the file they are from; none where the log has them itself."""

    values: Mapping[str, Any]
    file: RunFile | None = None
    #: Whether what is not among them has its default.
    is_whole: bool = True


def _find_settings(log: RunFile, beside: Sequence[RunFile]) -> _MlxLmSettings | None:
    """Return the settings beside a log, else those of the command in it, or None."""
    for file in beside:
        if file.kind in ("json", "yaml") and file.keys & _KEYS and "model" in file.keys:
            # the tuner writes JSON with every setting; a YAML has those that someone chose
            return _MlxLmSettings(file.document, file, is_whole=file.kind == "json")
    text = "\n".join(log.document).replace("\\\n", " ")
    command = next((line for line in text.splitlines() if _COMMAND.search(line)), None)
    if command is None:
        return None
    values = {
        found["key"].replace("-", "_"): found["value"] or True
        for found in _ARGUMENT.finditer(command[command.index("mlx_lm") :])
    }
    return _MlxLmSettings(values, is_whole=not values.keys() & {"config", "c"})


def _state_settings(
    draft: Draft, settings: _MlxLmSettings, options: ImportOptions, processes: int
) -> None:
    """State the model, the method and the batch; ``processes`` share the batch."""
    values = settings.values
    state_model(draft, [values.get("model")], options)
    _state_packing(draft, str(values.get("model", "")))
    _state_method(draft, settings)
    _state_lora(draft, section_of(values, "lora_parameters"))
    _state_batch(draft, settings, processes)
    draft.state("seq_len", whole_of(str(values.get("max_seq_length"))))
    if "seq_len" in draft.configuration:
        draft.state("length_distribution", "variable", "MLX pads to the longest of each batch")
    draft.state("gradient_checkpointing", bool_of(values.get("grad_checkpoint")))
    state_optimizer(draft, values.get("optimizer"))
    layers = values.get("num_layers", values.get("lora_layers"))
    if isinstance(number_of(layers), int | float):
        draft.provenance["trained_layers"] = int(number_of(layers) or 0)


def _state_packing(draft: Draft, model: str) -> None:
    found = _PACKED.search(model)
    if found:
        draft.state("quant_bits", int(found["bits"]), f"the model's name has {found[0][1:]}")


def _state_method(draft: Draft, settings: _MlxLmSettings) -> None:
    kind = settings.values.get("fine_tune_type")
    if kind is not None:
        method = _METHODS.get(str(kind))
        draft.state("method", method, _PARTIAL if method == "freeze" else None)
    elif settings.values.get("use_dora") is True:
        draft.state("method", "dora")
    elif settings.is_whole:
        draft.state("method", "lora", "no fine_tune_type in the settings: its default")


def _state_lora(draft: Draft, parameters: Mapping[str, Any]) -> None:
    """State the sizes; MLX multiplies by its scale, so that alpha is scale x rank."""
    if not parameters or draft.configuration.get("method") not in ("lora", "dora"):
        return
    rank, scale = whole_of(str(parameters.get("rank"))), number_of(parameters.get("scale"))
    draft.state("lora_rank", rank)
    if rank and scale:
        draft.state("lora_alpha", float(scale * rank), "scale x rank in lora_parameters")
    draft.state("lora_dropout", number_of(parameters.get("dropout")))
    keys = parameters.get("keys")
    names = [str(key).rpartition(".")[2] for key in keys] if isinstance(keys, list) else None
    draft.state("lora_target_modules", target_modules(names))


def _state_batch(draft: Draft, settings: _MlxLmSettings, processes: int) -> None:
    accumulated = settings.values.get("grad_accumulation_steps")
    if accumulated is None and settings.is_whole:
        draft.state("grad_accum_steps", 1, "no grad_accumulation_steps in the settings")
    else:
        draft.state("grad_accum_steps", whole_of(str(accumulated)))
    if processes > 1:
        draft.state("n_gpus", processes, f"the log is of one of {processes} processes")
    batch = whole_of(str(settings.values.get("batch_size")))
    if batch and batch % processes == 0:
        draft.state("micro_batch_size", batch // processes)
