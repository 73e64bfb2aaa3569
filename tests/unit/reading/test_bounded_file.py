"""Only regular files are read, and only up to a limit: nothing that somebody names can hang."""

from __future__ import annotations

import io
import os
import socket
from pathlib import Path

import pytest

from registry.reading import ReadingError, decode_text, read_bytes, read_stream, read_text


def _refusal(path: Path, *, limit: int = 100, follow_links: bool = True) -> str:
    with pytest.raises(ReadingError) as caught:
        read_bytes(path, limit=limit, what="a mapping", follow_links=follow_links)
    assert caught.value.origin == str(path)
    assert str(caught.value) == f"{path}: {caught.value.reason}"
    return caught.value.reason


class Endless(io.RawIOBase):
    """A stream of zeros that counts what is asked for."""

    n_read = 0

    def read(self, size: int = -1) -> bytes:
        assert size > 0, "an endless stream is never read to its end"
        self.n_read += size
        return b"\0" * size


def test_a_file_up_to_the_limit_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: \xc3\xa9")
    assert read_bytes(path, limit=8, what="a mapping") == b"\xef\xbb\xbfa: \xc3\xa9"
    assert read_text(path, limit=8, what="a mapping") == "a: é"
    assert _refusal(path, limit=7) == "longer than 7 bytes; expected a mapping below that; split it"


def test_a_stream_is_asked_for_one_byte_beyond_the_limit_and_no_more() -> None:
    stream = Endless()
    with pytest.raises(ReadingError) as caught:
        read_stream(stream, limit=1000, what="a document")  # type: ignore[arg-type]
    assert str(caught.value) == (
        "standard input: longer than 1000 bytes; expected a document below that; split it"
    )
    assert stream.n_read == 1001


def test_a_pipe_without_a_writer_is_refused_at_once(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    assert _refusal(path) == (
        "found a pipe, expected a mapping in a regular file; save it in one first"
    )


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/tty"])
def test_a_device_is_refused(device: str) -> None:
    reason = _refusal(Path(device))
    no_terminal = "cannot be read: No such device or address; expected a readable file"
    refused = "found a device, expected a mapping in a regular file; save it in one first"
    assert reason == refused or (device == "/dev/tty" and reason == no_terminal)


def test_a_link_to_a_device_is_refused_for_what_it_leads_to(tmp_path: Path) -> None:
    link = tmp_path / "mapping.yaml"
    link.symlink_to("/dev/zero")
    assert _refusal(link).startswith("found a device, ")


def test_a_folder_is_refused(tmp_path: Path) -> None:
    assert _refusal(tmp_path) == "cannot be read: Is a directory; expected a readable file"


def test_a_socket_cannot_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)  # the name of a socket must be short
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("s")
        assert _refusal(Path("s")) == (
            "cannot be read: No such device or address; expected a readable file"
        )


def test_a_missing_file_cannot_be_read(tmp_path: Path) -> None:
    assert _refusal(tmp_path / "none.yaml") == (
        "cannot be read: No such file or directory; expected a readable file"
    )


def test_a_name_that_no_file_can_have_cannot_be_read() -> None:
    assert _refusal(Path("a\0b")) == "cannot be read: embedded null byte; expected a readable file"


def test_a_link_is_followed_unless_the_caller_says_otherwise(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    link = tmp_path / "b"
    link.symlink_to("a")
    assert read_bytes(link, limit=1, what="an entry") == b"1"
    assert _refusal(link, follow_links=False) == (
        "cannot be read: Too many levels of symbolic links; expected a readable file"
    )


def test_a_file_that_is_longer_than_it_says_is_bounded_too() -> None:
    status = Path("/proc/self/status")
    assert status.stat().st_size == 0
    assert _refusal(status, limit=10).startswith("longer than 10 bytes")


def test_text_that_is_not_utf8_names_the_byte() -> None:
    with pytest.raises(ReadingError) as caught:
        decode_text(b"ab\xff", origin="a.md")
    assert str(caught.value) == (
        "a.md: found byte 0xff at position 2, expected text in UTF-8; save it in that encoding"
    )
