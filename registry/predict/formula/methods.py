"""What a method trains and keeps: parameters, and what its modules hold for the backward pass.

A method is here where at least five measured runs or an execution check its formula; what PEFT
keeps is checked by running PEFT (``tests/unit/predict/test_methods_against_peft.py``). All others
are refused by name. Coefficients are read off PEFT's forward passes (0.18 to 0.21), not fitted.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from registry.errors import QuestionError
from registry.predict.formula.adapters import MLP, list_targets

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from registry.predict.architecture import Architecture
    from registry.predict.formula.adapters import Target
    from registry.predict.question import Question

#: Virtual tokens of a prompt or prefix where neither they nor its parameters are stated.
VIRTUAL_TOKENS = 20
#: Modules that (IA)3 scales where nothing is said: PEFT's choice for llama-like models.
_IA3_TARGETS = ("k_proj", "v_proj", "down_proj")
#: Modules whose input (IA)3 scales, not the output: the feed-forward part.
_FEEDFORWARD = frozenset({"gate_proj", "up_proj", "down_proj", "gate_up"})


@dataclass(frozen=True)
class Kept:
    """Bytes that an adapted module keeps for its backward pass."""

    #: Per token, for each element of its input, of its output and for each rank.
    inputs: float = 0.0
    outputs: float = 0.0
    ranks: float = 0.0
    #: For each of its weights: matrices that the forward pass makes out of the adapter.
    weights: float = 0.0


@dataclass(frozen=True)
class Method:
    """What one method trains."""

    params: Callable[[Question], float]
    kept: Callable[[str], Kept]
    #: Modules where nothing is said; None for the common default, () where it has none.
    targets: tuple[str, ...] | None = None
    #: Whether its virtual tokens run through all layers beside those of the sample.
    lengthens: bool = False


def _lora(question: Question) -> float:
    """A is rank x in, B is out x rank (Hu et al. 2021, LoRA, section 4.1)."""
    rank: int = question.setting("lora_rank")
    return _sum(question, lambda _name, inner, outer: rank * (inner + outer))


def _modules(question: Question) -> Iterator[Target]:
    """Yield the modules with an adapter: no experts that are one tensor, which is no module."""
    model = question.model
    targets = question.lora_target_modules or METHODS[question.method].targets
    are_fused = model.n_experts and question.quantized_experts is False and not model.modules
    for target in list_targets(model, targets):
        if not (are_fused and target.name in MLP):
            yield target


def _sum(question: Question, of: Callable[[str, int, int], float]) -> float:
    found = sum(of(*target[:3]) * target.copies for target in _modules(question))
    return question.model.n_layers * found


def _dora(question: Question) -> float:
    """LoRA and a magnitude for each output (Liu et al. 2024, DoRA, section 4.1)."""
    return _lora(question) + _sum(question, lambda _name, _inner, outer: outer)


def _outputs(question: Question) -> float:
    """One matrix of rank x outputs.

    LoRA-FA's second (Zhang et al. 2023), or the only one of MiSS and Bone (Kang and Yin 2024).
    """
    rank: int = question.setting("lora_rank")
    return _sum(question, lambda _name, _inner, outer: rank * outer)


def _adalora(question: Question) -> float:
    """P, diagonal and Q at the initial rank, 1.5 times the target (Zhang et al. 2023)."""
    rank = 1.5 * question.setting("lora_rank")
    return _sum(question, lambda _name, inner, outer: rank * (inner + outer + 1))


def _loha(question: Question) -> float:
    """Two pairs of matrices, multiplied element by element (Hyeon-Woo et al. 2021, FedPara)."""
    return 2.0 * _lora(question)


def _lokr(question: Question) -> float:
    """A small matrix, and a large one of low rank (LyCORIS, factor -1: nearest to a square)."""
    rank: int = question.setting("lora_rank")

    def each(_: str, inner: int, outer: int) -> float:
        (small_in, large_in), (small_out, large_out) = _factors(inner), _factors(outer)
        large = min(rank * (large_in + large_out), large_in * large_out)
        return small_in * small_out + large

    return _sum(question, each)


def _factors(width: int) -> tuple[int, int]:
    """Return the two factors of a width that are nearest to each other, the smaller first.

    >>> _factors(3072)
    (48, 64)
    """
    small = next(n for n in range(math.isqrt(width), 0, -1) if width % n == 0)
    return small, width // small


def _vera(question: Question) -> float:
    """Two vectors a module; the matrices are frozen and shared (Kopiczko et al. 2023)."""
    rank: int = question.setting("lora_rank")
    return _sum(question, lambda _name, _inner, outer: rank + outer)


def _ia3(question: Question) -> float:
    """A factor for each output, of feed-forward modules for each input (Liu et al. 2022)."""
    return _sum(question, lambda name, inner, outer: inner if name in _FEEDFORWARD else outer)


def _fourierft(question: Question) -> float:
    """1,000 frequencies a module, PEFT's default (Gao et al. 2024)."""
    return _sum(question, lambda _name, _inner, _outer: 1000)


def _oft(question: Question) -> float:
    """Skew-symmetric blocks over the input, ``lora_rank`` of them (Qiu et al. 2023)."""
    blocks: int = question.setting("lora_rank")

    def each(_: str, inner: int, __: int) -> float:
        size = inner / blocks
        return blocks * size * (size - 1) / 2

    return _sum(question, each)


def _boft(question: Question) -> float:
    """Blocks of 4 x 4 over the input and a scale of the output (Liu et al. 2023)."""
    return _sum(question, lambda _name, inner, outer: 4 * inner + outer)


def _norms(question: Question) -> float:
    """The scales of two norms a layer and of the last one."""
    return (2 * question.model.n_layers + 1) * question.model.hidden_size


def _prompt(question: Question) -> float:
    """An embedding for each virtual token (Lester et al. 2021)."""
    return virtual_tokens(question) * question.model.hidden_size


def _p_tuning(question: Question) -> float:
    """Embeddings, and an encoder of three square layers (Liu et al. 2021; PEFT's MLP)."""
    hidden = question.model.hidden_size
    return _prompt(question) + 3 * hidden * (hidden + 1)


def _prefix(question: Question) -> float:
    """A key and a value for each virtual token and layer (Li and Liang 2021)."""
    return virtual_tokens(question) * 2 * _kv_width(question.model) * question.model.n_layers


def _adaption_prompt(question: Question) -> float:
    """Embeddings of the prompt and a gate for each layer (Zhang et al. 2023, LLaMA-Adapter)."""
    each = virtual_tokens(question) * question.model.hidden_size + 1
    return each * question.model.n_layers


def _kv_width(model: Architecture) -> int:
    return model.n_kv_heads * model.head_dim


#: Methods that train virtual tokens.
HAVE_VIRTUAL_TOKENS = ("prompt_tuning", "p_tuning", "prefix_tuning", "adaption_prompt")


def virtual_tokens(question: Question) -> int:
    """Return the virtual tokens of a prompt or prefix: as stated, else by its parameters."""
    if question.virtual_tokens is not None:
        return question.virtual_tokens
    model = question.model
    widths = {
        "prompt_tuning": model.hidden_size,
        "prefix_tuning": 2 * _kv_width(model) * model.n_layers,
        "adaption_prompt": model.hidden_size * model.n_layers,
    }
    if question.trainable_params is None or question.method not in widths:
        return VIRTUAL_TOKENS
    return max(round(question.trainable_params / widths[question.method]), 1)


def _always(**kept: float) -> Callable[[str], Kept]:
    return lambda _: Kept(**kept)


#: LoRA's fp32 copy of its module's input, and what enters its second matrix.
_LORA_KEPT = _always(inputs=4, ranks=4)
#: The fp32 copy of the input, and an fp32 matrix of the weight's size made in each forward pass.
_DELTA_KEPT = _always(inputs=4, weights=4)
_NOTHING = _always()


def _ia3_kept(name: str) -> Kept:
    """What is scaled is kept: inputs in fp32, outputs in 16 bits."""
    return Kept(inputs=4) if name in _FEEDFORWARD else Kept(outputs=2)


METHODS: dict[str, Method] = {
    "lora": Method(_lora, _LORA_KEPT),
    "dora": Method(_dora, _always(inputs=4, ranks=4, outputs=6)),
    "lorafa": Method(_outputs, _LORA_KEPT),
    "adalora": Method(_adalora, _LORA_KEPT),
    "loha": Method(_loha, _DELTA_KEPT),
    "lokr": Method(_lokr, _DELTA_KEPT),
    "fourierft": Method(_fourierft, _DELTA_KEPT),
    "vera": Method(_vera, _always(outputs=4, ranks=4)),
    "ia3": Method(_ia3, _ia3_kept, _IA3_TARGETS),
    "miss": Method(_outputs, _always(ranks=8)),
    "bone": Method(_outputs, _always(ranks=8)),
    "oft": Method(_oft, _always(inputs=4)),
    "boft": Method(_boft, _always(inputs=2, weights=10)),
    "ln_tuning": Method(_norms, _NOTHING, ()),
    "prompt_tuning": Method(_prompt, _NOTHING, (), lengthens=True),
    "p_tuning": Method(_p_tuning, _NOTHING, (), lengthens=True),
    "prefix_tuning": Method(_prefix, _NOTHING, ()),
    "adaption_prompt": Method(_adaption_prompt, _NOTHING, ()),
}


def check_method(method: str) -> None:
    """Raise QuestionError for a method whose memory no formula here gives."""
    if method == "full" or method in METHODS:
        return
    bound = "--method full gives an upper bound; " if method in _PARTS_OF_FULL else ""
    raise QuestionError(
        f"method {method}: no measured run or execution verifies a formula for its memory, so it "
        f"is not computed; expected one of full, {', '.join(METHODS)}; {bound}to see what was "
        f"measured: registry ls --method {method}"
    )


#: Methods that keep gradients and states of a part of what full training keeps them of.
_PARTS_OF_FULL = frozenset({"badam", "freeze", "galore", "lisa", "llama_pro"})


def method_params(question: Question) -> int:
    """Return the parameters that the question's method trains, embeddings aside."""
    return round(METHODS[question.method].params(question))


def has_rank(question: Question) -> bool:
    """Return whether the rank moves what the question's method trains; not for ``full``."""
    params = METHODS[question.method].params
    return params(question.changed(lora_rank=8)) != params(question.changed(lora_rank=16))


def kept_per_token(question: Question) -> float:
    """Return the bytes that one layer keeps of a token because of its adapters."""
    model = question.model
    if question.method == "ln_tuning":  # the scale's gradient needs the normalized input
        return 2.0 * 2 * model.hidden_size
    if question.method == "prefix_tuning":
        # with a prefix attention has a mask, and transformers repeats keys and values for it
        repeated = 4.0 * model.head_dim * (model.n_heads - model.n_kv_heads)
        longer = virtual_tokens(question) / question.longest
        return repeated + longer * 4.0 * model.head_dim * model.n_heads
    if question.method == "adaption_prompt":
        # scores over the prompt (softmax in fp32, probabilities in 16 bits); two more outputs
        return 6.0 * model.n_heads * virtual_tokens(question) + 4.0 * model.hidden_size
    return sum(_kept_of(question, target) for target in _modules(question))


def _kept_of(question: Question, target: Target) -> float:
    kept = METHODS[question.method].kept(target.name)
    rank = kept.ranks and kept.ranks * question.setting("lora_rank")
    return target.used * (kept.inputs * target.inputs + kept.outputs * target.outputs + rank)


#: Methods that run matrices of a low rank beside a module, and what a pass of them moves: bytes for
#: each element of the module's input, and of its output.
_BESIDE = frozenset({"lora", "dora", "lorafa", "adalora", "vera"})
_MOVED_OF_INPUT, _MOVED_OF_OUTPUT = 16.0, 8.0


def moved_per_token(question: Question) -> float:
    """Return the bytes that one layer's adapters move of a token in a pass, products aside."""
    if question.method not in _BESIDE:
        return 0.0
    return sum(
        used * (_MOVED_OF_INPUT * inner + _MOVED_OF_OUTPUT * outer)
        for _, inner, outer, _, used in _modules(question)
    )


class OfWeights(NamedTuple):
    """What a forward pass does to the weights of one layer's modules, however many the tokens."""

    #: Seconds to launch its kernels.
    launch: float = 0.0
    #: Bytes that it moves.
    moved: float = 0.0
    #: Operations of its products, without those of each token.
    products: float = 0.0
    #: Weights by which each token is multiplied beside the module's own products: in each forward
    #: pass, and in the backward pass, for the inputs' gradient and for that of weights made anew.
    forward: float = 0.0
    backward: float = 0.0


#: Seconds to launch the some fifteen kernels that DoRA adds to a module, and the copying of one of
#: the blocks of which BOFT puts a matrix together (PEFT's default: of 4 by 4).
_NORM_LAUNCH, _BLOCK_LAUNCH, _BLOCK = 2e-4, 5e-6, 4
#: Bytes that are moved of each weight: DoRA's update is made, scaled and added to the weight, and
#: the sum is read for its norm, in 16 and in 32 bits; what others add to a weight is made in fp32,
#: of two matrices of its size or by a transform.
_NORM_BYTES, _DELTA_BYTES = 24.0, 32.0


def done_to_weights(question: Question) -> OfWeights:
    """Return what the forward pass of a method that makes new weights does to one layer's.

    Read off PEFT's ``DoraLinearLayer.forward``, which multiplies the inputs by the weight again
    where they were dropped out (taken to be so); off the forward pass of its BOFT: three products
    of matrices as wide as the module's input, and one of the last with the weight, whose gradient
    is then needed; and off those of LoHa, LoKr and FourierFT, which multiply the inputs by a matrix
    of the weight's size.
    """
    is_delta = not question.full and METHODS[question.method].kept is _DELTA_KEPT
    if question.method not in ("dora", "boft") and not is_delta:
        return OfWeights()
    found = list(_modules(question))
    used = sum(one.used * one.inputs * one.outputs for one in found)
    if question.method == "boft":
        return OfWeights(
            launch=_BLOCK_LAUNCH * sum(one.copies * one.inputs / _BLOCK for one in found),
            products=sum(
                one.copies * one.inputs**2 * (6.0 * one.inputs + 2.0 * one.outputs) for one in found
            ),
            backward=used,
        )
    each = _DELTA_BYTES if is_delta else _NORM_BYTES
    return OfWeights(
        launch=0.0 if is_delta else _NORM_LAUNCH * sum(one.copies for one in found),
        moved=each * sum(one.copies * one.inputs * one.outputs for one in found),
        forward=used,
        backward=used * (1 + is_delta),
    )


def kept_of_weights(question: Question) -> float:
    """Return the bytes of the matrices that one layer makes out of its adapters and keeps."""
    method = METHODS[question.method]
    return sum(
        method.kept(name).weights * inner * outer * copies
        for name, inner, outer, copies, _ in _modules(question)
    )


def added_tokens(question: Question) -> int:
    """Return the virtual tokens that run through the layers with each sample."""
    lengthens = not question.full and METHODS[question.method].lengthens
    return virtual_tokens(question) if lengthens else 0
