"""Read the words of a setup such as ``LoRA r=8 + GC``; what no column holds is left over."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from registry.contract import vocabulary
from registry.contract.methods import QUANTIZED

#: What stands for what the drafter has to fill in.
OPEN: Final = "?"

#: Words of methods that say no setting beside the method.
_FILLERS: Final = re.compile(
    r"(?i)(?:fine[ -]?tun(?:e|ed|ing)|tuning|tune|ft|training|method|and|with|using|w/|adapters?|"
    r"peft|weights?|stage|deepspeed|ds|rank|ours?|微调|训练)"
)
_DENIAL: Final = r"\b(?:no|not|without|non|w/o)"
_NO: Final = rf"(?P<no>{_DENIAL}[ -]+)?"
#: What denies, or may deny, a word farther on in the same clause.
_DENIED_BEFORE: Final = re.compile(rf"(?i){_DENIAL}\b[^\0()\[\],;+|]*\Z")

#: What turns a word on or off behind it, as in ``offload=False``.
_SWITCH: Final = re.compile(
    r"(?i)\s*[=:]\s*(?:true|on|yes|enabled|(?P<off>false|off|no|none|disabled))\b"
)

#: Methods whose adapters have a rank and whose base may be quantized.
_WITH_RANK: Final = ("lora", "dora", "adalora", "galore", "longlora", "lorafa", "randlora")


def _quantized(label: str) -> dict[str, Any]:
    """Return what the customary name of a method on a quantized base says."""
    method, bits = QUANTIZED[label.lower()]
    because = f"{label} is {bits}-bit {label[1:]}"
    return {"method": method, "quant_bits": {"value": bits, "because": because}}


_QLORA: Final = _quantized("QLoRA")
_QDORA: Final = _quantized("QDoRA")

#: Names that are no method inside of a longer text: ordinary words, and what is said of any.
_NO_NAMES: Final = {"full", "other", "unknown", "adapter", "freeze", "bone", "miss", "road", "poly"}


@dataclass(frozen=True)
class Word:
    r"""A form of words, what it says, and what it says after ``no`` (None where that is nothing).

    In what it says, the number 1 and ``\1`` in a text stand for what the first group found.
    """

    pattern: re.Pattern[str]
    says: dict[str, Any]
    denied: dict[str, Any] | None = None


def _word(pattern: str, says: dict[str, Any], denied: dict[str, Any] | None = None) -> Word:
    return Word(re.compile(rf"(?i){_NO}(?:{pattern})"), says, denied)


_CHECKPOINTING: Final = r"\bgc\b|\b(?:grad\w*|activation|act)[ _-]?(?:ckpt\w*|check\w*|recomp\w*)"
_EIGHT_BIT_ADAM: Final = (
    r"8[ -]?bit[ -]?adamw?\b|\badamw?[ _-]?\(?8[ -]?bit\b(?:[ -](?:bnb|bitsandbytes)\b)?"
)

#: The longer form before the shorter that it holds.
_METHODS: Final = (
    _word(r"\bq-?lora\b", _QLORA),
    _word(r"\bq-?dora\b", _QDORA),
    _word(r"\brs-?lora\b", {"method": "lora", "use_rslora": True}),
    # a variant of its own, unlike `LoRA+GC`
    _word(r"\blora\+(?![^\s),])", {"method": "lora", "LoRA+": OPEN}),
    _word(r"\bp-?tuning\b", {"method": "p_tuning"}),
    _word(r"\bfreez\w*", {"method": "freeze"}),
    _word(
        r"\bfull(?:[ _-]?(?:param\w*|fine[ -]?tun\w*|ft))*\b(?![ _-]?shard)"
        r"|全(?:量|参)(?:参?数)?(?:微调)?",
        {"method": "full"},
    ),
)
_SETTINGS: Final = (
    _word(rf"\bpaged[ _-]?(?:{_EIGHT_BIT_ADAM})", {"optimizer": "paged_adamw_8bit"}),
    _word(_EIGHT_BIT_ADAM, {"optimizer": "adamw_8bit"}),
    _word(r"\b(?:8|4|32)[ -]?bit[ -]?(?:paged[ -]?)?optim\w*", {"optimizer": OPEN}),
    _word(r"\badam(?:w\b|\(w\))", {"optimizer": "adamw"}),
    _word(r"\badam\b", {"optimizer": "adam"}),
    _word(r"\badafactor\b", {"optimizer": "adafactor"}),
    _word(r"\b(?:lora[ _-]?)?(?:rank|r)(?:\s*[=:]\s*|\s+|(?=[0-9]))([0-9]+)\b", {"lora_rank": 1}),
    _word(r"(?:\b(?:lora[ _-]?)?alpha|\u03b1)\s*[=:]?\s*([0-9]+)\b", {"lora_alpha": 1}),
    _word(r"\bseq(?:uence)?[ _-]?(?:len(?:gth)?)?\s*[=:]?\s*([0-9]{3,7})\b", {"seq_len": 1}),
    _word(r"\bnf4\b", {"quant_bits": 4, "quant_type": "nf4"}),
    _word(
        r"\b(?:int|(?:load[ _-]in[ _-])?(?:quant\w*[ _-])?bits?\s*[=:]\s*)([2-8])\b",
        {"quant_bits": 1},
    ),
    _word(r"\b(?:load[ _-]in[ _-])?([2-8])[ -]?bits?\b", {"quant_bits": 1}),
    _word(r"\b(bf16|fp16|fp32)\b(?:[ -]?mixed(?:[ -]precision)?)?", {"compute_dtype": "\\1"}),
    _word(r"\b(gptq|awq|hqq|aqlm|eetq)\b", {"quant_method": "\\1"}),
    _word(r"\b(?:bnb|bitsandbytes)\b", {"quant_method": "bitsandbytes"}),
    _word(
        rf"(?:{_CHECKPOINTING})(?:\s*[=:]?\s*(?:off|false|no)\b)", {"gradient_checkpointing": False}
    ),
    _word(
        rf"(?:{_CHECKPOINTING})(?:\s*[=:]?\s*(?:on|true|yes)\b)?",
        {"gradient_checkpointing": True},
        {"gradient_checkpointing": False},
    ),
    _word(
        r"\boptim\w*[ -]?(?:state\w*[ -]?)?(?:cpu[ -]?)?offload\w*",
        {"offload": "optimizer"},
    ),
    _word(r"\bparam\w*[ -]?(?:cpu[ -]?)?offload\w*", {"offload": "params"}),
    _word(r"\bact(?:ivation)?s?[ -]?(?:cpu[ -]?)?offload\w*", {"offload": "activations"}),
    _word(r"(?:\bcpu[ -]?)?\boffload(?:ed|ing)?\b", {"offload": "stated"}, {"offload": "none"}),
    _word(
        r"\b(?:deepspeed[ -]?)?(?:zero|ds)[ _-]?(?:stage[ _-]?)?([123])\b(?!\+)",
        {"sharding": "zero\\1"},
    ),
    _word(r"\bz([123])\b", {"sharding": "zero\\1"}),
    # `ep` may be epochs, `cp` a checkpoint
    *(
        _word(rf"(?<![a-z]){short}\s*[=:]?\s*([0-9]+)(?![0-9.])", {column: 1})
        for short, column in (
            ("tp", "tensor_parallel"),
            ("pp", "pipeline_parallel"),
            ("mbs", "micro_batch_size"),
            ("gbs", "global_batch_size"),
        )
    ),
    _word(r"\b(fsdp|ddp)\b", {"sharding": "\\1"}),
    _word(r"\bflash[ _-]?att\w*[ _-]?(?:v)?([23])\b|\bfa-?([23])\b", {"attention": "flash\\1"}),
    _word(r"\bflash[ _-]?att(?:n|ention)\b", {"attention": "flash"}, {"attention": "not_flash"}),
    _word(r"\b(sdpa|xformers)\b", {"attention": "\\1"}),
    _word(r"\bpack(?:ing|ed)\b", {"packing": True}, {"packing": False}),
    _word(r"\btorch[ ._-]compiled?\b", {"torch_compile": True}, {"torch_compile": False}),
    _word(r"\b(sft|dpo|orpo|kto|simpo|ppo|grpo)\b", {"objective": "\\1"}),
)


@dataclass(frozen=True)
class Reading:
    """What a text says by column, and its words that nothing is known of."""

    said: dict[str, Any]
    left_over: tuple[str, ...]

    def values(self) -> dict[str, Any]:
        """Return what a mapping writes: the words left over stand beside it, each open."""
        return self.said | dict.fromkeys(self.left_over, OPEN)


def read_method(text: str) -> Reading:
    """Return what the text of a method says of it and of the run's settings.

    >>> read_method("LoRA r=8 + GC").said
    {'method': 'lora', 'lora_rank': 8, 'gradient_checkpointing': True}
    >>> read_method("LoRA (attn only)").values()
    {'method': 'lora', 'attn only': '?'}
    """
    name = re.sub(r"[ -]", "_", text.strip().lower())
    if name in vocabulary("method"):
        return Reading({"method": name}, ())
    reading = _read(text, (*_METHODS, *_names_of_methods(), *_SETTINGS))
    if "method" in reading.said:
        return reading
    # the words left over are what `method` asks for
    return Reading({"method": OPEN, **reading.said}, ())


def read_settings(text: str) -> Reading:
    """Return what a text such as ``int8`` or ``ZeRO-3 offload`` says of a run's settings."""
    return _read(text, _SETTINGS)


def _read(text: str, words: tuple[Word, ...]) -> Reading:
    said: dict[str, Any] = {}
    rest = text
    for word in words:
        found = word.pattern.search(rest)
        values = None if found is None else _values(word, found)
        if found is None or values is None or not _fits(values, said):
            continue
        switch = None if "method" in values else _SWITCH.match(rest, found.end())
        if switch and switch["off"]:
            values = word.denied if word.denied and not found["no"] else dict.fromkeys(values, OPEN)
        if "method" not in values and _DENIED_BEFORE.search(rest, 0, found.start()):
            values = dict.fromkeys(values, OPEN)
        said |= values
        rest = f"{rest[: found.start()]}\0{rest[(switch or found).end() :]}"
    return Reading(said, tuple(_left_over(rest)))


def _values(word: Word, found: re.Match[str]) -> dict[str, Any] | None:
    if found["no"]:
        return word.denied
    group = next((text for text in found.groups()[1:] if text), "").lower()
    return {
        name: int(group) if type(value) is int and value == 1 else _fill(value, group)
        for name, value in word.says.items()
    }


def _fill(value: Any, group: str) -> Any:
    return value.replace("\\1", group) if isinstance(value, str) else value


def _fits(values: dict[str, Any], said: dict[str, Any]) -> bool:
    """Return whether a text may say some values beside those that it says already."""
    is_ranked = said.get("method", "lora") in _WITH_RANK
    if not is_ranked and values.keys() & {"lora_rank", "lora_alpha", "quant_bits"}:
        return False
    # what QLoRA usually is goes behind the bits that the text states
    usual = (_QLORA["quant_bits"], _QDORA["quant_bits"])
    return all(name not in said or said[name] in usual for name in values)


def _left_over(rest: str) -> list[str]:
    """Return the words that nothing was read of, those that stand together as one."""
    parts = [part.strip(" \t\n+-_/|&.:=*") for part in re.split(r"[\0()\[\],;+\uff08\uff09]", rest)]
    kept = []
    for part in parts:
        words = [word for word in part.split() if not _FILLERS.fullmatch(word)]
        if any(character.isalnum() for word in words for character in word):
            kept.append(" ".join(words))
    return list(dict.fromkeys(kept))


@lru_cache(maxsize=1)
def _names_of_methods() -> tuple[Word, ...]:
    names = sorted(set(vocabulary("method")) - _NO_NAMES, key=len, reverse=True)
    return tuple(_word(rf"\b{name.replace('_', '[ _-]?')}\b", {"method": name}) for name in names)
