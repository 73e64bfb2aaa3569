"""A registry at an address: many copies of one state, on a network file system."""

from __future__ import annotations

import itertools
import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

import registry.store.remote as remote_module
import registry.store.retract as retract_module
from registry.api import Registry
from registry.errors import MissingRegistryError, StoreError
from registry.store.address import parse_address
from registry.store.check import check_registry
from registry.store.folder import (
    RUNS,
    Folder,
    Location,
    create_registry,
    ensure_writable,
    find_registry,
)
from registry.store.manifest import (
    CommittedError,
    Manifest,
    list_versions,
    manifest_name,
    parse_manifest_name,
    write_manifest,
)
from registry.store.objects import NetworkFolder, open_objects, read_profile
from registry.store.prune import prune, removal
from registry.store.remote import Remote, RemoteStorage
from registry.store.repair import repair
from registry.store.sync import sync
from tests.unit.store.registries import add_numbers, build_document, make_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Return the folder of an empty registry at an address."""
    path = tmp_path / "shared"
    path.mkdir()
    create_registry(Path(f"file://{path}"), curated=False)
    return path


@pytest.fixture(autouse=True)
def _copies() -> Iterator[None]:
    yield
    remote_module.remove_copies()


def open_shared(place: Path) -> Registry:
    """Return the registry as another machine sees it."""
    return Registry(find_registry(f"file://{place}"))


def run_ids(db: Registry) -> list[str]:
    rows = db.query("select run_id from observations order by all").rows()
    return [row["run_id"] for row in rows]


def names(place: Path, folder: str) -> list[str]:
    return sorted(path.name for path in (place / folder).iterdir())


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/team/registry/", "s3://bucket/team/registry"),
        (Path("s3://bucket/x"), "s3://bucket/x"),
        ("gs://bucket", "gs://bucket"),
        ("az://container/x", "az://container/x"),
        ("file:///nfs/x", "file:///nfs/x"),
        (Path("file:///nfs/x"), "file:///nfs/x"),
    ],
)
def test_an_address_is_known_by_its_scheme(text: Path | str, shown: str) -> None:
    assert str(parse_address(text)) == shown


@pytest.mark.parametrize("text", ["records", "./s3", "/a/s3:/b", "ftp://x/y"])
def test_all_else_is_a_folder(text: str) -> None:
    assert parse_address(text) is None


def test_an_address_of_a_file_has_three_slashes() -> None:
    with pytest.raises(StoreError, match="expected file:///PATH with an absolute path"):
        parse_address("file://team/registry")


@pytest.mark.parametrize("text", ["http://x/y", "nfs:/host/x", "s3://", "S3://bucket/x"])
def test_no_folder_is_created_that_is_called_like_an_address(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(StoreError, match="expected a folder, or what starts with s3://"):
        create_registry(Path(text))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("place", ["key:secret@bucket/x", "bucket/x?sig=secret", "b/../secret", ""])
def test_an_address_with_a_key_is_refused_and_not_repeated(place: str) -> None:
    with pytest.raises(StoreError, match="keys belong in the environment") as caught:
        parse_address(f"s3://{place}")
    assert "secret" not in str(caught.value)


def test_what_one_adds_another_reads_before_and_after_a_fold(place: Path) -> None:
    one, other = open_shared(place), open_shared(place)
    add_numbers(one, 1, 2)
    assert run_ids(other) == ["run-1", "run-2"]
    assert other.fold().n_submissions == 2
    assert run_ids(one) == ["run-1", "run-2"]
    add_numbers(other, 3)
    assert run_ids(one) == ["run-1", "run-2", "run-3"]
    assert check_registry(one.location).problems == ()


def test_a_document_is_known_while_pending_and_when_folded(place: Path) -> None:
    one, other = open_shared(place), open_shared(place)
    assert one.add(build_document(1)).is_new
    assert not other.add(build_document(1)).is_new
    one.fold()
    assert not open_shared(place).add(build_document(1)).is_new


def test_an_old_version_is_answered_as_it_was(place: Path) -> None:
    db = open_shared(place)
    for number in (1, 2):
        add_numbers(db, number)
        db.fold()
    then = Registry(find_registry(f"file://{place}"), at=1)
    assert run_ids(then) == ["run-1"]


def test_a_folded_entry_stays_until_every_reader_sees_the_fold(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    db.fold()
    assert len(names(place, "journal")) == 1
    monkeypatch.setattr(remote_module, "GRACE_SECONDS", 0.0)
    db.fold()
    assert names(place, "journal") == []
    assert run_ids(open_shared(place)) == ["run-1"]


@dataclass(frozen=True, slots=True)
class Delayed(NetworkFolder):
    """A network file system that does not show this client what is new in some folder."""

    hidden: str = ""
    shown: frozenset[str] = frozenset()

    def _is_hidden(self, name: str) -> bool:
        return name.startswith(f"{self.hidden}/") and name not in self.shown

    def get(self, name: str) -> bytes:
        if self._is_hidden(name):
            raise FileNotFoundError(name)
        return NetworkFolder.get(self, name)

    def times(self, folder: str, *, deep: bool = False) -> dict[str, float]:
        found = NetworkFolder.times(self, folder, deep=deep)
        return {name: time for name, time in found.items() if not self._is_hidden(name)}


def open_delayed(place: Path, copy: Path, hidden: str) -> Registry:
    """Return a registry as a machine sees it to which nothing new in a folder is shown."""
    shown = frozenset(NetworkFolder(place).times(hidden, deep=True))
    address = parse_address(f"file://{place}")
    assert address
    storage = RemoteStorage(copy, Delayed(place, hidden, shown))
    return Registry(Location(Folder(copy, Remote(address, storage))))


@pytest.mark.parametrize("hidden", ["tables", "journal"])
def test_no_reader_sees_a_document_vanish(place: Path, hidden: str, tmp_path: Path) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    add_numbers(db, 2)
    reader = open_delayed(place, tmp_path / "copy", hidden)
    assert run_ids(reader) == ["run-1", "run-2"]
    for number in (3, 4):
        add_numbers(db, number)
        db.fold()
        assert {*run_ids(reader)} >= {"run-1", "run-2"}
    fresh = open_delayed(place, tmp_path / "new", "nothing")
    assert run_ids(fresh) == ["run-1", "run-2", "run-3", "run-4"]


def test_without_the_grace_a_reader_would_see_one_vanish(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "GRACE_SECONDS", 0.0)
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    add_numbers(db, 2)
    reader = open_delayed(place, tmp_path / "copy", "tables")
    db.fold()
    db.fold()
    assert run_ids(reader) == ["run-1"]


def put_late(
    monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[[], object], *, at: int = 1
) -> None:
    """Have other things happen between an upload of parts, by its number, and its manifest."""
    publish = Remote.publish
    calls = itertools.count(1)

    def be_late(self: Remote, parts: tuple[str, ...]) -> None:
        publish(self, parts)
        if next(calls) == at:
            meanwhile()

    monkeypatch.setattr(Remote, "publish", be_late)


def test_of_two_folds_at_once_one_begins_anew(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = open_shared(place), open_shared(place)
    add_numbers(one, 1)

    def overtake() -> None:
        add_numbers(other, 2)
        other.fold()

    put_late(monkeypatch, overtake)
    assert one.fold().version == 1  # the other took both
    assert run_ids(open_shared(place)) == ["run-1", "run-2"]
    assert check_registry(open_shared(place).location).problems == ()
    named = json.loads((place / "tables/manifest-000001.json").read_text())["parts"]
    left = {path.parent.name for path in place.glob("tables/parts/*/*")}
    assert left == {*named}  # the loser took its own away


def test_a_fold_that_began_before_a_removal_cannot_commit(place: Path) -> None:
    db, late = open_shared(place), open_shared(place)
    add_numbers(db, 1)
    db.fold()
    late.location.own.pull()
    with removal(db.location.own):
        pass
    with pytest.raises(CommittedError):
        write_manifest(late.location.own, Manifest(2, (), None))


@pytest.mark.parametrize("n_before", [0, 1])
def test_a_fold_cannot_commit_under_the_number_of_a_removed_version(
    place: Path, n_before: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other = open_shared(place), open_shared(place)
    for number in range(n_before):
        add_numbers(other, number)
        other.fold()
    add_numbers(late, 7, 8)

    def overtake() -> None:
        for number in (3, 4):
            add_numbers(other, number)
            other.fold()
        assert prune(other.location.own)

    put_late(monkeypatch, overtake)
    late.fold()
    assert names(place, "tables") == [f"manifest-{n_before + 3:06d}.json", "parts"]
    fresh = open_shared(place)
    assert check_registry(fresh.location).problems == ()
    assert {"run-7", "run-8", "run-3", "run-4"} <= {*run_ids(fresh)}
    prune(fresh.location.own)
    assert check_registry(open_shared(place).location).problems == ()


def test_a_fold_that_was_overtaken_begins_anew(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other = open_shared(place), open_shared(place)
    add_numbers(other, 1)
    other.fold()
    add_numbers(late, 2)
    seen: list[int] = []

    def overtake() -> None:
        for _ in range(2):
            with removal(other.location.own):
                remove_all_but_newest(other.location.own)
        seen.extend(v for n in names(place, "tables") if (v := parse_manifest_name(n)))

    put_late(monkeypatch, overtake)
    result = late.fold()
    assert seen == [3]
    assert (result.version, result.n_submissions) == (4, 1)
    assert names(place, "tables") == ["manifest-000003.json", "manifest-000004.json", "parts"]
    assert run_ids(open_shared(place)) == ["run-1", "run-2"]
    assert check_registry(open_shared(place).location).problems == ()


@pytest.mark.parametrize("keep", [1, 3])
def test_pruning_again_changes_nothing(place: Path, keep: int) -> None:
    db = open_shared(place)
    for number in range(4):
        add_numbers(db, number)
        db.fold()
    assert prune(db.location.own, keep=keep)
    left = names(place, "tables")
    assert prune(open_shared(place).location.own, keep=keep) == []
    assert names(place, "tables") == left


def test_a_fold_asks_for_the_age_of_a_version_only_where_entries_are_folded(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    is_settled = Remote.is_settled

    def note(self: Remote, version: int) -> bool:
        asked.append(version)
        return is_settled(self, version)

    monkeypatch.setattr(Remote, "is_settled", note)
    monkeypatch.setattr(remote_module, "GRACE_SECONDS", 0.0)
    db = open_shared(place)
    add_numbers(db, 1)
    for _ in range(4):
        db.fold()
    assert asked == [1]  # the second fold finds the entry folded, and removes it
    assert names(place, "journal") == []


def test_the_settings_are_fetched_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[str] = []
    get = NetworkFolder.get

    def note(self: NetworkFolder, name: str) -> bytes:
        fetched.append(name)
        return get(self, name)

    monkeypatch.setattr(NetworkFolder, "get", note)
    db = open_shared(place)
    for _ in range(3):
        run_ids(db)
        assert db.location.own.is_registry
    assert fetched.count("registry.json") == 1


def remove_all_but_newest(folder: Folder) -> None:
    for version in list_versions(folder)[:-1]:
        folder.storage.delete(manifest_name(version))


def test_manifests_are_removed_in_the_order_of_their_versions(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    listed = [f"tables/manifest-{v}.json" for v in ("1000000", "000010", "999999", "000002")]
    listed = ["tables/parts/a/x", "tables/parts/a/part.json", *listed]
    monkeypatch.setattr(NetworkFolder, "times", lambda *_a, **_k: dict.fromkeys(listed, 0.0))
    remote = open_shared(place).location.own.remote
    assert remote
    assert remote.list_tables() == [
        "tables/manifest-000002.json",
        "tables/manifest-000010.json",
        "tables/manifest-999999.json",
        "tables/manifest-1000000.json",
        "tables/parts/a/part.json",
        "tables/parts/a/x",
    ]


def test_a_version_that_others_went_on_from_stands(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_shared(place), open_shared(place)
    add_numbers(one, 1)
    is_in_line = Remote.is_in_line
    raced: list[bool] = []

    def be_late(self: Remote, version: int, content_hash: str) -> bool:
        if not raced:
            raced.append(True)
            add_numbers(other, 2)
            other.fold()
            add_numbers(other, 3)
            other.fold()
        return is_in_line(self, version, content_hash)

    monkeypatch.setattr(Remote, "is_in_line", be_late)
    assert (one.fold().version, raced) == (1, [True])
    assert list_versions(pulled(place)) == [1, 2, 3]
    assert check_registry(open_shared(place).location).problems == ()


def pulled(place: Path) -> Folder:
    """Return a new copy with all versions."""
    folder = open_shared(place).location.own
    folder.pull(history=True)
    return folder


def test_a_fence_under_the_number_of_a_removed_version_removes_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other = open_shared(place), open_shared(place)
    add_numbers(other, 1)
    other.fold()

    def overtake() -> None:
        add_numbers(other, 2)
        other.fold()
        prune(other.location.own)

    put_late(monkeypatch, overtake)
    with removal(late.location.own):
        remove_all_but_newest(late.location.own)
    assert run_ids(open_shared(place)) == ["run-1", "run-2"]
    assert names(place, "tables") == ["manifest-000004.json", "parts"]
    assert check_registry(open_shared(place).location).problems == ()


class Killed(BaseException):
    """The process ends here."""


@pytest.mark.parametrize("n_between", [1, 2])
def test_a_fold_killed_before_it_withdrew_its_version_harms_nobody(
    place: Path, n_between: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    late, other = open_shared(place), open_shared(place)
    add_numbers(other, 1)
    other.fold()
    add_numbers(late, 2, 3)

    def overtake() -> None:
        for number in range(4, 4 + n_between):
            add_numbers(other, number)
            other.fold()
        prune(other.location.own)

    def be_killed(*_: object) -> None:
        raise Killed

    put_late(monkeypatch, overtake)
    with monkeypatch.context() as patch:
        patch.setattr(Remote, "withdraw", be_killed)
        with pytest.raises(Killed):
            late.fold()
    newest = 2 + n_between
    expected = ["manifest-000002.json", f"manifest-{newest:06d}.json", "parts"]
    assert names(place, "tables") == expected
    everything = [f"run-{number}" for number in range(1, 4 + n_between)]
    for _ in range(2):
        fresh = open_shared(place)
        assert run_ids(fresh) == everything
        assert check_registry(fresh.location).problems == ()
        assert list_versions(pulled(place))[-1] >= newest
        prune(fresh.location.own)
    assert "manifest-000002.json" not in names(place, "tables")


def test_history_is_removed_though_another_commits_after_the_fold(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_shared(place), open_shared(place)
    add_numbers(one, 1, 2)
    one.fold()
    rows = one.query("select observation_id from observations where run_id = 'run-1'").rows()
    monkeypatch.setattr(retract_module, "_erase", lambda _location: None)
    one.retract(rows[0]["observation_id"], reason="private", erase=True)

    def overtake() -> None:
        add_numbers(other, 3)
        other.fold()

    put_late(monkeypatch, overtake, at=2)  # the fence after the fold's own version
    assert one.fold().n_submissions == 1
    assert len([name for name in names(place, "tables") if name != "parts"]) == 1
    assert run_ids(open_shared(place)) == ["run-2", "run-3"]
    assert check_registry(open_shared(place).location).problems == ()


def test_old_versions_and_their_parts_are_removed(place: Path) -> None:
    db = open_shared(place)
    for number in range(9):
        add_numbers(db, number)
        db.fold()
    removed = prune(db.location.own)
    assert removed == list(range(1, 10))
    newest = json.loads((place / "tables/manifest-000010.json").read_text())
    assert names(place, "tables") == ["manifest-000010.json", "parts"]
    left = {path.parent.name for path in place.glob("tables/parts/*/part.json")}
    assert left == {*newest["parts"]}
    fresh = open_shared(place)
    assert len(run_ids(fresh)) == 9
    assert check_registry(fresh.location).problems == ()


def test_a_copy_that_is_made_after_old_versions_were_removed_has_the_newest(place: Path) -> None:
    db = open_shared(place)
    for number in range(3):
        add_numbers(db, number)
        db.fold()
    prune(db.location.own)
    remote_module.remove_copies()
    fresh = open_shared(place)
    assert run_ids(fresh) == ["run-0", "run-1", "run-2"]
    assert names(place, "tables") == ["manifest-000004.json", "parts"]


def test_an_own_entry_that_a_listing_does_not_have_yet_is_read_unless_it_is_gone(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_shared(place)
    monkeypatch.setattr(NetworkFolder, "times", lambda *_, **__: {})
    (kept, gone) = add_numbers(db, 1, 2)
    assert run_ids(db) == ["run-1", "run-2"]
    (place / "journal" / f"{gone}.json").unlink()
    assert run_ids(db) == ["run-1"]
    assert names(place, "journal") == [f"{kept}.json"]


def test_an_upload_that_was_killed_is_no_part_and_is_removed(place: Path) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    (part,) = names(place, "tables/parts")
    torn = place / "tables/parts" / ("0" * 24)
    shutil.copytree(place / "tables/parts" / part, torn)
    (torn / "part.json").unlink()
    fresh = open_shared(place)
    assert run_ids(fresh) == ["run-1"]
    assert check_registry(fresh.location).problems == ()
    prune(fresh.location.own)
    assert list(torn.iterdir()) == []


def test_what_is_erased_leaves_the_storage(place: Path) -> None:
    db = open_shared(place)
    add_numbers(db, 1, 2)
    db.fold()
    identity = db.query("select observation_id from observations where run_id = 'run-1'").rows()
    db.retract(identity[0]["observation_id"], reason="private", erase=True)
    assert run_ids(open_shared(place)) == ["run-2"]
    import duckdb  # noqa: PLC0415 - only here

    for path in place.rglob("*"):
        if path.suffix == ".json":
            assert "run-1" not in path.read_text()
        if path.name == "submissions.parquet":
            rows = duckdb.sql(f"from read_parquet('{path}')").fetchall()
            assert "run-1" not in str(rows)
    assert check_registry(open_shared(place).location).problems == ()


def test_a_bad_entry_is_set_aside_by_a_fold(place: Path) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    bad = place / "journal" / f"{'a' * 64}.json"
    for number in range(2):
        bad.write_text(f"{{{number}}}")
        assert run_ids(db) == ["run-1"]
        assert db.fold().problems
        assert not bad.exists()
    assert sorted(names(place, "quarantine")) == [bad.name, f"{bad.name}.2"]
    assert (place / "quarantine" / bad.name).read_text() == "{0}"


def test_a_damaged_entry_is_written_again_by_who_adds_it(place: Path) -> None:
    db = open_shared(place)
    (entry,) = add_numbers(db, 1)
    path = place / "journal" / f"{entry}.json"
    text = path.read_text()
    path.write_text(text[:40])
    add_numbers(open_shared(place), 1)
    assert path.read_text() == text


@pytest.mark.parametrize("what", ["manifest", "part"])
def test_a_damaged_state_is_refused_and_repaired(
    place: Path, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_shared(place)
    for number in (1, 2):
        add_numbers(db, number)
        db.fold()
    monkeypatch.setattr(remote_module, "_ATTEMPTS", 1)
    if what == "manifest":
        (place / "tables/manifest-000002.json").write_text("{}")
    else:
        named = json.loads((place / "tables/manifest-000002.json").read_text())["parts"]
        (place / "tables/parts" / named[0] / "part.json").unlink()
    hurt = open_shared(place)
    with pytest.raises(StoreError, match=f"^file://{place}/.*registry repair") as caught:
        run_ids(hurt)
    assert "/peft-registry-" not in str(caught.value)
    assert repair(hurt.location).n_submissions == 2
    assert run_ids(open_shared(place)) == ["run-1", "run-2"]
    assert check_registry(open_shared(place).location).problems == ()
    assert prune(open_shared(place).location.own)
    assert check_registry(open_shared(place).location).problems == ()


@pytest.mark.parametrize("file", ["part.json", "observations.parquet", "submissions.ids"])
def test_a_changed_part_is_set_aside_by_a_repair(place: Path, file: str) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    (part,) = names(place, "tables/parts")
    path = place / "tables/parts" / part / file
    path.write_bytes(path.read_bytes()[:-1])
    hurt = open_shared(place)
    assert check_registry(hurt.location).problems != ()
    repair(hurt.location)
    assert (place / "quarantine" / part / file).exists()
    fresh = open_shared(place)
    assert check_registry(fresh.location).problems == ()
    assert run_ids(fresh) == ["run-1"]


@pytest.mark.parametrize("damage", ["garbage", "missing"])
def test_a_repair_loses_no_document_of_a_part_without_its_description(
    place: Path, damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_module, "GRACE_SECONDS", 0.0)
    monkeypatch.setattr(remote_module, "_ATTEMPTS", 1)
    db = open_shared(place)
    add_numbers(db, 1, 2, 3)
    db.fold()
    db.fold()
    assert names(place, "journal") == []
    (part,) = names(place, "tables/parts")
    there = {*names(place, f"tables/parts/{part}"), "extra"}
    (place / "tables/parts" / part / "extra").write_text("x")
    description = place / "tables/parts" / part / "part.json"
    if damage == "missing":
        description.unlink()
        there.discard("part.json")
    else:
        description.write_text("{garbage")
    assert repair(open_shared(place).location).n_submissions == 3
    fresh = open_shared(place)
    assert run_ids(fresh) == ["run-1", "run-2", "run-3"]
    assert check_registry(fresh.location).problems == ()
    assert {*names(place, f"quarantine/{part}")} == there


def test_what_cannot_be_put_aside_stays_where_it_is(place: Path) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    (part,) = names(place, "tables/parts")
    taken = place / "quarantine" / part / "observations.parquet"
    taken.parent.mkdir(parents=True)
    taken.write_text("of another")
    path = place / "tables/parts" / part / "observations.parquet"
    path.write_bytes(damaged := path.read_bytes()[:-1])
    repair(open_shared(place).location)
    assert taken.read_text() == "of another"
    assert path.read_bytes() == damaged
    assert (taken.parent / "submissions.parquet").exists()


def test_a_repair_that_also_erases_does_not_bring_damaged_parts_back(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_shared(place)
    add_numbers(db, 1, 2)
    db.fold()
    rows = db.query("select observation_id from observations where run_id = 'run-1'").rows()
    monkeypatch.setattr(retract_module, "_erase", lambda _location: None)  # it was killed
    db.retract(rows[0]["observation_id"], reason="private", erase=True)
    (part,) = names(place, "tables/parts")
    path = place / "tables/parts" / part / "observations.parquet"
    path.write_bytes(path.read_bytes()[:-1])
    repair(open_shared(place).location)
    fresh = open_shared(place)
    assert run_ids(fresh) == ["run-2"]
    assert check_registry(fresh.location).problems == ()
    assert (place / "quarantine" / part / "observations.parquet").exists()
    assert part not in names(place, "tables/parts") or names(place, f"tables/parts/{part}") == []


def test_lost_manifests_are_no_empty_registry(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_module, "GRACE_SECONDS", 0.0)
    db = open_shared(place)
    for number in (1, 2):
        add_numbers(db, number)
        db.fold()
        db.fold()
    (place / "tables/manifest-000002.json").unlink()
    hurt = open_shared(place)
    assert "no manifest names this part" in str(check_registry(hurt.location).problems)
    with pytest.raises(StoreError, match="no manifest names this part"):
        prune(open_shared(place).location.own)
    (place / "tables/manifest-000001.json").unlink()
    with pytest.raises(StoreError, match="no manifest names this part"):
        run_ids(open_shared(place))
    assert repair(open_shared(place).location).n_submissions == 2
    assert run_ids(open_shared(place)) == ["run-1", "run-2"]


def test_a_fold_that_lost_does_not_take_its_own_parts_for_the_state(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = open_shared(place), open_shared(place)
    add_numbers(one, 1)
    one.fold()
    add_numbers(one, 2)

    def overtake() -> None:
        with removal(other.location.own):  # commits a version without the new document
            pass

    put_late(monkeypatch, overtake)
    assert one.fold().n_submissions == 1
    assert run_ids(one) == run_ids(open_shared(place)) == ["run-1", "run-2"]


def test_a_storage_that_ignores_conditions_is_refused(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ignore(self: NetworkFolder, name: str, data: bytes) -> bool:
        self.put(name, data)
        return True

    db = open_shared(place)
    monkeypatch.setattr(NetworkFolder, "put_if_absent", ignore)
    with pytest.raises(StoreError, match=r"ignores conditions \(If-None-Match\)"):
        add_numbers(db, 1)
    assert not (place / "journal").exists()


def test_of_an_upload_whose_answer_was_lost_what_is_there_is_ones_own(place: Path) -> None:
    storage = open_shared(place).location.own.storage
    assert storage.put_if_absent("tables/x.json", b"one")
    assert storage.put_if_absent("tables/x.json", b"one")
    assert not storage.put_if_absent("tables/x.json", b"two")
    assert storage.get("tables/x.json") == b"one"


def test_where_no_registry_is_the_error_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(MissingRegistryError, match=r"registry init file:///.*/nothing"):
        find_registry(f"file://{tmp_path}/nothing")


def test_a_registry_is_created_once(place: Path) -> None:
    with pytest.raises(StoreError, match="is already a registry"):
        create_registry(Path(f"file://{place}"))


def test_syncing_is_a_union_and_done_again_changes_nothing(place: Path, tmp_path: Path) -> None:
    shared, own = open_shared(place), make_registry(tmp_path / "own")
    add_numbers(shared, 1, 2)
    shared.fold()
    add_numbers(shared, 3)
    add_numbers(own, 2, 4)
    folders = own.location.own, shared.location.own
    tried = sync(*folders, dry_run=True)
    done = sync(*folders)
    assert tried == done
    assert [(side.n_new, side.n_documents) for side in done.sides] == [(2, 4), (1, 4)]
    expected = ["run-1", "run-2", "run-3", "run-4"]
    assert run_ids(shared) == run_ids(own) == expected
    again = sync(*reversed(folders))
    assert [side.n_new for side in again.sides] == [0, 0]
    own.fold()
    shared.fold()
    assert [side.n_new for side in sync(*folders).sides] == [0, 0]
    assert run_ids(shared) == run_ids(own) == expected


def test_curated_records_are_not_synced(tmp_path: Path) -> None:
    own = make_registry(tmp_path / "own").location.own
    (tmp_path / "records" / "sources").mkdir(parents=True)
    curated = Folder(tmp_path / "records")
    for first, second in ((own, curated), (curated, own)):
        with pytest.raises(StoreError) as caught:
            sync(first, second)
        assert str(caught.value) == (
            f"{curated.name}: found curated records; expected a registry of measurements; records "
            "come and go with git"
        )


def test_syncing_does_not_bring_back_what_was_erased(place: Path, tmp_path: Path) -> None:
    shared, own = open_shared(place), make_registry(tmp_path / "own")
    add_numbers(own, 1, 2)
    sync(own.location.own, shared.location.own)
    rows = own.query("select observation_id from observations where run_id = 'run-1'").rows()
    own.retract(rows[0]["observation_id"], reason="private", erase=True)
    for _ in range(2):
        sync(own.location.own, shared.location.own)
        shared.fold()
        own.fold()
    assert run_ids(own) == run_ids(open_shared(place)) == ["run-2"]
    assert [side.n_new for side in sync(own.location.own, shared.location.own).sides] == [0, 0]


def test_the_copy_is_private_and_goes_with_the_process(place: Path) -> None:
    db = open_shared(place)
    copy = db.location.own.path
    assert copy.stat().st_mode & 0o077 == 0
    remote_module.remove_copies()
    assert not copy.exists()


def test_the_state_of_runs_outlives_the_copy_that_they_were_started_with(place: Path) -> None:
    (ensure_writable(open_shared(place).location).path / RUNS / "job-1").mkdir()
    remote_module.remove_copies()
    copy = open_shared(place).location.own.path
    assert [path.name for path in (copy / RUNS).iterdir()] == ["job-1"]


def test_a_name_that_is_not_plain_is_not_fetched(place: Path) -> None:
    db = open_shared(place)
    add_numbers(db, 1)
    db.fold()
    (part,) = names(place, "tables/parts")
    path = place / "tables/parts" / part / "part.json"
    description = json.loads(path.read_text())
    description["files"]["../../../escaped"] = {"size": 1, "sha256": ""}
    path.write_text(json.dumps(description))
    (place / "escaped").write_text("x")
    hurt = open_shared(place)
    with pytest.raises(StoreError, match="does not match the part's name"):
        run_ids(hurt)
    assert not (hurt.location.own.path / "escaped").exists()


def test_versions_are_listed_after_a_pull(place: Path) -> None:
    db = open_shared(place)
    for number in (1, 2):
        add_numbers(db, number)
        db.fold()
    late = open_shared(place).location.own
    late.pull()
    assert list_versions(late) == [2]
    late.pull(history=True)
    assert list_versions(late) == [1, 2]


def test_versions_that_a_listing_does_not_have_yet_are_asked_for(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = open_shared(place)
    for number in range(3):
        add_numbers(db, number)
        db.fold()
    remote_module.remove_copies()
    times = NetworkFolder.times

    def list_late(objects: NetworkFolder, folder: str, *, deep: bool = False) -> dict[str, float]:
        found = times(objects, folder, deep=deep)
        return {name: at for name, at in found.items() if "manifest-00000" not in name}

    monkeypatch.setattr(NetworkFolder, "times", list_late)
    late = open_shared(place)
    assert run_ids(late) == ["run-0", "run-1", "run-2"]
    assert list_versions(late.location.own)[-1] == 3


def test_keys_come_from_a_profile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = a\naws_secret_access_key = b%c\n[sso]\n"
    )
    (tmp_path / "config").write_text("[default]\nregion = eu-west-1\n[profile sso]\nsso_x = 1\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    expected = {"access_key_id": "a", "secret_access_key": "b%c", "region": "eu-west-1"}
    assert read_profile() == expected
    monkeypatch.setenv("AWS_PROFILE", "default")
    assert read_profile() == expected
    monkeypatch.setenv("AWS_PROFILE", "sso")
    with pytest.raises(StoreError, match="aws configure export-credentials --profile sso"):
        read_profile()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    assert read_profile() == {}


def test_profiles_are_looked_for_in_the_home_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCESS_KEY_ID", "PROFILE", "SHARED_CREDENTIALS_FILE", "CONFIG_FILE"):
        monkeypatch.delenv(f"AWS_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".aws").mkdir()
    (tmp_path / ".aws" / "credentials").write_text("[default]\naws_access_key_id = a\n")
    (tmp_path / ".aws" / "config").write_text("[default]\nregion = eu-west-1\n")
    assert read_profile() == {"access_key_id": "a", "region": "eu-west-1"}


@pytest.mark.parametrize(
    ("scheme", "keys", "server"),
    [
        ("s3", "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY", "AWS_ENDPOINT_URL"),
        ("gs", "GOOGLE_APPLICATION_CREDENTIALS", "the bucket is right"),
        ("az", "AZURE_STORAGE_ACCOUNT_NAME, AZURE_STORAGE_ACCOUNT_KEY", "AZURE_STORAGE_ENDPOINT"),
    ],
)
def test_what_object_storage_refuses_is_explained_without_its_own_words(
    monkeypatch: pytest.MonkeyPatch, scheme: str, keys: str, server: str
) -> None:
    class BaseError(Exception): ...

    class PermissionDeniedError(BaseError): ...

    class UnauthenticatedError(BaseError): ...

    class NotFoundError(BaseError): ...

    raised: list[Exception] = []

    def get(*_: object) -> bytes:
        raise raised.pop()

    opened = SimpleNamespace(from_url=lambda *_, **__: None)
    stub = SimpleNamespace(
        **dict.fromkeys(("S3Store", "GCSStore", "AzureStore"), opened),
        **{each.__name__: each for each in (BaseError, PermissionDeniedError)},
        **{each.__name__: each for each in (UnauthenticatedError, NotFoundError)},
        get=get,
    )
    monkeypatch.setattr("registry.store.objects._load", lambda _: stub)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
    address = parse_address(f"{scheme}://bucket/place")
    assert address
    for error, said in (
        (PermissionDeniedError("status 403 key=s3cr3t"), f"refuses access (status 403).*{keys}"),
        (UnauthenticatedError("s3cr3t"), f"refuses access;.*{keys}"),
        (BaseError("500 Internal s3cr3t"), rf"not answer as expected.*{server}"),
    ):
        raised.append(error)
        with pytest.raises(
            StoreError, match=said.replace("(status 403)", r"\(status 403\)")
        ) as got:
            open_objects(address).get("name")
        assert "s3cr3t" not in str(got.value)
    raised.append(NotFoundError(""))
    with pytest.raises(FileNotFoundError):
        open_objects(address).get("name")


def test_a_folder_of_files_lists_no_temporary_ones(tmp_path: Path) -> None:
    address = parse_address(f"file://{tmp_path}")
    assert address
    objects = open_objects(address)
    (tmp_path / ".tmp-x").write_text("")
    objects.put("a/b", b"1")
    assert list(objects.times("a")) == ["a/b"]
    assert objects.times("") == {}
    assert list(objects.times("", deep=True)) == ["a/b"]
    objects.delete("a/b")
    objects.delete("a/b")
    assert objects.times("a") == {}
