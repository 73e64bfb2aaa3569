"""Real servers of object storage on loopback, each with an empty bucket."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s3cr3t", "AWS_REGION": "us-east-1"}
BUCKET = "bucket"

_IDENTITIES = {
    "identities": [
        {
            "name": "test",
            "credentials": [{"accessKey": "k", "secretKey": "s3cr3t"}],
            "actions": ["Admin", "Read", "Write", "List", "Tagging"],
        }
    ]
}


@dataclass(frozen=True)
class Server:
    """A server of object storage, and the environment in which clients find it."""

    name: str
    endpoint: str
    environment: dict[str, str]


def find_free_ports(number: int) -> list[int]:
    """Return ports that are free now."""
    sockets = [socket.socket() for _ in range(number)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def _weed_command(folder: Path, port: int) -> list[str]:
    identities = folder / "s3.json"
    identities.write_text(json.dumps(_IDENTITIES), encoding="utf-8")
    ports = iter(find_free_ports(7))
    services = [f"{name}.port" for name in ("master", "volume", "filer")]
    named = [*services, *(f"{name}.grpc" for name in services), "s3.port.grpc"]
    return [
        "weed",
        "server",
        f"-dir={folder}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        "-filer",
        "-s3",
        f"-s3.port={port}",
        f"-s3.config={identities}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        "-master.volumeSizeLimitMB=64",
        "-volume.max=50",
        *(f"-{name}={next(ports)}" for name in named),
    ]


def _moto_command(_: Path, port: int) -> list[str]:
    return [os.environ.get("MOTO_SERVER", "moto_server"), "-H", "127.0.0.1", "-p", str(port)]


COMMANDS = {"seaweedfs": _weed_command, "moto": _moto_command}


def create_bucket(endpoint: str) -> None:
    """Create the bucket by a signed request; the client itself creates none."""
    obstore, stores = map(pytest.importorskip, ("obstore", "obstore.store"))
    store = stores.S3Store.from_url(
        f"s3://{BUCKET}",
        endpoint=endpoint,
        access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region=KEYS["AWS_REGION"],
        client_options={"allow_http": True},
    )
    url = obstore.sign(store, "PUT", "", timedelta(minutes=5))
    request = urllib.request.Request(url, method="PUT")  # noqa: S310 - the endpoint is http
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - likewise


@pytest.fixture(scope="session", params=list(COMMANDS))
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    """Start a server; it is stopped by its own process id, whatever happens."""
    pytest.importorskip("obstore", reason="needs the extra [objects]")
    (port,) = find_free_ports(1)
    folder = tmp_path_factory.mktemp(request.param)
    command = COMMANDS[request.param](folder, port)
    if shutil.which(command[0]) is None:
        pytest.skip(f"needs the server {command[0]} (see .ci/objects)")
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder)
    try:
        endpoint = f"http://127.0.0.1:{port}"
        _wait_for(endpoint, process, folder / "log")
        yield Server(request.param, endpoint, {**KEYS, "AWS_ENDPOINT_URL": endpoint})
    finally:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(endpoint: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            create_bucket(endpoint)
        except OSError:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        else:
            return


@pytest.fixture
def address(server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return an address where nothing is, in the bucket of a server."""
    for name, value in server.environment.items():
        monkeypatch.setenv(name, value)
    return f"s3://{BUCKET}/{abs(hash(request.node.nodeid)):x}"
