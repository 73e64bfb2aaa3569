"""The recorder's hooks stay out of what a job saves and copies."""

from __future__ import annotations

import copy
import pickle

import pytest

from registry.measure.recording.loop_hooks import leave_out_of_copies, mark_passing


def note(*_: object) -> None:
    """Be a hook of the job's own, which can be pickled."""


def test_a_module_is_saved_and_copied_without_the_hooks_that_watch_it() -> None:
    torch = pytest.importorskip("torch")
    model = torch.nn.Linear(2, 2)
    model.register_forward_pre_hook(note)
    plain = pickle.dumps(model)
    leave_out_of_copies(torch.nn.Module)
    leave_out_of_copies(torch.nn.Module)  # once is enough
    watching = mark_passing(lambda *_: None)
    handle = model.register_forward_pre_hook(watching, with_kwargs=True)
    assert pickle.dumps(model) == plain
    assert list(copy.deepcopy(model)._forward_pre_hooks.values()) == [note]
    assert list(model._forward_pre_hooks.values()) == [note, watching]
    handle.remove()
    assert list(model._forward_pre_hooks.values()) == [note]
