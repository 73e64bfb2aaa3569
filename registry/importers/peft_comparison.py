"""Results of PEFT's ``method_comparison``: one JSON file per run, of either generation of keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.shapes import count_of, entries_of, number_of, section_of
from registry.importers.shared.training_arguments import ATTENTION, DTYPES, state_adapter

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_PARTS: Final = frozenset({"run_info", "train_info", "meta_info"})

_MEMORY_REASON: Final = (
    "reserved less what was reserved before the model was loaded; evaluation included"
)
#: Figure of the results (without the prefix that was renamed), metric and statistic.
_MEMORY: Final = (
    ("memory_max", "peak_memory", "max"),
    ("memory_reserved_avg", "memory", "mean"),
    ("memory_reserved_99th", "memory", "p99"),
)


class PeftComparisonImporter:
    """Reads one result of PEFT's own comparison of methods."""

    name = "peft"
    is_single_file = True
    expects = "a JSON of PEFT's method_comparison (run_info, train_info, meta_info)"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize the three parts of a result."""
        return [file for file in files if _is_result(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of one result."""
        file = next(file for file in files if _is_result(file))
        draft = Draft(environment={"framework": "peft-method-comparison"})
        document = file.document
        run = section_of(document, "run_info")
        _state_run(draft, run, options)
        _state_environment(draft, section_of(document, "meta_info"))
        _measure_run(draft, run, section_of(document, "train_info"))
        draft.cite(file)
        what = "a result of PEFT's method comparison"
        return import_drafts(self.name, what, [file], [draft], options, kind="benchmark")


def _is_result(file: RunFile) -> bool:
    return file.kind == "json" and file.keys >= _PARTS


def _state_run(draft: Draft, run: Mapping[str, Any], options: ImportOptions) -> None:
    config = section_of(run, "train_config")
    state_model(draft, [config.get("model_id")], options)
    draft.observation["observed_at"] = run.get("created_at")
    draft.observation["run_id"] = run.get("experiment_name")
    if section_of(run, "peft_config"):
        state_adapter(draft, _chosen(run["peft_config"]))
    else:
        draft.state("method", "full", "the run has no PEFT configuration")
    _state_optimizer(draft, config)
    draft.state("objective", "sft", "questions with answers, loss on the whole sequence")
    draft.state("weights", "pretrained", "the benchmark loads the published weights")
    dtype = DTYPES.get(str(config.get("dtype")))
    draft.state("param_dtype", dtype)
    draft.state("compute_dtype", None if config.get("use_amp") else dtype)
    draft.state("seq_len", config.get("max_seq_length"))
    draft.state("length_distribution", "variable", "samples are padded to the longest of a batch")
    draft.state("micro_batch_size", config.get("batch_size"))
    draft.state("grad_accum_steps", 1, "the benchmark steps after every batch")
    draft.state("gradient_checkpointing", config.get("use_gc"))
    no_option = "this version of the benchmark has no option for it"
    draft.state("gradient_checkpointing", False, no_option)  # noqa: FBT003 - the value of a column
    draft.state("torch_compile", config.get("compile"))
    draft.state("attention", ATTENTION.get(str(config.get("attn_implementation"))))
    draft.state("dataset", "MetaMathQA", "the benchmark trains on nothing else")
    draft.state("n_steps", config.get("max_steps"))


def _chosen(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was chosen: the ranks in AdaLoRA's configuration are written by training."""
    learned = {"rank_pattern"} if config.get("peft_type") == "ADALORA" else set()
    return {key: value for key, value in config.items() if key not in learned}


def _state_optimizer(draft: Draft, config: Mapping[str, Any]) -> None:
    name = str(config.get("optimizer_type"))
    draft.state("optimizer", "adamw" if name.lower() == "adamw" else "other")
    draft.provenance["optimizer"] = {"type": name, **section_of(config, "optimizer_kwargs")}
    if name == "lora-fa":
        draft.configuration["method"] = "lorafa"
        draft.inferences["method"] = "the optimizer lora-fa freezes the first matrix"


def _state_environment(draft: Draft, meta: Mapping[str, Any]) -> None:
    packages = section_of(meta, "package_info")
    for name in ("torch", "transformers", "peft", "bitsandbytes"):
        version = packages.get(f"{name}-version")
        if version:
            draft.environment[f"{name}_version"] = version
    cuda = re.search(r"\+cu(\d+)(\d)$", str(packages.get("torch-version")))
    if cuda:
        draft.environment["cuda_version"] = f"{cuda[1]}.{cuda[2]}"
        draft.inferences["cuda_version"] = "ending of the torch version"
    others = {"datasets": packages.get("datasets-version")}
    draft.environment["packages"] = {key: value for key, value in others.items() if value}
    commit = packages.get("peft-commit-hash")
    if commit:
        draft.environment["packages"]["peft-commit"] = commit
    system = section_of(meta, "system_info")
    draft.environment["os"] = " ".join(
        str(system[key]) for key in ("system", "release") if system.get(key)
    )
    gpu = system.get("accelerator") or system.get("gpu")
    draft.state("gpu_id", gpu)
    draft.state("n_gpus", 1, "the benchmark runs in one process on one device")


def _measure_run(draft: Draft, run: Mapping[str, Any], train: Mapping[str, Any]) -> None:
    _state_outcome(draft, run, train)
    for suffix, metric, statistic in _MEMORY:
        for prefix in ("accelerator", "cuda"):
            draft.measure_process(
                metric,
                train.get(f"{prefix}_{suffix}"),
                statistic=statistic,
                kind="reserved",
                unit_reported="B",
                reason=_MEMORY_REASON,
            )
    draft.flags |= {"memory_is_delta", "includes_evaluation"}
    draft.measure("total_time", run.get("total_time"), unit_reported="s")
    draft.measure(
        "train_time",
        train.get("train_time"),
        unit_reported="s",
        reason="the validation rounds are left out, the evaluation on the test set is not",
    )
    draft.measure("checkpoint_size", train.get("file_size"))
    draft.measure("trainable_params", train.get("num_trainable_params"))
    draft.measure("n_params", train.get("num_total_params"))
    _measure_rounds(draft, entries_of(train, "metrics"))


def _state_outcome(draft: Draft, run: Mapping[str, Any], train: Mapping[str, Any]) -> None:
    if train.get("status") == "success":
        return
    message = str(run.get("error_msg") or "")
    if "out of memory" in message.lower():
        draft.observation["outcome"] = "oom"
    else:
        draft.observation["outcome"] = "interrupted" if "manually" in message else "error"
    draft.observation["outcome_detail"] = message[:200] or f"status {train.get('status')}"


def _measure_rounds(draft: Draft, rounds: Sequence[Mapping[str, Any]]) -> None:
    """Add the time per step from the timed rounds: the steps alone, without evaluation."""
    timed = [entry for entry in rounds if _is_timed(entry)]
    last = rounds[-1] if rounds else {}
    draft.measure("accuracy", last.get("test accuracy"))
    draft.measure("train_loss", last.get("train loss"))
    draft.measure("n_steps", last.get("step"))
    draft.measure("n_samples", last.get("train samples"))
    draft.measure("n_tokens", last.get("train total tokens"))
    if not timed:
        draft.missing.append("no timed rounds, hence no time per step")
        return
    seconds, steps = sum(entry["train time"] for entry in timed), timed[-1]["step"]
    rounds_said = f"{len(timed)} timed rounds, evaluation left out"
    draft.derive("train_time", seconds, f"sum of {rounds_said}", statistic="sum")
    draft.derive("step_time", seconds / steps, f"{steps} steps in {rounds_said}", statistic="mean")
    evaluating = sum(number_of(entry.get("eval time")) or 0 for entry in timed)
    reason = f"sum of {len(timed)} validation rounds"
    draft.derive("eval_time", evaluating, reason, statistic="sum")
    n_tokens = number_of(last.get("train total tokens"))
    if n_tokens:
        reason = "tokens without padding / seconds of the timed rounds"
        draft.derive("tokens_per_second", n_tokens / seconds, reason)
    _keep_rounds(draft, timed)


def _is_timed(entry: Mapping[str, Any]) -> bool:
    """Return whether a round has its steps and its seconds, as numbers."""
    seconds = entry.get("train time")
    if count_of(entry.get("step")) is None or not isinstance(seconds, int | float):
        return False
    return (number_of(seconds) or 0) > 0


def _keep_rounds(draft: Draft, timed: Sequence[Mapping[str, Any]]) -> None:
    """Keep the rounds as samples, each the mean over the steps since the one before."""
    before = 0
    for entry in timed:
        steps = entry["step"] - before
        if steps <= 0:
            continue
        mean, loss = entry["train time"] / steps, entry.get("train loss")
        draft.samples.append({"step": entry["step"], "seconds": mean, "loss": loss})
        before = entry["step"]
    draft.provenance["samples"] = "each is the mean over the steps since the one before"
