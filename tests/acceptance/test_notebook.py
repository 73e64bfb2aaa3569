"""The notebook of examples runs from its first cell to its last, and shows what it says."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

pytest.importorskip("altair", reason="the extra [plot] is not installed")
pytest.importorskip("vl_convert", reason="the extra [plot] is not installed")

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECKOUT = Path(__file__).parents[2]
NOTEBOOK = CHECKOUT / "examples" / "three_questions.ipynb"


def read_cells() -> list[str]:
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    return ["".join(cell["source"]) for cell in cells if cell["cell_type"] == "code"]


def run_cells(cells: list[str]) -> Iterator[Any]:
    """Yield the value of each cell's last expression, as a notebook shows it.

    A kernel (ipykernel, its 30 packages and its sockets) would run the same statements.
    """
    names: dict[str, Any] = {}
    for number, source in enumerate(cells):
        tree = ast.parse(source)
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)  # noqa: S102 - a file of ours
        if isinstance(last, ast.Expr):
            yield eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)  # noqa: S307 - as above


def test_the_notebook_shows_tables_units_and_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(CHECKOUT)
    shown = list(run_cells(read_cells()))
    fits, picture, best, units, pareto, history, sources = shown
    assert len(fits) > 3
    assert "<small>byte</small>" in fits._repr_html_()
    assert best["tokens_per_second"].is_monotonic_decreasing
    assert units == {"peak_memory_bytes_per_gpu": "byte", "tokens_per_second": "token/second"}
    for chart in (picture, pareto, history):
        assert chart.to_dict()["data"]["values"]
    assert {row["source_id"] for row in sources.rows()} > {"llama2-lora-3090"}


def test_the_notebook_is_kept_without_output() -> None:
    document = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = [cell for cell in document["cells"] if cell["cell_type"] == "code"]
    assert [cell["outputs"] for cell in cells] == [[]] * len(cells)
    assert {cell["execution_count"] for cell in cells} == {None}


@pytest.mark.filterwarnings("default")
def test_the_notebook_runs_in_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="nbclient is not installed")
    pytest.importorskip("ipykernel", reason="ipykernel is not installed")
    nbformat = pytest.importorskip("nbformat", reason="nbformat is not installed")
    monkeypatch.chdir(CHECKOUT)
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": "."}}).execute()
    outputs = [cell["outputs"] for cell in notebook.cells if cell["cell_type"] == "code"]
    assert any("text/html" in out.get("data", {}) for of_cell in outputs for out in of_cell)
