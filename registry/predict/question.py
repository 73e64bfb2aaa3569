"""The question a prediction answers: one training configuration on one kind of accelerator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.catalogue.module_names import (
    ALL_LINEAR,
    FUSED_AND_ADAPTED,
    REFUSED_BY_PEFT,
    known_modules,
    last_name,
)
from registry.errors import QuestionError
from registry.predict.architecture import Accelerator, Architecture, architecture_of, gpu_of
from registry.predict.formula.adapters import MLP, counted_as_square, targeted
from registry.predict.formula.methods import METHODS, check_method, method_params
from registry.predict.formula.optimizers import check_optimizer
from registry.predict.formula.parallel import check_split
from registry.predict.formula.peak_memory import memory_terms, total
from registry.predict.layouts import describe_layout
from registry.predict.sharding import CARDS_OF_A_HOST, FSDP, SHARDS_OPTIMIZER
from registry.text import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

#: What is taken for a setting that is not given.
DEFAULTS: Mapping[str, Any] = {
    "compute_dtype": "bf16",
    "gradient_checkpointing": True,
    "attention": "flash2",
    "optimizer": "adamw",
    "lora_rank": 8,
    "grad_accum_steps": 8,
    "loss_kernel": "whole",
}
#: How the loss is computed, in the words of ``kernels``; other kernels keep whole logits.
LOSS_KERNELS: Mapping[str, str] = {
    "chunked-cross-entropy": "chunked",
    "cut-cross-entropy": "liger",
    "liger": "liger",
    "linear_cross_entropy": "liger",
    "unsloth": "unsloth",
    "unsloth-gradient-checkpointing": "unsloth",
}
_HOST_OPTIMIZER = frozenset({"optimizer", "optimizer_and_params", "nvme", "stated"})
_HOST_PARAMS = _HOST_OPTIMIZER - {"optimizer"} | {"params"}
#: Offloads that name the parameters.
_OFFLOADED_PARAMS = frozenset({"params", "optimizer_and_params"})


@dataclass(frozen=True)
class Question:
    """One training configuration. None means not given; `setting` fills it in.

    Sizes are per device, lengths in tokens. Raises QuestionError for what cannot be run at all.
    """

    model: Architecture
    method: str = "lora"
    seq_len: int = 2048
    micro_batch_size: int = 1
    quant_bits: int | None = None
    quant_method: str | None = None
    quant_type: str | None = None
    #: Whether the constants of 4-bit weights of bitsandbytes are quantized too.
    double_quant: bool | None = None
    #: Whether the experts of a quantized mixture are quantized: bitsandbytes leaves those that
    #: transformers 5 fuses as they are.
    quantized_experts: bool | None = None
    compute_dtype: str | None = None
    param_dtype: str | None = None
    lora_rank: int | None = None
    lora_target_modules: tuple[str, ...] | None = None
    trains_embeddings: bool = False
    trainable_params: int | None = None
    grad_accum_steps: int | None = None
    gradient_checkpointing: bool | None = None
    attention: str | None = None
    optimizer: str | None = None
    n_gpus: int = 1
    sharding: str | None = None
    #: The generation of FSDP that is meant, 1 or 2; the first where none is stated.
    fsdp_version: int | None = None
    offload: str | None = None
    interconnect: str | None = None
    #: Hosts that the ``n_gpus`` devices are spread over.
    n_nodes: int | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    #: How the loss is computed: whole, chunked, liger or unsloth.
    loss_kernel: str | None = None
    #: Whether each parameter is updated as soon as its gradient is there.
    optimizer_in_backward: bool | None = None
    #: Tokens of a trained prompt or prefix.
    virtual_tokens: int | None = None
    #: Whether several samples share one sequence, which is then filled.
    packing: bool | None = None
    gpu: Accelerator | None = None
    #: Where every sample is filled or cut to seq_len ("full") or not ("variable").
    length_distribution: str | None = None
    #: Tokens of the data's longest sample, where it is known: the peak is that of a micro-batch of
    #: such samples, cut to seq_len.
    longest_sample: int | None = None
    #: Mean tokens of a sample, where it is known; it moves the time. The peak is moved by whether
    #: lengths vary, see above.
    mean_tokens: float | None = None
    #: Software stack: the source or framework whose measurements the question is like.
    stack: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run, and what is not computed."""
        for name in _COUNTS:
            value = getattr(self, name)
            if value is not None and value < 1:
                raise QuestionError(f"{name}: found {value}; expected a whole number above 0")
        _check_training(self)
        _check_lengths(self)
        check_method(self.method)
        check_optimizer(self.setting("optimizer"))
        _check_parallel(self)

    def setting(self, name: str) -> Any:
        """Return a setting as given, else its default."""
        value = getattr(self, name)
        return DEFAULTS[name] if value is None else value

    @property
    def quantized(self) -> bool:
        """Whether the base weights are quantized."""
        return self.quant_bits is not None

    @property
    def full(self) -> bool:
        """Whether all parameters are trained."""
        return self.method == "full"

    @property
    def longest(self) -> int:
        """Tokens of the longest sequence that is trained on."""
        return min(self.seq_len, self.longest_sample or self.seq_len)

    @property
    def is_filled(self) -> bool:
        """Whether every sequence is as long as the limit: samples are packed, filled or cut."""
        return bool(self.packing or self.length_distribution == "full")

    @property
    def says_how_long(self) -> bool:
        """Whether the longest sample is known: its length is given, or every sample is filled."""
        return bool(self.is_filled or self.longest_sample)

    @property
    def tokens(self) -> int:
        """Tokens of the longest micro-batch of one device."""
        return self.longest * self.micro_batch_size

    @property
    def mean_sample_tokens(self) -> float:
        """Tokens of a sample on average; where samples are packed, of what they fill."""
        return self.longest if self.packing else self.mean_or_longest

    @property
    def mean_or_longest(self) -> float:
        """Tokens of a sample on average, packed or not; those of the longest where none is said."""
        return min(self.mean_tokens or self.longest, self.longest)

    @property
    def samples_per_sequence(self) -> float:
        """Samples that fill a sequence: 1 unless they are packed, and their mean is known."""
        return self.mean_sample_tokens / self.mean_or_longest

    @property
    def varies(self) -> bool:
        """Whether samples differ in length, as far as is known."""
        return self.length_distribution == "variable"

    @property
    def is_split(self) -> bool:
        """Whether the model is split within layers or by layers."""
        return max(self.tensor_parallel or 1, self.pipeline_parallel or 1) > 1

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed shards the state."""
        return bool(self.sharding) and str(self.sharding).startswith("zero")

    @property
    def offloads_params(self) -> bool:
        """Whether the weights live in host memory."""
        return self.offload in _HOST_PARAMS

    @property
    def offloads_optimizer(self) -> bool:
        """Whether the optimizer's state lives in host memory."""
        return self.offload in _HOST_OPTIMIZER

    @property
    def offloaded(self) -> bool:
        """Whether parameters or optimizer state live in host memory."""
        return self.offloads_params or self.offloads_optimizer

    @property
    def held_dtype(self) -> str:
        """Dtype of the base weights: as stated, else that of the computation.

        Under FSDP, weights that are trained in mixed precision are held in fp32 where nothing else
        is said (accelerate's guide to FSDP, torchtitan's and NeMo's default policy).
        """
        if self.param_dtype is not None:
            return self.param_dtype
        return "fp32" if self.full and self.sharding in FSDP else self.setting("compute_dtype")

    @property
    def says_mean(self) -> bool:
        """Whether the mean length of samples is known: it is given, or every sample is filled."""
        return bool(self.is_filled or self.mean_tokens)

    @property
    def bitsandbytes(self) -> bool:
        """Whether bitsandbytes quantized the base, or nothing says what did and it can."""
        if self.quant_method is None:
            return self.quant_bits in (None, *_BITSANDBYTES_BITS)
        return self.quant_method == "bitsandbytes"

    @property
    def keeps_fp32_embeddings(self) -> bool:
        """Whether embeddings and output layer of a quantized base are held in fp32."""
        return self.quantized and self.bitsandbytes and self.loss_kernel != "unsloth"

    @property
    def has_constants(self) -> bool:
        """Whether the base is in bitsandbytes' 4 bits, which have a constant for each block."""
        return self.quant_bits == _BLOCKWISE_BITS and self.bitsandbytes

    @property
    def _says_double(self) -> bool | None:
        """What is said of quantizing these too: as stated, or as Unsloth loads all models."""
        always = True if self.loss_kernel == "unsloth" else None
        return always if self.double_quant is None else self.double_quant

    @property
    def doubles(self) -> bool:
        """Whether these constants are quantized too; not where nothing says so."""
        return self.has_constants and bool(self._says_double)

    @property
    def may_double(self) -> bool:
        """Whether nothing says if they are."""
        return self.has_constants and self._says_double is None

    @property
    def may_leave_experts(self) -> bool:
        """Whether nothing says if bitsandbytes quantized the experts of a mixture."""
        in_doubt = self.quantized and self.bitsandbytes and self.quantized_experts is None
        return in_doubt and bool(self.model.n_experts)

    @property
    def plain_experts(self) -> int:
        """Parameters of experts that bitsandbytes leaves unquantized."""
        left = self.quantized and self.quantized_experts is False
        return self.model.expert_params if left else 0

    @property
    def keeps_gradients(self) -> bool:
        """Whether gradients are alive when a backward pass starts: they are accumulated."""
        alone = self.optimizer_in_backward or self.grad_accum_steps == 1
        return self.deepspeed or not alone

    @cached_property
    def n_params(self) -> int:
        """Parameters that a device or its shards hold."""
        return self.model.n_params

    @cached_property
    def adapter_params(self) -> int:
        """Parameters of the adapters, as given or counted by the method; 0 for full."""
        if self.full:
            return 0
        if self.trainable_params is None:
            return method_params(self)
        embeddings = self.model.embedding_params if self.trains_embeddings else 0
        return max(self.trainable_params - embeddings, 0)

    @cached_property
    def targeted(self) -> frozenset[str] | None:
        """Matrices that carry adapters, however they are spelled; None where nothing is said."""
        return targeted(self.model, self.lora_target_modules)

    @property
    def trained_params(self) -> int:
        """Parameters that receive a gradient."""
        if self.full:
            return self.model.n_params
        embeddings = self.model.embedding_params if self.trains_embeddings else 0
        return self.adapter_params + embeddings

    def shards(self, kinds: frozenset[str]) -> int:
        """Return over how many devices a part is spread that the shardings ``kinds`` spread."""
        if self.sharding not in kinds:
            return 1
        return self.n_gpus // (self.n_nodes or 1) if self.sharding == "hsdp" else self.n_gpus

    @property
    def label(self) -> str:
        """Customary label of method and quantization."""
        quantized = {None: "", 4: "q"}.get(self.quant_bits, f"int{self.quant_bits} ")
        return f"{quantized}{self.method}" + (
            " (emb)" if self.trains_embeddings and not self.full else ""
        )

    def changed(self, **settings: Any) -> Question:
        """Return the question with some settings changed.

        Of samples whose mean is known, another limit says anew whether they vary below it.
        """
        changed = replace(self, **settings)
        if "seq_len" not in settings or self.is_filled or not self.mean_tokens:
            return changed
        said_by_mean = self.varies == vary_below(self.longest, self.mean_tokens)
        varies = vary_below(changed.longest, self.mean_tokens)
        if not said_by_mean or changed.varies == varies:
            return changed
        return replace(changed, length_distribution="variable" if varies else None)


#: Share of the longest from which on a mean says that nearly all samples are as long: the few that
#: are shorter find blocks that are large enough, and fragment no memory.
_FILLED = 0.95


def vary_below(limit: int, mean_tokens: float) -> bool:
    """Return whether samples of a mean clearly below the longest that is trained on vary."""
    return mean_tokens < _FILLED * limit


_COUNTS = (
    "seq_len", "micro_batch_size", "n_gpus", "grad_accum_steps", "lora_rank", "n_nodes",
    "virtual_tokens", "tensor_parallel", "pipeline_parallel", "longest_sample",
)  # fmt: skip


#: Bits in which bitsandbytes stores weights, and those of them that it scales by blocks.
_BITSANDBYTES_BITS, _BLOCKWISE_BITS = (4, 8), 4


def _check_training(question: Question) -> None:
    """Raise QuestionError for settings that contradict each other."""
    if question.full and question.quant_bits is not None:
        raise QuestionError(
            f"method full with quant_bits {question.quant_bits}: quantized weights receive no "
            "gradient; expected a method with adapters; ask for --method qlora"
        )
    if question.full and question.lora_rank is not None:
        raise QuestionError(
            f"method full with lora_rank {question.lora_rank}: expected no rank, or --method lora"
        )
    if question.quant_bits not in (None, 2, 3, 4, 8):
        raise QuestionError(
            f"quant_bits: found {question.quant_bits}; expected 2, 3, 4 or 8, or nothing"
        )
    if (
        question.quantized
        and question.bitsandbytes
        and question.quant_bits not in _BITSANDBYTES_BITS
    ):
        raise QuestionError(
            f"quant_bits {question.quant_bits} with quant_method bitsandbytes: it stores weights "
            "in 4 or 8 bits; expected one of these, or --quant-method gptq or hqq"
        )
    known = ("whole", *dict.fromkeys(LOSS_KERNELS.values()))
    if question.setting("loss_kernel") not in known:
        raise QuestionError(
            f"loss_kernel: found {question.loss_kernel!r}; expected one of {', '.join(known)}"
        )
    if question.optimizer_in_backward and (question.grad_accum_steps or 1) > 1:
        raise QuestionError(
            f"optimizer_in_backward with grad_accum_steps {question.grad_accum_steps}: gradients "
            "are used at once, so nothing is accumulated; expected 1"
        )


def _check_lengths(question: Question) -> None:
    """Raise QuestionError for samples that are packed and yet shorter than what they fill."""
    if question.packing and question.longest < question.seq_len:
        raise QuestionError(
            f"packing with a longest sample of {question.longest} tokens: packed samples fill "
            f"sequences of {question.seq_len}; expected one of --packing and --longest-sample"
        )


def _check_parallel(question: Question) -> None:
    """Raise QuestionError for devices that do not spread, and for splits that are not computed.

    DeepSpeed offloads parameters with stage 3 alone (its documentation of ``offload_param``).
    """
    check_split(question)
    if question.sharding in ("zero1", "zero2") and question.offload in _OFFLOADED_PARAMS:
        raise QuestionError(
            f"offload {question.offload} with sharding {question.sharding}: DeepSpeed keeps "
            "parameters in host memory under ZeRO-3 alone; expected --sharding zero3, or --offload "
            "optimizer"
        )
    if question.n_gpus % (question.n_nodes or 1):
        cards = format_count(question.n_gpus, "card")
        raise QuestionError(
            f"nodes {question.n_nodes}: found {cards} in all, which cannot be divided evenly among "
            "the hosts; expected a multiple; --gpus says how many there are in all"
        )


def check_question(question: Question) -> list[str]:
    """Return warnings about what can be run but may not do what is expected."""
    warnings = []
    limit = question.model.max_positions
    if limit and question.seq_len > limit:
        warnings.append(
            f"seq_len {question.seq_len} is beyond the {limit} positions of "
            f"{question.model.model_id}"
        )
    if (question.mean_tokens or 0) > question.longest:
        warnings.append(
            f"mean_tokens {question.mean_tokens:g} is above the {question.longest} that samples "
            "are cut to: all are taken to be as long"
        )
    if question.model.n_experts:
        warnings.append(
            f"{question.model.model_id} is a mixture of experts: the formula leaves out what its "
            "routing needs"
        )
        if not question.model.n_active_params:
            warnings.append(
                f"how many parameters of {question.model.model_id} a token passes through is not "
                "known: the time is computed as if it were all of them"
            )
    if question.n_gpus > 1 and question.sharding is None and not question.is_split:
        warnings.append(
            f"{question.n_gpus} cards without --sharding: each is assumed to hold the entire model "
            "(DDP); --sharding fsdp or zero3 spreads it over them"
        )
    if question.n_gpus > CARDS_OF_A_HOST and question.n_nodes is None and not question.is_split:
        warnings.append(
            f"{question.n_gpus} cards without --nodes: the time is that of one host; between hosts "
            "a step takes longer"
        )
    if question.is_split:
        warnings.append("with tensor or pipeline parallelism the time is not computed")
    warnings += [f"{question.model.model_id}: {taken}" for taken in question.model.taken]
    warnings += describe_layout(question)
    warnings += _check_stored(question)
    warnings += _check_targets(question)
    warnings += _check_card(question)
    warnings += _check_experts(question)
    warnings += _check_expert_adapters(question)
    warnings += _check_refused(question)
    warnings += _check_quantizer(question)
    warnings += _check_offload(question)
    warnings += _check_fsdp(question)
    warnings += _check_sources(question)
    if question.full and question.trains_embeddings:
        return warnings
    if question.sharding in SHARDS_OPTIMIZER and question.n_gpus == 1:
        counted = " (DeepSpeed's own fp32 copies are counted)" if question.deepspeed else ""
        warnings.append(f"sharding {question.sharding} spreads nothing over one GPU{counted}")
    return warnings


#: Formats of a computation that only some cards are faster in.
_NARROW = frozenset({"fp8", "fp4"})


#: What the name of a card begins with of which only the memory is known.
NAMED_BY_MEMORY = "card of "


def is_named_by_memory(gpu: Accelerator) -> bool:
    """Return whether a card is none of the catalogue."""
    return gpu.gpu_id.startswith(NAMED_BY_MEMORY)


def _check_card(question: Question) -> Iterator[str]:
    """Yield what the card cannot do of what was asked for.

    FlashAttention 2 runs on Ampere and later, and those compute in bf16 (its README, NVIDIA CUDA
    Support).
    """
    gpu, dtype = question.gpu, question.compute_dtype
    if gpu is None:
        return
    is_known = dtype not in _NARROW or getattr(gpu, f"peak_flops_{dtype}", None)
    if not is_known and gpu.peak_flops(dtype):
        yield f"the catalogue has no {dtype} speed of {gpu.gpu_id}: that of 16 bits is used"
    gigabytes = gpu.memory_bytes / 10**9
    if is_named_by_memory(gpu) and gigabytes.is_integer():
        yield (
            f"{gigabytes:g} GB are {gpu.memory_bytes / 2**30:.2f} GiB; a card that is sold with "
            f"{gigabytes:g} GB has about {gigabytes:g} GiB: say --vram {gigabytes:g}GiB"
        )
    if not gpu.is_before_ampere:
        return
    if question.compute_dtype == "bf16":
        yield f"{gpu.gpu_id} does not compute in bf16: state --dtype fp16"
    if question.attention == "flash2":
        yield f"FlashAttention 2 does not run on {gpu.gpu_id}, which is older than Ampere"


def _check_stored(question: Question) -> Iterator[str]:
    """Yield a warning where weights are stored quantized and are asked about unquantized.

    How they are stored is no choice of whoever trains them.
    """
    model = question.model
    if model.stored is not None and not question.quantized:
        yield (
            f"{model.model_id}: its weights are stored {model.stored} (quantization_config); "
            "without --quant-bits or --method qlora they are assumed to be unquantized"
        )


def _check_targets(question: Question) -> list[str]:
    """Return a warning where modules are taken to be square, as nothing else is known of them."""
    names = counted_as_square(question.model, question.lora_target_modules)
    if not names:
        return []
    warning = (
        f"targets: the shape of {', '.join(names)} in {question.model.model_id} is not "
        f"known; counted as {question.model.hidden_size:,} x {question.model.hidden_size:,}: check "
        "the spelling"
    )
    return [warning]


def _check_experts(question: Question) -> list[str]:
    """Return a warning where a mixture's experts may stay unquantized, with what they then take."""
    if not question.may_leave_experts:
        return []
    held = question.model.expert_params * (4 if question.keeps_fp32_embeddings else 2)
    cast = ", cast to fp32 by PEFT's preparation" if question.keeps_fp32_embeddings else ""
    warning = (
        f"bitsandbytes does not quantize the experts of {question.model.model_id} where "
        f"transformers 5 fuses them: they take {held / 2**30:.0f} GiB then{cast}; state "
        "--quantized-experts or --no-quantized-experts"
    )
    return [warning]


def _check_expert_adapters(question: Question) -> Iterator[str]:
    """Yield a warning where adapters on experts are counted that PEFT may not add.

    PEFT adapts modules. transformers 5 holds the experts of a layer in one tensor, as all versions
    do of gpt-oss and Llama 4; of some families, PEFT 0.21 adapts such a tensor.
    """
    model = question.model
    if question.full or not model.n_experts or question.quantized_experts is False:
        return
    if model.modules:  # none of experts among them
        return
    targets = question.lora_target_modules or (ALL_LINEAR,)
    others = tuple(sorted((targeted(model, targets) or frozenset()) - MLP))
    if METHODS[question.method].targets is not None or not others:
        return
    peaks = [
        total(memory_terms(question.changed(lora_target_modules=names, trainable_params=None)))
        for names in (targets, others)
    ]
    added = "adds none"
    if model.model_type in FUSED_AND_ADAPTED:
        added = "0.21 adds them (gate and up as one, at twice the rank) and older PEFT may not"
    names = known_modules(model.model_type) if targets == (ALL_LINEAR,) else ()
    asked = sorted({*names} - MLP) or others
    if (more := peaks[0] - peaks[1]) > 0:
        yield (
            f"with {','.join(targets)}, adapters on each expert of {model.model_id} are counted, "
            f"{more / 2**30:.1f} GiB; transformers 5 holds the experts of a layer in one tensor, "
            f"to which PEFT {added}: for the case of none, ask with --targets {','.join(asked)}"
        )


def _check_refused(question: Question) -> Iterator[str]:
    """Yield a warning where PEFT ends in an error on a target of the family's."""
    kind = question.model.model_type or ""
    names = dict.fromkeys(last_name(target) for target in question.lora_target_modules or ())
    refused = [name for name in names if name in REFUSED_BY_PEFT.get(kind, ())]
    if question.method not in ("lora", "adalora") or not refused:
        return
    others = [name for name in known_modules(kind) if name not in REFUSED_BY_PEFT[kind]]
    way_out = f"name others, such as {','.join(others)}" if others else "all-linear works"
    yield f"PEFT 0.21 ends in an error on {','.join(refused)} of {kind}: {way_out}"


def _check_quantizer(question: Question) -> Iterator[str]:
    """Yield what bitsandbytes is taken to do where no quantizer is named, and where it costs more.

    PEFT's preparation of its weights turns the output layer to fp32, and the logits with it: 2.4
    bytes a logit were measured (source `gpu-sweep`). Long sequences and large vocabularies make
    that more than quantizing saves.
    """
    if question.quantized and question.quant_method is None and not question.bitsandbytes:
        yield (
            "no --quant-method is stated: one that quantizes by groups is assumed, such as gptq or "
            f"hqq, as bitsandbytes has no weights of {question.quant_bits} bits"
        )
    if not question.keeps_fp32_embeddings:
        return
    peak = total(memory_terms(question))
    other = total(memory_terms(question.changed(quant_method=_NO_PREPARATION)))
    if question.quant_method is None and peak > other:
        yield (
            "no --quant-method is stated: bitsandbytes is assumed; PEFT prepares such a model by "
            "casting embeddings, output layer and logits to fp32, which takes "
            f"{(peak - other) / 2**30:.1f} GiB more than with gptq or awq"
        )
    plain = question.changed(quant_bits=None, quant_method=None, quant_type=None)
    if (more := peak - total(memory_terms(plain))) > 0:
        yield (
            f"quantizing saves nothing here: 16-bit weights take {more / 2**30:.1f} GiB less, as "
            f"the logits of {question.tokens:,} tokens are in fp32 after PEFT's preparation of "
            "quantized weights; --loss-kernel liger or unsloth avoids that"
        )


#: A quantizer whose weights PEFT does not prepare.
_NO_PREPARATION = "gptq"


def _check_offload(question: Question) -> Iterator[str]:
    """Yield a warning where weights are in host memory and nothing says what moves them."""
    if question.offloads_params and question.sharding in (None, "none", "ddp"):
        yield (
            f"offload {question.offload} without --sharding: what moves the weights is not said, "
            "so its own buffers are left out; state --sharding zero3 or fsdp, on one card too"
        )


_SECOND = 2
#: Bits of bitsandbytes' weights that FSDP 2 shards only in another storage than the default.
_STORED_IN_INTEGERS = 4


def _check_fsdp(question: Question) -> Iterator[str]:
    """Yield what is not computed of PyTorch's second FSDP.

    Accelerate leaves 4-bit weights that are stored in integers out of the shards (`fsdp_utils`).
    """
    if question.fsdp_version != _SECOND or question.n_gpus == 1:
        return
    yield (
        "FSDP 2 is computed as FSDP 1, but for the inputs of frozen layers, which it does not hold "
        "to the end of the backward pass: it has no flat parameters and frees buffers sooner, but "
        "too few fine-tuning runs state which of the two they used to measure the difference"
    )
    if question.quant_bits == _STORED_IN_INTEGERS and question.bitsandbytes:
        yield (
            "4-bit weights are assumed to be sharded; under FSDP 2, accelerate leaves all of "
            "them on each card unless bnb_4bit_quant_storage is a floating dtype, such as bfloat16"
        )


def _check_sources(question: Question) -> list[str]:
    """Return a warning for each thing whose figures nobody has read in a source."""
    named = [(question.model.model_id, question.model.verified)]
    if question.gpu is not None:
        named.append((question.gpu.gpu_id, question.gpu.verified))
    return [
        f"the catalogue's figures for {name} were not checked against a source (verified = false): "
        "check them before you rely on this"
        for name, verified in named
        if verified is False
    ]


_FROM_ROW = (
    "method", "quant_bits", "quant_method", "quant_type", "double_quant", "compute_dtype",
    "param_dtype", "lora_rank", "trainable_params", "grad_accum_steps", "gradient_checkpointing",
    "attention", "optimizer", "sharding", "offload", "interconnect", "length_distribution",
    "mean_tokens", "longest_sample", "tensor_parallel", "pipeline_parallel", "packing",
)  # fmt: skip


def question_of(row: Mapping[str, Any]) -> Question:
    """Return the question that an observation answers.

    ``row`` has the columns of ``results``, those of ``models`` and ``gpus``, and what
    ``runs.sql`` adds. Raises QuestionError where the model's shape is not known.
    """
    targets = row.get("lora_target_modules")
    settings: dict[str, Any] = {name: row.get(name) for name in _FROM_ROW}
    if settings["method"] == "full":
        settings["lora_rank"] = None
    kernels = row.get("kernels") or ()
    settings |= _of_kernels(kernels, row.get("framework"))
    return Question(
        model=architecture_of(row),
        seq_len=row.get("seq_len") or 2048,
        micro_batch_size=row.get("micro_batch_size") or 1,
        n_gpus=row.get("n_gpus") or 1,
        n_nodes=None if row.get("n_gpus") is None else row.get("n_nodes"),
        trains_embeddings=bool(row.get("trains_embeddings")),
        lora_target_modules=None if targets is None else tuple(targets),
        gpu=gpu_of(row) if row.get("gpu_id") and (row.get("memory_bytes") or 0) > 1 else None,
        stack=row.get("source_id"),
        **settings,
    )


def _of_kernels(kernels: Iterable[str], framework: str | None) -> dict[str, Any]:
    """Return the settings that the kernels of a run stand for, and what its framework does."""
    names = {*kernels, *({framework} if framework else ())}
    found = {LOSS_KERNELS[name] for name in names if name in LOSS_KERNELS}
    leanest = next((kind for kind in ("liger", "unsloth", "chunked") if kind in found), None)
    return {
        "loss_kernel": leanest,
        "optimizer_in_backward": True if "optimizer-in-backward" in names else None,
    }
