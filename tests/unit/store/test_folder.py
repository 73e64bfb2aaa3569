"""Folders: which one is the registry, and what is said of one that is none."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from registry.api import Registry
from registry.errors import ContractError, MissingRegistryError, StoreError
from registry.store import folder as folder_module
from registry.store.check import check_registry
from registry.store.fold import fold
from registry.store.folder import (
    Folder,
    Location,
    copy_plans,
    create_registry,
    curated_dir,
    ensure_writable,
    find_registry,
    reads_curated,
)
from registry.store.prune import prune
from registry.store.repair import repair
from registry.store.state import read_state
from tests.unit.store.registries import add_numbers, count_runs, make_registry, read_content, runs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Stand in an empty folder, with a home of one's own; return the user's registry."""
    monkeypatch.delenv("REGISTRY_PATH", raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "data" / "peft-registry" / "records"


def refusal(path: Path) -> str:
    with pytest.raises(MissingRegistryError) as caught:
        find_registry(path)
    return str(caught.value)


def test_a_new_registry_has_its_folders_and_settings(tmp_path: Path) -> None:
    folder = create_registry(tmp_path / "r")
    assert sorted(path.name for path in folder.path.iterdir()) == [
        ".gitignore",
        "journal",
        "registry.json",
        "tables",
    ]
    assert folder.storage.get("registry.json") == b'{"format": 2, "curated": true}\n'
    assert folder.storage.get(".gitignore") == b".lock\n.tmp-*\n"
    assert folder.parts == folder.path / "tables" / "parts"
    assert folder.is_registry
    assert not folder.is_curated


@pytest.mark.parametrize("name", ["journal", "tables"])
def test_one_of_the_two_folders_makes_a_registry(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    assert Folder(tmp_path).require() == Folder(tmp_path)


@pytest.mark.parametrize("name", ["sources/src-a/x.json", "tables/manifest.json"])
def test_sources_or_one_manifest_make_curated_records(tmp_path: Path, name: str) -> None:
    (tmp_path / name).parent.mkdir(parents=True)
    (tmp_path / name).write_text("{}", encoding="utf-8")
    assert Folder(tmp_path).is_curated


def test_a_folder_that_is_no_registry_says_why_and_the_way_out_works(tmp_path: Path) -> None:
    (tmp_path / "empty" / ".git").mkdir(parents=True)
    (tmp_path / "filled").mkdir()
    (tmp_path / "filled" / "readme").touch()
    (tmp_path / "file").touch()
    for name, found, free in (
        ("missing", "no such folder", "missing"),
        ("empty", "a folder without tables/ or journal/", "empty"),
        ("filled", "a folder without tables/ or journal/", "filled/registry"),
        ("file", "not a folder", "file-registry"),
    ):
        path = tmp_path / name
        assert refusal(path) == (
            f"{path}: {found}; expected a registry; create one with `registry init "
            f"{tmp_path / free}`, or name another with --registry or REGISTRY_PATH"
        )
        assert create_registry(tmp_path / free).is_registry


def test_a_location_needs_a_registry_only_where_nothing_lies_below_it(tmp_path: Path) -> None:
    missing = Folder(tmp_path / "missing")
    over = Location(missing, Folder(curated_dir()))
    assert over.require() is over
    with pytest.raises(MissingRegistryError, match="missing: no such folder; expected a registry"):
        Location(missing).require()


def test_nothing_is_created_over_a_registry_or_other_files(tmp_path: Path) -> None:
    create_registry(tmp_path / "r")
    with pytest.raises(StoreError) as caught:
        create_registry(tmp_path / "r")
    assert str(caught.value) == (
        f"{tmp_path / 'r'}: is already a registry; expected a folder to create; nothing to do"
    )
    (tmp_path / "full" / "sub").mkdir(parents=True)
    (tmp_path / "file").touch()
    for name in ("full", "file"):
        with pytest.raises(StoreError) as caught:
            create_registry(tmp_path / name)
        assert str(caught.value) == (
            f"{tmp_path / name}: found something there already; expected no such folder, or an "
            "empty one; name another, or remove it"
        )


def test_an_empty_folder_becomes_a_registry(tmp_path: Path) -> None:
    assert create_registry(tmp_path).is_registry


def test_the_first_write_creates_the_registry_and_the_next_keeps_it(tmp_path: Path) -> None:
    location = Location(Folder(tmp_path / "r"))
    assert ensure_writable(location) == Folder(tmp_path / "r")
    (tmp_path / "r" / "journal" / "x").touch()
    assert ensure_writable(location).storage.list("journal") == ["x"]


def test_a_registry_that_cannot_be_created_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreError, match="file: found something there already; expected no such "):
        ensure_writable(Location(Folder(tmp_path / "file")))


@pytest.mark.parametrize(
    ("text", "expected"), [("{}", True), ('{"curated": true}', True), ('{"curated": false}', False)]
)
def test_settings_say_whether_the_curated_records_are_read(
    tmp_path: Path, text: str, *, expected: bool
) -> None:
    assert reads_curated(Folder(tmp_path)) is True
    (tmp_path / "registry.json").write_text(text, encoding="utf-8")
    assert reads_curated(Folder(tmp_path)) is expected


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value: line 1 column 1 (char 0)"),
        ("[]", "'list' object has no attribute 'get'"),
        ('{"curated": "false"}', 'curated is "false", which is neither true nor false'),
        ('{"curated": null}', "curated is null, which is neither true nor false"),
        ('{"format": "2"}', "'>' not supported between instances of 'str' and 'int'"),
    ],
)
def test_settings_that_are_none_are_refused(tmp_path: Path, text: str, reason: str) -> None:
    (tmp_path / "registry.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        reads_curated(Folder(tmp_path))
    assert str(caught.value) == (
        f"{tmp_path / 'registry.json'}: found no valid settings ({reason}); expected a JSON object "
        'such as {"format": 2, "curated": true}; write that'
    )


@pytest.mark.parametrize("curated", [True, False])
def test_settings_of_a_newer_release_say_to_upgrade(tmp_path: Path, *, curated: bool) -> None:
    (tmp_path / "registry.json").write_text('{"format": 99}', encoding="utf-8")
    with pytest.raises(StoreError) as caught:
        find_registry(tmp_path, curated=curated)
    assert str(caught.value) == (
        f"{tmp_path / 'registry.json'}: found format 99; expected at most 2: a newer release wrote "
        "this registry; upgrade with `pip install -U peft-registry`"
    )


def test_without_a_name_it_is_the_users_own(home: Path) -> None:
    assert find_registry() == Location(Folder(home), Folder(curated_dir()))
    assert find_registry(curated=False) == Location(Folder(home))
    create_registry(home, curated=False)
    assert find_registry() == Location(Folder(home))


def test_a_registry_called_records_in_this_folder_comes_before_the_users(home: Path) -> None:
    create_registry(Path("records"))
    assert find_registry() == Location(Folder(Path("records")), Folder(curated_dir()))
    assert not home.exists()


@pytest.mark.usefixtures("home")
def test_the_variable_names_a_registry_and_an_argument_comes_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("one", "two"):
        create_registry(tmp_path / name, curated=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("REGISTRY_PATH", str(tmp_path / "one"))
    assert find_registry() == Location(Folder(tmp_path / "one"))
    assert find_registry("~/two") == Location(Folder(tmp_path / "two"))


def test_a_package_without_curated_records_is_to_be_installed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "registry"
    monkeypatch.setattr(folder_module, "__file__", str(package / "store" / "folder.py"))
    with pytest.raises(ContractError) as caught:
        curated_dir.__wrapped__()
    assert str(caught.value) == (
        f"{package}: found no curated records inside or beside the package, expected them there; "
        "install the package again"
    )
    for place in (tmp_path / "records", package / "curated"):
        (place / "tables").mkdir(parents=True)
        assert curated_dir.__wrapped__() == place


def test_a_path_that_is_not_utf_8_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = Path(os.fsdecode(b"caf\xe9"))
    expected = (
        f"{tmp_path}/caf\\xe9: found a path that is not UTF-8; expected one that is; use another "
        "name, or rename the folder"
    )
    with pytest.raises(StoreError) as caught:
        create_registry(path)
    assert str(caught.value) == expected
    assert not path.exists()
    create_registry(tmp_path / "made").path.rename(path)
    with pytest.raises(StoreError) as caught:
        find_registry(path)
    assert str(caught.value) == expected


@pytest.mark.usefixtures("home")
@pytest.mark.parametrize("name", ["run:1", "~x", "s3:x", "../work/a'b:c"])
def test_a_relative_path_that_engines_read_otherwise_is_one_to_them_too(
    name: str,
) -> None:
    db = make_registry(Path(name))
    for number in range(2):  # the second fold reads what the first wrote
        add_numbers(db, number)
        db.fold()
    fold(db.location, rebuild=True)
    sql = "select run_id from observations order by 1"
    assert db.query(sql).rows() == [{"run_id": "run-0"}, {"run_id": "run-1"}]
    assert count_runs(db.location) == runs(0, 1)
    report = check_registry(db.location)
    assert (report.problems, report.counts["observations"]) == ((), 2)
    [part] = read_state(db.location.own).parts
    (part.path / "submissions.parquet").write_bytes(b"?")
    [problem] = check_registry(db.location).problems
    assert f" {name}/tables/parts/" in str(problem)
    notes = repair(db.location).notes
    assert notes[0].startswith(f"{name}/tables/parts/{part.name}/submissions.parquet: cannot be ")
    assert check_registry(db.location).is_sound
    assert count_runs(db.location) == runs(0, 1)


def test_the_plans_of_the_package_are_copied_and_ones_own_stay(tmp_path: Path) -> None:
    folder = create_registry(tmp_path / "r")
    own = folder.path / "plans" / "cpu-smoke.toml"
    own.parent.mkdir()
    own.write_text("# mine", encoding="utf-8")
    assert copy_plans(folder) == own.parent
    shipped = {plan.name: plan.read_bytes() for plan in (curated_dir() / "plans").glob("*.toml")}
    copied = {plan.name: plan.read_bytes() for plan in own.parent.iterdir()}
    assert len(shipped) > 1
    assert copied == shipped | {own.name: b"# mine"}


def test_the_clone_of_an_empty_registry_is_one(tmp_path: Path) -> None:
    folder = create_registry(tmp_path / "mine", curated=False)
    for empty in (folder.journal, folder.tables):  # git keeps no empty folder
        empty.rmdir()
    location = find_registry(folder.path)
    assert location.curated is None
    db = Registry(location)
    example = Path(__file__).parents[2] / "examples" / "valid" / "minimal.json"
    db.add(json.loads(example.read_text()))
    db.fold()
    assert db.load("observations").shape[0] == 1


@pytest.mark.parametrize("name", ["journal", "tables", "tables/parts", "quarantine"])
def test_a_folder_that_a_link_stands_for_is_neither_read_nor_written(
    name: str, folded: Registry, tmp_path: Path
) -> None:
    add_numbers(folded, 7)
    link, elsewhere = folded.path / name, tmp_path / "elsewhere"
    link.rename(elsewhere) if link.exists() else elsewhere.mkdir()
    (elsewhere / "id_rsa").write_text("secret")
    link.symlink_to(elsewhere)
    before = sorted(elsewhere.rglob("*"))
    for refused in (
        read_content,
        fold,
        repair,
        lambda location: prune(location.own),
        lambda _: add_numbers(folded, 8),
    ):
        with pytest.raises(StoreError) as caught:
            refused(folded.location)
        assert str(caught.value) == (
            f"{link}: found a link; expected a folder of the registry itself; remove the link, and "
            "move what it leads to here if that is the registry's"
        )
    (problem,) = check_registry(folded.location).problems
    assert str(problem) == f"state: {caught.value}"
    assert sorted(elsewhere.rglob("*")) == before
    link.unlink()
    elsewhere.rename(link)
    (link / "id_rsa").unlink()
    assert check_registry(folded.location).problems == ()
    assert count_runs(folded.location) == runs(0, 1, 2, 7)


def test_the_folder_of_a_registry_may_be_a_link(folded: Registry, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(folded.path)
    linked = Registry(find_registry(tmp_path / "link"))
    add_numbers(linked, 7)
    linked.fold()
    assert check_registry(linked.location).problems == ()
    assert count_runs(folded.location) == runs(0, 1, 2, 7)
