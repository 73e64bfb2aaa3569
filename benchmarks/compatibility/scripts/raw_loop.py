"""Fine-tune a model with PEFT and torch alone. Nothing here knows of the registry.

python raw_loop.py MODEL
"""

import sys
import time

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

BATCH, LENGTH, ACCUMULATION, STEPS = 2, 128, 2, 20


def main() -> None:
    """Train, and print what the steps took."""
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_pretrained(sys.argv[1])
    lora = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(model, lora)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-3)
    model.train()
    seconds = []
    for _ in range(STEPS):
        began = time.perf_counter()
        for _ in range(ACCUMULATION):
            ids = torch.randint(0, model.config.vocab_size, (BATCH, LENGTH))
            loss = model(input_ids=ids, labels=ids).loss / ACCUMULATION
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - began)
    steady = seconds[2:]
    print(f"samples per second: {BATCH * ACCUMULATION * len(steady) / sum(steady):.4f}")


if __name__ == "__main__":
    main()
