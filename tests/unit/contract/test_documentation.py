"""The documents in docs/ say what the contract says."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import yaml

from registry import __version__
from registry.contract import TABLES, load_metrics, load_rules, load_table, view_names
from registry.contract.data_dictionary import collect_view_columns, format_data_dictionary
from registry.contract.descriptions import describe_column, view_columns
from registry.contract.documentation import check_documents, format_documents, main, write_documents

DOCS = Path(__file__).parents[3] / "docs"


def test_committed_documents_are_up_to_date() -> None:
    assert check_documents(DOCS) == [], "run `python -m registry.contract.documentation`"


def test_check_names_what_is_out_of_date_and_writes_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "docs"
    folder.mkdir()
    (folder / "data-dictionary.md").write_text("old", encoding="utf-8")
    assert main(["--check"], folder) == (
        "docs/data-dictionary.md, docs/submission.schema.json, docs/plans.md, "
        "docs/plan.schema.json: not what the contract says; "
        "run `python -m registry.contract.documentation` and commit what it writes"
    )
    assert [path.name for path in folder.iterdir()] == ["data-dictionary.md"]
    assert main([], folder) is None
    assert main(["--check"], folder) is None


def test_only_what_changed_is_written(tmp_path: Path) -> None:
    assert write_documents(tmp_path) == list(format_documents())
    assert write_documents(tmp_path) == []


def test_a_wrong_call_is_told(tmp_path: Path) -> None:
    assert main(["--chek"], tmp_path) == "found '--chek'; expected nothing or --check"
    assert main([], tmp_path / "docs") == (
        f"{tmp_path / 'docs'}: no such folder; expected the docs/ of a checkout; run this in one"
    )


def test_dictionary_names_every_table_view_column_metric_and_rule() -> None:
    text = format_data_dictionary()
    for name in (*TABLES, *view_names()):
        assert f"\n### `{name}`\n" in text
    for table in TABLES:
        assert all(f"| `{column}` |" in text for column in load_table(table).names)
    assert all(f"| `{metric}` |" in text for metric in load_metrics())
    assert all(f"| `{rule.name}` |" in text for rule in load_rules())


def test_every_link_in_the_dictionary_leads_to_a_heading() -> None:
    text = format_data_dictionary()
    headings = set(re.findall(r"^##+ `?(\w+)`?$", text, re.MULTILINE))
    links = set(re.findall(r"\]\(#(\w+)\)", text))
    assert links
    assert links <= headings


def test_every_column_of_every_view_has_a_meaning() -> None:
    for view, columns in collect_view_columns().items():
        for column in columns:
            assert describe_column(view, column) is not None, f"{view}.{column}"


def test_every_column_that_views_yaml_describes_is_in_the_view() -> None:
    for view, columns in collect_view_columns().items():
        assert set(view_columns(view)) <= set(columns), view


def test_the_version_stands_the_same_everywhere() -> None:
    root = DOCS.parent
    citation = yaml.safe_load((root / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == __version__
    heading = f"\n## {__version__} ({citation['date-released']})\n"
    assert heading in (root / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_licence_is_the_text_of_the_apache_foundation() -> None:
    digest = hashlib.sha256((DOCS.parent / "LICENSE").read_bytes()).hexdigest()
    assert digest == "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"
