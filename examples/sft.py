"""Fine-tune a tiny random Llama with Hugging Face Trainer. Nothing here knows of the registry.

registry run -- python examples/sft.py
"""

import tempfile

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments


class RandomTokens(torch.utils.data.Dataset):
    """Sequences of random tokens, all of the same length."""

    def __init__(self, n_samples: int, seq_len: int, vocab_size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        self.tokens = torch.randint(0, vocab_size, (n_samples, seq_len), generator=generator)

    def __len__(self) -> int:
        """Return the number of sequences."""
        return len(self.tokens)

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        """Return one sequence; it is its own target."""
        return {"input_ids": self.tokens[index], "labels": self.tokens[index]}


def main() -> None:
    """Train for a few steps."""
    config = LlamaConfig(
        vocab_size=1024,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
    )
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=8,
            per_device_train_batch_size=2,
            gradient_accumulation_steps=2,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            use_cpu=not torch.cuda.is_available(),
        )
        trainer = Trainer(
            model=AutoModelForCausalLM.from_config(config),
            args=arguments,
            train_dataset=RandomTokens(64, 64, config.vocab_size),
        )
        trainer.train()


if __name__ == "__main__":
    main()
