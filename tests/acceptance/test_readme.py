"""Every command and every line of Python in the README and the tutorials does what they show.

With REGISTRY_UPDATE_README=1 the outputs of the commands are written anew instead.
"""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from registry.store.folder import create_registry

ROOT = Path(__file__).parents[2]
README = ROOT / "README.md"
TUTORIALS = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES = [README, ROOT / "docs" / "citing.md", *TUTORIALS]
_BLOCK = re.compile(r"```console\n(.*?)```\n", re.DOTALL)
_PYTHON = re.compile(r"```pycon\n(.*?)```\n", re.DOTALL)
_LINK = re.compile(r"\]\((?!https?:)([^)#]+)")
_END = "--- end of command ---"


@dataclass(frozen=True)
class Step:
    """One command of a session, and the output that the README shows for it."""

    command: str
    output: str


def _parse_session(block: str) -> list[Step]:
    steps: list[Step] = []
    for chunk in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        lines = chunk.splitlines()
        n_command = 1
        while n_command < len(lines) and lines[n_command].startswith("> "):
            n_command += 1
        command = "\n".join([lines[0], *(line[2:] for line in lines[1:n_command])])
        steps.append(Step(command, "\n".join(lines[n_command:])))
    return steps


def _format_session(commands: list[str], outputs: list[str]) -> str:
    lines = []
    for command, output in zip(commands, outputs, strict=True):
        lines.append("$ " + command.replace("\n", "\n> "))
        lines += output.splitlines()
    return "```console\n" + "\n".join(lines) + "\n```\n"


def _run_session(commands: list[str], folder: Path) -> list[str]:
    """Run commands in one shell, and return what each wrote, errors included."""
    for name in ("records", "tests"):
        (folder / name).symlink_to(ROOT / name)
    script = "\n".join(f"{command}\necho '{_END}'" for command in commands)
    environment = {
        **os.environ,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }
    environment.pop("REGISTRY_PATH", None)
    environment.pop("COLUMNS", None)  # set by processes of pytest-xdist
    done = subprocess.run(
        ["bash", "-c", f"exec 2>&1\n{script}"],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        text=True,
        timeout=300,
        check=True,
    )
    return [part.strip("\n") for part in done.stdout.split(f"{_END}\n")[:-1]]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_session_writes_what_the_page_shows(page: Path, tmp_path: Path) -> None:
    text = page.read_text(encoding="utf-8")
    blocks = [_parse_session(block) for block in _BLOCK.findall(text)]
    steps = [step for block in blocks for step in block]
    outputs = _run_session([step.command for step in steps], tmp_path)
    if os.environ.get("REGISTRY_UPDATE_README"):
        _update(page, blocks, outputs)
        return
    assert len(steps) >= (10 if page == README else 1)
    for step, output in zip(steps, outputs, strict=True):
        shown = [line.rstrip() for line in step.output.splitlines()]
        assert [line.rstrip() for line in output.splitlines()] == shown, step.command


def _update(page: Path, blocks: list[list[Step]], outputs: list[str]) -> None:
    text = page.read_text(encoding="utf-8")
    left = iter(outputs)
    sessions = iter(
        [
            _format_session(
                [step.command for step in block],
                ["\n".join(line.rstrip() for line in next(left).splitlines()) for _ in block],
            )
            for block in blocks
        ]
    )
    page.write_text(_BLOCK.sub(lambda _: next(sessions), text), encoding="utf-8")


@pytest.mark.parametrize("name", ["README.md", "docs/tutorials/analyst.md"])
def test_the_python_of_the_page_gives_what_it_shows(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    create_registry(tmp_path / "mine")
    monkeypatch.setenv("REGISTRY_PATH", str(tmp_path / "mine"))
    source = "\n".join(_PYTHON.findall((ROOT / name).read_text(encoding="utf-8")))
    test = doctest.DocTestParser().get_doctest(source, {}, name, None, None)
    assert len(test.examples) > 3
    result = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(test)
    assert result.failed == 0


def test_the_readme_is_short() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) < 200


_LINKED = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "docs/units.md",
    "docs/tutorials/session.md",
]


@pytest.mark.parametrize("name", _LINKED)
def test_links_lead_somewhere(name: str) -> None:
    page = ROOT / name
    links = _LINK.findall(page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []
