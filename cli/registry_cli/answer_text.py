"""Answers of ``registry fit`` and ``registry estimate`` as text for people."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from registry.catalogue.module_names import check_modules
from registry.predict.answer.assumed import narrowest, plain_value
from registry.predict.answer.plain import format_chance, format_interval, format_question
from registry.predict.answer_tables import HEAD, list_cards
from registry.predict.calibration.unstated import open_fields
from registry.predict.formula.adapters import DEFAULT_TARGETS
from registry.units import format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from registry.predict.answer.assumed import Assumption
    from registry.predict.answer.nearest import Neighbour
    from registry.predict.answer.switches import Explanation, Switch
    from registry.predict.answer.will_it_fit import Answer
    from registry.predict.answers import EstimateResult, FitResult
    from registry.predict.question import Question

_ID_DIGITS = 12
#: Columns of what is no terminal: nothing is cut or folded there.
_ENDLESS = 10_000


#: Spaces at which no line is folded: those between a figure and its unit.
_BEFORE_UNIT = re.compile(r"(?<=\d) (?=[KMGT]?i?B\b|%)")
_TIED = "\u00a0"


def output_width() -> int:
    """Return how many columns stdout has."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else _ENDLESS


def fold_lines(lines: Iterable[str], width: int) -> Iterator[str]:
    """Yield lines that are no wider, folded between words; commands stay whole to be copied."""
    for line in lines:
        text = line.lstrip()
        if len(line) <= width or text.startswith("registry "):
            yield line
            continue
        indent = " " * (len(line) - len(text))
        folded = textwrap.wrap(
            _BEFORE_UNIT.sub(_TIED, text),
            width,
            initial_indent=indent,
            subsequent_indent=indent + "  ",
            break_long_words=False,
            break_on_hyphens=False,
        )
        yield from (part.replace(_TIED, " ") for part in folded)


def format_answer(result: FitResult, width: int) -> Iterator[str]:
    """Yield the lines of an answer."""
    found = result.answer
    yield format_question(found.question)
    if result.verdict_line is not None:
        yield f"verdict: {result.verdict_line}"
    of = f" of {format_memory(found.capacity_bytes)}" if found.capacity_bytes else ""
    yield f"predicted peak per device: {format_interval(found.prediction.figure)}{of}"
    yield from (f"  {reason}" for reason in found.reasons)
    yield from format_assumed(found)
    yield from _room(found)
    yield from _cards(result, width)
    yield from _remedies(found)
    if result.frontier is not None:
        yield from _frontier(result)
    if result.explanation is not None:
        yield from _explained(found, result.explanation)
    yield from _evidence(found)


def _remedies(found: Answer) -> Iterator[str]:
    for verdict, title in (("fits", "what would fit:"), ("undecided", "what may fit:")):
        remedies = [remedy for remedy in found.remedies if remedy.verdict == verdict]
        if remedies:
            yield from ("", title)
        for remedy in remedies:
            chance = f"; chance {format_chance(remedy.chance)}" if verdict == "undecided" else ""
            yield f"  {remedy.what}: {format_interval(remedy.peak)}{chance}"


def _frontier(result: FitResult) -> Iterator[str]:
    yield from (
        "",
        "the largest sizes that fit (lengths and batches doubled), each with its command:",
    )
    for point in result.frontier or ():
        sizes = ", ".join(f"{_SIZES[name]} {value}" for name, value in point.settings)
        seconds = point.seconds_per_sample
        time = f", {seconds.value:.3g} s/sample" if seconds else ""
        yield f"  {sizes}: {format_memory(int(point.peak.value))}{time}"
        yield f"    {result.command_with(point.settings)}"
    if not result.frontier:
        yield "  no size has its entire interval below the limit; stating more settings narrows it"


_SIZES = {"micro_batch_size": "batch", "seq_len": "seq_len", "lora_rank": "rank"}

#: Shares of peak and time below which a change is next to nothing.
_NOTHING = 0.005


def _explained(answer: Answer, found: Explanation) -> Iterator[str]:
    """Yield what each switch does, in words."""
    likeliest = [_format_likeliest(one, answer.question) for one in answer.assumptions]
    taken = f" ({', '.join(likeliest)})" if likeliest else ""
    yield from ("", f"what each switch does on its own, the rest at its most likely{taken}:")
    idle = [one.what for one in found.switches if not _format_effect(one)]
    for one in sorted(found.switches, key=lambda one: one.peak_change_bytes):
        effect = _format_effect(one)
        if effect:
            yield f"  {one.what}: {effect}"
    if idle:
        yield f"  next to nothing: {', '.join(idle)}"


def _format_likeliest(one: Assumption, question: Question) -> str:
    value = _format_setting(one.setting, one.cases[0].value, question)
    return f"{_SETTINGS[one.setting][0]} {value}"


_LITTLE_BYTES = 2**30 // 20


def _format_effect(one: Switch) -> str:
    parts = []
    if abs(one.peak_change_bytes) >= _LITTLE_BYTES:
        word = "more" if one.peak_change_bytes > 0 else "less"
        parts.append(f"{format_memory(abs(int(one.peak_change_bytes)))} {word}")
    if one.time_ratio is not None and abs(one.time_ratio - 1) >= _NOTHING:
        parts.append(_format_time(one.time_ratio))
    return ", ".join(parts)


_TWICE = 2.0


def _format_time(ratio: float) -> str:
    if ratio >= _TWICE:
        return f"about {ratio:.2g} times the time per sample"
    word = "more" if ratio > 1 else "less"
    return f"about {abs(ratio - 1):.0%} {word} time per sample".replace("%", " %")


def _evidence(found: Answer) -> Iterator[str]:
    yield from ("", "nearest measured runs:")
    yield from _neighbours(found.nearest)
    if found.nearest_oom is not None:
        yield "nearest run that ran out of memory:"
        yield from _neighbours((found.nearest_oom,))
    if found.rests_on:
        shares = ", ".join(f"{key[:_ID_DIGITS]} ({share:.0%})" for key, share in found.rests_on)
        yield f"the figure rests mostly on: {shares}"


#: How settings are called in answers, and the option that states each.
_SETTINGS = {
    "gradient_checkpointing": ("checkpointing", "--checkpointing or --no-checkpointing"),
    "attention": ("attention", "--attention"),
    "optimizer": ("optimizer", "--optimizer"),
    "param_dtype": ("precision of the weights", "--param-dtype"),
    "loss_kernel": ("loss", "--loss-kernel"),
    "adapters": ("adapters", "--lora-rank and --targets"),
    "longest_sample": ("longest sample", "--longest-sample or --lengths"),
    "double_quant": ("double quantization", "--double-quant or --no-double-quant"),
    "quantized_experts": ("experts", "--quantized-experts or --no-quantized-experts"),
    "vocab_size": ("vocabulary", "--vocab"),
}


def format_assumed(found: Answer | EstimateResult) -> Iterator[str]:
    """Yield what nobody stated, with the answer under each of its values."""
    if found.assumptions:
        yield "  not stated, so the answer covers:"
    for one in found.assumptions:
        cases = ", ".join(
            f"{_format_setting(one.setting, case.value, found.question)} ({case.weight:.0%}): "
            f"{format_memory(int(case.bytes))}"
            for case in one.cases
        )
        yield f"    {_SETTINGS[one.setting][0]}: {cases}"
    if found.assumptions:
        least = narrowest(found.assumptions)
        yield f"  to narrow it most, state {_option(least.setting, found.question)}"


def _option(setting: str, question: Question) -> str:
    """Return the option that states a setting: of adapters, those that are not given."""
    if setting != "adapters":
        return _SETTINGS[setting][1]
    return " and ".join(_ADAPTER_OPTIONS[name] for name in open_fields(question, setting))


_ADAPTER_OPTIONS = {"lora_rank": "--lora-rank", "lora_target_modules": "--targets"}


def _format_setting(setting: str, value: Any, question: Question) -> str:
    if setting == "quantized_experts":
        return "quantized" if value else "not quantized"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        rank, targets = value
        return f"rank {rank} on {_format_modules(targets, question)}"
    return str(plain_value(value))


def _format_modules(targets: Sequence[str], question: Question) -> str:
    """Return modules as the model's family calls them; in words where it has none of the name.

    ``--targets`` refuses such a name.
    """
    is_usual = tuple(targets) == DEFAULT_TARGETS
    if is_usual and [*check_modules(question.model.model_type, targets)]:
        return "queries and values"
    return " ".join(targets)


def _room(found: Answer) -> Iterator[str]:
    if found.verdict is None:
        return
    longest = found.longest_seq_len
    is_all = longest is not None and longest == found.question.model.max_positions
    end = " (as many positions as the model has)" if is_all else ""
    yield f"  longest seq_len that fits: {longest or _NONE_CERTAIN}{end}"
    yield f"  biggest batch that fits: {found.biggest_batch or _NONE_CERTAIN}"


_NONE_CERTAIN = "none for certain"


def _neighbours(neighbours: tuple[Neighbour, ...]) -> Iterator[str]:
    for near in neighbours:
        seen = near.observation
        peak = f", {format_memory(int(seen.peak_bytes))} measured" if seen.peak_bytes else ""
        limit = seen.memory_limit_bytes
        allowed = f", allowed {format_memory(limit)} of its card" if limit else ""
        differs = "; ".join(near.differences) or "the same configuration"
        name = f"{seen.observation_id[:_ID_DIGITS]} {seen.source_id}"
        yield f"  {name}, {seen.outcome}{peak}{allowed}: {differs}"
    if not neighbours:
        yield "  none"


def _cards(result: FitResult, width: int) -> Iterator[str]:
    """Yield the table of cards, the smallest first."""
    table = list_cards(result)
    if not table.rows:
        yield from ("", "cards: none of the catalogue's common ones could hold it")
        return
    yield from ("", f"cards ({table.columns}):")
    yield from format_columns(HEAD, table.rows, width)
    yield from (f"  {note}" for note in table.notes)
    if table.n_hidden:
        yield f"  and {table.n_hidden} more common cards that could hold it (-f json has all)"


#: Columns whose cells are words, which stand on the left.
_LEFT = (0, 3)


def format_columns(head: Sequence[str], rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """Yield a table whose last columns are left out where it would be wider; it says so.

    Columns without a value are left out.
    """
    kept = [i for i in range(len(head)) if any(row[i] for row in rows)]
    widths = {i: max(len(row[i]) for row in (head, *rows)) for i in kept}
    ends = accumulate(widths[i] + 2 for i in kept)
    shown = [i for i, end in zip(kept, ends, strict=True) if end <= width]
    for row in (head, *rows):
        cells = (row[i].ljust(widths[i]) if i in _LEFT else row[i].rjust(widths[i]) for i in shown)
        yield ("  " + "  ".join(cells)).rstrip()
    hidden = [head[i] for i in kept if i not in shown]
    if hidden:
        yield f"  not shown at this width: {', '.join(hidden)}"
