"""Execute the training graph of a configuration on fake tensors and say what memory it takes.

No accelerator and no weights are needed. Importing this package loads neither torch nor numpy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from registry.measure.failure import format_head
from registry.predict.dryrun.child import run_in_child
from registry.predict.dryrun.requirements import check_packages, check_settings
from registry.predict.dryrun.result import KINDS, DryRun, DryRunError, Recipe

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings

__all__ = ["KINDS", "DryRun", "DryRunError", "Recipe", "dry_run", "run_in_child"]


def dry_run(
    settings: Settings, model_source: dict[str, Any], *, recipe: Recipe | None = None
) -> DryRun:
    """Return the memory that training takes on one device, in bytes; loads torch.

    ``model_source`` is what ``registry.measure.running.model_sources.resolve_model`` gives. Takes
    about 10 s for a model of 7e9 parameters on one core. Raises DryRunError where torch is not
    installed or the configuration cannot be executed.
    """
    problems = check_packages(settings) or check_settings(settings)
    if problems:
        raise DryRunError("; ".join(problems))
    try:
        run_training = import_module("registry.predict.dryrun.training").run_training
        result: DryRun = run_training(settings, model_source, recipe or Recipe())
    except Exception as error:  # whatever the libraries raise on a graph of the user's choice
        raise DryRunError(_format_failure(settings, error)) from error
    return result


def _format_failure(settings: Settings, error: Exception) -> str:
    return (
        f"dry run of {settings.model}: {format_head(error)}; expected a training "
        "step that runs on fake tensors; ask without it to use the formula"
    )
