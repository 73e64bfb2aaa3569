"""What is drawn under fakes: a number alone is known, a tensor has its shape."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", exc_type=ImportError)
pytest.importorskip("transformers", exc_type=ImportError)
operators = pytest.importorskip("registry.predict.dryrun.fake_operators")


@pytest.mark.parametrize("size", [(1,), ((),), ([],)])
def test_a_single_number_that_is_drawn_is_the_upper_end(size: tuple[Any, ...]) -> None:
    with operators.fake_operators():
        assert torch.rand(*size) == 1.0


@pytest.mark.parametrize("size", [(2, 3), ((2, 3),), ([2, 3],)])
def test_a_tensor_that_is_drawn_has_its_shape(size: tuple[Any, ...]) -> None:
    with operators.fake_operators():
        assert torch.rand(*size).shape == (2, 3)
