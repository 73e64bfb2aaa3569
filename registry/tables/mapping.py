"""The model of ``mapping.yaml``: what each column of a document's tables means.

Classes check keys, columns of the contract, metrics and regular expressions, so that a mistake is
found where the mapping is read and not in the middle of a table.
"""

# Annotations are evaluated here and not kept as text: pydantic builds the classes from them.
import re
from functools import partial
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    field_validator,
    model_validator,
)

from registry.contract import load_metrics, vocabulary
from registry.errors import did_you_mean
from registry.submission import Source
from registry.submission.facts import MEMORY_METRICS
from registry.tables.values import Stated, parse_stated, parse_values, target_column
from registry.units import GLUED_PATTERNS


def _parse_regex(pattern: Any) -> Any:
    if isinstance(pattern, str) and pattern not in GLUED_PATTERNS:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(
                f"found pattern {pattern!r}, expected a regular expression ({error})"
            ) from None
    return pattern


def _with_text_keys(document: Any) -> Any:
    """Let a key such as ``4090`` stand without quotes."""
    if isinstance(document, dict):
        return {str(key) if type(key) is int else key: value for key, value in document.items()}
    return document


def _check_target(name: str) -> str:
    target_column(name)
    return name


def _check_targets(named: dict[str, str]) -> dict[str, str]:
    for name in named:
        target_column(name)
    return named


Target = Annotated[str, AfterValidator(_check_target)]
Reasons = Annotated[dict[str, str], AfterValidator(_check_targets)]
Values = Annotated[dict[str, Stated], BeforeValidator(parse_values)]
Templates = Annotated[dict[str, Stated], BeforeValidator(partial(parse_values, may_refer=True))]
Regex = Annotated[str, BeforeValidator(_parse_regex)]


class Spec(BaseModel):
    """A part of a mapping: no key but the named ones."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)

    @model_validator(mode="before")
    @classmethod
    def _name_unknown_keys(cls, document: Any) -> Any:
        for key in document if isinstance(document, dict) else ():
            if key not in cls.model_fields:
                known = ", ".join(cls.model_fields)
                hint = did_you_mean(str(key), cls.model_fields)
                raise ValueError(f"unknown key {key!r}{hint}; expected one of {known}")
        return document


class FigureSpec(Spec):
    """The figure that a cell or a part of it holds.

    ``unit`` stands in the column's header; ``default_unit`` is that of a cell without one, for
    ``default_reason``; ``read_as`` is the reading of a label or a clock, for ``reason``;
    ``because`` says why the figure is of this metric.
    """

    metric: str
    statistic: str = "value"
    scope: str = "total"
    kind: str | None = None
    unit: str | None = None
    default_unit: str | None = None
    default_reason: str | None = None
    read_as: str | None = None
    reason: str | None = None
    because: str | None = None

    @field_validator("metric", "statistic", "scope", "kind")
    @classmethod
    def _check_word(cls, word: str | None, info: Any) -> str | None:
        name = "memory_kind" if info.field_name == "kind" else info.field_name
        known = vocabulary(name)
        if word is not None and word not in known:
            raise ValueError(
                f"unknown {info.field_name} {word!r}{did_you_mean(word, known)}; "
                f"expected one of {', '.join(known)}"
            )
        return word

    @model_validator(mode="after")
    def _check_reasons(self) -> "FigureSpec":
        if self.default_unit and not self.default_reason:
            raise ValueError("found default_unit without default_reason, expected both")
        if self.read_as and not self.reason:
            raise ValueError("found read_as without reason, expected both")
        if self.unit and self.default_unit:
            raise ValueError("found unit and default_unit, expected one of them")
        return self

    @property
    def memory_kind(self) -> str | None:
        """The kind of memory, unknown where the mapping does not say; None for other metrics."""
        return self.kind or ("unknown" if self.metric in MEMORY_METRICS else None)

    @property
    def canonical_unit(self) -> str:
        """The unit in which the metric's values are stored."""
        return load_metrics()[self.metric].unit


class PatternSpec(Spec):
    r"""A form of a cell and what it says; ``\1`` is the text of the first group."""

    pattern: Regex
    set: Templates

    @model_validator(mode="after")
    def _check_references(self) -> "PatternSpec":
        n_groups = re.compile(self.pattern).groups
        for name, stated in self.set.items():
            for reference in re.findall(r"\\([0-9])", str(stated.value)):
                if int(reference) > n_groups:
                    raise ValueError(
                        f"{name}: found \\{reference}, expected a group of the pattern, which has "
                        f"{n_groups}"
                    )
        return self


class ColumnSpec(Spec):
    """What a column means: a column of the contract, figures, or nothing (and why).

    ``values`` and ``patterns`` say what a text means, ``words`` what stands in the place of a
    figure, ``absent`` what says nothing. ``parts`` are the figures of one cell between
    ``separator``s. Where a row is about several cards, ``cards`` is the pattern of one card's
    figure in a cell without separators, ``cards_separator`` stands between the cards' figures.
    """

    to: Target | None = None
    values: Annotated[dict[str, Any], BeforeValidator(_with_text_keys)] = {}
    patterns: list[PatternSpec] = []
    figure: FigureSpec | None = None
    parts: list[FigureSpec] = []
    separator: str = "/"
    cards: Regex | None = None
    cards_separator: str | None = None
    words: Annotated[dict[str, Values], BeforeValidator(_with_text_keys)] = {}
    absent: list[str] = []
    ignore: str | None = None

    @model_validator(mode="after")
    def _check_meaning(self) -> "ColumnSpec":
        meanings = {
            "to, values or patterns": bool(self.to or self.values or self.patterns),
            "figure": self.figure is not None,
            "parts": bool(self.parts),
            "ignore": bool(self.ignore),
        }
        found = [name for name, is_given in meanings.items() if is_given]
        if len(found) != 1:
            raise ValueError(
                f"found {' and '.join(found) or 'no meaning'}, "
                f"expected one of: {'; '.join(meanings)}"
            )
        for text in self.values:
            self.value_of(text)
        return self

    @property
    def figures(self) -> list[FigureSpec]:
        """The figures of a cell, in order; empty for a column that holds none."""
        return self.parts or ([self.figure] if self.figure else [])

    def value_of(self, text: str) -> dict[str, Stated]:
        """Return what one of ``values`` says; raise ValueError where it is not valid."""
        try:
            return self._parse_value(self.values[text])
        except ValueError as error:
            raise ValueError(f"values[{text!r}]: {error}") from None

    def _parse_value(self, value: Any) -> dict[str, Stated]:
        if isinstance(value, dict) and value.keys() != {"value", "because"}:
            return parse_values(value)
        if self.to is None:
            raise ValueError(f"found {value!r}, expected columns and their values, or `to`")
        return {self.to: parse_stated(self.to, value)}


class Match(Spec):
    """Which tables of a document are meant: all that is given must hold.

    ``table`` counts from 1 in order of appearance (in a folder of CSV files: in order of names);
    ``file`` is a pattern of names such as ``01-*.csv`` and counts in folders only; ``heading`` a
    regular expression found in the headings above; ``columns`` are names the table must have.
    """

    table: int | list[int] | None = None
    file: str | None = None
    heading: Regex | None = None
    columns: list[str] = []


class Pivot(Spec):
    """Columns of which each makes an observation of its own.

    ``columns`` is a regular expression for their names, whose first group is the label that goes
    to the contract's column ``to``.
    """

    columns: Regex
    to: Target
    cell: ColumnSpec


class RuleSpec(Spec):
    """Values that hold for the rows of which cells or values are as ``when`` says.

    A key of ``when`` is a column of the table (its cell's text) or else one of the contract (its
    value so far; null matches what is not stated); a list matches any of its items. ``because``
    gives reasons for values that the row has already.
    """

    when: dict[str, Any]
    set: Values = {}
    because: Reasons = {}


class GluedRuns(Spec):
    """Rows in which several runs are glued: the columns and the pattern of one figure in each."""

    when: dict[str, Any]
    runs: int = Field(ge=2)
    columns: dict[str, Regex]


class TableSpec(Spec):
    """How some tables of a document are read."""

    match: Match
    title: str | None = None
    header_rows: int | None = Field(default=None, ge=1)
    defaults: Values = {}
    columns: dict[str, ColumnSpec] = {}
    pivot: Pivot | None = None
    rules: list[RuleSpec] = []
    glued_runs: list[GluedRuns] = []


class Claim(Spec):
    """An observation that only the prose reports, and where."""

    locator: str
    set: Values


class Related(Spec):
    """Totals of the data that figures are held against."""

    n_tokens: int | None = Field(default=None, ge=1)


class SourceMapping(Spec):
    """How a document's tables become observations."""

    source: Source
    defaults: Values = {}
    absent: list[str] = []
    columns: dict[str, ColumnSpec] = {}
    rules: list[RuleSpec] = []
    tables: list[TableSpec] = Field(min_length=1)
    claims: list[Claim] = []
    unite: Reasons = {}
    related: Related = Field(default_factory=Related)

    _origin: str = PrivateAttr(default="the mapping")

    @property
    def origin(self) -> str:
        """Where the mapping was read, for messages."""
        return self._origin

    def read_from(self, origin: str) -> "SourceMapping":
        """Say where the mapping was read."""
        self._origin = origin
        return self
