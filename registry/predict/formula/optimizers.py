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


_ADAMW = Optimizer(values=2, in_place=False)
#: Two or one state of 8 bits, and their fp32 scales, one for 256 values (Dettmers et al. 2021).
_SCALE = 4 / 256
#: By name. AdamW keeps two moments; Adafactor a row and a column of its factored second moment
#: (Shazeer and Stern 2018), about a thousandth of the parameter; Lion and Muon one momentum; SGD
#: none. Paged states (bitsandbytes) are managed memory: runs of torchtune that train 7B and 70B in
#: full held none of them on the card.
OPTIMIZERS: dict[str, Optimizer] = {
    "adamw": _ADAMW,
    "adamw_torch": _ADAMW,
    "adamw_torch_fused": Optimizer(values=2),
    "adamw_hf": _ADAMW,
    "adamw_apex_fused": Optimizer(fixed_bytes=8),
    "adamw_8bit": Optimizer(fixed_bytes=2 + 2 * _SCALE),
    "paged_adamw_32bit": Optimizer(fixed_bytes=8, paged=True),
    "paged_adamw_8bit": Optimizer(fixed_bytes=2 + 2 * _SCALE, paged=True),
    "adafactor": Optimizer(values=0.001, in_place=False),
    "lion": Optimizer(values=1, in_place=False),
    "lion_8bit": Optimizer(fixed_bytes=1 + _SCALE),
    "paged_lion_32bit": Optimizer(fixed_bytes=4, paged=True),
    "paged_lion_8bit": Optimizer(fixed_bytes=1 + _SCALE, paged=True),
    "sgd": Optimizer(),
}


def check_optimizer(name: str) -> None:
    """Raise QuestionError for an optimizer whose state is not known here."""
    if name not in OPTIMIZERS:
        raise QuestionError(
            f"optimizer {name}: no measured run checks what it keeps, so it is not computed; "
            f"expected one of {', '.join(OPTIMIZERS)}"
        )


def state_bytes(question: Question, width: int) -> float:
    """Return the bytes that the optimizer keeps on the card of a parameter of ``width`` bytes."""
    kept = OPTIMIZERS[question.setting("optimizer")]
    return 0.0 if kept.paged else kept.values * width + kept.fixed_bytes


def updates_in_place(question: Question) -> bool:
    """Return whether the optimizer's step makes no temporary of the size of the parameters."""
    return OPTIMIZERS[question.setting("optimizer")].in_place
