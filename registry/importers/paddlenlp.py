"""PaddleNLP and PaddleFormers: the log of their trainer, also in PaddleMIX and ERNIEKit."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from registry.importers.paddlenlp_figures import (
    is_paddle_end,
    is_paddle_step,
    measure_paddle_run,
    read_paddle_lines,
)
from registry.importers.paddlenlp_settings import read_paddle_arguments, state_paddle_settings
from registry.importers.shared.draft import Draft
from registry.importers.shared.logs import LogImporter, state_end
from registry.importers.shared.shapes import whole_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import ImportOptions, RunFile

#: Those that have the trainer, each built upon some of the later ones, as paths name them.
_FRAMEWORKS: Final = ("erniekit", "paddlemix", "paddleformers", "paddlenlp")
_NAMED: Final = re.compile(rf"\b(?:{'|'.join(_FRAMEWORKS)})\b", re.IGNORECASE)


class PaddlenlpImporter(LogImporter):
    """Reads a console log of the trainer of PaddleNLP or PaddleFormers."""

    name = "paddlenlp"
    what = "a PaddleNLP log"
    expects = (
        "a log with lines such as `[    INFO] - loss: 0.68, learning_rate: 2.9e-05, "
        "global_step: 20, …, interval_runtime: 1.9257, …, interval_steps_per_second: 5.193, …`"
    )

    def is_log(self, lines: Sequence[str]) -> bool:
        """Recognize a line of steps with the seconds that they took."""
        return any(map(is_paddle_step, lines))

    def draft(self, log: RunFile, options: ImportOptions) -> Draft:
        """Return the run of a log."""
        arguments = read_paddle_arguments(log.document)
        draft = Draft()
        named = {found.lower() for line in log.document for found in _NAMED.findall(line)}
        framework = next((name for name in _FRAMEWORKS if name in named), None)
        draft.environment |= {"framework": framework} if framework else {}
        planned = state_paddle_settings(draft, arguments, log.document, options)
        measure_paddle_run(draft, log.document, whole_of(arguments.get("process_index")) or 0)
        _state_end(draft, log.document, planned)
        draft.lacks["gpu_id"] = "no accelerator; state it"
        draft.cite(log)
        return draft


def _state_end(draft: Draft, lines: Sequence[str], planned: int | None) -> None:
    """State that a run failed, or where its log ends; none of both where its steps were done."""
    if any(map(is_paddle_end, lines)):
        return
    ends = f"the log ends at step {read_paddle_lines(lines)[-1].step}"
    state_end(draft, lines, is_paddle_step, f"{ends} of {planned}" if planned else ends)
