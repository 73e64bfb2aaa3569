"""Decimal commas are read where a mapping says so, drafted where they show, and else asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest
import yaml

from registry.errors import UnitError
from registry.tables import draft_mapping, read_tables
from registry.tables.decimal_marks import find_open_mark, has_decimal_comma, read_decimal_commas

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.tables import ImportResult

    class Importer(Protocol):
        def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult: ...


HEAD = """source: {source_id: mine}
defaults: {model_id: qwen-7b, method: lora, gpu_id: rtx-3090%s}
tables:
  - match: {}
    columns:
"""
ONE_CARD = HEAD % ", n_gpus: 1"


def columns(**figures: str) -> str:
    return "".join(f"      {name}: {{figure: {{{said}}}}}\n" for name, said in figures.items())


MEMORY = "metric: peak_memory, unit: GB"
SPEED = "metric: tokens_per_second, unit: token/s"


@pytest.mark.parametrize(
    ("text", "is_decimal", "is_either"),
    [
        ("22,5", True, False),
        ("~22,50 GB", True, False),
        ("1.024,5", True, False),
        ("0,653", True, True),
        ("22,500", False, True),
        ("1,234,567", False, False),
        ("1,850.5", False, False),
        ("22.5", False, False),
        ("2048", False, False),
    ],
)
def test_what_a_comma_shows(text: str, *, is_decimal: bool, is_either: bool) -> None:
    assert (has_decimal_comma(text), find_open_mark(text) == ",") == (is_decimal, is_either)


@pytest.mark.parametrize(
    ("text", "read"),
    [("22,5 GB", "22.5 GB"), ("1.024,5", "1024.5"), ("1.024.000", "1024000"), ("1h5min", "1h5min")],
)
def test_commas_are_read_as_stated(text: str, read: str) -> None:
    assert read_decimal_commas(text, where="x") == read


@pytest.mark.parametrize("text", ["22.5", "1,850.5", "1,2,3"])
def test_points_that_end_no_thousands_are_refused(text: str) -> None:
    with pytest.raises(UnitError, match="as the mapping states `decimal: ','`"):
        read_decimal_commas(text, where="x")


def values(importer: Importer, document: str, mapping: str) -> list[float]:
    result = importer(document, mapping, suffix=".csv")
    assert result.problems == ()
    (observation,) = result.submission["observations"]
    return [figure["value"] for figure in observation["measurements"]]


@pytest.mark.parametrize(("mark", "speed"), [(".", 1.082), (",", 1082)])
def test_a_point_that_may_be_of_thousands_is_asked_for(
    importer: Importer, mark: str, speed: float
) -> None:
    document = 'mem,speed\n"22,5",1.082\n'
    memory = f'{MEMORY}, decimal: ","'
    (problem,) = problems(importer, document, ONE_CARD + columns(mem=memory, speed=SPEED))
    assert "found '1.082' in a document that writes '22,5'" in problem
    assert "`decimal: ','` where the point is that of thousands" in problem
    said = columns(mem=memory, speed=f'{SPEED}, decimal: "{mark}"')
    assert values(importer, document, ONE_CARD + said) == [22_500_000_000, speed]


def problems(importer: Importer, document: str, mapping: str) -> tuple[str, ...]:
    return importer(document, mapping, suffix=".csv").problems


def test_a_decimal_comma_is_refused_with_the_way_out_which_works(importer: Importer) -> None:
    document = 'mem\n"22,5"\n'
    (problem,) = problems(importer, document, ONE_CARD + columns(mem=MEMORY))
    assert "where the comma is the decimal mark, state `decimal: ','` of the figure" in problem
    said = columns(mem=f'{MEMORY}, decimal: ","')
    assert values(importer, document, ONE_CARD + said) == [22_500_000_000]


BOTH = 'mem,speed\n"22,5","1,850"\n'


@pytest.mark.parametrize(("mark", "speed"), [(",", 1.85), (".", 1850)])
def test_a_comma_that_may_be_either_is_asked_for(
    importer: Importer, mark: str, speed: float
) -> None:
    memory = f'{MEMORY}, decimal: ","'
    (problem,) = problems(importer, BOTH, ONE_CARD + columns(mem=memory, speed=SPEED))
    assert "found '1,850' in a document that writes '22,5'" in problem
    said = columns(mem=memory, speed=f'{SPEED}, decimal: "{mark}"')
    assert values(importer, BOTH, ONE_CARD + said) == [22_500_000_000, speed]


def test_thousands_in_a_document_without_decimal_commas_are_thousands(importer: Importer) -> None:
    document = 'mem,speed\n22.5,"1,850"\n'
    said = columns(mem=MEMORY, speed=SPEED)
    assert values(importer, document, ONE_CARD + said) == [22_500_000_000, 1850]


def test_zero_before_a_comma_is_no_thousand(importer: Importer) -> None:
    document = 'speed\n"0,653"\n'
    assert len(problems(importer, document, ONE_CARD + columns(speed=SPEED))) == 1


def test_more_memory_than_any_number_of_cards_has_is_refused(importer: Importer) -> None:
    document = 'mem\n"22,500"\n'
    (problem,) = problems(importer, document, HEAD % "" + columns(mem=MEMORY))
    assert "expected at most what 256 of the cards hold" in problem
    said = columns(mem=f'{MEMORY}, decimal: ","')
    assert values(importer, document, HEAD % "" + said) == [22_500_000_000]
    assert values(importer, "mem\n2250\n", HEAD % "" + columns(mem=MEMORY)) == [2_250_000_000_000]


def test_a_draft_states_the_marks_that_show_and_asks_for_others(
    tmp_path: Path, catalogue: Catalogue
) -> None:
    path = tmp_path / "doc.csv"
    path.write_text('Model,Peak VRAM (GB),tok/s,it/s\nQwen-7B,"22,5","1,850",0.5\n', "utf-8")
    (table,) = yaml.safe_load(draft_mapping(path, read_tables(path), catalogue))["tables"]
    found: dict[str, Any] = table["columns"]
    marks = {name: spec["figure"].get("decimal") for name, spec in found.items() if "/" in name}
    assert found["Peak VRAM (GB)"]["figure"]["decimal"] == ","
    assert marks == {"tok/s": "?", "it/s": None}


def test_a_figure_keeps_its_text_as_the_document_has_it(importer: Importer) -> None:
    mapping = ONE_CARD + columns(mem=f"{MEMORY}, decimal: ','", speed=f"{SPEED}, decimal: ','")
    result = importer("| mem | speed |\n|---|---|\n| 9,75 | 1.024,5 |\n", mapping)
    assert result.problems == ()
    (observation,) = result.submission["observations"]
    figures = [(figure["value"], figure["raw"]) for figure in observation["measurements"]]
    assert figures == [(9_750_000_000, "9,75"), (1024.5, "1.024,5")]


def test_a_message_names_the_cell_as_the_document_has_it(importer: Importer) -> None:
    mapping = ONE_CARD + columns(mem=f"{MEMORY}, decimal: ','")
    (problem,) = importer("| mem |\n|---|\n| 99,75 |\n", mapping).problems
    assert "(the cell says '99,75')" in problem
