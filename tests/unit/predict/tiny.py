"""A decoder small enough to count on paper."""

from __future__ import annotations

from registry.predict.architecture import Architecture

TINY = Architecture(
    model_id="tiny",
    n_params=2000,
    n_layers=3,
    hidden_size=8,
    intermediate_size=20,
    vocab_size=50,
    n_heads=2,
    n_kv_heads=1,
    head_dim=4,
)
