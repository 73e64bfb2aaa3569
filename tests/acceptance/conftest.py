"""Run the installed command as a user does, in a folder of its own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.api import Registry, open_registry
from registry.store.folder import create_registry, find_registry
from tests.acceptance.forking import COMMAND, LONGEST_INPUT, ForkServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from registry.store.add import Added

    Run = Callable[..., subprocess.CompletedProcess[str]]


def build_submission(number: int = 1) -> dict[str, Any]:
    """Return a small valid submission; ``number`` tells its run from others."""
    return {
        "source": {"source_id": "my-runs"},
        "observations": [
            {
                "outcome": "ok",
                "run_id": f"run-{number}",
                "configuration": {
                    "model_id": "llama-2-7b",
                    "method": "lora",
                    "gpu_id": "rtx-3090",
                    "n_gpus": 1,
                },
                "measurements": [
                    {"metric": "peak_memory", "kind": "reserved", "value": "20 GiB"},
                ],
            }
        ],
    }


@pytest.fixture
def submission() -> Callable[..., dict[str, Any]]:
    """Return a function that builds valid submissions."""
    return build_submission


@pytest.fixture
def command() -> Path:
    """Return the installed script."""
    return COMMAND


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """Return the environment of a user who has no registry yet."""
    theirs = ("REGISTRY_PATH", "COLUMNS")  # the second is set by processes of pytest-xdist
    kept = {name: value for name, value in os.environ.items() if name not in theirs}
    path = f"{COMMAND.parent}{os.pathsep}{kept['PATH']}"
    temporary = tmp_path / "tmp"  # what killed runs left in that of the machine is named
    temporary.mkdir()
    folders = {"XDG_DATA_HOME": str(tmp_path / "data"), "TMPDIR": str(temporary)}
    return {**kept, **folders, "PATH": path}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return the empty folder in which the command runs."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def fork_servers() -> Iterator[cycle[ForkServer]]:
    """Return processes that fork the command, in turns: each orders sets in another way."""
    servers = [ForkServer(), ForkServer()]
    yield cycle(servers)
    for server in servers:
        server.close()


@pytest.fixture
def run(environment: dict[str, str], work: Path, fork_servers: cycle[ForkServer]) -> Run:
    """Return a function that runs the command and sees that it shows no traceback."""

    def run_command(
        *arguments: str, cwd: Path = work, stdin: str | bytes = b"", **variables: str
    ) -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        if not variables and len(data) <= LONGEST_INPUT:
            done = next(fork_servers).run([*arguments], cwd, environment, data)
        else:  # variables may be for the interpreter's start
            done = subprocess.run(
                [str(COMMAND), *arguments],
                cwd=cwd,
                env={**environment, **variables},
                input=data,
                capture_output=True,
                timeout=300,
                check=False,
            )
        stdout, stderr = done.stdout.decode(), done.stderr.decode()
        assert "Traceback" not in stderr, stderr
        assert "a bug in the command" not in stderr, stderr
        return subprocess.CompletedProcess(done.args, done.returncode, stdout, stderr)

    return run_command


@pytest.fixture(scope="session")
def curated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry over the curated records, with one version, that nobody may write to."""
    path = tmp_path_factory.mktemp("curated") / "registry"
    create_registry(path)
    db = Registry(find_registry(path))
    document = build_submission(0)
    db.add({**document, "source": {"source_id": "older-runs"}})
    db.fold()
    return path


@pytest.fixture
def registry(work: Path, curated: Path) -> Path:
    """Return a registry of the test's own, the folder ``mine`` where the command runs."""
    return Path(shutil.copytree(curated, work / "mine"))


@pytest.fixture
def write(work: Path) -> Callable[[str, Any], Path]:
    """Return a function that writes a file where the command runs: a text, or a JSON document."""

    def write_file(name: str, content: Any) -> Path:
        path = work / name
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


@pytest.fixture
def record(environment: dict[str, str], work: Path) -> Callable[..., list[Added]]:
    """Return a function that adds documents where ``registry add`` would, without a process."""

    def add(*documents: dict[str, Any]) -> list[Added]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("XDG_DATA_HOME", environment["XDG_DATA_HOME"])
            patch.chdir(work)
            return open_registry().add_many(documents)

    return add


@pytest.fixture
def snapshot() -> Callable[[Path], dict[str, bytes | None]]:
    """Return a function that reads all that is in a folder, the lock's content left out."""

    def read(folder: Path) -> dict[str, bytes | None]:
        return {
            str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
            for path in folder.rglob("*")
            if path.name != ".lock"
        }

    return read
