"""A question's dry run, with what it adapted told to whoever asked."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import QuestionError
from registry.measure.running.model_sources import resolve_model
from registry.predict.asked import find_config
from registry.predict.dryrun.child import run_in_child
from registry.predict.dryrun.correction import correct, likeliest
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.catalogue import Catalogue
    from registry.predict.answers import Knowledge
    from registry.predict.asked import Asked
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question

    Tell = Callable[[str], object]


def execute_asked(question: Question, asked: Asked, known: Knowledge, tell: Tell) -> Calibration:
    """Return the calibration, corrected by a dry run of a question.

    ``tell`` gets what is worth knowing of the run, a sentence at a time. Raises DryRunError where
    torch is missing or the configuration cannot be executed, QuestionError where no model is named.
    """
    meant = likeliest(question, known.calibration)
    reserved = _reserved_bytes(meant, asked, known.catalogue, tell)
    return correct(question, meant, known.calibration, reserved)


def _reserved_bytes(question: Question, asked: Asked, catalogue: Catalogue, tell: Tell) -> int:
    if asked.params is not None:
        raise QuestionError("a dry run builds the model: expected --model or --config")
    from registry.predict.dryrun.asked import job_of  # noqa: PLC0415 - loads pydantic's classes

    path = None if asked.config is None else find_config(asked.config)
    name = str(path or asked.config or asked.model)
    settings, recipe = job_of(question, name)
    source = resolve_model(name, {}, catalogue, weights="random")
    found = run_in_child(settings, source, recipe=recipe)
    for note in found.get("notes", ()):
        tell(f"dry run: {note}")
    allocated, reserved = (
        format_memory(found[f"peak_{kind}_bytes"]) for kind in ("allocated", "reserved")
    )
    tell(
        f"dry run: a job of transformers' Trainer has {allocated} of tensors at its peak, for "
        f"which the allocator holds {reserved}"
    )
    return int(found["peak_reserved_bytes"])
