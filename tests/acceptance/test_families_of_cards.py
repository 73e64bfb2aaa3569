"""A family of cards means all of its kinds, wherever a command asks for a card."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_ls_of_a_family_lists_its_kinds(run: Run) -> None:
    all_of_them = ("-f", "json", "--limit", "100000")
    family = json.loads(run("ls", "--gpu", "a100", *all_of_them).stdout)
    kinds = {row["gpu_id"] for row in family}
    assert {"a100-80gb", "a100-sxm4-80gb", "a100-40gb", "a100"} <= kinds
    assert all(kind.startswith("a100") for kind in kinds)
    one = json.loads(run("ls", "--gpu", "A100 SXM4 80GB", *all_of_them).stdout)
    assert {row["gpu_id"] for row in one} == {"a100-sxm4-80gb"}
    assert len(family) > len(one)


def test_fit_on_a_family_has_a_verdict_for_each_kind(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--seq-len", "512")
    found = json.loads(run("fit", *asked, "--gpu", "a100", "--json").stdout)
    assert found["verdict"] is None
    assert {card["gpu_id"] for card in found["cards"]} == {
        "a100-80gb", "a100-sxm4-80gb", "a100-pcie-80gb",
        "a100-40gb", "a100-sxm4-40gb", "a100-pcie-40gb",
    }  # fmt: skip


def test_several_cards_have_one_line_with_the_verdict_on_each(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--method", "full", "--seq-len", "512", "--checkpointing")
    cards = ("--gpu", "t4", "--gpu", "mi300x", "--gpu", "a100-80gb")
    found = json.loads(run("fit", *asked, *cards, "--json").stdout)
    by_verdict: dict[str, list[str]] = {"fits": [], "undecided on": [], "does not fit": []}
    for card in found["cards"]:
        by_verdict[card["verdict"].replace("undecided", "undecided on")].append(card["gpu_id"])
    assert len(found["cards"]) == 3
    assert "t4" in by_verdict["does not fit"]
    expected = "; ".join(f"{word} {', '.join(ids)}" for word, ids in by_verdict.items() if ids)
    assert run("fit", *asked, *cards).stdout.splitlines()[1] == f"verdict: {expected}"


def test_what_needs_one_memory_names_the_kinds(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--samples", "10", "--gpu", "h100")
    assert run("estimate", *asked).stderr == (
        "error: gpu 'h100': a family of cards whose memory differs; expected one of h100-80gb, "
        "h100-nvl-94gb, h100-pcie-80gb, h100-sxm5-80gb, h100-sxm5-96gb\n"
    )


def test_a_figure_that_nobody_read_says_so(run: Run) -> None:
    found = run("fit", "--model", "qwen-7b", "--gpu", "rtx-2080", "--seq-len", "512")
    assert "rtx-2080 were not checked against a source (verified = false)" in found.stderr
