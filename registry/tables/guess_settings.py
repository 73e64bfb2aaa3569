"""Guess what texts name, a card or a method, and what columns that stand for settings mean."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.names import packing_of
from registry.contract import load_table, vocabulary
from registry.tables.cell_reader import bare_text, find_estimate, is_absent
from registry.tables.guess import Guess, count_parts, guess_columns, guess_metric, guess_setting
from registry.tables.guess_apart import NO_SETTING
from registry.tables.guess_figures import SPEED, doubt_of_memory_beside, names_needed_cards
from registry.tables.guess_words import OPEN, read_method, read_settings
from registry.tables.header import read_header
from registry.tables.inline import plain_text
from registry.units import parse_outcome_word, split_remark, ways_to_split

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from registry.catalogue import Catalogue
    from registry.tables.raw_table import RawTable

#: What a column of outcomes says of a run that ended; words of failures are the contract's.
_OUTCOMES: Final = dict.fromkeys(("ok", "success", "succeeded", "completed", "done", "pass"), "ok")
#: What labels of outcomes say before them that changes nothing.
_CHECKED: Final = re.compile(r"(?i)^(?:verified|confirmed|measured|observed|actual|status)[_ -]+")
_NO: Final = dict.fromkeys(("no", "none", "off", "false", "0", "❌", "✗", "✘"))
_YES: Final = ("on", "yes", "✅", "✓", "✔", "✔️", "☑️")
_SWITCH: Final = dict.fromkeys((*_YES, "enabled", "true", "1", "y"), True)
#: What words say below a header that names the setting.
_WORDS: Final[dict[str, dict[str, Any]]] = {
    "quant_bits": {**_NO, **{str(bits): bits for bits in (2, 3, 4, 5, 6, 8)}},
    "compute_dtype": {"bfloat16": "bf16", "float16": "fp16", "float32": "fp32"},
    "sharding": {**dict.fromkeys(_NO, "none"), **{n: f"zero{n}" for n in "123"}},
    "offload": {**dict.fromkeys(_NO, "none"), "cpu": "stated", **dict.fromkeys(_YES, "stated")},
    "gradient_checkpointing": {**dict.fromkeys(_NO, False), **_SWITCH},
    "packing": {**dict.fromkeys(_NO, False), **_SWITCH},
}
_IS_METHOD: Final = re.compile(
    r"(?:q-?lora|lora|dora|freez\w*|p-?tuning(?: v2)?|全量|"
    r"full(?:[ -]?(?:param\w*|fine[ -]?tun\w*|ft))*)(?: fine[ -]?tun\w*)?"
)
#: A number of cards and their name; the x of `RTX 5060` is none.
#: Not the sizes of instances: a ``2xlarge`` has no two cards.
_CARDS: Final = re.compile(
    r"(?i)(?P<n>[0-9]{1,5})\s*[x*\u00d7]\s*(?P<gpu>(?!large\b).+)"
    r"|(?P<first>.+?)\s*(?<!rt)(?<!gt)(?<!dg)(?<!hg)[x*\u00d7]\s*(?P<last>[0-9]{1,5})"
)
#: Headers of number formats, which say of bits how the base is quantized.
_PRECISION: Final = re.compile(r"(?i)精度|precision|präzision|précision|precisi[oó]n|정밀도")
#: Counts and small numbers such as learning rates, which are neither memory nor speed.
_NO_FIGURE: Final = re.compile(r"(?i)[0-9.]+\s*[kmb]|[0-9.]+e-[0-9]+")
#: The size of a model, where columns are called so.
_SIZE: Final = re.compile(r"(?:[0-9]+[xX\u00d7])?[0-9]+(?:\.[0-9]+)?\s*[bB]")
_NUMBER: Final = re.compile(r"[0-9][0-9,]*(?P<thousands>\s*[kKM])?")
#: Words of names, and footnote marks; numbers apart from the letters before them, where whole
#: words do not tell.
_TOKENS: Final = (
    re.compile(r"\[\^[^\]]*\]|\w+|.", re.DOTALL),
    re.compile(r"\[\^[^\]]*\]|\d[\d,]*(?:[kKM]\b)?|[^\W\d]+|.", re.DOTALL),
)
#: Parts of one run, and of one machine: not settings.
_STAGES: Final = re.compile(
    r"train|predict|infer|warm-?up|\binit|eval|\bcpu|host|system", re.IGNORECASE
)

#: What memory is called: columns that differ in nothing else are of the card and of the host.
_CALLED_MEMORY: Final = re.compile(r"(?i)(?:gpu|cpu|g|v)?\W*(?:mem(?:ory)?|v?ram|gpu|cpu)|[显内]存")

#: What a speed is of: columns that differ in it count other things of one run.
_COUNTED: Final = re.compile(r"(?i)\W*(?:tok(?:en)?s?|samples?|seq(?:uence)?s?|steps?|its?)\W*")
#: Parts of one run that are counted, and their sum.
_OF_ONE_RUN: Final = re.compile(
    r"(?i)\b(?:step|stage|phase|epoch|part)s?\W*[0-9]|^\W*(?:total|sum|overall|all)\W*$|合计|总计|合計|합계|итого"
)

#: Fewest tokens of a bare number in a header that is taken for a length, not a batch or cards.
_LEAST_LENGTH: Final = 128

#: Columns whose cells tell what they are better than a header such as ``Fine-tuning``.
_BY_CELLS: Final = ("model_id", "gpu_id", "method")

#: Metrics of which several columns are several settings; a run has one such figure.
_ONE_OF_A_RUN: Final = ("tokens_per_second", "samples_per_second")


@dataclass(frozen=True)
class PivotGuess:
    """Columns that look like one setting each: their labels, what these name, and the cells.

    ``to`` is a column of the contract, None where the labels do not say; ``beside`` the text that
    says what the cells hold, where neither they nor the columns' names do.
    """

    pattern: str
    labels: tuple[str, ...]
    names: tuple[str, ...]
    to: str | None
    cell: Guess
    beside: str | None = None


def names_cards(text: str, catalogue: Catalogue) -> bool:
    """Return whether a text names cards of the catalogue, with their number or without."""
    return _values_of_gpu(text, catalogue)["gpu_id"] != OPEN


def names_number_of_cards(text: str) -> bool:
    """Return whether a text such as ``8x A100`` says how many cards there are."""
    return _CARDS.fullmatch(text) is not None


def values_of(to: str, text: str, catalogue: Catalogue) -> Any:
    """Return what a text says as a mapping writes it; what is not known is open."""
    bare = bare_text(text)
    if to == "model_id":
        return _values_of_model(bare, catalogue)
    if to == "gpu_id":
        return _values_of_gpu(bare, catalogue)
    if to == "method":
        return read_method(bare).values()
    if to == "outcome" and find_estimate(bare.replace("_", " ")) is not None:
        return {"evidence": OPEN}
    if to == "outcome":
        return {to: _outcome(bare) or OPEN}
    return _values_of_setting(to, bare)


def _values_of_setting(to: str, text: str) -> dict[str, Any]:
    """Return what a cell says below a header of precision, optimizer, sharding and the like."""
    word = text.lower()
    known = _WORDS.get(to, {})
    if word in known:
        return {to: known[word]}
    words = load_table("configurations").column(to).vocabulary
    if words is not None and word in vocabulary(words):
        return {to: word}
    reading = read_settings(text)
    return reading.values() if reading.said else {to: OPEN}


def is_precision(text: str) -> bool:
    """Return whether a text names a number format, and nothing else."""
    reading = read_settings(text)
    is_of_it = reading.said.keys() <= {"quant_bits", "quant_type", "compute_dtype"}
    return bool(reading.said) and is_of_it and not reading.left_over


def _values_of_gpu(text: str, catalogue: Catalogue) -> dict[str, str | int]:
    found = _CARDS.fullmatch(text)
    if found is None or catalogue.resolve_gpu(text) is not None:
        return {"gpu_id": catalogue.resolve_gpu(text) or OPEN}
    gpu, n_gpus = found["gpu"] or found["first"], found["n"] or found["last"]
    if gpu.isdigit():  # `4090 x 2` and `2 x 4090`
        n_gpus, gpu = sorted((gpu, n_gpus), key=int)
    return {"gpu_id": catalogue.resolve_gpu(gpu) or OPEN, "n_gpus": int(n_gpus)}


def _values_of_model(text: str, catalogue: Catalogue) -> dict[str, Any]:
    """Return the model that a text names, and what its packing or a remark says of the run."""
    whole = catalogue.resolve_model(text)
    if whole is not None:
        return {"model_id": whole} | read_settings(packing_of(text)).values()
    name, remark = split_remark(text)
    found = catalogue.resolve_model(name)
    if found is None:
        return {"model_id": OPEN}
    return {"model_id": found} | read_settings(remark or "").values()


def guess_table(table: RawTable, catalogue: Catalogue) -> dict[str, Guess]:
    """Return what each column looks like by its name, or else by what its cells name."""
    guesses = _doubt_memory(guess_columns(table))
    taken = {guess.to for guess in guesses.values()}
    for place, (name, guess) in enumerate(guesses.items()):
        cells = [bare_text(row.cells[place].text) for row in table.rows]
        texts = list(dict.fromkeys(text for text in cells if not is_absent(text, ())))
        if texts and guess.metric == "peak_memory" and _name_cards(texts, catalogue):
            guesses[name] = Guess(to="gpu_id")
        if guess.metric is not None or guess.doubt is not None:
            continue
        is_open = guess.to in (None, "compute_dtype")
        if is_open and _PRECISION.fullmatch(name) and any(map(_is_bits, texts)):
            guesses[name] = replace(guess, to="quant_bits")
        elif texts and guess.to in (None, "method") and all(map(is_precision, texts)):
            guesses[name] = replace(guess, to=_precision(texts))
        elif guess.to in _BY_CELLS:
            guesses[name] = replace(guess, to=_more_likely(guess.to, texts, catalogue))
        elif guess.to is None and not names_needed_cards(name):
            to = _named_by(texts, catalogue)
            if to is not None and to not in taken:
                taken.add(to)
                guesses[name] = replace(guess, to=to)
    return guesses


def _doubt_memory(guesses: dict[str, Guess]) -> dict[str, Guess]:
    """Return guesses of which memory that is called no card's is in doubt beside one that is."""
    of_memory = [name for name, g in guesses.items() if g.metric == "peak_memory" and not g.parts]
    doubts = {name: doubt_of_memory_beside(name, of_memory) for name in of_memory}
    return {
        name: guess
        if doubts.get(name) is None or (guess.doubt and guess.doubt.is_by_name)
        else replace(guess, doubt=doubts[name])
        for name, guess in guesses.items()
    }


def _outcome(text: str) -> str | None:
    """Return how a run ended, as a word says it; of labels such as ``VERIFIED_OOM`` the last.

    What is before it says nothing else then: ``NO_OOM`` and ``NOT_OK`` mean the opposite.
    """
    words = _CHECKED.sub("", text).replace("_", " ")
    return _OUTCOMES.get(words.lower()) or parse_outcome_word(words).outcome


def _is_bits(text: str) -> bool:
    return text in ("2", "3", "4", "8", "16", "32")


def _name_cards(texts: Sequence[str], catalogue: Catalogue) -> bool:
    return all(any(map(str.isalpha, text)) and names_cards(text, catalogue) for text in texts)


def _more_likely(to: str, texts: Sequence[str], catalogue: Catalogue) -> str:
    """Return what most texts of a column name where none of them is what its header says."""
    found = [_names(text, catalogue) for text in texts]
    most = max(found, key=found.count, default=None)
    is_other = most in _BY_CELLS and to not in found and 2 * found.count(most) > len(texts)
    return most if most is not None and is_other else to


def _precision(texts: Sequence[str]) -> str:
    """Return the column of the contract that most tells what number formats are of."""
    is_quantized = any("quant_bits" in read_settings(text).said for text in texts)
    return "quant_bits" if is_quantized else "compute_dtype"


def _named_by(texts: Sequence[str], catalogue: Catalogue) -> str | None:
    """Return what most of the texts name; a method's name tells by itself."""
    found = [_names(text, catalogue) for text in texts]
    if "method" in found:
        return "method"
    most = max(("gpu_id", "model_id"), key=found.count)
    return most if 2 * found.count(most) > len(texts) else None


def _names(text: str, catalogue: Catalogue) -> str | None:
    """Return the column of the contract whose values a text names, or None."""
    if _IS_METHOD.fullmatch(text.lower()):
        return "method"
    reading = read_method(text)
    if reading.said["method"] != OPEN and len(reading.said) > 1 and not reading.left_over:
        return "method"
    if text.lower() in vocabulary("dtype"):
        return "compute_dtype"
    if not any(character.isalpha() for character in text):
        return None
    if names_cards(text, catalogue):
        return "gpu_id"
    is_model = any(map(catalogue.resolve_model, (text, split_remark(text)[0])))
    return "model_id" if is_model else None


def guess_pivots(
    table: RawTable, guesses: Mapping[str, Guess], catalogue: Catalogue
) -> list[PivotGuess]:
    """Return the columns of a table that look like one setting each.

    These are several columns that would give one run the same figure, and columns of bare figures
    that are called as lengths, cards, models or methods.
    """
    words = {name for name, guess in guesses.items() if guess.is_words}
    pivots: list[PivotGuess] = []
    for figures in _alike(guesses):
        both = [name for name in guesses if name in figures or name in words]
        pivot = _build(both, table, guesses, catalogue) or _build(
            figures, table, guesses, catalogue
        )
        if pivot is not None:
            pivots.append(pivot)
            words -= set(pivot.names)
    return pivots


def _alike(guesses: Mapping[str, Guess]) -> Iterator[list[str]]:
    """Yield the names of columns whose figures may be of one pivot."""
    by_figure: dict[tuple[object, ...], list[str]] = {}
    for name, guess in guesses.items():
        if guess.is_figures:
            doubt = guess.doubt.reason if guess.doubt and guess.doubt.is_by_name else None
            counted = (guess.header.counted_in, guess.header.period)
            key = (guess.metric, guess.unit, guess.kind, guess.statistic, doubt, *counted)
            by_figure.setdefault(key, []).append(name)
    yield from by_figure.values()


def _build(
    names: list[str], table: RawTable, guesses: Mapping[str, Guess], catalogue: Catalogue
) -> PivotGuess | None:
    figures = [name for name in names if guesses[name].is_figures]
    first = guesses[figures[0]]
    metric = None if first.is_by_clock else first.metric
    is_unnamed = False
    if metric is None:
        known = _of_one_setting(names, guesses, catalogue)
        unnamed = _of_unknown_settings(figures, table, guesses)
        is_unnamed = len(known) < len(unnamed) and _cell(table, unnamed)[1] in table.heading[-1:]
        names = unnamed if is_unnamed else known
    if len(names) < 2 or not set(names) & set(figures):  # noqa: PLR2004 - one column is no pivot
        return None
    (before, labels, after), to = _split_setting(names, catalogue)
    has_words = len(figures) < len(names)
    if is_unnamed and any(_names(bare_text(label), catalogue) == "method" for label in labels):
        to = "method"
    is_setting = is_unnamed or (not has_words and _is_one_of_a_run(metric, before + after))
    is_alone = to is None and not is_setting and _are_named_alone(first, names)
    if to is None and not is_setting and not is_alone:
        return None
    if _are_of_one_run(labels, metric, is_named=to is not None):
        return None
    cell, said_by = (first, None) if metric else _cell(table, names)
    cell = _by_name(cell) if is_alone else cell
    pattern = _pattern(before, labels, after, table.columns)
    return PivotGuess(pattern, tuple(labels), tuple(names), to, cell, said_by)


def _are_of_one_run(labels: Sequence[str], metric: str | None, *, is_named: bool) -> bool:
    """Return whether columns called so are rather parts of one run than settings of several."""
    if not all(label.strip() for label in labels) or any(map(_STAGES.search, labels)):
        return True
    if metric == "peak_memory" and all(map(_CALLED_MEMORY.fullmatch, labels)):
        return True
    return not is_named and any(_OF_ONE_RUN.search(x) or _COUNTED.fullmatch(x) for x in labels)


def _is_one_of_a_run(metric: str | None, shared: str) -> bool:
    """Return whether several columns of one metric are rather settings than parts of a run."""
    return metric in _ONE_OF_A_RUN or (metric == "peak_memory" and bool(shared.strip()))


def _are_named_alone(first: Guess, names: Sequence[str]) -> bool:
    """Return whether columns of one metric are called as no metric: their names are settings.

    What only their units tell is memory or a time; a run has one of them.
    """
    is_told = first.metric in ("peak_memory", "step_time", "total_time") and first.unit is None
    return is_told and not any(
        guess_metric(name).metric or SPEED.search(name) or first.header.dimension for name in names
    )


def _by_name(cell: Guess) -> Guess:
    """Return cells of which nothing but the unit tells the metric, so that it stays open."""
    return replace(cell, doubt=replace(cell.doubt, is_by_name=True)) if cell.doubt else cell


def _of_one_setting(
    names: list[str], guesses: Mapping[str, Guess], catalogue: Catalogue
) -> list[str]:
    """Return those of some columns of bare figures that are called as settings of one kind."""
    kinds = {name: _setting("", [plain_text(name)], catalogue) for name in names}
    kinds |= {name: guesses[name].to for name in names if not kinds[name] and _has_number(name)}
    known = [kind for kind in kinds.values() if kind is not None]
    most = max(known, key=known.count, default=None)
    return [name for name, kind in kinds.items() if kind == most and most is not None]


def _of_unknown_settings(
    names: list[str], table: RawTable, guesses: Mapping[str, Guess]
) -> list[str]:
    """Return those of some columns of bare figures that are called as nothing known.

    Below a heading that says what figures are, they are it, of settings that only people know.
    """
    return [
        name
        for name in names
        if guesses[name].to is None
        and guesses[name].doubt is None
        and not NO_SETTING.search(name)
        and read_header(name).relative is None
        and not any(map(_NO_FIGURE.fullmatch, _texts_of(name, table)))
    ]


def _texts_of(name: str, table: RawTable) -> list[str]:
    place = table.columns.index(name)
    return [bare_text(row.cells[place].text) for row in table.rows]


def _has_number(name: str) -> bool:
    return any(character.isdigit() for character in name)


def _split_setting(
    names: list[str], catalogue: Catalogue
) -> tuple[tuple[str, list[str], str], str | None]:
    """Return what names have in common and what differs, and the setting that this is."""
    whole = ("", names, "")
    split = [_split(names, token) for token in _TOKENS]
    for parts in (whole, *map(_with_words_before, split[:1]), *split):
        to = _setting(f"{parts[0]} {parts[2]}", parts[1], catalogue)
        if to is not None:
            return parts, to
    return _with_bracket(_split(names, _TOKENS[0])), None


def _with_bracket(parts: tuple[str, list[str], str]) -> tuple[str, list[str], str]:
    """Return the labels with the bracket behind them, if one of them opens it."""
    before, labels, after = parts
    is_open = any(label.count("(") > label.count(")") for label in labels)
    if not (is_open and after.startswith(")")):
        return parts
    return before, [f"{label})" for label in labels], after[1:]


def _with_words_before(
    parts: tuple[str, list[str], str],
) -> tuple[str, list[str], str]:
    """Return the labels with what stands before all of them, back to a bracket: ``Llama 3-8B``."""
    before, labels, after = parts
    start = before.rfind("(") + 1
    return before[:start], [before[start:] + label for label in labels], after


def _split(names: list[str], token: re.Pattern[str]) -> tuple[str, list[str], str]:
    """Return what the names have in common at their beginnings and ends, and what differs.

    >>> _split(["seq 1024 (GB)", "seq 2048 (GB)"], _TOKENS[0])
    ('seq ', ['1024', '2048'], ' (GB)')
    """
    tokens = [token.findall(name) for name in names]
    n_before = _n_shared(tokens)
    rest = [list(reversed(one[n_before:])) for one in tokens]
    n_after = min(_n_shared(rest), *(max(len(one) - 1, 0) for one in rest))
    before = "".join(tokens[0][:n_before])
    labels = ["".join(one[n_before : len(one) - n_after]) for one in tokens]
    after = "".join(tokens[0][len(tokens[0]) - n_after :])
    return before, labels, after


def _n_shared(tokens: list[list[str]]) -> int:
    shared = takewhile(lambda column: len(set(column)) == 1, zip(*tokens, strict=False))
    return len(list(shared))


def _setting(beside: str, labels: Sequence[str], catalogue: Catalogue) -> str | None:
    """Return the column of the contract that labels are values of, None if they do not say."""
    texts = [bare_text(label) for label in labels]
    if all(_NUMBER.fullmatch(text) for text in texts):
        named = guess_setting(beside)
        return "n_gpus" if named == "gpu_id" else named or _setting_of_numbers(texts)
    if all(_SIZE.fullmatch(text) for text in texts):
        return "model_id"
    found = [_names(bare_text(text), catalogue) for text in texts]
    known = [kind for kind in found if kind is not None]
    most = max(known, key=known.count, default=None)
    return most if most is not None and 2 * known.count(most) >= len(texts) else None


def _setting_of_numbers(texts: Sequence[str]) -> str | None:
    found = [_NUMBER.fullmatch(text) for text in texts]
    is_length = all(
        one and (one["thousands"] or int(one[0].replace(",", "")) >= _LEAST_LENGTH) for one in found
    )
    return "seq_len" if is_length else None


def _cell(table: RawTable, names: Sequence[str]) -> tuple[Guess, str | None]:
    """Return what figures look like of which only a text beside them says it, and that text."""
    others = [name for name in table.columns if name not in names]
    places = [table.columns.index(name) for name in names]
    n_parts = count_parts([row.cells[place].text for row in table.rows for place in places])
    for text in (*others[:1], *reversed(table.heading)):
        for named in ((text,),) if n_parts == 1 else ways_to_split(text):
            parts = tuple(map(guess_metric, named))
            if len(parts) == n_parts and all(part.metric for part in parts):
                return _of_parts(parts), text
    return _of_parts((Guess(metric=OPEN, is_figures=True),) * n_parts), None


def _of_parts(parts: tuple[Guess, ...]) -> Guess:
    return parts[0] if len(parts) == 1 else replace(parts[0], parts=parts)


def _pattern(before: str, labels: Sequence[str], after: str, columns: Sequence[str]) -> str:
    """Return a regular expression of these columns' names alone, its group the label."""
    short = f"{_escape(before)}(.+){_escape(after)}"
    n_matching = sum(re.fullmatch(short, name) is not None for name in columns)
    listed = "|".join(_escape(label) for label in labels)
    return short if n_matching == len(labels) else f"{_escape(before)}({listed}){_escape(after)}"


def _escape(text: str) -> str:
    return re.sub(r"[\\.+*?()|\[\]{}^$]", r"\\\g<0>", text)
