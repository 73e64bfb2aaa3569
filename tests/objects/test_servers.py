"""A registry on real servers of object storage: many clients, killed clients, bad servers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import registry
import registry.store.objects as objects_module
from benchmarks.object_kills import kill_clients
from registry.errors import StoreError
from registry.store.check import check_registry
from registry.store.folder import create_registry, find_registry
from registry.store.sync import sync
from tests.acceptance.test_concurrency import FOLDER, READER, WRITER, finish, start, wait_for
from tests.objects.faults import Failing, Hanging, Ignoring, standing_before
from tests.unit.store.registries import add_numbers, build_document, make_registry

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.api import Registry
    from tests.objects.conftest import Server

#: Writers, documents of each, and clients to kill. moto's server answers one request at a time.
SIZES = {"seaweedfs": (16, 50, 24), "moto": (4, 10, 8), "azurite": (4, 10, 8)}

RESULTS = "select * from results order by observation_id"


@pytest.fixture
def db(address: str) -> Registry:
    """Return an empty registry on the server, which reads no curated records."""
    create_registry(Path(address), curated=False)
    return registry.open(address)


def copy_of(db: Registry, folder: Path) -> Registry:
    """Return a registry in a folder with the same documents."""
    local = make_registry(folder)
    sync(db.location.own, local.location.own)
    local.fold()
    return local


def run_ids(db: Registry) -> list[str]:
    rows = db.query("select run_id from observations order by all").rows()
    return [row["run_id"] for row in rows]


def test_many_writers_two_folds_and_a_reader_go_on_at_once(
    db: Registry, address: str, server: Server, tmp_path: Path
) -> None:
    n_writers, n_additions, _ = SIZES[server.name]
    stop = tmp_path / "stop"
    ready = [tmp_path / name for name in ("folds", "folds-too", "reads")]
    programs = zip((FOLDER, FOLDER, READER), ready, strict=True)
    others = [start(program, address, stop, sign) for program, sign in programs]
    try:
        wait_for(ready, others)
        writers = [start(WRITER, address, number, n_additions) for number in range(n_writers)]
        acknowledged = [line for writer in writers for line in finish(writer)]
    finally:
        stop.touch()
    *folds, (counts,) = (finish(other) for other in others)
    assert all(int(number) > 1 for (number,) in folds)
    assert len(acknowledged) == len(set(acknowledged)) == n_writers * n_additions
    seen = json.loads(counts)
    assert [n for n, _ in seen] == [n for _, n in seen] == sorted(n for n, _ in seen)
    db.fold()
    expected = sorted(f"{writer}-{n}" for writer in range(n_writers) for n in range(n_additions))
    assert run_ids(db) == expected
    assert check_registry(db.location).problems == ()
    local = copy_of(db, tmp_path / "local")
    assert local.query(RESULTS).rows() == db.query(RESULTS).rows()


def test_killed_clients_leave_nothing_half(address: str, server: Server) -> None:
    found = kill_clients(address, SIZES[server.name][2])
    assert found.problems == []
    assert found.lost == set()
    assert found.n_doubled == 0
    assert found.n_documents >= len(found.acknowledged) > 0


def test_commands_answer_at_an_address_as_in_a_folder(db: Registry, tmp_path: Path) -> None:
    add_numbers(db, *range(4))
    db.fold()
    add_numbers(db, 4, 5)
    local = copy_of(db, tmp_path / "local")
    assert db.query(RESULTS).rows() == local.query(RESULTS).rows()
    identity = db.query(RESULTS).rows()[0]["observation_id"]
    db.retract(identity[:12], reason="wrong card")
    assert len(db.query(RESULTS).rows()) == 5
    db.retract(identity[:12], reason="private", erase=True)
    assert len(run_ids(registry.open(db.location.own.name))) == 5
    assert check_registry(db.location).problems == ()


def run_command(address: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "registry", *arguments, "--registry", address],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "AWS_REGION": "us-east-1"},
    )


def test_adding_loads_nothing_heavy(db: Registry, address: str, tmp_path: Path) -> None:
    add_numbers(db, 1)
    db.fold()
    path = tmp_path / "x.json"
    path.write_text(json.dumps(build_document(2)), encoding="utf-8")
    code = (
        "import sys, json, registry\n"
        f"assert registry.open({address!r}).add(json.load(open({str(path)!r}))).is_new\n"
        "heavy = {'pandas', 'pyarrow', 'duckdb', 'numpy', 'torch'}\n"
        "print(sorted(heavy & {*sys.modules}))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the client give up soon."""
    monkeypatch.setattr(objects_module, "_TIMEOUTS", {"timeout": "500ms", "connect_timeout": "1s"})
    quick: dict[str, Any] = {**objects_module._RETRIES, "max_retries": 2}
    monkeypatch.setattr(objects_module, "_RETRIES", quick)


@pytest.fixture
def before(
    db: Registry, server: Server, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[None]:
    """Stand a bad server before the good one."""
    del db  # it is there
    with standing_before(server.endpoint, request.param) as endpoint:
        for name, value in server.environment(endpoint).items():
            monkeypatch.setenv(name, value)
        yield


@pytest.mark.parametrize("before", [Failing(500), Failing(503), Hanging(2)], indirect=True)
@pytest.mark.usefixtures("impatient", "before")
def test_a_server_that_fails_is_an_error_and_leaves_nothing(
    address: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StoreError, match=f"^{address}: the storage does not answer") as caught:
        registry.open(address).add(build_document(1))
    assert server.secret not in str(caught.value)
    for name, value in server.environment(server.endpoint).items():
        monkeypatch.setenv(name, value)
    assert run_ids(registry.open(address)) == []


@pytest.mark.parametrize("before", [Failing(500, first=2)], indirect=True)
@pytest.mark.usefixtures("before")
def test_failures_that_pass_are_tried_again(address: str) -> None:
    assert registry.open(address).add(build_document(1)).is_new
    assert run_ids(registry.open(address)) == ["run-1"]


@pytest.mark.parametrize("before", [Ignoring()], indirect=True)
@pytest.mark.usefixtures("before")
def test_a_server_that_ignores_conditions_in_silence_is_refused(address: str) -> None:
    with pytest.raises(StoreError, match=r"ignores conditions \(If-None-Match\)"):
        registry.open(address).add(build_document(1))


@pytest.mark.usefixtures("db")
def test_wrong_keys_are_named_and_not_shown(
    address: str, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    if server.name == "moto":
        pytest.skip("moto's server accepts any key")
    monkeypatch.setenv(server.secret_variable, "wr0ngkey")
    with pytest.raises(StoreError, match=r"the storage refuses access \(status 403\)") as caught:
        find_registry(address)
    assert "wr0ngkey" not in str(caught.value)


def test_the_command_says_what_is_missing(address: str) -> None:
    done = run_command(address, "ls")
    assert done.returncode == 2
    assert f"create it with `registry init {address}`" in done.stderr
