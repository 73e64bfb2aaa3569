"""The question a prediction answers: one training configuration on one kind of accelerator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.errors import QuestionError
from registry.predict.architecture import Accelerator, Architecture, architecture_of, gpu_of
from registry.predict.formula.adapters import adapter_params

if TYPE_CHECKING:
    from collections.abc import Mapping

#: Shardings that spread the weights, the gradients, the optimizer's state over the ranks.
SHARDS_WEIGHTS = frozenset({"zero3", "fsdp", "hsdp", "device_map"})
SHARDS_GRADIENTS = SHARDS_WEIGHTS | {"zero2", "fsdp_grad_op"}
SHARDS_OPTIMIZER = SHARDS_GRADIENTS | {"zero1"}

#: What is taken for a setting that is not given.
DEFAULTS: Mapping[str, Any] = {
    "compute_dtype": "bf16",
    "gradient_checkpointing": True,
    "attention": "flash2",
    "optimizer": "adamw",
    "lora_rank": 8,
    "grad_accum_steps": 8,
}


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
    offload: str | None = None
    interconnect: str | None = None
    gpu: Accelerator | None = None
    #: Where every sample is filled or cut to seq_len ("full") or not ("variable").
    length_distribution: str | None = None
    #: Mean tokens of a sample, where it is known; it moves the time, not the peak.
    mean_tokens: float | None = None
    #: Software stack: the source or framework whose measurements the question is like.
    stack: str | None = None

    def __post_init__(self) -> None:
        """Refuse what cannot be run."""
        for name in ("seq_len", "micro_batch_size", "n_gpus", "grad_accum_steps", "lora_rank"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise QuestionError(f"{name}: found {value}; expected a whole number above 0")
        if self.method == "full" and self.quant_bits is not None:
            raise QuestionError(
                f"method full with quant_bits {self.quant_bits}: quantized weights receive no "
                "gradient; expected a method with adapters; ask for --method qlora"
            )
        if self.method == "full" and self.lora_rank is not None:
            raise QuestionError(
                f"method full with lora_rank {self.lora_rank}: expected no rank, or --method lora"
            )
        if self.quant_bits not in (None, 2, 3, 4, 8):
            raise QuestionError(
                f"quant_bits: found {self.quant_bits}; expected 2, 3, 4 or 8, or nothing"
            )

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
    def tokens(self) -> int:
        """Tokens of the longest micro-batch of one device."""
        return self.seq_len * self.micro_batch_size

    @property
    def mean_sample_tokens(self) -> float:
        """Tokens of a sample on average."""
        return min(self.mean_tokens or self.seq_len, self.seq_len)

    @property
    def varies(self) -> bool:
        """Whether samples differ in length, as far as is known."""
        return self.length_distribution == "variable"

    @property
    def deepspeed(self) -> bool:
        """Whether DeepSpeed shards the state."""
        return bool(self.sharding) and str(self.sharding).startswith("zero")

    @property
    def offloaded(self) -> bool:
        """Whether parameters or optimizer state live in host memory."""
        return self.offload not in (None, "none", "activations")

    @cached_property
    def adapter_params(self) -> int:
        """Parameters of the adapters, as given or counted from rank and modules; 0 for full."""
        if self.full:
            return 0
        embeddings = self.model.embedding_params if self.trains_embeddings else 0
        if self.trainable_params is not None:
            return max(self.trainable_params - embeddings, 0)
        rank = self.setting("lora_rank")
        return adapter_params(self.model, rank, self.lora_target_modules)

    @property
    def trained_params(self) -> int:
        """Parameters that receive a gradient."""
        if self.full:
            return self.model.n_params
        embeddings = self.model.embedding_params if self.trains_embeddings else 0
        return self.adapter_params + embeddings

    def shards(self, kinds: frozenset[str]) -> int:
        """Return over how many devices a part is spread that the shardings ``kinds`` spread."""
        return self.n_gpus if self.sharding in kinds else 1

    @property
    def label(self) -> str:
        """Customary label of method and quantization."""
        quantized = {None: "", 4: "q"}.get(self.quant_bits, f"int{self.quant_bits} ")
        return f"{quantized}{self.method}" + (
            " (emb)" if self.trains_embeddings and not self.full else ""
        )

    def changed(self, **settings: Any) -> Question:
        """Return the question with some settings changed."""
        return replace(self, **settings)


def check_question(question: Question) -> list[str]:
    """Return warnings about what can be run but may not do what is expected."""
    warnings = []
    limit = question.model.max_positions
    if limit and question.seq_len > limit:
        warnings.append(
            f"seq_len {question.seq_len} is beyond the {limit} positions of "
            f"{question.model.model_id}"
        )
    if question.model.n_experts:
        warnings.append(
            f"{question.model.model_id} is a mixture of experts: what its routing needs is not in "
            "the formula"
        )
    warnings += _check_sources(question)
    if question.full and question.trains_embeddings:
        return warnings
    if question.sharding in SHARDS_OPTIMIZER and question.n_gpus == 1:
        warnings.append(f"sharding {question.sharding} on one GPU spreads nothing")
    return warnings


def _check_sources(question: Question) -> list[str]:
    """Return a warning for each thing whose figures nobody has read in a source."""
    named = [(question.model.model_id, question.model.verified)]
    if question.gpu is not None:
        named.append((question.gpu.gpu_id, question.gpu.verified))
    return [
        f"the catalogue's figures of {name} were not read in a source (verified = false): check "
        "them before you rely on this"
        for name, verified in named
        if verified is False
    ]


_FROM_ROW = (
    "method", "quant_bits", "quant_method", "quant_type", "compute_dtype", "param_dtype",
    "lora_rank", "trainable_params", "grad_accum_steps", "gradient_checkpointing", "attention",
    "optimizer", "sharding", "offload", "interconnect", "length_distribution", "mean_tokens",
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
    return Question(
        model=architecture_of(row),
        seq_len=row.get("seq_len") or 2048,
        micro_batch_size=row.get("micro_batch_size") or 1,
        n_gpus=row.get("n_gpus") or 1,
        trains_embeddings=bool(row.get("trains_embeddings")),
        lora_target_modules=None if targets is None else tuple(targets),
        gpu=gpu_of(row) if row.get("gpu_id") and (row.get("memory_bytes") or 0) > 1 else None,
        stack=row.get("source_id"),
        **settings,
    )
