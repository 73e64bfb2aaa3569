"""Colours, shapes and type of the pictures, on light and on dark ground.

The colours are told apart with normal and with red-, green- and blue-blind sight, and each has a
contrast of 3 to 1 at least with its ground (a test computes both).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from registry.errors import ChartError, did_you_mean

#: Labels that have the same colour in every picture.
USUAL_METHODS = ("full", "LoRA", "QLoRA", "LoRA (int8)", "DoRA", "LoRA (emb)")
#: What all methods are called that have no colour of their own.
OTHER_METHODS = "other methods"


@dataclass(frozen=True)
class Theme:
    """Colours of one ground."""

    name: str
    ground: str
    text: str
    faint: str
    grid: str
    #: One for each method, then that of the others.
    methods: tuple[str, ...]
    other: str
    good: str
    bad: str
    #: Of a heat map, from empty to full.
    ramp: tuple[str, ...]


THEMES = {
    "light": Theme(
        name="light", ground="#ffffff", text="#1f2328", faint="#59636e", grid="#e3e6ea",
        methods=("#0072b2", "#d55e00", "#00856b", "#a60df2", "#9b804b", "#611405", "#2929a3",
                 "#2d2145"),
        other="#868b91", good="#0072b2", bad="#d55e00",
        ramp=("#eef4fb", "#b9d3ec", "#7fb0dc", "#3f86c4", "#174f8a"),
    ),
    "dark": Theme(
        name="dark", ground="#0d1117", text="#e6edf3", faint="#9198a1", grid="#2b323b",
        methods=("#56b4e9", "#e69f00", "#2fbf95", "#a60df2", "#fafa9e", "#c20a29", "#2966a3",
                 "#c2f0f0"),
        other="#8b949e", good="#56b4e9", bad="#e69f00",
        ramp=("#16263a", "#1f4a75", "#2b74b5", "#5aa9e6", "#c4e3ff"),
    ),
}  # fmt: skip


def find_theme(name: str) -> Theme:
    """Return a theme by its name; raise ChartError where there is none."""
    if name not in THEMES:
        known = ", ".join(THEMES)
        raise ChartError(f"no theme {name!r}{did_you_mean(name, THEMES)}; expected one of {known}")
    return THEMES[name]


#: A cross for what ran out of memory: it has no inside, so that it is never taken for a figure.
CROSS = "M-1,-1L1,1M1,-1L-1,1"
#: Shapes of the kinds of memory, and what stands for a run that ran out of it.
SHAPES = {
    "device": "circle",
    "reserved": "square",
    "active": "diamond",
    "allocated": "triangle-up",
    "unknown": "triangle-down",
    "host_rss": "triangle-right",
    "out of memory": CROSS,
}


def configure(theme: Theme) -> dict[str, Any]:
    """Return the Vega-Lite configuration of a theme."""
    axis = {
        "domainColor": theme.faint,
        "gridColor": theme.grid,
        "labelColor": theme.text,
        "tickColor": theme.faint,
        "titleColor": theme.text,
        "titleFontWeight": "normal",
        "labelFontSize": 11,
        "titleFontSize": 12,
    }
    named = {"labelColor": theme.text, "titleColor": theme.text}
    return {
        "background": theme.ground,
        "font": "sans-serif",
        "view": {"stroke": theme.grid},
        "axis": axis,
        "legend": {**named, "titleFontWeight": "normal", "labelFontSize": 11, "labelLimit": 220},
        "header": {**named, "labelFontSize": 12, "labelFontWeight": "bold", "title": None},
        "title": {
            "color": theme.text,
            "subtitleColor": theme.faint,
            "anchor": "start",
            "fontSize": 15,
            "subtitleFontSize": 11,
            "offset": 12,
        },
    }
