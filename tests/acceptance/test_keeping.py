"""Commands that keep a registry: init, fold, prune, check, export, doctor, build."""

from __future__ import annotations

import csv
import hashlib
import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from registry.contract import TABLES, view_names

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]
    Submission = Callable[..., dict[str, Any]]
    Snapshot = Callable[[Path], dict[str, bytes | None]]

CHECKOUT = Path(__file__).parents[2]
ALL = ("--registry", "mine")


@pytest.fixture
def pending(run: Run, registry: Path, write: Write, submission: Submission) -> Path:
    """Return a registry with one pending submission."""
    write("a.json", submission())
    assert run("add", "a.json", *ALL).returncode == 0
    return registry


def count(run: Run, registry: str) -> int:
    done = run("query", "select count(*) from observations", "--registry", registry)
    return int(done.stdout.split()[1])


def test_init_creates_a_registry_beside_which_the_curated_records_are_read(
    run: Run, work: Path
) -> None:
    done = run("init", "new")
    assert done.stdout == "created new; the curated records are read alongside it\n"
    assert done.stderr == (
        "plans of trials to run or to change are in new/plans\n"
        "use it with --registry new, or REGISTRY_PATH=new\n"
    )
    plans = list((work / "new" / "plans").iterdir())
    assert plans
    for plan in plans:
        assert plan.read_bytes() == (CHECKOUT / "records" / "plans" / plan.name).read_bytes()
    assert count(run, "new") > 200
    assert sorted(path.name for path in work.iterdir()) == ["new"]


def test_a_name_that_a_shell_would_split_is_shown_as_it_can_be_pasted(run: Run) -> None:
    done = run("init", "my reg")
    assert done.returncode == 0
    assert done.stderr.endswith("use it with --registry 'my reg', or REGISTRY_PATH='my reg'\n")
    missing = run("fold", "--registry", "your reg")
    assert "`registry init 'your reg'`" in missing.stderr


@pytest.mark.parametrize(
    "line",
    [
        ["init", "file://team"],
        ["query", "select 1", "--registry", "file://team"],
        ["sync", "mine", "file://team"],
    ],
)
def test_an_address_of_a_file_that_is_not_absolute_is_refused(run: Run, line: list[str]) -> None:
    done = run(*line)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: file://team: found two slashes before a name; expected ")


def test_init_empty_knows_models_and_gpus_only(run: Run) -> None:
    assert run("init", "new", "--empty").stdout == "created new\n"
    sql = "select (select count(*) from models) as m, (select count(*) from gpus) as g"
    models, gpus = run("query", sql, "--registry", "new").stdout.split()[1].split(",")
    assert int(models) > 10
    assert int(gpus) > 10
    assert count(run, "new") == 0
    assert run("check", "--registry", "new").returncode == 0


def test_init_fills_an_empty_folder_that_a_shell_stands_in(run: Run, work: Path) -> None:
    inode = work.stat().st_ino
    assert run("init", ".").returncode == 0
    assert work.stat().st_ino == inode
    assert sorted(path.name for path in work.iterdir()) == [
        ".gitignore",
        "journal",
        "plans",
        "registry.json",
        "tables",
    ]
    assert run("check", "--registry", ".").returncode == 0


def test_init_leaves_alone_what_is_there(
    run: Run, work: Path, registry: Path, snapshot: Snapshot
) -> None:
    (work / "notes").mkdir()
    (work / "notes" / "a.txt").write_text("mine")
    before = snapshot(work)
    there = run("init", "notes")
    assert (there.returncode, there.stderr) == (
        1,
        (
            "error: notes: found something there already; expected no such folder, or an empty "
            "one; name another, or remove it\n"
        ),
    )
    again = run("init", registry.name)
    assert (again.returncode, again.stderr) == (
        1,
        "error: mine: is already a registry; expected a folder to create; nothing to do\n",
    )
    assert snapshot(work) == before


def test_fold_moves_what_is_pending_into_the_tables(run: Run, pending: Path) -> None:
    before = count(run, "mine")
    done = run("fold", *ALL)
    assert (done.returncode, done.stdout) == (
        0,
        "folded 1 submission, 1 new observation; version 2\n",
    )
    assert list((pending / "journal").iterdir()) == []
    assert count(run, "mine") == before


def test_fold_with_nothing_pending_changes_nothing(
    run: Run, registry: Path, snapshot: Snapshot
) -> None:
    before = snapshot(registry)
    done = run("fold", *ALL)
    assert done.stdout == "folded 0 submissions, 0 new observations; version 1\n"
    assert snapshot(registry) == before


def test_fold_all_merges_into_one_part(run: Run, pending: Path) -> None:
    run("fold", *ALL)
    assert len(list(pending.glob("tables/parts/*/observations.parquet"))) == 2
    run("fold", "--all", *ALL)
    run("prune", *ALL)
    assert len(list(pending.glob("tables/parts/*/observations.parquet"))) == 1
    assert run("check", *ALL).returncode == 0


def test_prune_removes_old_versions_and_their_files(run: Run, pending: Path) -> None:
    run("fold", *ALL)
    run("fold", "--all", *ALL)
    assert len(list(pending.glob("tables/manifest-*.json"))) == 3
    assert run("prune", "--keep", "2", *ALL).stdout == "removed version 1\n"
    assert run("prune", *ALL).stdout == "removed version 2\n"
    assert run("prune", *ALL).stdout == "nothing to prune\n"
    assert run("query", "select 1", "--at", "1", *ALL).returncode == 1
    assert run("check", *ALL).returncode == 0


def test_prune_keeps_at_least_the_newest(run: Run, registry: Path, snapshot: Snapshot) -> None:
    before = snapshot(registry)
    assert run("prune", "--keep", "0", *ALL).returncode == 2
    assert snapshot(registry) == before


def test_check_calls_a_sound_registry_sound(run: Run, pending: Path) -> None:
    done = run("check", *ALL)
    assert done.returncode == 0
    assert done.stdout.startswith("mine: sound (")
    document = json.loads(run("check", "-f", "json", *ALL).stdout)
    assert document["problems"] == []
    assert document["counts"]["journal"] == 1
    assert pending.is_dir()


def test_check_in_a_checkout_says_how_the_curated_records_are_checked(
    run: Run, few_records: Path
) -> None:
    checkout = few_records.parent
    hint = "`registry check --registry records`"
    done = run("check", cwd=checkout)
    assert done.returncode == 0
    assert done.stdout.endswith("/peft-registry/records: sound\n")
    assert hint in done.stderr
    machine = run("check", "-f", "json", cwd=checkout)
    assert json.loads(machine.stdout)["problems"] == []
    assert hint in machine.stderr
    done = run("check", "--registry", "records", cwd=checkout)
    assert done.stdout.startswith("records: ")
    assert hint not in done.stderr
    assert hint not in run("check").stderr


def test_check_names_a_damaged_file(run: Run, registry: Path) -> None:
    path = next(registry.glob("tables/parts/*/observations.parquet"))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    done = run("check", *ALL)
    assert done.returncode == 1
    assert path.name in done.stdout
    assert json.loads(run("check", "-f", "json", *ALL).stdout)["problems"]


def test_documents_are_exported_as_lines_that_can_be_added(
    run: Run, write: Write, submission: Submission, work: Path
) -> None:
    run("init", "first", "--empty")
    names = []
    for number, label in enumerate(("main", "main", "other")):
        document = submission(number)
        document["observations"][0]["provenance"] = {"label": label}
        names.append(write(f"{number}.json", document).name)
    assert run("add", *names, "--registry", "first").returncode == 0
    done = run("export", "main.jsonl", "--label", "main", "--registry", "first")
    assert done.stdout == "exported to main.jsonl: 2 observations in 2 documents\n"
    run("init", "second", "--empty")
    assert run("add", "main.jsonl", "--registry", "second").returncode == 0
    assert count(run, "second") == 2
    assert run("export", "again.jsonl", "--registry", "second").returncode == 0
    assert (work / "again.jsonl").read_bytes() == (work / "main.jsonl").read_bytes()


def test_an_export_of_documents_counts_an_observation_once_and_names_what_comes_along(
    run: Run, write: Write, submission: Submission
) -> None:
    run("init", "first", "--empty")
    document = submission()
    (observation,) = document["observations"]
    main, other, bare = (
        {**observation, "run_id": name, **({"provenance": {"label": name}} if name else {})}
        for name in ("main", "other", "")
    )
    del bare["run_id"]
    write("a.json", {**document, "observations": [main, other, bare]})
    write("b.json", {**document, "observations": [bare]})
    assert run("add", "a.json", "b.json", "--registry", "first").returncode == 0
    done = run("export", "all.jsonl", "--registry", "first")
    assert done.stdout == "exported to all.jsonl: 3 observations in 2 documents\n"
    done = run("export", "main.jsonl", "--label", "main", "--registry", "first")
    assert done.stdout == "exported to main.jsonl: 1 observation in 1 document\n"
    assert done.stderr == (
        "warning: 2 observations without the label 'main' came along: "
        "a document is exported whole\n"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["a.jsonl", "--label", "x"], "label 'x': no run has it; registry environments lists the "),
        (["folder", "--label", "x"], "--label chooses documents; expected a file: FILE.jsonl"),
        (["registry-a.jsonl"], "is that of a recorder's own file; expected another one"),
        (["mine/journal/a.jsonl"], "lies in the registry"),
    ],
)
def test_documents_that_cannot_be_exported_leave_no_file(
    run: Run, pending: Path, arguments: list[str], message: str
) -> None:
    done = run("export", *arguments, *ALL)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr
    assert not list(pending.parent.glob("**/*a.jsonl"))


def test_a_parquet_export_is_a_file_for_each_table_and_a_manifest(run: Run, pending: Path) -> None:
    done = run("export", "out", *ALL)
    assert done.returncode == 0
    out = pending.parent / "out"
    assert {path.name for path in out.iterdir()} == {
        *("manifest.json", "README.md", "croissant.json", "CITATION.cff", "results.parquet"),
        *(f"{name}.parquet" for name in TABLES),
    }
    manifest = json.loads((out / "manifest.json").read_text())
    for name, entry in manifest["tables"].items():
        assert pq.read_metadata(out / entry["file"]).num_rows == entry["rows"]
        assert f"{entry['rows']} {name}" in done.stdout


def test_an_export_added_to_an_empty_registry_gives_the_same(
    run: Run, work: Path, few_records: Path, write: Write, submission: Submission
) -> None:
    run("init", "mine", "--empty")
    run("export", "few", "--registry", str(few_records))
    run("add", "few", *ALL)
    run("fold", *ALL)
    run("add", str(write("a.json", submission())), *ALL)
    run("export", "out", *ALL)
    run("init", "other", "--empty")
    n_observations = count(run, "mine")
    n_submissions = pq.read_metadata(work / "out" / "submissions.parquet").num_rows
    of_all = f"of {n_observations} observations of out, in"
    done = run("add", "out", "--registry", "other")
    assert (done.returncode, done.stdout) == (
        0,
        f"added {n_observations} {of_all} {n_submissions} submissions\n",
    )
    again = run("add", "out", "--registry", "other")
    assert again.stdout == f"added 0 {of_all} 0 submissions\n"
    assert run("check", "--registry", "other").returncode == 0
    run("export", "again", "--registry", "other")
    for name in TABLES:
        first, second = (
            pq.read_table(work / folder / f"{name}.parquet") for folder in ("out", "again")
        )
        assert first.equals(second), name


def test_an_export_as_of_a_version_leaves_out_what_is_pending(run: Run, pending: Path) -> None:
    run("export", "out", "--at", "1", *ALL)
    rows = pq.read_metadata(pending.parent / "out" / "observations.parquet").num_rows
    assert rows == count(run, "mine") - 1


def test_a_csv_export_holds_tables_and_views(run: Run, pending: Path) -> None:
    done = run("export", "out", "-f", "csv", *ALL)
    assert done.returncode == 0
    out = pending.parent / "out"
    assert {path.stem for path in out.iterdir()} == {*TABLES, *view_names()}
    with (out / "results.csv").open(newline="") as file:
        n_results = len(list(csv.DictReader(file)))
    n_retracted = len((out / "retractions.csv").read_text().splitlines()) - 1
    assert n_results == count(run, "mine") - n_retracted


@pytest.mark.parametrize("name", ["parquet", "csv"])
def test_an_export_does_not_overwrite(
    run: Run, registry: Path, snapshot: Snapshot, name: str
) -> None:
    (registry.parent / "out").mkdir()
    (registry.parent / "out" / "a.txt").write_text("mine")
    before = snapshot(registry.parent)
    done = run("export", "out", "-f", name, *ALL)
    assert (done.returncode, done.stdout, done.stderr) == (
        1,
        "",
        (
            "error: out: found something there already; expected no such folder, or an empty one; "
            "name another, or remove it\n"
        ),
    )
    assert snapshot(registry.parent) == before


@pytest.mark.parametrize("name", ["parquet", "csv"])
def test_an_export_fills_an_empty_folder(run: Run, registry: Path, name: str) -> None:
    (registry.parent / "out").mkdir()
    assert run("export", "out", "-f", name, *ALL).returncode == 0
    assert not [path for path in (registry.parent / "out").iterdir() if path.name[0] == "."]


def test_a_dry_run_of_an_export_says_what_is_new_and_writes_nothing(
    run: Run, registry: Path, snapshot: Snapshot
) -> None:
    run("export", "out", *ALL)
    before = snapshot(registry)
    done = run("add", "out", "--dry-run", *ALL)
    n_observations = count(run, "mine")
    assert (done.returncode, done.stdout) == (
        0,
        f"would add 0 of {n_observations} observations of out, in 0 submissions\n",
    )
    assert snapshot(registry) == before


def test_a_damaged_export_is_refused_and_nothing_written(
    run: Run, registry: Path, snapshot: Snapshot
) -> None:
    run("export", "out", *ALL)
    run("init", "other", "--empty")
    path = registry.parent / "out" / "measurements.parquet"
    path.write_bytes(path.read_bytes()[:1000])
    before = snapshot(registry.parent / "other")
    done = run("add", "out", "--registry", "other")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error: out")
    assert snapshot(registry.parent / "other") == before


def test_doctor_tells_what_is_installed_and_which_registry_is_used(
    run: Run, registry: Path
) -> None:
    done = run("doctor", *ALL)
    assert done.returncode == 0
    assert "peft-registry: " in done.stdout
    document = json.loads(run("doctor", "-f", "json", *ALL).stdout)
    assert document["registry"]["path"] == registry.name
    assert document["registry"]["chosen by"] == "--registry"
    assert document["packages"]["duckdb"]
    assert document["problems"] == []


def test_doctor_counts_the_observations_that_a_query_sees(run: Run, pending: Path) -> None:
    for command in ("doctor", "fold", "doctor"):
        done = run(command, *ALL)
        assert done.returncode == 0
        if command == "doctor":
            assert f"observations         {count(run, pending.name)}\n" in done.stdout


def test_doctor_tells_by_what_the_curated_tables_are_cited(run: Run) -> None:
    done = run("doctor", "-f", "json", "--registry", str(CHECKOUT / "records"))
    manifest = (CHECKOUT / "records" / "tables" / "manifest.json").read_bytes()
    cited = json.loads(done.stdout)["registry"]["curated tables"]
    assert cited == hashlib.sha256(manifest).hexdigest()


def test_doctor_reports_a_missing_registry_as_a_problem(run: Run) -> None:
    done = run("doctor", "--registry", "nowhere")
    assert done.returncode == 1
    assert "problem: nowhere: no such folder; expected a registry;" in done.stdout


def test_build_check_names_what_differs_and_writes_nothing(
    run: Run, work: Path, few_records: Path, snapshot: Snapshot
) -> None:
    shutil.copytree(few_records, work / "copy")
    path = next((work / "copy" / "tables").glob("observations.parquet"))
    path.write_bytes(b"other")
    before = snapshot(work / "copy")
    done = run("build", "--check", "--registry", "copy")
    assert done.returncode == 1
    assert done.stdout.splitlines()[1:] == [f"  {path.name}"]
    assert snapshot(work / "copy") == before
    assert run("build", "--registry", "copy").returncode == 0
    assert run("build", "--check", "--registry", "copy").returncode == 0


def test_build_needs_a_checkout(run: Run, registry: Path) -> None:
    done = run("build", "--check", "--no-curated", *ALL)
    assert registry.is_dir()
    assert (done.returncode, done.stderr) == (
        1,
        (
            "error: mine: no folder sources/; expected the curated records of a checkout; run the "
            "command in a checkout, or name its records/ with --registry\n"
        ),
    )


def test_an_erasure_says_which_files_it_did_not_search(run: Run, pending: Path) -> None:
    (pending / "journal" / f"{'0' * 64}.json").write_text("{")
    assert run("fold", *ALL).returncode == 1
    identity = run("ls", *ALL, "--no-curated", "-f", "csv").stdout.split()[1].split(",")[0]
    done = run("retract", identity, "--reason", "a test", "--erase", *ALL)
    assert done.stdout.startswith("erased ")
    assert done.stderr.splitlines()[-1] == (
        "warning: mine/quarantine: holds damaged files (1), which were not searched; look into "
        "them, and remove those that hold what you erased"
    )
