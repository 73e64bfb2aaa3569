"""What the page "Will it fit?" is given beside the figures of its grid."""

from __future__ import annotations

from math import log

import pytest

from registry.predict.calibration.mixture import Interval
from registry.site.fit_grid import list_reaches


@pytest.mark.parametrize("bytes_of_card", [3.0, 4.0, 7.5, 10.0, 14.0, 35.0, 60.0])
def test_reaches_tell_the_chance_that_the_predictor_tells(bytes_of_card: float) -> None:
    figure = Interval(10.0, 4.0, 35.0)
    end = figure.low if bytes_of_card < figure.value else figure.high
    reach = log(bytes_of_card / figure.value) / abs(log(end / figure.value))
    percents = sum(one <= reach for one in list_reaches())
    assert percents == pytest.approx(100 * figure.below(bytes_of_card), abs=0.51)
