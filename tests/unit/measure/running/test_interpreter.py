"""What other interpreters say of themselves, and what is said of those that will not do."""

from __future__ import annotations

import json
import shlex
import sys
from typing import TYPE_CHECKING, Any

import pytest

from registry import __version__
from registry.errors import SourceError
from registry.measure.environment import find_version
from registry.measure.running.interpreter import probe_interpreter, read_recorder_mark

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Stand = Callable[[str], str]


@pytest.fixture
def stand_in(tmp_path: Path) -> Stand:
    """Return a function that makes an interpreter of a shell script."""

    def make(script: str) -> str:
        path = tmp_path / "python"
        path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
        path.chmod(0o755)
        return str(path)

    return make


def saying(**changes: Any) -> str:
    told = {
        "registry": __version__,
        "recorder": read_recorder_mark(),
        "environment": {"peft_version": "1.0"},
        "missing": [],
        **changes,
    }
    return f"echo {shlex.quote(json.dumps(told))}"


def test_this_interpreter_says_what_it_has() -> None:
    if find_version("peft") is None:
        with pytest.raises(SourceError, match="has no torch, transformers, peft, accelerate; "):
            probe_interpreter(sys.executable)
        return
    found = probe_interpreter(sys.executable)
    assert found.python == sys.executable
    assert found.environment["peft_version"] == find_version("peft")


def test_an_interpreter_is_known_by_its_own_path_and_not_by_what_that_links_to(
    stand_in: Stand, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to(stand_in(saying()))
    found = probe_interpreter(str(tmp_path / "link"))
    assert found.python == str(tmp_path / "link")
    assert found.environment == {"peft_version": "1.0"}


@pytest.mark.parametrize("name", ["no-such-python", "/"])
def test_what_is_no_program_is_named(name: str) -> None:
    with pytest.raises(SourceError) as caught:
        probe_interpreter(name)
    assert str(caught.value) == (
        f"{name}: no such program; expected a Python interpreter, such as .venv/bin/python"
    )


def test_what_cannot_be_started_is_named(tmp_path: Path) -> None:
    path = tmp_path / "python"
    path.write_bytes(bytes(range(16)))
    path.chmod(0o755)
    with pytest.raises(SourceError, match=f"^{path}: cannot be started: Exec format error; expe"):
        probe_interpreter(str(path))


def test_an_interpreter_without_the_registry_is_told_how_to_get_it(stand_in: Stand) -> None:
    python = stand_in("echo \"No module named 'registry'\" >&2; exit 1")
    with pytest.raises(SourceError) as caught:
        probe_interpreter(python)
    assert str(caught.value).startswith(
        f"{python}: cannot load this registry (No module named 'registry'); expected it to be "
        "installed there too, without its extras, which would change what is compared; install it "
        "with: "
        f"{python} -m pip install "
    )


@pytest.mark.parametrize("script", ["true", "echo 7", "echo {}", "kill -9 $$"])
def test_what_says_something_else_is_no_interpreter(stand_in: Stand, script: str) -> None:
    with pytest.raises(SourceError, match=r"does not respond as Python does \("):
        probe_interpreter(stand_in(script))


def test_another_release_of_the_registry_would_measure_otherwise(stand_in: Stand) -> None:
    python = stand_in(saying(registry="0.0.1", recorder="0.a"))
    with pytest.raises(SourceError) as caught:
        probe_interpreter(python)
    assert str(caught.value).startswith(
        f"{python}: has registry 0.0.1 with recorder 0.a; expected {__version__} with recorder "
        f"{read_recorder_mark()}, as here, so that both measure alike; install it with: {python} "
        "-m pip install --force-reinstall --no-deps "
    )


def test_what_trials_need_is_named_where_it_is_missing(stand_in: Stand) -> None:
    python = stand_in(saying(missing=["torch", "peft"]))
    with pytest.raises(SourceError) as caught:
        probe_interpreter(python)
    assert str(caught.value) == (
        f"{python}: has no torch, peft; expected torch, transformers, peft, accelerate, which "
        f"trials need; install with: {python} -m pip install torch peft"
    )
