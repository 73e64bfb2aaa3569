"""Guess what a column means by its name and cells, for lists and drafts; an import never does."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from registry.tables.cell_reader import bare_text, is_absent
from registry.tables.guess_figures import (
    MEMORY_ABROAD,
    NO_TRAINING,
    OF_DIFFERENCE,
    OF_INFERENCE,
    SHARE_OR_POWER,
    SHARES,
    SPEED,
    TIME_ABROAD,
    Doubt,
    find_evaluation,
    find_memory_doubt,
    find_rate_doubt,
    find_time_doubt,
    is_step_time,
    names_needed_cards,
)
from registry.tables.guess_words import OPEN
from registry.tables.header import (
    Header,
    count_steps,
    counted_by,
    is_memory_unit,
    parse_rate_unit,
    read_header,
    spoken,
    without_share,
)
from registry.units import (
    figures_in,
    parse_outcome_word,
    split_change,
    split_remark,
    split_several,
    ways_to_split,
)
from registry.units.duration import clock_readings
from registry.units.known import rate_units_by_spelling, units_by_spelling
from registry.units.number import NUMBER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from registry.tables.raw_table import RawTable

#: Batches of all cards together, as ``Total train batch size`` and ``Batch size (global)``.
_OF_ALL: Final = r"(?:global|total|overall|effective|aggregate|combined)"
_GLOBAL_BATCH: Final = (
    rf"\b{_OF_ALL}\W*(?:(?!micro)\w+\W+)?(?:batch|bsz?\b)|\bgbs\b|(?:全局|总)批"
    rf"|\b(?:batch\w*(?:\W*size)?|bsz?)\b\W+(?:(?!per\b|each\b)\w+\W+)?"
    rf"(?:{_OF_ALL}|all|across)\b"
)

#: Columns of the contract by what their names look like, the most telling first.
_NAMES: Final[tuple[tuple[str, str], ...]] = (
    ("n_nodes", r"(?:#|num(?:ber)?\W*(?:of\W*)?|n_)?\W*nodes?\b|\bnodes?[_ ]?(?:num|count)"),
    ("gpus_per_node", r"(?:#\s*)?(?:gpus?|cards?|devices?)\s*(?:per|/)\s*node"),
    ("n_gpus", r"(?:#|num(?:ber)?\W*(?:of\W*)?|\bn_?)\W*(?:gpus?|cards?|devices?|chips?|npus?)\b"),
    ("n_gpus", r"num(?:ber)?\W*of\W*\w+\W*gpus?\b|\bgpus?\b\W*(?:\w+\W*)?num(?:ber)?\b"),
    ("n_gpus", r"world\W?size|卡数|\b(?:gpus?|cards?|devices?|npus?)[_ ]?(?:num|count)"),
    ("micro_batch_size", r"per\W*(?:gpu|device|card)\W*(?:train\w*\W*)?(?:batch|bsz?\b)"),
    ("micro_batch_size", r"(?:batch\w*(?:\W*size)?|\bbsz?)\W*(?:per|/|each)\W*(?:gpu|device|card)"),
    ("global_batch_size", _GLOBAL_BATCH),
    (
        "gpu_id",
        r"\bgpus?\b(?!\W*(?:mem|ram|util))|hardware|runnable on|\bdevice|accelerator|\binstance",
    ),
    ("gpu_id", r"显卡|硬件|硬體|ハードウェア|\bcard\b|GPU型号|grafikkarte|carte graphique"),
    ("grad_accum_steps", r"accum|\bgas\b|^g\.?a\.?$|\bgrad\w*\W*acc\b|micro\W*num"),
    ("micro_batch_size", r"micro\W*(?:batch|bsz)|\bmbs\b|\bbatch|\bbsz?\b|批|バッチ|배치"),
    (
        "seq_len",
        r"seq\w*\W*len|(?:\bseq\b|sequence|context)(?!\W*paral)|^ctx\b|max\W*(?:\w+\W*)?len",
    ),
    ("seq_len", r"\blength\b|block.size|cut\W?off|长度|^序列$|長さ|sequenzl|longueur"),
    ("lora_rank", r"\brank\b|lora\W?r\b"),
    ("lora_alpha", r"\balpha\b"),
    ("tensor_parallel", r"^tp\b|tensor\W*(?:model\W*)?parallel"),
    ("pipeline_parallel", r"^pp\b|pipeline\W*(?:model\W*)?parallel"),
    ("context_parallel", r"^cp\b|context\W*parallel"),
    ("expert_parallel", r"^ep\b|expert\W*parallel"),
    (
        "gradient_checkpointing",
        r"^(?:ckpt|checkpointing)$|activation\W*(?:ckpt|check)|^g\.?c\.?$|(?:grad\w*|act)\W*(?:ckpt|check)|recomp",
    ),
    ("packing", r"\bpack"),
    ("quant_bits", r"quant|\bbits?\b|量化位|比特"),
    ("optimizer", r"^optim\w*$|\boptimizer$"),
    ("sharding", r"^(?:deepspeed\W*)?zero(?:\W*stage)?$|^deepspeed\W*stage$|\bsharding\b"),
    ("offload", r"\boffload"),
    ("attention", r"^attn|^attention|flash\W?att"),
    ("compute_dtype", r"\bd?type\b.*prec|precision|\bdtype\b|mixed"),
    ("model_id", r"^(?:fine\W?tun\w*|train\w*|base)\W*models?$"),
    (
        "method",
        (
            r"method|fine\W?tun|weight update|recipe|training type|\bpeft\b|\bmode\b"
            r"|训练方|微调方|m[eé]thode|m[eé]todo|verfahren|手法|방법"
        ),
    ),
    (
        "model_id",
        (
            r"model(?!\W*(?:flops|parallel|size in))|\bllm\b|checkpoint"
            r"|模型|mod[eè]le|モデル|모델|модель"
        ),
    ),
    ("dataset", r"data\W?set|数据集"),
    ("outcome", r"^(?:run\W*)?(?:status|outcome)$"),
)

#: What metrics' names look like, where neither the header nor the cells give a unit.
_METRICS: Final[tuple[tuple[str, str], ...]] = (
    (
        "trainable_params",
        rf"^(?!.*(?:{OF_DIFFERENCE})).*(?:trainable|可训练参数)(?!.*(?:%|percent|ratio|share|比))",
    ),
    ("peak_memory", rf"\bmem\b|memory(?!\W*bandw)|vram|{MEMORY_ABROAD}"),
    (
        "step_time",
        (
            r"(?:time|sec\w*|ms|s)\s*(?:per|/)\s*(?:\w+\s*)?(?:step|it)"
            r"|\b(?:step|iter|iteration)\W*time"
            r"|(?:单步|每步|ステップ|스텝)\s*(?:耗时|用时|时间|時間|시간)"
        ),
    ),
    ("sample_time", r"time\s*per\s*sample"),
    ("tokens_per_second", r"tok\w*\s*(?:per|/)|(?<![a-z])tps\b|词元"),
    ("samples_per_second", r"(?:samples?|seqs?|sequences?|examples?)\s*(?:per|/)"),
    ("flops_per_second", r"flops?\b"),
    ("total_time", rf"\btime\b|duration|runtime|hours|\belapsed\b|{TIME_ABROAD}"),
)

#: Names of cards that numbers below count; ``Hours/GPU`` and ``GPU util`` are others.
_COUNTED_CARDS: Final = re.compile(
    r"(?i)(?:\W|[0-9]|num\w*|no|n|total|of|used)*(?:gpus?|cards?|devices?|accelerators?|hardware|显卡)"
    r"(?:\W*(?:num\w*|count|used|total))?\W*"
)
_PER_CARD: Final = re.compile(r"(?i)(?:/|\bper\b|\beach\b)\s*(?:gpu|card|device|accelerator)")

_RATES: Final = {
    "token/s": "tokens_per_second",
    "token/s/gpu": "tokens_per_second",
    "sample/s": "samples_per_second",
    "sample/s/gpu": "samples_per_second",
    "step/s": "steps_per_second",
    "s/step": "step_time",
    "ms/step": "step_time",
    "min/step": "step_time",
    "step/min": "steps_per_second",
    "s/sample": "sample_time",
    "ms/sample": "sample_time",
    "sample/min": "samples_per_second",
}
#: Letters behind a number that are more often millions, sizes or names than times.
_NO_TIMES: Final = ("m", "d", "S", "H")
#: Times of two units, such as ``2m 3s``.
_OF_TWO_UNITS: Final = re.compile(r"[0-9]+\s?[hm]\s?[0-9]+(?:\.[0-9]+)?\s?[ms]\b")
#: Metrics that columns have which name cards as well: ``GPU memory``, ``TPS per GPU``.
_NO_SETTINGS: Final = ("peak_memory", "tokens_per_second")
#: Columns of a training and of something else, such as ``VRAM (train / infer)``.
_OF_TRAINING: Final = re.compile(r"(?i)train|tun(?:e|ing)\b|训练|微调|学習|訓練|학습|훈련|обуч")
_WHOLE: Final = re.compile(r"(?i)\btotal\b|\bper\W*(?:token|step|sample)\b|/\s*(?:token|step)\b")
_OF_WHAT: Final = Doubt("a speed of tokens, samples or steps, in which unit?")
_ONLY_G: Final = Doubt("only a G says that it is memory")
#: Amounts in G, which are of memory unless something else is counted in thousands of millions.
_OF_G: Final = re.compile(rf"{NUMBER}\s*G(?:i?B)?")
_OF_INFERENCE: Final = Doubt("of inference, not of a training run")
#: Speeds of batches, which need not be steps.
_BATCHES_A_SECOND: Final = re.compile(
    r"(?i)\b(?:micro\W*)?batch(?:es)?\s*(?:/|\bper\b)\s*(?:s|sec|seconds?|min|minutes?|h|hours?)\b"
)
_OF_BATCHES: Final = Doubt("batches: steps, or micro-batches of which a step has several?")
_OF_BOTH: Final = Doubt("not of a training alone: which of its figures is the row's?")
#: Settings that a mark such as ``✅`` may say of a run.
_BY_MARKS: Final = (
    *("gradient_checkpointing", "packing", "quant_bits", "offload", "sharding", "attention"),
)
#: Metrics of which a number alone says nothing.
_WITH_UNIT: Final = ("peak_memory", "total_time", "step_time", "sample_time", "flops_per_second")
_KINDS: Final = {"reserved": "reserved", "alloc": "allocated", "active": "active"}
_STATISTICS: Final = {"average": "mean", "avg": "mean", "mean": "mean", "median": "median"}
_BRACKETED: Final = re.compile(r"[(\[][^)\]]*[)\]]")
_NUMBER: Final = re.compile(r"[0-9][0-9.,]*")
#: A number and its unit; thousands stand between it and that of a rate: ``1.2k tok/s``.
_LABEL: Final = re.compile(
    rf"{NUMBER}(?:,[0-9]+)?\s*(?:[kM\u4e07]\s*(?=[^\s/]{{2,}}/))?(?P<label>[^\W\d_][^\s(]*)?",
    re.IGNORECASE,
)

#: Settings that are numbers.
_COUNTS: Final = (
    *("n_nodes", "gpus_per_node", "micro_batch_size", "global_batch_size", "grad_accum_steps"),
    *("seq_len", "lora_rank", "lora_alpha"),
)
_HAS_DIGIT: Final = re.compile(r"[0-9]")
_LARGE_COUNT: Final = re.compile(r"[0-9][0-9,]{5,}")
_LARGEST_BATCH: Final = re.compile(
    r"(?i)(?<![^\W_])(?:max(?:imum|imal)?|largest)[\W_]+(?:micro[\W_]*)?(?:batch|bsz?\b)"
    r"|最大.{0,4}(?:批|batch)"
)
#: Lengths of a part of the sequence or of some sequences, or of something else.
_OTHER_LENGTH: Final = re.compile(
    r"(?i)\b(?:queue|prompt|response|output|completion|generat\w*|answer|reasoning)\W*len"
    r"|\b(?:avg|average|mean|median|min(?:imum|imal)?)\W*(?:\w+\W*)?len"
)

#: A unit of speed amid the words of a caption.
_RATE_IN_TEXT: Final = re.compile(
    r"(?i)\b(?:tok\w*|samples?|seqs?|sequences?|examples?)\s*(?:/|\bper\b)\s*s(?:ec\w*)?\b"
)
_SHARE: Final = re.compile(rf"[~\u2248\u223c<>]?\s*{NUMBER}(?:,[0-9]+)?\s*%")

_CROSSES: Final = " \u2717\u2718\u274c\u2715\u2716\u00d7"

#: Share of the cells that say something that must be figures.
_MOST: Final = 0.5


@dataclass(frozen=True)
class Guess:
    """What a column looks like: a column of the contract, a metric, or neither.

    ``unit`` is the header's, as its cells have none; ``header`` all that the name says.
    ``lacks_unit`` says that neither does, although the metric needs one. ``divide_by`` is what the
    header says a figure to be of: 1,000 steps. ``doubt`` is why the metric is not sure. ``parts``
    are the figures of a cell of several, of which the guess itself is the first.
    ``is_figures`` says whether its cells are figures, of whatever; ``is_words`` whether they are
    nothing but outcomes such as OOM. ``is_by_clock`` says that only cells such as ``1:25:29``
    tell its metric. ``says_failures`` says that some of its cells tell how a run ended; the others
    are numbers where ``to`` is open.
    """

    to: str | None = None
    metric: str | None = None
    unit: str | None = None
    header: Header = field(default_factory=Header)
    kind: str | None = None
    statistic: str | None = None
    lacks_unit: bool = False
    divide_by: int | None = None
    doubt: Doubt | None = None
    parts: tuple[Guess, ...] = ()
    is_figures: bool = False
    is_words: bool = False
    is_by_clock: bool = False
    says_failures: bool = False

    def __str__(self) -> str:
        """Return the guess in words."""
        if self.metric is None:
            return self.to or "?"
        is_doubted = self.metric != OPEN and self.doubt and self.doubt.is_by_name
        name = f"{self.metric}?" if is_doubted else self.metric
        said = [name, f"unit {self.unit}" if self.unit else None, self.kind, self.statistic]
        said.append("per GPU" if self.header.per_gpu else None)
        return ", ".join(filter(None, said))


def guess_columns(table: RawTable) -> dict[str, Guess]:
    """Return what each column of a table looks like, by name."""
    return {
        name: guess_column(name, [row.cells[place].text for row in table.rows])
        for place, name in enumerate(table.columns)
    }


def guess_column(name: str, cells: Sequence[str]) -> Guess:
    """Return what a column looks like.

    >>> str(guess_column("Peak memory (GiB)", ["20.1", "OOM"])), str(guess_column("Batch", ["4"]))
    ('peak_memory, unit GiB', 'micro_batch_size')
    """
    said = [bare_text(cell) for cell in cells if not is_absent(cell, ())]
    header = read_header(name)
    name = spoken(name)
    parts = () if any(map(split_several, said)) else _guess_parts(name, header, said)
    if parts:
        return replace(parts[0], parts=parts, doubt=_doubt_of_parts(parts))
    figures = [text for text in said if _figure_label(text) is not None]
    words = [text for text in said if _says_no_figure(text)]
    is_figures = bool(figures) and len(figures) >= _MOST * max(1, len(said) - len(words))
    is_figures = is_figures or _are_named_figures(name, figures)
    if is_figures and (_are_shares(figures) or "%" in name):
        return Guess(header=read_header(""), doubt=SHARES, is_figures=True)
    metric, in_cells = _metric(name, header, figures) if is_figures else (None, False)
    is_power = not in_cells and header.dimension != "memory" and SHARE_OR_POWER.search(name)
    if is_figures and (is_power or header.relative or header.card_time):
        return Guess(header=read_header(""), is_figures=True)
    if metric is not None and NO_TRAINING.search(name) and not _OF_TRAINING.search(name):
        return Guess(header=header, doubt=Doubt("not a figure of a training run"), is_figures=True)
    if metric == "total_time" and is_step_time(name):
        metric = "step_time"
    if metric is None:
        is_words = bool(said) and len(words) == len(said)
        guess = Guess(header=header, is_figures=is_figures, is_words=is_words)
        return _without_metric(guess, name, said)
    doubt = _OF_BOTH if NO_TRAINING.search(name) else _find_doubt(name, metric, header, figures)
    is_by_unit = doubt is not None and not doubt.is_by_name
    return Guess(
        metric=metric,
        unit=None if in_cells else header.unit,
        header=header,
        kind=next((kind for word, kind in _KINDS.items() if word in name.lower()), None),
        statistic=_statistic(name, header),
        divide_by=count_steps(name) if metric == "step_time" else None,
        doubt=doubt,
        lacks_unit=metric in _WITH_UNIT and header.unit is None and all(map(_is_bare, figures)),
        is_figures=True,
        is_by_clock=is_by_unit and header.clock is None and _are_clocks(figures),
    )


def _are_named_figures(name: str, figures: Sequence[str]) -> bool:
    """Return whether a name says a speed or memory, and some cells are that, whatever others are.

    >>> _are_named_figures("Fine-tuning throughput", ["40.35 token/s"])
    True
    """
    labels = [label for label in map(_figure_label, figures) if label]
    of_memory = {"peak_memory"} if guess_metric(name).metric == "peak_memory" else set()
    of_speed = set(_RATES.values()) if SPEED.search(name) else set()
    return any(_metric_of_label(name, label) in of_memory | of_speed for label in labels)


def _without_metric(guess: Guess, name: str, said: Sequence[str]) -> Guess:
    """Return what a column looks like whose metric nothing tells."""
    if OF_INFERENCE.search(name) and not _OF_TRAINING.search(name):
        return replace(guess, doubt=_OF_INFERENCE)
    if guess.is_figures and _BATCHES_A_SECOND.search(name):
        return replace(guess, metric=OPEN, doubt=_OF_BATCHES)
    figures = [text for text in said if not _says_no_figure(text)]
    if figures and all(map(_OF_G.fullmatch, figures)):
        return replace(guess, metric="peak_memory", doubt=_ONLY_G)
    to = _target(name, list(said), is_figures=guess.is_figures)
    is_speed = to is None and guess.is_figures and SPEED.search(name) is not None
    if is_speed and not NO_TRAINING.search(name):
        return replace(guess, metric=OPEN, doubt=_OF_WHAT)
    return replace(guess, to=to)


def _statistic(name: str, header: Header) -> str | None:
    """Return how a header says that samples were summarized, None where it does not."""
    if header.deviation is not None:
        return "std"
    return next((said for word, said in _STATISTICS.items() if word in name.lower()), None)


def _guess_parts(name: str, header: Header, said: Sequence[str]) -> tuple[Guess, ...]:
    """Return what the figures of cells such as ``37.1G / 2.3s/it`` look like; none of one each."""
    whole = _split_cells(said)
    n_parts = len(whole[0])
    if n_parts == 1:
        return ()
    named = _BRACKETED.sub(" ", name).split("/")
    columns = list(zip(*whole, strict=True))
    ways: list[list[str]] = []
    if len(named) == n_parts and header.dimension in ("memory", None):
        unit = f" ({header.unit})" if header.unit else ""
        ways.append([f"{part.strip()}{unit}" for part in named])
    if all(_figure_label(part) for parts in whole for part in parts):
        ways.append([_named_by_label(cells[0]) for cells in columns])
    for names in ways:  # the slash of a name may stand between the rows of a header
        parts = tuple(guess_column(part, cells) for part, cells in zip(names, columns, strict=True))
        if all(part.metric and part.doubt is not _ONLY_G for part in parts):
            return parts
    return ()


def count_parts(cells: Sequence[str]) -> int:
    """Return how many figures stand in most cells of figures, between slashes.

    >>> count_parts(["12.1 / 1.2", "OOM"]), count_parts(["12.1", "-"])
    (2, 1)
    """
    return len(_split_cells([bare_text(cell) for cell in cells if not is_absent(cell, ())])[0])


def _split_cells(said: Sequence[str]) -> list[list[str]]:
    """Return the figures of the cells that have as many as any; of one each unless most have."""
    cells = [text for text in said if not _says_no_figure(text)]
    split = [_split_figures(text) for text in cells]
    n_parts = max(map(len, split), default=1)
    whole = [parts for parts in split if len(parts) == n_parts]
    return whole if n_parts > 1 and len(whole) >= _MOST * len(cells) else [[""]]


def _says_no_figure(text: str) -> bool:
    """Return whether a cell, or each of its parts, is a word or a cross in a figure's place."""
    return any(
        all(parse_outcome_word(part).kind != "other" or not part.strip(_CROSSES) for part in parts)
        for parts in ((text,), *ways_to_split(text))
    )


def _split_figures(text: str) -> list[str]:
    """Return the figures of a cell between slashes, as an import splits them."""
    for parts in ways_to_split(text):
        if len(parts) > 1 and all(_figure_label(part) is not None for part in parts):
            return list(parts)
    return [text]


def _named_by_label(cell: str) -> str:
    """Return a name for one part of a cell of which only the unit tells what it measures."""
    return "memory" if (_figure_label(cell) or "") == "G" else ""


def _doubt_of_parts(parts: Sequence[Guess]) -> Doubt | None:
    doubt = next((part.doubt for part in parts if part.doubt and part.doubt.is_by_name), None)
    if len({(part.metric, part.kind, part.statistic) for part in parts}) < len(parts):
        return doubt or Doubt("the cells hold several figures of one kind")
    return doubt


def _are_shares(figures: Sequence[str]) -> bool:
    """Return whether most figures are percentages: of what, no cell says."""
    return sum(map(bool, map(_SHARE.match, figures))) > _MOST * len(figures)


def _find_doubt(name: str, metric: str, header: Header, figures: Sequence[str]) -> Doubt | None:
    changes = next((text for text in figures if split_change(text)), None)
    if changes is not None:
        return Doubt(f"{changes!r} is two figures: which of them is the row's (a `form` takes one)")
    if metric == "peak_memory":
        numbers = [found[0] for found in map(_NUMBER.match, figures) if found]
        return find_evaluation(name) or find_memory_doubt(name, numbers)
    counts = _doubt_of_counts(name, metric, header, figures)
    if counts is not None or metric.endswith("_per_second"):
        return counts
    is_rate = metric == "step_time" and header.dimension == "rate"
    if metric not in ("step_time", "total_time") or is_rate or any(map(split_several, figures)):
        return None
    label = next((label for label in map(_figure_label, figures) if label), None)
    if label and parse_rate_unit(label):
        return None
    spelled = units_by_spelling("duration").get(label or "")
    return find_time_doubt(name, metric, header.unit or (spelled.symbol if spelled else None))


def _doubt_of_counts(
    name: str, metric: str, header: Header, figures: Sequence[str]
) -> Doubt | None:
    """Return why it is not sure what a speed counts, or whether it is one."""
    labels = (_rate_of_label(_figure_label(text) or "") for text in figures)
    in_cells = next(filter(None, labels), None)
    said, counted = counted_by(header.unit), counted_by(in_cells)
    if said and counted and said != counted:
        return Doubt(f"the name says {said}s, the cells say {counted}s")
    if not metric.endswith("_per_second"):
        return None
    is_flops = metric == "flops_per_second"
    is_of_time = re.search(r"(?i)flops?(?:/s\b| per sec)", name) or _of_flops(header, figures)
    if is_flops and is_of_time and not _WHOLE.search(name):
        return find_evaluation(name)
    if is_flops:
        return Doubt("a count of operations, or their number per second?")
    is_rate = in_cells is not None or header.dimension == "rate"
    return find_evaluation(name) or find_rate_doubt(name, is_rate=is_rate)


def _of_flops(header: Header, figures: Sequence[str]) -> bool:
    """Return whether a header or its cells give a unit of FLOP/s."""
    labels = (_figure_label(text) or "" for text in figures)
    return header.dimension == "flops" or any(
        read_header(f"({label})").dimension == "flops" for label in labels
    )


def _is_bare(text: str) -> bool:
    """Return whether a figure is a number alone: no unit behind it, and no clock."""
    return not _figure_label(text) and ":" not in text


def names_largest_batch(name: str) -> bool:
    """Return whether a column is of the largest batch that fits, which need not be a run's.

    >>> names_largest_batch("Max batch size"), names_largest_batch("Batch size")
    (True, False)
    """
    return _LARGEST_BATCH.search(name) is not None


def guess_setting(text: str) -> str | None:
    """Return the column of the contract that a text such as ``seq len`` names, or None."""
    return next((to for to, pattern in _NAMES if re.search(pattern, text, re.IGNORECASE)), None)


def guess_metric(text: str) -> Guess:
    """Return what figures look like below a text such as ``Memory usage (GiB)``."""
    header = read_header(text)
    named = next((m for m, pattern in _METRICS if re.search(pattern, text.lower())), None)
    metric = _RATES.get(header.unit or "") or named or ("total_time" if header.clock else None)
    dimension = {"peak_memory": "memory", "total_time": "duration", "step_time": "duration"}
    is_unit_of_it = header.dimension == dimension.get(metric or "", "rate")
    unit = header.unit if is_unit_of_it or header.dimension == "rate" else None
    rate = None if header.unit or metric is None else _RATE_IN_TEXT.search(text)
    unit = parse_rate_unit(rate[0]) if rate and metric and metric.endswith("_second") else unit
    return Guess(metric=metric, unit=unit if metric else None, header=header, is_figures=True)


def dimension_of(cell: str) -> str | None:
    """Return what a cell's figure is an amount of, memory or time, as its unit says.

    >>> dimension_of("33.5 GB"), dimension_of("21 hours"), dimension_of("4M"), dimension_of("8")
    ('memory', 'duration', None, None)
    """
    label = _figure_label(bare_text(cell)) or ""
    if not label or label in (*_NO_TIMES, "M"):  # millions of something, as a rule
        return None
    kinds = ("memory", "duration")
    return next((kind for kind in kinds if label in units_by_spelling(kind)), None)


def _figure_label(text: str) -> str | None:
    """Return the unit behind a number that a text begins with; None where it begins with none."""
    bare = split_remark(text)[0]
    found = _LABEL.match(figures_in((split_change(bare) or (bare,))[-1])[-1])
    return None if found is None else (found["label"] or "")


def _metric(name: str, header: Header, figures: list[str]) -> tuple[str | None, bool]:
    """Return the metric of a column of figures, and whether its cells give their unit."""
    of_several = [found[2] for text in figures if (found := split_several(text))]
    if len(of_several) > _MOST * len(figures):
        return f"{of_several[0]}_time", True
    labels = [label for label in map(_figure_label, figures) if label]
    in_cells = _metric_of_label(name, labels[0]) if len(labels) >= _MOST * len(figures) else None
    if in_cells is not None:
        return in_cells, True
    lowered = name.lower()
    of_name = next((m for m, pattern in _METRICS if re.search(pattern, lowered)), None)
    by_dimension = {
        "memory": "peak_memory",
        "flops": "flops_per_second",
        "rate": _RATES.get(header.unit or ""),
        "duration": of_name if of_name in ("step_time", "sample_time") else "total_time",
    }
    if header.dimension is not None:
        return by_dimension[header.dimension], False
    is_setting = any(re.search(pattern, lowered) for _, pattern in _NAMES[:11])
    is_clock = header.clock is not None or (_are_clocks(figures) and not is_setting)
    if of_name is None and is_clock:
        return "total_time", False
    return (None if is_setting and of_name not in _NO_SETTINGS else of_name), False


def _are_clocks(figures: Sequence[str]) -> bool:
    bare = [split_remark(text)[0] for text in figures]
    clocks = [text for text in bare if clock_readings(text) or _OF_TWO_UNITS.match(text)]
    return len(clocks) > _MOST * len(figures)


def _rate_of_label(label: str) -> str | None:
    known = rate_units_by_spelling().get(label)
    return known.symbol if known else parse_rate_unit(label)


def _metric_of_label(name: str, label: str) -> str | None:
    rate = _rate_of_label(label)
    if rate is not None:
        return _RATES[rate]
    if read_header(f"({label})").dimension == "flops":
        return "flops_per_second"
    memory = units_by_spelling("memory").get(without_share(label))
    if memory is not None and is_memory_unit(memory.symbol) and len(label) > 1:
        return "peak_memory"
    if label == "G" and re.search(rf"mem|vram|{MEMORY_ABROAD}", name.lower()):
        return "peak_memory"
    if label in units_by_spelling("duration") and label not in _NO_TIMES:
        # "time of 100 iterations" is no step time
        of_steps = next(pattern for metric, pattern in _METRICS if metric == "step_time")
        is_of_step = _RATES.get(read_header(name).unit or "") == "step_time"
        return "step_time" if is_of_step or re.search(of_steps, name.lower()) else "total_time"
    return None


def _target(name: str, said: list[str], *, is_figures: bool) -> str | None:
    """Return the column of the contract that a name looks like."""
    target = guess_setting(name)
    is_marked = bool(said) and not any(char.isalnum() for text in said for char in text)
    if is_marked and target not in _BY_MARKS:
        return None
    is_no_number = target in _COUNTS and said and not any(map(_HAS_DIGIT.search, said))
    is_no_name = target == "model_id" and all(map(_LARGE_COUNT.fullmatch, said))  # of parameters
    if is_no_number or is_no_name:
        return None
    if target == "gpu_id" and is_figures and all(text.isdigit() for text in said):
        return "n_gpus" if _COUNTED_CARDS.fullmatch(name) else None
    if (target == "seq_len" and _OTHER_LENGTH.search(name)) or names_largest_batch(name):
        return None
    is_of_cards = target in ("gpu_id", "n_gpus")
    if is_of_cards and (names_needed_cards(name) or _PER_CARD.search(name)):
        return None
    return target
