"""The page's own script: its modules joined into one, so that it also runs from a single file.

A browser loads no module from ``file://``. Each module becomes a function that returns what it
exports; only the forms of ``import`` and ``export`` that the modules use are known.
"""

from __future__ import annotations

import re
from graphlib import TopologicalSorter
from importlib.resources import files
from typing import Final

from registry.errors import StoreError

_ENTRY: Final = "main.js"
_IMPORT: Final = re.compile(
    r'^import (?:\{(?P<names>[^}]*)\}|\* as (?P<whole>\w+)) from "\./(?P<file>[\w.]+)";$',
    re.MULTILINE,
)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def read_page_file(name: str) -> str:
    """Return the text of one of the page's own files."""
    return (files("registry.site") / "page" / name).read_text(encoding="utf-8")


def join_modules() -> str:
    """Return the page's script: all modules that its entry needs, each after those it imports."""
    sources: dict[str, str] = {}
    waiting = [_ENTRY]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = read_page_file(name)
            waiting += _imported(sources[name])
    order = TopologicalSorter({name: _imported(text) for name, text in sources.items()})
    wrapped = (wrap_module(name, sources[name]) for name in order.static_order())
    return '"use strict";\n' + "\n".join(wrapped)


def _imported(text: str) -> list[str]:
    return [match["file"] for match in _IMPORT.finditer(text)]


def wrap_module(name: str, text: str) -> str:
    """Return a module as a function that is called at once and returns what it exports.

    >>> print(wrap_module("b.js", 'import { a } from "./a.js";'))
    const b_js = (() => {
    const { a } = a_js;
    return {  };
    })();
    """
    exported = _EXPORT.findall(text)
    body = _IMPORT.sub(_bind, _EXPORT.sub("", text)).strip()
    if left := _LEFT.search(body):
        raise StoreError(f"{name}: found {left[0]!r}; expected a form that join_modules knows")
    end = f"return {{ {', '.join(exported)} }};"
    return f"const {_variable(name)} = (() => {{\n{body}\n{end}\n}})();"


def _bind(match: re.Match[str]) -> str:
    variable = _variable(match["file"])
    if match["whole"]:
        return f"const {match['whole']} = {variable};"
    names = match["names"].replace(" as ", ": ").strip().rstrip(",")
    return f"const {{ {names} }} = {variable};"


def _variable(name: str) -> str:
    return re.sub(r"\W", "_", name)
