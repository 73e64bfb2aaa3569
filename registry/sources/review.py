"""What the records' figures contradict, and how that was settled: findings and decisions.

Findings are computed by the views ``conflicts`` and ``implausible``; a decision about those of a
source is text beside its mapping (``review.yaml``). A decision names how many findings it is about:
where there are more or fewer, it is open again.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Literal

import pydantic

from registry.errors import SourceError
from registry.reading.bounded_file import read_bytes
from registry.reading.yaml_reader import LARGEST_YAML, parse_yaml
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from registry.api import Registry

    Row = dict[str, Any]

REVIEW_NAME = "review.yaml"

#: How the kind of a finding about two sources begins; the second one's name follows.
REPEATED = "equal figures in"

#: Flags by which the reader of a source has settled what a figure contradicts.
SETTLING = ("suspect", "figures_disagree", "peak_over_capacity", "peak_at_capacity")


class Decision(pydantic.BaseModel, extra="forbid", frozen=True):
    """How findings of one kind were settled, and why."""

    kind: str
    metric: str | None = None
    #: How many findings are kept; none where the mapping was mended or observations were flagged.
    n: int = pydantic.Field(default=0, ge=0)
    settled: Literal["kept", "mended", "flagged"]
    because: str

    @pydantic.model_validator(mode="after")
    def _validate_number(self) -> Decision:
        if (self.settled == "kept") != (self.n > 0):
            raise ValueError("n counts what is kept: give it with kept, and only there")
        return self


@dataclass(frozen=True, slots=True)
class Finding:
    """Figures of a source that contradict something, of one kind and metric."""

    source_id: str
    kind: str
    metric: str | None
    n: int
    n_observations: int
    #: Ids of an observation and, where there is one, of that which it contradicts.
    examples: tuple[str, ...]
    #: The smallest and the largest quotient of a figure and what it is held against.
    shares: tuple[float, float] | None = None

    @property
    def key(self) -> tuple[str, str, str | None]:
        """What a decision names, with its source."""
        return self.source_id, self.kind, self.metric


@dataclass(frozen=True, slots=True)
class Review:
    """All findings, the decisions about them, and the flags."""

    findings: tuple[Finding, ...]
    #: By source, in the order of their files.
    decisions: dict[str, tuple[Decision, ...]]
    #: Rows of flagged.sql.
    flagged: tuple[Row, ...] = ()

    def decision(self, finding: Finding) -> Decision | None:
        """Return what settles a finding, or None where it is open."""
        for decision in self.decisions.get(finding.source_id, ()):
            stated = (decision.kind, decision.metric, decision.n)
            if stated == (finding.kind, finding.metric, finding.n):
                return decision
        return None

    def open_findings(self) -> list[Finding]:
        """Return the findings that no decision is about."""
        return [finding for finding in self.findings if self.decision(finding) is None]

    def stale_decisions(self) -> list[tuple[str, Decision]]:
        """Return decisions about what is not found, or not so often, with their sources."""
        settled = {id(self.decision(finding)) for finding in self.findings}
        return [
            (source_id, decision)
            for source_id, decisions in self.decisions.items()
            for decision in decisions
            if decision.settled == "kept" and id(decision) not in settled
        ]


def review_records(registry: Registry, records: Path) -> Review:
    """Return what is found in all of a checkout's records, pending sources included.

    Raises SourceError where a ``review.yaml`` cannot be read.
    """
    flagged = registry.query(read_statement("flagged")).rows()
    return Review(
        (*find_contradictions(registry), *_find_repeated(registry)),
        read_decisions(records),
        tuple(flagged),
    )


def find_contradictions(
    registry: Registry,
    source_id: str | None = None,
    *,
    observation_ids: Iterable[str] | None = None,
) -> list[Finding]:
    """Return what contradicts itself, its neighbours or physics.

    Of one source or of all, and of some observations where these are named.
    """
    ids = None if observation_ids is None else ",".join(observation_ids)
    named = {"source_id": source_id, "settling": list(SETTLING), "ids": ids}
    return [_finding(row) for row in registry.query(read_statement("review"), named).rows()]


def read_statement(name: str) -> str:
    """Return one of the statements beside this module."""
    return (files("registry.sources") / f"{name}.sql").read_text(encoding="utf-8")


def _finding(row: Row) -> Finding:
    examples = tuple(filter(None, (row["example"], row["other"])))
    shares = None if row["least"] is None else (row["least"], row["most"])
    return Finding(
        row["source_id"],
        row["kind"],
        row["metric"],
        row["n"],
        row["n_observations"],
        examples,
        shares,
    )


def _find_repeated(registry: Registry) -> Iterator[Finding]:
    for row in registry.query(read_statement("repeated"), {"source_id": None}).rows():
        kind = f"{REPEATED} {row['source_id']}"
        examples = (row["mine"], row["other"])
        yield Finding(row["of_source_id"], kind, None, row["n"], row["n"], examples)


def read_decisions(records: Path, source_id: str = "*") -> dict[str, tuple[Decision, ...]]:
    """Return the decisions of all sources that have some, or of one. Raises SourceError."""
    paths = sorted((records / "sources").glob(f"{source_id}/{REVIEW_NAME}"))
    return {path.parent.name: tuple(_read_file(path)) for path in paths}


def _read_file(path: Path) -> Sequence[Decision]:
    data = read_bytes(path, limit=LARGEST_YAML, what="decisions about a source")
    listed = parse_yaml(data, origin=str(path))
    try:
        return pydantic.TypeAdapter(list[Decision]).validate_python(listed)
    except pydantic.ValidationError as error:
        first = error.errors()[0]
        place = "".join(
            f"[{part}]" if isinstance(part, int) else f".{part}" for part in first["loc"]
        )
        raise SourceError(
            f"{path}{place}: {first['msg'].lower()}; expected a list of decisions with kind, "
            "metric, n, settled (kept, mended or flagged) and because"
        ) from None


def format_finding(finding: Finding) -> str:
    """Return a finding as one line of text."""
    named = f"{finding.kind} ({finding.metric})" if finding.metric else finding.kind
    found = f"{named}: {_count(finding)}"
    shares = finding.shares
    if shares:
        found += f", {_format_shares(*shares)} times the figure it is compared with"
    return f"{found}; first {' and '.join(one[:12] for one in finding.examples)}"


def _count(finding: Finding) -> str:
    found = format_count(finding.n_observations, "observation")
    if finding.n == finding.n_observations:
        return found
    return f"{found}, in {format_count(finding.n, 'pair')}"


def _format_shares(least: float, most: float) -> str:
    low, high = f"{least:.3g}", f"{most:.3g}"
    return low if low == high else f"{low} to {high}"
