"""What all tests share."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session", autouse=True)
def _ctrl_c_works() -> Iterator[None]:
    """Have Ctrl-C raise KeyboardInterrupt here and end the children of the tests.

    A shell starts jobs in the background with SIGINT ignored, and what is ignored is inherited over
    exec; a handler is not, so that children begin with the default.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
