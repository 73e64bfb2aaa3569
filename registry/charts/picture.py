"""A chart as a file: PNG, SVG, PDF, HTML that works offline, or its Vega-Lite specification."""

from __future__ import annotations

import html
import json
import re
from copy import deepcopy
from typing import TYPE_CHECKING, Any

import vl_convert

if TYPE_CHECKING:
    from collections.abc import Callable

Specification = dict[str, Any]

#: Narrowest panel of a picture that was fitted to its width, in pixels.
_NARROWEST = 120


def format_picture(chart: Any, name: str, width: int) -> bytes:
    """Return an Altair chart in a format of `FORMATS`; a picture is ``width`` pixels wide.

    PDF is in points, one for each pixel. HTML holds all scripts that it needs.
    """
    specification: Specification = chart.to_dict(validate=False)
    fitted = fit_width(specification, width)
    return _WRITERS[name](fitted)


def fit_width(specification: Specification, width: int) -> Specification:
    """Return the specification with panels that make the whole picture this wide.

    What axes and legends take is known only when they are laid out.
    """
    size = re.search(r'<svg[^>]* width="([\d.]+)"', vl_convert.vegalite_to_svg(specification))
    if size is None:
        return specification
    fitted = deepcopy(specification)
    panel = fitted.get("spec", fitted)
    spare = (width - float(size[1])) / fitted.get("columns", 1)
    panel["width"] = max(_NARROWEST, int(panel["width"] + spare))
    return fitted


def _format_png(specification: Specification) -> bytes:
    data: bytes = vl_convert.vegalite_to_png(specification)
    return data


def _format_svg(specification: Specification) -> bytes:
    text: str = vl_convert.vegalite_to_svg(specification)
    return text.encode()


def _format_pdf(specification: Specification) -> bytes:
    data: bytes = vl_convert.vegalite_to_pdf(specification)
    return data


def _format_json(specification: Specification) -> bytes:
    return (json.dumps(specification, ensure_ascii=False, indent=1) + "\n").encode()


def _format_html(specification: Specification) -> bytes:
    title = " ".join(specification["title"]["text"])
    return _PAGE.format(
        title=html.escape(title),
        ground=html.escape(specification["config"]["background"]),
        scripts=vl_convert.javascript_bundle(),
        specification=embed_json(specification),
    ).encode()


def embed_json(document: Any) -> str:
    r"""Return a document as JSON that stands inside a script of a page.

    >>> embed_json({"name": "</script>"})
    '{"name": "\\u003c/script>"}'
    """
    text = json.dumps(document)  # ASCII, so that no line separator of Unicode ends a line
    return text.replace("<", "\\u003c")


#: vl_convert's own page would take a name such as ``</script>`` for markup.
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; \
script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:">
<title>{title}</title>
<style>
body {{ background: {ground}; margin: 1rem; }}
#chart {{ max-width: 100%; overflow-x: auto; }}
</style>
<script>{scripts}</script>
</head>
<body>
<div id="chart"></div>
<script>
vegaEmbed("#chart", {specification}, {{
  renderer: "svg", ast: true, expr: vega.expressionInterpreter, actions: {{ export: true, \
source: false, compiled: false, editor: false }}
}});
</script>
</body>
</html>
"""

_WRITERS: dict[str, Callable[[Specification], bytes]] = {
    "png": _format_png,
    "svg": _format_svg,
    "pdf": _format_pdf,
    "html": _format_html,
    "json": _format_json,
}
