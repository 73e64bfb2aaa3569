"""A name stands for one thing: classes are called by a name of their own across both packages."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCES = (ROOT / "registry", ROOT / "cli" / "registry_cli")

#: Names that two classes still share. Only ever take names away.
SHARED = {"Draft", "Figure", "Progress", "Rate", "Rule", "Session", "_Clock"}


def collect_classes() -> dict[str, set[str]]:
    """Return the files that define a class of each name."""
    found = defaultdict(set)
    for folder in SOURCES:
        for path in folder.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.ClassDef):
                    found[node.name].add(str(path.relative_to(ROOT)))
    return found


def test_no_two_classes_share_a_name() -> None:
    classes = collect_classes()
    assert len(classes) > 100
    shared = {name: sorted(files) for name, files in classes.items() if len(files) > 1}
    assert {name: files for name, files in shared.items() if name not in SHARED} == {}
