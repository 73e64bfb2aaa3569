"""What is heavy is loaded where it is used, and the library knows nothing of the command."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "registry"
HEAVY = ("duckdb", "pandas", "pandera", "pyarrow", "numpy", "torch", "click", "registry_cli")
LIGHT = (
    "registry",
    "registry.add",
    "registry.api",
    "registry.contract",
    "registry.errors",
    "registry.reading.json_reader",
    "registry.json_schema",
    "registry.submission",
    "registry.units",
    "registry.validation",
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
    paths = list(PACKAGE.rglob("*.py"))
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
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_everything_that_is_exported_is_there() -> None:
    import registry  # noqa: PLC0415 - the module under test

    assert all(getattr(registry, name) is not None for name in registry.__all__)
    assert sorted(registry.__all__) == registry.__all__
    with pytest.raises(AttributeError, match="module 'registry' has no attribute 'nothing'"):
        _ = registry.nothing
