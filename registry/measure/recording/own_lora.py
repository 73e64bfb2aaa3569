"""Find LoRA as frameworks build it without PEFT: litgpt, torchtune, loralib and loops of one's own.

They agree on one thing alone: a trained parameter's name has a part that begins with ``lora_``, or
that is ``lora`` and holds the matrices.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

#: How the parts of a name begin that are the matrices of an adapter, and what holds them.
_PREFIX, _HOLDER = "lora_", "lora"

#: What modules call their rank and their scale.
_RANK, _ALPHA = ("r", "rank", "lora_rank"), ("lora_alpha", "alpha")


def is_own_lora(name: str) -> bool:
    """Return whether a parameter's name is that of an adapter's matrix."""
    return any(map(_is_part, name.split(".")))


def _is_part(part: str) -> bool:
    return part.lower().startswith(_PREFIX) or part.lower() == _HOLDER


def read_own_lora(model: Any) -> Row:
    """Return the method and its settings where a model trains such matrices; else nothing."""
    trained = [name for name, parameter in model.named_parameters() if parameter.requires_grad]
    paths = sorted({_carrier(name) for name in trained if is_own_lora(name)})
    if not paths:
        return {}
    by_path = dict(model.named_modules())
    holding = [one for path in paths for one in (path, f"{path}.{_HOLDER}".lstrip("."))]
    modules = [by_path[path] for path in holding if path in by_path]
    is_dora = any("magnitude" in name for name in trained)
    row: Row = {
        "method": "dora" if is_dora else "lora",
        "lora_rank": _first_number(modules, _RANK),
    }
    alpha = _first_number(modules, _ALPHA)
    row["lora_alpha"] = None if alpha is None else float(alpha)
    row["lora_target_modules"] = sorted({path.rsplit(".", 1)[-1] for path in paths if path})
    return {name: value for name, value in row.items() if value not in (None, [])}


def _carrier(name: str) -> str:
    """Return the path of the module that an adapter's matrix belongs to."""
    parts = name.split(".")
    place = next(i for i, part in enumerate(parts) if _is_part(part))
    return ".".join(parts[:place])


def _first_number(modules: list[Any], names: tuple[str, ...]) -> Any:
    found = (getattr(module, name, None) for module in modules for name in names)
    numbers = (value for value in found if isinstance(value, int | float) and value > 0)
    return next(numbers, None)
