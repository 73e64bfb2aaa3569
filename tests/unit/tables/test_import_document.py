"""A mapping applied to documents of all kinds, and what bad input gets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from registry.errors import SourceError
from registry.submission.prepare import prepare_submission
from registry.tables import import_document, parse_mapping, read_mapping

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.tables import ImportResult

    class Importer(Protocol):
        def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult: ...


ROOT = Path(__file__).parents[3]
SEEDS = ROOT.parent / "shared" / "seeds"
SOURCE_IDS = [
    "llama2-lora-3090",
    "llm-train-throughput",
    "qwen-finetune-profile",
    "swift-benchmark",
]

MAPPING = """
source: {source_id: mine}
defaults: {method: lora, gpu_id: rtx-4090, n_gpus: 1}
columns:
  model: {to: model_id}
  batch: {to: micro_batch_size}
  memory: {figure: {metric: peak_memory}}
  speed: {figure: {metric: step_time}}
tables:
  - match: {table: 1}
    title: results
"""
DOCUMENT = """
| model | batch | memory | speed |
| --- | --- | --- | --- |
| qwen-7b | 1 | 17GiB | 1.5s/it |
| qwen-7b | 2 | OOM | - |
"""


@pytest.mark.parametrize("source_id", SOURCE_IDS)
def test_the_csv_files_and_the_original_document_say_the_same(
    source_id: str, catalogue: Catalogue
) -> None:
    document = SEEDS / f"{source_id}.txt"
    if not document.exists():
        pytest.skip("the seed documents are not here")
    folder = ROOT / "records" / "sources" / source_id
    mapping = read_mapping(folder / "mapping.yaml")
    curated = import_document(folder, mapping, catalogue).submission
    original = import_document(document, mapping, catalogue).submission
    for submission in (curated, original):
        assert re.fullmatch("[0-9a-f]{64}", submission["source"].pop("sha256"))
    assert curated == original


@pytest.mark.parametrize("source_id", SOURCE_IDS)
def test_importing_twice_gives_the_same_bytes(source_id: str, catalogue: Catalogue) -> None:
    folder = ROOT / "records" / "sources" / source_id
    texts = {
        prepare_submission(
            import_document(folder, read_mapping(folder / "mapping.yaml"), catalogue).submission,
            catalogue,
            origin=source_id,
        ).text
        for _ in range(2)
    }
    assert len(texts) == 1


@settings(  # what is named here stands in place of the profile's
    max_examples=25,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(st.lists(st.tuples(st.integers(1, 3), st.integers(10, 12)), min_size=1, max_size=8))
def test_every_row_is_cited_once_and_no_figure_is_lost(
    importer: Importer, rows: list[tuple[int, int]]
) -> None:
    lines = [f"| qwen-7b | {batch} | {memory}GiB | - |" for batch, memory in rows]
    document = "\n".join(["| model | batch | memory | speed |", "|---|---|---|---|", *lines])
    first = importer(document, MAPPING)
    assert first.submission == importer(document, MAPPING).submission
    observations = first.submission["observations"]
    places = [citation["row"] for entry in observations for citation in entry["citations"]]
    assert sorted(places) == list(range(1, len(rows) + 1))
    assert len(observations) == len(set(rows))


def test_markdown_html_and_csv_give_the_same_submission(importer: Importer) -> None:
    cells = [["model", "batch", "memory", "speed"], ["qwen-7b", "1", "17GiB", "1.5s/it"]]
    html = "".join("<tr>" + "".join(f"<td>{cell}</td>" for cell in row) + "</tr>" for row in cells)
    documents = {
        ".html": f"<html><body><table>{html}</table></body></html>",
        ".csv": "\n".join(",".join(row) for row in cells),
        ".md": "\n".join(["|".join(cells[0]), "|".join("----"), "|".join(cells[1])]),
    }
    submissions = []
    for suffix, text in documents.items():
        submission = importer(text, MAPPING, suffix=suffix).submission
        del submission["source"]["sha256"]
        submissions.append(submission)
    assert submissions[0] == submissions[1] == submissions[2]
    assert submissions[0]["observations"][0]["measurements"][1]["value"] == 1.5


def test_counts_of_an_import(importer: Importer) -> None:
    result = importer(DOCUMENT, MAPPING)
    assert (result.n_tables, result.n_rows, result.n_reports, result.n_observations) == (1, 2, 2, 2)
    assert result.problems == ()
    assert [entry["outcome"] for entry in result.submission["observations"]] == ["ok", "oom"]


def test_tables_that_the_mapping_does_not_read_are_named(importer: Importer) -> None:
    result = importer(f"{DOCUMENT}\n\n| a | b |\n|---|---|\n| 1 | 2 |\n", MAPPING)
    assert result.skipped_tables == (2,)


@pytest.mark.parametrize(
    ("match", "suffix"),
    [
        ("{heading: 'Speed.*all'}", ".md"),
        ("{columns: [model, memory]}", ".md"),
        ("{}", ".md"),
        ("{columns: [model], file: '*.csv'}", ".md"),
    ],
)
def test_a_table_is_found_by_heading_or_columns(
    importer: Importer, match: str, suffix: str
) -> None:
    mapping = MAPPING.replace("{table: 1}", match)
    assert importer(f"# Speed of all\n{DOCUMENT}", mapping, suffix=suffix).n_rows == 2


def test_a_heading_is_the_title_where_the_mapping_gives_none(importer: Importer) -> None:
    mapping = MAPPING.replace("    title: results\n", "")
    result = importer(f"# Runs\n\n## On one card\n{DOCUMENT}", mapping)
    citation = result.submission["observations"][0]["citations"][0]
    assert citation["table_title"] == "On one card"


def problems(importer: Importer, row: str, mapping: str = MAPPING) -> tuple[str, ...]:
    lines = ["| model | batch | memory | speed |", "| --- | --- | --- | --- |", row]
    return importer("\n".join(lines), mapping).problems


def test_all_bad_cells_are_reported_together(importer: Importer) -> None:
    document = (
        DOCUMENT.replace("17GiB", "much").replace("1.5s/it", "fast")
        + "| qwen-7b | x | 3GiB | - |\n"
    )
    assert importer(document, MAPPING).problems == (
        (
            "doc.md, table 1, row 1, column 'memory': found 'much', expected an amount of memory "
            "such as '36.6G', '20822MiB' or '144 GB+'; a text in the place of a figure has its "
            "meaning under `words` of the column: `words: {'much': {}}` (m.yaml, line 7)"
        ),
        (
            "doc.md, table 1, row 1, column 'speed': found 'fast', expected a duration such as "
            "'7.01min', '5h35min', '3:35:20' or '07:01'; a text in the place of a figure has its "
            "meaning under `words` of the column: `words: {'fast': {}}` (m.yaml, line 8)"
        ),
        (
            "doc.md, table 1, row 3, column 'batch': found 'x', expected a count such as '274', "
            "'48.8k', '4.19M' or '1,000' (m.yaml, line 6)"
        ),
    )


def test_an_unknown_model_names_the_nearest(importer: Importer) -> None:
    (problem,) = problems(importer, "| qwenn-7b | 1 | 17GiB | - |")
    assert problem.startswith(
        "doc.md, table 1, row 1: unknown model 'qwenn-7b'; did you mean 'qwen-7b'?; expected an id "
        "of the catalogue"
    )
    assert "to add one, describe it under 'models' of the mapping (m.yaml, line " in problem


def test_an_unknown_gpu_names_the_nearest(importer: Importer) -> None:
    mapping = MAPPING.replace("rtx-4090", "rtx-409")
    (problem,) = problems(importer, "| qwen-7b | 1 | 17GiB | - |", mapping)
    assert "unknown gpu 'rtx-409'; did you mean 'rtx-4090'?" in problem


def test_an_unknown_unit_names_the_units(importer: Importer) -> None:
    (problem,) = problems(importer, "| qwen-7b | 1 | 17Gigs | - |")
    assert problem == (
        "doc.md, table 1, row 1, column 'memory': found unit 'Gigs', expected a unit of memory "
        "(B, KB, MB, GB, TB, KiB, MiB, GiB, TiB); if 'Gigs' is written for another unit, take the "
        "number alone: `form: ['(?P<value>.+?) *Gigs']` of the figure, with its `default_unit` and "
        "the `default_reason` (m.yaml, line 7)"
    )


def test_a_peak_above_the_cards_is_refused(importer: Importer) -> None:
    (problem,) = problems(importer, "| qwen-7b | 1 | 25GiB | - |")
    assert problem.startswith(
        "doc.md, table 1, row 1, column 'memory': found '25GiB', read as GiB 26843545600 bytes, "
        "expected at most the 25757220864 bytes of the cards"
    )


def test_a_peak_above_the_cards_is_taken_where_it_is_flagged(importer: Importer) -> None:
    mapping = MAPPING.replace("n_gpus: 1}", "n_gpus: 1, flags: [peak_over_capacity]}")
    assert problems(importer, "| qwen-7b | 1 | 25GiB | - |", mapping) == ()


@pytest.mark.parametrize("n_gpus", [", n_gpus: 1", ""])
def test_memory_of_the_host_may_be_more_than_the_cards_have(
    importer: Importer, n_gpus: str
) -> None:
    host = "{metric: peak_memory, kind: host_rss, scope: total}"
    mapping = MAPPING.replace("{metric: peak_memory}", host).replace(", n_gpus: 1", n_gpus)
    assert problems(importer, "| qwen-7b | 1 | 9000GiB | - |", mapping) == ()


def test_a_row_without_figure_and_outcome_is_no_success(importer: Importer) -> None:
    (problem,) = problems(importer, "| qwen-7b | 1 | - | - |")
    assert problem == (
        "doc.md, table 1, row 1: found neither a figure nor an outcome, expected one; leave such "
        "rows out with `skip: [{empty: true}]`, or say under `words` what the cells mean "
        "(m.yaml, line 10)"
    )


@pytest.mark.parametrize(
    ("status", "outcomes"),
    [("OOM", ["ok", "oom"]), ("fine", ["ok", "ok"]), ("-", ["ok"])],
)
def test_a_row_that_says_how_it_ended_is_not_empty(
    importer: Importer, status: str, outcomes: list[str]
) -> None:
    document = f"| bs | mem | status |\n|---|---|---|\n| 1 | 20GiB | fine |\n| 2 | - | {status} |\n"
    mapping = """
source: {source_id: a}
defaults: {model_id: qwen-7b, method: lora, gpu_id: rtx-3090, n_gpus: 1}
skip: [{empty: true}]
tables:
  - match: {table: 1}
    columns:
      bs: {to: micro_batch_size}
      mem: {figure: {metric: peak_memory}}
      status: {values: {OOM: {outcome: oom}, fine: {outcome: ok}}}
"""
    result = importer(document, mapping)
    assert result.problems == ()
    found = sorted(row["outcome"] for row in result.submission["observations"])
    assert found == sorted(outcomes)


def test_a_row_with_a_status_that_means_nothing_is_told(importer: Importer) -> None:
    document = "| mem | status |\n|---|---|\n| - | killed |\n"
    mapping = """
source: {source_id: a}
defaults: {model_id: qwen-7b, method: lora}
skip: [{empty: true}]
tables:
  - match: {table: 1}
    columns: {mem: {figure: {metric: peak_memory}}, status: {values: {OOM: {outcome: oom}}}}
"""
    (problem,) = importer(document, mapping).problems
    assert "found 'killed', expected a text that the mapping gives a meaning" in problem


def test_two_outcomes_in_one_row_are_a_problem(importer: Importer) -> None:
    (problem,) = problems(importer, "| qwen-7b | 1 | OOM | failed |")
    assert problem == (
        "doc.md, table 1, row 1: found oom in column 'memory', error in column 'speed', expected "
        "one outcome"
    )


def test_a_row_without_a_model_is_a_problem(importer: Importer) -> None:
    (problem,) = problems(importer, "| - | 1 | 17GiB | - |")
    assert problem == (
        "doc.md, table 1, row 1: found no model_id, expected one; map a column to it, or state it "
        "under `defaults` (m.yaml, line 10)"
    )


def test_a_text_that_the_mapping_gives_no_meaning_is_a_problem(importer: Importer) -> None:
    mapping = MAPPING.replace("{to: model_id}", "{values: {Qwen-7B: {model_id: qwen-7b}}}")
    (problem,) = problems(importer, "| Qwen-7b | 1 | 17GiB | - |", mapping)
    assert problem == (
        "doc.md, table 1, row 1, column 'model': found 'Qwen-7b', expected a text that the mapping "
        "gives a meaning; did you mean 'Qwen-7B'?: one of 'Qwen-7B' (m.yaml, line 5)"
    )


def test_a_row_with_fewer_cells_than_headers_is_filled_and_told(importer: Importer) -> None:
    lines = ["| model | batch | memory | speed |", "|---|---|---|---|", "| qwen-7b | 1 | 17GiB |"]
    result = importer("\n".join(lines), MAPPING)
    assert result.problems == ()
    assert result.notes == ("table 1, line 3: 1 cells missing at the end, taken as empty",)


def error_of(importer: Importer, old: str, new: str, document: str = DOCUMENT) -> str:
    return "\n".join(importer(document, MAPPING.replace(old, new)).problems)


def test_a_missing_column_lists_those_there_are(importer: Importer) -> None:
    assert error_of(importer, "  memory:", "  memroy:").splitlines() == [
        (
            "doc.md, table 1, column 'memory': found no meaning, expected one for each column; map "
            "it, or leave it out with `ignore` (m.yaml, line 10)"
        ),
        (
            "doc.md: found 'memroy' in the mapping; did you mean 'memory'?; expected a column of "
            "the tables: 'batch', 'memory', 'model', 'speed' (m.yaml, line 7)"
        ),
    ]
    extra = "    columns: {memroy: {figure: {metric: peak_memory}}}\n    title: results"
    assert error_of(importer, "    title: results", extra) == (
        "doc.md, table 1: found 'memroy' in the mapping; did you mean 'memory'?; expected a column "
        "of the table: 'model', 'batch', 'memory', 'speed' (m.yaml, line 11)"
    )


def test_a_common_column_that_no_table_has_is_an_error(importer: Importer) -> None:
    assert error_of(importer, "columns:\n", "columns:\n  spped: {ignore: nothing}\n") == (
        "doc.md: found 'spped' in the mapping; did you mean 'speed'?; expected a column of the "
        "tables: 'batch', 'memory', 'model', 'speed' (m.yaml, line 5)"
    )


def test_a_rule_about_a_missing_column_is_an_error(importer: Importer) -> None:
    rule = "    title: results\n    rules: [{when: {btch: 1}, set: {seq_len: 1}}]"
    assert error_of(importer, "    title: results", rule) == (
        "doc.md, table 1: found 'btch' in the mapping; did you mean 'batch'?; expected a column of "
        "the table: 'model', 'batch', 'memory', 'speed' (m.yaml, line 12)"
    )


def test_a_table_that_is_not_there_lists_those_that_are(importer: Importer) -> None:
    assert error_of(importer, "{table: 1}", "{table: 2}", f"# Runs\n{DOCUMENT}") == (
        "doc.md: found no such table, expected one of the document's 1: 1: Runs (model, batch, "
        "memory, speed) (m.yaml, line 10)"
    )


def test_a_document_of_prose_is_an_error(importer: Importer) -> None:
    assert error_of(importer, "x", "x", "no table\nat all\n") == (
        "doc.md: found no table in the document, expected one (m.yaml, line 10)"
    )


def test_two_entries_for_one_table_are_an_error(importer: Importer) -> None:
    assert error_of(importer, "tables:\n", "tables:\n  - match: {columns: [model]}\n") == (
        "doc.md, table 1: two entries read it, expected one entry for each table; say more in "
        "match (m.yaml, line 11)"
    )


def test_a_folder_without_tables_is_an_error(tmp_path: Path, catalogue: Catalogue) -> None:
    with pytest.raises(SourceError) as raised:
        import_document(tmp_path, parse_mapping(MAPPING, origin="m.yaml"), catalogue)
    assert str(raised.value) == (
        f"{tmp_path}: found no .csv or .tsv file, expected the tables of a source"
    )


def test_a_document_with_two_header_rows_is_read_as_the_mapping_says(importer: Importer) -> None:
    document = "| model | memory |\n|---|---|\n| name | peak |\n| qwen-7b | 17GiB |\n"
    mapping = """
source: {source_id: mine}
defaults: {method: lora}
tables:
  - match: {table: 1}
    header_rows: 2
    columns:
      model / name: {to: model_id}
      memory / peak: {figure: {metric: peak_memory}}
"""
    (found,) = importer(document, mapping).submission["observations"]
    assert found["measurements"][0]["value"] == 17 * 2**30


def test_header_rows_need_the_number_of_the_table(importer: Importer) -> None:
    entry = "{columns: [model]}\n    header_rows: 2"
    with pytest.raises(SourceError) as raised:
        importer(DOCUMENT, MAPPING.replace("{table: 1}", entry))
    assert str(raised.value) == (
        "m.yaml: found header_rows without the table's number, expected match: {table: …} beside it"
    )


def test_a_pivot_without_its_columns_is_an_error(importer: Importer) -> None:
    pivot = "pivot: {columns: 'len (.+)', to: seq_len, cell: {figure: {metric: step_time}}}"
    assert error_of(importer, "    title: results", f"    {pivot}") == (
        "doc.md, table 1: found 'len (.+)' in the mapping; expected a column of the table: "
        "'model', "
        "'batch', 'memory', 'speed' (m.yaml, line 11)"
    )


def test_a_pivoted_label_that_is_no_value_is_a_problem(importer: Importer) -> None:
    mapping = """
source: {source_id: mine}
defaults: {method: lora}
tables:
  - match: {}
    columns: {model: {to: model_id}}
    pivot: {columns: "len (.+)", to: seq_len, cell: {figure: {metric: peak_memory}}}
"""
    document = "| model | len 512 | len long |\n|---|---|---|\n| qwen-7b | 17GiB | 18GiB |"
    assert importer(document, mapping).problems == (
        (
            "doc.md, table 1, column 'len long': found 'long', expected a count such as '274', "
            "'48.8k', '4.19M' or '1,000' (m.yaml, line 7)"
        ),
    )


def test_a_claim_needs_an_outcome(importer: Importer) -> None:
    claim = "claims: [{locator: paragraph 2, set: {model_id: qwen-7b}}]\n"
    assert importer(DOCUMENT, MAPPING + claim).problems == (
        "doc.md, paragraph 2: found no outcome, expected one in a claim (m.yaml, line 12)",
    )


def _with_rules(*rules: str) -> str:
    return MAPPING + "rules:\n" + "".join(f"  - {rule}\n" for rule in rules)


def test_a_row_with_figures_is_ok_for_rules_unless_a_word_says_otherwise(
    importer: Importer,
) -> None:
    mapping = _with_rules("{when: {outcome: ok}, set: {flags: [includes_evaluation]}}")
    fitted, oom = importer(DOCUMENT, mapping).submission["observations"]
    assert (fitted["outcome"], fitted["flags"]) == ("ok", ["includes_evaluation"])
    assert (oom["outcome"], oom.get("flags")) == ("oom", None)


def test_a_rule_that_states_an_outcome_counts_for_those_behind_it(importer: Importer) -> None:
    mapping = _with_rules(
        "{when: {micro_batch_size: 1}, set: {outcome: interrupted}}",
        "{when: {outcome: ok}, set: {seq_len: 512}}",
        "{when: {outcome: interrupted}, set: {seq_len: 1024}}",
    )
    first, _ = importer(DOCUMENT, mapping).submission["observations"]
    assert (first["outcome"], first["configuration"]["seq_len"]) == ("interrupted", 1024)


def test_parameters_alone_are_no_success_for_rules(importer: Importer) -> None:
    document = "| model | params |\n| --- | --- |\n| qwen-7b | 7000000 |\n"
    mapping = MAPPING.partition("columns:")[0] + (
        "columns:\n  model: {to: model_id}\n  params: {figure: {metric: trainable_params}}\n"
        "rules:\n  - {when: {outcome: ok}, set: {seq_len: 512}}\n"
        "  - {when: {outcome: null}, set: {seq_len: 1024}}\ntables:\n  - match: {table: 1}\n"
    )
    (row,) = importer(document, mapping).submission["observations"]
    assert (row["outcome"], row["configuration"]["seq_len"]) == ("unknown", 1024)


def test_a_rule_that_matches_no_row_is_told(importer: Importer) -> None:
    mapping = _with_rules(
        "{when: {micro_batch_size: 1}, set: {seq_len: 512}}",
        "{when: {speed: 1.50s/it}, set: {seq_len: 1024}}",
    )
    notes = importer(DOCUMENT, mapping).notes
    assert notes == ("m.yaml, line 14: the rule for speed '1.50s/it' matched no row",)


def test_a_rule_that_tables_share_needs_match_in_one_of_them(importer: Importer) -> None:
    rule = "{when: {seq_len: 512}, set: {packing: true}}"
    mapping = MAPPING.replace(
        "  - match: {table: 1}", f"  - match: {{table: 1}}\n    rules: [{rule}]"
    )
    mapping += f"  - match: {{table: 2}}\n    defaults: {{seq_len: 512}}\n    rules: [{rule}]\n"
    assert importer(f"{DOCUMENT}\n\n## More\n{DOCUMENT}", mapping).notes == ()


def test_the_name_in_the_cell_that_states_the_model_wins_over_a_default(
    importer: Importer,
) -> None:
    mapping = MAPPING.replace("{method: lora,", "{model_reported: Qwen, method: lora,")
    first, _ = importer(DOCUMENT, mapping).submission["observations"]
    assert first["model_reported"] == "qwen-7b"


def test_a_column_of_names_that_no_table_has_is_an_error(importer: Importer) -> None:
    mapping = MAPPING.replace("columns:", "model_reported: [modle]\ncolumns:", 1)
    (problem,) = importer(DOCUMENT, mapping).problems
    assert problem == (
        "doc.md: found 'modle' in the mapping; did you mean 'model'?; expected a column of the "
        "tables: 'batch', 'memory', 'model', 'speed' (m.yaml, line 4)"
    )


def test_what_a_rate_is_multiplied_by_its_count_is_too(importer: Importer) -> None:
    document = "| model | speed |\n| --- | --- |\n| qwen-7b | 0.5(100 samples/200 seconds) |\n"
    head = MAPPING.partition("columns:")[0].replace("n_gpus: 1}", "n_gpus: 1, n_epochs: 2.0}")
    mapping = head + (
        "columns:\n  model: {to: model_id}\n  speed:\n    figure: {metric: samples_per_second, "
        "unit: sample/s, multiply_by: n_epochs, because: one epoch is counted}\n"
        "tables:\n  - match: {table: 1}\n"
    )
    result = importer(document, mapping)
    (row,) = result.submission["observations"]
    figures = {figure["metric"]: figure for figure in row["measurements"]}
    assert {name: figure["value"] for name, figure in figures.items()} == {
        "samples_per_second": 1.0,
        "n_samples": 200.0,
        "total_time": 200.0,
    }
    assert figures["n_samples"]["raw"] == "100"
    assert figures["n_samples"]["reason"] == "one epoch is counted"


def test_minutes_before_the_word_total_are_kept_as_written(importer: Importer) -> None:
    document = "| model | speed |\n| --- | --- |\n| qwen-7b | 1iter/s(3h20min total) |\n"
    mapping = MAPPING.replace("metric: step_time", "metric: steps_per_second")
    mapping = mapping.replace("  batch: {to: micro_batch_size}\n", "")
    mapping = mapping.replace("  memory: {figure: {metric: peak_memory}}\n", "")
    (row,) = importer(document, mapping).submission["observations"]
    total = next(f for f in row["measurements"] if f["metric"] == "total_time")
    assert (total["raw"], total["unit_reported"], total["value"]) == ("3h20min", "h min", 12000.0)


PROVENANCE = """
source: {source_id: example}
defaults:
  model_id: qwen-7b
  method: lora
  gpu_id: a100-80gb
  n_gpus: 1
  provenance: {run: first}
tables:
  - match: {}
    columns:
      tuner: {values: {A: {provenance: {tuner: Q-GaLore}}, B: {provenance: {limit: '1'}}}}
      limit: {patterns: [{pattern: '([0-9]+)', set: {provenance: {limit: '\\1'}}}]}
      memory: {figure: {metric: peak_memory}}
    rules:
      - {when: {limit: '2048'}, set: {provenance: {note: cut}}}
"""


PROVENANCE_TABLE = "| tuner | limit | memory |\n|-|-|-|\n| {tuner} | 2048 | 17 GiB |\n"


def test_entries_of_provenance_come_from_several_columns(importer: Importer) -> None:
    result = importer(PROVENANCE_TABLE.format(tuner="A"), PROVENANCE)
    (observation,) = result.submission["observations"]
    expected = {"run": "first", "tuner": "Q-GaLore", "limit": "2048", "note": "cut"}
    assert expected.items() <= observation["provenance"].items()


def test_two_columns_that_state_one_entry_of_provenance_are_refused(importer: Importer) -> None:
    (problem,) = importer(PROVENANCE_TABLE.format(tuner="B"), PROVENANCE).problems
    assert "found provenance = {'limit': '1'} in column 'tuner' and {'limit': '2048'}" in problem
