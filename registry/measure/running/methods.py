"""Which methods a trial can train: those of the contract that PEFT has, and those it has here."""

from __future__ import annotations

import ast
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from registry.contract import vocabulary

#: Methods of the contract that PEFT does not have: frameworks do, or nobody knows what they are.
_NOT_IN_PEFT = (
    *("adapter", "badam", "freeze", "galore", "lisa", "llama_pro", "longlora", "lorafa"),
    *("other", "unknown"),
)


@cache
def known_methods() -> tuple[str, ...]:
    """Return the methods of the contract that a plan may name."""
    return tuple(name for name in vocabulary("method") if name not in _NOT_IN_PEFT)


@cache
def installed_methods() -> tuple[str, ...]:
    """Return the types of the installed PEFT, read from its source: loading it would load torch.

    Empty where PEFT is not installed, or keeps them elsewhere.
    """
    spec = find_spec("peft")
    folder = Path(spec.origin).parent if spec is not None and spec.origin else None
    try:
        text = (folder / "utils" / "peft_types.py").read_text(encoding="utf-8") if folder else ""
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return ()
    classes = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    values = [
        statement.value
        for node in classes
        if node.name == "PeftType"
        for statement in node.body
        if isinstance(statement, ast.Assign)
    ]
    constants = [value.value for value in values if isinstance(value, ast.Constant)]
    return tuple(str(constant).lower() for constant in constants)
