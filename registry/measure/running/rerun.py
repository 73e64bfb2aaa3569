"""From a recorded observation back to the plan that repeats it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError, excerpt
from registry.measure.environment import collect_environment
from registry.measure.running.model_sources import (
    build_config,
    check_config,
    check_keys,
    parse_source,
)
from registry.measure.running.plan import Plan, check_depth
from registry.measure.running.plan_model import parse_settings
from registry.measure.trial_settings import CHOICES, Settings
from registry.measure.words import BITS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from registry.catalogue import Catalogue

Row = dict[str, Any]

#: Columns of a configuration that are settings under the same name.
_SAME = (
    "double_quant",
    "seq_len",
    "micro_batch_size",
    "grad_accum_steps",
    "gradient_checkpointing",
    "lora_rank",
    "lora_alpha",
    "lora_dropout",
    "use_rslora",
    "memory_limit_bytes",
)

#: Columns that say what a trial cannot be told, and the values that need no telling.
_NOT_OURS: dict[str, tuple[Any, ...]] = {
    "n_nodes": (1,),
    "tensor_parallel": (1,),
    "pipeline_parallel": (1,),
    "context_parallel": (1,),
    "offload": ("none",),
    "packing": (False,),
    "padding_free": (False,),
    "torch_compile": (False,),
    "kernels": (),
    "peft_config": (),
    "dataset": (),
    "length_distribution": ("full",),
    "objective": ("sft", "pretrain"),
}


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was: what was recorded, and what is here now."""

    name: str
    recorded: Any
    now: Any


@dataclass(frozen=True)
class Rerun:
    """A plan that repeats an observation.

    ``differences`` lists what is different in the environment, ``left_out`` what was recorded of
    the configuration and cannot be repeated by a trial.
    """

    plan: Plan
    differences: tuple[Difference, ...]
    left_out: tuple[str, ...]
    #: Whether a trial of the same shape stands in for a job of which nothing else is known.
    is_stand_in: bool = False


def plan_of(
    observation: Mapping[str, Any],
    *,
    models: Mapping[str, Row] | None = None,
    environment: Mapping[str, Any] | None = None,
    catalogue: Catalogue | None = None,
    dataset: Path | None = None,
) -> Rerun:
    """Return the plan that repeats an observation.

    ``observation`` is one of a submission's observations. A trial of the runner holds its own spec;
    of any other observation the configuration is taken, with random weights of the same shape from
    ``models`` (rows of the submission) or the catalogue. ``environment`` is that of this machine,
    collected where None. ``dataset`` names the data set to train on where the trial had one. Raises
    SourceError where the observation does not say enough, or says what no trial has.
    """
    configuration = observation["configuration"]
    here = dict(environment) if environment is not None else collect_environment(installed=True)
    spec = observation.get("provenance", {}).get("spec")
    left_out: tuple[str, ...] = ()
    if spec is not None:
        plan = _plan_of_spec(spec, dataset)
    else:
        plan, left_out = _plan_of_configuration(configuration, models or {}, catalogue)
    recorded = observation.get("environment", {})
    differences = tuple(compare_environments(recorded, here))
    return Rerun(plan, differences, left_out, is_stand_in=spec is None)


def _plan_of_spec(spec: Any, dataset: Path | None) -> Plan:
    """Return the plan of one trial as a record says that it was run.

    Anybody may have written the record, so a file or a folder of this machine is not read on its
    word.
    """
    where = "provenance.spec"
    check_depth(spec, where)
    if not isinstance(spec, dict):
        raise SourceError(f"{where}: found {excerpt(spec)}; expected a table")
    check_keys(spec, ("trial_id", "settings", "model"), where)
    settings = asdict(parse_settings(spec.get("settings"), f"{where}.settings"))
    source = parse_source(spec.get("model"), f"{where}.model")
    if dataset is not None:
        settings["dataset"] = str(dataset.resolve())
    elif settings["dataset"] is not None:
        raise SourceError(
            f"{where}.settings.dataset: found {excerpt(settings['dataset'])}; expected none: a "
            "data set is only read where you name it; add --dataset PATH"
        )
    del settings["repeat"]
    return Plan(name="rerun of a trial", base=settings, sources={settings["model"]: source})


def _plan_of_configuration(
    configuration: Row, models: Mapping[str, Row], catalogue: Catalogue | None
) -> tuple[Plan, tuple[str, ...]]:
    model_id = configuration["model_id"]
    inline = _inline_model(model_id, models, catalogue)
    settings = asdict(Settings(model=model_id)) | {
        name: configuration[name] for name in _SAME if configuration.get(name) is not None
    }
    settings = asdict(parse_settings(settings | _translated(configuration), "configuration"))
    del settings["repeat"]
    left_out = tuple(
        f"{name} = {configuration[name]!r}"
        for name, usual in _NOT_OURS.items()
        if configuration.get(name) is not None and configuration[name] not in usual
    )
    return Plan(name=f"rerun of {model_id}", base=settings, models=inline), left_out


def _inline_model(
    model_id: str, models: Mapping[str, Row], catalogue: Catalogue | None
) -> dict[str, Row]:
    """Return the model as a table of the plan, where the catalogue does not know it."""
    if catalogue is not None and catalogue.resolve_model(model_id) is not None:
        return {}
    config = build_config(models.get(model_id, {}))
    if config is None:
        raise SourceError(
            f"model {model_id!r}: its shape is not recorded; expected model_type and sizes of it; "
            "give the rows of the submission's models, or a model of the catalogue"
        )
    return {model_id: check_config(config, f"model {model_id!r}")}


def _translated(configuration: Row) -> Row:
    """Return the settings whose columns have another name, or other words."""
    settings: Row = {"method": configuration["method"], "weights": "random"}
    if configuration.get("quant_method") is not None:
        settings["quantization"] = _quantization(configuration)
    for column, name in (
        ("compute_dtype", "dtype"),
        ("attention", "attention"),
        ("optimizer", "optimizer"),
    ):
        if configuration.get(column) in CHOICES[name]:
            settings[name] = configuration[column]
    if configuration.get("n_steps"):
        settings["steps"] = configuration["n_steps"]
    return settings | _devices(configuration) | _trained(configuration)


def _devices(configuration: Row) -> Row:
    n_gpus = configuration.get("n_gpus") or configuration.get("gpus_per_node") or 1
    settings: Row = {"n_gpus": n_gpus}
    if n_gpus > 1 and configuration.get("sharding") in CHOICES["sharding"]:
        settings["sharding"] = configuration["sharding"]
    if configuration.get("gpu_id") == "cpu":
        settings["device"] = "cpu"
    return settings


def _trained(configuration: Row) -> Row:
    settings: Row = {}
    if configuration.get("lora_target_modules"):
        settings["lora_target_modules"] = tuple(configuration["lora_target_modules"])
    if configuration.get("trains_embeddings") and configuration["method"] != "full":
        settings["trains_embeddings"] = True
    return settings


def _quantization(configuration: Row) -> str:
    kind = configuration.get("quant_type")
    if configuration["quant_method"] == "bitsandbytes" and kind in BITS:
        return str(kind)
    raise SourceError(
        f"quantization {configuration['quant_method']} {kind or ''}".rstrip()
        + ": a trial cannot make it; expected bitsandbytes nf4, fp4 or int8"
    )


def compare_cards(observation: Mapping[str, Any], gpu_ids: Sequence[str]) -> list[Difference]:
    """Return the card that an observation was made on, where it is none of this machine's."""
    recorded = observation["configuration"].get("gpu_id")
    if recorded in (None, "cpu", *gpu_ids):
        return []
    return [Difference("gpu_id", recorded, ", ".join(dict.fromkeys(gpu_ids)) or "none")]


def compare_variables(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[Difference]:
    """Return the environment variables that change speed or memory and differ from then."""
    before, now = recorded.get("settings") or {}, here.get("settings") or {}
    names = sorted(name for name in {*before, *now} if name.isupper())
    return [
        Difference(name, before.get(name, "not set"), now.get(name, "not set"))
        for name in names
        if before.get(name) != now.get(name)
    ]


def compare_environments(recorded: Mapping[str, Any], here: Mapping[str, Any]) -> list[Difference]:
    """Return what differs between two environments.

    What was not recorded is left out, and so is what only the job itself will know: its framework
    and its switches.
    """
    unknown = ("environment_id", "framework", "framework_version", "packages", "settings")
    found = [
        Difference(name, recorded[name], here.get(name))
        for name in recorded
        if name not in unknown and recorded[name] not in (None, here.get(name))
    ]
    before, now = recorded.get("packages") or {}, here.get("packages") or {}
    return found + [
        Difference(f"packages.{name}", before[name], now.get(name))
        for name in sorted(before)
        if before[name] != now.get(name)
    ]
