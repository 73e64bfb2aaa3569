"""Modules that the job itself has loaded. The recorder never loads a heavy one on its own."""

from __future__ import annotations

import sys
from typing import Any


def loaded(name: str) -> Any:
    """Return the module if the process has loaded it, else None."""
    return sys.modules.get(name)


def cuda() -> Any:
    """Return ``torch.cuda`` where the process uses an accelerator through it, else None."""
    torch = loaded("torch")
    module = getattr(torch, "cuda", None)
    return module if module is not None and module.is_available() else None


def cuda_in_use() -> Any:
    """Return ``torch.cuda`` where this process has initialized it, else None.

    Whether a device is there at all takes torch longer to tell, and this is asked in every step.
    """
    module = getattr(loaded("torch"), "cuda", None)
    return module if module is not None and module.is_initialized() else None
