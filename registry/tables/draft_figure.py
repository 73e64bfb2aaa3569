"""The meaning of a column of figures, as a draft writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import yaml

from registry.tables.column_spec import SHARED_METRICS
from registry.tables.guess_words import OPEN

if TYPE_CHECKING:
    from registry.tables.guess import Guess
    from registry.tables.guess_figures import Doubt


def draft_figure(
    guess: Guess,
    beside: str | None = None,
    *,
    one_card: bool = False,
    in_pivot: bool = False,
    decimal: str | None = None,
) -> str:
    """Return the meaning of a figure, or of the parts of a cell of several.

    ``beside`` is the text elsewhere that gives its unit. Of runs on one card nobody needs to say
    whose figure it is. What the columns of a pivot are called is their setting, so that their unit
    is enough to tell what they measure.
    """
    doubt = guess.doubt if guess.doubt and (guess.doubt.is_by_name or not in_pivot) else None
    parts = [
        _figure_of(part, beside, doubt, one_card=one_card, decimal=decimal)
        for part in (guess.parts or (guess,))
    ]
    text = as_yaml({"separator": "/", "parts": parts} if guess.parts else {"figure": parts[0]})
    if doubt is not None:
        return f"{text}  # {doubt.reason}; else {{ignore: why}}"
    is_open = any(part.get("scope") == OPEN for part in parts)
    return f"{text}  # {_scopes(guess)}" if is_open else text


def _figure_of(
    guess: Guess, beside: str | None, doubt: Doubt | None, *, one_card: bool, decimal: str | None
) -> dict[str, Any]:
    """Return the keys of one figure; ``doubt`` leaves its metric open."""
    figure: dict[str, Any] = {"metric": OPEN if doubt else guess.metric}
    if guess.metric in SHARED_METRICS and not one_card:
        is_share = guess.header.per_gpu and guess.metric != "peak_memory"
        figure["scope"] = "mean_gpu" if is_share else OPEN
    figure |= {"kind": guess.kind} if guess.kind and guess.metric == "peak_memory" else {}
    figure |= {"statistic": guess.statistic} if guess.statistic else {}
    if guess.unit and beside is not None:
        figure |= {"default_unit": guess.unit, "default_reason": f"{beside!r} says so"}
    elif guess.unit:
        figure |= {"unit": guess.unit}
    elif guess.lacks_unit:
        figure |= {"default_unit": OPEN, "default_reason": OPEN}
    if guess.header.clock is not None:
        clock = guess.header.clock
        figure |= {"read_as": clock, "reason": f"the header says {clock}"}
    if guess.divide_by is not None and doubt is None:
        of_steps = f"the header says that it is the time of {guess.divide_by:,} steps"
        figure |= {"divide_by": guess.divide_by, "because": of_steps}
    figure |= _factor_of_header(guess)
    return figure | ({"decimal": decimal} if decimal else {})


def _factor_of_header(guess: Guess) -> dict[str, Any]:
    """Return the keys that say in which thousands a header counts, and of what period its rates."""
    header = guess.header
    if guess.metric in ("trainable_params", "n_params"):
        return {"unit": header.counted_in.symbol} if header.counted_in else {}
    if header.dimension != "rate" or guess.unit is None:
        return {}
    factor: dict[str, Any] = {}
    said = []
    if header.counted_in is not None:
        factor["multiply_by"] = header.counted_in.factor
        said.append(f"counts in {header.counted_in.text!r}")
    if header.period is not None:
        seconds = header.period.factor
        factor["divide_by"] = int(seconds) if seconds.denominator == 1 else float(seconds)
        said.append(f"says per {header.period.symbol}")
    return factor | ({"because": f"the header {' and '.join(said)}"} if said else {})


def _scopes(guess: Guess) -> str:
    """Return the scopes that may be meant."""
    shares = "max_gpu (the fullest card) or mean_gpu"
    return shares if guess.header.per_gpu else f"total, {shares}"


class _OneLine(yaml.SafeDumper):
    """Writes texts of several lines, such as the names of columns, on one."""


_OneLine.add_representer(
    str,
    lambda dumper, text: dumper.represent_scalar(
        "tag:yaml.org,2002:str", text, style='"' if "\n" in text else None
    ),
)


def as_yaml(value: Any) -> str:
    """Return a value as YAML on one line."""
    text = yaml.dump(
        value,
        Dumper=_OneLine,
        default_flow_style=True,
        allow_unicode=True,
        width=10**9,
        sort_keys=False,
    )
    return text.removesuffix("\n").removesuffix("\n...").strip()
