"""A registry of GPU-memory and training-speed observations of LLM fine-tuning.

Examples:
    >>> import registry
    >>> db = registry.open()
    >>> db.query(
    ...     "select max(seq_len) as longest from results where source_id = $id and outcome = 'ok'",
    ...     id="qwen-finetune-profile",
    ... ).rows()
    [{'longest': 8192}]
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from registry.api import Registry, Result
    from registry.errors import (
        QueryError,
        QueryTimeoutError,
        QuestionError,
        RegistryError,
        SourceError,
        StoreError,
        SubmissionError,
        UnitError,
    )
    from registry.predict.answers import EstimateResult, FitResult, estimate, fit
    from registry.submission import Submission

__version__ = "0.2.0"

__all__ = [
    "EstimateResult",
    "FitResult",
    "QueryError",
    "QueryTimeoutError",
    "QuestionError",
    "Registry",
    "RegistryError",
    "Result",
    "SourceError",
    "StoreError",
    "Submission",
    "SubmissionError",
    "UnitError",
    "__version__",
    "estimate",
    "fit",
    "load",
    "open",
    "spark",
    "trainer_callback",
]

#: Where the names are that are loaded when first asked for.
_LAZY = {
    **dict.fromkeys(("EstimateResult", "FitResult", "estimate", "fit"), "registry.predict.answers"),
    "Registry": "registry.api",
    "Result": "registry.api",
    "Submission": "registry.submission",
    **dict.fromkeys(
        (
            "QueryError",
            "QueryTimeoutError",
            "QuestionError",
            "RegistryError",
            "SourceError",
            "StoreError",
            "SubmissionError",
            "UnitError",
        ),
        "registry.errors",
    ),
}


def open(  # noqa: A001 - `registry.open()` reads well
    path: Path | str | None = None, *, at: int | None = None, curated: bool = True
) -> Registry:
    """Open a registry: ``path``, else REGISTRY_PATH, else ./records, else the user's own.

    The curated ./records of a checkout are skipped. The curated records are read alongside the
    registry, unless ``curated`` is false. With ``at``, queries see that version of the folded
    tables. Raises StoreError if a named folder holds no registry.
    """
    from registry.api import open_registry  # noqa: PLC0415 - importing the package stays light

    return open_registry(path, at=at, curated=curated)


def load(relation: str = "results", path: Path | str | None = None) -> pd.DataFrame:
    """Return a view or table of the registry in use as a DataFrame.

    Columns have nullable dtypes, or categories for closed vocabularies; ``attrs`` holds their units
    and meanings. Raises QueryError for an unknown name.
    """
    return open(path).load(relation)


def spark(session: Any, path: Path | str | None = None) -> tuple[str, ...]:
    """Register the tables and views of the registry in use in a Spark session; return their names.

    They become temporary views with the names and rows that queries see now. The session is one of
    PySpark or of Spark Connect, such as Sail's. Raises QueryError, StoreError.
    """
    return open(path).spark(session)


def trainer_callback(**options: Any) -> Any:
    """Return a callback for Hugging Face Trainer, and TRL's trainers, that records the job.

    See ``registry.measure.trainer_callback`` for the options. Raises ImportError if transformers is
    not installed (``pip install 'peft-registry[train]'``).
    """
    from registry import measure  # noqa: PLC0415 - importing the package stays light

    return measure.trainer_callback(**options)


class _Reporting:
    """Has ``report_to="registry"`` of transformers' training arguments mean the recorder.

    It waits for the import of the module that lists what ``report_to`` can name.
    """

    _LISTED_IN = "transformers.integrations.integration_utils"

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        """Return the module's own spec, after whose loading the recorder is listed."""
        if name != self._LISTED_IN:
            return None
        from registry.measure.recording.after_import import AfterImport  # noqa: PLC0415 - as above

        sys.meta_path.remove(self)
        return AfterImport(name, self.offer).find_spec(name, path, target)

    def offer(self, integrations: Any) -> None:
        """List the recorder."""
        from registry.measure.recording.callback import ReportingRecorder  # noqa: PLC0415 - loads transformers

        integrations.INTEGRATION_TO_CALLBACK.setdefault("registry", ReportingRecorder)

    def start(self) -> None:
        """List the recorder now where that module is loaded, else right after its import."""
        if self._LISTED_IN in sys.modules:
            self.offer(sys.modules[self._LISTED_IN])
        else:
            sys.meta_path.insert(0, self)


_Reporting().start()


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        import importlib  # noqa: PLC0415 - importing the package stays light

        return getattr(importlib.import_module(_LAZY[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
