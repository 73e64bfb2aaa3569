"""Sizes of parameters that FSDP has laid end to end and split."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from registry.measure.recording.parameters import count_parameters


class Part:
    """What one process has of some parameters."""

    dtype = "torch.float32"
    requires_grad = True

    def __init__(self, n_here: int) -> None:
        self.n_here = n_here

    def numel(self) -> int:
        return self.n_here

    def is_floating_point(self) -> bool:
        return True


class Embedding:
    """A module of words, which shows its own parameter where FSDP lets it."""

    def __init__(self, *own: Part) -> None:
        self._own = own

    def parameters(self) -> list[Part]:
        return list(self._own)


class Sharded:
    """A model as FSDP wraps it, which shows its parameters or the flat one."""

    def __init__(self, *, shows_own: bool) -> None:
        own, flat = [Part(512), Part(8)], Part(520)
        words = Embedding(*own[:1]) if shows_own else Embedding()
        infos = [SimpleNamespace(module=words), SimpleNamespace(module=self)]
        shapes = [(64, 16), (16,)]
        flat.__dict__ |= {"_shapes": shapes, "_param_infos": infos}
        flat.__dict__ |= {"_params": own if shows_own else None}
        self._handle = SimpleNamespace(flat_param=flat)
        self._shown = own if shows_own else [flat]
        self._words = words

    def named_parameters(self) -> list[tuple[str, Part]]:
        return [(f"{place}.weight", part) for place, part in enumerate(self._shown)]

    def modules(self) -> list[object]:
        return [self, self._words]


@pytest.mark.parametrize("shows_own", [True, False])
def test_split_parameters_count_with_what_all_processes_hold(*, shows_own: bool) -> None:
    model = Sharded(shows_own=shows_own)
    groups = [{"params": [part for _, part in model.named_parameters()]}]
    parameters = count_parameters(model, [SimpleNamespace(param_groups=groups)])
    assert parameters.n_params == parameters.n_trainable == 64 * 16 + 16
    assert parameters.trains_embeddings
