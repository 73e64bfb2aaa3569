"""Train a sentencepiece model on a text: ``tiny_sentencepiece.py TEXT PREFIX``."""

import sys

import sentencepiece


def main() -> None:
    """Train it."""
    sentencepiece.SentencePieceTrainer.train(
        input=sys.argv[1],
        model_prefix=sys.argv[2],
        vocab_size=400,
        hard_vocab_limit=False,
        byte_fallback=True,
        model_type="bpe",
        pad_id=3,
        minloglevel=2,
    )


if __name__ == "__main__":
    main()
