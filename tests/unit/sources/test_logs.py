"""A source of logs: packed, read by its importer, with what the mapping says of the runs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from registry.errors import SourceError
from registry.sources.logs import import_source
from registry.sources.packed import pack_files
from registry.tables import parse_mapping

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.tables import ImportResult

SEEDS = (7, 8)


def log(seed: int) -> str:
    events: list[dict[str, Any]] = [
        {"key": "submission_benchmark", "value": "llama2_70b_lora"},
        {"key": "submission_platform", "value": "box"},
        {"key": "seed", "value": seed},
        {"key": "run_start", "time_ms": 1000, "value": None},
        {
            "key": "run_stop",
            "time_ms": 61000 + seed,
            "value": 1,
            "metadata": {"status": "success"},
        },
    ]
    return "".join(f":::MLLOG {json.dumps(event)}\n" for event in events)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a source's folder with two logs and a file that is none."""
    named = {f"runs/{seed}/result.txt": log(seed) for seed in SEEDS}
    (text,) = pack_files({**named, "notes.txt": "nothing"})
    (tmp_path / "files.jsonl").write_text(text, encoding="utf-8")
    return tmp_path


def read(folder: Path, catalogue: Catalogue, logs: str) -> ImportResult:
    text = f"source: {{source_id: example}}\nlogs:\n  - {{importer: mlperf, {logs}}}\n"
    return import_source(folder, parse_mapping(text, origin="mapping.yaml"), catalogue)


def test_runs_of_several_folders_are_cited_by_their_place(
    folder: Path, catalogue: Catalogue
) -> None:
    result = read(folder, catalogue, "files: runs/*")
    rows = result.submission["observations"]
    assert [row["citations"][0]["locator"] for row in rows] == [
        "runs/7/result.txt",
        "runs/8/result.txt",
    ]
    assert result.submission["source"] == {"kind": "benchmark", "source_id": "example"}
    assert result.problems == ()
    assert all("files" not in row["provenance"] for row in rows)


def test_what_is_set_wins_defaults_fill_in_and_rules_choose(
    folder: Path, catalogue: Catalogue
) -> None:
    result = read(
        folder,
        catalogue,
        """files: runs/*, set: {seq_len: 4096, flags: [suspect]},
        defaults: {objective: dpo, data: {value: real, because: the rules}},
        rules: [{when: {file: 'runs/7/.*', method: lora}, set: {n_gpus: 8, run_id: first}}]""",
    )
    first, second = result.submission["observations"]
    assert first["configuration"]["seq_len"] == 4096
    assert "seq_len" not in first["inferences"]
    assert first["configuration"]["objective"] == "sft"
    assert first["inferences"]["data"] == "the rules"
    assert (first["configuration"]["n_gpus"], first["run_id"]) == (8, "first")
    assert "n_gpus" not in second["configuration"]
    assert second["flags"] == ["includes_evaluation", "suspect"]


def test_a_rule_leaves_runs_out(folder: Path, catalogue: Catalogue) -> None:
    result = read(
        folder,
        catalogue,
        "files: runs/*, rules: [{when: {file: 'runs/7/.*'}, leave_out: it stands elsewhere}]",
    )
    (left,) = result.submission["observations"]
    assert left["citations"][0]["locator"].startswith("runs/8/")
    assert not [note for note in result.notes if "rule" in note]


def test_null_takes_away_what_the_importer_states(folder: Path, catalogue: Catalogue) -> None:
    result = read(folder, catalogue, "files: runs/*, set: {seq_len: null}")
    (first, _) = result.submission["observations"]
    assert "seq_len" not in first["configuration"]
    assert "seq_len" not in first["inferences"]


def test_a_default_fills_in_the_model_only_where_a_log_names_none(
    folder: Path, catalogue: Catalogue
) -> None:
    said = "files: runs/*, defaults: {model_id: {value: qwen-7b, because: guess}}"
    rows = read(folder, catalogue, said).submission["observations"]
    assert {row["configuration"]["model_id"] for row in rows} == {"llama-2-70b"}
    (text,) = pack_files({"a.txt": log(7).replace("llama2_70b_lora", "other_lora")})
    (folder / "files.jsonl").write_text(text, encoding="utf-8")
    said = "defaults: {model_id: {value: qwen-7b, because: the page}, method: lora}"
    (row,) = read(folder, catalogue, said).submission["observations"]
    assert row["configuration"]["model_id"] == "qwen-7b"
    assert row["inferences"]["model_id"] == "the page"


def test_no_file_for_a_pattern_an_unknown_importer_and_no_packed_file_are_refused(
    folder: Path, catalogue: Catalogue
) -> None:
    with pytest.raises(SourceError, match="no file is named 'other/"):
        read(folder, catalogue, "files: other/*")
    mapping = parse_mapping("source: {source_id: a}\nlogs: [{importer: mlperff}]", origin="m")
    with pytest.raises(SourceError, match=r"unknown importer 'mlperff'.*did you mean 'mlperf'"):
        import_source(folder, mapping, catalogue)
    (folder / "files.jsonl").unlink()
    with pytest.raises(SourceError, match=r"found no files\*\.jsonl"):
        read(folder, catalogue, "files: '*'")


def test_a_mapping_reads_tables_or_logs() -> None:
    for body in ("", "tables: [{match: {}}]\nlogs: [{importer: mlperf}]\n"):
        with pytest.raises(SourceError, match="of tables and logs; expected one of them"):
            parse_mapping(f"source: {{source_id: a}}\n{body}", origin="m")


def test_a_rule_that_matches_no_run_is_told(folder: Path, catalogue: Catalogue) -> None:
    rules = (
        "rules: [{when: {file: runs/7/.*}, set: {n_gpus: 8}}, "
        "{when: {file: run/8/.*}, set: {n_gpus: 4}}]"
    )
    notes = read(folder, catalogue, f"files: runs/*, {rules}").notes
    assert [note for note in notes if "rule" in note] == [
        "logs of mlperf: the rule for file 'run/8/.*' matched no run"
    ]
