"""Where fakes refuse what real tensors do, on every device. Loads torch.

- The values of a fake cannot be read: transformers then builds a mask for packed sequences, with
  which attention keeps other tensors.
- Grouped products (the experts of a mixture) have fakes in bf16 alone; kernels take all dtypes.
- A number that is drawn to leave out a module or a layer (LoHa, LoKr, OPT) cannot be compared: none
  is left out, as with a probability of 0.
- FlashAttention needs its own package and a GPU. sdpa's kernel without a mask keeps the same
  tensors; caps of the scores (Gemma-2) and windows are inside the kernel.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_torch: Any = import_module("torch")

#: Name of the stand-in for FlashAttention; a name with "flash" would be looked for on the hub.
FLASH = "registry_fused"


@contextmanager
def fake_operators() -> Iterator[None]:
    """Have the graph run on fakes as it runs on real tensors."""
    masks = import_module("transformers.masking_utils")
    functional = import_module("torch.nn.functional")
    replaced = {
        (masks, "find_packed_sequence_indices"): lambda *_args, **_options: None,
        (_torch, "rand"): partial(_draw, _torch.rand),
    }
    grouped = getattr(functional, "grouped_mm", None)
    if grouped is not None:
        replaced[functional, "grouped_mm"] = partial(_grouped, grouped)
    with ExitStack() as patches:
        for (module, name), function in replaced.items():
            if hasattr(module, name):  # older versions read no positions
                patches.enter_context(patch.object(module, name, function))
        yield


def _draw(rand: Callable[..., Any], *size: Any, **options: Any) -> Any:
    """Return what ``torch.rand`` does, but of a single number its upper end."""
    is_single = size in ((1,), ((),), ([],))  # a set would hash the list
    return 1.0 if is_single else rand(*size, **options)


def register_flash() -> str:
    """Return the name of an attention that keeps what FlashAttention keeps, known to transformers.

    Raises KeyError where transformers is too old to be told of one.
    """
    utils = import_module("transformers.modeling_utils")
    masks = import_module("transformers.masking_utils")
    sdpa = utils.ALL_ATTENTION_FUNCTIONS["sdpa"]
    utils.ALL_ATTENTION_FUNCTIONS.register(FLASH, partial(_flash, sdpa))
    masks.ALL_MASK_ATTENTION_FUNCTIONS.register(FLASH, masks.flash_attention_mask)
    return FLASH


def _flash(sdpa: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return sdpa(*args, **{**options, "softcap": None})


def _grouped(function: Callable[..., Any], rows: Any, weights: Any, **options: Any) -> Any:
    if rows.dtype == _torch.bfloat16:
        return function(rows, weights, **options)
    return _Grouped.apply(rows, weights)


class _Grouped(_torch.autograd.Function):  # type: ignore[misc]  # torch is not there to be read by mypy
    """A grouped product's shapes, and what its backward pass keeps."""

    @staticmethod
    def forward(ctx: Any, rows: Any, weights: Any) -> Any:
        of_rows, of_weights = ctx.needs_input_grad
        ctx.save_for_backward(weights if of_rows else None, rows if of_weights else None)
        ctx.shape = weights.shape
        return rows.new_empty(rows.shape[0], weights.shape[-1])

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> tuple[Any, Any]:
        weights, rows = ctx.saved_tensors
        of_rows = None if weights is None else gradient.new_empty(gradient.shape[0], ctx.shape[1])
        return of_rows, None if rows is None else gradient.new_empty(ctx.shape)
