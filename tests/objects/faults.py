"""A server before a server of object storage that does what bad ones do."""

from __future__ import annotations

import http.client
import threading
import time
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def standing_before(endpoint: str, fault: Callable[[Any], int | None]) -> Iterator[str]:
    """Yield the address of a server that passes on what ``fault`` answers None for.

    The signature of a request holds the name of the host, so the name is passed on as it was.
    """
    host = urlsplit(endpoint).netloc

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _answer(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status = fault(self)
            if status is not None:
                self.send_response(status)
                self.send_header("Content-Length", "0")
                self.end_headers()
                return
            connection = http.client.HTTPConnection(host, timeout=30)
            connection.putrequest(
                self.command, self.path, skip_host=True, skip_accept_encoding=True
            )
            for name, value in self.headers.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            answer = connection.getresponse()
            content = answer.read()
            self.send_response(self.altered(answer.status))
            for name, value in answer.getheaders():
                if name.lower() not in ("content-length", "transfer-encoding", "connection"):
                    self.send_header(name, value)
            if self.command == "PUT" and answer.getheader("ETag") is None:
                self.send_header("ETag", '"none"')
            length = answer.getheader("Content-Length") if self.command == "HEAD" else None
            self.send_header("Content-Length", length or str(len(content)))
            self.end_headers()
            self.wfile.write(content)
            connection.close()

        def altered(self, status: int) -> int:
            change = getattr(fault, "altered", None)
            return change(status) if change else status

        do_GET = do_PUT = do_HEAD = do_DELETE = do_POST = _answer  # noqa: N815 - http.server's names

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Failing:
    """Answers puts with a status of the server's own failure, all or the first of them."""

    def __init__(self, status: int, *, first: int | None = None) -> None:
        self.status = status
        self.left = first
        self.n_failed = 0

    def __call__(self, request: BaseHTTPRequestHandler) -> int | None:
        """Return the status for a put while there are some left."""
        if request.command != "PUT" or self.left == 0:
            return None
        self.left = None if self.left is None else self.left - 1
        self.n_failed += 1
        return self.status


class Hanging:
    """Never answers a put."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self, request: BaseHTTPRequestHandler) -> int | None:
        """Wait, and then fail."""
        if request.command == "PUT":
            time.sleep(self.seconds)
            return 504
        return None


class Ignoring:
    """Says of each condition that it held."""

    def __call__(self, request: BaseHTTPRequestHandler) -> int | None:  # noqa: ARG002 - all pass
        """Pass the request on."""
        return None

    def altered(self, status: int) -> int:
        """Return success where the condition did not hold: S3 says 412 then, Azure 409."""
        return {412: 200, 409: 201}.get(status, status)
