"""What is heavy is loaded where it is used, and the library knows nothing of the command."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "registry"
HEAVY_PACKAGES = ("duckdb", "pandas", "pandera", "pyarrow", "numpy", "torch")
#: What no module of the library loads when it is imported.
HEAVY = (*HEAVY_PACKAGES, "click", "registry_cli")
LIGHT = (
    "registry",
    "registry.store.add",
    "registry.api",
    "registry.catalogue",
    "registry.catalogue.hf_config",
    "registry.contract",
    "registry.errors",
    "registry.reading.json_reader",
    "registry.contract.json_schema",
    "registry.contract.json_schema",
    "registry.submission",
    "registry.units",
    "registry.submission.prepare",
)


def _imported(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names


def test_the_library_never_imports_the_command_or_click() -> None:
    paths = {*PACKAGE.rglob("*.py")} - {PACKAGE / "__main__.py"}  # which is the command
    assert len(paths) > 50
    guilty = [path for path in paths if _imported(path) & {"click", "registry_cli"}]
    assert guilty == []


def test_the_library_never_prints() -> None:
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            is_print = isinstance(node, ast.Name) and node.id == "print"
            assert not is_print, path


@pytest.mark.parametrize("module", LIGHT)
def test_importing_a_light_module_loads_nothing_heavy(module: str) -> None:
    code = f"import sys, {module}; print(*[m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=300
    )
    assert done.stdout.strip() == ""


EXAMPLE = PACKAGE.parent / "tests" / "examples" / "valid" / "minimal.json"
#: Says what heavy packages a command loaded, after the command's own output.
RUN_AND_REPORT = f"""
import sys
from registry_cli.dispatch import dispatch
status = dispatch(sys.argv[1:])
print(status, *[name for name in {HEAVY_PACKAGES!r} if name in sys.modules], file=sys.stderr)
"""


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["add", "--help"], ["run", "--help"], ["add", str(EXAMPLE)]],
    ids=lambda arguments: " ".join(Path(argument).name for argument in arguments),
)
def test_help_and_adding_a_file_load_nothing_heavy(arguments: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)}
    environment.pop("REGISTRY_PATH", None)
    done = subprocess.run(
        [sys.executable, "-c", RUN_AND_REPORT, *arguments],
        check=True, capture_output=True, text=True, timeout=300, cwd=tmp_path, env=environment,
    )  # fmt: skip
    assert done.stdout
    assert done.stderr.splitlines()[-1] == "0"


def test_what_all_tests_share_sets_the_threads_of_matrices_before_numpy_is_loaded() -> None:
    code = "import sys, tests.conftest, os; print(os.environ[sys.argv[1]], 'numpy' in sys.modules)"
    name = "OPENBLAS_NUM_THREADS"
    environment = {key: value for key, value in os.environ.items() if key != name}
    done = subprocess.run(
        [sys.executable, "-c", code, name],
        check=True, capture_output=True, text=True, timeout=300, cwd=ROOT, env=environment,
    )  # fmt: skip
    assert done.stdout == "1 False\n"


def test_everything_that_is_exported_is_there() -> None:
    import registry  # noqa: PLC0415 - the module under test

    assert all(getattr(registry, name) is not None for name in registry.__all__)
    assert sorted(registry.__all__) == registry.__all__
    with pytest.raises(AttributeError, match="module 'registry' has no attribute 'nothing'"):
        _ = registry.nothing


def test_a_module_that_runs_as_a_program_begins_after_all_it_defines() -> None:
    for path in [*PACKAGE.rglob("*.py"), *(ROOT / "cli").rglob("*.py")]:
        body = ast.parse(path.read_text(encoding="utf-8")).body
        starts = [n for n in body if isinstance(n, ast.If) and "__main__" in ast.unparse(n.test)]
        assert starts in ([], body[-1:]), path
