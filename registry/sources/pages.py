"""The pages that are generated with the curated tables: ``REVIEW.md`` and ``docs/sources.md``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry.api import Registry
from registry.sources.review import REVIEW_NAME, read_statement, review_records
from registry.sources.review_page import format_review, list_open
from registry.store.check import Problem
from registry.store.folder import Folder, Location

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

_INTRODUCTION = """\
# Sources

`registry build` writes this page; `registry sources` prints the same for any registry. Only the
four most frequent cards, methods and metrics are named. Each source keeps its own licence; if none
is named, its document states none, and only figures are recorded. {totals}

| source | n | OOM | with peak | cards | methods | metrics | licence |
| --- | --: | --: | --: | --- | --- | --- | --- |
"""


def format_pages(records: Path) -> dict[Path, str]:
    """Return the text of each page by its path, from the records as they are now.

    ``docs/sources.md`` is among them where there is a ``docs`` beside the records. Raises
    SourceError where a decision cannot be read.
    """
    registry = Registry(Location(Folder(records)))
    pages = {records / "REVIEW.md": format_review(review_records(registry, records))}
    docs = records.resolve().parent / "docs"
    if docs.is_dir():
        pages[docs / "sources.md"] = _format_sources(
            registry.query(read_statement("overview")).rows()
        )
    return pages


def check_review(records: Path) -> Iterator[Problem]:
    """Yield what the review found and nobody has settled."""
    registry = Registry(Location(Folder(records)))
    for source_id, line in list_open(review_records(registry, records)):
        path = records / "sources" / source_id / REVIEW_NAME
        yield Problem(
            "review",
            source_id,
            f"{line}; expected figures that agree, or a decision; fix or flag them in the "
            f"mapping, or settle them in {path}",
        )


def check_pages(records: Path) -> list[str]:
    """Return the names of the pages that are missing or not what the records give."""
    return [path.name for path, text in format_pages(records).items() if _read(path) != text]


def write_pages(records: Path) -> list[str]:
    """Write what is missing or out of date; return the names."""
    stale = {path: text for path, text in format_pages(records).items() if _read(path) != text}
    for path, text in stale.items():
        path.write_text(text, encoding="utf-8")
    return [path.name for path in stale]


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def _format_sources(rows: Sequence[dict[str, Any]]) -> str:
    totals = f"{sum(row['n'] for row in rows)} observations of {len(rows)} sources."
    return _INTRODUCTION.format(totals=totals) + "".join(_format_lines(rows))


def _format_lines(rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        name = f"[{row['source_id']}]({row['url']})" if row["url"] else row["source_id"]
        cells = (name, *(row[key] for key in ("n", "n_oom", "n_peak", "cards", "methods")))
        cells = (*cells, row["metrics"], row["licence"])
        yield f"| {' | '.join('' if cell is None else str(cell) for cell in cells)} |\n"
