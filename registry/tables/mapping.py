"""The model of ``mapping.yaml``: what the tables of a document mean.

Classes check keys, columns of the contract, metrics and regular expressions, so that a mistake is
found where the mapping is read and not in the middle of a table. The descriptions of the keys are
printed in ``docs/mapping.md``.
"""

# Annotations are evaluated here and not kept as text: pydantic builds the classes from them.
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, field_validator, model_validator

from registry.contract import load_table
from registry.reading.yaml_reader import Path, nearest_line
from registry.submission import Source
from registry.submission.messages import check_row
from registry.tables.column_spec import ColumnSpec, LabelSpec, PatternSpec
from registry.tables.spec import Defaults, Names, Regex, Spec, Values
from registry.tables.values import target_column


def _check_targets(named: dict[str, str]) -> dict[str, str]:
    for name in named:
        target_column(name)
    return named


class Match(Spec):
    """Which tables of a document are meant; all conditions that are given must hold."""

    table: int | list[int] | None = Field(
        default=None,
        description=(
            "Numbers of tables, from 1 in order of appearance; in a folder of CSV files, in order "
            "of their names."
        ),
    )
    file: str | None = Field(
        default=None, description="A pattern of names such as `01-*.csv`; for folders only."
    )
    heading: Regex | None = Field(
        default=None,
        description="A regular expression found in the headings above; for documents only.",
    )
    columns: list[str] = Field(default=[], description="Names of columns that the table has.")


class SkipSpec(Spec):
    """Rows that are not read."""

    rows: list[int] = Field(default=[], description="Numbers of rows, from 1 below the header.")
    empty: bool = Field(
        default=False,
        description="Rows, and pivoted cells, that hold neither a figure nor an outcome.",
    )
    when: dict[str, Regex] = Field(
        default={}, description="Rows whose cells, by column, match these regular expressions."
    )
    because: str | None = Field(default=None, description="Why; a text for readers.")

    @model_validator(mode="after")
    def _check_says_what(self) -> "SkipSpec":
        if not (self.rows or self.empty or self.when):
            raise ValueError("found none of rows, empty, when; expected one")
        return self


class Pivot(LabelSpec):
    """Columns that each make a separate observation."""

    columns: Regex = Field(
        description=(
            "A regular expression of their names; its first group is the label, or else the whole "
            "name."
        )
    )
    cell: ColumnSpec = Field(description="What their cells mean.")

    @model_validator(mode="after")
    def _check_label(self) -> "Pivot":
        if not self.says_values:
            raise ValueError("found no meaning of the label, expected one of: to; values; patterns")
        self._check_values()
        return self


class RuleSpec(Spec):
    """Values that hold for some rows."""

    when: dict[str, Any] = Field(
        description=(
            "A column of the table (its cell's text, with footnote marks or without) or else one "
            "of the contract (its value so far; null matches what is not stated; the outcome of a "
            "row with figures of a run is `ok` unless something says otherwise), and what it must "
            "be; a list matches any of its items. A rule that matches no row is reported."
        )
    )
    set: Values = Field(default={}, description="The values that hold then.")
    because: dict[str, str] = Field(
        default={}, description="Reasons for values that the row has already."
    )

    @field_validator("because")
    @classmethod
    def _check_because(cls, because: dict[str, str]) -> dict[str, str]:
        return _check_targets(because)


class GluedRuns(Spec):
    """Rows in which several runs are glued together."""

    when: dict[str, Any] = Field(description="Columns and their texts in such rows.")
    runs: int = Field(ge=2, description="How many runs a row holds.")
    columns: dict[str, Regex] = Field(
        description=(
            "The form of one figure by column: a regular expression, or `decimals`, `integers`, "
            "`clock`."
        )
    )


class TableSpec(Spec):
    """How some tables of a document are read."""

    match: Match = Field(description="Which tables.")
    title: str | None = Field(
        default=None, description="The title of the table; by default its heading."
    )
    header_rows: int | None = Field(
        default=None, ge=1, description="How many rows the header has, if it cannot be seen."
    )
    transposed: bool = Field(
        default=False,
        description=(
            "The first column names what each row holds, and every other column is an "
            "observation; its name is the text of the column that the first header cell names."
        ),
    )
    headings: list[PatternSpec] = Field(
        default=[],
        description="What the headings above say: patterns found in one of them, and values.",
    )
    sections: ColumnSpec | None = Field(
        default=None,
        description="What a row with one text says of the rows below it, or `{ignore: why}`.",
    )
    defaults: Defaults = Field(
        default={},
        description="Values of all rows, unless a cell says otherwise; null removes one.",
    )
    columns: dict[str, ColumnSpec] = Field(default={}, description="What the columns mean.")
    model_reported: Names = Field(
        default=[],
        description=(
            "Columns whose texts, joined by a space, are the model's name as written; without "
            "it, that is the text of the column that states `model_id`."
        ),
    )
    ignore: Names = Field(
        default=[], description="Columns that are not read; `rest` for all that are not mapped."
    )
    pivot: Annotated[list[Pivot], BeforeValidator(lambda v: [v] if isinstance(v, dict) else v)] = (
        Field(default=[], description="Columns that each make an observation; one or a list.")
    )
    skip: list[SkipSpec] = Field(default=[], description="Rows that are not read.")
    footnotes: dict[str, Values] = Field(
        default={}, description="What footnote marks of this table say; `{}` for nothing."
    )
    rules: list[RuleSpec] = Field(default=[], description="Values that hold for some rows.")
    glued_runs: list[GluedRuns] = Field(
        default=[], description="Rows in which several runs are glued together."
    )


class LogRule(Spec):
    """Values that hold for some runs, or runs that are not read."""

    when: dict[str, Regex] = Field(
        description=(
            "A column of the configuration, the environment or the observation (its value so far), "
            "or `file`, and a regular expression for the whole text."
        )
    )
    set: Values = Field(default={}, description="The values that hold then.")
    leave_out: str | None = Field(
        default=None,
        description="Why such a run is not read; for example, because it is recorded elsewhere.",
    )


class Logs(Spec):
    """Files that a framework or a benchmark wrote, as its importer reads them."""

    importer: str = Field(description="Which importer reads them: a name that `add --from` takes.")
    files: str = Field(default="*", description="A pattern of the files' names; all, if left out.")
    set: Values = Field(default={}, description="Values that override those in the files.")
    defaults: Defaults = Field(
        default={}, description="Values of runs whose files do not state them."
    )
    rules: list[LogRule] = Field(default=[], description="Values that hold for some runs.")
    skip: dict[str, str] = Field(
        default={},
        description="Patterns of files from which nothing can be read, each with the reason.",
    )


class Claim(Spec):
    """An observation that only the prose reports."""

    locator: str = Field(description="Where it is in the document.")
    set: Values = Field(description="What it says; `outcome` is required.")


class Related(Spec):
    """Totals of the data that figures are checked against."""

    n_tokens: int | None = Field(default=None, ge=1, description="Tokens of one epoch.")


class SourceMapping(Spec):
    """How a document's tables become observations."""

    source: Source = Field(
        description="The document: `source_id`, title, kind, url, publisher, licence, sha256, …"
    )
    models: list[dict[str, Any]] = Field(
        default=[], description="Models that the catalogue lacks, with columns of the table models."
    )
    gpus: list[dict[str, Any]] = Field(
        default=[], description="Cards that the catalogue lacks, with columns of the table gpus."
    )
    defaults: Defaults = Field(
        default={}, description="Values of all rows, unless a table or a cell says otherwise."
    )
    absent: Names = Field(default=[], description="Texts that mean no value, in all columns.")
    columns: dict[str, ColumnSpec] = Field(
        default={}, description="What columns mean, in all tables that have them."
    )
    model_reported: Names = Field(
        default=[],
        description=(
            "Columns whose texts, joined by a space, are the model's name as written, in all "
            "tables that have them; without it, that is the text of the column that states "
            "`model_id`."
        ),
    )
    ignore: Names = Field(
        default=[],
        description="Columns that are not read, in all tables; `rest` for all that are not mapped.",
    )
    skip: list[SkipSpec] = Field(default=[], description="Rows that are not read, in all tables.")
    footnotes: dict[str, Values] = Field(
        default={}, description="What footnote marks say, in all tables; `{}` for nothing."
    )
    rules: list[RuleSpec] = Field(
        default=[], description="Values that hold for some rows, in all tables."
    )
    tables: list[TableSpec] = Field(
        default=[], description="The tables that are read; these or `logs` are required."
    )
    logs: list[Logs] = Field(
        default=[],
        description=(
            "Logs that are read instead of tables; they are packed into `files*.jsonl` next to the "
            "mapping (`registry source new FOLDER`)."
        ),
    )
    claims: list[Claim] = Field(default=[], description="Observations that only the prose reports.")
    unite: dict[str, str] = Field(
        default={},
        description=(
            "Columns in which reports of one run may differ, each with the reason. For a column of "
            "the contract one report may leave out what another states; a column of the tables may "
            "hold different texts. All figures must agree, and at least one must be shared."
        ),
    )
    related: Related = Field(
        default_factory=Related, description="Totals of the data that figures are checked against."
    )

    _origin: str = PrivateAttr(default="the mapping")
    _lines: dict[Path, int] = PrivateAttr(default_factory=dict)

    @field_validator("source", mode="before")
    @classmethod
    def _read_year(cls, source: object) -> object:
        """Take the year that a source was published in as text, as which YAML does not read it."""
        if isinstance(source, dict) and type(year := source.get("published_on")) is int:
            return {**source, "published_on": str(year)}
        return source

    @field_validator("models", "gpus")
    @classmethod
    def _check_rows(cls, rows: list[dict[str, Any]], info: Any) -> list[dict[str, Any]]:
        for place, row in enumerate(rows):
            _check_row(info.field_name, place, row)
        return rows

    @model_validator(mode="after")
    def _check_reads_something(self) -> "SourceMapping":
        if bool(self.tables) == bool(self.logs):
            found = "both" if self.tables else "neither"
            raise ValueError(f"found {found} of tables and logs; expected one of them")
        return self

    @model_validator(mode="after")
    def _say_whence(self) -> "SourceMapping":
        """Have what is described say where its figures are from, where it does not itself."""
        told = {"source": f"described by {self.source.source_id}"}
        for rows in (self.models, self.gpus):
            rows[:] = [told | row for row in rows]
        return self

    @property
    def origin(self) -> str:
        """Where the mapping was read, for messages."""
        return self._origin

    def line_of(self, path: Path) -> int | None:
        """Return the line on which a part of the mapping stands, or the nearest around it."""
        return nearest_line(self._lines, path) if self._lines else None

    def read_from(self, origin: str, lines: dict[Path, int] | None = None) -> "SourceMapping":
        """Say where the mapping was read, and on which line each part of it stands."""
        self._origin = origin
        self._lines = lines or {}
        return self


def _check_row(table_name: Literal["models", "gpus"], place: int, row: dict[str, Any]) -> None:
    """Refuse a described model or card that has no id or a value that its column cannot hold."""
    table = load_table(table_name)
    (key,) = table.key
    problems = [f"found no {key}, expected one"] if key not in row else []
    problems += check_row(table, row)
    if problems:
        raise ValueError(f"[{place}]: {'; '.join(problems)}")
