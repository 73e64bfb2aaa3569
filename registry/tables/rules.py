"""Rules of a mapping: values that hold for some rows, and the rules that match none."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from registry.tables.rows import is_one_of
from registry.tables.values import Stated, lay_over, target_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.reading.yaml_reader import Path
    from registry.tables.mapping import RuleSpec, SourceMapping
    from registry.tables.rows import ReportCells
    from registry.tables.values import Values


@dataclass
class Rules:
    """Applies the rules of a mapping to its rows, and knows which of them matched one."""

    mapping: SourceMapping
    _matched: list[RuleSpec] = field(default_factory=list)

    def apply(self, report: ReportCells, values: Values, *, outcome: str | None) -> None:
        """Put the values that hold for a row into those it states.

        ``outcome`` is how its figures show that it ended, where neither a word nor a rule says.
        """
        for rule in report.rules:
            known = {**values}
            if outcome is not None and known.get("outcome", Stated(None)).value is None:
                known["outcome"] = Stated(outcome)
            if all(_holds(report, known, name, value) for name, value in rule.when.items()):
                if rule not in self._matched:
                    self._matched.append(rule)
                lay_over(values, rule.set)
                _add_reasons(values, rule.because)

    def unmatched(self) -> Iterator[tuple[Path, RuleSpec]]:
        """Yield the rules that matched no row, each with its place in the mapping.

        A rule that several tables share, by an anchor of YAML, need match in one of them only.
        """
        told = [*self._matched]
        for path, rule in self._all():
            if rule not in told:
                told.append(rule)
                yield path, rule

    def _all(self) -> Iterator[tuple[Path, RuleSpec]]:
        for number, rule in enumerate(self.mapping.rules):
            yield ("rules", number), rule
        for place, table in enumerate(self.mapping.tables):
            for number, rule in enumerate(table.rules):
                yield ("tables", place, "rules", number), rule


def _add_reasons(values: Values, because: Mapping[str, str]) -> None:
    for name, reason in because.items():
        if name in values:
            values[name] = replace(values[name], because=reason)


def _holds(report: ReportCells, values: Values, name: str, expected: Any) -> bool:
    if name in report.cells:
        return is_one_of(report.cells[name], expected)
    if name not in target_columns():
        return False
    found = values.get(name, Stated(None)).value
    options = expected if isinstance(expected, list) else [expected]
    return any(found == option and type(found) is type(option) for option in options)
