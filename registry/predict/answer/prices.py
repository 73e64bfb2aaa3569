"""What an hour of a card costs, as people state it: by option, or in a file."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.contract.resources import parse_yaml
from registry.errors import QuestionError, SourceError
from registry.predict.cards import find_gpu_row
from registry.reading.bounded_file import read_bytes
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from registry.catalogue import Catalogue

#: One price for every card, prices by card, or texts such as ``a100-80gb=1.8`` and ``1.8``.
Stated = float | str | Mapping[str, float] | Iterable[str]


@dataclass(frozen=True)
class Prices:
    """USD of one card and hour, by the id of the card."""

    by_gpu: Mapping[str, float] = field(default_factory=dict)
    #: That of every other card; None where nothing is said.
    otherwise: float | None = None

    def of(self, gpu_id: str) -> float | None:
        """Return the price of a card; None where none is stated."""
        return self.by_gpu.get(gpu_id, self.otherwise)

    def meant_for(self, gpu_ids: Iterable[str]) -> Prices:
        """Return them with the price that names no card for these alone, or for all if none is."""
        price, names = self.otherwise, list(gpu_ids)
        if price is None or not names:
            return self
        return Prices({**dict.fromkeys(names, price), **self.by_gpu})


def build_prices(
    stated: Stated | None,
    file: Path | str | None,
    catalogue: Catalogue,
    tell: Callable[[str], object] | None = None,
) -> Prices:
    """Return prices as stated, and those of a file where nothing is stated of a card.

    The price of a family or of a card is that of its kinds as well. Raises QuestionError for a card
    that is not known, for two prices of one, and for what is no price; ``tell`` gets unknown cards
    of the file instead: a list of prices names more cards than anybody asks about.
    """
    listed = [] if file is None else list(_read_prices(Path(file)))
    if tell is not None:
        listed = _leave_out_unknown(listed, catalogue, tell)
    options = list(_stated(stated))
    for prices in (listed, options):
        _refuse_two(prices, catalogue)
    named = [*listed, *options]
    found: dict[str, tuple[int, float]] = {}
    otherwise = None
    for name, text, where in named:
        price = _parse_price(text, where)
        if name is None:
            if otherwise not in (None, price):
                raise QuestionError(
                    f"{where}: found {otherwise:g} and {price:g} without a card; expected one of "
                    "them, or prices such as a100-80gb=1.8"
                )
            otherwise = price
            continue
        kinds = _kinds_of(name, where, catalogue)
        for kind in kinds:  # the price of the card itself goes before that of its family
            if kind not in found or found[kind][0] >= len(kinds):
                found[kind] = (len(kinds), price)
    return Prices({gpu_id: price for gpu_id, (_, price) in found.items()}, otherwise)


def _kinds_of(name: str, where: str, catalogue: Catalogue) -> Sequence[str]:
    try:
        return catalogue.kinds_of(find_gpu_row(name, catalogue)["gpu_id"])
    except QuestionError as error:
        raise QuestionError(f"{error}; it was found in {where}") from None


Named = tuple[str | None, Any, str]


def _refuse_two(stated: Iterable[Named], catalogue: Catalogue) -> None:
    """Raise QuestionError where a card has two prices, under one name or several."""
    found: dict[str, float] = {}
    for name, text, where in stated:
        if name is None or catalogue.resolve_gpu(name) is None:  # both are judged elsewhere
            continue
        price, gpu_id = _parse_price(text, where), find_gpu_row(name, catalogue)["gpu_id"]
        if found.setdefault(gpu_id, price) != price:
            raise QuestionError(
                f"{where}: found {found[gpu_id]:g} and {price:g} of {gpu_id}; expected one of them"
            )


#: Most unknown cards of a list that are named.
_MOST_NAMED = 3


def _leave_out_unknown(
    listed: Sequence[Named], catalogue: Catalogue, tell: Callable[[str], object]
) -> list[Named]:
    """Return the prices of known cards; tell of the others."""
    known: list[Named] = []
    unknown: list[Named] = []
    for one in listed:
        (unknown if catalogue.resolve_gpu(str(one[0])) is None else known).append(one)
    for name, _, where in unknown[:_MOST_NAMED]:
        try:
            _kinds_of(str(name), where, catalogue)
        except QuestionError as error:
            tell(f"a price is left out: {error}")
    if (more := len(unknown) - _MOST_NAMED) > 0:
        tell(f"so are the prices of {format_count(more, 'other unknown card')}")
    return known


def _stated(stated: Stated | None) -> Iterator[Named]:
    if isinstance(stated, Mapping):
        yield from ((str(name), price, "price") for name, price in stated.items())
        return
    single = stated is None or isinstance(stated, (str, int, float))
    texts = ([] if stated is None else [stated]) if single else list(stated)  # type: ignore[arg-type]
    for text in texts:
        name, equals, price = str(text).rpartition("=")
        if equals and not name.strip():
            raise QuestionError(f"price: found {text!r}; expected one such as a100-80gb=1.8 or 1.8")
        yield name.strip() or None, price, "price"


def _parse_price(text: object, where: str) -> float:
    try:
        price = float(str(text).strip().removeprefix("$"))
    except ValueError:
        price = math.nan
    if not (math.isfinite(price) and price >= 0):
        raise QuestionError(
            f"{where}: found {text!r}; expected USD per card and hour, such as a100-80gb=1.8"
        )
    return price


def _read_prices(path: Path) -> Iterator[Named]:
    """Yield the prices of a file: lines ``gpu,usd_per_hour`` of CSV, or a mapping of YAML."""
    try:
        text = read_bytes(path, limit=_LARGEST, what="prices").decode("utf-8-sig")
    except SourceError as error:
        raise QuestionError(str(error)) from None
    except UnicodeDecodeError as error:
        raise QuestionError(f"{path}: found no UTF-8 ({error}); expected {_FILE}") from None
    is_csv = path.suffix.lower() == ".csv"
    yield from _parse_csv(text, path) if is_csv else _parse_yaml(text, path)


_FILE = "CSV with lines such as a100-80gb,1.8, or YAML with lines such as a100-80gb: 1.8"
_COLUMNS = 2
#: In bytes.
_LARGEST = 2**20


def _parse_csv(text: str, path: Path) -> Iterator[Named]:
    for number, row in enumerate(csv.reader(text.splitlines()), start=1):
        cells = [cell.strip() for cell in row]
        if not any(cells) or cells[0].startswith("#") or (number == 1 and _is_head(cells)):
            continue
        if len(cells) != _COLUMNS:
            raise QuestionError(f"{path}, line {number}: found {row}; expected {_FILE}")
        yield cells[0], cells[1], f"{path}, line {number}"


def _is_head(cells: list[str]) -> bool:
    return cells[0].lower() in ("gpu", "gpu_id", "card")


def _parse_yaml(text: str, path: Path) -> Iterator[Named]:
    import yaml  # noqa: PLC0415 - only for a file

    try:
        found = parse_yaml(text)
    except yaml.YAMLError as error:
        found = " ".join(str(error).split())  # in one line
        raise QuestionError(f"{path}: found no YAML ({found}); expected {_FILE}") from None
    if not isinstance(found, dict):
        raise QuestionError(f"{path}: found no prices by card; expected {_FILE}")
    for name, price in found.items():
        yield str(name), price, f"{path}, {name}"
