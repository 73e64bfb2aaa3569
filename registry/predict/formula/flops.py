"""Floating-point operations of a training step, counted from the architecture."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from registry.predict.question import Question


@dataclass(frozen=True)
class Flops:
    """Operations of one micro-batch of one device, by pass."""

    forward: float
    backward: float
    recompute: float

    @property
    def model(self) -> float:
        """What the model needs: forward and backward, without what is computed twice."""
        return self.forward + self.backward

    @property
    def hardware(self) -> float:
        """What the device does: the recomputation of checkpointed activations included."""
        return self.model + self.recompute


def count_flops(question: Question, tokens: float | None = None) -> Flops:
    """Return the operations of one micro-batch of samples of ``tokens`` (else the longest) each.

    Formula: 2 operations per parameter and token in the forward pass, the output layer included and
    the embedding's look-up not, plus 2 · tokens · hidden per layer and token for causal attention
    (4 with the full matrix, half of which is masked); PaLM (Chowdhery et al. 2022), appendix B, and
    Korthikanti et al. 2022, section 6. The backward pass costs the same once for the gradients of
    the activations, and once more for those of the weights that are trained. Checkpointing repeats
    the forward pass of the layers.
    """
    model = question.model
    length = tokens or question.longest
    count = length * question.micro_batch_size
    matrices = model.active_params - _looked_up(question)
    attention = 2.0 * model.n_layers * model.n_heads * model.head_dim * length * count
    forward = 2.0 * matrices * count + attention
    weights = 2.0 * min(question.trained_params, matrices) * count
    again = bool(question.setting("gradient_checkpointing"))
    output = 2.0 * model.vocab_size * model.hidden_size * count
    return Flops(forward, forward + attention + weights, again * (forward - output))


def _looked_up(question: Question) -> int:
    model = question.model
    ends = 0 if model.tied_embeddings else model.vocab_size * model.hidden_size
    return ends + model.layer_embedding_params
