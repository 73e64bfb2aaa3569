"""Find out that a notebook and what a Trainer left beside it tell of the same run."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple

from registry.errors import SubmissionError
from registry.importers.base import Imported
from registry.importers.hf_trainer import HfTrainerImporter, read_trainer_run, used_files
from registry.importers.notebook import NotebookImporter
from registry.importers.resumed import find_mean_loss
from registry.importers.shared.shapes import count_of, number_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.importers.base import Importer, RunFile

#: How far the same figure may be from itself: a time that is printed with two decimals, and a mean
#: of losses that are logged with four.
_ROUNDED: Final = 1e-4


class ReadRun(NamedTuple):
    """Files that an importer read together, and what came of them; without one, a refusal."""

    importer: Importer | None
    files: Sequence[RunFile]
    found: Imported


class _Told(NamedTuple):
    """What tells a run from others: its steps, its seconds and the mean of its losses."""

    steps: float | None = None
    seconds: float | None = None
    loss: float | None = None

    def is_same(self, other: _Told) -> bool:
        """Return whether both took as many steps, in the same time and with the same mean loss.

        One of the two figures may be stated by one of them alone.
        """
        both = [(a, b) for a, b in zip(self[1:], other[1:], strict=True) if a and b]
        is_like = bool(both) and all(math.isclose(a, b, rel_tol=_ROUNDED) for a, b in both)
        return is_like and bool(self.steps) and self.steps == other.steps


def leave_out_doubles(runs: Sequence[ReadRun]) -> list[Imported]:
    """Return what was found, of a notebook and a Trainer's files of the same run the richer one."""
    found = [run.found for run in runs]
    notebooks, others = (
        [place for place, run in enumerate(runs) if run.importer and run.importer.name == name]
        for name in (NotebookImporter.name, HfTrainerImporter.name)
    )
    told = {place: _read_told(runs[place].files) for place in (others if notebooks else ())}
    for one in notebooks:
        ours = _read_figures(found[one])
        other = next((place for place, theirs in told.items() if ours.is_same(theirs)), None)
        if other is not None:
            kept, left = sorted((one, other), key=lambda place: -_count(found[place]))
            found[left] = _leave_out(runs[left], runs[kept])
    return found


def _read_figures(notebook: Imported) -> _Told:
    """Return what the figures of a notebook say; nothing where it was refused."""
    for submission in notebook.submissions:
        rows = submission["observations"][0].get("measurements", ())
        figures = {row["metric"]: number_of(row["value"]) for row in rows}
        return _Told(*map(figures.get, ("n_steps", "total_time", "train_loss")))
    return _Told()


def _read_told(files: Sequence[RunFile]) -> _Told:
    """Return what the files of a Trainer say, though there may be too little for an observation."""
    with suppress(SubmissionError):  # several logs, of which none is the run's
        run = read_trainer_run(files)
        steps = run.n_steps or count_of(run.state.get("global_step"))
        mean = find_mean_loss(steps, run.history) if steps else None
        seconds, loss = (number_of(run.metrics.get(f"train_{key}")) for key in ("runtime", "loss"))
        return _Told(steps, seconds, loss or mean)
    return _Told()


def _count(found: Imported) -> int:
    """Return how much is stated of a run; nothing where it was refused."""
    observations = [one["observations"][0] for one in found.submissions]
    return sum(len(one["configuration"]) + len(one["measurements"]) for one in observations)


def _leave_out(left: ReadRun, kept: ReadRun) -> Imported:
    """Return that nothing is taken of files, for another one tells more of the same run."""
    names, better = (", ".join(file.name for file in _main(run)) for run in (left, kept))
    return Imported(taken=(f"(nothing further needed of {names}: the run of {better})",))


def _main(run: ReadRun) -> Sequence[RunFile]:
    is_trainer = run.importer is not None and run.importer.name == HfTrainerImporter.name
    return used_files(run.files) if is_trainer else run.files
