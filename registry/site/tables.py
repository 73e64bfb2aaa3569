"""What the pages read: one Parquet file of all observations, sources, and observations in full."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from importlib.resources import files
from itertools import count
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from registry.charts.rows import order_releases, read_history
from registry.store.observation_documents import as_document, read_statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from registry.api import Registry

#: So many digits of an id are its name in the page, or more where they would not tell two apart.
_ID_DIGITS: Final = 12
#: Digits of an id that name the file in which the page finds the observation.
SHARD_DIGITS: Final = 1
#: Ids that repeat what the document's place says, or that nothing in the page refers to.
_LEFT_OUT: Final = ("observation_id", "configuration_id", "environment_id", "figures_hash")
_LEVEL: Final = 9


def read_site_sql(name: str) -> str:
    """Return one of the site's statements."""
    return (files("registry.site") / "sql" / f"{name}.sql").read_text(encoding="utf-8")


def read_rows(db: Registry) -> pa.Table:
    """Return what the pages filter, draw and list: one row per observation."""
    digits = _count_digits(db)
    rows = db.query(read_site_sql("rows"), digits=digits).arrow()
    followed = {run["observation_id"][:digits]: run for run in _follow_releases(db)}
    ids = rows["observation_id"].to_pylist()
    for name, type_ in _OF_SERIES.items():
        values = [followed[one][name] if one in followed else None for one in ids]
        rows = rows.append_column(name, pa.array(values, type_))
    tuned = db.query("select left(observation_id, $digits) as id from finetuning", digits=digits)
    pooled = {row["id"] for row in tuned.rows()}
    return rows.append_column("is_finetuning", pa.array([one in pooled for one in ids]))


#: What a run has that is one of several releases of a configuration.
_OF_SERIES: Final = {
    "series": pa.string(),
    "configuration": pa.string(),
    "release": pa.string(),
    "release_order": pa.int32(),
}


def _follow_releases(db: Registry) -> Iterator[dict[str, Any]]:
    """Yield the runs of each configuration that is known of several releases, in their order."""
    sql = f"{read_history()} where series in (select series from followed) order by all"  # noqa: S608 - our own
    series: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for run in db.query(sql).rows():
        observed = run["observed_at"] and run["observed_at"].isoformat()
        series[_shorten(run["series"])].append({**run, "observed_at": observed})
    for name, runs in series.items():
        for run in order_releases(runs):
            yield {**run, "series": name}


def _shorten(series: str) -> str:
    """Return the name of a series with as many digits of the configuration as tell it apart."""
    configuration, _, framework = series.partition("|")
    return "-".join(filter(None, (configuration[:_ID_DIGITS], framework)))


def _count_digits(db: Registry) -> int:
    """Return how many digits tell the ids of all observations apart."""
    ids = db.query("select observation_id as id from results").arrow()["id"].to_pylist()
    return next(n for n in count(_ID_DIGITS) if len({one[:n] for one in ids}) == len({*ids}))


def rank_methods(rows: pa.Table) -> list[str]:
    """Return the labels of methods, the most frequent first."""
    counts = Counter(rows["method_label"].to_pylist())
    return [label for label, _ in counts.most_common() if label]


def format_parquet(table: pa.Table) -> bytes:
    """Return a table as a Parquet file in the smallest form that the page's reader knows."""
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=19,
        row_group_size=len(table) or 1,
        write_statistics=False,
        store_schema=False,
    )
    return bytes(sink.getvalue())


def read_sources(db: Registry) -> list[dict[str, Any]]:
    """Return the sources that have an observation, with what they measured."""
    sql = (files("registry.sources") / "overview.sql").read_text(encoding="utf-8")
    described = {row["source_id"]: row for row in db.query("from sources").rows()}
    return [
        {name: value for name, value in (described[row["source_id"]] | row).items() if value}
        for row in db.query(sql).rows()
    ]


def collect_shards(db: Registry) -> Iterator[tuple[str, bytes]]:
    """Yield the observations in full, as compressed JSON, in files by the first digit of their id.

    Each is an object from id to document; sources are left out, since the page has them.
    """
    rows = db.query(read_statement(), id="", most=2**31).rows()
    shards: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in sorted(rows, key=lambda row: row["observation"]["source_id"] or ""):
        identity = row["observation"]["observation_id"]
        shards[identity[:SHARD_DIGITS]][identity] = _format_document(row)
    for name, documents in sorted(shards.items()):
        yield name, compress(format_json(documents))


def _format_document(row: dict[str, Any]) -> dict[str, Any]:
    parts = {name: as_document(part) for name, part in row.items() if part and name != "source"}
    return {name: _without_ids(part) for name, part in parts.items()}


def _without_ids(part: Any) -> Any:
    if isinstance(part, list):
        return [_without_ids(one) for one in part]
    if not isinstance(part, dict):
        return part
    return {name: value for name, value in part.items() if name not in _LEFT_OUT}


def format_json(document: Any) -> bytes:
    """Return compact JSON."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"), default=str)
    return text.encode()


def compress(content: bytes) -> bytes:
    """Return bytes compressed with Zstandard."""
    return bytes(pa.Codec("zstd", compression_level=_LEVEL).compress(content))


def read_cards(rows: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the cards of the catalogue whose memory is known, the smallest first."""
    cards = (
        {"id": row["gpu_id"], "memory": row["memory_bytes"], "verified": row.get("verified")}
        for row in rows
        if row.get("memory_bytes")
    )
    return sorted(cards, key=lambda card: (card["memory"], card["id"]))
