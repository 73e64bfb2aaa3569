"""Which files of a dataset may be handed to the engine: its own, as they were written."""

from __future__ import annotations

import hashlib
import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from registry.errors import QueryError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.query.model import Digest, Relation

#: Largest file whose content is hashed before it is read; of larger ones the size is checked.
LARGEST_HASHED = 32 * 2**20


def validate_files(files: Iterable[Path], readable: Iterable[Path]) -> None:
    """Raise QueryError for anything but a regular file in the folders ``readable``.

    A second safeguard: where the kernel has no Landlock, a manifest that names a file elsewhere
    would have it read.
    """
    folders = [os.path.realpath(folder) for folder in readable]
    for path in files:
        problem = _find_problem(path, folders)
        if problem:
            raise QueryError(
                f"{path}: {problem}; expected a file in the registry's own folder; run "
                "`registry check` to see what else is wrong"
            )


def validate_contents(relation: Relation) -> None:
    """Raise QueryError for a file of a relation that is not as written."""
    for path, digest in zip(relation.files, relation.digests, strict=bool(relation.digests)):
        if not _is_as_written(path, digest):
            raise QueryError(
                f"{path}: found content that differs from what was written; {digest.way_out}"
            )


def _is_as_written(path: Path, digest: Digest) -> bool:
    with path.open("rb") as file:
        if os.fstat(file.fileno()).st_size != digest.size:
            return False
        if digest.size > LARGEST_HASHED:
            return True
        return hashlib.file_digest(file, "sha256").hexdigest() == digest.sha256


def _find_problem(path: Path, folders: list[str]) -> str | None:
    parent = Path(os.path.realpath(path.parent))
    if not any(parent.is_relative_to(folder) for folder in folders):
        return "lies outside what a query may read"
    if path.is_symlink():
        return "is a link"
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        return error.strerror
    try:
        return None if stat.S_ISREG(os.fstat(number).st_mode) else "is not a regular file"
    finally:
        os.close(number)
