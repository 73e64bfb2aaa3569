"""Forked commands end as processes of their own do."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.acceptance import forking

if TYPE_CHECKING:
    from pathlib import Path

ENDLESS = "select count(*) from range(1000000000) a, range(1000000000) b"


def test_after_a_command_that_was_killed_for_its_time_the_next_has_its_own_status(
    environment: dict[str, str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = forking.ForkServer()
    monkeypatch.setattr(forking, "_SECONDS", 3)
    with pytest.raises(TimeoutError):
        server.run(["query", ENDLESS], work, environment, b"")
    monkeypatch.undo()
    assert server.run(["--version"], work, environment, b"").returncode == 0
    assert server.run(["--no-such-option"], work, environment, b"").returncode == 2
    server.close()
