"""Whether a header plainly says what its figures measure; a draft asks where it does not."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from registry.tables.cell_reader import ESTIMATED_ABROAD
from registry.tables.header import count_steps, spoken

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Figures of answers that a model gives, and of files: no training is measured.
NO_TRAINING: Final = re.compile(
    r"(?i)\w*inf[eé]r\w*|decod\w*|prefill|generat(?:e|ion|ing)\w*|\bencoding|\bserving|推理|推論|"
    r"추론|инференс|生成速度|生成时间"
    r"|(?:model|file|checkpoint|adapter|disk) size"
)
#: What is set or used where a model answers.
OF_INFERENCE: Final = re.compile(r"(?i)\binf[eé]ren\w*|推理|推論|추론|инференс")
_TRAINING: Final = re.compile(
    r"(?i)train|tun(?:e|ing)|lora|\bsft\b|backward|optimi[sz]er|训练|微调|学習|訓練|トレーニング|학습|훈련|"
    r"обуч|entra[iî]n|entrena|trein"
)
#: Speeds that may be of anything, in any unit.
SPEED: Final = re.compile(
    r"(?i)\bspeed\b|throughput|geschwindigkeit|速度|吞吐|スループット|속도|скорость"
)
#: Memory and the time of a training, as headers in other languages call them.
MEMORY_ABROAD: Final = r"显存|speicher|m[eé]moire|mem[oó]ria|メモリ|메모리|памят"
_TRAINING_TIME_ABROAD: Final = (
    r"训练(?:时间|时长|耗时)|时长|(?:学習|訓練|トレーニング|実行)時間|(?:학습|훈련|실행)\s*시간|"
    r"(?:trainings?|lauf)(?:zeit|dauer)|(?:dur[eé]e|temps)\b.*entra[iî]nement|"
    r"(?:tiempo|duraci[oó]n)\b.*entrenamiento|tempo\b.*tre?inamento|время\s+обучения"
)
TIME_ABROAD: Final = (
    rf"{_TRAINING_TIME_ABROAD}|耗时|时间|時間|시간|zeit|dauer|dur[eé]e|duraci[oó]n|tiempo|время"
)
_MEMORY: Final = re.compile(
    rf"(?i)\bmem\b|memory|vram|gram\b|gpu ?ram|peak|pico|alloc|reserved|{MEMORY_ABROAD}"
)
#: What is held elsewhere, at another time, in part, or by nobody yet: no peak of a training.
_NO_PEAK: Final = re.compile(
    r"(?i)\bcpu\b|\brss\b|\bhost\b|\bsystem\b|\bsys\b|(?<!gpu )\bram\b|\bdisk\b|\bfile|"
    r"\bdata\W?set|\bcheckpoints?\b|\bckpts?\b|\bsav(?:ed|ing|ings)\b|\breduc|Δ|\bdelta\b|\bdiff|\bextra\b|"
    r"\boverhead\b|\bidle\b|\bcurrent(?:ly)?\b|\bbaseline\b|\bbefore\b|\bafter\b|\bkv\b|\bcached?\b|"
    r"\bactivations?\b(?!\W*(?:ckpt|check|recomp))|\bgradients?\b(?!\W*(?:ckpt|check|acc))|"
    r"\boptimi[sz]er|\bstates?\b(?!\W*tun)|\bweights?\b|\bparam|\bmodel\b|\badapter|\best(?:imat\w*)?\b|"
    r"\bpredict|\btheor|\bexpected\b|\brequire|\brecommend|\bmin(?:imum|imal)?\b|\bneed|\bfree\b|"
    r"\bheadroom\b|\bmargin\b|\bremaining\b|\bspare\b|余量|剩余|여유|"
    r"\bavailable\b|\bcapacity\b|\bcards?\b(?<!per card)|\bbudget\b|\blimit\b|\bspec|"
    r"\bfragment|\bload(?:ing|ed)?\b|\bbandwidth\b|节省|估计|预计|预期|最低|需要|内存(?!.*显存)|"
    r"arbeitsspeicher|m[eé]moire vive|\binit(?:ial(?:ly)?)?\b|\bstart(?:ing|up)?\b|"
    r"初始|初期|초기|начальн|训练前|加载|空载|闲置|理论|理論|推定|減|節約|降低|절감|절약|감소|эконом|ersparnis|einsparung|"
    r"[eé]conomi|ahorr|所需|必要|最小|推荐|建议|推奨|필요|최소|권장|минимальн|рекоменд|требуем|"
    r"mindest|benötigt"
)
#: What is no amount of memory and no time, unless a unit of memory says so: shares, watts, degrees.
SHARE_OR_POWER: Final = re.compile(
    r"(?i)utili[sz]ation|\butil\b|\bwatts?\b|\bpower\b|\btemp(?:erature)?\b|利用率|功耗|温度"
)
#: What a count of trained parameters is more or less by, against another run's.
OF_DIFFERENCE: Final = (
    r"\bextra\b|\badditional\b|\bmore\b|\bfewer\b|\bvs\b|Δ|\bdelta\b|\bdiff|\breduc"
)
_AT_PEAK: Final = re.compile(r"(?i)\bpeak|\bmax|\bhigh\W?water|\bpico\b|峰值|最大")
_IN_USE: Final = re.compile(r"(?i)peak|max|us(?:e|ed|age)\b|alloc|reserved|active|occup|占用|峰值")
#: Memory that is plainly a card's.
_OF_CARDS: Final = re.compile(r"(?i)\bv-?ram\b|\bgpu|\bcuda\b|\bdevice\b|显存|\bhbm\b")
#: Memory as torch counts it, which is a card's.
_OF_TORCH: Final = re.compile(r"(?i)\balloc|\breserved|\bactive")
#: Memory of all cards together, or all of a card's.
_TOTAL: Final = re.compile(
    r"(?i)\btotal\W*(?:gpu\W*)?(?:memory|mem|vram)\b|\b(?:memory|mem|vram)[ _.]total\b"
)
#: What nobody measured: what headings and prose call figures of a formula, or of advice.
_ESTIMATED: Final = re.compile(
    r"(?i)\best(?:\.|imat\w*)|\btheor(?:y|etical\w*)|\bpredict(?:ed|ions?)\b|\bexpected\b|"
    r"\bprojected\b|\bcalculat(?:ed|ions?|or)\b|\brequire(?:d|ments?)\b|\brecommend(?:ed|ations?)\b|"
    rf"\brule of thumb\b|{ESTIMATED_ABROAD}|推荐配置|"
    r"(?:显存|硬件|资源|配置)(?:需求|要求)|目安|必要|예상|권장|"
    r"sch[aä]tzung|theoretisch|\bestim[eé]|\bestimad|th[eé]ori|te[oó]ric|"
    r"\bespera[dn]|\bprevist[oa]|\battendu|erwartet|期待される|想定|अपेक्षित|"
    r"\brecomend|\brecommandé|empfohlen|推奨|\brequisit[oi]s?\b|\bexigences?\b|anforderung|要件|"
    r"요구 ?사항|оцен(?:к|оч)|теоретич|расч[её]т|ожида|рекоменд|требован"
)
_MEASURED: Final = re.compile(
    r"(?i)\bmeasur(?:ed|ements?)\b|\bactual\b|\bobserved\b|实测|実測|測定|실측|측정|измер|gemessen|mesur[eé]|medid[oa]"
)
#: What is told of a model that answers, and of no training.
_OF_ANSWERS: Final = re.compile(
    r"(?i)\bttft\b|\btpot\b|\bitl\b|\btime\W*to\W*first\W*token|\binter\W?token\b|"
    r"\bgreedy\b|\bbeam\b|\bprefill\b|\bdecod(?:e|ing)\b"
)
#: Columns of the cards that somebody needs, which need not be those that anything ran on.
_NEEDED_CARDS: Final = re.compile(
    r"(?i)\b(?:min(?:imum|imal)?|recommend\w*|required|suggested|needed)\b.*"
    r"\b(?:gpus?|cards?|hardware)\b"
    r"|\b(?:gpus?|cards?|hardware)\W*(?:required|recommend\w*|needed|requirements?)\b"
    r"|(?:推荐|建议|最低|所需).*(?:显卡|GPU|硬件)"
)
#: Figures of an evaluation; what else a model does has words of its own.
_EVALUATION: Final = re.compile(
    r"(?i)\beval\w*|\bvalid(?:ation)?\b|\bval\b|\bpredict(?:ion)?\b"
    r"|\btest(?:ing)?(?= speed| samples)"
)
#: Memory of cards on sale, in GB or GiB.
_SIZES_OF_CARDS: Final = frozenset(
    {6, 8, 12, 16, 24, 32, 40, 48, 64, 80, 94, 96, 128, 141, 144, 180, 192, 288}
)

#: What is counted, and of what; of a time, it is a rate.
_COUNT_OF: Final = re.compile(
    r"(?i)\b(?:tok\w*|samples?|seqs?|sequences?|examples?)\s*(?:per\b|/)\s*(?P<what>.*)"
)
_OF_TIME: Final = re.compile(
    r"(?i)\b(?:s|secs?|seconds?|ms|mins?|minutes?|h|hrs?|hours?|d|days?)\b|[秒分时時초]|сек|\u0441\b"
)
_STEP: Final = r"(?:steps?|its?|iters?|iterations?)"
_STEP_TIME: Final = re.compile(
    r"(?i)(?:(?:avg\.?|average|mean|median|max|min|p[0-9]+|global|train(?:ing)?|time|secs?|seconds?|"
    rf"ms|s|per|/)[ /]*)*{_STEP}[ /]*(?:time|duration|latency|secs?|seconds?|ms|s)?"
)
#: Time of something else than a step or the training, or of a part of them.
_OTHER_TIME: Final = re.compile(
    r"(?i)epoch|\beval|\bvalid|\btest|\binfer|\bload|\bsav(?:e|ed|ing)\b|checkpoint|\bckpt|compil|"
    r"\bstart|\binit|\bwarm|\bforward|\bbackward|\bfwd|\bbwd|latency|ttft|\bgpu\W*(?:h|day|time|min)"
    r"|\b(?:gpu|card|device)s?\b|\bcpu\b|\bdata|download|preproc|tokeni[sz]|\bcomm|optimi[sz]|"
    r"speed\W?up|reduc|Δ|\bdelta\b|\best(?:imat\w*)?\b|\beta\b|predict|expected|remaining|"
    r"\bmicro|first|\blayer|\btoken|generat|queue|\bwait|overhead|idle|推理|轮|评估|估计|估算|预估|预计|预期"
    r"|[eé]poca|[eé]poque|эпох|エポック|에폭|에포크|推論|추론|評価|평가|初始|加载|编译|初期化|초기화"
)
_WHOLE_TIME: Final = re.compile(
    r"(?i)\b(?:train\w*|total|wall|elapsed|overall|fine\W?tun\w*|run)\b.*(?:\btime\b|clock|duration|"
    r"\bhours?\b|\bh\b|\bmins?\b|\bminutes?\b|\bdays?\b)|\btrain(?:ing)?$|run\W?time|\bduration\b|"
    rf"\bwall\b|elapsed|{_TRAINING_TIME_ABROAD}"
)
#: A part of a step, or all of it but the optimizer's.
_PART_OF_STEP: Final = re.compile(
    r"(?i)(?<![^\W_])(?:(?:fwd|forward|bwd|backward)(?:\W*(?:\+|and|&)\W*(?:bwd|backward))?)"
    r"(?![^\W_])|前向|反向|順伝播|逆伝播"
)
_BARE_TIME: Final = re.compile(rf"(?i)\W*(?:time|hours?|h|minutes?|mins?|days?|{TIME_ABROAD})?\W*")
_BRACKETS: Final = re.compile(r"[(\[\uff08][^)\]\uff09]*[)\]\uff09]")


@dataclass(frozen=True)
class Doubt:
    """Why it is not sure what a column's figures measure.

    ``is_by_name`` says that the name speaks against the metric; else nothing but the unit speaks
    for it, which is enough for columns that are settings.
    """

    reason: str
    is_by_name: bool = True


_ONLY_UNIT: Final = Doubt("only the unit says what it measures", is_by_name=False)

#: What is said of percentages, whatever they are of.
SHARES: Final = Doubt("percentages, no amounts")


def doubt_of_context(texts: Sequence[str]) -> Doubt | None:
    """Return why the figures below a heading and some prose may be of no training at all."""
    text = " ".join(texts)
    if _TRAINING.search(text):
        return None
    found = NO_TRAINING.search(text)
    return None if found is None else Doubt(f"the text above is about {found[0]!r}, not training")


def doubt_of_estimates(texts: Sequence[str]) -> Doubt | None:
    """Return why the figures of a table may be measured by nobody; the nearest text decides.

    >>> doubt_of_estimates(["Estimated memory"]).reason
    "the text above says 'Estimated': measured, or not?"
    >>> doubt_of_estimates(["Peak memory, measured", "Memory estimates"])
    """
    for text in texts:
        found = _ESTIMATED.search(text)
        if found is not None:
            return Doubt(f"the text above says {found[0]!r}: measured, or not?")
        if _MEASURED.search(text):
            return None
    return None


def names_needed_cards(name: str) -> bool:
    """Return whether a column is of cards that are needed, not of those that a run had.

    >>> names_needed_cards("Recommended GPU"), names_needed_cards("GPU")
    (True, False)
    """
    return _NEEDED_CARDS.search(name) is not None


def doubt_of_needs(names: Sequence[str]) -> Doubt | None:
    """Return why the figures beside some columns may say what is needed, measured by nobody."""
    needed = next(filter(names_needed_cards, names), None)
    if needed is None:
        return None
    return Doubt(f"{needed!r} beside it is about what is needed: measured, or not?")


def doubt_of_answers(names: Sequence[str]) -> Doubt | None:
    """Return why figures beside some columns may be of a model that answers, not of a training.

    >>> doubt_of_answers(["Peak VRAM (GB)", "TTFT avg (ms)"]).reason
    "'TTFT' beside it is of a model that answers: of a training, or not?"
    """
    found = next(filter(None, map(_OF_ANSWERS.search, names)), None)
    if found is None:
        return None
    return Doubt(f"{found[0]!r} beside it is of a model that answers: of a training, or not?")


def says_training(name: str) -> bool:
    """Return whether a column says that it is of a training, whatever stands beside it."""
    return _TRAINING.search(name) is not None


def is_evaluation(name: str) -> bool:
    """Return whether a text is nothing but the name of an evaluation.

    >>> is_evaluation("**EVAL**"), is_evaluation("Eval loss")
    (True, False)
    """
    return _EVALUATION.fullmatch(name.strip(" *_`:")) is not None


def find_evaluation(name: str) -> Doubt | None:
    """Return why a column may be of an evaluation, not of the training.

    >>> find_evaluation("eval samples per second").reason
    "'eval': of an evaluation, not of the training?"
    """
    found = _EVALUATION.search(name)
    return found and Doubt(f"{found[0]!r}: of an evaluation, not of the training?")


def find_memory_doubt(name: str, numbers: Sequence[str]) -> Doubt | None:
    """Return why a column of memory may be no peak of a training; None where it plainly is one.

    >>> find_memory_doubt("KV cache (GB)", ["1.5"]).reason
    "'KV' is not the peak of a training run"
    """
    found = _NO_PEAK.search(name)
    if found is not None:
        return Doubt(f"{found[0]!r} is not the peak of a training run")
    total = _TOTAL.search(name)
    if total is not None and _IN_USE.search(name) is None:
        return Doubt(f"{total[0]!r}: what the card has, or what all cards used?")
    if name == "mb":
        return Doubt("'mb': micro-batches, or megabytes?")
    if _IN_USE.search(name) is None and numbers and all(map(_is_size_of_card, numbers)):
        return Doubt("these may be the sizes of the cards", is_by_name=False)
    return None if _MEMORY.search(name) else _ONLY_UNIT


def find_rate_doubt(name: str, *, is_rate: bool = False) -> Doubt | None:
    """Return why a column of counts may be no rate of a training, or none at all.

    Unless its unit says that it ``is_rate``, what it counts may be of no time.

    >>> find_rate_doubt("tok/step").reason, find_rate_doubt("tok/GPU/s")
    ("'tok/step' is of no time", None)
    """
    part = _PART_OF_STEP.search(name)
    if part is not None:
        return Doubt(f"{part[0]!r}: of a part of a step, not of a training step?")
    found = _COUNT_OF.search(name)
    if is_rate or found is None or not found["what"] or _OF_TIME.search(found["what"]):
        return None
    return Doubt(f"{found[0]!r} is of no time")


def doubt_of_memory_beside(name: str, names: Sequence[str]) -> Doubt | None:
    """Return why a column may be of the host's memory, or no peak: another plainly is.

    >>> doubt_of_memory_beside("Peak Mem", ["Peak Mem", "Peak VRAM"]).reason
    "beside 'Peak VRAM': the memory of the host, or of the cards?"
    >>> doubt_of_memory_beside("Reserved VRAM", ["Peak VRAM", "Reserved VRAM"]).reason
    "beside 'Peak VRAM': at its peak, or at another time?"
    """
    said, others = spoken(name), {other: spoken(other) for other in names}
    at_peak = [other for other, words in others.items() if _AT_PEAK.search(words)]
    if at_peak and not _AT_PEAK.search(said):
        return Doubt(f"beside {at_peak[0]!r}: at its peak, or at another time?")
    of_cards = [other for other, words in others.items() if _OF_CARDS.search(words)]
    if not of_cards or _OF_CARDS.search(said) or _OF_TORCH.search(said):
        return None
    return Doubt(f"beside {of_cards[0]!r}: the memory of the host, or of the cards?")


def doubt_of_own_memory(name: str) -> Doubt | None:
    """Return why memory in a list of what a machine has may be its own; None where it is in use.

    >>> doubt_of_own_memory("VRAM").reason
    "'VRAM': what the card has, or what a run used?"
    """
    is_used = _IN_USE.search(name) is not None
    return None if is_used else Doubt(f"{name!r}: what the card has, or what a run used?")


def doubt_of_second(first: str) -> Doubt:
    """Return why a time is in doubt beside another that looks like that of the whole run."""
    return Doubt(f"beside {first!r}: which of them is the run's?")


def _is_size_of_card(number: str) -> bool:
    return number.isdigit() and int(number) in _SIZES_OF_CARDS


def find_time_doubt(name: str, metric: str, unit: str | None) -> Doubt | None:
    """Return why a column of times may be of neither a step nor the training; None where it is.

    ``unit`` is the header's or the cells'.
    """
    found = _OTHER_TIME.search(name)
    if found is not None and _STEP_TIME.fullmatch(_without_unit(name)) is None:
        return Doubt(f"{found[0].strip()!r}: not clearly the time of a step or of the training")
    if metric == "sample_time" or is_step_time(name) or count_steps(name):
        return None
    if _WHOLE_TIME.search(_without_unit(name)):
        return None
    if _BARE_TIME.fullmatch(_without_unit(name)):
        is_short = unit in ("s", "ms", "us")
        return Doubt("the time of a step, or of the training?") if is_short else None
    return _ONLY_UNIT


def is_step_time(name: str) -> bool:
    """Return whether a header plainly names the time of a step.

    >>> is_step_time("Step (ms)"), is_step_time("Iter time (s)"), is_step_time("Time/1k steps")
    (True, True, False)
    """
    return _STEP_TIME.fullmatch(_without_unit(name)) is not None


def _without_unit(name: str) -> str:
    """Return a name without brackets, without what stands behind a comma, and without its unit."""
    bare = _BRACKETS.sub(" ", name).replace("_", " ").split(",")[0].strip()
    return re.sub(r"(?i)(?<=\w)\s+(?:in\s+)?(?:ms|s|secs?|seconds?)$", "", bare)
