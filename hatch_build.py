"""Have a wheel hold all curated records: the sources too, where the tables lack some of them."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface


class PendingSources(BuildHookInterface[Any]):
    """Adds what readers derive the rows of pending sources from, and says so."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add sources and catalogue where a source is pending; an editable install reads both."""
        if version == "editable":
            return
        records = Path(self.root) / "records"
        if pending := _find_pending(Path(self.root)):
            for name in ("sources", "catalogue"):
                build_data["force_include"][str(records / name)] = f"registry/curated/{name}"
            self.app.display_warning(
                f"records/tables lack {', '.join(pending)}: the wheel holds all sources, and each "
                "query derives what is missing; `registry build` first makes it smaller and faster"
            )


def _find_pending(root: Path) -> tuple[str, ...]:
    """Return the sources that the tables do not hold, by the code that is being packed."""
    sys.path.insert(0, str(root))
    try:
        from registry.store.curated import find_pending_sources  # noqa: PLC0415 - found there alone
        from registry.store.folder import Folder  # noqa: PLC0415 - likewise
    finally:
        sys.path.remove(str(root))
    return find_pending_sources(Folder(root / "records"))
