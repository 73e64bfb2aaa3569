"""Write a record in one piece or not at all, and read what others wrote; standard library only."""

from __future__ import annotations

import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from registry.reading.bounded_file import ReadingError, read_bytes

#: Largest record that is read, in bytes: steps of about a million.
LARGEST_RECORD = 256 * 2**20


def write_json(path: str | Path, document: Any) -> None:
    """Write a JSON file under a temporary name, flush it and rename it into place."""
    path = Path(path)
    text = json.dumps(document, ensure_ascii=False, allow_nan=False)
    descriptor, name = tempfile.mkstemp(prefix=".tmp-", dir=path.parent)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def read_json(path: str | Path) -> Any:
    """Return the document in a file that somebody else wrote; None where it is missing or none."""
    try:
        return json.loads(read_bytes(Path(path), limit=LARGEST_RECORD, what="a record"))
    except (OSError, ValueError, RecursionError, ReadingError):
        return None
