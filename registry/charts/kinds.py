"""What can be drawn: kinds, the columns that each is drawn from, and what its axes can show."""

from __future__ import annotations

#: Kinds of pictures and what each shows.
KINDS = {
    "memory": "Peak memory of a card over sequence length, batch or number of cards.",
    "speed": "Throughput over sequence length, batch or number of cards.",
    "pareto": "Speed over peak memory, with the Pareto front.",
    "fits": "Heat map over sequence length and batch: how full the card was, and what ran out.",
    "scaling": "Throughput over the number of cards, next to ideal scaling.",
    "history": "One configuration over the releases of its software.",
    "compare": "Time and memory of B relative to A, one line per configuration.",
    "residuals": "Predicted relative to measured peaks, each source held out.",
}

#: Formats of pictures.
FORMATS = ("png", "svg", "pdf", "html", "json")

#: Most panels (pairs of a model and a card) of one picture.
MOST_PANELS = 12

_IDENTITY = ("observation_id", "source_id", "model_id", "gpu_id", "outcome", "evidence")
#: What tells settings apart: points are joined where all of these agree.
SETTINGS = (
    *("source_id", "objective", "method_label", "quant_bits", "quant_type", "compute_dtype"),
    *("lora_rank", "n_gpus", "sharding", "offload", "seq_len", "micro_batch_size"),
    *("grad_accum_steps", "attention", "gradient_checkpointing", "optimizer"),
    *("framework", "framework_version", "torch_version"),
)
_PEAK = (
    *("peak_memory_bytes", "peak_memory_bytes_low", "peak_memory_bytes_high"),
    *("peak_memory_bytes_per_gpu", "memory_kind", "gpu_memory_bytes"),
)
_SPEED = ("tokens_per_second", "samples_per_second", "seconds_per_step")


def _columns(*groups: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name for group in groups for name in group))


#: Columns that the rows of each kind have.
COLUMNS = {
    "memory": _columns(_IDENTITY, SETTINGS, _PEAK),
    "speed": _columns(_IDENTITY, SETTINGS, _SPEED),
    "pareto": _columns(_IDENTITY, SETTINGS, _PEAK, _SPEED),
    "fits": _columns(_IDENTITY, SETTINGS, _PEAK),
    "scaling": (
        *("setting", "source_id", "model_id", "gpu_id", "method_label", "objective"),
        *("quant_bits", "compute_dtype", "offload", "seq_len", "micro_batch_size"),
        *("grad_accum_steps", "gradient_checkpointing"),
        *("attention", "lora_rank", "sharding", "interconnect", "n_gpus", "n_observations"),
        *("samples_per_second", "base_n_gpus", "base_samples_per_second"),
        *("speedup", "efficiency"),
    ),
    "history": _columns(
        _IDENTITY,
        ("configuration_id", "configuration", "method_label", "series", "release"),
        ("release_order", "observed_at", "seq_len", "micro_batch_size", "n_gpus"),
        _PEAK,
        _SPEED,
    ),
    "compare": ("configuration", "measure", "ratio", "low", "high", "n_a", "n_b", "regression"),
    "residuals": ("source_id", "held_back", "predicted_bytes", "low_bytes", "high_bytes",
                  "measured_bytes"),
}  # fmt: skip

_OVER = ("seq_len", "micro_batch_size", "n_gpus")
#: Columns that the axes of a kind can show, the default first; an axis left out is fixed.
CHOICES: dict[str, dict[str, tuple[str, ...]]] = {
    "memory": {"x": _OVER},
    "speed": {"x": _OVER, "y": _SPEED},
    "pareto": {"y": _SPEED},
    "history": {"y": ("seconds_per_step", *_SPEED[:2], "peak_memory_bytes_per_gpu")},
}
