"""The trials of a plan, each with an id over everything that could change its result."""

from __future__ import annotations

import hashlib
from dataclasses import asdict, dataclass, field
from functools import cache
from itertools import product
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.catalogue.module_names import check_modules
from registry.errors import SourceError
from registry.measure.running.model_sources import resolve_model
from registry.measure.running.plan_model import PlanError
from registry.measure.trial_settings import Settings
from registry.reading.bounded_file import open_regular
from registry.submission.identity import canonical_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.catalogue import Catalogue
    from registry.measure.running.plan import Plan

#: Hexadecimal digits of a trial's id.
_ID_DIGITS = 16

#: Most trials of a plan: at ten seconds each, the shortest that a trial takes, they run for a day.
MOST_TRIALS = 10_000

#: Settings that came later, with the value that all trials before them had: ids stay.
_LATER = {"n_nodes": 1}

#: Settings that bound a trial and do not change what it measures.
_BOUNDS = ("timeout_seconds",)


@dataclass(frozen=True)
class Trial:
    """One job to run: its settings, how to build its model, and the name of its plan."""

    trial_id: str
    settings: Settings
    model: dict[str, Any]
    plan: str = field(default="", compare=False)

    @property
    def label(self) -> str:
        """A short description of the trial, for people."""
        chosen = self.settings
        base = "" if chosen.quantization == "none" else f" {chosen.quantization}"
        nodes = "" if chosen.n_nodes == 1 else f"{chosen.n_nodes}x"
        several = chosen.n_devices > 1
        many = f" {nodes}{chosen.n_gpus}x {chosen.sharding}" if several else ""
        again = "" if chosen.repeat == 1 else f" (repeat {chosen.repeat})"
        return f"{Path(chosen.model).name} {chosen.method}{base} {chosen.seq_len}{many}{again}"

    def as_spec(self) -> dict[str, Any]:
        """Return the trial as plain data, from which it can be run again."""
        settings = asdict(self.settings)
        settings["lora_target_modules"] = list(self.settings.lora_target_modules)
        return {"trial_id": self.trial_id, "settings": settings, "model": self.model}


def trial_of(settings: Settings, model: dict[str, Any], plan: str = "") -> Trial:
    """Return the trial with its id, which is the same in every plan."""
    content = {
        k: v
        for k, v in asdict(settings).items()
        if k not in _BOUNDS and not (k in _LATER and v == _LATER[k])
    }
    content["dataset"] = _hash_dataset(settings.dataset)
    content["model"] = model
    digest = hashlib.sha256(canonical_json(content).encode()).hexdigest()
    return Trial(digest[:_ID_DIGITS], settings, model, plan)


@cache
def _hash_dataset(dataset: str | None) -> str | None:
    """Return a hash of a data set's file; a folder is known by its name alone."""
    if dataset is None or Path(dataset).is_dir():
        return dataset
    with open_regular(Path(dataset), what="a JSONL file or a folder of datasets") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def count_trials(plan: Plan) -> int:
    """Return how many trials a plan asks for before any is excluded or found to be another's."""
    n_combined = prod(len(values) for values in plan.axes.values()) if _is_combined(plan) else 0
    return (n_combined + len(plan.include)) * plan.repeats


def expand_trials(plan: Plan, catalogue: Catalogue | None = None) -> list[Trial]:
    """Return the trials of a plan in order, each once: the matrix, then what is included.

    Raises PlanError with all that is wrong with any of them, and for too many.
    """
    if (n_trials := count_trials(plan)) > MOST_TRIALS:
        raise SourceError(
            f"{plan.name}: {n_trials} trials; expected at most {MOST_TRIALS}; split the plan, or "
            "take values out of its matrix"
        )
    _hash_dataset.cache_clear()  # the file may be another one by now
    stated = list(_combinations(plan))
    if not stated:
        raise PlanError(
            ["found no trial; expected a model, and a combination that is not excluded"],
            origin=plan.name,
        )
    problems = [text for each in stated for text in _check_combination(each, plan, catalogue)]
    if problems:
        raise PlanError(problems, origin=plan.name)
    trials = (
        _build_trial({**each, "repeat": repeat}, plan, catalogue)
        for each in stated
        for repeat in range(1, plan.repeats + 1)
    )
    return list({trial.trial_id: trial for trial in trials}.values())


def _check_combination(
    stated: dict[str, Any], plan: Plan, catalogue: Catalogue | None
) -> Iterator[str]:
    """Yield what keeps a combination from being a trial."""
    if "model" not in stated:
        yield "a trial has no model; expected 'model' for each"
        return
    settings = Settings(**stated)
    yield from _check_together(settings)
    try:
        source = _find_source(settings, plan, catalogue)
    except SourceError as error:
        yield str(error)
    else:
        yield from _check_targets(settings, source)


def _build_trial(stated: dict[str, Any], plan: Plan, catalogue: Catalogue | None) -> Trial:
    settings = Settings(**stated)
    return trial_of(settings, _find_source(settings, plan, catalogue), plan.name)


def _find_source(settings: Settings, plan: Plan, catalogue: Catalogue | None) -> dict[str, Any]:
    return plan.sources.get(settings.model) or resolve_model(
        settings.model, plan.models, catalogue, weights=settings.weights
    )


def _is_combined(plan: Plan) -> bool:
    return bool(plan.axes) or "model" in plan.base


def _combinations(plan: Plan) -> Iterator[dict[str, Any]]:
    if _is_combined(plan):
        for values in product(*plan.axes.values()):
            stated = {**plan.base, **dict(zip(plan.axes, values, strict=True))}
            if not any(_matches(stated, rule) for rule in plan.exclude):
                yield stated
    for row in plan.include:
        yield {**plan.base, **row}


def _matches(stated: dict[str, Any], rule: dict[str, Any]) -> bool:
    """Return whether a rule leaves a combination out."""
    return all(name in stated and stated[name] == value for name, value in rule.items())


# What the settings of a trial must be together, found before anything runs.

#: Methods of PEFT that have no number of virtual tokens unless they are given one.
_NEED_VIRTUAL_TOKENS = (
    "multitask_prompt_tuning",
    "p_tuning",
    "prefix_tuning",
    "prompt_tuning",
)


def _check_together(settings: Settings) -> Iterator[str]:
    """Yield what no job can do with these settings, whatever its model."""
    if settings.method == "full" and settings.quantization != "none":
        yield (
            f"method full with quantization {settings.quantization}: quantized weights take no "
            "gradient; expected an adapter; exclude the combination"
        )
    if settings.weights == "pretrained" and settings.model.endswith(".json"):
        yield (
            f"model {settings.model!r} with pretrained weights: a configuration has no weights; "
            "expected a folder or a name of the hub"
        )
    if settings.device == "cpu" and settings.attention == "flash2":
        yield "attention flash2 on device cpu: it needs a GPU; expected sdpa or eager"
    if settings.method in _NEED_VIRTUAL_TOKENS and not settings.peft.get("num_virtual_tokens"):
        yield (
            f"method {settings.method} without a number of virtual tokens: PEFT has no default for "
            "it; expected for example peft = { num_virtual_tokens = 8 }, beside other methods in "
            "an [[include]]"
        )


def _check_targets(settings: Settings, source: dict[str, Any]) -> Iterator[str]:
    """Yield the target modules that the model does not have, where its modules are known.

    PEFT passes over such a name where another one of the list is found, and the trial would measure
    something else.
    """
    if settings.method != "full":
        kind = source.get("config", {}).get("model_type")
        yield from check_modules(kind, settings.lora_target_modules)
