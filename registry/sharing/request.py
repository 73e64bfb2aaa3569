"""The title and text of a pull request that brings observations, figures beside the nearest."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from registry.sharing.selection import format_source
from registry.sources.review import find_contradictions, format_finding, read_statement
from registry.store.curated_fold import source_name
from registry.store.derive_tables import Document
from registry.submission.identity import canonical_json, document_id
from registry.text import format_count, format_markdown_table
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from registry.api import Registry
    from registry.sharing.patch import Author
    from registry.sharing.selection import ChosenRecords

Row = dict[str, Any]

_DIGITS = 12
_MEASURED = "measured"


@dataclass(frozen=True)
class Contribution:
    """Observations that go out, as they look beside the curated records."""

    source_ids: tuple[str, ...]
    #: Rows of ``shared.sql``.
    rows: tuple[Row, ...]
    #: Rows of ``nearest.sql`` by the id of the observation that they are held beside.
    nearest: dict[str, Row]
    #: What a reviewer will ask about, one line each.
    doubts: tuple[str, ...]
    #: Licences under which the sources are given.
    licences: tuple[str, ...]

    @property
    def title(self) -> str:
        """The title of the pull request and of its commit."""
        cards = ", ".join(sorted({row["gpu_id"] or "an unnamed card" for row in self.rows}))
        n = format_count(len(self.rows), "observation")
        return f"Add {n} of {', '.join(self.source_ids)} ({cards})"


def describe_contribution(
    registry: Registry, chosen: ChosenRecords, own: Collection[str]
) -> Contribution:
    """Return what is to be told of observations of a registry that go out.

    ``own`` are the ids of all of the user's own: the others are what they are held beside.
    """
    ids = {"ids": ",".join(chosen.observation_ids)}
    rows = tuple(registry.query(_read_sql("shared"), ids).rows())
    nearest = registry.query(_read_sql("nearest"), {**ids, "own": ",".join(own)}).rows()
    return Contribution(
        chosen.source_ids,
        rows,
        {row["of_observation_id"]: row for row in nearest},
        tuple(_collect_doubts(registry, chosen, rows)),
        tuple(sorted({source.get("licence", _LICENCE) for source in chosen.sources})),
    )


def _read_sql(name: str) -> str:
    return (files("registry.sharing") / f"{name}.sql").read_text(encoding="utf-8")


def _collect_doubts(
    registry: Registry, chosen: ChosenRecords, rows: tuple[Row, ...]
) -> Iterator[str]:
    for row in rows:
        for flag in row["flags"] or ():
            yield f"{row['observation_id'][:_DIGITS]}: flag {flag}"
        if row["evidence"] != _MEASURED:
            yield f"{row['observation_id'][:_DIGITS]}: not measured, but {row['evidence']}"
    for source in chosen.sources:
        if source.get("url") or source.get("kind") == "benchmark":
            yield f"{format_source(source)}: did the person who sends this measure it?"
    yield from _find_disturbed(chosen)
    for finding in find_contradictions(registry, observation_ids=chosen.observation_ids):
        yield format_finding(finding)
    for source_id in chosen.source_ids:
        repeated = registry.query(read_statement("repeated"), source_id=source_id)
        for row in repeated.rows():
            yield (
                f"{row['source_id']} has {row['n']} observations with the same setting and an "
                f"equal figure; first {row['mine'][:_DIGITS]} and {row['other'][:_DIGITS]}"
            )


def _find_disturbed(chosen: ChosenRecords) -> Iterator[str]:
    """Yield a line where other jobs had the processors while something was measured."""
    busy = []
    for document in chosen.documents:
        for observation in document.plain["observations"]:
            load = observation.get("provenance", {}).get("load_average")
            n_cpus = observation.get("environment", {}).get("n_cpus")
            if load and n_cpus and load > n_cpus:
                busy.append((load, n_cpus))
    if busy:
        load, n_cpus = max(busy)
        yield (
            f"{len(busy)} were measured on a busy machine (load average up to {load:g} on {n_cpus} "
            "processors), which makes times longer"
        )


def format_rows(contribution: Contribution) -> Iterator[tuple[str, ...]]:
    """Yield the cells of a table: a heading, then one row an observation."""
    yield (
        "observation", "model", "card", "method", "length", "batch", "outcome",
        "peak", "s/step", "nearest curated",
    )  # fmt: skip
    for row in contribution.rows:
        yield (
            row["observation_id"][:_DIGITS],
            row["model_id"] or "-",
            _card(row),
            _method(row),
            str(row["seq_len"] or "-"),
            str(row["micro_batch_size"] or "-"),
            row["outcome"],
            _memory(row["peak_memory_bytes"]),
            _seconds(row),
            format_nearest(row, contribution.nearest.get(row["observation_id"])),
        )


def _card(row: Row) -> str:
    several = f"{row['n_gpus']} x " if (row["n_gpus"] or 1) > 1 else ""
    return f"{several}{row['gpu_id'] or '-'}"


def _method(row: Row) -> str:
    bits = f" {row['quant_bits']:g}-bit" if row["quant_bits"] else ""
    return f"{row['method'] or '-'}{bits}"


def _memory(value: float | None) -> str:
    return "-" if value is None else format_memory(int(value))


#: What may differ from the nearest curated run: how a reader says a value, and that there is none.
_SETTINGS = {
    "model_id": ("{}", "no model stated"),
    "gpu_id": ("{}", "no card stated"),
    "quant_bits": ("bits {}", "no quantization stated"),
    "seq_len": ("length {}", "no length stated"),
    "micro_batch_size": ("batch {}", "no batch size stated"),
    "n_gpus": ("cards {}", "no number of cards stated"),
}


def _format_setting(name: str, value: Any) -> str:
    said, unstated = _SETTINGS[name]
    return unstated if value is None else said.format(value)


def format_nearest(ours: Row, nearest: Row | None) -> str:
    """Return the figures of the nearest curated run, and what differs from ours."""
    if nearest is None:
        return "none"
    apart = [
        _format_setting(name, nearest[name]) for name in _SETTINGS if ours[name] != nearest[name]
    ]
    figures = f"{_memory(nearest['peak_memory_bytes'])}, {_seconds(nearest)} s/step"
    setting = f"with {', '.join(apart)}" if apart else "same setting"
    return f"{nearest['observation_id'][:_DIGITS]}: {figures}, {setting}"


def _seconds(row: Row) -> str:
    seconds = row["seconds_per_step"]
    return "-" if seconds is None else f"{seconds:.4g}"


def format_request(contribution: Contribution) -> Iterator[str]:
    """Yield the lines of the pull request's text, in Markdown."""
    heading, *rows = format_rows(contribution)
    yield format_markdown_table(heading, rows)
    yield ""
    yield "The last column is the nearest curated observation of the method, with what differs."
    yield ""
    yield "What a reviewer may ask about:"
    yield from (f"- {line}" for line in contribution.doubts or ("nothing was found.",))
    yield ""
    is_measured = all(row["evidence"] == _MEASURED for row in contribution.rows)
    given = ", ".join(map(_format_licence, contribution.licences))
    yield (
        f"{'Measured' if is_measured else 'Reported'} by the person who sends this, and licensed "
        f"under {given}."
    )


def _format_licence(name: str) -> str:
    return f"LICENSE-DATA ({name})" if name == _LICENCE else name


# The files of a contribution: documents as text, under the sources of the curated records.

#: The licence of what is contributed, as LICENSE-DATA says.
_LICENCE = "CC-BY-4.0"


def offer_documents(chosen: ChosenRecords, author: Author) -> list[Document]:
    """Return the documents as they go out: who publishes them, and under which licence."""
    return [_published(document.plain, author.name) for document in chosen.documents]


def _published(plain: Any, publisher: str) -> Document:
    source = {"licence": _LICENCE, "publisher": publisher, **plain["source"]}
    text = canonical_json({**plain, "source": source})
    return Document(document_id(text), text, json.loads(text))


def format_files(documents: list[Document]) -> dict[str, bytes]:
    """Return the content of each file by its path in the repository."""
    return {f"records/{source_name(document)}": _format(document.plain) for document in documents}


def _format(plain: Any) -> bytes:
    """Return a document as a reviewer reads it: a line for each value."""
    return f"{json.dumps(plain, indent=1, ensure_ascii=False, sort_keys=True)}\n".encode()
