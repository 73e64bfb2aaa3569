"""Say in words what a dry run adapted."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from registry.measure.trial_settings import Settings
    from registry.predict.dryrun.result import Recipe


#: Parameters that only recurrent layers have: of Mamba and gated delta networks, and of Griffin.
_RECURRENT = ("A_log", "recurrent_param")


def collect_notes(
    settings: Settings, recipe: Recipe, parameters: Iterable[str] = ()
) -> tuple[str, ...]:
    """Return one sentence for each place where the dry run replaces an operation by another.

    ``parameters`` are the names of the model's.
    """
    notes = []
    if any(name.endswith(_RECURRENT) for name in parameters):
        notes.append(
            "recurrent layers executed in PyTorch's own operations: fused kernels (mamba-ssm, "
            "flash-linear-attention) keep less"
        )
    if settings.attention == "flash2":
        notes.append("flash2 executed as sdpa without a mask, which keeps the same tensors")
    if settings.attention != "eager" and recipe.device == "cuda":
        notes.append("attention counted as CUDA's flash kernel, its backward workspace included")
    if settings.quantization == "int8":
        notes.append("int8 without outlier columns (threshold 0)")
    if settings.optimizer.startswith("paged_"):
        notes.append("paged optimizer state lies outside the allocator: see paged_bytes")
    if settings.n_gpus > 1 and settings.sharding == "ddp":
        notes.append("one device of several, with DDP's buckets the size of the gradients")
    if settings.dataset is not None:
        notes.append("every sequence at full length; the data set was not read")
    return tuple(notes)
