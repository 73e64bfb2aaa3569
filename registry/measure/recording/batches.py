"""Count the tokens and samples of the batches a job really trains on."""

from __future__ import annotations

import weakref
from collections import Counter
from dataclasses import dataclass, field, fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Dimensions of a batch of token ids, and of a mask over it: samples and positions.
_BATCH_DIMENSIONS = 2


@dataclass
class Batches:
    """What is known of the lengths of a job's sequences; sums stay on the device until asked for.

    A step's ``tokens`` are the positions that no attention mask hides, padding left out.
    """

    #: The most samples that a micro-batch of each width had.
    widths: dict[int, int] = field(default_factory=dict)
    is_padded: bool = False
    #: Whether there was a mask that may hide positions, and does not say which.
    is_masked: bool = False
    #: Whether some batch's sequences were laid end to end in one row.
    is_flat: bool = False
    #: Whether some batch had further sequences, of pairs or of a decoder, that are not looked at.
    has_others: bool = False
    #: Whether rows are samples; else they may be positions, and only tokens can be counted.
    has_samples_first: bool = True
    #: How often a micro-batch had so many samples, and a step so many micro-batches; 0: unknown.
    sizes: Counter[int] = field(default_factory=Counter)
    per_step: Counter[int] = field(default_factory=Counter)
    #: Whether the step that goes on passes a batch again, or with other weights, as SAM does: its
    #: passes are not accumulated.
    is_repeating: bool = False
    #: Steps of which it cannot be told what a pass was: a micro-batch, or a part or view of one.
    _n_unclear: int = 0
    _has_several_rows: bool = False
    _waiting: list[tuple[int | None, int | None, Any]] = field(default_factory=list)
    #: How many micro-batches had entered the model at each gradient of the step that goes on.
    _n_before: list[int] = field(default_factory=list)
    _seen: list[weakref.ref[Any]] = field(default_factory=list)
    _seen_before: list[weakref.ref[Any]] | None = None

    def add(self, inputs: Any, n_samples: int | None = None) -> None:
        """Note a micro-batch as it enters the model; the device is not waited for.

        ``n_samples`` is how many samples it is meant to have: a batch of one row that holds them
        all is flat, and one of twice as many rows holds pairs. One row with a mask over it, or
        after batches of several rows, is the one sample that was left at the end of the data.
        """
        ids, mask = find_ids(inputs)
        if ids is None:
            self._add_labels(inputs)
            return
        self._look_for_repetition(ids)
        self.has_others |= _has_other_sequences(inputs, ids)
        n_rows, width = ids.shape[:_BATCH_DIMENSIONS]
        n_found, n_positions = n_rows, n_rows * width
        is_row_of_several = n_samples is not None and n_samples > 1 and n_rows == 1
        if is_row_of_several and mask is None and not self._has_several_rows:
            n_found, self.is_flat = n_samples, True
            width //= n_samples
        elif n_samples is not None and n_rows == 2 * n_samples:
            n_found = n_samples
        self._has_several_rows |= n_rows > 1
        visible = None if mask is None else mask.sum()
        if mask is None and _has_other_mask(inputs, ids):
            self.is_masked, n_positions = True, None
        if not self.has_samples_first:
            self._waiting.append((None, n_positions, visible))
            return
        self.widths[width] = max(n_found, self.widths.get(width, 0))
        self.sizes[n_found] += 1
        self._waiting.append((n_found, n_positions, visible))

    def _look_for_repetition(self, ids: Any) -> None:
        """Note that a step passes the same again; one batch in all steps may stand for any."""
        if self._seen_before is not None and not _holds(self._seen_before, ids):
            self.is_repeating |= _holds(self._seen, ids)
        self._seen.append(weakref.ref(ids))

    def _add_labels(self, inputs: Any) -> None:
        """Count the samples of a batch of images or sounds by what they are labelled with."""
        named = inputs if hasattr(inputs, "get") else {}
        shape = getattr(named.get("labels"), "shape", ())
        others = [value for name, value in named.items() if name != "labels"]
        is_for_each = any(_is_float(each) and each.shape[:1] == shape[:1] for each in others)
        if shape and is_for_each and self.has_samples_first:
            self.sizes[shape[0]] += 1
            self._waiting.append((shape[0], None, None))

    def note_gradient(self) -> None:
        """Note that a gradient was found, from all that entered the model since the last one."""
        if self.is_open:
            self._n_before.append(len(self._waiting))

    @property
    def is_open(self) -> bool:
        """Whether something entered the model since the last gradient."""
        return len(self._waiting) > (self._n_before[-1] if self._n_before else 0)

    @property
    def are_clear(self) -> bool:
        """Whether most steps show what a micro-batch is."""
        return 2 * self._n_unclear <= sum(self.per_step.values())

    @property
    def n_waiting(self) -> int:
        """The micro-batches of the step that goes on."""
        return len(self._waiting)

    def take(self) -> tuple[int | None, int | None]:
        """Return tokens and samples since the last call; call it once the device has caught up."""
        if not self._waiting:
            return None, None
        is_clear = self._close_step()
        n_tokens = n_samples = 0
        has_tokens = all(positions is not None for _, positions, _ in self._waiting)
        for samples, positions, visible in self._waiting:
            tokens = (positions or 0) if visible is None else int(visible)
            self.is_padded |= tokens != (positions or 0)
            n_tokens += tokens
            n_samples += samples or 0
        self._waiting.clear()
        if not is_clear:
            return None, None
        return n_tokens if has_tokens else None, n_samples if self.has_samples_first else None

    def _close_step(self) -> bool:
        """Count the micro-batches of a step; return whether each was one pass.

        Without a gradient that was noted, each is taken for one.
        """
        n_passes = len(self._waiting)
        is_clear = self._n_before in ([], [*range(1, n_passes + 1)]) and not self.is_repeating
        self._n_unclear += not is_clear
        n_found = len(self._n_before) or n_passes
        self.per_step[0 if self.is_repeating else n_found] += 1
        self._n_before, self.is_repeating = [], False
        self._seen_before, self._seen = self._seen, []
        return is_clear

    @property
    def longest(self) -> int | None:
        """Tokens of the longest sequence that entered the model, where that is known.

        Not where it was in smaller micro-batches alone: one of as many as the others had would have
        taken more than any that was seen.
        """
        if self.is_flat or self.has_others or not self.widths:
            return None
        longest = max(self.widths)
        return longest if self.widths[longest] == max(self.widths.values()) else None

    def read_length(self, limit: int | None = None) -> dict[str, Any]:
        """Return the columns ``seq_len``, ``length_distribution`` and ``padding_free``.

        ``limit`` is the longest sequence that the job allows.
        """
        if not self.widths:
            return {}
        row: dict[str, Any] = {"padding_free": True} if self.is_flat else {}
        is_full = len(self.widths) == 1 and not self.is_padded
        if is_full and not (self.is_flat and limit not in (None, *self.widths)):
            known = {} if self.is_masked else {"length_distribution": "full"}
            return {**row, "seq_len": max(self.widths), **known}
        longest = max(*self.widths, limit or 0)
        if self.is_flat and limit is None:  # a row's share is no sequence's length
            return {**row, "length_distribution": "variable"}
        return {**row, "seq_len": longest, "length_distribution": "variable"}


#: Names of token ids among a batch's parts, the most common first.
_IDS = ("input_ids", "tokens", "idx", "input", "x", "inputs_embeds", "completion_input_ids")


#: How the names of whole numbers end that are no ids of what the model reads.
_NO_IDS = ("mask", "label", "labels", "target", "targets")


def merge_arguments(arguments: tuple[Any, ...], named: dict[str, Any] | None) -> dict[Any, Any]:
    """Return what a model was called with by name; by place what was given without one.

    A batch that is handed over as one mapping, or as an object with fields, counts by its own
    names, and one that is a tuple as if its parts had been handed over one by one.
    """
    if len(arguments) == 1 and type(arguments[0]) is tuple:
        (arguments,) = arguments
    named = named or {}
    is_named = not any(hasattr(part, "ndim") for part in (*arguments, *named.values()))
    parts = (*arguments, *named.values()) if is_named else arguments
    batch = next(filter(None, map(_read_names, parts)), {})
    return {**dict(enumerate(arguments)), **batch, **named}


def _read_names(part: Any) -> Mapping[str, Any]:
    """Return the parts of a batch by their names; empty where it has none."""
    if hasattr(part, "get"):
        return cast("Mapping[str, Any]", part)
    if is_dataclass(part) and not hasattr(part, "shape"):
        return {each.name: getattr(part, each.name) for each in fields(part)}
    return cast("Mapping[str, Any]", part._asdict()) if hasattr(part, "_asdict") else {}


def find_ids(inputs: Any) -> tuple[Any, Any]:
    """Return the token ids of a batch, and the mask over them where there is one.

    ``inputs`` is a mapping by name, or what a model was called with, in order.
    """
    named = inputs if hasattr(inputs, "get") else {}
    if not named and isinstance(inputs, list | tuple):
        named = merge_arguments(tuple(inputs), None)
    for name in (*_IDS, *named):
        ids = named.get(name)
        if ids is not None and _is_batch(ids, name):
            mask = named.get("attention_mask")
            shape = ids.shape[:_BATCH_DIMENSIONS]
            is_mask = mask is not None and getattr(mask, "shape", None) == shape
            return ids, mask if is_mask else None
    return _find_pairs(named)


def _holds(seen: list[weakref.ref[Any]], ids: Any) -> bool:
    return any(each() is ids for each in seen)


def _has_other_mask(inputs: Any, ids: Any) -> bool:
    """Return whether something hides positions in a way of its own, none of the usual mask's."""
    named = inputs if hasattr(inputs, "items") else {}
    return any(
        str(name).endswith("padding_mask")
        or (name == "attention_mask" and hasattr(value, "shape"))
        or (str(getattr(value, "dtype", "")) == "torch.bool" and value.shape == ids.shape[:2])
        for name, value in named.items()
        if value is not None
    )


def _has_other_sequences(inputs: Any, ids: Any) -> bool:
    """Return whether a batch has sequences beside its ids: those of pairs, or longer ones to learn.

    What is learned from an encoder's text is a text of its own; in all other models it is no longer
    than what is read.
    """
    named = inputs if hasattr(inputs, "items") else {}
    return any(
        "input_ids" in str(name) or (name == "labels" and value.shape[1] > ids.shape[1])
        for name, value in named.items()
        if value is not ids and getattr(value, "ndim", 0) == _BATCH_DIMENSIONS
    )


def _is_float(value: Any) -> bool:
    return hasattr(value, "is_floating_point") and bool(value.is_floating_point())


def _is_batch(value: Any, name: Any) -> bool:
    """Return whether a value is whole numbers by sample and position, or embeddings of them."""
    n_dimensions = getattr(value, "ndim", 0)
    if name == "inputs_embeds":
        return n_dimensions == _BATCH_DIMENSIONS + 1
    if n_dimensions != _BATCH_DIMENSIONS or not hasattr(value, "is_floating_point"):
        return False
    return not value.is_floating_point() and not str(name).endswith(_NO_IDS)


def _find_pairs(named: Any) -> tuple[Any, Any]:
    """Return the first ids of a batch of pairs, such as ``chosen_input_ids``."""
    names = [name for name in named if str(name).endswith("input_ids")]
    for name in names:
        if getattr(named[name], "ndim", 0) == _BATCH_DIMENSIONS:
            return named[name], named.get(str(name).replace("input_ids", "attention_mask"))
    return None, None
