"""The documents of the campaign, and what a registry must answer about them."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import duckdb

from registry.api import Registry
from registry.query.database import all_names, create_objects
from registry.store.read import read_dataset

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from registry.store.folder import Location

#: Observations of each document, which belong together.
OBSERVATIONS = 2

_SQL = """
select
    observations.run_id,
    measurements.value as stored,
    results.seconds_per_step as shown,
    results.seq_len,
    results.n_citations
from observations
left join results using (observation_id)
left join measurements using (observation_id)
where observations.source_id = 'campaign'
"""

#: A registry's answer: of each row the run, and all that is known of it.
Answer = list[tuple[Any, ...]]


def build_document(number: int) -> dict[str, Any]:
    """Return a submission whose every value follows from its number."""
    observations = [
        {
            "outcome": "ok",
            "run_id": f"{number}-{part}",
            "configuration": {
                "model_id": "llama-2-7b",
                "method": "lora",
                "gpu_id": "rtx-3090",
                "seq_len": _seq_len(number),
            },
            "measurements": [{"metric": "step_time", "value": 1.0 + number}],
        }
        for part in range(OBSERVATIONS)
    ]
    return {"source": {"source_id": "campaign"}, "observations": observations}


def _seq_len(number: int) -> int:
    return 128 * (number % 5000 + 1)


def _expected(number: int, part: int) -> tuple[Any, ...]:
    return (f"{number}-{part}", 1.0 + number, 1.0 + number, _seq_len(number), 1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """How many documents are not there, there twice, or not there as they were handed in."""

    lost: int = 0
    doubled: int = 0
    half: int = 0

    def __add__(self, other: Verdict) -> Verdict:
        """Return both together."""
        return Verdict(self.lost + other.lost, self.doubled + other.doubled, self.half + other.half)

    @property
    def is_right(self) -> bool:
        """Whether nothing is wrong."""
        return self == Verdict()


def judge(answer: Iterable[tuple[Any, ...]], must: Collection[int]) -> Verdict:
    """Compare an answer with what must be in it; more may be, as long as it is complete."""
    rows = Counter(map(tuple, answer))
    numbers = {*must, *find_numbers(rows)}
    wanted = {n: {_expected(n, part) for part in range(OBSERVATIONS)} for n in numbers}
    known = {row for some in wanted.values() for row in some}
    strange = {_number(row) for row in rows if row not in known}
    found = {n: sum(row in rows for row in some) for n, some in wanted.items()}
    return Verdict(
        lost=sum(found[n] == 0 for n in must),
        doubled=len({_number(row) for row, count in rows.items() if count > 1}),
        half=len(strange | {n for n in numbers if 0 < found[n] < OBSERVATIONS}),
    )


def find_numbers(answer: Iterable[tuple[Any, ...]]) -> set[int]:
    """Return the numbers of the documents that an answer shows."""
    return {_number(row) for row in answer}


def _number(row: tuple[Any, ...]) -> int:
    return int(row[0].partition("-")[0])


def ask_engine(location: Location) -> Answer:
    """Return the answer over all relations, in this process, as an export reads them."""
    dataset, _ = read_dataset(location)
    with duckdb.connect(":memory:") as connection:
        connection.execute("set timezone = 'UTC'")
        create_objects(connection, dataset, all_names(dataset))
        return connection.execute(_SQL).fetchall()


def ask_query(location: Location) -> Answer:
    """Return the answer as a user gets it: from the confined process of a query."""
    return [tuple(row.values()) for row in Registry(location).query(_SQL).rows()]
