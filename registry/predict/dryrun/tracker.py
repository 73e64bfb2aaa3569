"""Follow every live storage of a training step through torch's dispatcher. Loads torch.

``torch.distributed._tools.mem_tracker.MemTracker`` raises on frozen parameters, so it cannot be
used for adapters; this tracker asks nothing of parameters and adds the allocator's rounding.
"""

from __future__ import annotations

import weakref
from collections import deque
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from registry.predict.dryrun.allocator import Block, CachingAllocator
from registry.predict.dryrun.result import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_torch: Any = import_module("torch")
_tree_iter: Any = import_module("torch.utils._pytree").tree_iter
_DispatchMode: Any = import_module("torch.utils._python_dispatch").TorchDispatchMode

#: What a new storage is taken for, by the phase it appears in, until something says better.
_KIND_OF_PHASE = {"forward": "activations", "backward": "activations", "optimizer": "optimizer"}


@dataclass(eq=False)
class _Live:
    block: Block
    kind: str
    reference: Any


class Tracker(_DispatchMode):  # type: ignore[misc]  # torch is not there to be read by mypy
    """Counts the storages that operators make, by kind, as the CUDA allocator would hold them.

    Args:
        vocab_size: A tensor whose last dimension is this counts as logits.
        workspace_bytes: Gives the bytes an operator takes inside itself, for its time alone.
    """

    def __init__(
        self, vocab_size: int, workspace_bytes: Callable[[Any, tuple[Any, ...]], int]
    ) -> None:
        super().__init__()
        self.phase = "forward"
        self.allocator = CachingAllocator()
        self.peak_phase = self.phase
        self.peak_by_kind = dict.fromkeys(KINDS, 0)
        self._by_kind = dict.fromkeys(KINDS, 0)
        self._vocab_size = vocab_size
        self._workspace_bytes = workspace_bytes
        self._live: dict[int, _Live] = {}
        # The collector may end a storage at any instant, also while the allocator is at work.
        self._dead: deque[_Live] = deque()

    def __torch_dispatch__(
        self,
        func: Any,
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run an operator and count the storages of its results."""
        del types
        workspace = self._workspace_bytes(func, args)
        held = self._allocate(workspace, "activations") if workspace else None
        result = func(*args, **(kwargs or {}))
        for tensor in _tree_iter(result):
            if isinstance(tensor, _torch.Tensor):
                self._add(tensor, self._kind(tensor))
        if held is not None:
            self._release(held, "activations")
        return result

    def track(self, tensors: Iterable[Any], kind: str) -> None:
        """Count the storages of tensors that are there already, under a kind."""
        for tensor in tensors:
            self._add(tensor, kind)

    def hold(self, n_bytes: int, kind: str) -> None:
        """Count memory that is no tensor of ours and stays to the end."""
        if n_bytes:
            self._allocate(n_bytes, kind)

    def relabel(self, tensor: Any, kind: str) -> None:
        """Count a live storage under another kind from here on."""
        live = self._live.get(tensor.untyped_storage()._cdata)  # noqa: SLF001 - its only identity
        if live is not None:
            self._by_kind[live.kind] -= live.block.size
            self._by_kind[kind] += live.block.size
            live.kind = kind

    def _kind(self, tensor: Any) -> str:
        if self.phase != "optimizer" and tensor.dim() > 1 and tensor.shape[-1] == self._vocab_size:
            return "logits"
        return _KIND_OF_PHASE[self.phase]

    def _add(self, tensor: Any, kind: str) -> None:
        storage = tensor.untyped_storage()
        key = storage._cdata  # noqa: SLF001 - the identity of a storage has no public name
        if key in self._live or storage.nbytes() == 0:
            return
        live = _Live(self._allocate(storage.nbytes(), kind), kind, None)

        def end(_: Any) -> None:
            self._live.pop(key, None)
            self._dead.append(live)

        live.reference = weakref.ref(storage, end)
        self._live[key] = live

    def _allocate(self, n_bytes: int, kind: str) -> Block:
        while self._dead:
            dead = self._dead.popleft()
            self._release(dead.block, dead.kind)
        block = self.allocator.allocate(n_bytes)
        self._by_kind[kind] += block.size
        # Equal peaks: the later one, when gradients and states carry their names.
        if self.allocator.allocated_bytes == self.allocator.peak_allocated_bytes:
            self.peak_by_kind = dict(self._by_kind)
            self.peak_phase = self.phase
        return block

    def _release(self, block: Block, kind: str) -> None:
        self._by_kind[kind] -= block.size
        self.allocator.release(block)
