"""The part of a mapping that says what a column means: values, figures, or nothing."""

# Annotations are evaluated here and not kept as text: pydantic builds the classes from them.
import re
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from registry.contract import load_metrics, vocabulary
from registry.errors import did_you_mean
from registry.reading.patterns import compile_pattern
from registry.submission.facts import MEMORY_METRICS
from registry.tables.spec import Names, Regex, Regexes, Spec, Target, Templates, Values
from registry.tables.values import Stated, parse_stated, parse_values, target_columns
from registry.units.duration import CLOCK_READINGS

#: Metrics of which a figure of several cards means nothing without its scope.
SHARED_METRICS = frozenset(
    {"peak_memory", "memory", "samples_per_second", "tokens_per_second", "flops_per_second"}
)

#: Named parts of a figure's form that are no columns of the contract.
FORM_PARTS = ("value", "unit", "gpu", "remark", "footnote")


class FigureSpec(Spec):
    """The figure that a cell, or a part of it, holds."""

    metric: str = Field(description="What the figure measures: a metric of the contract.")
    statistic: str = Field(default="value", description="How samples were summarized.")
    scope: str | None = Field(
        default=None,
        description=(
            "The devices it covers. Required for memory, rates and FLOP/s where a row has more "
            "than one card: `total` (all together), `max_gpu` (the fullest), `mean_gpu`, or "
            "`per_gpu` with `device_index`, `cards`, `cards_separator` or `card_list`."
        ),
    )
    device_index: int | None = Field(
        default=None, ge=0, description="The card a figure of scope `per_gpu` is about, from 0."
    )
    kind: str | None = Field(
        default=None, description="The kind of memory; `unknown` where it is left out."
    )
    unit: str | None = Field(
        default=None, description="The unit that the column's header gives to bare numbers."
    )
    default_unit: str | None = Field(
        default=None,
        description="The unit of a bare number, if something other than the header gives it.",
    )
    default_reason: str | None = Field(default=None, description="How `default_unit` is known.")
    read_as: str | None = Field(
        default=None,
        description=(
            "The reading of a label that is ambiguous (`MiB` for `MB`), or what the fields "
            f"of a clock are: {', '.join(f'`{reading}`' for reading in CLOCK_READINGS)}."
        ),
    )
    reason: str | None = Field(default=None, description="Why it is read this way.")
    decimal: Literal[",", "."] | None = Field(
        default=None,
        description=(
            "The decimal mark: `,` for `22,5` and `1.024,5`. The default, `.`, must be stated for "
            "`22,500` if figures of other columns are written `22,5`."
        ),
    )
    because: str | None = Field(
        default=None, description="Why the figure is of this metric; kept with the figure."
    )
    form: Regexes = Field(
        default=[],
        description=(
            "Regular expressions for the whole text, with named parts: `value` (required), `unit`, "
            "`gpu`, `remark`, `footnote`, or any column of the contract, such as `n_gpus`. The "
            "first that matches is used. `value` must hold the whole figure: one end of a range, "
            "or a figure without its `~`, is refused."
        ),
    )
    divide_by: int | float | str | None = Field(
        default=None,
        description=(
            "What the figure is divided by: a number (time per 1,000 steps), or a column of the "
            "contract whose value the row states."
        ),
    )
    multiply_by: int | float | str | None = Field(
        default=None,
        description=(
            "What the figure is multiplied by: a number, or a column such as `grad_accum_steps` "
            "where a source counts micro-steps."
        ),
    )
    despite_header: str | None = Field(
        default=None,
        description="Why the header is not believed where it contradicts the mapping.",
    )

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

    @field_validator("divide_by", "multiply_by")
    @classmethod
    def _check_factor(cls, factor: float | str | None) -> float | str | None:
        if isinstance(factor, str) and factor not in target_columns():
            hint = did_you_mean(factor, target_columns())
            raise ValueError(f"unknown column {factor!r}{hint}; expected a number or a column")
        if isinstance(factor, int | float) and not 0 < factor < 1e15:  # noqa: PLR2004 - what a float holds exactly
            raise ValueError(f"found {factor}; expected a number above zero")
        return factor

    @field_validator("form")
    @classmethod
    def _check_form(cls, forms: list[str]) -> list[str]:
        for form in forms:
            names = set(compile_pattern(form).groupindex)
            unknown = sorted(names - set(FORM_PARTS) - set(target_columns()))
            if "value" not in names or unknown:
                found = f"the parts {', '.join(unknown)}" if unknown else "no part `value`"
                raise ValueError(
                    f"found {found} in {form!r}; expected the named part (?P<value>…), and beside "
                    f"it {', '.join(FORM_PARTS[1:])} or columns of the contract"
                )
        return forms

    @model_validator(mode="after")
    def _check_reasons(self) -> "FigureSpec":
        if self.default_unit and not self.default_reason:
            raise ValueError("found default_unit without default_reason, expected both")
        if self.read_as and not self.reason:
            raise ValueError("found read_as without reason, expected both")
        if self.unit and self.default_unit:
            raise ValueError("found unit and default_unit, expected one of them")
        if (self.divide_by or self.multiply_by) and not self.because:
            raise ValueError(
                "found divide_by or multiply_by without because, expected the reason beside it"
            )
        if self.device_index is not None and self.scope != "per_gpu":
            raise ValueError(f"found device_index with scope {self.scope}, expected scope per_gpu")
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
    r"""A form of a text and what it says; ``\1`` is the text of the first group."""

    pattern: Regex = Field(description="A regular expression for the whole text.")
    set: Templates = Field(
        description=r"Columns and the values that they get; `\1` is the text of the first group."
    )

    @model_validator(mode="after")
    def _check_references(self) -> "PatternSpec":
        n_groups = compile_pattern(self.pattern).groups
        for name, stated in self.set.items():
            for reference in re.findall(r"\\([0-9])", str(stated.value)):
                if int(reference) > n_groups:
                    raise ValueError(
                        f"{name}: found \\{reference}, expected a group of the pattern, which has "
                        f"{n_groups}"
                    )
        return self


class FiguresBy(Spec):
    """Figures whose metric is named by another column of the row."""

    column: str = Field(description="The column whose text says what is measured.")
    figures: dict[str, FigureSpec] = Field(
        description="The figure that each of its texts stands for."
    )


class LabelSpec(Spec):
    """What a text means as values of the contract's columns."""

    to: Target | None = Field(
        default=None, description="The contract's column to which the text goes."
    )
    values: dict[str, Any] = Field(
        default={},
        description=(
            "What a text means: values of several columns, or of the one under `to`. A value with "
            "a reason is written `{value: …, because: …}`."
        ),
    )
    patterns: list[PatternSpec] = Field(
        default=[], description="What texts that match a pattern mean; tried in order."
    )
    k_is: Literal[1000, 1024] | None = Field(
        default=None, description="What K stands for in lengths such as `8K`: 1000 or 1024."
    )

    @property
    def says_values(self) -> bool:
        """Whether it gives texts a meaning at all."""
        return bool(self.to or self.values or self.patterns)

    @property
    def can_state_outcome(self) -> bool:
        """Whether one of its texts says how a run ended."""
        said = [*self.values.values(), *(pattern.set for pattern in self.patterns)]
        return self.to == "outcome" or any(
            "outcome" in one for one in said if isinstance(one, dict)
        )

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

    def _check_values(self) -> None:
        for text in self.values:
            self.value_of(text)


class ColumnSpec(LabelSpec):
    """What a column means: columns of the contract, figures, or nothing (and why)."""

    figure: FigureSpec | None = Field(default=None, description="The one figure of a cell.")
    parts: list[FigureSpec] = Field(
        default=[], description="The figures of a cell that holds several, in order."
    )
    figures_by: FiguresBy | None = Field(
        default=None, description="The figure of a cell where another column names the metric."
    )
    separator: str = Field(default="/", description="The text between `parts`.")
    cards: Regex | None = Field(
        default=None,
        description="The form of one card's figure, where those of several are glued together.",
    )
    cards_separator: str | None = Field(
        default=None, description="The text between the figures of the cards."
    )
    card_list: bool = Field(
        default=False,
        description="Cells such as `8 * 74G`, `61.3+73.0` or `9G | 6G` list the cards' figures.",
    )
    remarks: list[PatternSpec] = Field(
        default=[],
        description="What remarks in parentheses after a figure mean; `set: {}` for nothing.",
    )
    words: dict[str, Values] = Field(
        default={}, description="What words in place of a figure mean."
    )
    absent: Names = Field(default=[], description="Texts that mean no value.")
    ignore: str | None = Field(
        default=None, description="Why the column is not read; a text for readers of the mapping."
    )

    @model_validator(mode="after")
    def _check_meaning(self) -> "ColumnSpec":
        meanings = {
            "to, values or patterns": self.says_values,
            "figure": self.figure is not None,
            "parts": bool(self.parts),
            "figures_by": self.figures_by is not None,
            "ignore": bool(self.ignore),
        }
        found = [name for name, is_given in meanings.items() if is_given]
        if len(found) != 1:
            raise ValueError(
                f"found {' and '.join(found) or 'no meaning'}, "
                f"expected one of: {'; '.join(meanings)}"
            )
        self._check_values()
        self._check_cards()
        return self

    def _check_cards(self) -> None:
        lists = [bool(self.cards), self.cards_separator is not None, self.card_list]
        if sum(lists) > 1:
            raise ValueError("found several of cards, cards_separator, card_list; expected one")
        for figure in self.figures:
            if figure.scope == "per_gpu" and figure.device_index is None and not any(lists):
                raise ValueError(
                    "found scope per_gpu for a single figure; expected max_gpu (the fullest card), "
                    "mean_gpu (each of them, or their mean) or total; or device_index, cards, "
                    "cards_separator or card_list, which say whose figure it is"
                )

    @property
    def figures(self) -> list[FigureSpec]:
        """All figures that a cell can hold; empty for a column that holds none."""
        by = list(self.figures_by.figures.values()) if self.figures_by else []
        return [*self.parts, *([self.figure] if self.figure else []), *by]
