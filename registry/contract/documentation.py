"""Write the documents that are derived from the contract, and those of plans.

Run as ``python -m registry.contract.documentation``; with ``--check`` nothing is written, and the
exit status is 1 where a document is out of date.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from registry.contract.data_dictionary import format_data_dictionary
from registry.contract.json_schema import submission_schema
from registry.measure.running.plan_reference import format_plan_reference
from registry.measure.running.plan_schema import plan_schema


def format_documents() -> dict[str, str]:
    """Return the text of each derived document, by its name in ``docs/``."""
    return {
        "data-dictionary.md": format_data_dictionary(),
        "submission.schema.json": _format_json(submission_schema()),
        "plans.md": format_plan_reference(),
        "plan.schema.json": _format_json(plan_schema()),
    }


def _format_json(schema: dict[str, Any]) -> str:
    return json.dumps(schema, indent=1, ensure_ascii=False) + "\n"


def check_documents(folder: Path) -> list[str]:
    """Return the names of the documents in a folder that are missing or out of date."""
    return [name for name, text in format_documents().items() if _read(folder / name) != text]


def write_documents(folder: Path) -> list[str]:
    """Write what is missing or out of date; return the names."""
    texts = format_documents()
    changed = check_documents(folder)
    for name in changed:
        (folder / name).write_text(texts[name], encoding="utf-8")
    return changed


def _read(path: Path) -> str | None:
    return path.read_text(encoding="utf-8") if path.is_file() else None


def main(arguments: list[str], folder: Path) -> str | None:
    """Write or check the documents; return what is wrong."""
    if arguments not in ([], ["--check"]):
        return f"found {' '.join(arguments)!r}; expected nothing or --check"
    if not folder.is_dir():
        return f"{folder}: no such folder; expected the docs/ of a checkout; run this in one"
    if not arguments:
        write_documents(folder)
        return None
    stale = ", ".join(f"{folder.name}/{name}" for name in check_documents(folder))
    way_out = "run `python -m registry.contract.documentation` and commit what it writes"
    return f"{stale}: not what the contract says; {way_out}" if stale else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], Path(__file__).resolve().parents[2] / "docs"))
