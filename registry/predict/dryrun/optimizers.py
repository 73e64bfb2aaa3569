"""Optimizers of a dry run: torch's own where they run on fakes, else their state. Loads torch."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import Any

#: Smallest parameter whose state has 8 bits, block that shares a scale, smallest paged state
#: (bitsandbytes, ``optim/optimizer.py``).
_MIN_8BIT_SIZE = 4096
_BLOCK_SIZE = 256
_MIN_PAGED_SIZE = 100_000


@dataclass(frozen=True)
class _StateRule:
    n_states: int
    bits: int
    paged: bool


_BITSANDBYTES = {
    "adamw_8bit": _StateRule(2, 8, paged=False),
    "paged_adamw_8bit": _StateRule(2, 8, paged=True),
    "paged_adamw_32bit": _StateRule(2, 32, paged=True),
    "lion_8bit": _StateRule(1, 8, paged=False),
    "paged_lion_8bit": _StateRule(1, 8, paged=True),
}


class StateOnly:
    """An optimizer of bitsandbytes: it makes its state in its first step and updates in place.

    Attributes:
        paged_bytes: Size of the state in pageable memory, which the allocator does not hold.
    """

    def __init__(self, parameters: list[Any], rule: _StateRule, embeddings: set[int]) -> None:
        self._parameters = parameters
        self._rule = rule
        self._embeddings = embeddings
        self._state: list[Any] = []
        self.paged_bytes = 0

    def step(self) -> None:
        """Make the state where it is not there."""
        if self._state:
            return
        torch = import_module("torch")
        if self._rule.bits == 8:  # noqa: PLR2004 - bits of a state
            maps = [torch.empty(256, dtype=torch.float32) for _ in range(self._rule.n_states)]
            self._state.extend(maps)
        for parameter in self._parameters:
            for _ in range(self._rule.n_states):
                self._make_state(torch, parameter)

    def _make_state(self, torch: Any, parameter: Any) -> None:
        size = parameter.numel()
        # transformers keeps the state of embeddings in 32 bits.
        in_8bit = self._rule.bits == 8 and size >= _MIN_8BIT_SIZE  # noqa: PLR2004 - bits of a state
        in_8bit = in_8bit and id(parameter) not in self._embeddings
        dtype = torch.uint8 if in_8bit else torch.float32
        if self._rule.paged and size >= _MIN_PAGED_SIZE:
            self.paged_bytes += size * dtype.itemsize
        else:
            self._state.append(torch.empty(size, dtype=dtype))
        if in_8bit:
            self._state.append(torch.empty(-(-size // _BLOCK_SIZE), dtype=torch.float32))

    def zero_grad(self) -> None:
        """Let go of the gradients."""
        for parameter in self._parameters:
            parameter.grad = None


def build_optimizer(name: str, model: Any) -> Any:
    """Return the optimizer of a trial over the trainable parameters of a model."""
    torch = import_module("torch")
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if name in _BITSANDBYTES:
        embeddings = {
            id(module.weight) for module in model.modules() if type(module) is torch.nn.Embedding
        }
        return StateOnly(trainable, _BITSANDBYTES[name], embeddings)
    if name == "adafactor":
        kind = import_module("transformers.optimization").Adafactor
        return kind(trainable, lr=1e-5, scale_parameter=False, relative_step=False)
    if name == "sgd":
        return torch.optim.SGD(trainable, lr=1e-5, foreach=True)
    # On CUDA torch takes the foreach kernels where none are named; on the CPU it does not.
    fused = name == "adamw_torch_fused"
    return torch.optim.AdamW(trainable, lr=1e-5, fused=fused, foreach=not fused)
