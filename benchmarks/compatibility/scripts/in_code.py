"""Train with the recorder named in the script itself: ``in_code.py callback|report MODEL OUT``."""

import sys

import torch
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

import registry

BATCH, LENGTH, ACCUMULATION, STEPS = 2, 128, 2, 20


def main() -> None:
    """Train."""
    how, model, out = sys.argv[1:]
    ids = torch.randint(0, 400, (BATCH * ACCUMULATION * STEPS, LENGTH))
    arguments = TrainingArguments(
        output_dir=out,
        max_steps=STEPS,
        per_device_train_batch_size=BATCH,
        gradient_accumulation_steps=ACCUMULATION,
        report_to="registry" if how == "report" else [],
        save_strategy="no",
        disable_tqdm=True,
        use_cpu=True,
    )
    trainer = Trainer(
        model=AutoModelForCausalLM.from_pretrained(model),
        args=arguments,
        train_dataset=[{"input_ids": row, "labels": row} for row in ids],
        callbacks=[registry.trainer_callback(add=True)] if how == "callback" else [],
    )
    trainer.train()


if __name__ == "__main__":
    main()
