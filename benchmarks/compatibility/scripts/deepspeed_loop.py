"""Fine-tune a model with DeepSpeed's engine, ZeRO stage 2, on the CPU.

deepspeed_loop.py MODEL
"""

import sys

import deepspeed
import torch
from transformers import AutoModelForCausalLM

BATCH, LENGTH, ACCUMULATION, STEPS = 2, 128, 2, 20


def main() -> None:
    """Train."""
    deepspeed.init_distributed(dist_backend="gloo")
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
    settings = {
        "train_micro_batch_size_per_gpu": BATCH,
        "gradient_accumulation_steps": ACCUMULATION,
        "zero_optimization": {"stage": 2},
        "zero_force_ds_cpu_optimizer": False,
        "bf16": {"enabled": True},
    }
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=settings)
    engine.train()
    for _ in range(ACCUMULATION * STEPS):
        ids = torch.randint(0, 400, (BATCH, LENGTH))
        engine.backward(engine(input_ids=ids, labels=ids).loss)
        engine.step()


if __name__ == "__main__":
    main()
