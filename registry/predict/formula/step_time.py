"""Time of one micro-batch on one device by formula, term by term: pure arithmetic."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import QuestionError
from registry.predict.formula.flops import count_flops
from registry.predict.formula.methods import done_to_weights, moved_per_token
from registry.predict.formula.state import compute_bytes
from registry.predict.formula.term import Term
from registry.predict.sharding import FSDP, SHARDS_WEIGHTS

if TYPE_CHECKING:
    from registry.predict.architecture import Accelerator
    from registry.predict.formula.methods import OfWeights
    from registry.predict.question import Question

#: Share of the dense peak that large matrix products reach in training.
EFFICIENCY = 0.7
#: Seconds that Python needs to launch a layer's kernels in one pass, and what adapters add: between
#: what fast hosts take and the three times as much of the host of `gpu-sweep`.
LAUNCH_SECONDS, ADAPTER_LAUNCH_SECONDS = 0.0012, 0.0005
#: What bitsandbytes adds: it unpacks weights and their constants by kernels of their own.
UNPACK_LAUNCH_SECONDS = 0.0006
#: Dense peak and memory bandwidth taken for a card whose own are not known: an A100's.
DEFAULT_PEAK_FLOPS, DEFAULT_BANDWIDTH = 312e12, 2.0e12
#: Bytes a second between devices: over NVLink (A100's and H100's SXM boards), over PCI Express.
NVLINK, PCI_EXPRESS = 2e11, 1.2e10
#: Bytes a second between hosts, for each device: with a port of 400 Gb/s to each (NVIDIA DGX H100
#: User Guide, table 6: eight ports of ConnectX-7 for eight cards), with one of 200 Gb/s (DGX A100);
#: else what PCI Express gives.
NETWORK_400G, NETWORK_200G = 5e10, 2.5e10
#: Bytes a second to the host, and what a host's memory gives an optimizer.
HOST_LINK, HOST_MEMORY = 1.2e10, 2.5e10
#: Times that a quantized weight costs more than the reading and writing of its values.
DEQUANTIZATION = {"bitsandbytes": 2.0, "gptq": 8.0}


def time_terms(question: Question) -> list[Term]:
    """Return the summands of the seconds of one micro-batch, the optimizer's share included.

    Raises QuestionError for a split model: no measured run checks what its parts wait for.
    """
    if question.is_split:
        raise QuestionError(
            f"tensor_parallel {question.tensor_parallel or 1} x pipeline_parallel "
            f"{question.pipeline_parallel or 1}: the time of a split model is not computed; "
            "expected 1; ask with --sharding zero3 or fsdp instead"
        )
    computed = _compute(question)
    busy = sum(term.value for term in computed)
    terms = [*computed, *_dequantize(question), *_update(question)]
    terms += [*_communicate(question, busy), *_offload(question, busy)]
    return [term for term in terms if term.value]


def has_known_speed(question: Question) -> bool:
    """Return whether the time of a question is computed: of one card whose FLOP/s are known."""
    gpu = question.gpu
    known = gpu is not None and gpu.peak_flops(question.compute_dtype) is not None
    return known and not question.is_split


def _peak(question: Question) -> float:
    known = question.gpu and question.gpu.peak_flops(question.compute_dtype)
    return known or DEFAULT_PEAK_FLOPS


def _bandwidth(question: Question) -> float:
    known = question.gpu and question.gpu.memory_bandwidth_bytes_per_second
    return known or DEFAULT_BANDWIDTH


def _link(question: Question) -> float:
    """Return the bytes a second between the devices of one host."""
    if question.interconnect:
        return NVLINK if question.interconnect in ("nvlink", "nvswitch") else PCI_EXPRESS
    return NVLINK if question.gpu and _is_on_a_board(question.gpu) else PCI_EXPRESS


def _network(question: Question) -> float:
    """Return the bytes a second between hosts for each device: boards have a port for each."""
    gpu = question.gpu
    if gpu is None or not _is_on_a_board(gpu):
        return PCI_EXPRESS
    bandwidth = gpu.memory_bandwidth_bytes_per_second or 0.0
    return NETWORK_400G if bandwidth >= _FAST_BANDWIDTH else NETWORK_200G


#: Memory bandwidth from which on a card is one of several on a board that links them, and from
#: which on (H100 SXM, MI300X and later) the board has ports of 400 Gb/s.
_BOARD_BANDWIDTH, _FAST_BANDWIDTH = 2.1e12, 3e12
#: Forms of such cards that come alone.
_ALONE = ("pcie", "nvl")
#: Memory from which on a card whose bandwidth is not known is taken for one on a board.
_BOARD_MEMORY = 40 * 2**30 * 0.98


def _is_on_a_board(gpu: Accelerator) -> bool:
    """Return whether a card comes with others on a board (SXM, OAM) that links them.

    Where the form is not stated, as of an A100 80GB, it is taken to: hosts with several mostly do.
    """
    if any(form in gpu.gpu_id for form in _ALONE):
        return False
    bandwidth = gpu.memory_bandwidth_bytes_per_second
    if bandwidth is None:
        return gpu.memory_bytes >= _BOARD_MEMORY
    return "sxm" in gpu.gpu_id or bandwidth >= _BOARD_BANDWIDTH


def _compute(question: Question) -> list[Term]:
    """Operations over the throughput that is reached, or the launching of kernels if it is longer.

    Kernels run while the next are launched: the longer of the two counts (as a smooth maximum).
    """
    flops = count_flops(question, question.mean_sample_tokens)
    made = done_to_weights(question)
    work = (flops.hardware + _products_of_weights(question, made)) / (EFFICIENCY * _peak(question))
    launch = LAUNCH_SECONDS + ADAPTER_LAUNCH_SECONDS * (not question.full)
    launch += UNPACK_LAUNCH_SECONDS * (question.quantized and question.bitsandbytes)
    hooks = 2 if question.sharding in ("zero3", *FSDP) else 1
    launch = launch * hooks + made.launch
    launched = launch * _passes(question) * question.model.n_layers
    moved = _elementwise_bytes(question) / _bandwidth(question)
    beside = _adapter_bytes(question, made) / _bandwidth(question)
    busy = work + moved + beside
    waiting = _wait(busy, launched)
    terms = [
        Term("compute", "compute", work, 0.3, transient=True),
        Term("elementwise", "compute", moved, 0.5, transient=True),
        Term("adapter_elementwise", "compute", beside, 0.5, transient=True),
        Term("launch", "launch", waiting, 0.4),
    ]
    if question.setting("attention") == "eager":
        terms.append(Term("attention_matrix", "compute", _matrix(question), 0.6, transient=True))
    return terms


def _wait(busy: float, beside: float) -> float:
    """Return the seconds by which two things at a time take longer than the first alone."""
    return float((busy**4 + beside**4) ** 0.25 - busy)


def _elementwise_bytes(question: Question) -> float:
    """Bytes that norms, rotations, gates and the loss move, which memory bandwidth bounds.

    Each 16-bit activation of a layer is read and written about three times a pass, in part in
    fp32; the logits about ten times in all (40 bytes).
    """
    model, count = question.model, question.mean_sample_tokens * question.micro_batch_size
    widths = 8 * model.hidden_size + 4 * model.intermediate_size
    layers = 6.0 * count * model.n_layers * widths * _passes(question)
    return layers + 40.0 * count * model.vocab_size


def _adapter_bytes(question: Question, made: OfWeights) -> float:
    """Bytes that adapters beside a module move besides their products, which bandwidth bounds.

    Read off PEFT's LoRA under autocast, a fifth of it for dropout: the input is cast to the
    adapter's fp32 and back, dropped out, and its gradient cast and added; the output is scaled and
    added. In three passes that is about 48 bytes an input and 24 an output. Unsloth's kernels do
    none of it, but leave methods that make new weights to PEFT.
    """
    moved = _forwards(question) * made.moved
    is_fused = question.setting("loss_kernel") == "unsloth" and not any(made)
    if not question.full and not is_fused:
        count = question.mean_sample_tokens * question.micro_batch_size
        moved += count * _passes(question) * moved_per_token(question)
    return question.model.n_layers * moved


def _products_of_weights(question: Question, made: OfWeights) -> float:
    """Operations beside those of the tokens' own products: in each forward pass, and backwards."""
    count = question.mean_sample_tokens * question.micro_batch_size
    forwards = _forwards(question)
    of_weights = made.products * (forwards + 1)
    of_tokens = 2.0 * count * (made.forward * forwards + made.backward)
    return question.model.n_layers * (of_weights + of_tokens)


def _matrix(question: Question) -> float:
    """Reading and writing of the attention matrix: about 8 times 4 bytes a score and pass."""
    model, length = question.model, question.mean_sample_tokens
    scores = model.n_layers * model.n_heads * length * length * question.micro_batch_size
    return 32.0 * scores * _passes(question) / 2 / _bandwidth(question)


def _passes(question: Question) -> int:
    """Forward, backward (twice the kernels) and the recomputation."""
    return 3 + bool(question.setting("gradient_checkpointing"))


def _forwards(question: Question) -> int:
    """Forward passes: with checkpointing there are two."""
    return _passes(question) - 2


_INT8_BITS = 8


def _dequantize(question: Question) -> list[Term]:
    """Reading the quantized and writing the 16-bit weights in each pass; bound by bandwidth.

    LLM.int8 quantizes the activations instead and multiplies in two parts: it costs by the token.
    """
    if question.quant_bits is None:
        return []
    method = question.quant_method or ("bitsandbytes" if question.bitsandbytes else "gptq")
    if question.quant_bits == _INT8_BITS and method == "bitsandbytes":
        flops = count_flops(question, question.mean_sample_tokens).hardware
        work = 0.8 * flops / (EFFICIENCY * _peak(question))
        return [Term("int8_products", "quantization", work, 0.6, transient=True)]
    moved = question.model.linear_params * (2 + question.quant_bits / 8)
    factor = DEQUANTIZATION.get(method, 4.0) * (_passes(question) - 1)
    return [
        Term(f"dequantize_{method}", "quantization", factor * moved / _bandwidth(question), 0.6)
    ]


def _update(question: Question) -> list[Term]:
    """The optimizer reads and writes weights, gradients and two moments: about 28 bytes each."""
    if question.offloads_optimizer:
        return []
    moved = 28.0 * question.trained_params / question.shards(SHARDS_WEIGHTS)
    steps = question.setting("grad_accum_steps")
    return [Term("update", "optimizer", moved / _bandwidth(question) / steps, 0.5)]


def _communicate(question: Question, busy: float) -> list[Term]:
    """Gathering sharded weights in each pass; reducing gradients over the ranks.

    Both run beside the computation, which keeps the device ``busy`` for so many seconds: the longer
    of the two counts (as a smooth maximum).
    """
    if question.n_gpus == 1 or question.sharding == "device_map":
        return []
    steps, passes = question.setting("grad_accum_steps"), _passes(question) - 1
    reduced = 8.0 * question.trained_params * _reduce_seconds(question) / steps
    gathered = 0.0
    if question.sharding in SHARDS_WEIGHTS and not question.offloads_params:
        gathered = 2.0 * question.model.n_params * passes * _gather_seconds(question)
    crossing = reduced + gathered
    if not crossing:
        return []
    shown = _wait(busy, crossing) / crossing
    return [
        Term("reduce", "communication", reduced * shown, 0.8),
        Term("gather", "communication", gathered * shown, 0.7),
    ]


def _gather_seconds(question: Question) -> float:
    """Seconds that a byte of the weights takes to be gathered: by HSDP within the host."""
    devices = question.shards(SHARDS_WEIGHTS)
    return (devices - 1) / devices / _slowest_link(question, devices)


def _reduce_seconds(question: Question) -> float:
    """Seconds that a byte of the gradients takes to be reduced over all devices.

    HSDP reduces it within the host, and then the share of each device over the hosts.
    """
    devices = question.n_gpus
    if question.sharding != "hsdp":
        return (devices - 1) / devices / _slowest_link(question, devices)
    hosts, inside = question.n_nodes or 1, question.shards(SHARDS_WEIGHTS)
    between = (hosts - 1) / hosts / inside / _network(question)
    return (inside - 1) / inside / _link(question) + between


def _slowest_link(question: Question, devices: int) -> float:
    """Return the bytes a second of the slowest link in a ring of so many devices."""
    crosses = devices > question.n_gpus // (question.n_nodes or 1)
    return min(_network(question), _link(question)) if crosses else _link(question)


def _offload(question: Question, busy: float) -> list[Term]:
    """What crosses to the host and back, and the optimizer that the host runs.

    Activations cross once each way, beside the computation, which keeps the device ``busy``.
    Weights that live there cross in each pass; with the optimizer alone, gradients go there and
    weights come back once a step. AdamW on the host reads and writes 28 bytes a parameter.
    """
    if question.offload == "activations":
        count = question.mean_sample_tokens * question.micro_batch_size
        kept = (
            compute_bytes(question) * count * question.model.hidden_size * question.model.n_layers
        )
        crossing = _wait(busy, 2.0 * kept / HOST_LINK)
        return [Term("host_transfer", "offload", crossing, 0.5, transient=True)]
    if not question.offloaded:
        return []
    steps = question.setting("grad_accum_steps")
    moved = 4.0 * question.trained_params / steps
    if question.offloads_params:
        moved = 2.0 * question.model.n_params * _passes(question)
    terms = [Term("host_transfer", "offload", moved / question.n_gpus / HOST_LINK, 0.5)]
    if question.offloads_optimizer:
        updated = 28.0 * question.trained_params / HOST_MEMORY
        terms.append(Term("host_update", "offload", updated / steps, 0.8))
    return terms
