"""What FSDP's flat parameters hold, of which each process has a part.

Its first version lays the parameters of a module end to end in one and splits that over the
processes. What the module then shows is that one, or what is left here of each.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator


def read_full_sizes(model: Any) -> dict[int, int]:
    """Return how many weights each split parameter has in all processes, by its identity."""
    sizes: dict[int, int] = {}
    for flat in _find_flat(model):
        each = [math.prod(shape) for shape in flat._shapes]  # noqa: SLF001 - FSDP offers no other way
        sizes[id(flat)] = sum(each)
        shown = getattr(flat, "_params", None) or ()
        sizes |= {id(part): size for part, size in zip(shown, each, strict=False)}
    return sizes


def read_flat_of(model: Any) -> dict[int, int]:
    """Return the identity of the flat parameter that has a module's own, by the module's."""
    return {
        id(info.module): id(flat)
        for flat in _find_flat(model)
        for info in flat._param_infos  # noqa: SLF001 - likewise
    }


def _find_flat(model: Any) -> Iterator[Any]:
    for module in model.modules() if hasattr(model, "modules") else ():
        flat = getattr(vars(module).get("_handle"), "flat_param", None)
        if flat is not None:
            yield flat
