"""Whatever stands in a document, a mapping or a log: it is read, or refused with one clear error.

Sizes are such that a reader whose time grows with their square would not come to an end.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import nullcontext
from itertools import pairwise
from pathlib import Path

import pytest

from registry.catalogue import Catalogue
from registry.errors import RegistryError
from registry.tables import import_document, parse_mapping, read_mapping, read_tables
from registry.tables.document import read_document
from registry.tables.row_reader import RowReader

TABLE = "<table><tr><td>a</td></tr></table>"
PIPES = "| a |\n|---|\n| 1 |\n"
MAPPING = "source: {source_id: mine}\ntables: [{match: {table: 1}, columns: {a: {to: n_gpus}}}]\n"
NO_HTML = "expected HTML; write '<' as '&lt;'"
TOO_MANY = (
    "found more than 10000 cells, expected tables for people; split the document, or correct "
    "rowspan and colspan"
)
TOO_LONG = (
    "found {} characters in cell 1, expected at most 131072; check for a quote or tag that is not "
    "closed"
)

REFUSED = {
    "unclosed tags.html": (
        TABLE + '<a "' * 20_000,
        f': line 1: found \'<a "<a "<a "<a "<a "\' and no \'>\' after it, {NO_HTML}',
    ),
    "unclosed comments.html": (
        f"{TABLE}\n" + "<!-- > " * 9_000,
        f": line 2: found '<!-- > <!-- > <!-- >' and no '-->' after it, {NO_HTML}",
    ),
    "unclosed sections.html": (
        TABLE + "<![CDATA[ ]>" * 9_000,
        f": line 1: found '<![CDATA[ ]><![CDATA' and no ']]>' after it, {NO_HTML}",
    ),
    "comments behind less-than signs.html": (
        TABLE + "<<!----!>" * 9_000,
        f": line 1: found '<!----!><<!----!><<!' and no '-->' after it, {NO_HTML}",
    ),
    "unclosed tags in a table.md": (
        "<table>\n" + '<a "' * 20_000,
        f': line 2: found \'<a "<a "<a "<a "<a "\' and no \'>\' after it, {NO_HTML}',
    ),
    "digits of a reference.html": (
        f"{TABLE}&#{'9' * 5_000};",
        ": line 1: found '&#' and thousands of digits, expected HTML; write '&' as '&amp;'",
    ),
    "spans beyond the memory.html": (
        "<table><tr><td colspan=1000 rowspan=0>a" + "<tr>" * 20_000,
        f", table 1, line 1: {TOO_MANY}",
    ),
    "columns beyond the memory.html": (
        "<table>" + ("<tr>" + "<td colspan=1000>a" * 4) * 3,
        f", table 1, line 1: {TOO_MANY}",
    ),
    "commas.csv": ("a,b\n" + "," * 10_000, f": line 2: {TOO_MANY}"),
    "line breaks.csv": ("a" + "\n" * 10_001, f": line 10001: {TOO_MANY}"),
    "a long field.csv": (
        "a,b\n1," + "x" * 131_073,
        (
            ": line 2: field larger than field limit (131072); expected fields separated by ',', "
            "quotes that close and at most 131072 characters in a field"
        ),
    ),
}

NO_ROWS = (
    "line 1: found 0 rows with text, expected 1 header rows; give at least one header row and no "
    "more than the table has"
)
UNREADABLE = {
    "tables never closed.md": ("<table><tr><td>\n\n# a\n\n" * 2_000, NO_ROWS),
    "comments never closed.md": (
        f"<table>\n\n</table>\n\n{'<!--' * 9_000}\n" + "<!--\n" * 9_000,
        NO_ROWS,
    ),
    "a long field.md": (
        "| " + "` `` " * 40_000 + "|\n|-|\n",
        f"line 1: {TOO_LONG.format(199_999)}",
    ),
    "a long field.html": (
        f"<table><tr><td>{'x' * 131_073}",
        f"line 1: {TOO_LONG.format(131_073)}",
    ),
}

READ = {
    "carriage returns alone.csv": "a,b\r1,2\r",
    "blanks.html": f"<table><tr><td>a{' ' * 100_000}b",
    "tags in a tag.html": TABLE + "<a " + '<a "' * 20_000 + ">",
    "pictures.html": f'{TABLE}<img src="data:image/png;base64,{"A" * 200_000}">',
    "less-than signs in a heading.md": f"# {'<' * 200_000}\n\n{PIPES}",
    "digits of a reference.md": f"| &#{'9' * 5_000}; |\n|---|\n| 1 |\n",
    "lists.md": f"{'- ' * 50_000}\n\n{PIPES}",
    "lazy quotes.md": f"{PIPES}\n" + "> <b>\nx\n" * 20_000,
    "quotes.md": f"{'>' * 50_000}\n\n{PIPES}",
    "brackets.md": f"{'[' * 50_000}\n\n{PIPES}",
    "fences.md": f"{'```x' * 50_000}\n\n{PIPES}",
    "emphasis.md": f"{'*a _b ' * 50_000}\n\n{PIPES}",
    "headings.md": f"{'<h1>' * 50_000}\n\n{PIPES}",
}


@pytest.fixture(autouse=True)
def few_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("registry.tables.raw_table.MOST_CELLS", 10_000)


@pytest.mark.parametrize("name", REFUSED)
def test_a_hostile_document_is_refused(tmp_path: Path, name: str) -> None:
    text, message = REFUSED[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    with pytest.raises(RegistryError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}{message}"


@pytest.mark.parametrize("name", UNREADABLE)
def test_a_hostile_table_is_a_problem_of_its_own(tmp_path: Path, name: str) -> None:
    text, problem = UNREADABLE[name]
    path = tmp_path / name
    path.write_text(text, encoding="utf-8", newline="")
    assert read_document(path)[0][0].problem == problem


@pytest.mark.parametrize("name", READ)
def test_an_odd_document_is_read(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.write_text(READ[name], encoding="utf-8", newline="")
    assert len(read_document(path)[0]) == 1


@pytest.mark.parametrize("name", ["/dev/zero", "a pipe", "a folder"])
def test_only_regular_files_are_documents_and_mappings(tmp_path: Path, name: str) -> None:
    path = Path("/dev/zero") if name == "/dev/zero" else tmp_path / name
    if name == "a pipe":
        os.mkfifo(path)
    if name == "a folder":
        path.mkdir()
    found = f"found {'a device' if name == '/dev/zero' else name}, expected"
    reason = f"{found} {{}} in a regular file; save it in one first"
    if name == "a folder":
        reason = "cannot be read: Is a directory; expected a readable file"
    with pytest.raises(RegistryError) as caught:
        read_document(path)
    assert str(caught.value) == f"{path}: {reason.format('a document of tables')}"
    with pytest.raises(RegistryError) as caught:
        read_mapping(path)
    assert str(caught.value) == f"{path}: {reason.format('a mapping')}"


def test_a_folder_without_tables_is_no_document(tmp_path: Path) -> None:
    mapping = parse_mapping(MAPPING, origin="m.yaml")
    with pytest.raises(RegistryError) as caught:
        import_document(tmp_path, mapping, Catalogue())
    assert str(caught.value) == (
        f"{tmp_path}: found no .csv or .tsv file, expected the tables of a source"
    )


def test_the_files_of_a_folder_are_bounded_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.tables.matching.LARGEST_DOCUMENT", 7)
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text("a\n1\n", encoding="utf-8")
    mapping = parse_mapping(MAPPING, origin="m.yaml")
    with pytest.raises(RegistryError) as caught:
        import_document(tmp_path, mapping, Catalogue())
    assert str(caught.value) == (
        f"{tmp_path}/2.csv: longer than 3 bytes; expected a document of tables below that; split it"
    )


def test_runs_without_anything_to_distinguish_them_are_bounded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.tables.merge._MOST_RUNS", 3)
    path = tmp_path / "a.csv"
    path.write_text("memory\n10 GiB\n10 GiB\n11 GiB\n12 GiB\n13 GiB\n", encoding="utf-8")
    figure = "{figure: {metric: peak_memory}}"
    mapping = parse_mapping(
        "source: {source_id: mine}\ndefaults: {model_id: m, method: lora}\n"
        f"tables: [{{match: {{}}, columns: {{memory: {figure}}}}}]\n",
        origin="m.yaml",
    )
    catalogue = Catalogue(models={"m": {"model_id": "m"}})
    with pytest.raises(RegistryError) as caught:
        import_document(path, mapping, catalogue)
    assert str(caught.value) == (
        f"{path}, table 1, row 5: found more than 3 runs that differ in their figures alone, "
        "expected a column that distinguishes them; map one to run_id"
    )


def test_a_device_in_a_folder_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").symlink_to("/dev/zero")
    mapping = parse_mapping(MAPPING, origin="m.yaml")
    with pytest.raises(RegistryError, match=r"a\.csv: found a device, expected a document"):
        import_document(tmp_path, mapping, Catalogue())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[" * 900 + "]" * 900, "m.yaml: nested too deeply; expected a few levels"),
        (
            "tables: " + "9" * 5_000,
            (
                "m.yaml, line 1, column 9: found a number of 5000 characters, expected at most 64; "
                "expected YAML"
            ),
        ),
        (
            "source: &a [*a]",
            "m.yaml: found 100003 values with aliases written out, expected at most 100000",
        ),
    ],
    ids=["nested", "digits", "alias"],
)
def test_a_hostile_mapping_is_refused(text: str, message: str) -> None:
    with pytest.raises(RegistryError) as caught:
        parse_mapping(text, origin="m.yaml")
    assert str(caught.value) == message


WIDE = 6_000
BOUNDED = {
    "columns.csv": (",".join(f"c{n}" for n in range(WIDE)) + "\n" + "1," * (WIDE - 1) + "1\n"),
    "columns.html": "<table><tr>" + "<td>a" * WIDE + "<tr>" + "<td>1" * WIDE + "</table>",
    "spans.html": "<table>" + ("<tr>" + "<td colspan=1000>1" * 8) * 2 + "</table>",
    "columns.json": "[{" + ",".join(f'"c{n}": 1' for n in range(WIDE)) + "}]",
}


@pytest.mark.parametrize("name", BOUNDED)
def test_a_table_of_thousands_of_columns_is_a_problem(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.tables.raw_table.MOST_CELLS", 2_000_000)
    path = tmp_path / name
    path.write_text(BOUNDED[name], encoding="utf-8")
    (table,) = read_document(path)[0]
    assert (table.problem or "").endswith("columns, expected at most 5000; split the table")


@pytest.mark.parametrize(
    ("text", "found"),
    [("|" * 200_001, "200001 pipes"), ("# a\n" * 100_001, "100001 lines")],
    ids=["pipes", "lines"],
)
def test_markdown_that_becomes_millions_of_tokens_is_refused(
    tmp_path: Path, text: str, found: str
) -> None:
    path = tmp_path / "a.md"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(RegistryError, match=f"found {found}, expected at most"):
        read_document(path)


def test_a_document_of_too_many_observations_is_refused_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("registry.tables.apply._MOST_REPORTS", 3)
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "1,2\n" * 4, encoding="utf-8")
    mapping = parse_mapping(
        "source: {source_id: mine}\ndefaults: {model_id: m, method: lora}\n"
        "tables: [{match: {}, columns: {b: {figure: {metric: train_loss}}}, ignore: rest}]\n",
        origin="m.yaml",
    )
    with pytest.raises(RegistryError, match="table 1: found more than 3 rows to import"):
        import_document(path, mapping, Catalogue(models={"m": {"model_id": "m"}}))


@pytest.mark.parametrize(
    ("n_rows", "skip", "is_refused"),
    [(4, "", True), (3, "", False), (4, "skip: [{when: {a: '1'}, because: no run}]\n", False)],
    ids=["more", "as many", "more with skipped ones"],
)
def test_rows_are_counted_before_they_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, n_rows: int, skip: str, *, is_refused: bool
) -> None:
    monkeypatch.setattr("registry.tables.apply._MOST_REPORTS", 3)
    read: list[object] = []
    monkeypatch.setattr(RowReader, "_read_report", lambda _, report, __: read.append(report))
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + "".join(f"{n},2\n" for n in range(n_rows)), encoding="utf-8")
    mapping = parse_mapping(
        f"source: {{source_id: mine}}\ndefaults: {{model_id: m, method: lora}}\n{skip}"
        "tables: [{match: {}, columns: {b: {figure: {metric: train_loss}}}, ignore: rest}]\n",
        origin="m.yaml",
    )
    expected = pytest.raises(RegistryError, match="table 1: found more than 3 rows to import")
    with expected if is_refused else nullcontext():
        import_document(path, mapping, Catalogue(models={"m": {"model_id": "m"}}))
    assert len(read) == (0 if is_refused else 3)


def test_cells_are_counted_before_they_are_laid_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    monkeypatch.setattr("registry.tables.raw_table.MOST_CELLS", 9)
    monkeypatch.setattr("registry.tables.csv.DraftCell", made.append)
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" * 5, encoding="utf-8")
    with pytest.raises(RegistryError, match="line 5: found more than 9 cells"):
        read_document(path)
    assert not made


@pytest.mark.parametrize(
    "pattern", ["(?:(?:[0-9]+)+)+x", "((a|a)*)*b", "(.*)*z"], ids=["digits", "alternatives", "any"]
)
def test_a_pattern_that_explodes_elsewhere_ends_at_once(tmp_path: Path, pattern: str) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n" + f"{'1' * 5_000}!,2\n" * 20, encoding="utf-8")
    mapping = parse_mapping(
        "source: {source_id: mine}\ndefaults: {model_id: m, method: lora}\n"
        f"tables: [{{match: {{}}, skip: [{{when: {{a: '{pattern}'}}}}], ignore: rest, "
        "columns: {b: {figure: {metric: train_loss}}}}]\n",
        origin="m.yaml",
    )
    assert import_document(path, mapping, Catalogue(models={"m": {"model_id": "m"}})).n_rows == 20


def test_a_pattern_that_grows_when_it_is_compiled_is_refused() -> None:
    text = "source: {source_id: x}\ntables: [{match: {heading: '((a{999}){999}){999}'}}]"
    with pytest.raises(RegistryError, match="expected a regular expression"):
        parse_mapping(text, origin="m.yaml")


def test_a_table_whose_name_is_no_utf8_is_read_with_its_folder(tmp_path: Path) -> None:
    (tmp_path / os.fsdecode(b"caf\xe9.csv")).write_text("a,b\n1,2\n", encoding="utf-8")
    document = read_tables(tmp_path)
    assert document.files == ("caf\udce9.csv",)
    hashed = hashlib.sha256(b"caf\xe9.csv\0a,b\n1,2\n")
    assert document.sha256 == hashed.hexdigest()


def test_substitutions_that_double_each_other_are_refused(tmp_path: Path) -> None:
    names = "abcdefghijklmnopqrstuvwxyz"
    lines = [f".. |{a}| replace:: |{b}| |{b}|" for a, b in pairwise(names)]
    path = tmp_path / "doubling.rst"
    for last in ("x", "|a|", "|y| |nowhere|"):
        path.write_text("\n".join([*lines, f".. |z| replace:: {last}", "", "|a|"]))
        with pytest.raises(RegistryError, match="more than 10000 substitutions"):
            read_document(path)


def test_a_substitution_in_a_cell_is_carried_out(tmp_path: Path) -> None:
    path = tmp_path / "table.rst"
    path.write_text(
        ".. |n| replace:: 4 |gb|\n.. |gb| replace:: GB\n\n= ===\na b\n= ===\n1 |n|\n= ===\n"
    )
    (table,), _ = read_document(path)
    assert [[cell.text for cell in row.cells] for row in table.rows] == [["1", "4 GB"]]


def test_a_text_that_ever_so_many_cells_show_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "long.html"
    cells = "<td rowspan=0 colspan=20>" + "x" * 100_000
    path.write_text(f"<table><tr>{cells}{'<tr><td>1' * 60}</table>")
    with pytest.raises(RegistryError, match="more than 67108864 characters in cells"):
        read_document(path)


def test_marks_of_code_that_never_close_take_no_square_of_time(tmp_path: Path) -> None:
    path = tmp_path / "ticks.md"
    ticks = " ".join("`" * n for n in range(1, 1_500))
    path.write_text(f"{PIPES}\n{ticks} <table>\n")
    assert len(read_document(path)[0]) >= 1
