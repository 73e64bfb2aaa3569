"""Make a checkpoint of random weights in litgpt's own form: ``tiny_litgpt.py TOKENIZER FOLDER``."""

import shutil
import sys
from pathlib import Path

import torch
from litgpt import GPT, Config
from litgpt.utils import save_config


def main() -> None:
    """Save model, configuration and tokenizer."""
    tokenizer, folder = Path(sys.argv[1]), Path(sys.argv[2])
    folder.mkdir(parents=True)
    config = Config(
        name="tiny",
        block_size=512,
        vocab_size=512,
        padded_vocab_size=512,
        n_layer=4,
        n_head=4,
        n_query_groups=2,
        n_embd=128,
        intermediate_size=352,
        norm_class_name="RMSNorm",
        mlp_class_name="LLaMAMLP",
        rotary_percentage=1.0,
        parallel_residual=False,
        bias=False,
    )
    torch.save(GPT(config).state_dict(), folder / "lit_model.pth")
    save_config(config, folder)
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        shutil.copy(tokenizer / name, folder / name)


if __name__ == "__main__":
    main()
