"""The lock of whoever rewrites tables."""

from __future__ import annotations

import fcntl
import os
from typing import TYPE_CHECKING

import pytest

from registry.errors import StoreError
from registry.store.lock import table_lock

if TYPE_CHECKING:
    from registry.store.folder import Folder


def test_a_lock_yields_the_time_of_its_folder_and_names_its_holder(folder: Folder) -> None:
    lock = folder.tables / ".lock"
    lock.write_text("123456789012\n", encoding="utf-8")
    with table_lock(folder) as now:
        assert now == lock.stat().st_mtime
        assert lock.read_text(encoding="utf-8") == f"{os.getpid()}\n"
    with table_lock(folder, wait_seconds=0.0):
        pass


@pytest.mark.parametrize(("text", "holder"), [("", "unknown"), ("12\n", "12")])
def test_who_holds_the_lock_is_named(folder: Folder, text: str, holder: str) -> None:
    lock = folder.tables / ".lock"
    lock.write_text(text, encoding="utf-8")
    with lock.open(encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        with pytest.raises(StoreError) as caught, table_lock(folder, wait_seconds=0.0):
            pass
    assert str(caught.value) == (
        f"{lock}: another process (pid {holder}) is folding; expected it to finish in time; wait "
        "for it, or end it, then repeat the command"
    )
