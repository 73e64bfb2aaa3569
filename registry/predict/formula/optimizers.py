"""What an optimizer keeps of each parameter that it trains."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from registry.errors import QuestionError

if TYPE_CHECKING:
    from registry.predict.question import Question


@dataclass(frozen=True)
class Optimizer:
    """State of one parameter."""

    #: Values of the width of the parameter, and bytes whatever its width is.
    values: float = 0.0
    fixed_bytes: float = 0.0
    #: Whether the state is in pageable memory, which the device's allocator does not hold.
    paged: bool = False
    #: Whether a step makes no temporary of the size of the parameters.
    in_place: bool = True
    #: fp32 copies of the parameter at work that a step makes, one parameter after the other.
    copies: int = 0
    #: States that embeddings keep in fp32 instead: transformers' Trainer asks bitsandbytes for 32
    #: bits there (`register_module_override` in its creation of the optimizer).
    wide_states: int = 0


_ADAMW = Optimizer(values=2, in_place=False)
#: Two or one state of 8 bits, and their fp32 scales, one for 256 values (Dettmers et al. 2021).
_SCALE = 4 / 256
_ADAMW_8BIT = Optimizer(fixed_bytes=2 + 2 * _SCALE, wide_states=2)
#: By name. AdamW keeps two moments, and so does Adam, of which it is a subclass in torch. Adafactor
#: keeps a row and a column of its factored second moment (Shazeer and Stern 2018), about a
#: thousandth of the parameter; Lion and Muon one momentum; SGD none. Paged states (bitsandbytes)
#: are managed memory: runs of torchtune that train 7B and 70B in full held none of them on the
#: card. A step of transformers' Adafactor holds the gradient, the parameter, the update and its
#: square in fp32, of one parameter at a time (`Adafactor.step`).
OPTIMIZERS: dict[str, Optimizer] = {
    "adam": _ADAMW,
    "adam_8bit": _ADAMW_8BIT,
    "adamw": _ADAMW,
    "adamw_torch": _ADAMW,
    "adamw_torch_fused": Optimizer(values=2),
    "adamw_hf": _ADAMW,
    "adamw_apex_fused": Optimizer(fixed_bytes=8),
    "adamw_8bit": _ADAMW_8BIT,
    "paged_adamw_32bit": Optimizer(fixed_bytes=8, paged=True),
    "paged_adamw_8bit": Optimizer(fixed_bytes=2 + 2 * _SCALE, paged=True),
    "adafactor": Optimizer(values=0.001, copies=4),
    "lion": Optimizer(values=1, in_place=False),
    "lion_8bit": Optimizer(fixed_bytes=1 + _SCALE, wide_states=1),
    "paged_lion_32bit": Optimizer(fixed_bytes=4, paged=True),
    "paged_lion_8bit": Optimizer(fixed_bytes=1 + _SCALE, paged=True),
    "sgd": Optimizer(),
}


def check_optimizer(name: str) -> None:
    """Raise QuestionError for an optimizer whose state is not known here."""
    if name not in OPTIMIZERS:
        raise QuestionError(
            f"optimizer {name}: no measured run verifies its memory, so it is not computed; "
            f"expected one of {', '.join(OPTIMIZERS)}"
        )


def state_bytes(question: Question, width: int) -> float:
    """Return the bytes that the optimizer keeps on the card of a parameter of ``width`` bytes."""
    kept = OPTIMIZERS[question.setting("optimizer")]
    return 0.0 if kept.paged else kept.values * width + kept.fixed_bytes


def embedding_bytes(question: Question) -> float:
    """Return the bytes that the optimizer keeps of an embedding's parameter beyond another's."""
    kept = OPTIMIZERS[question.setting("optimizer")]
    return 4 * kept.wide_states - kept.fixed_bytes if kept.wide_states else 0.0


def step_copies(question: Question) -> int:
    """Return the fp32 copies that the optimizer's step makes of the parameter at work."""
    return OPTIMIZERS[question.setting("optimizer")].copies


def updates_in_place(question: Question) -> bool:
    """Return whether the optimizer's step makes no temporary of the size of the parameters."""
    return OPTIMIZERS[question.setting("optimizer")].in_place
