"""The built wheel, installed outside the checkout, in a folder that wants to be imported."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.store.curated import find_pending_sources
from registry.store.folder import Folder

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("hatchling", reason="builds the wheel without a network")

CHECKOUT = Path(__file__).parents[2]

#: A program that must never run.
HOSTILE = "raise SystemExit('the folder at hand was imported')\n"


def run_pip(*arguments: str) -> None:
    command = [sys.executable, "-m", "pip", *arguments, "--no-deps", "--no-index", "--quiet"]
    subprocess.run(command, check=True, stdin=subprocess.DEVNULL)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run_pip("wheel", "--no-build-isolation", "--wheel-dir", str(folder), str(CHECKOUT))
    return next(folder.glob("peft_registry-*.whl"))


@pytest.fixture(scope="module")
def scripts(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the bin/ of an environment with the wheel; the other packages are those at hand."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    site = next(folder.glob("lib/python*/site-packages"))
    run_pip("--python", str(folder / "bin" / "python"), "install", str(wheel))
    packages = [path for path in sys.path if path.endswith("site-packages")]
    # a .pth file adds folders but runs no .pth in them, so the checkout stays out
    (site / "at_hand.pth").write_text("\n".join(packages) + "\n", encoding="utf-8")
    return folder / "bin"


@pytest.fixture
def hostile(work: Path) -> Path:
    """Return a folder that holds modules of the same names as ours."""
    for name in ("cli", "schemas", "registry", "registry_cli", "click", "duckdb", "json"):
        (work / f"{name}.py").write_text(HOSTILE)
    for name in ("schemas", "curated"):
        (work / name).mkdir()
        (work / name / "units.yaml").write_text("[")
    return work


@pytest.fixture
def run_wheel(
    scripts: Path, hostile: Path, environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Return a function that runs the wheel's command in the hostile folder."""
    kept = {name: value for name, value in environment.items() if name != "PYTHONPATH"}

    def run(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(scripts / "registry"), *arguments],
            cwd=hostile,
            env={**kept, "PATH": f"{scripts}{os.pathsep}{kept['PATH']}"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )

    return run


def test_the_wheel_holds_two_packages_and_no_more(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"registry", "registry_cli"}
    assert {"registry/py.typed", "registry_cli/py.typed"} <= set(names)


def test_the_wheel_holds_the_contract_and_the_curated_tables(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    tables = {path.name for path in (CHECKOUT / "records" / "tables").iterdir()} - {".lock"}
    held = {name for name in names if name.startswith("registry/curated/")}
    expected = {f"registry/curated/tables/{name}" for name in tables}
    files = ("calibration.json", "ids.csv", "CITATION.cff")
    beside = {f"registry/curated/{name}" for name in files}
    plans = (CHECKOUT / "records" / "plans").iterdir()
    beside |= {f"registry/curated/plans/{path.name}" for path in plans}
    texts = ("registry/curated/sources/", "registry/curated/catalogue/")
    is_pending = bool(find_pending_sources(Folder(CHECKOUT / "records")))
    assert any(name.startswith(texts) for name in held) == is_pending
    assert {name for name in held if not name.startswith(texts)} == expected | beside
    for path in (CHECKOUT / "schemas").rglob("*"):
        if path.is_file():
            assert f"registry/schemas/{path.relative_to(CHECKOUT / 'schemas')}" in names


def test_the_wheel_holds_nothing_temporary(wheel: Path) -> None:
    for name in zipfile.ZipFile(wheel).namelist():
        file = name.split("/")[-1]
        assert not file.startswith((".", "__pycache__")), name
        assert not file.endswith(".pyc"), name


def test_a_query_reads_the_curated_records_of_the_wheel(
    run_wheel: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    done = run_wheel(
        "query",
        "select count(*) as n from results "
        "where evidence = 'claimed' and source_id = 'qwen-finetune-profile'",
    )
    assert (done.returncode, done.stdout.split(), done.stderr) == (0, ["n", "2"], "")
    where = run_wheel("doctor", "-f", "json")
    path = Path(json.loads(where.stdout)["registry"]["curated records"])
    assert path.parts[-2:] == ("registry", "curated")
    assert not path.is_relative_to(CHECKOUT)


def test_an_addition_and_what_follows_it_work(
    run_wheel: Callable[..., subprocess.CompletedProcess[str]], hostile: Path
) -> None:
    example = CHECKOUT / "tests" / "examples" / "valid" / "minimal.json"
    shutil.copy(example, hostile / "minimal.json")
    for arguments in (
        ["add", "minimal.json"],
        ["query", "from results", "-o", "x.parquet"],
        ["query", "--schema", "results"],
        ["fold"],
        ["check"],
        ["export", "out"],
        ["ls", "--limit", "3"],
    ):
        done = run_wheel(*arguments)
        assert done.returncode == 0, done.stderr
        assert "error" not in done.stderr


#: What the command's script does.
COMMAND_LINE = "from registry_cli.main import main; main()"


def copy_checkout(target: Path) -> Path:
    """Copy what a wheel is built from, and what the curated tables are made from."""
    for name in ("registry", "cli", "schemas", "records"):
        ignored = shutil.ignore_patterns("__pycache__", ".lock")
        shutil.copytree(CHECKOUT / name, target / name, ignore=ignored)
    names = ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE", "LICENSE-DATA")
    for name in (*names, "CITATION.cff"):
        shutil.copy(CHECKOUT / name, target)
    return target


@pytest.mark.parametrize("is_built", [True, False])
def test_an_upgrade_brings_new_curated_rows_to_a_users_registry(
    scripts: Path, work: Path, environment: dict[str, str], tmp_path: Path, *, is_built: bool
) -> None:
    """The wheel with one more source is installed over the other; the registry is not touched."""
    site = tmp_path / "site"
    shutil.copytree(next((scripts.parent / "lib").glob("python*/site-packages")), site)
    kept = {name: value for name, value in environment.items() if name != "PYTHONPATH"}

    def run(*arguments: str, **variables: str) -> str:
        done = subprocess.run(
            [sys.executable, "-P", "-c", COMMAND_LINE, *arguments],
            cwd=work,
            env={**kept, "PYTHONPATH": str(site), **variables},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    minimal = CHECKOUT / "tests" / "examples" / "valid" / "minimal.json"
    run("add", str(minimal))
    run("fold")
    count = "select source_id, count(*) as n from results group by all order by all"
    before = run("query", count)
    tree = copy_checkout(tmp_path / "tree")
    folder = tree / "records" / "sources" / "a-new-one"
    folder.mkdir()
    document = {**json.loads(minimal.read_text()), "source": {"source_id": "a-new-one"}}
    (folder / "submissions.jsonl").write_text(json.dumps(document) + "\n", encoding="utf-8")
    if is_built:
        run("build", "--registry", str(tree / "records"), PYTHONPATH=f"{tree}:{tree / 'cli'}")
    run_pip("wheel", "--no-build-isolation", "--wheel-dir", str(tmp_path), str(tree))
    run_pip("install", "--upgrade", "--target", str(site), *map(str, tmp_path.glob("*.whl")))
    assert run("query", count) == before.replace("source_id,n\n", "source_id,n\na-new-one,1\n")
    assert "my-runs,1" in run("query", count)
    run("check")


def test_python_imports_the_installed_package(scripts: Path, tmp_path: Path) -> None:
    program = "import registry, json; db = registry.open(); print(len(registry.load('gpus')))"
    done = subprocess.run(
        [scripts / "python", "-I", "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert int(done.stdout) > 10


def test_the_metadata_names_licence_and_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = next(name.split("/")[0] for name in archive.namelist() if ".dist-info/" in name)
    metadata: Any = archive.read(f"{info}/METADATA").decode()
    assert "Name: peft-registry\n" in metadata
    scripts = archive.read(f"{info}/entry_points.txt").decode().splitlines()
    assert {"registry = registry_cli.main:main", "peft-registry = registry_cli.main:main"} <= {
        *scripts
    }
