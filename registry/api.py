"""The registry from Python: open it, query it, load a view as a data frame, add to it."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

from registry.errors import SubmissionError
from registry.store.folder import Location, find_registry

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    import pandas as pd
    import pyarrow as pa

    from registry.query.model import Limits
    from registry.store.add import Added
    from registry.store.fold import FoldResult


@dataclass(frozen=True)
class Result:
    """The rows of a query."""

    table: pa.Table

    def arrow(self) -> pa.Table:
        """Return the rows as a pyarrow.Table; its fields' metadata are units and meanings."""
        return self.table

    def df(self) -> pd.DataFrame:
        """Return the rows as a DataFrame.

        Integers, booleans and strings are nullable dtypes, columns with a closed vocabulary are
        categories (all of its words), timestamps are in UTC. ``attrs["units"]`` and
        ``attrs["meanings"]`` hold the unit and the meaning of each column that the contract knows.
        """
        from registry.dataframe import to_dataframe  # noqa: PLC0415 - loads pandas

        return to_dataframe(self.table)

    def rows(self) -> list[dict[str, Any]]:
        """Return the rows as dictionaries."""
        rows: list[dict[str, Any]] = self.table.to_pylist()
        return rows

    def fetchall(self) -> list[tuple[Any, ...]]:
        """Return the rows as tuples, as a database cursor does; columns may share a name."""
        columns = [column.to_pylist() for column in self.table.columns]
        return list(zip(*columns, strict=True))

    def _repr_html_(self) -> str:
        """Return the first rows as a table for notebooks; all text is escaped."""
        from registry.query.notebook import format_html  # noqa: PLC0415 - only in notebooks

        return format_html(self.table)

    def __len__(self) -> int:
        """Return the number of rows."""
        return int(self.table.num_rows)


@dataclass(frozen=True)
class Registry:
    """An open registry. It holds no lock and no open file; each call sees the current state."""

    location: Location
    #: The folded version that queries see; None for everything, including what is pending.
    at: int | None = None

    @property
    def path(self) -> Path:
        """Folder of the user's own registry, which the first write creates."""
        return self.location.own.path

    def query(
        self,
        sql: str,
        params: Mapping[str, Any] | list[Any] | tuple[Any, ...] | None = None,
        /,
        *,
        limits: Limits | None = None,
        **named: Any,
    ) -> Result:
        """Return the result of one SELECT over the tables and views.

        Values are bound as ``$name``, by keyword or in ``params``, or in the order of a list as
        ``?``. The statement runs in a confined process that can read only the registry's tables.
        Raises QueryError, QueryTimeoutError, StoreError.

        Examples:
            >>> import registry
            >>> db = registry.open()
            >>> db.query("select count(*) as n from gpus where gpu_id = $id", id="l4").rows()
            [{'n': 1}]
        """
        from registry.query.params import by_name  # noqa: PLC0415 - not needed to add
        from registry.query.process import query_arrow  # noqa: PLC0415 - not needed to add
        from registry.store.read import read_dataset  # noqa: PLC0415 - not needed to add

        dataset, _ = read_dataset(self.location, self.at)
        values = {**by_name(params or {}), **named}
        return Result(query_arrow(dataset, sql, values, limits=limits))

    def load(self, relation: str = "results") -> pd.DataFrame:
        """Return all rows of a view or table as a DataFrame.

        Raises QueryError for an unknown name.
        """
        quoted = relation.replace('"', '""')
        return self.query(f'from "{quoted}"').df()

    def spark(self, session: Any) -> tuple[str, ...]:
        """Register the tables and views as temporary views of a Spark session; return their names.

        They have the names, columns and rows that `query` sees now: what is folded is read from its
        files, each row of the user's registry and of the curated records once; what is pending is
        derived here and passed to the session. To see what is added later, call this again. The
        session is one of PySpark or of Spark Connect, such as Sail's, and needs access to the same
        files. Raises QueryError, StoreError.
        """
        from registry.query.spark import register_dataset  # noqa: PLC0415 - not needed to add
        from registry.store.read import read_dataset  # noqa: PLC0415 - not needed to add

        dataset, _ = read_dataset(self.location, self.at)
        return register_dataset(session, dataset)

    def plot(self, kind: str, *sides: str, **options: Any) -> Any:
        """Return an Altair chart of the records, which a notebook displays.

        ``kind`` is one of `registry.charts.KINDS`. ``sides``, for ``compare`` only, are two
        selections of runs, as in ``registry compare``. Options are the filters of ``registry ls``
        (model, gpu, method, source, outcome, seq_len) and those of `registry.charts.build_chart`
        (theme, width, x, y, title). Raises ChartError for what cannot be drawn, FilterError for an
        unknown name, MissingExtraError without the extra ``[plot]``.
        """
        from registry.charts import build_chart, require_altair, validate_call  # noqa: PLC0415 - not needed to add
        from registry.charts.rows import select_rows  # noqa: PLC0415 - as above
        from registry.query.filters import Filters, split_filters  # noqa: PLC0415 - as above

        require_altair()
        validate_call(kind, options, (field.name for field in fields(Filters)))
        chosen, options = split_filters(options)
        rows = select_rows(self, kind, chosen, sides)
        heading = " against ".join(reversed(sides)) or str(chosen)
        return build_chart(kind, rows, **{"chosen": heading, **options})

    def add(self, submission: Any) -> Added:
        """Record a submission and return its id and those of its observations.

        ``submission`` is a mapping as JSON would have it, or a ``registry.Submission``. Adding the
        same content again changes nothing. Raises SubmissionError if it is not valid, StoreError if
        the registry cannot be written.
        """
        from registry.store.add import add_submissions  # noqa: PLC0415 - loads pydantic-core

        if type(submission).__name__ == "DataFrame":
            raise SubmissionError(
                "found a DataFrame; expected a mapping; for tables there is "
                "add_frames({'observations': …, 'configurations': …, 'measurements': …})",
                origin="submission",
            )
        return add_submissions(self.location, [("submission", submission)])[0]

    def add_many(self, submissions: Iterable[Any]) -> list[Added]:
        """Record many submissions: all of them, or none if one is not valid.

        Memory does not grow with their number. Raises the same errors as `add`.
        """
        from registry.store.add import add_submissions  # noqa: PLC0415 - as above

        numbered = enumerate(submissions, start=1)
        return add_submissions(self.location, ((f"submission {n}", one) for n, one in numbered))

    def add_frames(self, frames: Mapping[str, pd.DataFrame]) -> list[Added]:
        """Record the rows of tables, given as DataFrames by the names of their tables.

        They refer to each other by ids, as the tables that `load` returns do: ``observations`` and
        ``configurations``, and any of ``sources``, ``environments``, ``measurements``,
        ``citations``, ``samples``, ``models`` and ``gpus``. Any text is an id of an observation, a
        configuration or an environment: the registry computes its own. Figures are numbers in the
        canonical unit of their metric. Raises SubmissionError with everything that is wrong.
        """
        from registry.store.frames import compose_frames  # noqa: PLC0415 - loads pandas

        return self.add_many(compose_frames(frames))

    def retract(self, observation_id: str, *, reason: str, erase: bool = False) -> str:
        """Withdraw the observation whose id starts with ``observation_id``, and return its id.

        Views leave it out; its rows stay in the tables and in earlier versions, unless ``erase``
        removes its content from all of them. Raises StoreError unless exactly one matches.
        """
        from registry.store.retract import retract  # noqa: PLC0415 - heavy

        return retract(self.location, observation_id, reason=reason, erase=erase)

    def fold(self) -> FoldResult:
        """Fold what is pending into the tables; in curated records, file it under its sources.

        Raises StoreError.
        """
        from registry.store.curated_fold import file_submissions  # noqa: PLC0415 - heavy
        from registry.store.fold import fold  # noqa: PLC0415 - heavy

        if self.location.own.is_curated:
            return file_submissions(self.location.own)
        return fold(self.location)


def open_registry(
    path: Path | str | None = None, *, at: int | None = None, curated: bool = True
) -> Registry:
    """Open a registry: ``path``, else REGISTRY_PATH, else ./records, else the user's own.

    The curated ./records of a checkout are skipped. The curated records are read alongside the
    registry, unless ``curated`` is false. It stays the same if the process changes its working
    directory. Raises StoreError if a named folder holds no registry.
    """
    return Registry(find_registry(path, curated=curated).anchored(), at)
