"""The colours can be told apart with every kind of sight, and from their ground."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from registry.charts.style import THEMES, Theme, find_theme
from registry.errors import ChartError

#: Machado, Oliveira and Fernandes 2009, table 1, severity 1.0: linear RGB as it is seen.
SIGHTS = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
         [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
         [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
         [0.004733, 0.691367, 0.303900]]
    ),
}  # fmt: skip
_TO_XYZ = np.array([[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]])
#: Two patches that lie this near in CIELAB are hard to tell apart (2.3 is just noticeable).
NEAREST = 9.0


def linear(color: str) -> np.ndarray:
    parts = np.array([int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def lab(color: str, sight: str) -> np.ndarray:
    seen = np.clip(SIGHTS[sight] @ linear(color), 0, 1)
    ratio = _TO_XYZ @ seen / (_TO_XYZ @ np.ones(3))
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(color: str, other: str) -> float:
    light, dark = sorted(float(_TO_XYZ[1] @ linear(each)) for each in (color, other))[::-1]
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
@pytest.mark.parametrize("sight", SIGHTS)
def test_no_two_methods_look_alike(theme: Theme, sight: str) -> None:
    shades = (*theme.methods, theme.other)
    distances = {
        (a, b): float(np.linalg.norm(lab(a, sight) - lab(b, sight)))
        for a, b in combinations(shades, 2)
    }
    nearest = min(distances, key=lambda pair: distances[pair])
    assert distances[nearest] > NEAREST, (nearest, distances[nearest])


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
def test_marks_and_text_stand_out_from_their_ground(theme: Theme) -> None:
    marks = (*theme.methods, theme.other, theme.good, theme.bad)
    assert {shade: contrast(shade, theme.ground) for shade in marks if
            contrast(shade, theme.ground) < 3} == {}  # fmt: skip
    assert min(contrast(shade, theme.ground) for shade in (theme.text, theme.faint)) > 4.5


@pytest.mark.parametrize("theme", THEMES.values(), ids=list(THEMES))
@pytest.mark.parametrize("sight", SIGHTS)
def test_a_fuller_card_is_always_further_from_the_ground(theme: Theme, sight: str) -> None:
    ground = lab(theme.ground, sight)[0]
    steps = [abs(float(lab(shade, sight)[0] - ground)) for shade in theme.ramp]
    assert steps == sorted(steps)


def test_a_theme_that_there_is_none_of_is_named() -> None:
    with pytest.raises(ChartError) as caught:
        find_theme("drak")
    assert str(caught.value) == "no theme 'drak'; did you mean 'dark'?; expected one of light, dark"
