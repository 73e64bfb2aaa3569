"""Hugging Face Trainer: ``trainer_state.json`` and ``*_results.json``, with the settings there.

Files of a run's folder of Weights & Biases: the settings that the Trainer hands over, the card.

``config.yaml`` wraps each value as ``{value: …}`` and holds the model's own configuration as well:
its ``max_length`` is that of generated text unless the training has one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.hf_config import is_hf_config
from registry.errors import SubmissionError
from registry.importers.resumed import find_session_steps
from registry.importers.shared.draft import Draft, import_drafts, state_described_model, state_model
from registry.importers.shared.efficiency import measure_efficiency
from registry.importers.shared.model_card import read_card, state_card
from registry.importers.shared.shapes import count_of, entries_of, number_of, path_of
from registry.importers.shared.totals import (
    Evaluations,
    is_total,
    measure_totals,
    rate_of,
    state_epochs,
    sum_evaluations,
)
from registry.importers.shared.training_arguments import (
    ATTENTION,
    DTYPES,
    state_adapter,
    state_bitsandbytes,
    state_lora_sizes,
    state_training_arguments,
    state_upcast_weights,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

#: Kinds of memory that ``skip_memory_metrics=False`` records, by the word in its keys.
_MEMORY: Final = {"gpu": ("allocated", "per_gpu", 0), "cpu": ("host_rss", "total", None)}

#: What totals call the steps of the run, where a script or a callback adds them.
_STEPS: Final = ("global_step", "step")

#: What the callback for Weights & Biases puts before the names of what is logged.
_HANDED_OVER: Final = "train/"
#: What a file of totals names, whatever else it holds.
_TOTAL_TIME: Final = frozenset({"train_runtime", f"{_HANDED_OVER}train_runtime"})

#: The log of a trainer state, and what each of its entries of a training holds.
_LOG: Final = "log_history"
_LOGGED: Final = frozenset({"loss", "learning_rate", "epoch", "step"})

#: What the YAML of a script names, whatever else it sets.
_SCRIPT: Final = frozenset({"model_name_or_path", "per_device_train_batch_size"})
#: Keys that only configurations of supervised training have.
_OF_SFT: Final = frozenset({"packing", "max_seq_length", "dataset_text_field", "dataset_kwargs"})

#: How names of weights end that bitsandbytes has quantized.
_QUANTIZED: Final = re.compile(r"-bnb-(?P<bits>[48])bit$")

#: Share of the epochs that steps may be off, for the last batch of an epoch may be a part.
_SLACK: Final = 0.01


class HfTrainerImporter:
    """Reads what the Trainer itself writes, whatever framework runs it."""

    name = "hf-trainer"
    is_single_file = False
    expects = (
        "a trainer_state.json (log_history, global_step), a log_history alone, or results as JSON "
        "with train_runtime"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a trainer state with a log, its log alone, or results with a training time."""
        return [file for file in files if is_state(file) or is_results(file) or is_history(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run that the state and the results describe."""
        run = read_trainer_run(files)
        if run.state.get("global_step") == 0 and not run.metrics:
            raise SubmissionError("the state of a run before its first step; nothing was trained")
        draft = Draft(environment={"framework": "transformers"})
        state_settings(draft, files, options)
        measure_run(draft, run)
        main = used_files(files)
        for file in main:
            draft.cite(file)
        used = [*main, *(file for file in files if is_settings(file))]
        return import_drafts(self.name, "a Hugging Face Trainer run", used, [draft], options)


class TrainerRun:
    """The state that is furthest on, and the results merged over it.

    ``what`` says what the state is of, where a run without totals is told by it.
    """

    def __init__(
        self,
        state: Mapping[str, Any],
        metrics: Mapping[str, Any],
        what: str = "state of a checkpoint",
    ) -> None:
        self.state = state
        self.metrics = metrics
        self.what = what

    @property
    def history(self) -> list[dict[str, Any]]:
        """The log entries of the state."""
        return entries_of(self.state, "log_history")

    @property
    def end(self) -> str:
        """How far a run without totals came: its step, or the epoch of its last entry."""
        step, planned = (count_of(self.state.get(key)) for key in ("global_step", "max_steps"))
        epochs = [epoch for entry in self.history if (epoch := number_of(entry.get("epoch")))]
        if step is not None:
            return f"{self.what} at step {step}{f' of {planned}' if planned else ''}"
        return f"{self.what} at epoch {epochs[-1]:g}" if epochs else self.what

    @property
    def n_steps(self) -> int | None:
        """Optimizer steps that the totals are about, or None where that is unclear."""
        done, planned = (count_of(self.state.get(key)) for key in ("global_step", "max_steps"))
        seconds = number_of(self.metrics.get("train_runtime"))
        if any(is_total(entry) for entry in self.history) or not seconds:
            return done
        rate = rate_of(self.metrics.get("train_steps_per_second"))
        written = next((n for key in _STEPS if (n := count_of(self.metrics.get(key)))), None)
        if rate is None:
            return written
        return next((n for n in (done, planned, written) if n and rate.agrees(n / seconds)), None)

    @property
    def has_all_epochs(self) -> bool:
        """Whether the steps planned are all steps of the epochs, and not fewer that were asked."""
        keys = ("max_steps", "num_train_epochs", "epoch", "global_step")
        planned, epochs, epoch, done = (number_of(self.state.get(key)) for key in keys)
        if not planned or not epochs or not epoch or not done:
            return False
        return abs(planned * epoch / done - epochs) <= _SLACK * epochs


def is_state(file: RunFile) -> bool:
    """Return whether a file is a trainer state."""
    return {"log_history", "global_step"} <= file.keys


def is_history(file: RunFile) -> bool:
    """Return whether a file holds nothing of a trainer state but its log, as a list or by name."""
    is_list = file.kind in ("json", "jsonl") and isinstance(file.document, list)
    named = "log_history" in file.keys and not is_state(file)
    entries = _history_of(file) if is_list or named else []
    return any(entry.keys() >= _LOGGED or is_total(entry) for entry in entries)


def _history_of(file: RunFile) -> list[dict[str, Any]]:
    """Return the entries of a log of a trainer state that stands alone."""
    entries = file.document if isinstance(file.document, list) else entries_of(file.document, _LOG)
    return [entry for entry in entries if isinstance(entry, dict)]


def _state_of_history(file: RunFile) -> dict[str, Any]:
    """Return what a log that stands alone says of the state: its entries and the last step."""
    entries = _history_of(file)
    steps = [step for entry in entries if (step := count_of(entry.get("step")))]
    return {_LOG: entries, **({"global_step": max(steps)} if steps else {})}


def is_results(file: RunFile) -> bool:
    """Return whether a file holds the totals of a training run."""
    has_totals = bool(_TOTAL_TIME & file.keys) and "log_history" not in file.keys
    return file.kind == "json" and has_totals


def totals_of(file: RunFile) -> dict[str, Any]:
    """Return the totals that a file of results holds, by the names that the Trainer has for them.

    The callback for Weights & Biases writes ``train/train_runtime``.
    """
    return {key.removeprefix(_HANDED_OVER): value for key, value in file.document.items()}


def furthest_state(files: Iterable[RunFile]) -> RunFile | None:
    """Return the trainer state that is furthest on, of several checkpoints."""
    states = [file for file in files if is_state(file)]
    return max(states, key=lambda file: count_of(file.document["global_step"]) or 0, default=None)


def used_files(files: Sequence[RunFile]) -> list[RunFile]:
    """Return the results of a run and the state that is furthest on, of several checkpoints."""
    furthest = furthest_state(files)
    alone = [file for file in files if is_history(file)] if furthest is None else []
    if len(alone) > 1:
        names = ", ".join(file.name for file in alone)
        raise SubmissionError(f"several logs of the Trainer next to each other ({names}); name one")
    return [file for file in files if is_results(file) or file is furthest or file in alone]


def read_trainer_run(files: Sequence[RunFile]) -> TrainerRun:
    """Return the furthest state of a run and its totals."""
    state: dict[str, Any] = {}
    metrics: dict[str, Any] = {}
    what = "state of a checkpoint"
    for file in used_files(files):
        if is_state(file):
            state = file.document
        elif is_history(file):
            state, what = _state_of_history(file), "log of the Trainer"
        else:
            metrics |= totals_of(file)
    for entry in entries_of(state, "log_history"):
        if is_total(entry):
            metrics = entry | metrics
    return TrainerRun(state, metrics | _exact_epoch(state, metrics), what)


def _exact_epoch(state: Mapping[str, Any], metrics: Mapping[str, Any]) -> dict[str, Any]:
    """Return the epoch of the state where that of the totals is the same, rounded."""
    exact, written = number_of(state.get("epoch")), number_of(metrics.get("epoch"))
    is_same = exact is not None and written is not None and round(exact, 2) == written
    return {"epoch": exact} if is_same else {}


def is_settings(file: RunFile) -> bool:
    """Return whether a file holds an adapter's, a model's or the training's settings."""
    named = {"peft_type", "per_device_train_batch_size"} & file.keys
    is_own = file.kind == "json" and (bool(named) or is_hf_config(file.document))
    is_handed_over = _is_wandb_config(file) or _is_wandb_metadata(file)
    return is_own or is_script_yaml(file) or is_handed_over or bool(read_card(file))


def is_script_yaml(file: RunFile) -> bool:
    """Return whether a YAML holds the arguments of a script of TRL, or of one like it."""
    return file.kind == "yaml" and file.keys >= _SCRIPT and "finetuning_type" not in file.keys


def state_settings(draft: Draft, files: Sequence[RunFile], options: ImportOptions) -> None:
    """State what adapter, model and training configurations beside the log say."""
    draft.takes_config = True
    names: list[Any] = []
    described = None
    for file in _settings(draft, files):
        document = file.document
        if file.kind == "text":
            state_card(draft, read_card(file))
        elif _is_wandb_metadata(file):
            _state_wandb_machine(draft, document, options)
        elif _is_wandb_config(file):
            names += _state_wandb(draft, _unwrap_config(document))
        elif "peft_type" in document:
            state_adapter(draft, document)
            _state_quantized_weights(draft, document.get("base_model_name_or_path"))
            names.append(document.get("base_model_name_or_path"))
            draft.environment.setdefault("peft_version", document.get("peft_version"))
        elif "per_device_train_batch_size" in document:
            state_training_arguments(draft, document)
            _state_trl(draft, document)
            _state_script_adapter(draft, document)
            names.append(document.get("model_name_or_path"))
        elif is_hf_config(document):
            described = document
            names.append(document.get("_name_or_path"))
            dtype = document.get("torch_dtype") or document.get("dtype")
            draft.state("param_dtype", DTYPES.get(str(dtype)))
    state_upcast_weights(draft, options.overrides)
    draft.environment = {key: value for key, value in draft.environment.items() if value}
    state_model(draft, names, options)
    if "model_id" not in draft.configuration and described is not None:
        state_described_model(draft, described)


def _state_wandb(draft: Draft, args: Mapping[str, Any]) -> list[Any]:
    """State what the Trainer handed to Weights & Biases; return the names of the model."""
    names = _state_wandb_model(draft, args)
    state_training_arguments(draft, args)
    # the model's own length is that of the text it generates
    if _OF_SFT & args.keys():
        _state_trl(draft, args)
    return names


def _settings(draft: Draft, files: Sequence[RunFile]) -> list[RunFile]:
    """Return the files with settings, a script's YAML after what a run wrote.

    Of several such YAMLs none, for which one ran?
    """
    yamls = [file for file in files if is_script_yaml(file)]
    if len(yamls) > 1:
        names = ", ".join(file.name for file in yamls)
        draft.missing.append(f"no settings of {names}: leave the one that was run beside the log")
    written = [file for file in files if is_settings(file) and file not in yamls]
    written.sort(key=lambda file: file.kind == "text")  # a card may have been edited
    return [*written, *(yamls if len(yamls) == 1 else ())]


def _state_quantized_weights(draft: Draft, name: Any) -> None:
    """State the bits of weights that are called as quantized by bitsandbytes beforehand."""
    found = _QUANTIZED.search(name) if isinstance(name, str) else None
    if found:
        reason = f"the weights are called {path_of(name).name}"
        draft.state("quant_method", "bitsandbytes", reason)
        draft.state("quant_bits", int(found["bits"]), reason)


def _state_trl(draft: Draft, args: Mapping[str, Any]) -> None:
    length = args.get("max_length") or args.get("max_seq_length")
    if count_of(length):
        draft.state("seq_len", length)
        is_sft = bool(_OF_SFT & args.keys())
        reason = "an SFT configuration: it has a maximal length"
        draft.state("objective", "sft" if is_sft else None, reason)
    if isinstance(args.get("packing"), bool):
        draft.state("packing", args["packing"])


def _state_script_adapter(draft: Draft, args: Mapping[str, Any]) -> None:
    """State adapters, bits and attention as TRL's scripts and those after them name them."""
    if args.get("use_peft") is True or args.get("lora") is True:
        draft.state("method", "dora" if args.get("use_dora") is True else "lora")
        rank = count_of(args.get("lora_r", args.get("lora_rank")))
        state_lora_sizes(draft, args, rank, args.get("lora_target_modules"))
    elif args.get("use_peft") is False:
        draft.state("method", "full", "use_peft: false")
    state_bitsandbytes(draft, args)
    draft.state("attention", ATTENTION.get(str(args.get("attn_implementation"))))
    dtype = args.get("torch_dtype") or args.get("dtype")
    draft.state("param_dtype", DTYPES.get(str(dtype)))


def measure_run(draft: Draft, run: TrainerRun) -> None:
    """Add the figures of a run, and say which ones its files do not hold."""
    state_batch(draft, run.state)
    _state_length(draft, run)
    measure_efficiency(draft, [run.metrics])
    if "train_runtime" in run.metrics:
        evaluations = sum_evaluations(run.history) if _is_whole(run) else Evaluations()
        session = find_session_steps(run.n_steps, run.metrics, run.history)
        if session is None:
            measure_totals(draft, run.metrics, run.n_steps, evaluations)
        else:
            _measure_session(draft, run, session)
        if run.n_steps is None:
            draft.missing.append("no number of steps, hence no time per step")
    else:
        _measure_checkpoint(draft, run)
    measure_memory(draft, run.metrics)
    draft.note_lack(
        "peak_memory", "no memory (the Trainer writes it with skip_memory_metrics=False)"
    )


def state_batch(draft: Draft, state: Mapping[str, Any]) -> None:
    """State the batch of a process that a trainer state holds."""
    batch = number_of(state.get("train_batch_size"))
    if batch:
        draft.state("micro_batch_size", int(batch), "train_batch_size of the state, per process")


def _state_length(draft: Draft, run: TrainerRun) -> None:
    """State the steps and the epochs of the run; without a state, the epochs of its totals."""
    epochs, planned = (count_of(run.state.get(key)) for key in ("num_train_epochs", "max_steps"))
    draft.state("n_steps", planned, "max_steps of the state")
    if epochs is not None and (planned is None or run.has_all_epochs):
        draft.state("n_epochs", float(epochs), "num_train_epochs of the state")
    state_epochs(draft, run.metrics)


def _measure_session(draft: Draft, run: TrainerRun, session: int) -> None:
    """Add the times since the restart of a resumed run, by the steps since then."""
    before = (run.n_steps or session) - session
    draft.flags.add("resumed")
    draft.missing.append(f"resumed at step {before}: times and rates are of the {session} since")
    rates = ("train_samples_per_second", "train_steps_per_second", "train_loss")
    totals = {key: value for key, value in run.metrics.items() if key not in rates}
    measure_totals(draft, totals, session, Evaluations())
    draft.provenance["resumed_at_step"] = before


def _is_whole(run: TrainerRun) -> bool:
    """Return whether the log goes to the end of the run that the totals are about."""
    return run.n_steps is not None and run.state.get("global_step") == run.n_steps


def _measure_checkpoint(draft: Draft, run: TrainerRun) -> None:
    """Add what a state without totals holds: how far it came, never a time it does not have."""
    step = run.state.get("global_step")
    draft.leave_open(run.end)
    draft.missing.append(f"no total time and no rate: the {run.end.removeprefix('the ')}")
    draft.measure("n_steps", step)
    losses = [entry for entry in run.history if "loss" in entry]
    if losses:
        draft.measure("train_loss", losses[-1]["loss"], statistic="last")
        tokens = losses[-1].get("num_tokens") or run.state.get("num_input_tokens_seen")
        draft.measure("n_tokens", tokens or None)
    evaluations = sum_evaluations(run.history)
    if evaluations.count:
        reason = f"sum of {evaluations.count} evaluations up to step {step}"
        draft.derive("eval_time", evaluations.seconds, reason, statistic="sum")


def measure_memory(draft: Draft, metrics: Mapping[str, Any]) -> None:
    """Add peak memory from the Trainer's deltas, as an absolute figure where the start is known.

    The Trainer writes for a stage what stayed allocated (``alloc_delta``) and how much more the
    peak was (``peaked_delta``), of the first process only.
    """
    for word, (kind, scope, index) in _MEMORY.items():
        deltas = [f"train_mem_{word}_alloc_delta", f"train_mem_{word}_peaked_delta"]
        if any(number_of(metrics.get(key)) is None for key in deltas):
            continue
        start = [f"before_init_mem_{word}", f"init_mem_{word}_alloc_delta"]
        is_absolute = number_of(metrics.get(start[0])) is not None
        if not is_absolute:
            draft.flags.add("memory_is_delta")
        keys = [*(key for key in start if number_of(metrics.get(key)) is not None), *deltas]
        parts = [number_of(metrics.get(key)) or 0 for key in keys]
        draft.derive(
            "peak_memory",
            sum(parts),
            f"{' + '.join(keys)}, first process",
            scope=scope,
            device_index=index,
            kind=kind,
            raw=" + ".join(f"{value:.0f}" for value in parts),
            unit_reported="B",
        )


_MACHINE: Final = frozenset({"gpu", "gpu_count"})


def _is_wandb_config(file: RunFile) -> bool:
    """Return whether a file is the ``config.yaml`` of a run."""
    return file.kind == "yaml" and "_wandb" in file.keys


def _is_wandb_metadata(file: RunFile) -> bool:
    """Return whether a file is the ``wandb-metadata.json`` of a run, of a machine with cards."""
    return file.kind == "json" and file.keys >= _MACHINE


def _unwrap_config(document: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a ``config.yaml``.

    >>> _unwrap_config({"bf16": {"value": True, "desc": None}, "_wandb": {"value": {}}})
    {'bf16': True, '_wandb': {}}
    """
    return {
        key: one["value"]
        for key, one in document.items()
        if isinstance(one, dict) and "value" in one
    }


def _state_wandb_model(draft: Draft, args: Mapping[str, Any]) -> list[Any]:
    """State adapters and quantization of the model's configuration; return what it is called."""
    names = [args.get("model_name_or_path")]
    adapters = args.get("peft_config")
    for adapter in adapters.values() if isinstance(adapters, dict) else ():
        if isinstance(adapter, dict) and "peft_type" in adapter:
            state_adapter(draft, adapter)
            names.append(adapter.get("base_model_name_or_path"))
    quantized = args.get("quantization_config")
    if isinstance(quantized, dict):
        state_bitsandbytes(draft, quantized)
    return [*names, args.get("_name_or_path")]


def _state_wandb_machine(draft: Draft, machine: Mapping[str, Any], options: ImportOptions) -> None:
    """State the card; how many there are only where there is one, for others may be idle."""
    name = machine.get("gpu")
    if isinstance(name, str):
        draft.state("gpu_id", options.catalogue.resolve_gpu(name) or name, "wandb-metadata.json")
    if count_of(machine.get("gpu_count")) == 1:
        draft.state("n_gpus", 1, "gpu_count of wandb-metadata.json")
