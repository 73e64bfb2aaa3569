"""Where a registry's calibration is looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.api import Registry
from registry_cli.options import locate

if TYPE_CHECKING:
    from pathlib import Path


def open_calibrated(registry_path: Path | None) -> Registry:
    """Return the registry in use, whose calibration is read before the curated one."""
    return Registry(locate(registry_path))
