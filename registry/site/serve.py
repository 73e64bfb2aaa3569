"""Serve a site on this machine alone."""

from __future__ import annotations

import gzip
import sys
from functools import lru_cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from registry.errors import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable

_LOOPBACK: Final = "127.0.0.1"
#: What a web host sends compressed; the other files are so already.
_COMPRESSED: Final = (".html", ".js", ".css", ".json", ".txt")


@lru_cache(maxsize=64)
def _compress(path: str, modified: float) -> bytes:  # noqa: ARG001 - a file that changed is another
    return gzip.compress(Path(path).read_bytes())


class _Handler(SimpleHTTPRequestHandler):
    """Files of a folder, text compressed, nothing of the folder listed or logged."""

    def send_head(self) -> BytesIO | BinaryIO | None:
        """Return the stream of a file that is answered."""
        try:
            return self._answer(Path(self.translate_path(self.path)))
        except (OSError, ValueError):  # a name that is too long, or holds a NUL
            self.send_error(404)
            return None

    def _answer(self, path: Path) -> BytesIO | BinaryIO | None:
        path = path / "index.html" if path.is_dir() else path
        accepts = "gzip" in self.headers.get("Accept-Encoding", "")
        if path.suffix not in _COMPRESSED or not path.is_file() or not accepts:
            return super().send_head()
        content = _compress(str(path), path.stat().st_mtime)
        self.send_response(200)
        self.send_header("Content-Type", self.guess_type(str(path)))
        self.send_header("Content-Encoding", "gzip")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        return BytesIO(content)

    def list_directory(self, path: Any) -> None:  # noqa: ARG002 - the server's signature
        """Refuse to list a folder."""
        self.send_error(404)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class _Server(ThreadingHTTPServer):
    """A server that takes it quietly when a browser turns away."""

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print what went wrong, unless it is a connection that was closed."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def build_server(folder: Path, port: int) -> ThreadingHTTPServer:
    """Return a server of a folder's files on the loopback interface; port 0 takes a free one.

    Raises StoreError where the port cannot be had.
    """
    handler = partial(_Handler, directory=str(folder))
    try:
        return _Server((_LOOPBACK, port), handler)
    except OSError as error:
        raise StoreError(
            f"port {port}: {error.strerror}; name another with --port, or 0 for a free one"
        ) from None


def serve_folder(folder: Path, port: int, announce: Callable[[str], None]) -> None:
    """Serve a folder until interrupted; ``announce`` gets the address."""
    with build_server(folder, port) as server:
        announce(f"http://{_LOOPBACK}:{server.server_port}/")
        server.serve_forever()
