"""Progress bars on a terminal's stderr, for work that takes longer than a second."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: Work that is done by then shows no bar, and loads nothing that draws one.
_PATIENCE_SECONDS = 1.0


def show_progress(items: Iterable[Any], what: str, total: int | None) -> Iterator[Any]:
    """Yield the items; on a terminal, a bar appears once they take long, and leaves no trace."""
    if not sys.stderr.isatty():
        yield from items
        return
    left, begun = iter(items), time.monotonic()
    n_done = 0
    for item in left:
        yield item
        n_done += 1
        if time.monotonic() - begun > _PATIENCE_SECONDS:
            break
    else:
        return
    from tqdm import tqdm  # noqa: PLC0415 - only where a bar is drawn

    yield from tqdm(left, desc=what, total=total, initial=n_done, leave=False, dynamic_ncols=True)
