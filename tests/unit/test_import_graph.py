"""No module depends on itself, by whatever way round: imports inside functions are counted too."""

from __future__ import annotations

import ast
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {"registry": ROOT / "registry", "registry_cli": ROOT / "cli" / "registry_cli"}


def collect_modules() -> dict[str, Path]:
    """Return the file of each module of the two packages, by its dotted name."""
    modules = {}
    for package, folder in PACKAGES.items():
        for path in folder.rglob("*.py"):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            modules[".".join(parts).removesuffix(".__init__")] = path
    return modules


def collect_imports(source: str, module: str, modules: set[str]) -> set[str]:
    """Return the modules of ours that a source imports anywhere but for type checkers."""
    found = set()
    nodes: list[ast.AST] = [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            nodes += node.orelse
            continue
        found |= _imported(node, modules)
        nodes += ast.iter_child_nodes(node)
    return found - {module}


def _imported(node: ast.AST, modules: set[str]) -> set[str]:
    if isinstance(node, ast.Import):
        return {alias.name for alias in node.names} & modules
    if isinstance(node, ast.ImportFrom):
        # a name is a submodule, or stands in the module itself
        names = {f"{node.module}.{alias.name}" for alias in node.names}
        return {name if name in modules else str(node.module) for name in names} & modules
    if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("import_module"):
        return {ast.unparse(argument).strip("'") for argument in node.args} & modules
    return set()


def find_circles(graph: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of modules that all reach each other (Tarjan's components above one)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    circles = set()

    def visit(module: str) -> None:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                visit(other)
            if other in stack:
                low[module] = min(low[module], low[other])
        if low[module] == order[module]:
            at = stack.index(module)
            if len(stack) - at > 1:
                circles.add(frozenset(stack[at:]))
            del stack[at:]

    for module in sorted(graph):
        if module not in order:
            visit(module)
    return circles


def read_graph() -> dict[str, set[str]]:
    modules = collect_modules()
    names = set(modules)
    return {
        module: collect_imports(path.read_text(encoding="utf-8"), module, names)
        for module, path in modules.items()
    }


def test_there_is_no_circle_between_modules() -> None:
    graph = read_graph()
    assert len(graph) > 100
    assert find_circles(graph) == set()


def test_imports_are_found_wherever_they_stand() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "import a.top\n"
        "if TYPE_CHECKING:\n    import a.typing\n"
        "else:\n    import a.otherwise\n"
        "def f():\n    from a.sub import late, name\n    from a import module\n"
        "    import_module('a.named')\n    importlib.import_module(name)\n"
    )
    modules = {"a.top", "a.typing", "a.otherwise", "a.sub", "a.sub.late", "a.module", "a.named"}
    assert collect_imports(source, "a.self", modules) == modules - {"a.typing"}


def test_a_circle_is_found_over_several_modules() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"a"}}
    assert find_circles(graph) == {frozenset("abc")}
    assert find_circles({"a": {"b"}, "b": set()}) == set()
