"""The charts of `registry.charts` for the page: their specifications, which it gives rows to."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING, Any, Final

from registry.charts import CHOICES, MOST_PANELS, build_chart
from registry.charts.style import THEMES, USUAL_METHODS

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Kinds that can be drawn from the rows that the page has.
KINDS: Final = ("memory", "speed", "pareto", "fits", "history")


def build_pictures(methods: Iterable[str]) -> dict[str, Any]:
    """Return the specification of each kind, by theme, kind and the columns of its axes.

    ``methods`` are the labels of the records, the most frequent first: the usual ones and the first
    of the others get a colour. Raises MissingExtraError where Altair is not installed.
    """
    others = [label for label in methods if label not in USUAL_METHODS]
    coloured = [*USUAL_METHODS, *others]
    specifications = {
        theme: {kind: _build_kind(kind, theme, coloured) for kind in KINDS} for theme in THEMES
    }
    axes = {kind: CHOICES.get(kind, {}) for kind in KINDS}
    return {"most_panels": MOST_PANELS, "axes": axes, "specifications": specifications}


def _build_kind(kind: str, theme: str, methods: list[str]) -> dict[str, Any]:
    known = CHOICES.get(kind, {})
    axes = product(known.get("x", (None,)), known.get("y", (None,)))
    return {
        ",".join(filter(None, (x, y))): _strip(
            build_chart(kind, theme=theme, x=x, y=y, methods=methods).to_dict(validate=False)
        )
        for x, y in axes
    }


def _strip(specification: dict[str, Any]) -> dict[str, Any]:
    """Return a specification without what the page says itself."""
    return {name: part for name, part in specification.items() if name not in ("title", "$schema")}


def format_palette() -> str:
    """Return the colours of the charts as CSS variables, for light and dark."""
    light, dark = (_format_colours(name) for name in ("light", "dark"))
    return f":root {{ {light} }}\n@media (prefers-color-scheme: dark) {{ :root {{ {dark} }} }}\n"


def _format_colours(name: str) -> str:
    theme = THEMES[name]
    colours = {"ground": theme.ground, "ink": theme.text, "quiet": theme.faint}
    numbered = {f"c{i}": shade for i, shade in enumerate((*theme.methods, theme.other), start=1)}
    return " ".join(f"--{key}: {value};" for key, value in {**colours, **numbered}.items())
