"""Cells that hold the memory of several cards."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Unpack

from registry.units.memory import MemoryOptions, parse_memory
from registry.units.number import NUMBER, strip_bold, unit_error

if TYPE_CHECKING:
    from registry.units.quantity import Quantity

_EXPECTED = "the memory of several cards such as '61.34+73.00', '35.65GiB*2' or '8*64GB'"
_TIMES = re.compile(r"\s*(?:\\?\*|\u00d7|\bx\b|(?<=[0-9])x(?=[0-9]))\s*")
_CARDS = re.compile(r"[1-9][0-9]{0,4}")
_MOST_CARDS = 16384
_TRAILING_LABEL = re.compile(rf"{NUMBER}\s*([A-Za-z]+)")


def parse_memory_list(
    text: str, *, where: str, pair: bool = False, **options: Unpack[MemoryOptions]
) -> tuple[Quantity[int], ...]:
    """Read the memory of several cards, one quantity in bytes per card.

    Sums (``61.34+73.00``) give their terms, products (``35.65GiB*2``, ``8*64GB``) repeat theirs; a
    single amount gives one quantity. A unit that stands after the last term only holds for all.
    ``pair`` reads ``8.4GB | 6GB`` as (GPU, host). ``capacity_bytes`` is that of one card. Each
    quantity's ``raw`` is its own part of the text.

    Raises:
        UnitError: the text is none of these forms, or a part of it is no amount of memory.
    """
    bare = strip_bold(text, where=where, expected=_EXPECTED)
    if "|" in bare:
        return _parse_pair(bare, pair=pair, where=where, options=options)
    if pair:
        raise unit_error(where, text, "a pair of GPU and host memory such as '8.4GB | 6GB'")
    factors = _TIMES.split(bare)
    if len(factors) > 1:
        return _parse_product(bare, factors, where=where, options=options)
    return _parse_sum(bare, where=where, options=options)


def _parse_pair(
    text: str, *, pair: bool, where: str, options: MemoryOptions
) -> tuple[Quantity[int], ...]:
    parts = re.split(r"\s*\\?\|\s*", text)
    if not pair or len(parts) != 2:  # noqa: PLR2004 - a pair has two parts
        raise unit_error(
            where, text, f"{_EXPECTED}; a pair of GPU and host memory must be declared as a pair"
        )
    gpu = parse_memory(parts[0], where=f"{where}, GPU part", **options)
    host_options = options.copy()
    host_options.pop("capacity_bytes", None)
    return (gpu, parse_memory(parts[1], where=f"{where}, host part", **host_options))


def _parse_product(
    text: str, factors: list[str], *, where: str, options: MemoryOptions
) -> tuple[Quantity[int], ...]:
    """Read ``count * amount`` or ``amount * count``; the amount is the factor that has a unit."""
    amounts = [factor for factor in factors if not _CARDS.fullmatch(factor)]
    counts = [int(factor) for factor in factors if _CARDS.fullmatch(factor)]
    if len(amounts) != 1 or len(counts) != 1 or counts[0] > _MOST_CARDS:
        raise unit_error(where, text, f"{_EXPECTED}: one amount and one number of cards")
    return (parse_memory(amounts[0], where=where, **options),) * counts[0]


def _parse_sum(text: str, *, where: str, options: MemoryOptions) -> tuple[Quantity[int], ...]:
    terms = re.split(r"\s*\+\s*(?=[0-9])", text)
    label = _TRAILING_LABEL.fullmatch(terms[-1])
    if label is not None:
        terms = [term if re.search("[A-Za-z]", term) else term + label[1] for term in terms]
    return tuple(
        parse_memory(term, where=f"{where}, card {i}" if len(terms) > 1 else where, **options)
        for i, term in enumerate(terms)
    )
