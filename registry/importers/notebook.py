"""Notebooks that fine-tune with Unsloth, TRL or PEFT: what their cells state and print.

Reads ``.ipynb`` files and notebooks saved as text. The time in Unsloth's last cell includes the
compilation in the first step.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from registry.errors import SubmissionError
from registry.importers.notebook_settings import (
    NO_ADAPTER,
    STEPS,
    first_count,
    last_banner,
    state_notebook,
    state_printed_card,
)
from registry.importers.shared.draft import Draft, import_drafts
from registry.importers.shared.shapes import entries_of, number_of
from registry.importers.shared.totals import Evaluations, measure_totals, rate_of, state_epochs
from registry.importers.shared.unsloth import find_contradiction, measure_reserved

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile

_NUMBER: Final = r"(?P<value>\d+(?:\.\d+)?)"
_SECONDS: Final = re.compile(rf"^{_NUMBER} seconds used for training", re.MULTILINE)
_OUTPUT: Final = re.compile(
    r"TrainOutput\(global_step=(?P<steps>\d+).*?metrics=(?P<metrics>\{[^{}]*\})"
)
#: The metrics of a training on their own, as they are logged, shown or dumped.
_METRICS: Final = re.compile(r"""\{[^{}]{0,2000}["']train_runtime["']: ?["']?\d[^{}]{0,2000}\}""")
_PARAMS: Final = re.compile(
    r"(?:Number of trainable parameters =|Trainable parameters =|trainable params:) *(?P<n>[\d,]+)"
)
_ALL: Final = re.compile(r"(?:all params: *|Trainable parameters = *[\d,]+ of )(?P<n>\d[\d,]*)")

#: Of all parameters, the least that a training of all of them says it trains.
_MOST: Final = 0.5


class NotebookImporter:
    """Reads what a notebook printed after it fine-tuned a model."""

    name = "notebook"
    is_single_file = True
    expects = (
        "a notebook whose outputs show TrainOutput(…), {'train_runtime': …, 'train_loss': …} or "
        "Unsloth's `… seconds used for training.`"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize Unsloth's last cell, or what a Trainer returned or logged, in a notebook."""
        return [file for file in files if _is_result(_text_of(file)) or _find_metrics(file)]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of a notebook."""
        file = files[0]
        text = _text_of(file)
        printed = [] if _is_result(text) else _find_metrics(file)
        n_runs = max(len(_SECONDS.findall(text)), len(_OUTPUT.findall(text)), len(printed))
        if n_runs > 1:
            raise SubmissionError("it holds the figures of several runs; split the notebook")
        draft = Draft(environment={"framework": _framework_of(text)})
        state_notebook(draft, text, _code_of(file), options)
        if file.kind != "text":  # what cells state is no card that they saw
            state_printed_card(draft, _printed_of(file), options)
        _measure(draft, text, printed[0] if printed else {})
        _doubt_full(draft)
        draft.cite(file)
        return import_drafts(self.name, "a notebook that fine-tunes", [file], [draft], options)


def as_console(file: RunFile) -> RunFile | None:
    """Return what a notebook's cells printed as a console's lines; None where it is nothing.

    A cell may run the command of any framework, in a line that begins with an exclamation mark.
    """
    if file.kind != "json":
        return None
    commands = [line for line in _code_of(file).splitlines() if line.lstrip().startswith("!")]
    printed = _outputs_of(file).splitlines()
    return replace(file, kind="text", document=[*commands, *printed]) if any(printed) else None


def _framework_of(text: str) -> str:
    """Return what trains in a notebook: Unsloth, TRL, or the Trainer that both build on."""
    if "Unsloth" in text:
        return "unsloth"
    return "trl" if re.search(r"\btrl\b|SFTTrainer", text) else "transformers"


def _is_result(text: str) -> bool:
    return bool(text) and bool(_SECONDS.search(text) or _OUTPUT.search(text))


def _text_of(file: RunFile) -> str:
    """Return the cells of a notebook and what they printed, as one text."""
    if file.kind == "text" and any("#### cell" in line for line in file.document[:20]):
        return "\n".join(file.document)
    return "\n".join(_cell_text(cell) for cell in entries_of(file.document, "cells"))


def _code_of(file: RunFile) -> str:
    """Return what the cells state; of a notebook saved as text, with what they printed."""
    cells = entries_of(file.document, "cells")
    return "\n".join(_cell_text({**cell, "outputs": []}) for cell in cells) or _text_of(file)


def _printed_of(file: RunFile) -> str:
    """Return what the cells printed; of a notebook saved as text, with what they state."""
    return _outputs_of(file) or _text_of(file)


def _outputs_of(file: RunFile) -> str:
    cells = entries_of(file.document, "cells")
    return "\n".join(_cell_text({**cell, "source": ""}) for cell in cells)


def _find_metrics(file: RunFile) -> list[dict[str, Any]]:
    """Return the totals that a notebook prints, those of one run once."""
    # what stands in a cell's source may be of another run
    found = filter(_are_totals, map(_read_metrics, _METRICS.findall(_printed_of(file))))
    return list({f"{number_of(one['train_runtime']):.4g}": one for one in found}.values())


def _are_totals(metrics: Mapping[str, Any]) -> bool:
    """Return whether metrics are of a whole training; some versions log a runtime at each step."""
    rate = {"train_samples_per_second", "train_steps_per_second"} & metrics.keys()
    has_time = bool(number_of(metrics.get("train_runtime")))
    return has_time and "loss" not in metrics and bool(rate or "train_loss" in metrics)


def _cell_text(cell: Mapping[str, Any]) -> str:
    if cell.get("cell_type") != "code":
        return ""
    parts = [cell.get("source")]
    for output in entries_of(cell, "outputs"):
        data = output.get("data")
        parts += [output.get("text"), data.get("text/plain") if isinstance(data, dict) else None]
    return "\n".join(
        "".join(map(str, part)) if isinstance(part, list) else str(part or "") for part in parts
    )


def _read_metrics(text: str) -> dict[str, Any]:
    """Return the metrics of a TrainOutput, none where it is cut off; what is no number is left."""
    try:
        found = ast.literal_eval(
            re.sub(r"(:\s*-?)(?:nan|NaN|inf|Infinity|null)\b", r"\1None", text)
        )
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return {}
    return found if isinstance(found, dict) else {}


def _measure(draft: Draft, text: str, printed: Mapping[str, Any]) -> None:
    seconds, output = _SECONDS.search(text), _OUTPUT.search(text)
    metrics = _read_metrics(output["metrics"]) if output else dict(printed)
    steps = int(output["steps"]) if output else first_count(STEPS, last_banner(text))
    steps = steps or _steps_of_rate(draft, metrics)
    if seconds and not (output and find_contradiction(text)):
        metrics = {**metrics, "train_runtime": seconds["value"]}
    state_epochs(draft, metrics)
    measure_totals(draft, metrics, steps, Evaluations())
    measure_reserved(draft, text)
    draft.note_lack("peak_memory", "no memory")
    draft.measure("trainable_params", first_count(_PARAMS, text))
    draft.measure("n_params", first_count(_ALL, text))


def _doubt_full(draft: Draft) -> None:
    """Leave the method open where no adapter is seen, yet few of the parameters are trained."""
    counts = {figure["metric"]: figure["value"] for figure in draft.figures}
    n_params = counts.get("n_params", 0)
    is_part = counts.get("trainable_params", n_params) < _MOST * n_params
    if is_part and draft.inferences.get("method") == NO_ADAPTER:
        del draft.configuration["method"], draft.inferences["method"]


def _steps_of_rate(draft: Draft, metrics: Mapping[str, Any]) -> int | None:
    """Return the steps that the cells ask for, where the rate says that so many were done."""
    planned = draft.configuration.get("n_steps")
    rate = rate_of(metrics.get("train_steps_per_second"))
    seconds = number_of(metrics.get("train_runtime"))
    agrees = planned and rate is not None and seconds and rate.agrees(planned / seconds)
    return planned if agrees else None
