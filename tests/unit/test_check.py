"""`registry check`: each broken promise is named, and no other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from registry.catalogue import Catalogue
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import Folder
from registry.store.journal import entry_path, write_entry
from registry.store.manifest import manifest_path, read_manifest
from registry.store.parts import hash_file
from registry.submission.identity import canonical_json, document_id, row_id
from registry.submission.prepare import Prepared, prepare_submission

if TYPE_CHECKING:
    from pathlib import Path


def build_submission(number: int) -> Prepared:
    document = {
        "source": {"source_id": "src"},
        "models": [{"model_id": "tiny", "n_params": 1_000}],
        "gpus": [{"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}],
        "observations": [
            {
                "outcome": "ok",
                "run_id": f"run-{number}",
                "configuration": {
                    "model_id": "tiny",
                    "method": "lora",
                    "gpu_id": "gpu-a",
                    "n_gpus": 1,
                },
                "environment": {"framework": "trl"},
                "measurements": [
                    {"metric": "peak_memory", "kind": "reserved", "value": 2e9},
                    {"metric": "step_time", "value": 1.5},
                ],
                "citations": [{"locator": f"row {number}"}],
                "samples": [{"step": 1, "seconds": 1.5}],
            }
        ],
    }
    return prepare_submission(document, Catalogue(), origin="test")


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Return a sound registry: two folded observations, one pending."""
    registry = Folder(tmp_path / "registry")
    registry.tables.mkdir(parents=True)
    registry.journal.mkdir()
    for number in range(3):
        prepared = build_submission(number)
        write_entry(registry, prepared.submission_id, prepared.text)
        if number == 1:
            fold(registry)
    return registry


def table_path(folder: Folder, table: str) -> Path:
    return folder.tables / read_manifest(folder).files(table)[0]


def rewrite(folder: Folder, table: str, new: pa.Table) -> None:
    """Replace a table's file, with the manifest's hash and number of rows set right."""
    path = table_path(folder, table)
    pq.write_table(new, path)
    manifest = manifest_path(folder, 1)
    document = json.loads(manifest.read_text(encoding="utf-8"))
    for files in (document["whole"], *(part["tables"] for part in document["parts"])):
        if table in files:
            files[table] |= {"sha256": hash_file(path), "rows": new.num_rows}
    manifest.write_text(json.dumps(document), encoding="utf-8")


def edit(folder: Folder, table: str, column: str, value: Any) -> None:
    """Set one value of the first row of a table."""
    old = pq.read_table(table_path(folder, table))
    rows = old.to_pylist()
    rows[0][column] = value
    rewrite(folder, table, pa.Table.from_pylist(rows, schema=old.schema))


def broken(folder: Folder) -> list[str]:
    """Return the promises that a check finds broken, each once."""
    return list(dict.fromkeys(problem.promise for problem in check_registry(folder).problems))


def test_a_sound_registry_has_no_problems(folder: Folder) -> None:
    report = check_registry(folder)
    assert report.problems == ()
    assert report.is_sound
    assert report.hints == ()
    assert report.counts == {
        "citations": 2,
        "configurations": 1,
        "environments": 1,
        "gpus": 1,
        "journal": 1,
        "measurements": 4,
        "models": 1,
        "observations": 2,
        "samples": 2,
        "sources": 1,
        "submissions": 2,
    }


def test_an_empty_registry_is_sound(tmp_path: Path) -> None:
    (tmp_path / "journal").mkdir()
    assert check_registry(Folder(tmp_path)).problems == ()


def test_a_damaged_manifest_is_named(folder: Folder) -> None:
    manifest_path(folder, 1).write_text("{", encoding="utf-8")
    assert broken(folder) == ["manifest"]


def test_a_flipped_byte_is_named(folder: Folder) -> None:
    path = table_path(folder, "measurements")
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    (problem,) = check_registry(folder).problems
    assert problem.promise == "files"
    assert problem.place == f"tables/{path.name}"
    assert "restore the file from a backup" in problem.message


def test_a_missing_file_is_named(folder: Folder) -> None:
    path = table_path(folder, "samples")
    path.unlink()
    (problem,) = check_registry(folder).problems
    assert str(problem) == (
        f"files: tables/{path.name}: found no such file; restore the file from a backup, or "
        "rebuild the registry from an export"
    )


def test_another_type_is_named(folder: Folder) -> None:
    old = pq.read_table(table_path(folder, "samples"))
    place = old.schema.get_field_index("step")
    rewrite(folder, "samples", old.set_column(place, "step", old.column("step").cast(pa.int32())))
    (problem,) = check_registry(folder).problems
    assert problem.promise == "schema"
    assert "samples.step: found type int32; expected int64" in problem.message


def test_another_number_of_rows_is_named(folder: Folder) -> None:
    path = manifest_path(folder, 1)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["parts"][0]["tables"]["samples"]["rows"] = 7
    path.write_text(json.dumps(document), encoding="utf-8")
    (problem,) = check_registry(folder).problems
    assert (problem.promise, problem.message[:31]) == ("schema", "found 2 rows; expected 7; resto")


def test_a_value_outside_the_contract_is_named(folder: Folder) -> None:
    edit(folder, "samples", "seconds", -1.0)
    problems = [p for p in check_registry(folder).problems if p.promise == "contract"]
    assert len(problems) == 1
    assert "found seconds = -1.0; expected at least 0" in problems[0].message


def test_a_changed_configuration_is_named(folder: Folder) -> None:
    edit(folder, "configurations", "lora_rank", 5)
    assert "identity" in broken(folder)


def test_a_changed_figure_is_named(folder: Folder) -> None:
    edit(folder, "measurements", "value", 1.0)
    found = broken(folder)
    assert found[0] == "identity"
    assert set(found) <= {"identity", "results"}


def test_a_changed_sample_is_named_as_not_rebuilt(folder: Folder) -> None:
    edit(folder, "samples", "seconds", 9.0)
    assert broken(folder) == ["rebuild"]


def test_a_lost_citation_is_named_as_not_rebuilt(folder: Folder) -> None:
    old = pq.read_table(table_path(folder, "citations"))
    rewrite(folder, "citations", old.slice(1))
    assert broken(folder) == ["rebuild", "results"]


def test_a_changed_source_is_named_as_not_rebuilt(folder: Folder) -> None:
    edit(folder, "sources", "title", "another title")
    assert broken(folder) == ["rebuild"]


def test_a_reference_to_nothing_is_named(folder: Folder) -> None:
    old = pq.read_table(table_path(folder, "environments")).to_pylist()[0]
    row = {**old, "os": "Linux"}
    row["environment_id"] = row_id("environments", row)
    schema = pq.read_schema(table_path(folder, "environments"))
    rewrite(folder, "environments", pa.Table.from_pylist([row], schema=schema))
    found = [p for p in check_registry(folder).problems if p.promise == "references"]
    assert len(found) == 1
    assert f"found environment_id {old['environment_id']!r}" in found[0].message


def test_a_key_that_stands_twice_is_named(folder: Folder) -> None:
    old = pq.read_table(table_path(folder, "samples"))
    rewrite(folder, "samples", old.take([0, 0, 1]))
    (problem,) = [p for p in check_registry(folder).problems if p.promise == "contract"]
    assert "expected each key once" in problem.message


def test_a_key_in_two_parts_is_named(folder: Folder) -> None:
    path = manifest_path(folder, 1)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["parts"] = document["parts"] * 2
    path.write_text(json.dumps(document), encoding="utf-8")
    keys = [p for p in check_registry(folder).problems if p.promise == "keys"]
    assert "in two parts; expected it once" in keys[0].message


def test_a_peak_over_the_card_is_named(folder: Folder) -> None:
    edit(folder, "gpus", "memory_bytes", 10**9)
    assert broken(folder) == ["rules", "catalogue", "results"]


def test_an_id_file_without_an_id_is_named(folder: Folder) -> None:
    path = folder.tables / read_manifest(folder).parts[0].ids
    path.write_bytes(path.read_bytes()[16:])
    assert broken(folder) == ["ids"]


def test_a_changed_catalogue_is_named(folder: Folder) -> None:
    path = folder.tables / str(read_manifest(folder).catalogue)
    document = json.loads(path.read_text(encoding="utf-8"))
    document["models"][0]["n_params"] = 2_000
    path.write_text(canonical_json(document) + "\n", encoding="utf-8")
    assert broken(folder) == ["catalogue", "journal"]  # a pending entry describes it as it was


def test_a_document_of_another_hash_is_named(folder: Folder) -> None:
    old = pq.read_table(table_path(folder, "submissions")).to_pylist()[0]
    edit(folder, "submissions", "document", old["document"].replace("1.5", "1.6"))
    assert broken(folder)[0] == "documents"


def test_results_that_the_view_does_not_give_are_named(folder: Folder) -> None:
    edit(folder, "results", "seconds_per_step", 99.0)
    (problem,) = check_registry(folder).problems
    assert problem.promise == "results"
    assert "found values of 'seconds_per_step' other than the view gives" in problem.message


def test_a_wrong_number_of_citations_is_named(folder: Folder) -> None:
    edit(folder, "results", "n_citations", 5)
    (problem,) = check_registry(folder).problems
    assert problem.promise == "results"
    assert problem.message.startswith("found n_citations 5; expected 1;")


def test_a_truncated_journal_entry_is_named(folder: Folder) -> None:
    path = entry_path(folder, build_submission(2).submission_id)
    path.write_text(path.read_text(encoding="utf-8")[:-3], encoding="utf-8")
    (problem,) = check_registry(folder).problems
    assert problem.promise == "journal"
    assert str(path) in problem.message


def test_an_invalid_pending_document_is_named(folder: Folder) -> None:
    document = build_submission(7).document
    document["observations"][0]["measurements"] = []
    text = canonical_json(document)
    write_entry(folder, document_id(text), text)
    (problem,) = check_registry(folder).problems
    assert problem.promise == "journal"
    assert "an observation with outcome ok has at least one measurement" in problem.message


def test_a_pending_document_in_another_form_is_named(folder: Folder) -> None:
    text = json.dumps(build_submission(7).document, indent=1)
    write_entry(folder, document_id(text), text)
    (problem,) = check_registry(folder).problems
    assert problem.promise == "journal"
    assert "not in canonical form" in problem.message


def test_what_a_killed_process_left_is_a_hint(folder: Folder) -> None:
    (folder.tables / "measurements-0123.parquet").write_bytes(b"")
    report = check_registry(folder)
    assert report.problems == ()
    assert len(report.hints) == 1
    assert "`registry fold` removes it" in report.hints[0]
