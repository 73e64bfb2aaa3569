"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


class Seconds(click.FloatRange):
    """A finite number of seconds."""

    name = "number of seconds"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; refuse nan and inf, which any range lets through."""
        seconds = float(super().convert(value, param, ctx))
        if not math.isfinite(seconds):
            self.fail(f"{value!r} is not a finite number of seconds.", param, ctx)
        return seconds


def registry_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--registry``: which registry to use."""
    return click.option(
        "--registry",
        "registry_path",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="Registry to use (else REGISTRY_PATH, else ./records, else your own).",
    )(function)
