"""The HTML page: a strict policy, scripts beside it or within it, and data that is only data."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html import escape
from typing import TYPE_CHECKING, Any

from registry.site.modules import join_modules, read_page_file
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
    return format_palette() + read_page_file("style.css")


def _fill(**parts: str) -> str:
    template = read_page_file("index.html")
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
