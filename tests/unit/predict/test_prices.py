"""Prices of cards: by option, in files, of families."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.errors import QuestionError
from registry.predict.answer.prices import build_prices

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue


def test_a_price_of_a_family_is_that_of_its_kinds_unless_they_have_their_own(
    catalogue: Catalogue,
) -> None:
    for stated in (["a100-80gb=2", "a100=1.5"], ["a100=1.5", "a100-80gb=2"]):
        prices = build_prices(stated, None, catalogue)
        assert prices.of("a100-pcie-40gb") == 1.5
        assert prices.of("a100-sxm4-80gb") == 2
        assert prices.of("rtx-3090") is None


def test_one_price_is_that_of_all_other_cards(catalogue: Catalogue) -> None:
    prices = build_prices(["$0.5", "l4=0.7"], None, catalogue)
    assert (prices.of("l4"), prices.of("t4")) == (0.7, 0.5)
    assert build_prices(2, None, catalogue).of("card of 15GiB") == 2
    assert build_prices({"NVIDIA L4": 0.7}, None, catalogue).of("l4") == 0.7
    assert build_prices(None, None, catalogue).of("l4") is None


def test_one_price_is_that_of_the_cards_that_are_asked_about(catalogue: Catalogue) -> None:
    prices = build_prices(["0.5", "l4=0.7"], None, catalogue)
    meant = prices.meant_for(["t4", "l4"])
    assert [meant.of(gpu_id) for gpu_id in ("t4", "l4", "h200")] == [0.5, 0.7, None]
    assert prices.meant_for([]).of("h200") == 0.5
    assert build_prices(["l4=0.7"], None, catalogue).meant_for(["t4"]).of("t4") is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("p.csv", "gpu,usd_per_hour\n# spot\nl4,0.7\n\nh100, 2.5\n"),
        ("p.csv", "\ufeffl4,0.7\nh100,$2.5\n"),
        ("p.yaml", "l4: 0.7\nh100: 2.5\n"),
    ],
)
def test_files_of_prices_are_read(
    catalogue: Catalogue, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    prices = build_prices(["l4=0.6"], tmp_path / name, catalogue)
    assert prices.of("l4") == 0.6  # what is stated goes before the file
    assert prices.of("h100-sxm5-80gb") == 2.5


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("p.csv", "l4\n", "line 1: found ['l4']; expected CSV with lines such as a100-80gb,1.8"),
        ("p.csv", "l4,cheap\n", "line 1: found 'cheap'; expected USD per card and hour"),
        ("p.csv", "l4,nan\n", "line 1: found 'nan'; expected USD per card and hour"),
        ("p.csv", "l5,1\n", "unknown gpu 'l5'"),
        ("p.csv", "l4,1\nl5,1\n", "p.csv, line 2"),
        ("p.yaml", "- l4\n", "found no prices by card; expected CSV with lines"),
        ("p.yaml", "l4: [\n", "found no YAML ("),
        ("p.yaml", "l4: [1]\n", "p.yaml, l4: found [1]; expected USD per card and hour"),
    ],
)
def test_a_file_that_is_no_list_of_prices_is_refused(
    catalogue: Catalogue, tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    with pytest.raises(QuestionError) as caught:
        build_prices(None, tmp_path / name, catalogue)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_card_of_a_list_that_nobody_knows_is_told_and_the_others_are_read(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    (tmp_path / "p.csv").write_text("l4,0.7\nl5,1\nh100,2.5\n", encoding="utf-8")
    told: list[str] = []
    prices = build_prices(None, tmp_path / "p.csv", catalogue, told.append)
    assert (prices.of("l4"), prices.of("h100-sxm5-80gb")) == (0.7, 2.5)
    (text,) = told
    assert text.startswith("a price is left out: unknown gpu 'l5'")
    assert text.endswith("p.csv, line 2")
    with pytest.raises(QuestionError, match="unknown gpu 'l5'"):
        build_prices(["l5=1"], None, catalogue, told.append)


def test_two_prices_of_one_card_are_refused(catalogue: Catalogue) -> None:
    for stated in (["l4=1", "l4=2"], ["l4=1", "NVIDIA L4=2"], {"l4": 1, "NVIDIA L4": 2}):
        with pytest.raises(QuestionError, match="price: found 1 and 2 of l4; expected one of them"):
            build_prices(stated, None, catalogue)
    assert build_prices(["l4=1", "NVIDIA L4=1"], None, catalogue).of("l4") == 1


def test_two_prices_of_one_card_in_a_list_are_refused(catalogue: Catalogue, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("l4,1\nh100,2\nNVIDIA L4,2\n", encoding="utf-8")
    with pytest.raises(QuestionError, match=r"p\.csv, line 3: found 1 and 2 of l4; expected one"):
        build_prices(None, tmp_path / "p.csv", catalogue)


def test_of_many_unknown_cards_of_a_list_a_few_are_named(
    catalogue: Catalogue, tmp_path: Path
) -> None:
    unknown = "".join(f"card-{number},1\n" for number in range(9))
    (tmp_path / "p.csv").write_text(f"{unknown}l4,0.7\n", encoding="utf-8")
    told: list[str] = []
    assert build_prices(None, tmp_path / "p.csv", catalogue, told.append).of("l4") == 0.7
    assert [text.partition(";")[0] for text in told] == [
        "a price is left out: unknown gpu 'card-0'",
        "a price is left out: unknown gpu 'card-1'",
        "a price is left out: unknown gpu 'card-2'",
        "so are the prices of 6 other unknown cards",
    ]
