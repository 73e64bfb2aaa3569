"""Walk a folder that somebody else filled: it may be deep, large, or change meanwhile."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Most folders inside each other that are looked into.
DEEPEST: Final = 32


def walk_folder(
    folder: Path, left_out: list[Path], *, most: int | None = None
) -> Iterator[tuple[Path, list[str]]]:
    """Yield each folder in a folder, itself first, with the names of its files, in order.

    Links to folders are not followed, and names that begin with a dot are passed over. Folders that
    lie too deep, or behind the first ``most`` names, go to ``left_out`` and are not looked into.
    """
    n_seen = 0
    for place, folders, files in os.walk(folder):
        here = Path(place)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        n_seen += len(folders) + len(files)
        is_deepest = len(here.parts) - len(folder.parts) >= DEEPEST
        if is_deepest or (most is not None and n_seen > most):
            left_out += (here / name for name in folders if not (here / name).is_symlink())
            folders.clear()
        yield here, sorted(name for name in files if not name.startswith("."))
