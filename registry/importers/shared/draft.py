"""Build one observation step by step; every setting that is not stated outright has its reason.

Hold the count of trained parameters against the adapters that the same files state.

Whoever opens a template and changes its model, but does not train, saves the figures of the
template's model below the name of another: the count tells.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.hf_config import parse_hf_config
from registry.errors import QuestionError, SubmissionError
from registry.importers.base import Imported
from registry.importers.shared.overrides import parse_override, part_of_column
from registry.importers.shared.shapes import count_of, is_path, name_of_model, number_of, path_of
from registry.submission.facts import RATES, filled_the_card
from registry.text import format_slug

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

#: A loss that is no number any more, as Python, NumPy and JSON write it.
_NOT_FINITE = re.compile(r"(?i:nan|[-+]?inf(?:inity)?)")

#: Hexadecimal digits of a file's hash in the id of its source.
_SOURCE_DIGITS = 12


@dataclass
class Draft:
    """An observation in the making."""

    configuration: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    figures: list[dict[str, Any]] = field(default_factory=list)
    flags: set[str] = field(default_factory=set)
    inferences: dict[str, str] = field(default_factory=dict)
    provenance: dict[str, Any] = field(default_factory=dict)
    citations: list[dict[str, Any]] = field(default_factory=list)
    samples: list[dict[str, Any]] = field(default_factory=list)
    observation: dict[str, Any] = field(default_factory=dict)
    models: list[dict[str, Any]] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    #: What the files lack, by the column of the configuration with which a user can state it.
    lacks: dict[str, str] = field(default_factory=dict)
    #: The last step of the whole run, where the figures are of those since a restart.
    last_step: int | None = None
    #: Whether a config.json beside the files would describe the model.
    takes_config: bool = False
    #: The file, or the lines of it, that what is missing is said of; the first file if left out.
    place: str | None = None

    def state(self, column: str, value: Any, reason: str | None = None) -> None:
        """Set a column of the configuration unless nothing is said or it is set already."""
        if value is None or column in self.configuration:
            return
        self.configuration[column] = value
        if reason is not None:
            self.inferences[column] = reason

    def measure(self, metric: str, value: Any, **columns: Any) -> None:
        """Add a figure, also one that stands as text; what is no number is left out.

        A loss that is none any more is flagged: what the steps took says little of others then.
        """
        number = number_of(value)
        if number is None:
            if metric == "train_loss" and _NOT_FINITE.fullmatch(str(value)):
                self.flags.add("not_finite")
            return
        figure = {"metric": metric, "value": number, **columns}
        self.figures.append({key: item for key, item in figure.items() if item is not None})

    def measure_process(self, metric: str, value: Any, **columns: Any) -> None:
        """Add a figure of the first process, which is all that most logs are about."""
        self.measure(metric, value, scope="per_gpu", device_index=0, **columns)

    def derive(self, metric: str, value: Any, reason: str, **columns: Any) -> None:
        """Add a figure that follows from others, and how."""
        self.measure(metric, value, origin="derived", reason=reason, **columns)

    def note_lack(self, metric: str, text: str) -> None:
        """Say that the files lack a metric, unless it has a figure."""
        if not self.has(metric):
            self.missing.append(text)

    def note_resumed(self, reason: str, last_step: int) -> None:
        """Flag a run that went on from an earlier one, and say by which step of both it ends."""
        self.flags.add("resumed")
        self.inferences["flags"] = reason
        self.last_step = last_step

    def leave_open(self, detail: str) -> None:
        """Say why the files do not show how the run ended."""
        self.observation |= {"outcome": "unknown", "outcome_detail": detail}

    def list_missing(self) -> list[str]:
        """Return what the files lack and nobody has stated."""
        open_columns = (name for name in self.lacks if name not in self.configuration)
        return [*self.missing, *(f"{self.lacks[name]} (--set {name}=…)" for name in open_columns)]

    def has(self, metric: str) -> bool:
        """Return whether a metric has a figure."""
        return any(figure["metric"] == metric for figure in self.figures)

    def cite(self, file: RunFile, place: str | None = None, **columns: Any) -> None:
        """Add the place that reports the figures."""
        name = file.place or file.name
        locator = f"{name}, {place}" if place else name
        if all(citation["locator"] != locator for citation in self.citations):
            self.citations.append({"locator": locator, **columns})


def state_model(draft: Draft, names: Sequence[Any], options: ImportOptions) -> None:
    """State the model by the first name that the catalogue knows, in full or without its folder."""
    stated = [name_of_model(name) for name in names if isinstance(name, str) and name]
    if stated:
        draft.observation["model_reported"] = (
            path_of(stated[0]).name if is_path(stated[0]) else stated[0]
        )
    for name in stated:
        resolved = options.catalogue.resolve_model(name)
        if resolved is not None:
            draft.state("model_id", resolved)
            return
        resolved = options.catalogue.resolve_model(path_of(name).name)
        if resolved is not None:
            draft.state("model_id", resolved, "last part of the path in the run's settings")
            return


def state_described_model(draft: Draft, config: dict[str, Any]) -> None:
    """Describe the model from a transformers config.json, where the catalogue does not know it."""
    reported = draft.observation.get("model_reported")
    name = str(config.get("_name_or_path") or reported or f"{config['model_type']}-of-this-run")
    slug = format_slug(path_of(name_of_model(name)).name, otherwise="")
    described = {"model_id": slug, **parse_hf_config(config)}
    draft.models = [described | {"source": "config.json beside the log"}]
    draft.state("model_id", slug, "described by config.json beside the log")


def apply_options(draft: Draft, options: ImportOptions) -> None:
    """Let the user's words win over the files', and fill in where the files are silent."""
    for column, text in options.defaults.items():
        if part_of_column(column) == "configuration" and column not in draft.configuration:
            draft.state(column, parse_override(column, text), options.reason)
    for column, text in options.overrides.items():
        part = part_of_column(column)
        target = {
            "configuration": draft.configuration,
            "environment": draft.environment,
            "observation": draft.observation,
        }.get(part)
        if target is not None:
            target[column] = parse_override(column, text)
            draft.inferences[column] = options.reason


def observation_of(draft: Draft, options: ImportOptions) -> dict[str, Any]:
    """Return the observation; raise SubmissionError where it lacks its model or its method."""
    apply_options(draft, options)
    _name_described(draft, options)
    _validate_needed(draft, options)
    _flag_capacity(draft, options)
    if other := find_other_count(draft, options):
        draft.flags.add("figures_disagree")
        draft.missing.append(other)
    _state_failed_step(draft)
    row: dict[str, Any] = {
        "outcome": "ok",
        "evidence": "measured",
        **draft.observation,
        "flags": sorted(draft.flags),
        "inferences": draft.inferences,
        "provenance": draft.provenance,
        "configuration": draft.configuration,
        "environment": draft.environment,
        "measurements": draft.figures,
        "citations": draft.citations,
        "samples": draft.samples,
    }
    return {key: value for key, value in row.items() if value not in (None, [], {})}


def _name_described(draft: Draft, options: ImportOptions) -> None:
    """Give the model that config.json describes the name that the user says, if it is a new one."""
    name = draft.configuration.get("model_id") if "model_id" in options.overrides else None
    if name and options.catalogue.resolve_model(name) is None and len(draft.models) == 1:
        draft.models = [draft.models[0] | {"model_id": name}]


def _validate_needed(draft: Draft, options: ImportOptions) -> None:
    problems = []
    model = draft.configuration.get("model_id")
    described = {row["model_id"] for row in draft.models}
    if model is None or (options.catalogue.resolve_model(model) is None and model not in described):
        name = model or draft.observation.get("model_reported")
        said = "the files do not name the model"
        if name:
            # a log has no submission in which a model could be described
            said = options.catalogue.unknown_model(name).partition("; to add one")[0]
        beside = ", or put its config.json beside the files" if name and draft.takes_config else ""
        problems.append(f"{said}; say which one it is with `--set model_id=…`{beside}")
    if "method" not in draft.configuration:
        problems.append(
            "the files do not say the method; say it with `--set method=…` (full, lora, …)"
        )
    if problems:
        raise SubmissionError(problems)


def _flag_capacity(draft: Draft, options: ImportOptions) -> None:
    """Flag a run of unknown end whose peak is at the memory of its card: it may have run out."""
    gpu = options.catalogue.gpus.get(draft.configuration.get("gpu_id", ""), {})
    n_gpus, memory = draft.configuration.get("n_gpus"), gpu.get("memory_bytes")
    is_open = draft.observation.get("outcome") == "unknown"
    if is_open and filled_the_card(draft.figures, n_gpus, memory):
        draft.flags.add("peak_at_capacity")


def _state_failed_step(draft: Draft) -> None:
    """State after which step a run with speeds ran out of memory; where it is not known, none."""
    speeds = [figure for figure in draft.figures if figure["metric"] in ("step_time", *RATES)]
    if draft.observation.get("outcome") != "oom" or not speeds:
        return
    counted = next((row["value"] for row in draft.figures if row["metric"] == "n_steps"), 0)
    steps = draft.last_step or counted
    if steps:
        draft.observation.setdefault("failed_step", int(steps) + 1)
        draft.inferences["failed_step"] = "the step after the last that the log shows"
    else:
        draft.figures = [figure for figure in draft.figures if figure not in speeds]
        draft.missing.append("no speed: it ran out of memory and does not say after which step")


def import_drafts(  # noqa: PLR0913 - who read what from where, and as what
    importer: str,
    what: str,
    files: Sequence[RunFile],
    drafts: Sequence[Draft],
    options: ImportOptions,
    *,
    kind: str = "log",
) -> Imported:
    """Return the observations in some files as one submission, and what the files lack.

    ``what`` says what the files were recognized as.
    """
    most = len(files) if len(drafts) == 1 else 1
    for draft in drafts:
        draft.provenance.setdefault("importer", importer)
        draft.provenance.setdefault("files", {file.name: file.sha256 for file in files[:most]})
    observations = [observation_of(draft, options) for draft in drafts]
    models = {model["model_id"]: model for draft in drafts for model in draft.models}
    used = {observation["configuration"]["model_id"] for observation in observations}
    source = _source_of(importer, files, options, kind)
    submission = {
        "source": source,
        "models": [model for key, model in models.items() if key in used],
        "observations": observations,
    }
    missing = [
        f"{draft.place or files[0].name}: {text}"
        for draft in drafts
        for text in draft.list_missing()
    ]
    return Imported(
        (submission,), (f"{_names(files)}: {what}",), missing=tuple(dict.fromkeys(missing))
    )


def _source_of(
    importer: str, files: Sequence[RunFile], options: ImportOptions, kind: str
) -> dict[str, str]:
    source = {
        "source_id": f"{importer}-{files[0].sha256[:_SOURCE_DIGITS]}",
        "title": _names(files),
        "kind": kind,
        "sha256": files[0].sha256,
    }
    said = {
        column: text
        for column, text in options.overrides.items()
        if part_of_column(column) == "source"
    }
    if "source_id" in said:
        source.pop("sha256")
    return source | said


def _names(files: Sequence[RunFile]) -> str:
    return ", ".join(file.name for file in files)


#: Share by which a count may be off: that of a log in millions is rounded.
_SLACK: Final = 0.01
#: Settings of PEFT that leave the adapters as they usually are; variants have others.
_USUAL: Final = {"bias": "none", "init_lora_weights": True, "fan_in_fan_out": False}


def find_other_count(draft: Draft, options: ImportOptions) -> str | None:
    """Return how many parameters the adapters have, where the files count others; else None."""
    settings = draft.configuration
    model = options.catalogue.models.get(settings.get("model_id", ""), {})
    counted = next((f["value"] for f in draft.figures if f["metric"] == "trainable_params"), 0)
    if not counted or not _is_plain_lora(settings) or model.get("n_experts"):
        return None
    expected = _count(model, settings)
    if not expected or abs(counted / expected - 1) <= _SLACK:
        return None
    named = f"{settings['model_id']} with rank {settings['lora_rank']}"
    return (
        f"it counts {counted:,.0f} trained parameters, the adapters of {named} have {expected:,}: "
        "figures of another model or rank?"
    )


def _is_plain_lora(settings: Mapping[str, Any]) -> bool:
    """Return whether rank and modules are all that the adapters depend on."""
    is_told = bool(count_of(settings.get("lora_rank")) and settings.get("lora_target_modules"))
    further = settings.get("peft_config") or {}
    is_usual = all(key in _USUAL and _USUAL[key] == value for key, value in further.items())
    is_lora = settings.get("method") == "lora" and not settings.get("trains_embeddings")
    return is_told and is_lora and is_usual


def _count(model: Mapping[str, Any], settings: Mapping[str, Any]) -> int | None:
    """Return the parameters of the adapters; None for a model that nothing is known of."""
    from registry.predict.architecture import architecture_of  # noqa: PLC0415 - of few logs
    from registry.predict.question import Question  # noqa: PLC0415 - of few logs

    modules = tuple(settings["lora_target_modules"])
    try:
        asked = {"lora_rank": settings["lora_rank"], "lora_target_modules": modules}
        return Question(model=architecture_of(model), method="lora", **asked).adapter_params
    except QuestionError:
        return None
