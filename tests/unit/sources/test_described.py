"""Each model and card is described in one place."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from registry.sources.check import find_described_twice
from registry.tables.curated import load_curated_catalogue

if TYPE_CHECKING:
    from registry.catalogue import Catalogue

ONCE = (
    "describe it once, in one mapping or in records/catalogue/{}.yaml, and leave it out of the "
    "others, which may name it all the same"
)
RECORDS = Path(__file__).parents[3] / "records"


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Return records of three sources, two of which describe one model and one card."""
    for name, described in {
        "a": "models: [{model_id: new-7b, n_params: 7}, {model_id: mine}]\ngpus: [{gpu_id: card}]",
        "b": "models: [{model_id: new-7b, n_params: 8, family: new}]\ngpus: [{gpu_id: card}]",
        "c": "models: [{model_id: qwen-7b, n_params: 7}]",
    }.items():
        folder = tmp_path / "sources" / name
        folder.mkdir(parents=True)
        (folder / "mapping.yaml").write_text(f"source: {{source_id: {name}}}\n{described}\n")
    return tmp_path


def test_descriptions_of_one_thing_are_told_with_what_differs(
    records: Path, catalogue: Catalogue
) -> None:
    assert list(find_described_twice(records, catalogue)) == [
        f"card: described by a and b; {ONCE.format('gpus')}",
        f"new-7b: described by a and b, which differ in n_params; {ONCE.format('models')}",
        (
            "qwen-7b: described by c and the catalogue, which differ in n_params; "
            f"{ONCE.format('models')}"
        ),
    ]


def test_a_source_is_told_what_it_describes_alone(records: Path, catalogue: Catalogue) -> None:
    (line,) = find_described_twice(records, catalogue, "c")
    assert line.startswith("qwen-7b: described by c and the catalogue")


def test_no_curated_model_or_card_is_described_twice() -> None:
    assert list(find_described_twice(RECORDS, load_curated_catalogue(RECORDS))) == []
