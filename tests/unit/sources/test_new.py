"""A new source's folder: tables as written, and a draft that says what is open."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from registry.catalogue import Catalogue
from registry.errors import SourceError, StoreError
from registry.sources.new import check_stated, choose_tables, propose_source, write_source
from registry.tables import read_mapping, read_tables

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

PAGE = """\
# How much it needs

| Contributor | Since |
|---|---|
| Ada | 1843 |

## Memory, in GiB

| Batch | Peak memory (GiB) | Remark |
|---|---|---|
| 1 | 12.5 | a, "b" |
| 2 | [OOM](https://example.org/oom) | ; |
"""


@pytest.fixture
def draft(tmp_path: Path) -> Callable[..., Path]:
    """Return a function that drafts a source of a page in the folder ``sources``."""

    def write(text: str = PAGE, tables: tuple[int, ...] = (), **stated: str | None) -> Path:
        path = tmp_path / "README.md"
        path.write_text(text, encoding="utf-8")
        document = read_tables(path)
        known = {**propose_source(path, document), **stated}
        kept = choose_tables(path, document, Catalogue(), tables)
        return write_source(tmp_path / "sources", path, kept, Catalogue(), known)

    return write


def test_tables_that_measure_something_are_copied_with_cells_as_written(
    draft: Callable[..., Path],
) -> None:
    folder = draft()
    assert sorted(path.name for path in folder.iterdir()) == [
        "01-memory-in-gib.csv",
        "mapping.yaml",
    ]
    assert (folder / "01-memory-in-gib.csv").read_text(encoding="utf-8") == (
        'Batch,Peak memory (GiB),Remark\n1,12.5,"a, ""b"""\n2,[OOM](https://example.org/oom),;\n'
    )


def test_tables_that_are_named_are_copied_whatever_they_look_like(
    draft: Callable[..., Path],
) -> None:
    assert (draft(tables=(1,)) / "01-how-much-it-needs.csv").is_file()


def test_tables_in_which_nothing_looks_measured_are_copied_only_by_number(
    draft: Callable[..., Path],
) -> None:
    text = PAGE[: PAGE.index("## Memory")]
    with pytest.raises(SourceError, match="no table in which something looks measured; expected"):
        draft(text)
    assert (draft(text, (1,)) / "01-how-much-it-needs.csv").is_file()


def test_a_table_that_is_not_there_is_refused(draft: Callable[..., Path]) -> None:
    with pytest.raises(SourceError, match="table 3: there is no such table; expected one that"):
        draft(tables=(3,))


def test_what_is_stated_is_filled_in_and_the_rest_is_open(draft: Callable[..., Path]) -> None:
    folder = draft(source_id="needs", url="https://example.org", licence=None)
    source = yaml.safe_load((folder / "mapping.yaml").read_text(encoding="utf-8"))["source"]
    assert folder.name == "needs"
    assert (source["title"], source["url"]) == ("How much it needs", "https://example.org")
    assert source["licence"] == "?"
    assert len(source["sha256"]) == 64


def test_the_tables_of_the_draft_are_numbered_as_the_copies_are(
    draft: Callable[..., Path],
) -> None:
    text = (draft() / "mapping.yaml").read_text(encoding="utf-8")
    assert "match: {table: 1}  # 01-memory-in-gib.csv" in text
    assert "table: 2" not in text


def test_what_is_open_is_named_with_its_line(draft: Callable[..., Path]) -> None:
    path = draft(licence=None) / "mapping.yaml"
    lines = path.read_text(encoding="utf-8").splitlines()
    number = lines.index("  licence: '?'") + 1
    with pytest.raises(SourceError) as caught:
        read_mapping(path)
    assert f"{path}, line {number}: source.licence: found '?', which" in str(caught.value)


def test_a_source_that_is_there_is_not_written_over(draft: Callable[..., Path]) -> None:
    folder = draft()
    (folder / "mapping.yaml").write_text("mine", encoding="utf-8")
    with pytest.raises(StoreError, match="found something there already"):
        draft()
    assert (folder / "mapping.yaml").read_text(encoding="utf-8") == "mine"


def test_a_document_without_tables_leaves_nothing_behind(
    draft: Callable[..., Path], tmp_path: Path
) -> None:
    with pytest.raises(SourceError, match="found no table with rows; expected a document with"):
        draft("# Nothing\n")
    assert not (tmp_path / "sources").exists()


def test_a_table_that_csv_cannot_say_is_refused_whole(
    draft: Callable[..., Path], tmp_path: Path
) -> None:
    # a single column, in whose cells another delimiter would be found
    page = "| Peak memory; GiB |\n|---|\n| 1; 2 |\n| 3; 4 |\n"
    with pytest.raises(SourceError, match="table 1: found cells that read differently from CSV"):
        draft(page)
    assert list((tmp_path / "sources").iterdir()) == []


def test_what_is_stated_is_held_against_the_contract() -> None:
    assert check_stated("published_on", "2024-05") == []
    (problem,) = check_stated("published_on", "May 2024")
    assert problem.startswith("published_on: found 'May 2024'; expected text that matches")
    assert check_stated("source_id", "../elsewhere")
