"""Registries of earlier releases, and of another contract, answer at once and lose nothing.

tests/fixtures/registry-0.1.0 was written by release 0.1.0 (commit 7f67462): three submissions in
one part, two observations in another that came as whole tables without a document, one pending.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
import yaml

from registry.api import Registry
from registry.errors import StoreError
from registry.store.check import check_registry
from registry.store.export import export_folder
from registry.store.fold import fold
from registry.store.folder import find_registry
from registry.store.legacy import legacy_files
from registry.store.manifest import list_versions
from registry.store.prune import prune
from registry.store.renamed import follow, read_renamed
from registry.store.repair import repair
from registry.store.state import read_state
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    make_registry,
    read_content,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[3]
OLD = ROOT / "tests" / "fixtures" / "registry-0.1.0"

RUNS = {f"old-{number}": 1 for number in (0, 1, 2, 10, 11, 21)}

#: What release 0.1.0 called the observations that it had folded.
OLD_IDS = sorted(
    row["observation_id"]
    for path in (OLD / "tables").glob("observations-*.parquet")
    for row in pq.read_table(path, partitioning=None).to_pylist()
)


@pytest.fixture
def old(tmp_path: Path) -> Registry:
    """Return a copy of the registry that release 0.1.0 wrote, without the curated records."""
    shutil.copytree(OLD, tmp_path / "old")
    return Registry(find_registry(tmp_path / "old", curated=False))


def test_the_fixture_holds_what_it_says() -> None:
    documents = [
        row["document"]
        for path in (OLD / "tables").glob("submissions-*.parquet")
        for row in pq.read_table(path, partitioning=None).to_pylist()
    ]
    assert len([text for text in documents if text]) == 3
    assert None in documents
    assert len(OLD_IDS) == 5
    assert len(list((OLD / "journal").iterdir())) == 1


def test_an_old_registry_is_read_as_it_is(old: Registry) -> None:
    assert count_runs(old.location) == RUNS
    content = read_content(old.location)
    models = {json.loads(text)["model_id"] for text in content["models"]}
    assert {"my-tiny", "my-other"} <= models
    assert len(content["results"]) == 6
    report = check_registry(old.location)
    assert report.problems == ()
    assert report.hints == (
        (
            "an earlier release wrote these tables: they are derived again on every read; "
            "`registry fold` rewrites them for good"
        ),
    )


def test_a_check_counts_the_rows_of_an_old_registry_as_after_a_fold(old: Registry) -> None:
    (entry,) = (old.path / "journal").iterdir()
    entry.unlink()
    before = check_registry(old.location).counts
    assert before["observations"] == len(OLD_IDS)
    old.fold()
    assert check_registry(old.location).counts == before


def test_folding_an_old_registry_changes_no_answer(old: Registry) -> None:
    before = read_content(old.location)
    old.fold()
    assert read_content(old.location) == before
    report = check_registry(old.location)
    assert (report.problems, report.hints) == ((), ())
    fold(old.location, rebuild=True)
    assert read_content(old.location) == before


def test_git_leaves_out_of_an_old_registry_what_it_leaves_out_of_a_new_one(old: Registry) -> None:
    old.fold()
    assert (old.path / ".gitignore").read_bytes() == b".lock\n.tmp-*\n"


def test_an_old_registry_is_added_to(old: Registry) -> None:
    document = build_document(1)
    document["observations"][0]["configuration"]["model_id"] = "my-other"
    assert old.add(document).is_new
    assert count_runs(old.location) == {**RUNS, "run-1": 1}
    old.fold()
    assert count_runs(old.location) == {**RUNS, "run-1": 1}
    assert not old.add(document).is_new


def test_an_old_registry_is_exported_and_the_export_added(old: Registry, tmp_path: Path) -> None:
    from registry.store.exported import read_exported  # noqa: PLC0415 - only here

    counts = export_folder(old.location, tmp_path / "out")
    assert counts["observations"] == 6
    other = make_registry(tmp_path / "other")
    other.add_many(document for _, document in read_exported(tmp_path / "out"))
    assert count_runs(other.location) == RUNS


def test_old_ids_lead_to_the_observations_of_today(old: Registry) -> None:
    today = {json.loads(text)["observation_id"] for text in read_content(old.location)["results"]}
    assert not today & set(OLD_IDS)
    old.fold()
    renamed = read_renamed(old.location)
    for identity in OLD_IDS:
        (found,) = follow(renamed, identity[:12])
        assert found in today
    assert old.retract(OLD_IDS[0][:10], reason="a test") in today


def test_prune_removes_the_old_tables_once_all_is_in_parts(old: Registry) -> None:
    folder = old.location.own
    prune(folder)
    assert legacy_files(folder)
    assert count_runs(old.location) == RUNS
    old.fold()
    assert prune(folder) == [2]
    assert legacy_files(folder) == []
    assert count_runs(old.location) == RUNS
    assert check_registry(old.location).problems == ()


@pytest.mark.parametrize("version", [1, 2])
def test_old_versions_answer_as_of_then(old: Registry, version: int) -> None:
    expected = {1: 3, 2: 5}[version]
    assert len(count_runs(old.location, at=version)) == expected
    old.fold()
    assert len(count_runs(old.location, at=version)) == expected


def remove_manifests(registry: Registry) -> None:
    for path in registry.location.own.tables.glob("manifest-*.json"):
        path.unlink()


def damage_manifest(registry: Registry) -> None:
    max(registry.location.own.tables.glob("manifest-*.json")).write_text('{"format": 1}')


def remove_a_table(registry: Registry) -> None:
    next(registry.location.own.tables.glob("samples-*.parquet")).unlink()


@pytest.mark.parametrize("damage", [remove_manifests, damage_manifest, remove_a_table])
def test_a_damaged_old_registry_is_refused_and_repaired(
    old: Registry, damage: Callable[[Registry], None]
) -> None:
    damage(old)
    with pytest.raises(StoreError, match="registry repair"):
        read_content(old.location)
    assert "registry repair" in str(check_registry(old.location).problems[0])
    repair(old.location)
    assert count_runs(old.location) == RUNS
    assert check_registry(old.location).problems == ()
    assert len(list_versions(old.location.own)) >= 1
    assert (old.path / ".gitignore").is_file()


# A contract with other columns, in a copy of the tree: what a later release will be.

_PROGRAM = """
import json
import sys
from pathlib import Path
import registry
from registry.store.check import check_registry
from registry.store.export import export_folder
from registry.store.fold import fold
from registry.store.folder import find_registry
from registry.store.prune import prune
assert registry.__file__.startswith(sys.argv[1])
db = registry.Registry(find_registry(sys.argv[2], curated=False))
exec(sys.argv[3])
"""


def change_contract(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> Path:
    """Return a copy of the tree in which the table of configurations has other columns.

    Compiled files come along: they hold for a copy of the same time and size.
    """
    tree = tmp_path / "tree"
    for name in ("registry", "cli", "schemas"):
        shutil.copytree(ROOT / name, tree / name)
    shutil.copytree(ROOT / "records" / "tables", tree / "registry" / "curated" / "tables")
    shutil.copy(ROOT / "CITATION.cff", tree / "registry" / "curated")
    path = tree / "schemas" / "tables" / "configurations.yaml"
    document = yaml.safe_load(path.read_text(encoding="utf-8"))
    change(document)
    path.write_text(yaml.safe_dump(document, sort_keys=False), encoding="utf-8")
    return tree


def run_there(tree: Path, path: Path, program: str) -> Any:
    """Run statements in the changed tree on a registry ``db``; return the JSON they print."""
    environment = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "REGISTRY_PATH")}
    environment |= {"PYTHONPATH": f"{tree}{os.pathsep}{tree / 'cli'}"}
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(tree), str(path), program],
        capture_output=True,
        text=True,
        env=environment,
        cwd=tree,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def add_column(document: dict[str, Any]) -> None:
    column = {"name": "fp8_recipe", "type": "string", "meaning": "Recipe of FP8 training."}
    document["columns"].append(column)


_ADD_NEW = """
document = json.loads(Path(db.path, "document.json").read_text())
document["observations"][0]["configuration"]["fp8_recipe"] = "delayed"
assert db.add(document).is_new
"""
_TELL = """
counts = export_folder(db.location, Path(db.path, "..", "out-" + NAME))
rows = db.query(
    "select run_id, fp8_recipe from observations join configurations using (configuration_id) "
    "order by all").rows()
print(json.dumps({"rows": [list(row.values()) for row in rows],
    "n_results": len(db.query("from results")), "exported": counts["observations"],
    "problems": [str(problem) for problem in check_registry(db.location).problems]}))
"""


@pytest.mark.parametrize("is_old", [True, False], ids=["0.1.0", "today"])
def test_a_new_nullable_column_works_on_every_registry_without_a_refold(
    tmp_path: Path, *, is_old: bool
) -> None:
    if is_old:
        shutil.copytree(OLD, tmp_path / "r")
        before = sorted(RUNS)
    else:
        db = make_registry(tmp_path / "r")
        add_numbers(db, 0)
        db.fold()
        add_numbers(db, 2)
        before = ["run-0", "run-2"]
    (tmp_path / "r" / "document.json").write_text(json.dumps(build_document(1)), encoding="utf-8")
    tree = change_contract(tmp_path, add_column)
    expected: dict[str, Any] = {
        "rows": sorted([*([run, None] for run in before), ["run-1", "delayed"]]),
        "n_results": len(before) + 1,
        "exported": len(before) + 1,
        "problems": [],
    }
    for name, step in (
        ("a", _ADD_NEW),
        ("b", "db.fold()"),
        ("c", "fold(db.location, rebuild=True)"),
    ):
        program = f"NAME = {name!r}\n{step}\n{_TELL}"
        assert run_there(tree, tmp_path / "r", program) == expected, step
    run_there(tree, tmp_path / "r", "prune(db.location.own); print(1)")
    assert run_there(tree, tmp_path / "r", f"NAME = 'd'\n{_TELL}") == expected


def remove_column(document: dict[str, Any]) -> None:
    document["columns"] = [c for c in document["columns"] if c["name"] != "padding_free"]


def retype_column(document: dict[str, Any]) -> None:
    for column in document["columns"]:
        if column["name"] == "padding_free":
            column |= {"type": "int64", "min": 0, "max": 10}


@pytest.mark.parametrize("change", [remove_column, retype_column])
def test_a_removed_or_retyped_column_is_answered_or_the_command_is_named(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    db = make_registry(tmp_path / "r")
    document = build_document(0)
    document["observations"][0]["configuration"]["padding_free"] = True
    db.add(document)
    db.fold()
    tree = change_contract(tmp_path, change)
    tell = 'print(json.dumps([r["run_id"] for r in db.query("from observations").rows()]))'
    assert run_there(tree, tmp_path / "r", tell) == ["run-0"]
    hints = run_there(
        tree, tmp_path / "r", "print(json.dumps(list(check_registry(db.location).hints)))"
    )
    assert "`registry fold --all` rewrites them for good" in hints[0]
    assert run_there(tree, tmp_path / "r", f"fold(db.location, rebuild=True)\n{tell}") == ["run-0"]
    hints = run_there(
        tree, tmp_path / "r", "print(json.dumps(list(check_registry(db.location).hints)))"
    )
    refused = "configuration.padding_free: found True; expected an integer: it is kept, because an"
    assert [refused in hint for hint in hints] == ([True] if change is retype_column else [])
    assert len(read_state(db.location.own).parts) == 1


def test_a_repair_leaves_documents_with_a_removed_column_where_they_are(tmp_path: Path) -> None:
    db = make_registry(tmp_path / "r")
    document = build_document(0)
    document["observations"][0]["configuration"]["padding_free"] = True
    db.add(document)
    db.fold()
    tree = change_contract(tmp_path, remove_column)
    repaired = (
        "from registry.store.repair import repair\n"
        "notes = repair(db.location).notes\n"
        'runs = [r["run_id"] for r in db.query("from observations").rows()]\n'
        "print(json.dumps([runs, notes]))"
    )
    assert run_there(tree, tmp_path / "r", repaired) == [["run-0"], []]
    for manifest in (tmp_path / "r" / "tables").glob("manifest-*"):
        manifest.unlink()
    assert run_there(tree, tmp_path / "r", repaired)[0] == ["run-0"]
    (row,) = db.query("from submissions").rows()
    assert '"padding_free":true' in row["document"]


def narrow_the_rank(document: dict[str, Any]) -> None:
    for column in document["columns"]:
        if column["name"] == "lora_rank":
            column["max"] = 4


def make_rank_a_word(document: dict[str, Any]) -> None:
    for column in document["columns"]:
        if column["name"] == "lora_rank":
            del column["min"], column["max"]
            column |= {"type": "string", "max_length": 10}


@pytest.mark.parametrize("change", [narrow_the_rank, make_rank_a_word])
@pytest.mark.parametrize("steps", [("repair", "repair"), ("fold", "prune", "repair", "fold")])
def test_documents_that_were_valid_when_recorded_stay_in_the_answers(
    tmp_path: Path, change: Callable[[dict[str, Any]], None], steps: tuple[str, ...]
) -> None:
    db = make_registry(tmp_path / "r")
    for number in range(3):
        add_numbers(db, number)
        db.fold()
    tree = change_contract(tmp_path, change)
    commands = {
        "repair": "from registry.store.repair import repair\nrepair(db.location)",
        "fold": "fold(db.location, rebuild=True)",
        "prune": "prune(db.location.own)",
    }
    look = (
        "\nruns = [row['run_id'] for row in db.query('from observations order by run_id').rows()]"
        "\nassert len(db.query('from results')) == 3"
        "\nfound.append([runs, [str(p) for p in check_registry(db.location).problems]])"
    )
    done = "\n".join(commands[step] + look for step in steps)
    hints = "\nprint(json.dumps([*found, check_registry(db.location).hints]))"
    *found, left = run_there(tree, tmp_path / "r", f"found = []\n{done}{hints}")
    assert found == [[["run-0", "run-1", "run-2"], []]] * len(steps)
    (hint,) = left
    assert "observations[0].configuration.lora_rank: found" in hint
    assert hint.endswith(": it is kept, because an earlier contract accepted it; so do 2 more")
    assert not (tmp_path / "r" / "quarantine").exists()


def make_rank_a_float(document: dict[str, Any]) -> None:
    for column in document["columns"]:
        if column["name"] == "lora_rank":
            column["type"] = "float64"


@pytest.mark.parametrize("change", [remove_column, make_rank_a_float])
def test_a_repair_under_another_contract_leaves_a_sound_registry_and_follows_old_ids(
    tmp_path: Path, change: Callable[[dict[str, Any]], None]
) -> None:
    db = make_registry(tmp_path / "r")
    old_ids: list[str] = []
    for number in range(8):  # the last fold merges all parts, which earlier versions name
        document = build_document(number)
        document["observations"][0]["configuration"]["padding_free"] = True
        old_ids += db.add(document).observation_ids
        db.fold()
    tree = change_contract(tmp_path, change)
    repaired = (
        "from registry.store.repair import repair\n"
        "repair(db.location)\n"
        "ids = sorted(row['observation_id'] for row in db.query('from observations').rows())\n"
        "print(json.dumps([ids, [str(p) for p in check_registry(db.location).problems]]))"
    )
    ids, problems = run_there(tree, tmp_path / "r", repaired)
    assert problems == []
    renamed = read_renamed(db.location)
    assert sorted(renamed.get(one, one) for one in old_ids) == ids
    assert bool(renamed) == (change is make_rank_a_float)
    assert run_there(tree, tmp_path / "r", repaired) == [ids, []]


@pytest.mark.parametrize("has_description", [True, False])
def test_the_part_of_a_fold_that_was_killed_hides_nothing_of_an_old_registry(
    old: Registry, tmp_path: Path, *, has_description: bool
) -> None:
    killed = Registry(find_registry(shutil.copytree(OLD, tmp_path / "killed"), curated=False))
    old.fold()
    shutil.copytree(old.location.own.parts, killed.location.own.parts)
    if not has_description:  # killed before that was written, which comes last
        for part in killed.location.own.parts.iterdir():
            (part / "part.json").unlink()
    assert read_state(killed.location.own).is_legacy
    assert count_runs(killed.location) == RUNS
    killed.fold()
    assert count_runs(killed.location) == RUNS
