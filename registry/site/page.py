"""The HTML page: a strict policy, scripts beside it or within it, and data that is only data.

The page's own script: its modules joined into one, so that it also runs from a single file.

A browser loads no module from ``file://``. Each module becomes a function that returns what it
exports; only the forms of ``import`` and ``export`` that the modules use are known.
"""

from __future__ import annotations

import base64
import hashlib
import json
import re
from graphlib import TopologicalSorter
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from registry.errors import StoreError
from registry.site.pictures import format_palette
from registry.site.vendored import SCRIPTS, read_script

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

#: What every page forbids. Charts run in an interpreter, so that nothing evaluates text.
_POLICY = (
    "default-src 'none'; script-src {scripts}; style-src {styles}; connect-src {connect}; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'"
)
_LICENCES = "assets/LICENSES.txt"


def build_assets() -> dict[str, str]:
    """Return the scripts, the style and the licences, by their paths in the site."""
    scripts = {f"assets/{name}": read_script(name) for name in SCRIPTS}
    own = {"assets/site.js": join_modules(), "assets/style.css": _format_style()}
    return {**scripts, **own, _LICENCES: read_script("LICENSES.txt")}


def format_page(about: Mapping[str, Any]) -> str:
    """Return the page of a site of several files."""
    scripts = [f"assets/{name}" for name in (*SCRIPTS, "site.js")]
    return _fill(
        policy=_POLICY.format(scripts="'self'", styles="'self'", connect="'self'"),
        head='<link rel="stylesheet" href="assets/style.css">\n'
        '<link rel="preload" href="data/results.parquet" as="fetch" crossorigin>\n'
        + "\n".join(f'<script defer src="{path}"></script>' for path in scripts),
        scripts=_format_about({**about, "licences": _LICENCES}),
    )


def format_single_page(about: Mapping[str, Any], contents: Mapping[str, bytes]) -> str:
    """Return the page with all that it needs within it, so that it opens from a folder."""
    style = f"\n{_format_style()}"
    sources = [*map(read_script, SCRIPTS), join_modules()]
    scripts = [f"\n{_escape_script(text)}" for text in sources]
    embedded = [_format_embedded(path, content) for path, content in contents.items()]
    licences = f"<!--\n{read_script('LICENSES.txt').replace('--', '- -')}\n-->"
    return _fill(
        policy=_POLICY.format(
            scripts=_format_hashes(scripts), styles=_format_hashes([style]), connect="'none'"
        ),
        head=f"<style>{style}</style>",
        scripts="\n".join(
            [
                _format_about(about),
                *embedded,
                *(f"<script>{text}</script>" for text in scripts),
                licences,
            ]
        ),
    )


def _format_style() -> str:
    return format_palette() + _read_page_file("style.css")


def _fill(**parts: str) -> str:
    template = _read_page_file("index.html")
    return re.sub(r"\{(\w+)\}", lambda match: parts[match[1]], template)


def _format_about(about: Mapping[str, Any]) -> str:
    text = json.dumps(about, ensure_ascii=True).replace("<", "\\u003c")
    return f'<script type="application/json" id="about">{text}</script>'


def _format_embedded(path: str, content: bytes) -> str:
    text = base64.b64encode(content).decode()
    return f'<script type="text/plain" id="file:{escape(path)}">{text}</script>'


def _escape_script(text: str) -> str:
    """Return a script that cannot end the element that it stands in."""
    return re.sub(r"<(?=/script|!--)", r"\\x3c", text, flags=re.IGNORECASE)


def _format_hashes(texts: Iterable[str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)


_ENTRY: Final = "main.js"
_IMPORT: Final = re.compile(
    r'^import (?:\{(?P<names>[^}]*)\}|\* as (?P<whole>\w+)) from "\./(?P<file>[\w.]+)";$',
    re.MULTILINE,
)
_EXPORT: Final = re.compile(r"^export (?=(?:async )?(?:function|const|class) (\w+))", re.MULTILINE)
_LEFT: Final = re.compile(r"^(?:import|export)\b.*$", re.MULTILINE)


def _read_page_file(name: str) -> str:
    """Return the text of one of the page's own files."""
    return (files("registry.site") / "page" / name).read_text(encoding="utf-8")


def join_modules() -> str:
    """Return the page's script: all modules that its entry needs, each after those it imports."""
    sources: dict[str, str] = {}
    waiting = [_ENTRY]
    while waiting:
        name = waiting.pop()
        if name not in sources:
            sources[name] = _read_page_file(name)
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
