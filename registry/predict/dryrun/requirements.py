"""What a dry run needs installed, and what it can be asked."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings

#: Shardings under which one device alone shows the memory of each.
SHARDINGS = ("none", "ddp")


def check_packages(settings: Settings) -> list[str]:
    """Return a problem for the first package that a dry run of the settings lacks."""
    needed = ["torch", "transformers"]
    if settings.method != "full":
        needed.append("peft")
    if settings.quantization != "none":
        needed.append("bitsandbytes")
    missing = next((name for name in needed if find_spec(name) is None), None)
    if missing is None:
        return []
    way_out = "pip install 'peft-registry[train]', or ask without it to use the formula"
    return [f"dry run: {missing} is not installed: {way_out}"]


def check_settings(settings: Settings) -> list[str]:
    """Return one problem for each setting that a dry run cannot be made of."""
    problems = [
        f"{name} {getattr(settings, name)}: expected 1 or more"
        for name in ("seq_len", "micro_batch_size", "grad_accum_steps", "n_gpus")
        if getattr(settings, name) < 1
    ]
    if settings.n_gpus > 1 and settings.sharding not in SHARDINGS:
        problems.append(
            f"sharding {settings.sharding!r}: the dry run executes one entire device; expected "
            f"{' or '.join(SHARDINGS)}; use the formula for sharded states"
        )
    if settings.quantization != "none" and settings.method == "full":
        problems.append(
            f"method 'full' with quantization {settings.quantization!r}: quantized weights are "
            "not trained; expected quantization 'none', or an adapter method"
        )
    if settings.quantization != "none" and settings.method == "dora":
        problems.append(
            f"method 'dora' with quantization {settings.quantization!r}: PEFT reads the unpacked "
            "weights, which a dry run does not have; expected quantization 'none'; use the formula"
        )
    return problems
