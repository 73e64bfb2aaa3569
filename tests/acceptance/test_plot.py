"""``registry plot``: pictures as files, offline and without what others wrote being run."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import registry
from registry.charts.rows import select_rows
from registry.errors import ChartError
from registry.query.filters import Filters
from registry.store.folder import create_registry

if TYPE_CHECKING:
    from tests.acceptance.conftest import Run

pytest.importorskip("altair", reason="the extra [plot] is not installed")
pytest.importorskip("vl_convert", reason="the extra [plot] is not installed")

RECORDS = Path(__file__).parents[2] / "records"
CURATED = ("--registry", str(RECORDS))
PARETO = ("plot", "pareto", "--model", "llama-3.1-8b", *CURATED)


@pytest.mark.parametrize(
    ("name", "begins"),
    [("p.png", b"\x89PNG"), ("p.svg", b"<svg"), ("p.pdf", b"%PDF"), ("p.html", b"<!doctype html>")],
)
def test_the_extension_says_what_is_written(
    run: Run, tmp_path: Path, name: str, begins: bytes
) -> None:
    done = run(*PARETO, "-o", str(tmp_path / name))
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (tmp_path / name).read_bytes().startswith(begins)


@pytest.mark.parametrize("width", [400, 1600])
def test_a_picture_is_as_wide_as_asked(run: Run, tmp_path: Path, width: int) -> None:
    path = tmp_path / "p.png"
    assert run(*PARETO, "--width", str(width), "-o", str(path)).returncode == 0
    (found,) = struct.unpack(">I", path.read_bytes()[16:20])
    assert abs(found - width) <= 20


def test_the_specification_holds_only_what_was_chosen(run: Run) -> None:
    done = run("plot", "memory", "--model", "Llama-2-7b-hf", "--gpu", "rtx-3090", "--method",
               "qlora", "-f", "json", *CURATED)  # fmt: skip
    rows = json.loads(done.stdout)["data"]["values"]
    assert {(row["model_id"], row["gpu_id"], row["method_label"]) for row in rows} == {
        ("llama-2-7b", "rtx-3090", "QLoRA")
    }
    listed = run("ls", "--model", "llama-2-7b", "--gpu", "rtx-3090", "--method", "qlora", "-f",
                 "json", *CURATED)  # fmt: skip
    assert sorted(row["observation_id"][:12] for row in rows) == sorted(
        row["id"] for row in json.loads(listed.stdout) if row["seq_len"] and row["peak_gib"]
    )


@pytest.mark.parametrize(
    ("kind", "model"),
    [
        ("memory", "qwen-7b"),
        ("speed", "qwen-7b"),
        ("pareto", "qwen-7b"),
        ("fits", "qwen-7b"),
        ("history", "llama-3.2-3b"),
        ("scaling", "llama-2-70b"),
    ],
)
def test_rows_stand_in_the_order_of_their_columns(kind: str, model: str) -> None:
    rows = select_rows(registry.open(RECORDS), kind, Filters(model=model))
    keys = [[(value is None, value) for value in row.values()][:8] for row in rows]
    assert len(rows) > 1
    assert keys == sorted(keys)


def test_a_page_loads_nothing_and_takes_no_name_for_markup(run: Run, tmp_path: Path) -> None:
    hostile = "</script><script>alert(1)</script>"
    own = create_registry(tmp_path / "own", curated=False).path
    observation = {
        "outcome": "ok",
        "configuration": {"model_id": "llama-2-7b", "method": "lora", "gpu_id": "l4"},
        "measurements": [{"metric": "step_time", "value": 2.5}],
    }
    runs = [{**observation, "run_id": n, "provenance": {"label": n}} for n in ("main", hostile)]
    registry.open(own).add({"source": {"source_id": "my-runs"}, "observations": runs})
    path = tmp_path / "page.html"
    done = run("plot", "history", "--registry", str(own), "-o", str(path))
    assert done.returncode == 0, done.stderr
    page = path.read_text(encoding="utf-8")
    assert "</script><script>alert" not in page
    assert "\\u003c/script>\\u003cscript>alert(1)" in page
    assert "default-src 'none'" in page
    assert "src=" not in page.split("<script>")[0]


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["pareto"], 2, "expected a file for the chart: -o FILE"),
        (["pareto", "-o", "p.bmp"], 2, "p.bmp: its extension implies no format; expected one of"),
        (["pareto", "-o", "p.png"], 2, "each with a panel of its own; expected at most 12"),
        (["memory", "--model", "lama-3.1-8b", "-o", "p.png"], 2, "did you mean 'llama-3.1-8b'?"),
        (["memory", "--method", "lroa", "-o", "p.png"], 2, "method 'lroa' is not known; did you"),
        (["memory", "extra", "-o", "p.png"], 2, "memory: found 'extra' beside it"),
        (["compare", "peft=0.15", "-o", "p.png"], 2, "compare: expected two selections of runs"),
        (["residuals", "--model", "qwen-7b", "-o", "p.png"], 2, "expected no filter but --source"),
        (["memory", "--model", "qwen-7b", "-o", "none/p.png"], 1, "create its folder first"),
    ],
)
def test_a_mistake_is_said_and_nothing_is_written(
    run: Run, tmp_path: Path, arguments: list[str], status: int, expected: str
) -> None:
    done = run("plot", *arguments, *CURATED)
    assert done.returncode == status
    assert expected in done.stderr
    assert list(tmp_path.glob("*.p*")) == []


def test_two_releases_are_compared_as_the_command_compare_does(run: Run) -> None:
    sides = ("peft-method-comparison-2025-06", "peft-method-comparison")
    drawn = json.loads(run("plot", "compare", *sides, "-f", "json", *CURATED).stdout)
    done = run("compare", *sides, "-f", "json", *CURATED)
    compared = json.loads(done.stdout)["configurations"]
    ratios = {row["measure"]: row["ratio"] for row in drawn["data"]["values"]}
    assert ratios == {name: compared[0][name]["value"] for name in ("time", "memory")}


def test_a_notebook_gets_the_chart() -> None:
    db = registry.open(RECORDS)
    chart = db.plot("scaling", model="llama-2-70b", gpu="b200", theme="dark")
    assert chart.to_dict()["data"]["name"] == "rows"
    with pytest.raises(ChartError, match="compare: expected two selections of runs"):
        db.plot("compare")
    with pytest.raises(ChartError, match="no chart of kind 'paretto'; did you mean 'pareto'"):
        db.plot("paretto")
    with pytest.raises(ChartError, match="memory: no option 'modell'; did you mean 'model'"):
        db.plot("memory", modell="qwen-7b")


def test_a_notebook_compares_two_releases_as_the_command_does(run: Run) -> None:
    sides = ("peft-method-comparison-2025-06", "peft-method-comparison")
    chart = registry.open(RECORDS).plot("compare", *sides).to_dict()
    drawn = json.loads(run("plot", "compare", *sides, "-f", "json", *CURATED).stdout)
    assert chart["data"]["values"] == drawn["data"]["values"]
    assert chart["title"]["text"] == [f"B compared with A: {sides[1]} against {sides[0]}"]
