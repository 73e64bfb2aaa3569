"""Count models that are no plain stack of decoder layers: encoders, encoder-decoders, Mamba.

Each count is that of the model with its language head, as it is pre-trained and fine-tuned; a test
holds them to the modules that transformers builds.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.catalogue.decoders import Lookup

    Row = Mapping[str, Any]
    Counter = Callable[[Row, Lookup], int]


@dataclass(frozen=True)
class Encoder:
    """How a family differs from BERT."""

    types_field: str | None = "type_vocab_size"
    has_positions: bool = True
    extra_positions: int = 0
    #: Whether all layers are the same one (ALBERT).
    shares_layers: bool = False
    #: Norms of the embedding and after the last layer.
    n_end_norms: int = 1
    #: Whether the language head works in the width of the embedding (ALBERT, ELECTRA).
    narrow_head: bool = False
    #: Whether an output layer that is not shared has a bias besides the head's.
    biased_output: bool = True


def linear(inputs: int, outputs: int) -> int:
    """Return the parameters of a matrix with a bias.

    >>> linear(3, 2)
    8
    """
    return inputs * outputs + outputs


def count_block(width: int, middle: int, *, n_attentions: int = 1) -> int:
    """Return the parameters of a layer of the first transformers: biases and norms everywhere."""
    attention = 4 * linear(width, width) + 2 * width
    return n_attentions * attention + linear(width, middle) + linear(middle, width) + 2 * width


def count_decoder_layers(get: Lookup) -> int:
    """Return the decoder's layers of an encoder-decoder, whose row holds both together."""
    if get("model_type") in _T5:  # as many as the encoder's where nothing is said
        return int(get("num_decoder_layers") or get("num_layers") or 0)
    return int(get("decoder_layers") or 0) if get("model_type") in _BART else 0


def is_encoder(model_type: Any) -> bool:
    """Return whether a family is of BERT's kind, none of whose MLPs has a gate."""
    return model_type in OTHERS and model_type not in (*_T5, *_BART, *_MAMBA)


def is_without_attention(model_type: Any) -> bool:
    """Return whether a family's layers have no attention (Mamba, RWKV)."""
    return model_type in _MAMBA or str(model_type).startswith("rwkv")


def has_decoder_of_its_own(model_type: Any) -> bool:
    """Return whether a family has an encoder and a decoder."""
    return model_type in (*_T5, *_BART)


def _count_encoder(encoder: Encoder, row: Row, get: Lookup) -> int:
    hidden, vocab = row["hidden_size"], row["vocab_size"]
    narrow = get("embedding_size") or hidden
    positions = (row["max_positions"] + encoder.extra_positions) * encoder.has_positions
    types = (get(encoder.types_field) or 0) if encoder.types_field else 0
    types += (get("task_type_vocab_size") or 0) if get("use_task_id") is True else 0  # ERNIE 3.0
    n_params = (vocab + positions + types + 2 * encoder.n_end_norms) * narrow
    n_params += linear(narrow, hidden) * (narrow != hidden)
    n_layers = _count_shared(get) if encoder.shares_layers else row["n_layers"]
    n_params += n_layers * count_block(hidden, row["intermediate_size"])
    outputs = narrow if encoder.narrow_head else hidden
    untied = row.get("tied_embeddings") is False
    n_params += vocab * (outputs + encoder.biased_output) * untied
    return int(n_params + linear(hidden, outputs) + 2 * outputs + vocab)  # the language head


def _count_shared(get: Lookup) -> int:
    """Return how many layers ALBERT has parameters of, however often they are run."""
    return int((get("num_hidden_groups") or 1) * (get("inner_group_num") or 1))


def _count_t5(row: Row, get: Lookup) -> int:
    width, vocab = row["hidden_size"], row["vocab_size"]
    heads, inner = row["n_heads"], row["n_heads"] * row["head_dim"]
    attention = 4 * width * inner + width
    gated = get("is_gated_act") is True or "gated" in str(get("feed_forward_proj") or "")
    feed_forward = (3 if gated else 2) * width * row["intermediate_size"] + width
    decoder = count_decoder_layers(get)
    encoder = row["n_layers"] - decoder
    buckets = (get("relative_attention_num_buckets") or 32) * heads
    n_biases = encoder + decoder if get("model_type") == "umt5" else 2  # in each layer, or one
    tied = row.get("tied_embeddings") is not False
    n_params = (1 if tied else 2) * vocab * width + n_biases * buckets + 2 * width
    n_params += encoder * (attention + feed_forward) + decoder * (2 * attention + feed_forward)
    return int(n_params)


def _count_bart(row: Row, get: Lookup, *, positions: int | None, norms: int) -> int:
    """Count BART's kind; ``positions`` are rows added to each matrix of learned positions."""
    width, n_params = row["hidden_size"], row["vocab_size"] * row["hidden_size"]
    encoder = count_block(width, get("encoder_ffn_dim"))
    decoder = count_block(width, get("decoder_ffn_dim"), n_attentions=2)
    n_params += get("encoder_layers") * encoder + get("decoder_layers") * decoder
    if positions is not None:
        n_params += 2 * (get("max_position_embeddings") + positions) * width
    return int(n_params + norms * 2 * width)


def _count_whisper(row: Row, get: Lookup) -> int:
    width = row["hidden_size"]
    encoder = count_block(width, get("encoder_ffn_dim")) - width  # keys have no bias
    decoder = count_block(width, get("decoder_ffn_dim"), n_attentions=2) - 2 * width
    n_params = get("encoder_layers") * encoder + get("decoder_layers") * decoder
    n_params += 3 * width * (get("num_mel_bins") + width) + 2 * width  # two convolutions
    n_params += (get("max_source_positions") + get("max_target_positions")) * width
    return int(n_params + row["vocab_size"] * width + 2 * 2 * width)


def _count_mamba(row: Row, get: Lookup) -> int:
    """Count Mamba (Gu and Dao 2023): mixers alone."""
    hidden, state = row["hidden_size"], get("state_size")
    inner = get("intermediate_size") or (get("expand") or 2) * hidden  # Falcon's are no multiple
    rank = get("time_step_rank")
    rank = rank if isinstance(rank, int) else -(-hidden // 16)
    mixer = 3 * hidden * inner + inner * (rank + 2 * state) + linear(rank, inner)
    mixer += inner * (state + 1 + get("conv_kernel") + (get("use_conv_bias") is not False))
    mixer += (2 * inner + hidden) * (get("use_bias") is True)
    tables = 1 if row.get("tied_embeddings") is not False else 2
    return int(tables * row["vocab_size"] * hidden + row["n_layers"] * (mixer + hidden) + hidden)


def _count_mamba2(row: Row, get: Lookup) -> int:
    """Count Mamba-2 (Dao and Gu 2024): mixers alone."""
    hidden, heads = row["hidden_size"], get("num_heads")
    inner = (get("expand") or 2) * hidden
    convolved = inner + 2 * get("n_groups") * get("state_size")
    mixer = hidden * (inner + convolved + heads) + inner * hidden + inner + 3 * heads
    mixer += convolved * (get("conv_kernel") + (get("use_conv_bias") is not False))
    mixer += (inner + convolved + heads + hidden) * (get("use_bias") is True)
    tables = 1 if row.get("tied_embeddings") is True else 2
    return int(tables * row["vocab_size"] * hidden + row["n_layers"] * (mixer + hidden) + hidden)


_T5: Final = ("t5", "mt5", "umt5")
_BART: Final = ("bart", "mbart", "pegasus", "m2m_100", "whisper")
_MAMBA: Final = ("mamba", "falcon_mamba", "mamba2")
_BERT = partial(_count_encoder, Encoder())
#: Counts by ``model_type``.
OTHERS: Final[Mapping[str, Counter]] = {
    **dict.fromkeys(("bert", "roberta", "camembert", "xlm-roberta", "ernie", "ibert"), _BERT),
    "data2vec-text": _BERT,
    "roberta-prelayernorm": partial(_count_encoder, Encoder(n_end_norms=2)),
    "megatron-bert": _BERT,  # one norm, after the last layer instead of the embedding
    "electra": partial(_count_encoder, Encoder(narrow_head=True, biased_output=False)),
    "albert": partial(_count_encoder, Encoder(shares_layers=True, narrow_head=True)),
    "distilbert": partial(_count_encoder, Encoder(types_field=None, biased_output=False)),
    **dict.fromkeys(_T5, _count_t5),
    "bart": partial(_count_bart, positions=2, norms=2),
    "mbart": partial(_count_bart, positions=2, norms=4),
    "pegasus": partial(_count_bart, positions=0, norms=2),
    "m2m_100": partial(_count_bart, positions=None, norms=2),
    "whisper": _count_whisper,
    **dict.fromkeys(("mamba", "falcon_mamba"), _count_mamba),
    "mamba2": _count_mamba2,
}
