from __future__ import annotations

from typing import Any

from registry.sharing.request import format_nearest

ROW: dict[str, Any] = {
    "observation_id": "ab" * 16,
    "model_id": "qwen-7b",
    "gpu_id": "rtx-3090",
    "quant_bits": 4,
    "seq_len": 512,
    "micro_batch_size": 1,
    "n_gpus": 1,
    "peak_memory_bytes": None,
    "seconds_per_step": 2.0,
}


def test_settings_that_the_nearest_run_does_not_state_are_said_in_words() -> None:
    nearest = {**ROW, "quant_bits": None, "seq_len": None, "micro_batch_size": 2}
    said = format_nearest(ROW, nearest)
    assert said.endswith("with no quantization stated, no length stated, batch 2")
