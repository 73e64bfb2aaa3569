"""The shape of a model and the figures of an accelerator, as predictions need them."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from registry.catalogue.encoders import has_decoder_of_its_own, is_encoder, is_without_attention
from registry.catalogue.hf_config import (
    SPELLINGS,
    check_hf_config,
    describe_stored_weights,
    is_encoder_decoder,
    linear_modules,
    list_unstated,
    parse_hf_config,
    read_double_quant,
    read_quantizer,
)
from registry.catalogue.meta_model import can_build, count_on_meta
from registry.errors import QuestionError
from registry.predict.layouts import describe_head

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.catalogue.linear import LinearModule


@dataclass(frozen=True)
class Architecture:
    """The shape of a decoder; the names are those of the table ``models``."""

    model_id: str
    n_params: int
    n_layers: int
    hidden_size: int
    intermediate_size: int
    vocab_size: int
    n_heads: int
    n_kv_heads: int
    head_dim: int
    gated_mlp: bool = True
    tied_embeddings: bool = False
    n_active_params: int | None = None
    max_positions: int | None = None
    n_experts: int | None = None
    n_experts_active: int | None = None
    #: False where nobody read the figures in a source.
    verified: bool | None = None
    #: The family, as transformers calls it; None where the figures came by hand.
    model_type: str | None = None
    #: Whether nobody said how large the vocabulary of a model that is given by figures is.
    open_vocabulary: bool = False
    #: Parameters of vectors that layers look up for a token of their own (Gemma 3n).
    layer_embedding_params: int = 0
    #: The linear modules of its layers, where a configuration of a listed family gives them.
    modules: tuple[LinearModule, ...] = field(default=(), compare=False)
    #: What was not stated and is taken as something, in words.
    taken: tuple[str, ...] = field(default=(), compare=False)
    #: How a config.json says that the weights are stored, such as "in 4 bits"; None for 16.
    stored: str | None = field(default=None, compare=False)
    #: What quantized them, such as "gptq"; None where it does not say.
    quantizer: str | None = field(default=None, compare=False)
    #: Whether it says that the constants of bitsandbytes' 4 bits were quantized too.
    double_quant: bool | None = field(default=None, compare=False)

    def with_vocabulary(self, size: int) -> Architecture:
        """Return a model of as many parameters with a vocabulary of another size."""
        return replace(self, vocab_size=size, open_vocabulary=False)

    @cached_property
    def embedding_params(self) -> int:
        """Parameters of the embedding and of the output layer; tied ones count once."""
        return (1 if self.tied_embeddings else 2) * self.vocab_size * self.hidden_size

    @cached_property
    def linear_params(self) -> int:
        """Parameters of what is no embedding: what a quantizer compresses."""
        return max(self.n_params - self.embedding_params - self.layer_embedding_params, 0)

    @cached_property
    def plain_params(self) -> int:
        """Parameters of all embeddings and of the output layer: what a quantizer leaves."""
        return self.embedding_params + self.layer_embedding_params

    @cached_property
    def active_params(self) -> int:
        """Parameters that a token passes through: all, but for a mixture of experts."""
        return self.n_active_params or self.n_params

    @cached_property
    def expert_params(self) -> int:
        """Parameters of a mixture's experts, the shared ones aside; 0 for a dense model."""
        held = self.mixture_layers * (self.n_experts or 0) * self._expert_params
        return min(held, self.linear_params)

    @property
    def _expert_params(self) -> int:
        return self.hidden_size * self.intermediate_size * (3 if self.gated_mlp else 2)

    @cached_property
    def mixture_layers(self) -> int:
        """Layers that have experts: all, or as many as the parameters that are not active fill.

        DeepSeek's first layers have none, nor has every other one of Jamba and Llama 4 Maverick.
        """
        idle = (self.n_experts or 0) - (self.n_experts_active or 0)
        if not self.n_active_params or idle < 1:
            return self.n_layers
        filled = round((self.n_params - self.n_active_params) / (idle * self._expert_params))
        return min(max(filled, 1), self.n_layers)

    @cached_property
    def mlp_width(self) -> int:
        """Width of the MLP that a token passes through: of a mixture, all experts it is sent to.

        A mixture's is what its active parameters leave besides embeddings and attention, shared
        experts included; without that figure, the experts' widths.
        """
        chosen = self.intermediate_size * (self.n_experts_active or 1)
        if not self.n_experts or not self.n_active_params:
            return chosen
        each = self.hidden_size * (3 if self.gated_mlp else 2)
        spare = self.n_active_params - self.embedding_params
        return max(round((spare / self.n_layers - self.attention_params) / each), chosen)

    @property
    def attention_params(self) -> int:
        """Parameters of the four projections of one layer."""
        return 2 * self.hidden_size * self.head_dim * (self.n_heads + self.n_kv_heads)

    @property
    def shape(self) -> tuple[int, int, int, int, int]:
        """What makes two models the same to a prediction, whatever they are called.

        Parameters too: a mixture of experts and a model with a vision tower have the widths of the
        dense model that they were made from.
        """
        widths = (self.hidden_size, self.intermediate_size, self.vocab_size)
        return (self.n_layers, *widths, self.n_params)


@dataclass(frozen=True)
class Accelerator:
    """An accelerator; the names are those of the table ``gpus``."""

    gpu_id: str
    memory_bytes: int
    name: str | None = None
    vendor: str | None = None
    #: Generation of the chip, such as "turing"; rows of runs do not repeat it.
    architecture: str | None = field(default=None, compare=False)
    memory_bandwidth_bytes_per_second: float | None = None
    peak_flops_fp32: float | None = None
    peak_flops_tf32: float | None = None
    peak_flops_fp16: float | None = None
    peak_flops_bf16: float | None = None
    peak_flops_fp8: float | None = None
    #: False where nobody read the figures in a source.
    verified: bool | None = None

    @property
    def is_before_ampere(self) -> bool:
        """Whether it is too old a card of NVIDIA for bf16 and FlashAttention 2."""
        is_old = bool(self.peak_flops_fp16 and not self.peak_flops_bf16)
        return self.vendor == "nvidia" and (is_old or self.architecture in _BEFORE_AMPERE)

    def peak_flops(self, dtype: str | None) -> float | None:
        """Return the dense peak in FLOP/s for a computation in ``dtype``; None where unknown.

        Where no dtype is given, it is the card's 16-bit one.
        """
        return peak_flops_of(vars(self), dtype)


#: NVIDIA's generations from the first that computed in CUDA on.
_BEFORE_AMPERE = frozenset({"tesla", "fermi", "kepler", "maxwell", "pascal", "volta", "turing"})


def peak_flops_of(row: Mapping[str, Any], dtype: str | None) -> float | None:
    """Return the dense peak in FLOP/s that a row of ``gpus`` states, as ``Accelerator`` does."""
    dtypes = ("fp32", "tf32", "fp16", "bf16", "fp8")
    known = {name: row.get(f"peak_flops_{name}") for name in dtypes}
    half = known["bf16"] or known["fp16"]
    known["fp8"] = known["fp8"] or half  # a card without fp8 computes in 16 bits
    return known.get(dtype, half) if dtype else half


def architecture_of(row: Mapping[str, Any]) -> Architecture:
    """Return the architecture that a row of ``models`` describes.

    Raises QuestionError where the row lacks the figures that a prediction needs.
    """
    missing = [words for name, words in _NEEDED.items() if row.get(name) is None]
    if missing:
        raise QuestionError(
            f"model {row.get('model_id')!r}: found no {', '.join(missing)} in the catalogue; "
            "expected the figures of its config.json; give that file with --config, or the figures "
            "with --params and --layers, instead of --model"
        )
    if has_decoder_of_its_own(row.get("model_type")):
        raise QuestionError(_refuse_two_stacks(row.get("model_id"), row["model_type"]))
    if row.get("model_type") in _ATTENDS_TO_IMAGES:
        raise QuestionError(_refuse_images(row.get("model_id"), row["model_type"]))
    names = {one.name for one in fields(Architecture)} - {
        "modules",
        "taken",
        "stored",
        "quantizer",
        "double_quant",
        "open_vocabulary",
    }
    known: dict[str, Any] = {name: row.get(name) for name in names}
    heads = known["n_heads"] or max(row["hidden_size"] // 128, 1)
    known["n_heads"] = heads
    known["n_kv_heads"] = known["n_kv_heads"] or heads
    known["head_dim"] = known["head_dim"] or row["hidden_size"] // heads
    gated = known["gated_mlp"]
    known["gated_mlp"] = not is_encoder(row.get("model_type")) if gated is None else gated
    known["tied_embeddings"] = bool(known["tied_embeddings"])
    known["layer_embedding_params"] = known["layer_embedding_params"] or 0
    return Architecture(**known)


def _refuse_two_stacks(model_id: object, family: object) -> str:
    return (
        f"model {model_id!r}: found an encoder-decoder ({family}); predictions are made for "
        "models with a single stack of layers; to see what was measured: registry query "
        f"\"from results join models using (model_id) where model_type = '{family}'\""
    )


_NEEDED = {
    "n_params": "number of parameters",
    "n_layers": "number of layers",
    "hidden_size": "hidden size",
    "intermediate_size": "width of the MLP",
    "vocab_size": "vocabulary size",
}


def gpu_of(row: Mapping[str, Any]) -> Accelerator:
    """Return the accelerator of a row of ``gpus``; raise QuestionError without its memory."""
    if not row.get("memory_bytes"):
        raise QuestionError(
            f"gpu {row.get('gpu_id')!r}: found no memory size in the catalogue; expected how much "
            "this card has; give that alone, such as --vram 64GiB, or choose another card of "
            "`registry gpus`"
        )
    known: dict[str, Any] = {one.name: row.get(one.name) for one in fields(Accelerator)}
    return Accelerator(**known)


def architecture_from_config(
    config: Mapping[str, Any], model_id: str = "config.json"
) -> Architecture:
    """Return the architecture of a transformers ``config.json``.

    Parameters are counted exactly: by the family's reader, else on the modules of transformers
    where it is installed. Raises QuestionError for a family that neither knows, and where a figure
    is missing or is not a whole number above 0; it names the model by ``model_id``.
    """
    problems = check_hf_config(config)
    if problems:
        raise QuestionError(
            f"{model_id}, {problems[0]}; correct it, or give its figures with --params and --layers"
        )
    row = parse_hf_config(config)
    if is_encoder_decoder(config):
        raise QuestionError(_refuse_two_stacks(model_id, row.get("model_type")))
    if is_without_attention(row.get("model_type")):
        raise QuestionError(
            f"{model_id}: found model_type {row['model_type']!r}, whose layers have no attention: "
            "no measured run verifies their memory, so it is not computed; expected a decoder with "
            "attention"
        )
    if row.get("model_type") in _ATTENDS_TO_IMAGES:
        raise QuestionError(_refuse_images(model_id, row["model_type"]))
    missing = [SPELLINGS[column][0] for column in _NEEDED_OF_CONFIG if column not in row]
    if missing:
        raise QuestionError(
            f"{model_id}: found no {', '.join(missing)}; expected the config.json of a decoder; "
            "give its figures with --params and --layers instead"
        )
    counts = {} if "n_params" in row else _count_unknown(config, row, model_id)
    found = architecture_of({**row, **counts, "model_id": model_id})
    return replace(
        found,
        modules=linear_modules(config),
        taken=tuple(_list_taken(config, found)),
        stored=describe_stored_weights(config),
        quantizer=read_quantizer(config),
        double_quant=read_double_quant(config),
    )


#: Families with layers of cross-attention between those of the decoder.
_ATTENDS_TO_IMAGES = frozenset({"mllama", "mllama_text_model"})


def _refuse_images(model_id: object, family: object) -> str:
    return (
        f"{model_id}: found model_type {family!r}, some of whose layers attend to "
        "the tokens of images: no measured run verifies their memory, so it is not computed; "
        "expected a decoder without such layers; for samples of text alone, give its figures "
        "with --params and --layers"
    )


def _list_taken(config: Mapping[str, Any], found: Architecture) -> Iterator[str]:
    """Yield what a config.json leaves to its family's class, and what is taken for its head."""
    yield from describe_head(config)
    unstated = list_unstated(config)
    if unstated:
        values = ", ".join(
            f"{SPELLINGS[column][0]} {getattr(found, column)}"
            for column in _NEEDED_OF_CONFIG
            if column in unstated
        )
        if values:
            family = found.model_type
            yield f"does not state its {values}: taken from transformers' class for {family}"


_NEEDED_OF_CONFIG = ("hidden_size", "n_layers", "intermediate_size", "vocab_size", "n_heads")


def _count_unknown(
    config: Mapping[str, Any], row: Mapping[str, Any], model_id: str
) -> dict[str, Any]:
    """Return the counts of a layout that the readers do not know; QuestionError without modules."""
    counts = count_on_meta(config) if can_build() else {}
    if counts:
        return counts
    way_out = (
        "give its figures with --params and --layers instead"
        if can_build()
        else "install the extra [train], whose transformers may know it, or give its figures with "
        "--params and --layers instead"
    )
    kind = row.get("model_type")
    found = "no model_type" if kind is None else f"model_type {kind!r}"
    raise QuestionError(
        f"{model_id}: found {found}, in a layout whose parameters cannot be counted; expected a "
        f"known family; {way_out}"
    )


def architecture_from_figures(
    n_params: int,
    n_layers: int,
    *,
    hidden_size: int | None = None,
    vocab_size: int | None = None,
) -> Architecture:
    """Return a decoder of llama's proportions with so many parameters and layers.

    A layer of llama holds about 12 hidden² parameters (4 of attention, 8 of the gated MLP), which
    gives the width where none is given. A vocabulary that is not given stays open: it is llama's
    until an answer covers others. Raises QuestionError for figures that no decoder has.
    """
    for name, value in (("--params", n_params), ("--layers", n_layers), ("vocab", vocab_size)):
        if value is not None and value < 1:
            raise QuestionError(f"{name}: found {value}; expected a number above 0")
    vocab = vocab_size or _VOCAB
    width = hidden_size or _width(n_params, n_layers, vocab)
    heads = max(width // 128, 1)
    spare = (n_params - 2 * vocab * width) / n_layers - 4 * width * width
    _check_figures(n_params, n_layers, width)
    taken = (
        f"a hidden size of {width:,} is assumed, as in llama; give --hidden: it moves activations"
    )
    return Architecture(
        model_id="given by figures",
        n_params=n_params,
        n_layers=n_layers,
        hidden_size=width,
        intermediate_size=max(round(spare / (3 * width)), width),
        vocab_size=vocab,
        n_heads=heads,
        n_kv_heads=heads,
        head_dim=width // heads,
        open_vocabulary=vocab_size is None,
        taken=() if hidden_size else (taken,),
    )


def _check_figures(n_params: int, n_layers: int, width: int) -> None:
    """Raise QuestionError where queries and outputs of attention alone take more than there is."""
    least = 2 * n_layers * width * width
    if least > n_params:
        raise QuestionError(
            f"{n_layers} layers of a hidden size of {width:,} have {least / 1e9:,.3g} B parameters "
            f"or more; found --params {n_params / 1e9:,.3g}B; expected figures of one model"
        )


#: The vocabulary of llama.
_VOCAB = 32_000


def _width(n_params: int, n_layers: int, vocab_size: int) -> int:
    """Solve 12 L h² + 2 V h = n for h, to a multiple of 64."""
    a, b = 12 * n_layers, 2 * vocab_size
    width = (-b + math.sqrt(b * b + 4 * a * n_params)) / (2 * a)
    return max(64, round(width / 64) * 64)
