"""The submission: one self-contained document that hands in observations.

The classes mirror the tables of ``schemas/tables`` as ``schemas/submission.yaml`` nests them; a
test holds them to it. They check structure and types; ranges, patterns and vocabularies stand in
the contract and are checked by :mod:`registry.validation`.
"""

# Annotations are evaluated here and not kept as text: pydantic builds the classes a third faster.
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field
from pydantic_core import PydanticCustomError


def _parse_timestamp(value: object) -> object:
    """Return an aware timestamp in UTC from ISO 8601 text, or the value as it is."""
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            raise PydanticCustomError("timestamp", "expected an ISO 8601 timestamp") from None
    if isinstance(value, datetime):
        if value.tzinfo is None:
            raise PydanticCustomError("timestamp", "expected a time zone, such as a final Z")
        return value.astimezone(UTC)
    return value


Timestamp = Annotated[datetime, BeforeValidator(_parse_timestamp)]


class Part(BaseModel):
    """A part of a submission: one row of a table, with the columns the contract names."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)

    table: ClassVar[str] = ""


class Source(Part):
    """A document, log or run that observations come from."""

    table: ClassVar[str] = "sources"

    source_id: str
    title: str | None = None
    kind: str | None = None
    url: str | None = None
    publisher: str | None = None
    published_on: str | None = None
    sha256: str | None = None
    licence: str | None = None
    revision: str | None = None
    note: str | None = None


class Model(Part):
    """A model architecture."""

    table: ClassVar[str] = "models"

    model_id: str
    family: str | None = None
    hf_id: str | None = None
    model_type: str | None = None
    n_params: int | None = None
    n_active_params: int | None = None
    n_layers: int | None = None
    hidden_size: int | None = None
    intermediate_size: int | None = None
    gated_mlp: bool | None = None
    n_heads: int | None = None
    n_kv_heads: int | None = None
    head_dim: int | None = None
    vocab_size: int | None = None
    tied_embeddings: bool | None = None
    attention_bias: bool | None = None
    max_positions: int | None = None
    n_experts: int | None = None
    n_experts_active: int | None = None
    aliases: list[str] | None = None
    source: str | None = None
    note: str | None = None


class Gpu(Part):
    """An accelerator."""

    table: ClassVar[str] = "gpus"

    gpu_id: str
    vendor: str | None = None
    name: str | None = None
    architecture: str | None = None
    compute_capability: str | None = None
    released: int | None = None
    memory_bytes: int | None = None
    memory_bandwidth_bytes_per_second: float | None = None
    peak_flops_fp32: float | None = None
    peak_flops_tf32: float | None = None
    peak_flops_fp16: float | None = None
    peak_flops_bf16: float | None = None
    peak_flops_fp8: float | None = None
    peak_ops_int8: float | None = None
    device_names: list[str] | None = None
    aliases: list[str] | None = None
    memory_source: str | None = None
    source: str | None = None
    note: str | None = None


class Environment(Part):
    """Versions of everything that ran. Null means not stated."""

    table: ClassVar[str] = "environments"

    framework: str | None = None
    framework_version: str | None = None
    torch_version: str | None = None
    transformers_version: str | None = None
    peft_version: str | None = None
    trl_version: str | None = None
    accelerate_version: str | None = None
    bitsandbytes_version: str | None = None
    deepspeed_version: str | None = None
    flash_attn_version: str | None = None
    cuda_version: str | None = None
    driver_version: str | None = None
    nccl_version: str | None = None
    python_version: str | None = None
    os: str | None = None
    cpu: str | None = None
    n_cpus: int | None = None
    host_memory_bytes: int | None = None
    packages: dict[str, Any] | None = None
    settings: dict[str, Any] | None = None


class Configuration(Part):
    """Everything the experimenter chose. Null means not stated, never a default."""

    table: ClassVar[str] = "configurations"

    model_id: str
    weights: str | None = None
    objective: str | None = None
    method: str
    quant_method: str | None = None
    quant_bits: int | None = None
    quant_type: str | None = None
    double_quant: bool | None = None
    compute_dtype: str | None = None
    param_dtype: str | None = None
    lora_rank: int | None = None
    lora_alpha: float | None = None
    lora_dropout: float | None = None
    lora_target_modules: list[str] | None = None
    use_rslora: bool | None = None
    trains_embeddings: bool | None = None
    trainable_params: int | None = None
    peft_config: dict[str, Any] | None = None
    gpu_id: str | None = None
    n_nodes: int | None = None
    gpus_per_node: int | None = None
    n_gpus: int | None = None
    interconnect: str | None = None
    sharding: str | None = None
    tensor_parallel: int | None = None
    pipeline_parallel: int | None = None
    context_parallel: int | None = None
    expert_parallel: int | None = None
    offload: str | None = None
    seq_len: int | None = None
    length_distribution: str | None = None
    micro_batch_size: int | None = None
    grad_accum_steps: int | None = None
    global_batch_size: int | None = None
    attention: str | None = None
    gradient_checkpointing: bool | None = None
    optimizer: str | None = None
    packing: bool | None = None
    padding_free: bool | None = None
    torch_compile: bool | None = None
    kernels: list[str] | None = None
    dataset: str | None = None
    n_samples: int | None = None
    n_epochs: float | None = None
    n_steps: int | None = None


class Measurement(Part):
    """One figure of an observation."""

    table: ClassVar[str] = "measurements"

    metric: str
    statistic: str = "value"
    scope: str = "total"
    device_index: int | None = None
    kind: str | None = None
    value: float | str
    low: float | None = None
    high: float | None = None
    origin: str = "reported"
    raw: str | None = None
    unit_reported: str | None = None
    reading: str | None = None
    reason: str | None = None


class Citation(Part):
    """One place that reports an observation."""

    table: ClassVar[str] = "citations"

    locator: str
    table_title: str | None = None
    row: int | None = None
    column: str | None = None
    cells: dict[str, Any] | None = None


class Sample(Part):
    """Raw per-step samples of a run."""

    table: ClassVar[str] = "samples"

    step: int
    seconds: float | None = None
    tokens: int | None = None
    samples: int | None = None
    warmup: bool | None = None
    memory_allocated_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    memory_device_bytes: int | None = None
    host_rss_bytes: int | None = None
    loss: float | None = None


class Observation(Part):
    """The outcome of one experiment."""

    table: ClassVar[str] = "observations"

    model_reported: str | None = None
    outcome: str
    outcome_detail: str | None = None
    evidence: str = "measured"
    phase: str | None = None
    failed_step: int | None = None
    observed_at: Timestamp | None = None
    run_id: str | None = None
    flags: list[str] | None = None
    inferences: dict[str, Any] | None = None
    provenance: dict[str, Any] | None = None
    configuration: Configuration
    environment: Environment = Field(default_factory=Environment)
    measurements: list[Measurement] = Field(default_factory=list)
    citations: list[Citation] = Field(default_factory=list)
    samples: list[Sample] = Field(default_factory=list)


class Submission(Part):
    """One self-contained document that hands in observations, models or GPUs."""

    schema_version: Literal[1] = 1
    source: Source
    models: list[Model] = Field(default_factory=list)
    gpus: list[Gpu] = Field(default_factory=list)
    observations: list[Observation] = Field(default_factory=list)
