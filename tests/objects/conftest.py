"""Real servers of object storage on loopback, each with an empty bucket."""

from __future__ import annotations

import base64
import hmac
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from dataclasses import dataclass
from datetime import timedelta
from email.utils import formatdate
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEYS = {"AWS_ACCESS_KEY_ID": "k", "AWS_SECRET_ACCESS_KEY": "s3cr3t", "AWS_REGION": "us-east-1"}
BUCKET = "bucket"

ACCOUNT = "measuring"
ACCOUNT_KEY = base64.b64encode(b"s3cr3t").decode()

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

    @property
    def scheme(self) -> str:
        """How addresses on it begin."""
        return "az" if self.name == "azurite" else "s3"

    @property
    def endpoint_variable(self) -> str:
        """Name the variable that names the server to clients."""
        return {"az": "AZURE_STORAGE_ENDPOINT", "s3": "AWS_ENDPOINT_URL"}[self.scheme]

    @property
    def secret_variable(self) -> str:
        """Name the variable that holds the secret key."""
        return {"az": "AZURE_STORAGE_ACCOUNT_KEY", "s3": "AWS_SECRET_ACCESS_KEY"}[self.scheme]

    @property
    def secret(self) -> str:
        """Return the secret key."""
        return self.environment("")[self.secret_variable]

    def environment(self, endpoint: str) -> dict[str, str]:
        """Return the environment in which clients find the server at an endpoint."""
        if self.scheme == "s3":
            return {**KEYS, self.endpoint_variable: endpoint}
        return {
            "AZURE_STORAGE_ACCOUNT_NAME": ACCOUNT,
            self.secret_variable: ACCOUNT_KEY,
            self.endpoint_variable: f"{endpoint}/{ACCOUNT}",
        }


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


def _azurite_command(_: Path, port: int) -> list[str]:
    return [
        "azurite-blob",
        "--blobHost=127.0.0.1",
        f"--blobPort={port}",
        "--inMemoryPersistence",
        "--skipApiVersionCheck",
        "--disableTelemetry",
    ]


COMMANDS = {"seaweedfs": _weed_command, "moto": _moto_command, "azurite": _azurite_command}


def create_bucket(server: Server) -> None:
    """Create the bucket, or Azure's container, by a signed request; the client creates none."""
    request = sign_container(server) if server.scheme == "az" else sign_bucket(server)
    urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - the endpoint is http


def sign_container(server: Server) -> urllib.request.Request:
    """Return Azure's request for a new container, signed with the account's key.

    What is signed is in Microsoft's "Authorize with Shared Key": the verb, eleven headers that are
    empty here, the ``x-ms-`` headers and the resource.
    """
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    signed = "\n".join(
        [
            *["PUT", *[""] * 11, *(f"{name}:{value}" for name, value in headers.items())],
            *[f"/{ACCOUNT}/{ACCOUNT}/{BUCKET}", "restype:container"],
        ]
    )
    digest = hmac.digest(base64.b64decode(ACCOUNT_KEY), signed.encode(), "sha256")
    headers["Authorization"] = f"SharedKey {ACCOUNT}:{base64.b64encode(digest).decode()}"
    url = f"{server.endpoint}/{ACCOUNT}/{BUCKET}?restype=container"
    return urllib.request.Request(url, headers=headers, method="PUT")  # noqa: S310 - is http


def sign_bucket(server: Server) -> urllib.request.Request:
    """Return S3's request for a new bucket."""
    obstore, stores = map(pytest.importorskip, ("obstore", "obstore.store"))
    store = stores.S3Store.from_url(
        f"s3://{BUCKET}",
        endpoint=server.endpoint,
        access_key_id=KEYS["AWS_ACCESS_KEY_ID"],
        secret_access_key=KEYS["AWS_SECRET_ACCESS_KEY"],
        region=KEYS["AWS_REGION"],
        client_options={"allow_http": True},
    )
    url = obstore.sign(store, "PUT", "", timedelta(minutes=5))
    return urllib.request.Request(url, method="PUT")  # noqa: S310 - the endpoint is http


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
        environment = {**os.environ, "AZURITE_ACCOUNTS": f"{ACCOUNT}:{ACCOUNT_KEY}"}
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
    try:
        found = Server(request.param, f"http://127.0.0.1:{port}")
        _wait_for(found, process, folder / "log")
        yield found
    finally:
        process.terminate()
        try:
            process.wait(3)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _wait_for(server: Server, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 60
    while True:
        try:
            create_bucket(server)
        except OSError:
            assert process.poll() is None, log.read_text(errors="replace")[-2000:]
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        else:
            return


@pytest.fixture
def address(server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Return an address where nothing is, in the bucket of a server."""
    for name, value in server.environment(server.endpoint).items():
        monkeypatch.setenv(name, value)
    return f"{server.scheme}://{BUCKET}/{abs(hash(request.node.nodeid)):x}"
