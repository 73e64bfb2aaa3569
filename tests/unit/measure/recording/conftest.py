"""Recorders of loops in this process, for the tests that train."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from registry.measure.recording.loop_threads import LoopRecorders
from registry.measure.recording.progress import assemble_files
from registry.measure.trial_settings import RECORD_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Watch:
    """The recorders of this process, and what they have recorded in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.hooks: list[Any] = []
        self.recorders = LoopRecorders(
            SimpleNamespace(register_optimizer_step_post_hook=self._register)
        )

    def _register(self, hook: Callable[..., None]) -> None:
        optimizers = sys.modules["torch.optim.optimizer"]
        self.hooks.append(optimizers.register_optimizer_step_post_hook(hook))

    def expect(self, optimizer: Any) -> Any:
        """Return an optimizer that was made under the recorders' eyes."""
        self.recorders.expect(optimizer)
        return optimizer

    def adamw(self, *models: Any) -> Any:
        """Return an optimizer of some models."""
        parameters = [each for model in models for each in model.parameters()]
        return self.expect(sys.modules["torch"].optim.AdamW(parameters))

    def observations(self) -> list[dict[str, Any]]:
        """End the trainings and return what was recorded."""
        self.recorders.finish()
        return [one["observations"][0] for one in assemble_files(self.folder.glob("*.jsonl"))]


@pytest.fixture
def watch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    monkeypatch.setenv(RECORD_FOLDER, str(tmp_path))
    monkeypatch.setattr("registry.measure.recording.session._earlier", [])
    found = Watch(tmp_path)
    yield found
    found.recorders.finish()
    for hook in found.hooks:
        hook.remove()
