"""XTuner: the log of MMEngine's runner, which it uses until 0.2, and that of its own trainer since.

Logs of MMEngine that train another model than a language model are read alike, but nothing in them
says which model of the catalogue it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.importers.shared.draft import Draft
from registry.importers.shared.logs import find_failure, import_logs
from registry.importers.xtuner_iterations import (
    count_done,
    measure_mmengine,
    parse_mmengine_line,
    read_mmengine_lines,
)
from registry.importers.xtuner_settings import state_dumped_settings, state_system
from registry.importers.xtuner_steps import (
    measure_xtuner_steps,
    parse_xtuner_step,
    read_xtuner_steps,
    state_xtuner_start,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import Imported, ImportOptions, RunFile


class XtunerImporter:
    """Reads a console log of XTuner."""

    name = "xtuner"
    is_single_file = False
    expects = (
        "a log with lines such as `mmengine - INFO - Iter(train) [ 10/720]  lr: …  time: 2.6851  "
        "data_time: 0.0077  memory: 12762  loss: …`, or of XTuner 1 such as "
        "`[XTuner][RANK 0][…][INFO] Step 1/13 data_time: … time: … tgs: …`"
    )

    def main_files(self, files: Sequence[RunFile]) -> list[RunFile]:
        """Recognize a line of a training with its time."""
        return [
            file
            for file in files
            if file.kind == "text"
            and any(parse_mmengine_line(line) or parse_xtuner_step(line) for line in file.document)
        ]

    def read(self, files: Sequence[RunFile], options: ImportOptions) -> Imported:
        """Return the run of each log."""
        logs = self.main_files(files)
        return import_logs(
            self.name, "an XTuner log", logs, lambda log: _draft(log, options), options
        )


def _draft(log: RunFile, options: ImportOptions) -> Draft:
    iterations = read_mmengine_lines(log.document)
    draft = (
        _draft_of_mmengine(log.document, options) if iterations else _draft_of_steps(log.document)
    )
    draft.missing.append("no total time")
    draft.lacks["gpu_id"] = "no accelerator; state it"
    draft.cite(log)
    return draft


def _draft_of_mmengine(lines: Sequence[str], options: ImportOptions) -> Draft:
    draft = Draft(environment={"framework": "mmengine"})
    state_system(draft, lines, options)
    state_dumped_settings(draft, lines, options)
    done, ends = count_done(lines, draft.configuration.get("n_epochs"))
    _state_end(draft, lines, ends)
    measure_mmengine(draft, lines, done, options)
    return draft


def _draft_of_steps(lines: Sequence[str]) -> Draft:
    steps = read_xtuner_steps(lines)
    last = steps[-1]
    draft = Draft(environment={"framework": "xtuner"})
    state_xtuner_start(draft, lines)
    is_open = last.step < last.all
    _state_end(draft, lines, f"the log ends at step {last.step} of {last.all}" if is_open else None)
    measure_xtuner_steps(draft, steps)
    return draft


def _state_end(draft: Draft, lines: Sequence[str], ends: str | None) -> None:
    """State that a run failed, or where its log ends; none of both where it came to its end."""
    failure = find_failure(lines, lambda line: parse_mmengine_line(line) or parse_xtuner_step(line))
    if failure:
        draft.observation |= failure
    elif ends:
        draft.leave_open(ends)
