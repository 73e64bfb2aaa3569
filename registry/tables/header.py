"""What a column's header says of its figures: unit, clock, one card's share, thousands."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Final

from registry.units.cell import strip_markup
from registry.units.known import Unit, rate_units_by_spelling, units_by_spelling, units_by_symbol

#: What people write for one device, one item and one second; compared in lower case.
_DEVICE: Final = "gpu|gpus|card|cards|device|accelerator|chip|npu|p|卡"
_ITEMS: Final = {
    "token": "tokens?|toks?|tkn|词元数?|токен(?:ов)?",
    "sample": "samples?|examples?|ex|seqs?|sequences?|sentences?|images?|imgs?|样本|サンプル|샘플|"
    "amostras?|muestras?|[eé]chantillons?|выбор(?:ок|ки)|примеров",
    "step": "steps?|its?|iters?|iterations?|步|ステップ|스텝|schritte?n?|pass[oi]|passos|pasos?|"
    "[eé]tapes?|шаг",
}
_SECOND: Final = "s|sec|secs|second|seconds|秒|\u0441|сек"

_BRACKETED: Final = re.compile(
    r"[(\[{\uff08\u3010]([^()\[\]{}\uff08\uff09\u3010\u3011]{1,60})[)\]}\uff09\u3011]"
)
#: Several things or one of them, which are no seconds: ``Step(s)``, unlike ``Time(s)``.
_PLURAL: Final = re.compile(
    rf"\b(?:(?:{_DEVICE})|steps?|iterations?|epochs?|nodes?|tokens?|samples?|stages?|runs?|models?|"
    r"workers?|machines?|batch|hours?|minutes?|seconds?|days?)\(e?s\)",
    re.IGNORECASE,
)
_CLOCK: Final = re.compile(
    r"\b(?:d{1,2}:h{1,2}(?::m{1,2}(?::s{1,2})?)?|h{1,2}:m{1,2}(?::s{1,2})?|m{1,2}:s{1,2})\b",
    re.IGNORECASE,
)
_HOURS: Final = re.compile(r"\b(?:h|hrs?|hours?)\b|小时", re.IGNORECASE)
_DAYS: Final = re.compile(r"\b(?:d|days?)\b|天", re.IGNORECASE)
_PER_DEVICE: Final = re.compile(
    rf"\b(?:per|each)[ _-]?(?:{_DEVICE})\b|/ ?(?:{_DEVICE})\b|每卡|单卡"
    rf"|(?:\bone|\bsingle)[ -](?:{_DEVICE})\b|\brank[ _]?0\b",
    re.IGNORECASE,
)
_SHARE: Final = re.compile(rf"(?<=[A-Za-z])\s*(?:/|\bper\b)\s*(?:{_DEVICE})$", re.IGNORECASE)
_ALL_DEVICES: Final = re.compile(
    rf"\b(?:total|all|sum|combined|aggregate)\b.{{0,12}}\b(?:{_DEVICE}|mem|memory|vram)\b"
    r"|\b(?:combined|aggregated?)[ _](?:tok|sample|throughput|rate)",
    re.IGNORECASE,
)
#: Hours that all cards took together, which are no time on a clock.
_CARD_TIME: Final = re.compile(
    rf"\b(?:{_DEVICE}|[abhlv]\d{{2,3}}s?)[ _\u00b7*-]?(?:h|hrs?|hours?|days?|seconds)\b|卡小?时",
    re.IGNORECASE,
)
#: Words for time that are hours only where a unit is expected, in brackets.
_TIME: Final = ("時間", "시간")
_OF_TIME: Final = re.compile(r"(?i)time|duration|zeit|dauer|dur[eé]e|时|時|시간")
#: What makes a figure one of another figure, not an amount.
_RELATIVE: Final = re.compile(
    r"%|percent|\bpct\b|\brelative\b|\bnormali[sz]ed\b|\b(?:vs\.?|versus|over|of) baseline\b"
    r"|\bspeed-?up\b|相对|占比|百分",
    re.IGNORECASE,
)
#: What makes a figure the spread of others. Beside the mean, a cell holds both.
_DEVIATION: Final = re.compile(
    r"(?<![^\W_])std(?:[ _]?dev|ev|err)?\b\.?|\bstandard[ _](?:deviation|error)|\bvariance\b|"
    r"标准差|標準偏差|표준 ?편차|стандартн\w+ отклонени\w+|standardabweichung|[eé]cart[- ]type|"
    r"desviaci[oó]n est|desvio[- ]padr",
    re.IGNORECASE,
)
_BESIDE_MEAN: Final = re.compile(r"\b(?:mean|avg|average)\b|\u00b1|\+/?-", re.IGNORECASE)
#: Words beside which ``Std`` abbreviates Stunden.
_GERMAN: Final = re.compile(r"(?i:zeit|dauer|lauf)|(?i:train\w*)\W+Std")
#: Words for a kind of memory; that of the host is none of a card's.
_KINDS: Final = {
    "allocated": re.compile(r"\ballocated\b", re.IGNORECASE),
    "reserved": re.compile(r"\breserved\b", re.IGNORECASE),
    "host": re.compile(r"\b(?:cpu|host|system)[ _](?:mem\w*|ram)\b|\brss\b", re.IGNORECASE),
}
#: What headers may count in: the unit of counts, how many ones it is, its words and its numbers.
_POWERS: Final = (
    ("M", 10**6, "m|mn|mega|millions?|百万", r"1,?000,?000|1e6|10\^6|10\u2076"),
    ("B", 10**9, "(?-i:B)|bn|giga|billions?|十亿", r"1e9|10\^9|10\u2079"),
    ("k", 10**3, "1 ?k|k|kilo|thousands?|千", r"1,?000|1e3|10\^3|10\u00b3"),
    ("万", 10**4, "万", "10,?000|1e4"),
    ("亿", 10**8, "亿", "1e8"),
)
_ITEM: Final = "|".join(_ITEMS.values())
#: How many things a time is of: per 100 steps.
_SEVERAL: Final = re.compile(
    r"(?:\bper\b|/|\bfor\b)\s*(?P<number>[0-9][0-9,]*)\s*(?P<k>k\b)?\s*"
    rf"(?:(?P<step>{_ITEMS['step']})|{_ITEM})\b",
    re.IGNORECASE,
)
_PER: Final = r" ?(?:/|\b(?:per|a)\b) ?"


def _power_form(words: str, numbers: str) -> re.Pattern[str]:
    """Return the form of thousands: in brackets, last, as a factor, or before what is counted."""
    both = f"{words}|{numbers}"
    return re.compile(
        rf"[(\[\uff08](?:in )?(?:[x\u00d7] ?)?(?:{both})[)\]\uff09]"
        rf"|(?:, ?|\bin )(?:{both})(?=[)\]\uff09]|$)"
        rf"|(?<![0-9])[x\u00d7] ?(?:{numbers})(?!\w)"
        rf"|(?<![^\W_])(?:{both})(?: of |[ -])?(?=(?:{_ITEM}){_PER}|tps\b|tgs\b)",
        re.IGNORECASE,
    )


_POWER_FORMS: Final = tuple(
    (symbol, factor, _power_form(words, numbers)) for symbol, factor, words, numbers in _POWERS
)
_PERIOD: Final = re.compile(
    rf"(?P<before>(?<![A-Za-z])(?:{_ITEM}){_PER}(?:(?:{_DEVICE}){_PER})?)"
    r"(?P<period>ms|msec|milliseconds?|mins?|minutes?|h|hrs?|hours?|d|days?|分钟|小时|天)"
    r"(?![^\W_])",
    re.IGNORECASE,
)
_FLOPS: Final = re.compile(
    r"\b([kMGTP])(?:FLOPS|FLOPs|FLOP/s|FLOPs/s|flops|flop/s)\b|\b([TP])flops?\b"
)


#: The name of a column as programs write it, and what is counted per second in such names.
_IDENTIFIER: Final = re.compile(r"[A-Za-z0-9]+(?:_[A-Za-z0-9]+)+")
#: Where such a name stands, as loggers and nested JSON write it in front.
_GROUP: Final = re.compile(
    r"(?:(?!eval|valid|test|infer|predict)"
    r"(?:[A-Za-z]\w*\.|(?:train|perf|performance|metrics|results?|stats|system|timing)/))+",
    re.IGNORECASE,
)
_COUNTED: Final = ("token", "tok", "sample", "step", "seq", "iter", "it")
#: What has a time of its own, where no word of speed says otherwise.
_ONE: Final = ("token", "sample", "step", "iter")
_SPEEDS: Final = ("speed", "throughput", "rate")


def spoken(name: str) -> str:
    """Return a name such as ``peak_memory_gb`` in words; any other name as it is.

    >>> spoken("peak_memory_gb"), spoken("tokens_per_s"), spoken("throughput_tokens_s")
    ('peak memory gb', 'tokens per s', 'throughput tokens/s')
    >>> spoken("step_s"), spoken("steps_s")
    ('step s', 'steps/s')
    >>> spoken("train/peak_memory_gb"), spoken("metrics.tokens_per_s"), spoken("eval.loss_mean")
    ('peak memory gb', 'tokens per s', 'eval.loss_mean')
    """
    group = _GROUP.match(name)
    if group and _IDENTIFIER.fullmatch(name, group.end()):
        name = name[group.end() :]
    if _IDENTIFIER.fullmatch(name) is None:
        return name
    words = name.split("_")
    said = words[0]
    is_speed = any(word.lower() in _SPEEDS for word in words)
    for before, word in pairwise(words):
        counted = before.lower().removesuffix("s")
        is_of_one = before.lower() in _ONE and not is_speed  # `step_s` is the time of a step
        is_counted = not is_of_one and (counted in _COUNTED or counted[1:] in _COUNTED)
        is_rate = word in ("s", "sec") and is_counted
        said += f"{'/' if is_rate else ' '}{word}"
    return said


@dataclass(frozen=True)
class Power:
    """What things are counted in: the unit of counts, its number of ones, and the text for it."""

    symbol: str
    factor: int
    text: str


@dataclass(frozen=True)
class Header:
    """What a header says; None or false for what it does not.

    ``unit`` is a symbol of the contract (``GiB``, ``min``, ``token/s``, ``TFLOP/s``) of the
    ``dimension`` memory, duration, rate or flops. ``clock`` is a reading of durations,
    ``long_unit`` the hours or days that it speaks of anywhere, without a clock. What it counts is
    ``counted_in`` thousands or more, and a rate that is not of a second is of a ``period``.
    """

    unit: str | None = None
    dimension: str | None = None
    clock: str | None = None
    long_unit: str | None = None
    per_gpu: bool = False
    all_gpus: bool = False
    counted_in: Power | None = None
    period: Unit | None = None
    #: Words for the time of all cards together, and for a share or a comparison.
    card_time: str | None = None
    relative: str | None = None
    #: Number of items that a time is of.
    several: int | None = None
    #: Words for the spread of figures, of which none is an amount.
    deviation: str | None = None
    #: Kinds of memory that it names: allocated, reserved, host.
    kinds: tuple[str, ...] = ()


@lru_cache(maxsize=4096)
def read_header(name: str) -> Header:
    """Return what the name of a column says of the figures below it.

    >>> read_header("Peak memory per GPU (GiB)").unit, read_header("tok/sec/GPU").unit
    ('GiB', 'token/s/gpu')
    """
    name = spoken(strip_markup(name).text).replace("\n", " ")
    name = _PLURAL.sub(lambda found: found[0].partition("(")[0], name)
    clock, several = _CLOCK.search(name), _SEVERAL.search(name)
    deviation = _find_deviation(name)
    counted_in, plain = _take_power(_without(deviation, name))
    period, plain = _take_period(plain)
    unit, dimension = _find_unit(plain)
    return Header(
        unit=unit,
        dimension=dimension,
        clock=_clock(clock) if clock else None,
        long_unit=None if clock else _long_unit(name),
        per_gpu=bool(_PER_DEVICE.search(name)) or (unit or "").endswith("/gpu"),
        all_gpus=bool(_ALL_DEVICES.search(name)),
        counted_in=counted_in,
        period=period,
        card_time=_text_of(_CARD_TIME.search(name)),
        relative=_text_of(_RELATIVE.search(name)),
        several=_number_of(several) if several else None,
        deviation=deviation,
        kinds=tuple(kind for kind, form in _KINDS.items() if form.search(name)),
    )


def count_steps(name: str) -> int | None:
    """Return of how many steps a header says its times to be, None where it does not.

    >>> count_steps("Time/1k steps (s)"), count_steps("Time per step")
    (1000, None)
    """
    found = _SEVERAL.search(name)
    return _number_of(found) if found and found["step"] else None


def _number_of(found: re.Match[str]) -> int:
    return int(found["number"].replace(",", "")) * (1000 if found["k"] else 1)


def _find_deviation(name: str) -> str | None:
    """Return what says that figures are the spread of others; the hours of ``Std.`` do not.

    >>> _find_deviation("step time std"), _find_deviation("Trainingszeit (Std.)")
    ('std', None)
    """
    if _BESIDE_MEAN.search(name) or _GERMAN.search(name):
        return None
    return _text_of(_DEVIATION.search(name))


def _without(words: str | None, name: str) -> str:
    """Return a name without some of its words, and without the brackets around them."""
    return re.sub(rf"[(\[]?{re.escape(words)}[)\]]?", "", name).strip() if words else name


def _text_of(found: re.Match[str] | None) -> str | None:
    return found[0] if found else None


def _take_power(name: str) -> tuple[Power | None, str]:
    """Return what a name counts in, and the name without it."""
    for symbol, factor, form in _POWER_FORMS:
        found = form.search(name)
        if found is not None:
            rest = f"{name[: found.start()]}{name[found.end() :]}"
            return Power(symbol, factor, found[0].strip(" ,-")), rest.strip()
    return None, name


def _take_period(name: str) -> tuple[Unit | None, str]:
    """Return of what period a rate is where not of a second, and its name as of a second."""
    found = _PERIOD.search(name)
    if found is None:
        return None, name
    unit = units_by_spelling("duration")[found["period"].lower()]
    return unit, _PERIOD.sub(r"\g<before>s", name)


def _clock(found: re.Match[str]) -> str:
    """Return the reading of durations that a clock such as ``HH:MM`` names."""
    first, *rest = found[0].lower().split(":")
    return ":".join(["mm" if first[0] == "m" else first[0], *(field[0] * 2 for field in rest)])


def _long_unit(name: str) -> str | None:
    """Return the unit, hours or days, in which two fields are no minutes and seconds."""
    return "day" if _DAYS.search(name) else "h" if _HOURS.search(name) else None


def _find_unit(name: str) -> tuple[str | None, str | None]:
    """Return the unit that stands in brackets, else behind a comma or last, and its dimension."""
    bracketed = [text.strip() for text in reversed(_BRACKETED.findall(name))]
    without = _BRACKETED.sub(" ", name).strip()
    rest = re.split(r"[,\uff0c:\uff1a]| in ", without)
    words = without.split()
    is_share = len(words) > 1 and words[-2].lower() in ("/", "per")
    last_word = words[-1:] if not is_share else []
    last_two = [" ".join(words[-2:])] if len(words) > 1 else []
    parts = [part for text in bracketed for part in (text, *re.split(r"[,\uff0c;]| in ", text))]
    others = [text for text in (*rest[1:], without, *last_two, *last_word) if text not in _TIME]
    for text in (*parts, *others):
        for dimension, parse in _PARSERS.items():
            unit = parse(text.strip())
            if unit is not None:
                return unit, dimension
    return _unit_below(without)


_MEMORY_IN: Final = re.compile(
    r"(?:.*(?:mem|ram|usage|peak)\w*|.*[显内]存\w*)/(?P<unit>\w+)", re.IGNORECASE
)


def _unit_below(name: str) -> tuple[str | None, str | None]:
    """Return the unit below a line: ``Speed / it/s``, ``Time / min``, ``Mem usage/GB``."""
    tight = _MEMORY_IN.fullmatch(name)
    memory = _PARSERS["memory"](tight["unit"]) if tight else None
    if memory is not None:
        return memory, "memory"
    above, slash, below = name.rpartition(" / ")
    dimensions = ["rate", "memory", *(["duration"] if _OF_TIME.search(above) else [])]
    for dimension in dimensions if slash else ():
        unit = _PARSERS[dimension](below.strip())
        if unit is not None and _PARSERS["memory"](above.split(" / ")[-1].strip()) is None:
            return unit, dimension
    return None, None


def parse_rate_unit(text: str) -> str | None:
    """Return the symbol of a speed as headers write it, or None.

    >>> parse_rate_unit("Tokens / sec / GPU"), parse_rate_unit("sec per iteration")
    ('token/s/gpu', 's/step')
    """
    known = rate_units_by_spelling()
    if text in known and known[text].factor == 1:  # others are times, and rates of a period
        return known[text].symbol
    plain = re.sub(r"\s*(?:/|\bper\b|\ba\b)\s*", "/", text.strip().lower())
    if plain == "tgs":  # tokens per GPU and second, as users of long runs abbreviate it
        return "token/s/gpu"
    for what, words in _ITEMS.items():
        shared = re.fullmatch(
            rf"(?:[a-z]+\.? ){{0,2}}(?:{words})/(?:"
            rf"(?:{_SECOND})(?P<after>/(?:{_DEVICE}))?|(?P<before>(?:{_DEVICE})/)(?:{_SECOND}))",
            plain,
        )
        if shared and _take_power(plain)[0] is None:
            has_device = shared["after"] or shared["before"]
            symbol = f"{what}/s/gpu" if has_device else f"{what}/s"
            return symbol if symbol in {unit.symbol for unit in known.values()} else None
        if re.fullmatch(rf"(?:{_SECOND})/(?:{words})", plain):
            return None if what == "token" else f"s/{what}"
    return None


def without_share(text: str) -> str:
    """Return an amount of memory without what says behind it that it is one device's.

    >>> without_share("16 GB/GPU"), without_share("28GB per card"), without_share("36.6G")
    ('16 GB', '28GB', '36.6G')
    """
    return _SHARE.sub("", text)


def _parse_memory_unit(text: str) -> str | None:
    unit = units_by_spelling("memory").get(text)
    # one letter is more often a count of things, or a column of its own
    return unit.symbol if unit and len(text) > 1 else None


_OF_ONE: Final = re.compile(
    rf"\s*(?:/|\bper\b)\s*(?:{'|'.join(_ITEMS.values())}|epochs?|batch(?:es)?)$", re.IGNORECASE
)


def _parse_duration_unit(text: str) -> str | None:
    known = units_by_spelling("duration")
    # a time of one thing is in the unit of the time: ms/step
    plain = _OF_ONE.sub("", text).strip().removesuffix(".")
    unit = known.get(plain) or (known.get(plain.lower()) if len(plain) > 1 else None)
    return unit.symbol if unit else None


def _parse_flops_unit(text: str) -> str | None:
    found = _FLOPS.search(text)
    return f"{found[1] or found[2]}FLOP/s" if found else None


_PARSERS = {
    "flops": _parse_flops_unit,
    "rate": parse_rate_unit,
    "memory": _parse_memory_unit,
    "duration": _parse_duration_unit,
}


def same_unit(stated: str, header: Header) -> bool:
    """Return whether a unit that a mapping states is the one that the header says."""
    if header.dimension == "flops":
        return _parse_flops_unit(stated) == header.unit
    if header.dimension == "rate":
        return parse_rate_unit(stated) == header.unit
    spelled = units_by_spelling("memory" if header.dimension == "memory" else "duration")
    return stated in spelled and spelled[stated].symbol == header.unit


def counted_by(symbol: str | None) -> str | None:
    """Return what a unit of speed counts, None for another unit.

    >>> counted_by("ms/step"), counted_by("token/s/gpu"), counted_by("GiB")
    ('step', 'token', None)
    """
    parts = (symbol or "").split("/")
    return next((what for what in _ITEMS if what in parts), None)


def is_memory_unit(symbol: str | None) -> bool:
    """Return whether a symbol is a unit of memory."""
    return symbol in units_by_symbol("memory")
