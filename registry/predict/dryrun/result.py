"""What a dry run is asked beyond the settings of a trial, and what it answers."""

from __future__ import annotations

from dataclasses import dataclass, field

from registry.errors import RegistryError, did_you_mean

#: What memory is taken for. ``weights`` are the base's; ``adapters`` what PEFT adds to it;
#: ``optimizer`` its state and what its step needs for a moment; ``logits`` every tensor over the
#: vocabulary; ``other`` inputs and library workspaces.
KINDS = ("weights", "adapters", "gradients", "optimizer", "activations", "logits", "other")

#: cuBLAS workspace of one handle, ``:4096:2:16:8`` in KiB (PyTorch, CUDABlas; 32 MiB on Hopper).
#: The thread of the forward pass and that of the backward pass hold a handle each.
CUBLAS_WORKSPACE_BYTES = (2 * 4096 + 8 * 16) * 1024


#: Words of a recipe.
_WORDS = {"loss": ("upcast", "shifted", "plain"), "device": ("cuda", "cpu")}


class DryRunError(RegistryError):
    """A dry run cannot be made, or ended without an answer."""


@dataclass(frozen=True)
class Recipe:
    """What a training stack does that the settings of a trial do not say.

    The defaults are those of the job that ``registry run`` starts: transformers' Trainer with
    accelerate and PEFT.

    Attributes:
        autocast: Mixed precision over the forward pass, where the dtype has 16 bits.
        adapters_fp32: PEFT holds adapters in fp32 on a 16-bit base (``autocast_adapter_dtype``).
        weights_fp32: Unquantized weights are held in fp32 (``torch_dtype`` not given, as in full
            training with ``bf16=True``); autocast casts them.
        frozen_fp32: On a quantized base, norms, embeddings and head are held in fp32
            (``prepare_model_for_kbit_training``).
        family_targets: Adapters are on the projections of attention as the family calls them,
            where it has no modules of the names that are stated.
        loss: ``upcast``: logits are cast to fp32 inside the loss (transformers since 4.45);
            ``shifted``: they are returned in fp32 and a shifted copy is made (before);
            ``plain``: the loss is taken in the dtype of the logits.
        outputs_fp32: accelerate returns the model's outputs in fp32 under mixed precision.
        keeps_outputs: The loop holds the outputs, logits among them, during the backward pass;
            the Trainer does not, loops written by hand mostly do.
        clip_gradients: The norm of the gradients is clipped before the step.
        reentrant: Checkpointing of the older kind (``use_reentrant``), the default of transformers
            before 5. The newer kind does not free what bitsandbytes' int8 product keeps on its
            context, so that int8 takes far more with it.
        cublas_workspace_bytes: Workspace of one cuBLAS handle; two are held.
        device: ``cuda`` follows the operators that CUDA takes; ``cpu`` those of the CPU, so that a
            real run on a CPU can be compared.
    """

    autocast: bool = True
    adapters_fp32: bool = True
    weights_fp32: bool = False
    frozen_fp32: bool = True
    family_targets: bool = False
    loss: str = "upcast"
    outputs_fp32: bool = True
    keeps_outputs: bool = False
    clip_gradients: bool = True
    reentrant: bool = False
    cublas_workspace_bytes: int = CUBLAS_WORKSPACE_BYTES
    device: str = "cuda"

    def __post_init__(self) -> None:
        """Refuse words that are not known."""
        for name, known in _WORDS.items():
            word = getattr(self, name)
            if word not in known:
                expected = ", ".join(known)
                near = did_you_mean(word, known)
                raise DryRunError(f"recipe: {name} {word!r}; expected one of {expected}{near}")


@dataclass(frozen=True)
class DryRun:
    """Memory of one device in bytes, as a dry run found it.

    Attributes:
        peak_allocated_bytes: Most that live tensors took, as ``torch.cuda.max_memory_allocated``.
        peak_reserved_bytes: Most that the caching allocator held, as ``max_memory_reserved``. The
            CUDA context is not part of it.
        breakdown: Bytes of each of ``KINDS`` at the moment of the allocated peak; they add up.
        paged_bytes: Optimizer state in pageable memory, outside the allocator.
        phase: Where the peak was: ``forward``, ``backward`` or ``optimizer``.
        trainable_params: Trainable parameters, as counted on the model.
        seconds_taken: Time of the dry run itself.
        notes: What was adapted, in words.
    """

    peak_allocated_bytes: int
    peak_reserved_bytes: int
    breakdown: dict[str, int]
    paged_bytes: int
    phase: str
    trainable_params: int
    seconds_taken: float
    notes: tuple[str, ...] = field(default=())
