"""Where a registry's documents and the catalogue of today differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from registry.store.check import describe_apart
from registry.store.snapshot import read_snapshot
from tests.unit.store.registries import build_document, write_entry

if TYPE_CHECKING:
    from registry.api import Registry
    from registry.store.folder import Folder


@pytest.mark.parametrize(("n_unknown", "rest"), [(10, []), (12, ["and 2 more such differences"])])
def test_ten_differences_are_named_and_the_rest_counted(
    db: Registry, folder: Folder, n_unknown: int, rest: list[str]
) -> None:
    added = db.add(build_document()).submission_id
    recorded = (folder.journal / f"{added}.json").read_text(encoding="utf-8")
    for number in range(n_unknown):
        document = json.loads(recorded)
        del document["models"]  # as if a later catalogue no longer had it
        document["observations"][0]["configuration"]["model_id"] = f"new-{number}"
        write_entry(folder, document)
    lines = list(describe_apart(read_snapshot(db.location)))
    assert {line.partition(" is ")[0] for line in lines[:10]} <= {
        f"model 'new-{number}'" for number in range(n_unknown)
    }
    assert lines[10:] == rest
