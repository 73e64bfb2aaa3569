"""Find LoRA as frameworks build it without PEFT: litgpt, torchtune, loralib and loops of one's own.

They agree on one thing alone: a trained parameter's name has a part that begins with ``lora_``, or
that is ``lora`` and holds the matrices. DoRA's is named alike, and adds a magnitude.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

#: How the parts of a name begin that are the matrices of an adapter, and what holds them.
_PREFIXES, _HOLDERS = ("lora_", "dora_", "magnitude"), ("lora", "dora")

#: What modules call their rank and their scale.
_RANK, _ALPHA = ("r", "rank", "lora_rank"), ("lora_alpha", "alpha")

#: What torch calls the holder of a module's parametrizations, and the sides of a matrix.
_PARAMETRIZED, _SIDES = "parametrizations", 2


def is_own_lora(name: str) -> bool:
    """Return whether a parameter's name is that of an adapter's matrix."""
    return any(map(_is_part, name.split(".")))


def _is_part(part: str) -> bool:
    return part.lower().startswith(_PREFIXES) or part.lower() in _HOLDERS


def read_own_lora(model: Any) -> Row:
    """Return the method and its settings where a model trains such matrices; else nothing."""
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    paths = sorted({_carrier(name) for name in trained if is_own_lora(name)})
    if not paths:
        return {}
    by_path = dict(model.named_modules())
    holders = ("", *(f".{name}" for name in _HOLDERS))
    holding = [f"{path}{holder}".lstrip(".") for path in paths for holder in holders]
    modules = [by_path[path] for path in holding if path in by_path]
    is_dora = any("magnitude" in name for name in trained)
    row: Row = {
        "method": "dora" if is_dora else "lora",
        "lora_rank": _first_number(modules, _RANK) or _read_rank(model),
    }
    alpha = _first_number(modules, _ALPHA)
    row["lora_alpha"] = None if alpha is None else float(alpha)
    row["lora_target_modules"] = sorted({_target(path) for path in paths if path})
    return {name: value for name, value in row.items() if value not in (None, [])}


def _target(path: str) -> str:
    """Return the end of a module's path that says which it is; a place in a list says nothing."""
    parts = path.split(".")
    if _PARAMETRIZED in parts:  # torch's parametrizations hold the matrices beside the module
        parts = parts[: parts.index(_PARAMETRIZED)]
    named = next((i for i in reversed(range(len(parts))) if not parts[i].isdecimal()), 0)
    return ".".join(parts[named:])


def _read_rank(model: Any) -> int | None:
    """Return the rank: the smallest side that all trained matrices have in common."""
    shapes = (
        tuple(getattr(parameter, "shape", ()))
        for name, parameter in model.named_parameters()
        if parameter.requires_grad and is_own_lora(name)
    )
    sides = [set(shape) for shape in shapes if len(shape) == _SIDES]
    common = set.intersection(*sides) if sides else set()
    return int(min(common)) if common else None


def _carrier(name: str) -> str:
    """Return the path of the module that an adapter's matrix belongs to."""
    parts = name.split(".")
    place = next(i for i, part in enumerate(parts) if _is_part(part))
    return ".".join(parts[:place])


def _first_number(modules: list[Any], names: tuple[str, ...]) -> Any:
    found = (getattr(module, name, None) for module in modules for name in names)
    numbers = (value for value in found if isinstance(value, int | float) and value > 0)
    return next(numbers, None)
