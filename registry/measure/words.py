"""What transformers, PEFT and torch call things, and the words of the contract for them."""

from __future__ import annotations

from typing import Final

#: Names of torch's number formats.
DTYPES: Final = {
    "bfloat16": "bf16",
    "float16": "fp16",
    "float32": "fp32",
    "float8_e4m3fn": "fp8",
    "float8_e5m2": "fp8",
}

#: Names of attention implementations in transformers.
ATTENTION: Final = {
    "flash_attention_2": "flash2",
    "flash_attention_3": "flash3",
    "flex_attention": "flex",
    "sdpa": "sdpa",
    "eager": "eager",
}

#: Values of ``optim`` of Hugging Face's training arguments; another one is ``other``.
OPTIMIZERS: Final = {
    "adamw_torch": "adamw_torch",
    "adamw_torch_fused": "adamw_torch_fused",
    "adamw_apex_fused": "adamw_apex_fused",
    "adamw_hf": "adamw_hf",
    "adamw_8bit": "adamw_8bit",
    "adamw_bnb_8bit": "adamw_8bit",
    "paged_adamw": "paged_adamw_32bit",
    "paged_adamw_32bit": "paged_adamw_32bit",
    "paged_adamw_8bit": "paged_adamw_8bit",
    "adafactor": "adafactor",
    "sgd": "sgd",
    "lion_8bit": "lion_8bit",
    "lion_32bit": "lion",
    "paged_lion": "paged_lion_32bit",
    "paged_lion_8bit": "paged_lion_8bit",
    "paged_lion_32bit": "paged_lion_32bit",
    "galore_adamw": "galore_adamw",
    "rmsprop": "rmsprop",
}

#: Classes of optimizers but for torch's AdamW, and the contract's word.
OPTIMIZER_CLASSES: Final[dict[str, str]] = {
    "Adam": "adam",
    "Adam8bit": "adam_8bit",
    "AdamW": "adamw",
    "AdamW8bit": "adamw_8bit",
    "PagedAdamW": "paged_adamw_32bit",
    "PagedAdamW32bit": "paged_adamw_32bit",
    "PagedAdamW8bit": "paged_adamw_8bit",
    "Adafactor": "adafactor",
    "SGD": "sgd",
    "RMSprop": "rmsprop",
    "Lion": "lion",
    "Lion8bit": "lion_8bit",
    "Muon": "muon",
    "GaLoreAdamW": "galore_adamw",
}

#: Quantizations of bitsandbytes and the bits of a weight.
BITS: Final = {"nf4": 4, "fp4": 4, "int8": 8}


def dtype_word(dtype: object) -> str | None:
    """Return the contract's word for a number format of torch, or for its name.

    >>> dtype_word("torch.bfloat16")
    'bf16'
    """
    return DTYPES.get(str(dtype).removeprefix("torch."))


def foreign_name(words: dict[str, str], word: str) -> str:
    """Return the first name that a table has for a word of the contract.

    >>> foreign_name(ATTENTION, "flash2")
    'flash_attention_2'
    """
    return next(name for name, known in words.items() if known == word)
