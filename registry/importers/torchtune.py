"""torchtune: the text log of its ``DiskLogger``, with the YAML of the recipe.

Until 2024-08-15 torchtune divided memory by 1e9, since then by 2^30, under the same names. The
log's own name holds the second it was begun in, which tells which it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.shared.draft import Draft, import_drafts, state_model
from registry.importers.shared.logs import find_failure
from registry.importers.shared.readings import GIBIBYTE, largest, measure_token_rate
from registry.importers.shared.shapes import bool_of, number_of, section_of
from registry.importers.shared.training_arguments import DTYPES, state_lora, state_optimizer
from registry.reading import ReadingError
from registry.reading.yaml_reader import parse_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

#: In early 2024 the peaks of memory stood in lines of their own.
_STEP: Final = re.compile(r"^Step (?P<step>\d+) \| (?P<figures>.*\b(?:loss|peak_memory_\w+):.*)$")
_FIGURE: Final = re.compile(r"(?P<name>[a-z_]+):(?P<value>[-+0-9.eE]+)")

#: torchtune's names of memory to kinds, and the divisors before and after the change.
_MEMORY: Final = {
    "peak_memory_active": "active",
    "peak_memory_alloc": "allocated",
    "peak_memory_reserved": "reserved",
}
_CHANGED: Final = datetime(2024, 8, 15, tzinfo=UTC)
_GIGABYTE: Final = 10**9

_FAMILIES: Final = (
    (re.compile(r"llama(\d)(?:_(\d))?_(\d+)b"), "llama-{0}-{2}b"),
    (re.compile(r"qwen(\d)(?:_(\d))?_(\d+(?:_\d+)?)b"), "qwen{0}-{2}b"),
    (re.compile(r"gemma(\d)?(?:_(\d))?_(\d+)b"), "gemma-{0}-{2}b"),
    (re.compile(r"(mistral)(_)?_(\d+)b"), "mistral-{2}b"),
)
_LORA_PREFIX: Final = re.compile(r"^(?:q?lora|dora)_")


class TorchtuneImporter:
    """Reads a step log of torchtune."""

    name = "torchtune"
    is_single_file = False
    expects = "a text log with lines such as `Step 1 | loss:1.5 …`"

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize lines of steps with a loss and figures with their names."""
        return [file for file in files if _is_log(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run in the log."""
        log = next(file for file in files if _is_log(file))
        lines = list(_steps(log))
        steps = [(step, figures) for step, figures in lines if "loss" in figures]
        if any(after[0] <= before[0] for before, after in pairwise(steps)):
            raise SubmissionError("its steps go back: several runs in one file; split it")
        draft = Draft(environment={"framework": "torchtune"})
        used = [log]
        for file in files:
            if _is_recipe(file):
                _state_recipe(draft, file.document, options)
                used.append(file)
        printed = _read_printed_recipe(log.document)
        if _component(printed, "model"):
            _state_recipe(draft, printed, options)
        _measure(draft, steps)
        draft.observation |= find_failure(log.document, _STEP.match)
        _measure_memory(draft, log, [figures for _, figures in lines])
        draft.cite(log)
        draft.missing.append("no total time; the log has no clock")
        return import_drafts(self.name, "a torchtune run", used, [draft], options)


def _is_log(file: RunFile) -> bool:
    lines = file.document if file.kind == "text" else ()
    return any("loss:" in line and _STEP.match(line) for line in lines)


def _is_recipe(file: RunFile) -> bool:
    return "_component_" in section_of(file.document, "model")


def _steps(log: RunFile) -> Iterator[tuple[int, dict[str, float]]]:
    for line in log.document:
        found = _STEP.match(line)
        if found:
            figures = {
                name: number
                for name, value in _FIGURE.findall(found["figures"])
                if (number := number_of(value)) is not None
            }
            yield int(found["step"]), figures


def _state_recipe(draft: Draft, recipe: Mapping[str, Any], options: ImportOptions) -> None:
    """State the settings of the recipe."""
    component = _component(recipe, "model")
    names = [_catalogue_name(component), _LORA_PREFIX.sub("", component)]
    state_model(draft, names, options)
    draft.observation["model_reported"] = component
    if "model_id" in draft.configuration:
        draft.inferences["model_id"] = f"the component {component}"
    _state_method(draft, component, recipe["model"])
    draft.state("micro_batch_size", recipe.get("batch_size"))
    draft.state("grad_accum_steps", recipe.get("gradient_accumulation_steps"))
    draft.state("gradient_checkpointing", recipe.get("enable_activation_checkpointing"))
    draft.state("torch_compile", bool_of(recipe.get("compile")))
    draft.state("param_dtype", DTYPES.get(str(recipe.get("dtype"))))
    draft.state("compute_dtype", DTYPES.get(str(recipe.get("dtype"))))
    draft.state("n_epochs", number_of(recipe.get("epochs")))
    draft.state("seq_len", section_of(recipe, "tokenizer").get("max_seq_len"))
    draft.state("packing", section_of(recipe, "dataset").get("packed"))
    draft.state("dataset", _component(recipe, "dataset") or None)
    state_optimizer(draft, _component(recipe, "optimizer").lower())


def _component(recipe: Mapping[str, Any], part: str) -> str:
    return str(section_of(recipe, part).get("_component_", "")).rpartition(".")[2]


def _catalogue_name(component: str) -> str | None:
    """Return the catalogue's way to write a component's name.

    >>> _catalogue_name("lora_llama3_1_8b")
    'llama-3.1-8b'
    >>> _catalogue_name("lora_qwen2_5_1_5b_base"), _catalogue_name("code_llama2_7b")
    ('qwen2.5-1.5b', None)
    """
    for pattern, form in _FAMILIES:
        found = pattern.match(_LORA_PREFIX.sub("", component))
        if found:
            version = ".".join(part for part in found.groups()[:2] if part)
            return form.format(version, None, found[3].replace("_", "."))
    return None


def _state_method(draft: Draft, component: str, model: Mapping[str, Any]) -> None:
    if "lora_" not in component:
        draft.state("method", "full", "a component without adapters")
        return
    modules = None if model.get("apply_lora_to_mlp") else model.get("lora_attn_modules")
    state_lora(draft, model, modules)
    if component.startswith("qlora_"):
        draft.state("quant_method", "torchao", "torchtune quantizes with torchao")
        draft.state("quant_bits", 4)
        draft.state("quant_type", "nf4")


def _measure(draft: Draft, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
    if not steps:
        return
    draft.leave_open("the log does not say whether the run went to its end")
    draft.measure("n_steps", steps[-1][0] + (steps[0][0] == 0))  # it counted from 0 once
    draft.measure("train_loss", steps[-1][1].get("loss"), statistic="last")
    rates = [rate for _, figures in steps if (rate := figures.get("tokens_per_second_per_gpu"))]
    measure_token_rate(draft, rates, "steps; first process")


def _measure_memory(draft: Draft, log: RunFile, entries: Sequence[Mapping[str, float]]) -> None:
    begun = _read_begun(log.document, log.path.stem)
    if begun is not None:
        draft.observation["observed_at"] = begun.isoformat()
        draft.inferences["observed_at"] = "the log's name"
    for name, kind in _MEMORY.items():
        peak = largest(entries, name)
        if peak:
            _measure_peak(draft, kind, peak, begun)
    draft.note_lack("peak_memory", "no memory (log_peak_memory_stats: True logs it)")


def _measure_peak(draft: Draft, kind: str, peak: float, begun: datetime | None) -> None:
    """Add a peak in the divisor of its day; where the day is not known, both bound it."""
    is_old = begun is not None and begun < _CHANGED
    unit = _GIGABYTE if is_old else GIBIBYTE
    said = f"torchtune divides by {'1e9' if is_old else '2^30'} at that date"
    if begun is None:
        said = "date not known: 2^30 since 2024-08-15, 1e9 (the low bound) before"
    draft.measure_process(
        "peak_memory",
        peak * unit,
        kind=kind,
        low=peak * (_GIGABYTE if begun is None else unit),
        high=peak * unit,
        raw=f"{peak:g}",
        reading="GB" if is_old else "GiB",
        reason=f"{said}; largest step, first process",
    )


# What a console of torchtune has in front of its steps: the recipe, and the log's own name.

_CONFIG: Final = re.compile(r"Running \w+ with resolved config:")
#: Lines of a logger or of torchtune itself, which end the recipe.
_LOGGED: Final = re.compile(r"^(?:[A-Z]+:[\w.]+:|Writing logs|Step \d|W\d{4} )")
_WRITING: Final = re.compile(r"^Writing logs to .*log_(?P<second>\d{10})(?:\.\d+)?\.txt")


def _read_printed_recipe(lines: Sequence[str]) -> dict[str, Any]:
    """Return the recipe that a console shows as YAML; an empty one where there is none."""
    begun = next((i for i, line in enumerate(lines) if _CONFIG.search(line)), None)
    if begun is None:
        return {}
    text = "\n".join(takewhile(lambda line: not _LOGGED.match(line), lines[begun + 1 :]))
    try:
        recipe = parse_yaml(text, origin="the recipe in the console")
    except ReadingError:
        return {}
    return recipe if isinstance(recipe, dict) else {}


def _read_begun(lines: Sequence[str], stem: str) -> datetime | None:
    """Return when a log was begun, from the second in its name or in the line that names it."""
    found = re.search(r"log_(?P<second>\d{10})(?:\.\d+)?$", stem)
    found = found or next((match for line in lines if (match := _WRITING.match(line))), None)
    return datetime.fromtimestamp(int(found["second"]), tz=UTC) if found else None
