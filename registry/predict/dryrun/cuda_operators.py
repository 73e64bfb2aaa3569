"""Where CUDA's operators take other memory than the CPU's, of which the fakes are. Loads torch.

Fake tensors on ``cuda`` need a CUDA build of torch, so the graph is executed with fakes on the CPU
and these differences are put in:

- dropout is one operator that keeps a mask of one byte per element (the CPU keeps a scaled noise);
  that of attention is made again inside the kernel (the CPU falls back to the whole matrix);
- autocast computes softmax, layer norm and losses in fp32 (torch, "CUDA Ops that can autocast to
  float32"; the CPU's list is shorter);
- the backward pass of flash attention holds the query's gradient in fp32 and, with grouped
  queries, the key's and value's gradients per query head (flash-attention, ``flash_api.cpp``);
- products with 4-bit weights hold one layer's weights unpacked, products in int8 their int32
  sums (bitsandbytes, ``backends/cuda/ops.py``).
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
_functional: Any = import_module("torch.nn.functional")

#: Functions of ``torch.nn.functional`` that autocast computes in fp32 on CUDA: these take a dtype
#: for their result,
_SOFTMAXES = ("softmax", "log_softmax")
#: and these have their arguments cast.
_IN_FP32 = ("layer_norm", "group_norm", "cross_entropy", "nll_loss")

_FLASH_ROWS = 128
_FLASH_COLUMNS = 32
_FP32_BYTES = 4


@contextmanager
def cuda_operators() -> Iterator[None]:
    """Have modules take the operators that CUDA would take.

    Functions are replaced by name: a mode of torch's function protocol is off while ``backward``
    is handled, where checkpointed layers are computed again.
    """
    replaced: dict[str, Callable[..., Any]] = {"dropout": _dropout}
    replaced |= {name: partial(_softmax, getattr(_functional, name)) for name in _SOFTMAXES}
    replaced |= {name: partial(_upcast, getattr(_functional, name)) for name in _IN_FP32}
    attention = _functional.scaled_dot_product_attention
    replaced["scaled_dot_product_attention"] = partial(_attention, attention)
    with ExitStack() as patches:
        for name, function in replaced.items():
            patches.enter_context(patch.object(_functional, name, function))
        yield


def _dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:  # noqa: A002, FBT001, FBT002 - torch's own signature
    del inplace
    if not training or p == 0:
        return input
    return _torch.native_dropout(input, p, True)[0]  # noqa: FBT003 - takes no keywords


def _softmax(function: Callable[..., Any], input: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: A002 - torch's own name
    if _torch.is_autocast_enabled("cpu") and kwargs.get("dtype") is None and _is_half(input):
        kwargs["dtype"] = _torch.float32
    return function(input, *args, **kwargs)


def _upcast(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    if _torch.is_autocast_enabled("cpu"):
        args = tuple(_in_fp32(value) for value in args)
        kwargs = {name: _in_fp32(value) for name, value in kwargs.items()}
    return function(*args, **kwargs)


def _attention(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    return function(*args, **{**kwargs, "dropout_p": 0.0})


def _is_half(value: Any) -> bool:
    halves = (_torch.float16, _torch.bfloat16)
    return isinstance(value, _torch.Tensor) and value.dtype in halves


def _in_fp32(value: Any) -> Any:
    return value.float() if _is_half(value) else value


def no_workspace(func: Any, args: tuple[Any, ...]) -> int:
    """Return 0: what the CPU's operators take inside themselves is not counted."""
    del func, args
    return 0


def workspace_bytes(func: Any, args: tuple[Any, ...]) -> int:
    """Return the bytes that an operator's counterpart on CUDA allocates for its own time."""
    counted = _WORKSPACES.get(_name(func))
    return counted(args) if counted is not None else 0


def _name(func: Any) -> str:
    schema = getattr(func, "_schema", None)
    return schema.name if schema is not None else ""


def _flash_backward(args: tuple[Any, ...]) -> int:
    """``dq_accum`` and ``softmax_d`` in fp32; expanded ``dk`` and ``dv`` with grouped queries."""
    query, key = args[1], args[2]
    batch, heads, rows, columns = query.shape
    rows_held = _round_up(rows, _FLASH_ROWS)
    held = batch * heads * rows_held * (_round_up(columns, _FLASH_COLUMNS) + 1) * _FP32_BYTES
    if key.shape[1] != heads:
        held += 2 * batch * heads * key.shape[2] * columns * query.element_size()
    return int(held)


def _round_up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _unpacked_weight(args: tuple[Any, ...]) -> int:
    values, shape = args[0], args[2]
    return int(shape[0] * shape[1] * values.element_size())


def _int32_sums(args: tuple[Any, ...]) -> int:
    rows, columns = args[0].numel() // args[0].shape[-1], args[1].shape[0]
    return int(rows * columns * _torch.int32.itemsize)


#: By the operator's name: what it takes inside itself.
_WORKSPACES = {
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _flash_backward,
    "bitsandbytes::gemm_4bit": _unpacked_weight,
    "bitsandbytes::int8_scaled_mm": _int32_sums,
}
