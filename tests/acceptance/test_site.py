"""``registry site``: what it writes, and how it refuses."""

from __future__ import annotations

import re
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., subprocess.CompletedProcess[str]]

pytest.importorskip("altair", reason="needs the extra [plot]")


def test_a_site_is_a_folder_with_a_page(run: Run, work: Path, few_records: Path) -> None:
    site = ("site", "-o", "out", "--fit-models", "0", "--registry", str(few_records))
    done = run(*site)
    assert (done.returncode, done.stdout) == (0, "wrote out\n")
    assert re.fullmatch(r"\d+ files, \d\.\d MB\n", done.stderr)
    assert {path.name for path in (work / "out").iterdir()} == {"index.html", "assets", "data"}
    again = run(*site)
    assert (again.returncode, again.stdout) == (1, "")
    assert again.stderr.startswith("error: out: found something there already; expected no such")


def test_a_single_file_holds_everything(run: Run, work: Path, few_records: Path) -> None:
    site = ("site", "--single-file", "-o", "out", "--fit-models", "0")
    done = run(*site, "--registry", str(few_records))
    assert (done.returncode, done.stdout) == (0, "open out/index.html\n")
    assert [path.name for path in (work / "out").iterdir()] == ["index.html"]
    text = (work / "out" / "index.html").read_text(encoding="utf-8")
    assert 'id="file:data/results.parquet"' in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "expected a folder to write (-o DIR), or --serve"),
        (["-o", "out", "--fit-models", "-1"], "-1 is not in the range x>=0"),
        (["-o", "mine/tables/out"], "lies in the registry"),
    ],
)
def test_a_wrong_call_is_refused(
    run: Run, registry: Path, arguments: list[str], message: str
) -> None:
    done = run("site", "--registry", str(registry), *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_site_is_served_on_this_machine_until_interrupted(
    command: Path, environment: dict[str, str], work: Path, few_records: Path
) -> None:
    records = ("--registry", str(few_records))
    with subprocess.Popen(
        [str(command), "site", "--serve", "--port", "0", "--fit-models", "0", *records],
        cwd=work,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        lines = iter(process.stderr.readline, "")
        line = next(line for line in lines if line.startswith("serving "))
        found = re.match(r"serving (http://127\.0\.0\.1:\d+/) \(Ctrl-C ends it\)\n", line)
        assert found is not None
        with urllib.request.urlopen(found[1]) as answer:  # noqa: S310 - the address is our own
            assert "Content-Security-Policy" in answer.read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
        assert "Traceback" not in process.stderr.read()
