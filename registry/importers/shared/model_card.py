"""The card that the Trainer writes beside a model: the hyperparameters of its run, one a line.

It leaves out what is 1: the devices of a run on one, and the accumulation of a run without. The
batch is that of a process, the total that of all.
"""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from registry.importers.shared.shapes import number_of, whole_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.importers.base import RunFile
    from registry.importers.shared.draft import Draft

_BEGIN: Final = "The following hyperparameters were used during training:"
_LINE: Final = re.compile(r"- (?P<name>[A-Za-z_]{1,40}):? (?P<value>\S.{0,300})")
_VERSIONS: Final = "### Framework versions"
#: Most lines of a card; a log has more.
_MOST_LINES: Final = 5000
#: Hyperparameters, and the columns they are.
_COUNTS: Final = {
    "train_batch_size": "micro_batch_size",
    "gradient_accumulation_steps": "grad_accum_steps",
    "total_train_batch_size": "global_batch_size",
    "training_steps": "n_steps",
}
_PACKAGES: Final = {
    "Transformers": "transformers_version",
    "Pytorch": "torch_version",
    "PEFT": "peft_version",
}
_REASON: Final = "the card of the model that the run wrote"


def read_card(file: RunFile) -> dict[str, str]:
    """Return the hyperparameters and versions that a card lists; none of a file that is no card."""
    is_short = file.kind == "text" and len(file.document) <= _MOST_LINES
    lines = [line.strip() for line in file.document] if is_short else []
    return _below(lines, _BEGIN) | _below(lines, _VERSIONS) if _BEGIN in lines else {}


def _below(lines: list[str], title: str) -> dict[str, str]:
    """Return the names and values of the list that follows a title."""
    if title not in lines:
        return {}
    rest = [line for line in lines[lines.index(title) + 1 :] if line]
    found = takewhile(bool, map(_LINE.fullmatch, rest))
    return {one["name"]: one["value"] for one in found if one}


def state_card(draft: Draft, card: Mapping[str, str]) -> None:
    """State what a card says of a run, where nothing else in its folder does."""
    for name, column in _COUNTS.items():
        draft.state(column, whole_of(card.get(name, "")), _REASON)
    if card.get("distributed_type") == "multi-GPU":
        draft.state("n_gpus", whole_of(card.get("num_devices", "")), _REASON)
    epochs = number_of(card.get("num_epochs"))
    draft.state("n_epochs", float(epochs) if epochs else None, _REASON)
    for name, column in _PACKAGES.items():
        if name in card and not draft.environment.get(column):
            draft.environment[column] = card[name]
