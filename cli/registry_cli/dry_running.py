"""A question's dry run, with what it adapted told to the user."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.measure.running.model_sources import resolve_model
from registry.predict.dryrun import run_in_child
from registry.predict.dryrun.asked import job_of
from registry.predict.dryrun.correction import correct, likeliest
from registry_cli import console

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question


def execute(
    question: Question, calibration: Calibration, asked: dict[str, Any], catalogue: Catalogue
) -> Calibration:
    """Return the calibration, corrected by a dry run of a question.

    Raises DryRunError where torch is missing or the configuration cannot be executed.
    """
    meant = likeliest(question, calibration)
    return correct(meant, calibration, _reserved_bytes(meant, asked, catalogue))


def _reserved_bytes(question: Question, asked: dict[str, Any], catalogue: Catalogue) -> int:
    if asked["params"] is not None:
        raise QuestionError("a dry run builds the model: expected --model or --config")
    name = str(asked["config"] or asked["model"])
    settings, recipe = job_of(question, name)
    source = resolve_model(name, {}, catalogue, weights="random")
    found = run_in_child(settings, source, recipe=recipe)
    for note in found.get("notes", ()):
        console.hint(f"dry run: {note}")
    return int(found["peak_reserved_bytes"])
