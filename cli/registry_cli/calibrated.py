"""Where a registry's calibration is looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.api import Registry
from registry.store.folder import find_registry

if TYPE_CHECKING:
    from pathlib import Path


def open_calibrated(registry_path: Path | None) -> Registry:
    """Return the registry in use, whose calibration is read before the curated one."""
    return Registry(find_registry(registry_path))
