"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Callable


def registry_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--registry``: which registry to use."""
    return click.option(
        "--registry",
        "registry_path",
        metavar="PATH",
        type=click.Path(path_type=Path),
        help="Registry to use (else REGISTRY_PATH, else ./records, else your own).",
    )(function)
