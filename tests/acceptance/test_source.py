"""The contributor's road: a source is drafted, filled in, checked, and merged as text."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]

CHECKOUT = Path(__file__).parents[2]

PAGE = """\
# Notes of {name}

## Fine-tuning memory

| Model | Method | GPU | Batch size | Sequence length | Peak memory (GiB) |
|---|---|---|---|---|---|
| Llama 2 7B | LoRA | RTX 3090 | 1 | 512 | {small} |
| Llama 2 7B | LoRA | RTX 3090 | 2 | 512 | {large} |
"""

STATED = ("--url", "https://example.org", "--publisher", "Somebody", "--published-on", "2025")


@pytest.fixture
def clone(work: Path) -> Path:
    """Return a repository of git with the records of this checkout in it."""
    if shutil.which("git") is None:
        pytest.skip("needs git")
    path = work / "clone"
    shutil.copytree(CHECKOUT / "records", path / "records", ignore=shutil.ignore_patterns(".lock"))
    git(path, "init", "--quiet", "--initial-branch=main")
    commit(path, "records")
    return path


def git(folder: Path, *arguments: str) -> str:
    """Run git with nobody's settings; return what it prints."""
    named = {
        f"GIT_{who}_{what}": "a@example.org"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    nobody = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **named, **nobody},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def commit(folder: Path, message: str) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", message)


def draft(run: Run, clone: Path, name: str, *, small: str = "16.5", large: str = "18.5") -> Path:
    """Write a page, draft a source of it, and fill in what the draft leaves open."""
    page = clone.parent / f"{name}.md"
    page.write_text(PAGE.format(name=name, small=small, large=large), encoding="utf-8")
    done = run("source", "new", str(page), *STATED, "--licence", "MIT", cwd=clone)
    assert done.returncode == 0, done.stderr
    mapping = clone / "records" / "sources" / name / "mapping.yaml"
    text = mapping.read_text(encoding="utf-8")
    # the page does not say how many cards there were
    n_gpus = "    defaults:\n      n_gpus: '?'  # delete the line if the document does not say\n"
    filled = text.replace("scope: '?'", "scope: total").replace(n_gpus, "")
    assert ": '?'" not in filled
    mapping.write_text(filled, encoding="utf-8")
    return mapping


def first_command() -> str:
    """Return the query of the README's first command."""
    text = (CHECKOUT / "README.md").read_text(encoding="utf-8")
    found = re.search(r'&& registry query "([^"]+)"', text)
    assert found
    return found[1]


def test_two_branches_that_each_add_a_source_merge_and_answer(run: Run, clone: Path) -> None:
    names = ("notes-of-ada", "notes-of-bob")
    for name in names:
        git(clone, "switch", "--quiet", "--create", name, "main")
        draft(run, clone, name)
        commit(clone, f"Add {name}")
    git(clone, "switch", "--quiet", "main")
    for name in names:
        git(clone, "merge", "--quiet", "--no-edit", name)
    changed = [line.split("\t") for line in git(clone, "diff", "--numstat", "HEAD~2").splitlines()]
    assert sorted(path for *_, path in changed) == [
        f"records/sources/{name}/{file}"
        for name in names
        for file in ("01-fine-tuning-memory.csv", "mapping.yaml")
    ]
    assert all(added.isdigit() for added, *_ in changed)  # git shows no number for a binary
    done = run("query", first_command(), "-f", "csv", cwd=clone)
    assert (done.returncode, done.stderr) == (0, "")
    rows = done.stdout.splitlines()
    assert "notes-of-ada,ok,2,2" in rows
    assert "notes-of-bob,ok,2,2" in rows
    assert git(clone, "status", "--porcelain") == ""


def test_a_terminal_is_asked_for_what_no_option_says(
    clone: Path, command: Path, environment: dict[str, str]
) -> None:
    page = clone.parent / "notes.md"
    page.write_text(PAGE.format(name="x", small="1", large="2"), encoding="utf-8")
    ours, theirs = os.openpty()
    # the title as proposed, no publisher, a date that is none, then one
    os.write(ours, b"\nhttps://example.org\n\nlately\n2025-03\n")
    done = subprocess.run(
        [command, "source", "new", page, "--licence", "MIT"],
        cwd=clone,
        env=environment,
        stdin=theirs,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    os.close(ours)
    os.close(theirs)
    assert done.returncode == 0, done.stderr
    assert "published_on: found 'lately'; expected text that matches" in done.stderr
    text = (clone / "records" / "sources" / "notes" / "mapping.yaml").read_text(encoding="utf-8")
    for line in ("title: Notes of x", "url: https://example.org", "publisher: '?'"):
        assert f"  {line}\n" in text
    assert "  published_on: 2025-03\n  licence: MIT\n" in text


def test_the_check_names_all_that_is_open(run: Run, clone: Path) -> None:
    page = clone.parent / "notes.md"
    page.write_text(PAGE.format(name="x", small="1", large="2"), encoding="utf-8")
    assert run("source", "new", str(page), cwd=clone).returncode == 0
    done = run("source", "check", "notes", cwd=clone)
    assert (done.returncode, done.stdout) == (1, "")
    for name in ("url", "publisher", "published_on", "licence"):
        assert f"source.{name}: found '?', which the draft left for you to fill in" in done.stderr


def test_the_check_shows_what_was_read_and_what_looks_wrong(run: Run, clone: Path) -> None:
    draft(run, clone, "ada", large="24.5")
    draft(run, clone, "bob", small="16.5", large="2.5")
    done = run("source", "check", "bob", cwd=clone)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert "  tables: 1; rows: 2; reported places: 2" in lines
    assert "  observations: 2 (2 ok)" in lines
    assert (
        "  peak_memory (unknown, value, total, in GiB, the column's header gives the unit), "
        "figures: 2, the first: '16.5' is 16.5 GiB" in lines
    )
    far = [line for line in lines if "found 2.5 GiB per device, expected about" in line]
    assert len(far) == 1
    repeated = lines[lines.index("The same figures in other sources") + 1]
    assert repeated.startswith("  ada has 1 of them: the same model, card, length and batch, and")


def test_the_check_says_what_the_review_settles(run: Run, clone: Path) -> None:
    mapping = draft(run, clone, "bob", large="2.5")
    with mapping.open("a", encoding="utf-8") as file:
        file.write("\ndefaults: {n_gpus: 1}\n")
    kind = "less memory at a larger batch"
    for n, expected in ((1, "; kept: it is so"), (2, "review.yaml settles 2, which is not")):
        mapping.with_name("review.yaml").write_text(
            f"- {{kind: {kind}, metric: peak_memory, n: {n}, settled: kept, because: it is so}}\n",
            encoding="utf-8",
        )
        done = run("source", "check", "bob", cwd=clone)
        assert (done.returncode, done.stderr) == (0, "")
        found = [line for line in done.stdout.splitlines() if f"  {kind} (peak_memory): " in line]
        assert len(found) == n  # with a wrong number, the finding and the decision
        assert expected in found[-1]


def test_a_model_that_another_source_describes_is_known(run: Run, clone: Path) -> None:
    mapping = draft(run, clone, "ada")
    text = mapping.read_text(encoding="utf-8")
    assert "llama-2-7b" in text
    # chatglm-6b stands in the mapping of cogvlm2-chatglm-memory, not in records/catalogue
    mapping.write_text(text.replace("llama-2-7b", "chatglm-6b"), encoding="utf-8")
    done = run("source", "check", "ada", cwd=clone)
    assert (done.returncode, done.stderr) == (0, "")
    assert "  observations: 2 (2 ok)" in done.stdout
    assert "  chatglm-6b: described by another source; the catalogue has no" in done.stdout
    done = run("query", "from results where source_id = 'ada'", "-f", "jsonl", cwd=clone)
    assert done.stdout.count('"model_id":"chatglm-6b"') == 2
    assert done.stderr == ""
    with mapping.open("a", encoding="utf-8") as file:
        file.write("\nmodels: [{model_id: chatglm-6b, n_params: 6000000000}]\n")
    done = run("source", "check", "ada", cwd=clone)
    assert done.returncode == 0, done.stderr
    assert "  chatglm-6b: described by ada and cogvlm2-chatglm-memory" in done.stdout
    assert "and leave it out of the others, which may name it" in done.stdout


def test_the_check_is_ready_for_a_pull_request(run: Run, clone: Path) -> None:
    draft(run, clone, "ada")
    done = run("source", "check", "ada", "-f", "markdown", cwd=clone)
    lines = done.stdout.splitlines()
    assert lines[:3] == ["### Source `ada`", "", "**Read**"]
    assert "- observations: 2 (2 ok)" in lines
    assert any(line.startswith(r"- peak\_memory (unknown") for line in lines)


def test_a_source_is_written_only_into_a_checkout(run: Run, work: Path) -> None:
    (work / "page.md").write_text(PAGE.format(name="x", small="1", large="2"), encoding="utf-8")
    done = run("source", "new", "page.md")
    assert done.returncode == 1
    assert done.stderr == (
        "error: records: found no records with sources/; expected those of a checkout; run this "
        "in the checkout's folder, or name them with --registry\n"
    )
    assert [path.name for path in work.iterdir()] == ["page.md"]


def test_a_source_that_is_not_there_gets_a_hint(run: Run, clone: Path) -> None:
    done = run("source", "check", "swift-bench", cwd=clone)
    assert done.returncode == 1
    assert "found no source 'swift-bench'; did you mean 'swift-benchmark'?" in done.stderr
