"""A contribution as git has it: a patch for ``git am``, or a branch of a clone."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from registry.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Mapping

_AUTHOR = re.compile(r"([^<>\n]+) <([^<>\s]+@[^<>\s]+)>")

#: Settings that no configuration of the user's may change: what is written must be what is shown.
_PLAIN = (
    "-c",
    "core.autocrlf=false",
    "-c",
    "commit.gpgsign=false",
    "-c",
    "core.hooksPath=/dev/null",
    "-c",
    "core.fsmonitor=false",  # a command, which a clone from somebody may name
)


@dataclass(frozen=True)
class Author:
    """Who gives the measurements."""

    name: str
    email: str

    def environment(self) -> dict[str, str]:
        """Return what tells git who it is."""
        return {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", self.name), ("EMAIL", self.email))
        }


def find_author(stated: str | None) -> Author:
    """Return the author that was stated, else git's. Raises SourceError where there is none."""
    if stated is not None:
        match = _AUTHOR.fullmatch(stated.strip())
        if match is None:
            raise SourceError(f"found author {stated!r}; expected 'Name <name@example.org>'")
        return Author(match[1].strip(), match[2])
    name, email = (_ask_git("config", key) for key in ("user.name", "user.email"))
    if not name or not email:
        raise SourceError(
            "git has no name and address for you; a patch needs both; state them with "
            "--author 'Name <name@example.org>'"
        )
    return Author(name, email)


def _ask_git(*arguments: str) -> str | None:
    try:
        return run_git(Path(), *arguments).strip()
    except SourceError:
        return None


def format_patch(files: Mapping[str, bytes], message: str, author: Author) -> bytes:
    """Return a patch that adds files, as ``git am`` takes it."""
    with tempfile.TemporaryDirectory(prefix="registry-share-") as folder:
        place = Path(folder)
        run_git(place, "init", "--quiet", "--template=")
        commit = _commit(place, files, message, author, parent=None)
        return run_git(
            place, "format-patch", "--root", "-1", "--stdout", "--no-signature", "--no-stat",
            "--full-index", commit,
        ).encode()  # fmt: skip


def make_branch(
    clone: Path, branch: str, files: Mapping[str, bytes], message: str, author: Author
) -> str:
    """Commit files on a new branch of a clone, from its HEAD; return the commit.

    The clone's work tree and its own branches stay as they are. Raises SourceError where it is no
    clone of the curated repository, or the branch is there already.
    """
    validate_clone(clone)
    parent = run_git(clone, "rev-parse", "--verify", "HEAD^{commit}").strip()
    commit = _commit(clone, files, message, author, parent=parent)
    # the last argument: only where there is no such branch yet
    try:
        run_git(clone, "update-ref", f"refs/heads/{branch}", commit, "0" * 40)
    except SourceError:
        raise SourceError(
            f"{clone}: has a branch {branch} already; expected none; delete it with "
            f"`git -C {clone} branch -D {branch}`, or push it"
        ) from None
    return commit


def validate_clone(clone: Path) -> None:
    """Raise SourceError unless a folder is the top of a clone with curated records."""
    top = run_git(clone, "rev-parse", "--show-toplevel").strip()
    if not (clone / "records" / "sources").is_dir() or Path(top) != clone.resolve():
        raise SourceError(
            f"{clone}: found no records/sources; expected the top folder of a clone of the curated "
            "repository; name it, or leave --clone out and send the patch"
        )


def _commit(
    folder: Path, files: Mapping[str, bytes], message: str, author: Author, *, parent: str | None
) -> str:
    """Return a commit that adds files to its parent, made beside the work tree."""
    with tempfile.TemporaryDirectory(prefix="registry-share-") as scratch:
        index = {"GIT_INDEX_FILE": f"{scratch}/index"}
        if parent:
            run_git(folder, "read-tree", parent, environment=index)
        for name, data in files.items():
            blob = run_git(folder, "hash-object", "-w", "--stdin", data=data).strip()
            entry = f"100644,{blob},{name}"
            run_git(folder, "update-index", "--add", "--cacheinfo", entry, environment=index)
        tree = run_git(folder, "write-tree", environment=index).strip()
    parents = ("-p", parent) if parent else ()
    said = run_git(
        folder,
        "commit-tree", tree, *parents, "-F", "-",
        environment=author.environment(),
        data=message.encode(),
    )  # fmt: skip
    return said.strip()


def push_branch(clone: Path, remote: str, branch: str) -> str:
    """Push a branch to a remote of a clone and return what git said."""
    return run_git(clone, "push", "--porcelain", remote, f"refs/heads/{branch}")


def run_git(
    folder: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    data: bytes | None = None,
) -> str:
    """Return what a git command prints. Raises SourceError with what it complains about."""
    command = ["git", *_PLAIN, "-C", str(folder), *arguments]
    # of a hook that calls us: another repository's
    inherited = {k: v for k, v in os.environ.items() if k not in ("GIT_DIR", "GIT_WORK_TREE")}
    try:
        done = subprocess.run(
            command,
            input=data,
            capture_output=True,
            check=False,
            env={**inherited, **(environment or {}), "LC_ALL": "C"},
        )
    except FileNotFoundError:
        raise SourceError("found no git; expected it to write the patch; install git") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"exit status {done.returncode}"
        raise SourceError(f"git {arguments[0]} in {folder}: {said}")
    return done.stdout.decode()
