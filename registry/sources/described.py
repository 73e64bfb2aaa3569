"""Models and cards that more than one place describes; each belongs in one."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from registry.reading import read_bytes
from registry.reading.yaml_reader import LARGEST_YAML, parse_yaml
from registry.tables.curated import MAPPING_NAME, stated_row

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from registry.catalogue import Catalogue

Row = dict[str, Any]

_CATALOGUE = "the catalogue"


def find_described_twice(
    records: Path, catalogue: Catalogue, source_id: str | None = None
) -> Iterator[str]:
    """Yield a line for each model and card that two mappings, or one and the catalogue, describe.

    ``source_id`` asks for what one source describes alone.

    Raises:
        ReadingError: a mapping cannot be read.
    """
    for (table, key), rows in sorted(_collect_described(records, catalogue).items()):
        if len(rows) > 1 and (source_id is None or source_id in rows):
            yield (
                f"{key}: described by {' and '.join(rows)}{_format_difference(rows)}; describe it "
                f"once, in one mapping or in records/catalogue/{table}.yaml, and leave it out of "
                "the others, which may name it all the same"
            )


def _collect_described(
    records: Path, catalogue: Catalogue
) -> dict[tuple[str, str], dict[str, Row]]:
    """Return the descriptions by table and id, each with who gives it."""
    found: dict[tuple[str, str], dict[str, Row]] = defaultdict(dict)
    for path in sorted((records / "sources").glob(f"*/{MAPPING_NAME}")):
        data = read_bytes(path, limit=LARGEST_YAML, what="a mapping")
        mapping = parse_yaml(data, origin=str(path), text_keys=True)
        for table, key in (("models", "model_id"), ("gpus", "gpu_id")):
            for row in mapping.get(table) or ():
                found[table, row[key]][path.parent.name] = stated_row(row)
    for table, known in (("models", catalogue.models), ("gpus", catalogue.gpus)):
        for key in {key for named, key in found if named == table} & known.keys():
            found[table, key][_CATALOGUE] = stated_row(known[key])
    return found


def _format_difference(rows: Mapping[str, Row]) -> str:
    """Return in which columns descriptions contradict each other."""
    names = sorted({name for row in rows.values() for name in row})
    differ = [
        name for name in names if len({repr(row[name]) for row in rows.values() if name in row}) > 1
    ]
    return f", which differ in {', '.join(differ)}" if differ else ""
