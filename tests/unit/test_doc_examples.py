"""The examples in docstrings give what they show."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _modules_with_examples() -> list[str]:
    modules = (
        path.relative_to(ROOT).with_suffix("")
        for path in sorted((ROOT / "registry").rglob("*.py"))
        if ">>> " in path.read_text(encoding="utf-8")
    )
    return [".".join(m.parts).removesuffix(".__init__") for m in modules]


@pytest.mark.parametrize("name", _modules_with_examples())
def test_the_examples_of_a_module_give_what_they_show(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REGISTRY_PATH", str(ROOT / "records"))
    result = doctest.testmod(importlib.import_module(name), optionflags=doctest.REPORT_NDIFF)
    assert result.attempted > 0
    assert result.failed == 0
