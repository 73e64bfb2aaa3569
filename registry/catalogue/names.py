"""Names of models and cards as people write them: what is the same under rules, and what is alike.

A name becomes a key: its words in one spelling, sorted. Names that no rule brings together are
aliases, which are data of the catalogue. A key never loses a number: sizes, generations and memory
tell things apart.
"""

from __future__ import annotations

import re
from collections import Counter
from difflib import get_close_matches
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

Key = tuple[str, ...]

#: Letters of other scripts are words of their own: `昇腾910B` is two.
_WORDS: Final = re.compile(r"[a-z0-9.]+|[^\W_a-z0-9]+")
_SIZE: Final = re.compile(r"(?:\d+x)?\d+(?:\.\d+)?[mbt]")
_MEMORY: Final = re.compile(r"\d+gb")
_NUMBER: Final = re.compile(r"\d+")

#: Words that makers and shops put before a card's name.
_MAKERS: Final = frozenset(
    (
        *("nvidia", "amd", "intel", "google", "apple", "aws", "amazon", "huawei", "habana", "labs"),
        *("geforce", "tesla", "instinct", "radeon", "rtx", "gtx", "ascend", "generation", "oam"),
        *("gpu", "gpus", "card", "accelerator", "hbm2", "hbm2e", "hbm3", "hbm3e"),
        *("英伟达", "昇腾", "华为", "华为昇腾", "显卡"),
    )
)
#: Words before a card's number, which some write apart from it.
_BEFORE_NUMBER: Final = re.compile(r"\b(gaudi|mi|m|trn|v|a|h|l|t|p|b)[ -](?=\d)")
_SPELLINGS_OF_CARDS: Final = (
    (re.compile(r"(?<![a-z0-9])(\d+) ?(?:gb|gib|g)\b"), r" \1gb "),
    (re.compile(r"sxm\d?"), " sxm "),
    (re.compile(r"pci-?e"), " pcie "),
    (re.compile(r"(\d)(ti|super)"), r"\1 \2"),
    (re.compile(r"(ti)(super)"), r"\1 \2"),
    (re.compile(r"\b(rtx|gtx)(?=a?\d)"), r"\1 "),
    (_BEFORE_NUMBER, r"\1"),
    (re.compile(r"\bv5 ?(?:e|lite)\b|\bv5litepod\b"), " v5e "),
)

#: Words of a model's name that say how its weights are packed.
_PACKINGS: Final = frozenset(
    (
        *("bnb", "4bit", "8bit", "int4", "int8", "awq", "gptq", "gguf", "fp8", "mxfp4"),
        *("nvfp4", "nf4", "w4a16", "w8a8", "w8a16"),
    )
)
#: Words of a model's name that leave its architecture as it is: how it was tuned or packed.
_VARIANTS: Final = _PACKINGS | frozenset(
    (
        *("instruct", "chat", "it", "base", "pt", "sft", "dpo", "text", "hf", "pytorch"),
        *("bf16", "fp16", "unsloth", "dynamic", "original", "quantized", "unquantized", "qat"),
        *("dwq", "mlx", "think"),
    )
)
#: How files of llama.cpp name what their weights are packed in: `Q4_K_M`, `q8_0`, `IQ3_XXS`.
_PACKED_FILE: Final = re.compile(
    r"(?:^|[ .:-])(?:ud-)?i?q\d(?:[ -](?:[01]|k|xxs|xs|s|m|l|xl|nl))*(?=[ .:-]|$)"
)
_SPELLINGS_OF_MODELS: Final = (
    (_PACKED_FILE, " gguf "),
    (re.compile(r"[.](?=gguf\b|w\d+a\d)"), " "),
    (re.compile(r"(?<=\b[48])[ -](?=bits?\b)"), ""),
    (re.compile(r"(?<=\b[48]bit)s\b"), ""),
    (re.compile(r"\bmeta[- ]+(?=llama)"), ""),
    # "llama3" is "llama 3", but "v2", "a3b" and "fp8" are words of their own
    (
        re.compile(
            r"(?<=[a-z])(?=\d+(?:\.\d+)?\b)(?<!\b[vra])(?<!x)(?<!\bint)(?<![bf][fp])(?<!\bnf)(?<!w\da)"
        ),
        " ",
    ),
    (re.compile(r"\b(\d)[- ](\d)(?=[- ]|$)"), r"\1.\2"),
    (re.compile(r"(\d) (?=(?:billion|b)\b)"), r"\1"),
    (re.compile(r"billion"), "b"),
)


def gpu_key(name: str) -> Key:
    """Return the key of a card's name.

    >>> gpu_key("NVIDIA A100-SXM4-80GB") == gpu_key("A100 80G SXM")
    True
    >>> gpu_key("GeForce RTX 4090"), gpu_key("Gaudi 2")
    (('4090',), ('gaudi2',))
    """
    text = re.sub(r"[®™()_,/]", " ", name.lower())
    for pattern, spelling in _SPELLINGS_OF_CARDS:
        text = pattern.sub(spelling, text)
    words = _WORDS.findall(text)
    kept = [word for word in words if word not in _MAKERS]
    return tuple(sorted(kept or words))


@lru_cache(maxsize=4096)  # tables name the same models row by row, and each is compared with all
def model_key(name: str) -> Key:
    """Return the key of a model's name, without the account that a repository belongs to.

    >>> model_key("meta-llama/Meta-Llama-3-8B") == model_key("Llama 3 8B")
    True
    >>> model_key("llama3_1_8b") == model_key("Llama-3.1-8B")
    True
    >>> without_variants(model_key("Qwen3-8B-FP8")) == model_key("qwen3-8b")
    True
    """
    return tuple(sorted(_words_of_model(name)))


def packing_of(name: str) -> str:
    """Return the words of a model's name that say how its weights are packed.

    >>> packing_of("unsloth/Meta-Llama-3.1-8B-bnb-4bit"), packing_of("Llama 3.1 8B")
    ('bnb 4bit', '')
    """
    return " ".join(word for word in _words_of_model(name) if word in _PACKINGS)


def _words_of_model(name: str) -> list[str]:
    text = name.strip().rstrip("/").rpartition("/")[2].lower().replace("_", " ")
    for pattern, spelling in _SPELLINGS_OF_MODELS:
        text = pattern.sub(spelling, text)
    return _WORDS.findall(text)


def without_variants(key: Key) -> Key:
    """Return the key of the architecture that a model's name means.

    >>> without_variants(model_key("Qwen2.5-7B-Instruct")) == model_key("qwen2.5-7b")
    True
    """
    return tuple(word for word in key if word not in _VARIANTS)


def split_memory(key: Key) -> tuple[Key, str | None]:
    """Return a card's key without the memory that it names, and the memory.

    >>> split_memory(gpu_key("RTX 4090 24GB"))
    (('4090',), '24gb')
    """
    memory = next((word for word in key if _MEMORY.fullmatch(word)), None)
    return tuple(word for word in key if word != memory), memory


def suggest_model(name: str, known: Iterable[str]) -> str | None:
    """Return the known id that is most like a name and of the same size, or None.

    A number at the end may be cut off, as where somebody is still typing.
    """
    sizes, begun = _sizes(model_key(name)), name.lower()
    alike = (
        other
        for other in known
        if _sizes(model_key(other)) == sizes
        or (begun[-1:].isdigit() and other.lower().startswith(begun))
    )
    return _most_alike(name, alike)


def suggest_gpu(name: str, known: Iterable[str]) -> str | None:
    """Return the known id that is most like a card's name, with the same numbers, or None.

    A number may be cut off, as where somebody is still typing.
    """
    return _most_alike(name, (other for other in known if _can_mean(gpu_key(name), gpu_key(other))))


def _sizes(key: Key) -> Counter[str]:
    """Return the sizes in a name; what follows one in its word may be a slip of the pen."""
    found = (_SIZE.match(word) for word in key if word not in _VARIANTS)
    return Counter(size[0] for size in found if size is not None)


def _can_mean(name: Key, other: Key) -> bool:
    (rest, memory), (others, its_memory) = split_memory(name), split_memory(other)
    if memory is not None and its_memory is not None and memory != its_memory:
        return False
    numbered, its_numbered = (
        [word for word in words if _NUMBER.search(word)] for words in (rest, others)
    )
    return bool(numbered) and all(
        any(its.startswith(word) for its in its_numbered) for word in numbered
    )


def _most_alike(name: str, known: Iterable[str]) -> str | None:
    by_folded = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), by_folded, n=1, cutoff=_ALIKE)
    return by_folded[near[0]] if near else None


#: How alike a suggestion is to what was written, from 0 to 1.
_ALIKE: Final = 0.6
