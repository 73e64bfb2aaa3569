"""Results are written whole or not at all, and an error says the way out."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING

import pytest

from registry.errors import StoreError
from registry.store.files import (
    explained,
    explained_output,
    filled_folder,
    require_free,
    require_regular,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    Explain = Callable[[Path], AbstractContextManager[None]]


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*"))


def test_only_what_is_not_there_or_empty_is_filled(tmp_path: Path) -> None:
    require_free(tmp_path / "missing")
    require_free(tmp_path)
    (tmp_path / ".tmp-12").touch()
    require_free(tmp_path)
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "file").touch()
    for path in (tmp_path, tmp_path / "link", tmp_path / "file"):
        with pytest.raises(StoreError) as caught:
            require_free(path)
        assert str(caught.value) == (
            f"{path}: found something there already; expected no such folder, or an empty one; "
            "name another, or remove it"
        )


def test_a_pipe_a_link_and_a_folder_are_no_regular_files(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    require_regular(tmp_path / "file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    for path in (tmp_path, tmp_path / "pipe", tmp_path / "link"):
        with pytest.raises(StoreError, match="found no regular file; expected one that the regist"):
            require_regular(path)


@pytest.mark.parametrize("is_there", [True, False])
def test_a_filled_folder_appears_when_it_is_complete(tmp_path: Path, *, is_there: bool) -> None:
    target = tmp_path / "a" / "b" / "out"
    if is_there:
        target.mkdir(parents=True)
    with filled_folder(target, last="b") as temporary:
        assert temporary.parent == (target if is_there else target.parent)
        for name in ("a", "b", "c"):
            (temporary / name).write_text(name, encoding="utf-8")
        assert not (target / "a").exists()
    assert names(tmp_path) == ["a", "a/b", *(f"a/b/out{end}" for end in ("", "/a", "/b", "/c"))]


def test_the_file_that_names_the_others_moves_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = []
    replace = os.replace

    def note(source: Path, target: Path) -> None:
        moved.append(os.path.basename(target))  # noqa: PTH119 - given as a path or as text
        replace(source, target)

    monkeypatch.setattr(os, "replace", note)
    with filled_folder(tmp_path, last="b") as temporary:
        for name in ("a", "b", "c"):
            (temporary / name).touch()
    assert moved[-1] == "b"
    assert sorted(moved) == ["a", "b", "c"]


def test_a_folder_that_is_not_completed_leaves_nothing(tmp_path: Path) -> None:
    def fill() -> None:
        with filled_folder(tmp_path / "out", last="b") as temporary:
            (temporary / "a").touch()
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fill()
    assert names(tmp_path) == []


RECORDED = [
    (errno.EACCES, "make the folder writable, or name another with --registry"),
    (errno.EPERM, "make the folder writable, or name another with --registry"),
    (errno.EROFS, "the disk is mounted read-only; name another folder with --registry"),
    (errno.ENOSPC, "free space on the disk, then repeat the command"),
    (errno.EDQUOT, "free space within your quota, then repeat the command"),
    (errno.ENOENT, "the folder is gone; create it with `registry init`"),
    (errno.EIO, "name another folder with --registry"),
]

WRITTEN = [
    (errno.EACCES, "make its folder writable, or name another place"),
    (errno.EPERM, "make its folder writable, or name another place"),
    (errno.EROFS, "the disk is mounted read-only; name another place"),
    (errno.ENOSPC, "free space on the disk, then repeat the command"),
    (errno.EDQUOT, "free space within your quota, then repeat the command"),
    (errno.ENOENT, "create its folder first, or name another place"),
    (errno.EIO, "name another place"),
]


@pytest.mark.parametrize(
    ("explain", "consequence", "code", "way_out"),
    [
        *((explained, "nothing was recorded", *case) for case in RECORDED),
        *((explained_output, "nothing was written", *case) for case in WRITTEN),
    ],
)
def test_a_failed_write_says_the_way_out(
    tmp_path: Path, explain: Explain, consequence: str, code: int, way_out: str
) -> None:
    with pytest.raises(StoreError) as caught, explain(tmp_path):
        raise OSError(code, os.strerror(code))
    assert str(caught.value) == (
        f"{tmp_path}: cannot be written: {os.strerror(code)}; {consequence}; {way_out}"
    )


def test_a_failed_write_without_a_number_gives_its_text(tmp_path: Path) -> None:
    with pytest.raises(StoreError) as caught, explained(tmp_path):
        raise OSError("odd")
    assert str(caught.value) == (
        f"{tmp_path}: cannot be written: odd; nothing was recorded; name another folder with "
        "--registry"
    )
