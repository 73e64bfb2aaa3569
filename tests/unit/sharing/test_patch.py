from __future__ import annotations

from typing import TYPE_CHECKING

from registry.sharing.patch import Author, make_branch, run_git

if TYPE_CHECKING:
    from pathlib import Path


def test_no_command_that_a_clone_names_is_run(tmp_path: Path) -> None:
    clone, ran = tmp_path / "clone", tmp_path / "ran"
    (clone / "records" / "sources").mkdir(parents=True)
    run_git(clone, "init", "--quiet", "--template=")
    run_git(
        clone, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x", "--allow-empty"
    )
    run_git(clone, "config", "core.fsmonitor", f"touch '{ran}'; true")
    hook = clone / ".git" / "hooks" / "reference-transaction"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{ran}'\n", encoding="utf-8")
    hook.chmod(0o755)
    make_branch(clone, "mine", {"records/sources/a": b"x"}, "message", Author("a", "a@b"))
    assert run_git(clone, "show", "mine:records/sources/a") == "x"
    assert not ran.exists()
