"""A session of the engine that is installed: Sail, or Spark where there is a Java."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks.readers import start_session

if TYPE_CHECKING:
    from collections.abc import Iterator


def _find_engine() -> str:
    if find_spec("pysail"):
        return "sail"
    if not find_spec("pyspark"):
        pytest.skip("neither pysail nor pyspark is installed")
    if not shutil.which("java"):
        pytest.skip("pyspark is installed, and no Java")
    return "spark"


@pytest.fixture(scope="session")
def session() -> Iterator[Any]:
    """Give a session of the engine that is installed."""
    with start_session(_find_engine()) as started:
        yield started
