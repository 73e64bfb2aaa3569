"""Fine-tune a model with Lightning's Trainer. Nothing here knows of the registry.

python lightning_loop.py MODEL
"""

import sys

import lightning
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM

BATCH, LENGTH, ACCUMULATION, STEPS = 2, 128, 2, 20


class Tuned(lightning.LightningModule):
    """A causal language model."""

    def __init__(self, path: str) -> None:
        super().__init__()
        lora = LoraConfig(r=8, target_modules="all-linear", task_type="CAUSAL_LM")
        self.model = get_peft_model(AutoModelForCausalLM.from_pretrained(path), lora)
        self.model.train()

    def training_step(self, batch: dict[str, torch.Tensor], _: int) -> torch.Tensor:
        """Return the loss of a batch."""
        return self.model(**batch).loss

    def validation_step(self, batch: dict[str, torch.Tensor], _: int) -> None:
        """Evaluate a batch."""
        self.model(**batch)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        """Return the optimizer."""
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


def main() -> None:
    """Train."""
    torch.manual_seed(0)
    ids = torch.randint(0, 400, (BATCH * ACCUMULATION * STEPS, LENGTH))
    rows = [{"input_ids": row, "labels": row} for row in ids]
    trainer = lightning.Trainer(
        accelerator="cpu",
        max_steps=STEPS,
        val_check_interval=ACCUMULATION * STEPS // 2,
        limit_val_batches=8,
        accumulate_grad_batches=ACCUMULATION,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    batches = torch.utils.data.DataLoader(rows, batch_size=BATCH)
    trainer.fit(Tuned(sys.argv[1]), batches, batches)


if __name__ == "__main__":
    main()
