"""torchtune: the text log of its ``DiskLogger``, with the YAML of the recipe.

Until 2024-08-15 torchtune divided memory by 1e9, since then by 2^30, under the same names. The
log's own name holds the second it was begun in, which tells which it is.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.base import Imported, Recognition
from registry.importers.shared.draft import Draft, state_model, submission_of
from registry.importers.shared.shapes import number_of
from registry.importers.shared.training_arguments import DTYPES, state_optimizer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.importers.base import ImportOptions, RunFile

_STEP: Final = re.compile(r"^Step (?P<step>\d+) \| (?P<figures>.*\bloss:.*)$")
_FIGURE: Final = re.compile(r"(?P<name>[a-z_]+):(?P<value>[-+0-9.eE]+)")

#: torchtune's names of memory to kinds, and the divisors before and after the change.
_MEMORY: Final = {
    "peak_memory_active": "active",
    "peak_memory_alloc": "allocated",
    "peak_memory_reserved": "reserved",
}
_CHANGED: Final = datetime(2024, 8, 15, tzinfo=UTC)
_GIGABYTE: Final = 10**9
_GIBIBYTE: Final = 2**30

_FAMILIES: Final = (
    (re.compile(r"llama(\d)(?:_(\d))?_(\d+)b"), "llama-{0}-{2}b"),
    (re.compile(r"qwen(\d)(?:_(\d))?_(\d+)b"), "qwen{0}-{2}b"),
    (re.compile(r"gemma(\d)?(?:_(\d))?_(\d+)b"), "gemma-{0}-{2}b"),
    (re.compile(r"(mistral)(_)?_(\d+)b"), "mistral-{2}b"),
)
_LORA_PREFIX: Final = re.compile(r"^(?:q?lora|dora)_")


class TorchtuneImporter:
    """Reads a step log of torchtune."""

    name = "torchtune"
    is_single_file = False

    def recognizes(self, files: Sequence[RunFile]) -> Recognition | None:
        """Recognize lines of steps with a loss and figures with their names."""
        main = tuple(file for file in files if _is_log(file))
        return Recognition("a torchtune run", main) if main else None

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run in the log."""
        log = next(file for file in files if _is_log(file))
        steps = list(_steps(log))
        if any(after[0] <= before[0] for before, after in pairwise(steps)):
            raise SubmissionError("its steps go back: several runs in one file; split it")
        draft = Draft(environment={"framework": "torchtune"})
        used = [log]
        for file in files:
            if _is_recipe(file):
                _state_recipe(draft, file.document, options)
                used.append(file)
        _measure(draft, log, steps)
        draft.cite(log)
        submission = submission_of(self.name, used, [draft], options)
        draft.missing.append("no total time; the log has no clock")
        missing = tuple(f"{log.name}: {text}" for text in draft.missing)
        taken = f"{', '.join(file.name for file in used)}: a torchtune run"
        return Imported((submission,), (taken,), missing=missing)


def _is_log(file: RunFile) -> bool:
    return file.kind == "text" and any(_STEP.match(line) for line in file.document[:50])


def _is_recipe(file: RunFile) -> bool:
    model = file.document.get("model") if isinstance(file.document, dict) else None
    return isinstance(model, dict) and "_component_" in model


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
    model = recipe["model"]
    component = str(model["_component_"]).rpartition(".")[2]
    names = [_catalogue_name(component), _LORA_PREFIX.sub("", component)]
    state_model(draft, names, options)
    draft.observation["model_reported"] = component
    if "model_id" in draft.configuration:
        draft.inferences["model_id"] = f"the component {component}"
    _state_method(draft, component, model)
    draft.state("micro_batch_size", recipe.get("batch_size"))
    draft.state("grad_accum_steps", recipe.get("gradient_accumulation_steps"))
    draft.state("gradient_checkpointing", recipe.get("enable_activation_checkpointing"))
    compiled = recipe.get("compile")
    draft.state("torch_compile", compiled if isinstance(compiled, bool) else None)
    draft.state("param_dtype", DTYPES.get(str(recipe.get("dtype"))))
    draft.state("compute_dtype", DTYPES.get(str(recipe.get("dtype"))))
    draft.state("n_epochs", number_of(recipe.get("epochs")))
    tokenizer, dataset = recipe.get("tokenizer"), recipe.get("dataset")
    if isinstance(tokenizer, dict):
        draft.state("seq_len", tokenizer.get("max_seq_len"))
    if isinstance(dataset, dict):
        draft.state("packing", dataset.get("packed"))
        draft.state("dataset", str(dataset.get("_component_", "")).rpartition(".")[2] or None)
    optimizer = recipe.get("optimizer")
    if isinstance(optimizer, dict):
        state_optimizer(draft, str(optimizer.get("_component_")).rpartition(".")[2].lower())


def _catalogue_name(component: str) -> str | None:
    """Return the catalogue's way to write a component's name.

    >>> _catalogue_name("lora_llama3_1_8b")
    'llama-3.1-8b'
    """
    for pattern, form in _FAMILIES:
        found = pattern.search(component)
        if found:
            version = ".".join(part for part in found.groups()[:2] if part)
            return form.format(version, None, found[3])
    return None


def _state_method(draft: Draft, component: str, model: Mapping[str, Any]) -> None:
    if "lora_" not in component:
        draft.state("method", "full", "a component without adapters")
        return
    draft.state("method", "dora" if model.get("use_dora") is True else "lora")
    draft.state("lora_rank", model.get("lora_rank"))
    draft.state("lora_alpha", number_of(model.get("lora_alpha")))
    draft.state("lora_dropout", number_of(model.get("lora_dropout")))
    modules = model.get("lora_attn_modules")
    if isinstance(modules, list) and not model.get("apply_lora_to_mlp"):
        draft.state("lora_target_modules", sorted(str(module) for module in modules))
    if component.startswith("qlora_"):
        draft.state("quant_method", "torchao", "torchtune quantizes with torchao")
        draft.state("quant_bits", 4)
        draft.state("quant_type", "nf4")


def _measure(draft: Draft, log: RunFile, steps: Sequence[tuple[int, Mapping[str, float]]]) -> None:
    if not steps:
        return
    draft.observation["outcome"] = "unknown"
    draft.observation["outcome_detail"] = "the log does not say whether the run went to its end"
    draft.measure("n_steps", steps[-1][0])
    draft.measure("train_loss", steps[-1][1].get("loss"), statistic="last")
    rates = sorted(
        rate for _, figures in steps if (rate := figures.get("tokens_per_second_per_gpu"))
    )
    if rates:
        draft.measure(
            "tokens_per_second",
            rates[len(rates) // 2],
            statistic="median",
            scope="per_gpu",
            device_index=0,
            reason=f"of {len(rates)} steps; first process",
        )
    begun = _begun(log)
    if begun is not None:
        draft.observation["observed_at"] = begun.isoformat()
        draft.inferences["observed_at"] = "the log's name"
    for name, kind in _MEMORY.items():
        peak = max((figures[name] for _, figures in steps if name in figures), default=None)
        if peak:
            _measure_memory(draft, kind, peak, begun)


def _begun(log: RunFile) -> datetime | None:
    """Return when the log was begun, from the seconds in its name, or None."""
    found = re.search(r"log_(\d{10})(?:\.\d+)?$", log.path.stem)
    return datetime.fromtimestamp(int(found[1]), tz=UTC) if found else None


def _measure_memory(draft: Draft, kind: str, peak: float, begun: datetime | None) -> None:
    """Add a peak in the divisor of its day; where the day is not known, both bound it."""
    is_old = begun is not None and begun < _CHANGED
    unit = _GIGABYTE if is_old else _GIBIBYTE
    said = f"torchtune divides by {'1e9' if is_old else '2^30'} at that date"
    if begun is None:
        said = "date not known: 2^30 since 2024-08-15, 1e9 (the low bound) before"
    draft.measure(
        "peak_memory",
        peak * unit,
        scope="per_gpu",
        device_index=0,
        kind=kind,
        low=peak * (_GIGABYTE if begun is None else unit),
        high=peak * unit,
        raw=f"{peak:g}",
        reading="GB" if is_old else "GiB",
        reason=f"{said}; largest step, first process",
    )
