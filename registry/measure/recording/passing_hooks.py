"""Hooks on a job's modules that stay out of its files and of the copies it makes of them."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

_MARK = "_registry_passing"

#: Where a module keeps its hooks, and which of them are told what it is called with by name.
_HOOKS, _NAMED = "_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"


def mark_passing(hook: Callable[..., None]) -> Callable[..., None]:
    """Have a forward pre-hook left out where its module is pickled or copied."""
    setattr(hook, _MARK, True)
    return hook


def leave_out_of_copies(module_class: Any) -> None:
    """Have the state of modules leave marked hooks out; ``module_class`` is ``torch.nn.Module``.

    A whole model that is saved is the same file with a recorder as without, and a copy of it, such
    as a reference model, is not watched.
    """
    original = module_class.__getstate__
    if hasattr(original, _MARK):
        return

    @functools.wraps(original)
    def state_of(module: Any) -> Any:
        state = original(module)
        hooks = state.get(_HOOKS) if isinstance(state, dict) else None
        ours = {key for key, hook in (hooks or {}).items() if hasattr(hook, _MARK)}
        if not ours:
            return state
        return {**state, **{name: _without(state[name], ours) for name in (_HOOKS, _NAMED)}}

    setattr(state_of, _MARK, True)
    module_class.__getstate__ = state_of


def _without(hooks: Any, ours: set[int]) -> Any:
    return type(hooks)((key, value) for key, value in hooks.items() if key not in ours)
