"""Keep the contract's YAML files parsed, as JSON in the user's cache folder.

Parsing them takes longer than all else that recording a measurement needs. The cache is valid
while every file has the size and the time of change it had; what cannot be cached is parsed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from pathlib import Path
from typing import Any

Documents = dict[str, Any]
Stamp = list[list[Any]]


def read_cached(folder: Path) -> Documents | None:
    """Return the parsed files of a folder by relative name, or None where they are not cached."""
    try:
        cached = json.loads(_cache_path(folder).read_text(encoding="utf-8"))
        documents: Documents = cached["documents"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return documents if cached["stamp"] == _stamp(folder) else None


def write_cache(folder: Path, documents: Documents) -> None:
    """Cache parsed files; a cache that cannot be written is no error."""
    text = json.dumps({"stamp": _stamp(folder), "documents": documents})
    if json.loads(text)["documents"] != documents:
        return  # a document that JSON cannot carry
    path = _cache_path(folder)
    temporary = path.with_name(f".tmp-{os.urandom(8).hex()}")
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)


def list_files(folder: Path) -> list[Path]:
    """Return the YAML files of a folder and its subfolders, sorted."""
    return sorted(folder.rglob("*.yaml"))


def _stamp(folder: Path) -> Stamp:
    stamp = []
    for path in list_files(folder):
        status = path.stat()
        stamp.append([str(path.relative_to(folder)), status.st_mtime_ns, status.st_size])
    return stamp


def _cache_path(folder: Path) -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    name = hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    return Path(base) / "peft-registry" / f"contract-{name}.json"
