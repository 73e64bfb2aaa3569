"""What a question leaves open: the settings it may mean, weighed by how often they occur.

A setting that nobody stated is not a fact. For each, there are a few plausible values; their
weights are how often the records have them for the same kind of training, each source counting the
same. A question stands for all their combinations.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from itertools import product
from math import log
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from registry.predict.calibration.fit_rows import measured_terms
from registry.predict.formula.adapters import DEFAULT_TARGETS
from registry.predict.formula.optimizers import OPTIMIZERS
from registry.predict.formula.state import HALF_BYTES, compute_bytes
from registry.predict.formula.term import total
from registry.predict.sharding import ANY_FSDP

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from registry.predict.calibration.runs import ObservedRun
    from registry.predict.question import Question

#: Values of a setting with their weights, which add up to 1, the likeliest first.
Choices = tuple[tuple[Any, float], ...]

#: Tokens of the longest sample where samples fill a sequence of any length.
FILLED: Final = 2**30
#: Tokens that the longest samples of most data reach.
_SHORT: Final = 1024
#: Part of the limit that all samples may stay below where they are said to vary.
_PART: Final = 4

#: Settings that are counted: what is plausible, each value as many times as `_START` sources.
_COUNTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "gradient_checkpointing": (True, False),
    "optimizer": ("adamw", "adamw_8bit"),
    "param_dtype": ("bf16", "fp32"),
    "double_quant": (True, False),
    "adapters": ((8, ("q_proj", "v_proj")), (16, ("all-linear",)), (64, ("all-linear",))),
}
#: Settings that are named mostly where they are not the usual ones, so that counting would mislead:
#: judgement of how often those who say nothing mean each.
_FIXED: Final[Mapping[str, Choices]] = {
    "attention": (("flash2", 0.93), ("eager", 0.07)),
    "loss_kernel": (("whole", 0.9), ("chunked", 0.05), ("liger", 0.05)),
    "longest_sample": ((FILLED, 0.8), (_SHORT, 0.2)),
    # bitsandbytes quantizes modules: what holds the experts of a layer in one tensor is none
    "quantized_experts": ((True, 0.7), (False, 0.3)),
    "vocab_size": ((151_936, 0.4), (32_000, 0.4), (262_144, 0.2)),
}
#: Dtypes of trained weights under FSDP: accelerate holds them in fp32 whatever was loaded, which
#: few say of their runs; others hold them as they were loaded. What a stack's runs say goes before.
_UNDER_FSDP: Final[Choices] = (("fp32", 0.6), ("bf16", 0.4))
_OF_FSDP: Final = ("full under FSDP", "param_dtype")
_SETTINGS: Final = (*_COUNTED, *_FIXED)
#: What cards run that FlashAttention does not run on: it keeps the same tensors.
_OLD_CARDS: Final = {"flash2": "sdpa"}
#: Of these, what a stack's own runs have.
_ON_STACK: Final = ("attention", "loss_kernel")
#: Weight of what a stack was measured with, where it is named: the rest is what is usual elsewhere.
OWN_SHARE: Final = 0.8
_EVERYTHING: Final = ("all-linear",)
#: Values of a setting that a stack adds to the usual ones, at most.
_MOST_VALUES: Final = 3
#: What counting starts from, in sources: a value that nobody states is still possible.
_START: Final = 1.5
#: Dtypes of one width.
SAME_WIDTH: Final[Mapping[str, str]] = {"fp16": "bf16", "tf32": "fp32"}
#: Words that mean the same to the formula.
_SAME: Final[Mapping[str, Mapping[Any, Any]]] = {
    "optimizer": {"paged_adamw_8bit": "adamw_8bit", "lion_8bit": "adamw_8bit"},
    "param_dtype": SAME_WIDTH,
}
#: What any other value of a setting stands for.
_ELSE: Final[Mapping[str, Any]] = {"optimizer": "adamw"}
#: From this many ranks on, adapters count as large ones.
_RANKS: Final = (12, 40)
#: Weight below which a combination is left out.
_LEAST: Final = 0.004
#: Deviation by which the formula is taken to be off where settings are read off a measured peak.
OFF: Final = 0.25


class Plausible(NamedTuple):
    """One way to complete a question, and how likely it is."""

    weight: float
    question: Question
    #: Settings with the value that it has of them, if it were met often enough with that stated.
    given: Mapping[str, Any] = MappingProxyType({})
    #: The stack that it means, which is not that of the question where none is named.
    stack: str | None = None


@dataclass(frozen=True)
class Usual:
    """How often settings occur, by kind of training and setting."""

    choices: Mapping[tuple[str, str], Choices]

    def of(self, question: Question, setting: str) -> Choices:
        """Return the values of a setting for the kind of training that is asked about."""
        if setting == "adapters":
            return _adapters_of(question, self.choices[kind_of(question), setting])
        if setting == "vocab_size":
            return _vocabularies_of(question)
        if setting == "longest_sample":
            (filled, often), (_, seldom) = _FIXED[setting]
            return ((filled, often), (_short_of(question), seldom))
        found = self._of_kind(_counted_as(question, setting))
        if setting == "attention" and question.gpu and question.gpu.is_before_ampere:
            return tuple((_OLD_CARDS.get(value, value), weight) for value, weight in found)
        return found

    def on_stack(self, runs: Iterable[Question]) -> Usual:
        """Return how often the settings occur on a stack, ``runs`` being its measured ones.

        Kinds of training that it has no run of stay as they are.
        """
        counts: dict[tuple[str, str], Counter[Any]] = defaultdict(Counter)
        for run in runs:
            for setting in (*_COUNTED, *_ON_STACK):
                value = _as_plausible(run, setting)
                if value is not None:
                    counts[_counted_as(run, setting)][value] += 1
        return Usual({**self.choices, **{key: self._mixed(key, counts[key]) for key in counts}})

    def _of_kind(self, key: tuple[str, str]) -> Choices:
        return self.choices.get(key) or (_UNDER_FSDP if key == _OF_FSDP else _FIXED[key[1]])

    def _mixed(self, key: tuple[str, str], counter: Counter[Any]) -> Choices:
        weights: dict[Any, float] = defaultdict(float)
        for value, weight in self._of_kind(key):
            weights[value] = (1 - OWN_SHARE) * weight
        common = counter.most_common(_MOST_VALUES)
        for value, count in common:
            weights[value] += OWN_SHARE * count / sum(n for _, n in common)
        return _ordered(weights)


def _as_plausible(run: Question, setting: str) -> Any:
    """Return the value of a setting that a measured run has, as it is asked about, or None."""
    if setting == "attention":
        return "eager" if run.setting(setting) == "eager" else "flash2"
    if setting == "double_quant":  # Unsloth's say it by what they are
        return run.doubles if run.has_constants and not run.may_double else None
    if setting == "param_dtype":  # as it is, since runs of a stack are alike by it
        return None if run.quantized else run.param_dtype
    if setting == "adapters":
        everything = run.changed(lora_target_modules=_EVERYTHING)
        is_all = not run.full and run.targeted == everything.targeted
        adapters = (run.lora_rank, _EVERYTHING if is_all else run.lora_target_modules)
        return None if run.full or None in adapters else adapters
    return _stated(run, setting) if setting in _COUNTED else getattr(run, setting)


def meaning_of(question: Question, setting: str) -> Any:
    """Return what a question has of a setting as answers tell it apart, however it is spelled."""
    match setting:
        case "adapters":
            return question.setting("lora_rank"), question.targeted or frozenset(DEFAULT_TARGETS)
        case "attention":
            return _as_plausible(question, setting)
        case "optimizer":
            return OPTIMIZERS[question.setting(setting)]
    return spell(question, setting)


def spell(question: Question, setting: str) -> Any:
    """Return what a question has of a setting, stated or not, as a value of that setting."""
    match setting:
        case "adapters":
            modules = question.lora_target_modules or DEFAULT_TARGETS
            return _as_plausible(question, setting) or (question.setting("lora_rank"), modules)
        case "param_dtype":
            return question.held_dtype
        case "longest_sample":
            return question.longest
        case "double_quant":
            return question.doubles
        case "vocab_size":
            return question.model.vocab_size
    return question.setting(setting)


def _adapters_of(question: Question, choices: Choices) -> Choices:
    """Return ranks and target modules, the one that the question states in place of all others."""
    weights: dict[Any, float] = defaultdict(float)
    for (rank, targets), weight in choices:
        modules = question.lora_target_modules or targets
        weights[question.lora_rank or rank, modules] += weight
    return tuple(sorted(weights.items(), key=lambda item: -item[1]))


def _vocabularies_of(question: Question) -> Choices:
    """Return the vocabularies that a model of its size may have: embeddings are not most of it."""
    choices = _FIXED["vocab_size"]
    row = question.model.hidden_size
    kept = [(size, w) for size, w in choices if 4 * size * row <= question.model.n_params]
    whole = sum(weight for _, weight in kept)
    return tuple((size, w / whole) for size, w in kept) or ((question.model.vocab_size, 1.0),)


def _counted_as(question: Question, setting: str) -> tuple[str, str]:
    """Return by what a setting of a question is counted: its kind, or that FSDP shards it."""
    sharded = question.full and question.sharding in ANY_FSDP
    return _OF_FSDP if sharded and setting == _OF_FSDP[1] else (kind_of(question), setting)


KINDS: Final = ("full", "adapters", "quantized")


def kind_of(question: Question) -> str:
    """Return the kind of training whose settings are alike."""
    if question.full:
        return "full"
    return "quantized" if question.quantized else "adapters"


def count_usual(observations: Iterable[ObservedRun]) -> Usual:
    """Return how often the plausible settings occur, each source counting the same."""
    counts: dict[tuple[str, str], dict[str, Counter[Any]]] = defaultdict(
        lambda: defaultdict(Counter)
    )
    for seen in observations:
        stated = seen.asked or seen.question
        for setting in _COUNTED:
            value = _stated(stated, setting)
            if value is not None:
                counts[kind_of(stated), setting][seen.source_id][value] += 1
    return Usual(
        {
            (kind, setting): _weigh(setting, counts[kind, setting])
            for kind in KINDS
            for setting in _COUNTED
        }
    )


def _weigh(setting: str, by_source: Mapping[str, Counter[Any]]) -> Choices:
    weights = dict.fromkeys(_COUNTED[setting], _START)
    for counter in by_source.values():
        for value, count in counter.items():
            weights[value] += count / counter.total()
    return _ordered(weights)


def _ordered(weights: Mapping[Any, float]) -> Choices:
    whole = sum(weights.values())
    ordered = sorted(weights.items(), key=lambda item: (-item[1], str(item[0])))
    return tuple((value, weight / whole) for value, weight in ordered)


def _stated(question: Question, setting: str) -> Any:
    """Return the plausible value that a question states of a setting, or None."""
    if setting == "adapters":
        return _stated_adapters(question)
    value = getattr(question, setting)
    if value is None or (setting == "param_dtype" and question.quantized):
        return None
    value = _SAME.get(setting, {}).get(value, value)
    return value if value in _COUNTED[setting] else _ELSE.get(setting)


def _stated_adapters(question: Question) -> Any:
    if question.full or question.lora_rank is None:
        return None
    small, middle, large = _COUNTED["adapters"]
    if question.lora_rank < _RANKS[0]:
        return small
    return middle if question.lora_rank < _RANKS[1] else large


def open_settings(question: Question) -> tuple[str, ...]:
    """Return the settings that matter to the question and that it does not state."""
    return tuple(setting for setting in _SETTINGS if _is_open(question, setting))


def _short_of(question: Question) -> int:
    """Return the tokens that the longest sample may have, if none is as long as the limit."""
    if question.length_distribution != "variable":
        return _SHORT
    return min(_SHORT, max(question.seq_len // _PART, 1))


def _is_open(question: Question, setting: str) -> bool:
    if setting == "adapters":
        is_told = question.full or question.trainable_params
        return not is_told and bool(open_fields(question, setting))
    if setting == "param_dtype":
        is_wide = compute_bytes(question) > HALF_BYTES  # which weights of 16 bits are not
        told = question.param_dtype or is_wide or question.quantized
        return not told and not question.deepspeed
    if setting == "longest_sample":
        return not question.says_how_long and question.seq_len > _short_of(question)
    of_model = {
        "vocab_size": question.model.open_vocabulary,
        "quantized_experts": question.may_leave_experts,
        "double_quant": question.may_double,
    }
    if setting in of_model:
        return of_model[setting]
    if setting == "optimizer":
        return question.optimizer is None and (question.full or question.trains_embeddings)
    return getattr(question, setting) is None


def fields_of(question: Question, setting: str, value: Any) -> dict[str, Any]:
    """Return the fields of a question that a value of a setting stands for."""
    if setting == "vocab_size":
        return {"model": question.model.with_vocabulary(value)}
    if setting != "adapters":
        return {setting: value}
    named = dict(zip(_ADAPTERS, value, strict=True))
    return {name: named[name] for name in open_fields(question, setting)}


def open_fields(question: Question, setting: str) -> list[str]:
    """Return the fields that an open setting stands for.

    A rank or target modules that the question states stay as they are.
    """
    if setting == "vocab_size":
        return ["model"]
    if setting != "adapters":
        return [setting]
    return [name for name in _ADAPTERS if getattr(question, name) is None]


#: The fields of a question that say what its adapters are.
_ADAPTERS: Final = ("lora_rank", "lora_target_modules")


def complete(question: Question, usual: Usual, *, cases: bool = False) -> list[Plausible]:
    """Return the combinations of what a question leaves open, the likeliest first.

    Weights add up to 1. A combination that cannot be, or is hardly ever met, is left out; with
    ``cases``, only if it would be as well where one of its values is stated.
    """
    settings = open_settings(question)
    found = []
    for values in product(*(usual.of(question, setting) for setting in settings)):
        weight = 1.0
        changed: dict[str, Any] = {}
        for setting, (value, share) in zip(settings, values, strict=True):
            weight *= share
            changed |= fields_of(question, setting, value)
        given = {
            setting: value
            for setting, (value, share) in zip(settings, values, strict=True)
            if cases and weight >= _LEAST * share
        }
        if weight >= _LEAST or given:
            found.append(Plausible(weight, question.changed(**changed), given))
    whole = sum(one.weight for one in found)
    found.sort(key=lambda one: -one.weight)
    return [one._replace(weight=one.weight / whole) for one in found]


def complete_like(question: Question, run: Question) -> Question:
    """Return the question with what it leaves open as a run has it."""
    return question.changed(**_as_in(run, question))


def _as_in(run: Question, question: Question) -> dict[str, Any]:
    """Return the fields that a question leaves open, as a run has them."""
    return {
        name: getattr(run, name)
        for setting in open_settings(question)
        for name in open_fields(question, setting)
    }


def settle(observations: Iterable[ObservedRun], usual: Usual) -> list[ObservedRun]:
    """Return runs with the settings that they leave open as peaks and what is usual make likeliest.

    Runs of one source, model and kind of training that leave the same things open are taken to
    have them alike. Only for learning: what is asked about has no peak to read settings off.
    """
    seen = [(_settled_with(one), one) for one in observations]
    alike: dict[Any, list[ObservedRun]] = defaultdict(list)
    for key, one in seen:
        alike[key].append(one)
    likeliest = {key: _likeliest(runs, usual) for key, runs in alike.items()}
    return [replace(one, settled=likeliest[key]) for key, one in seen]


def _settled_with(seen: ObservedRun) -> Any:
    """Return what runs have in common that have what they leave open alike."""
    asked = seen.question
    settings = open_settings(asked)
    left = tuple((_counted_as(asked, name), *open_fields(asked, name)) for name in settings)
    old = asked.gpu is not None and asked.gpu.is_before_ampere
    return seen.source_id, kind_of(asked), asked.method, asked.model.model_id, left, old


def _likeliest(runs: Sequence[ObservedRun], usual: Usual) -> dict[str, Any] | None:
    """Return what some runs leave open alike as all of their peaks make it likeliest.

    None where all is stated.
    """
    first = runs[0].question
    if not open_settings(first):
        return None
    measured = [one for one in runs if one.measured_memory]

    def chance(one: Plausible) -> float:
        values = _as_in(one.question, first)
        misses = sum(_miss(seen.question.changed(**values), seen) for seen in measured)
        return max(len(measured), 1) * log(one.weight) - misses

    return _as_in(max(complete(first, usual), key=chance).question, first)


def _miss(question: Question, seen: ObservedRun) -> float:
    """Return how unlikely a peak is by what the formula says of a question."""
    formula = total(measured_terms(question, seen.memory_kind))
    return 0.5 * (log((seen.peak_bytes or 1.0) / formula) / OFF) ** 2


def pack_usual(usual: Usual) -> dict[str, Any]:
    """Return it as plain JSON."""
    packed: dict[str, Any] = {}
    for (kind, setting), choices in usual.choices.items():
        packed.setdefault(kind, {})[setting] = [[value, round(w, 6)] for value, w in choices]
    return packed


def unpack_usual(packed: Mapping[str, Any]) -> Usual:
    """Return what `pack_usual` has packed."""
    return Usual(dict(_unpacked(packed)))


def _unpacked(packed: Mapping[str, Any]) -> Iterator[tuple[tuple[str, str], Choices]]:
    for kind, settings in packed.items():
        for setting, choices in settings.items():
            yield (kind, setting), tuple((_hashable(value), w) for value, w in choices)


def _hashable(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_hashable(item) for item in value)
    return value
