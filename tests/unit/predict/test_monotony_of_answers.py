"""More tokens never need less by what `registry fit` answers, beside every measured series."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from registry.predict.answer.prediction import predict_memory
from registry.predict.calibration.unstated import open_settings

if TYPE_CHECKING:
    from registry.predict.calibration.intervals import Calibration
    from registry.predict.question import Question

LADDERS = {
    "seq_len": [256, 512, 1024, 1536, 2048, 3072, 4096, 8192, 16_384],
    "micro_batch_size": [1, 2, 3, 4, 6, 8, 16],
}
#: Where a question leaves settings open, the median of what it may mean may fall by this much when
#: one of the meanings is known better of more tokens. The answer to each does not fall.
OPEN_SLACK = 0.03


def series(calibration: Calibration) -> list[Question]:
    """Return a measured run of each stack, model and kind of training, as it was learned."""
    found: dict[object, Question] = {}
    for one in calibration.observations:
        asked = one.learned
        kind = (asked.stack, asked.model.shape, asked.method, asked.quant_bits, asked.sharding)
        if one.measured_memory and asked.stack:
            found.setdefault(kind, asked)
    return list(found.values())


@pytest.mark.parametrize("name", LADDERS)
def test_more_tokens_never_need_less_beside_what_was_measured(
    calibration: Calibration, name: str
) -> None:
    asked = series(calibration)
    assert len(asked) > 200
    for one in asked:
        ladder = [one.changed(**{name: value}) for value in LADDERS[name]]
        peaks = [predict_memory(step, calibration).figure.value for step in ladder]
        slack = OPEN_SLACK if any(map(open_settings, ladder)) else 1e-9
        steps = itertools.pairwise(peaks)
        assert all(less <= more * (1 + slack) for less, more in steps), (peaks, one)
