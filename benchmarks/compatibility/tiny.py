"""Make a tiny model, a tokenizer and data in a folder, with the libraries of the interpreter.

    python tiny.py FOLDER

``model`` is a Llama of random weights with its tokenizer, trained here; the data are made of words
drawn at random: ``text`` (JSON Lines and plain), ``alpaca``, ``chat`` and ``pairs``.
"""

import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

WORDS = ("loss", "rank", "batch", "step", "token", "layer", "weight", "model", "data", "rate")
N_ROWS = 400

#: A template as chat models have them.
CHAT = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] "
    "+ '<|im_end|>' + '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


def main() -> None:
    """Make everything."""
    folder = Path(sys.argv[1])
    generator = random.Random(0)  # noqa: S311 - words, no secrets
    make_data(folder, generator)
    make_model(folder / "model", (folder / "text.txt").read_text())


def make_data(folder: Path, generator: random.Random) -> None:
    """Write the data sets."""

    def some(low: int, high: int) -> str:
        return " ".join(generator.choices(WORDS, k=generator.randint(low, high)))

    texts = [some(20, 90) for _ in range(N_ROWS)]
    (folder / "text.txt").write_text("\n".join(texts))
    (folder / "few.txt").write_text("\n".join(texts[:20]))
    asked = [(some(5, 15), some(10, 40), some(10, 40)) for _ in range(N_ROWS)]
    rows = {
        "text": [{"text": text} for text in texts],
        "alpaca": [{"instruction": q, "input": "", "output": a} for q, a, _ in asked],
        "pairs": [{"prompt": q, "chosen": a, "rejected": b} for q, a, b in asked],
        "chat": [{"messages": chat(q, a)} for q, a, _ in asked],
    }
    for name, data in rows.items():
        (folder / name).mkdir(exist_ok=True)
        text = "\n".join(json.dumps(row) for row in data)
        for split in ("train", "test"):
            (folder / name / f"{split}.jsonl").write_text(text)
    (folder / "alpaca.json").write_text(json.dumps(rows["alpaca"]))


def chat(question: str, answer: str) -> list[dict[str, str]]:
    """Return two messages."""
    said = (("user", question), ("assistant", answer))
    return [{"role": role, "content": text} for role, text in said]


def make_model(folder: Path, text: str) -> None:
    """Save a model and its tokenizer."""
    special = ["<unk>", "<s>", "</s>", "<pad>", "<|im_start|>", "<|im_end|>"]
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(text.splitlines(), trainer)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=128,
        intermediate_size=352,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=1024,
        bos_token_id=1,
        eos_token_id=2,
        pad_token_id=3,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    names = dict(zip(("unk_token", "bos_token", "eos_token", "pad_token"), special, strict=False))
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **names,
        model_max_length=1024,
        chat_template=CHAT,
    )
    fast.save_pretrained(folder)


if __name__ == "__main__":
    main()
