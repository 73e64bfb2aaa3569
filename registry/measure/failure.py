"""What an exception says of a training job: out of memory or not, and in which part of it."""

from __future__ import annotations

import errno
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

#: Longest part of an exception's text that is kept.
_HEAD_CHARACTERS = 300

#: Texts by which allocators say that memory ran out, in lower case. Torch raises a plain
#: RuntimeError for the host's memory and for libraries on the device.
_OOM_TEXTS = (
    "out of memory",
    "can't allocate memory",
    "cannot allocate memory",
    "not enough memory",
    "unable to allocate",
    "cublas_status_alloc_failed",
    "cudnn_status_alloc_failed",
    "std::bad_alloc",
    "memoryerror",
)

#: Texts of those who do not say that memory was what they lacked, in lower case: OpenMP for the
#: stack of a thread, oneDNN for what it computes with, the loader for a library. In a process whose
#: memory is limited the limit is the likely reason.
_LIMIT_TEXTS = (
    "thread creation failed",
    "could not create a primitive",
    "failed to map segment from shared object",
)

#: Functions whose presence in the traceback tells the phase, the most telling first: a recomputed
#: forward pass belongs to the backward pass, and evaluation has a forward pass of its own.
_PHASES = (
    ("save", re.compile(r"^(_save_checkpoint|save_model|save_pretrained)$")),
    ("evaluate", re.compile(r"^(evaluate|evaluation_loop|prediction_step|predict)$")),
    ("backward", re.compile(r"^(backward|_engine_run_backward)$")),
    ("optimizer_step", re.compile(r"^(optimizer_step|step)$")),
    ("forward", re.compile(r"^(forward|compute_loss|_call_impl)$")),
)


@dataclass(frozen=True)
class Failure:
    """How a job ended other than well."""

    outcome: str
    detail: str
    phase: str | None = None


def classify_failure(error: BaseException, *, training: bool, quoted: bool = True) -> Failure:
    """Return the outcome, phase and head of an exception.

    ``training`` tells whether the first step had begun; before it, the phase is ``load``. Unless
    ``quoted``, an exception's text is kept only where it is an allocator's: any other may hold
    whatever the user's own program was told.
    """
    if isinstance(error, KeyboardInterrupt | SystemExit):
        outcome = "interrupted"
    elif is_out_of_memory(error):
        outcome = "oom"
    else:
        outcome = "error"
    phase = find_phase(error.__traceback__) if training else "load"
    is_kept = quoted or outcome == "oom"
    return Failure(outcome, format_head(error) if is_kept else format_kind(error), phase)


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an exception, or one that it was raised from, says that memory ran out."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        if _says_out_of_memory(current):
            return True
        current = current.__cause__ or current.__context__
    return False


def _says_out_of_memory(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and text_says_out_of_memory(str(error))


def text_says_out_of_memory(text: str) -> bool:
    """Return whether a message is one by which an allocator says that memory ran out."""
    lower = text.lower()
    return any(known in lower for known in _OOM_TEXTS)


def text_says_limit(text: str) -> bool:
    """Return whether a message is one by which a limited process says that its memory ran out."""
    lower = text.lower()
    return any(known in lower for known in _LIMIT_TEXTS)


#: Texts by which a process says that another one is gone, in lower case.
_CONSEQUENCES = (
    "connection closed by peer",
    "connection reset",
    "broken pipe",
    "nccl",
    "timed out",
)


def is_consequence(detail: str) -> bool:
    """Return whether a failure only says that another process of the job failed before."""
    lower = detail.lower()
    return any(known in lower for known in _CONSEQUENCES)


#: Outcomes from the one that says most to the one that says least.
TELLING = ("oom", "error", "interrupted", "ok")


def rank_outcome(outcome: str, detail: str) -> tuple[int, bool]:
    """Return how little an outcome says of why a job failed: the least is the one to keep."""
    return TELLING.index(outcome), is_consequence(detail)


def find_phase(traceback: TracebackType | None) -> str:
    """Return the phase of training in which an exception was raised, from its traceback."""
    functions = set()
    while traceback is not None:
        functions.add(traceback.tb_frame.f_code.co_name)
        traceback = traceback.tb_next
    for phase, pattern in _PHASES:
        if any(pattern.match(name) for name in functions):
            return phase
    return "train"


def format_kind(error: BaseException) -> str:
    """Return the class of an exception, and what it is known to say of other processes."""
    kind, text = type(error).__name__, str(error).lower()
    said = next((known for known in _CONSEQUENCES if known in text), None)
    return f"{kind}: {said}" if said else kind


def format_head(error: BaseException) -> str:
    """Return the class of an exception and the beginning of its text, paths shortened."""
    text = " ".join(str(error).split())
    return shorten(f"{type(error).__name__}: {text}" if text else type(error).__name__)


def shorten(text: str) -> str:
    """Return the beginning of a text without control characters and without absolute paths."""
    plain = re.sub(r"[\x00-\x1f\x7f]+", " ", text)
    plain = re.sub(r"(?<![\w.:/])(?:/[\w.+-]+)+/([\w.+-]+)", r"\1", plain).strip()
    return plain if len(plain) <= _HEAD_CHARACTERS else plain[: _HEAD_CHARACTERS - 1] + "…"
