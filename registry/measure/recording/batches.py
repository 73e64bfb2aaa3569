"""Count the tokens and samples of the batches a job really trains on."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Dimensions of a batch of token ids, and of a mask over it: samples and positions.
_BATCH_DIMENSIONS = 2


@dataclass
class Batches:
    """What is known of the lengths of a job's sequences; sums stay on the device until asked for.

    A step's ``tokens`` are the positions that no attention mask hides, padding left out.
    """

    widths: set[int] = field(default_factory=set)
    is_padded: bool = False
    _waiting: list[tuple[int, int, Any]] = field(default_factory=list)

    def add(self, inputs: Any) -> None:
        """Note a micro-batch as it enters the model; the device is not waited for."""
        ids = inputs.get("input_ids") if hasattr(inputs, "get") else None
        if ids is None or getattr(ids, "ndim", 0) != _BATCH_DIMENSIONS:
            return
        n_samples, width = (int(size) for size in ids.shape)
        mask = inputs.get("attention_mask")
        is_mask = mask is not None and getattr(mask, "shape", None) == ids.shape
        self.widths.add(width)
        self._waiting.append((n_samples, n_samples * width, mask.sum() if is_mask else None))

    def take(self) -> tuple[int | None, int | None]:
        """Return tokens and samples since the last call; call it once the device has caught up."""
        if not self._waiting:
            return None, None
        n_tokens = n_samples = 0
        for samples, positions, visible in self._waiting:
            tokens = positions if visible is None else int(visible)
            self.is_padded |= tokens != positions
            n_tokens += tokens
            n_samples += samples
        self._waiting.clear()
        return n_tokens, n_samples

    def read_length(self, args: Any) -> dict[str, Any]:
        """Return the columns ``seq_len`` and ``length_distribution``."""
        if not self.widths:
            return {}
        limit = getattr(args, "max_length", None) or getattr(args, "max_seq_length", None)
        if getattr(args, "padding_free", False):
            return {"seq_len": limit, "length_distribution": "variable"} if limit else {}
        is_full = len(self.widths) == 1 and not self.is_padded
        if is_full:
            return {"seq_len": max(self.widths), "length_distribution": "full"}
        longest = max(*self.widths, limit if isinstance(limit, int) else 0)
        return {"seq_len": longest, "length_distribution": "variable"}
