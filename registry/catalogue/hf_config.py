"""Read the ``config.json`` of a transformers model as a row of the table ``models``, and write one.

This is the only place that knows how the families spell their figures. A figure that is not there,
or is not a whole number above 0, is left out of the row: `check_hf_config` says what is wrong.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from registry.catalogue.decoders import (
    DECODERS,
    count_active_parameters,
    count_parameters,
    has_bias,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from registry.catalogue.decoders import Decoder, Lookup

Row = dict[str, Any]

#: Columns of ``models`` and the names that configurations use for them, the usual one first.
SPELLINGS: Final[Mapping[str, tuple[str, ...]]] = {
    "n_layers": ("num_hidden_layers", "n_layer", "num_layers", "n_layers"),
    "hidden_size": ("hidden_size", "n_embd", "d_model"),
    "intermediate_size": (
        "intermediate_size", "ffn_hidden_size", "n_inner", "ffn_dim", "inner_hidden_size",
    ),
    "n_heads": ("num_attention_heads", "n_head", "n_heads"),
    "n_kv_heads": ("num_key_value_heads", "num_kv_heads", "n_head_kv", "n_query_groups"),
    "head_dim": ("head_dim", "kv_channels"),
    "vocab_size": ("vocab_size", "padded_vocab_size"),
    "max_positions": (
        "max_position_embeddings", "n_positions", "seq_length", "max_seq_len", "model_max_length",
    ),
    "n_experts": ("num_local_experts", "num_experts", "n_routed_experts"),
    "n_experts_active": ("num_experts_per_tok", "num_experts_per_token", "moe_topk"),
}  # fmt: skip

#: Fields in which 0 says that the model has no such thing.
_MAY_BE_ZERO: Final = (*SPELLINGS["n_experts"], *SPELLINGS["n_experts_active"])

#: Names under which single families keep the width of the MLP.
_MLP_WIDTH: Final = {
    "gpt2": "n_inner", "gpt_bigcode": "n_inner", "gptj": "n_inner", "bloom": "n_inner",
    "opt": "ffn_dim", "falcon": "ffn_hidden_size", "chatglm": "ffn_hidden_size",
}  # fmt: skip

#: Families whose MLP is four times as wide as the model where nothing is said.
_FOUR_TIMES: Final = frozenset({"gpt2", "gpt_bigcode", "gptj", "bloom", "falcon", "mpt"})
#: The family whose ``intermediate_size`` counts the gate and the up projection together.
_FUSED_GATE: Final = "qwen"
#: Parts in which models of several modalities keep the configuration of their decoder.
_TEXT_PARTS: Final = ("text_config", "llm_config", "language_config")

#: Fields that change a layout in a way that is not counted, and their values that do not.
_UNCOUNTED: Final[Mapping[str, tuple[Any, ...]]] = {
    "position_encoding_2d": (None, False),  # ChatGLM's first generation
    "mlp_only_layers": (None, []),
    "decoder_sparse_step": (None, 1),
    "use_qk_norm": (None, False),
    "qk_layernorm": (None, False),
    "no_bias": (None, True),
}
_COUNTED_FROM: Final = (
    "n_layers", "hidden_size", "intermediate_size", "n_heads", "n_kv_heads", "head_dim",
    "vocab_size", "tied_embeddings",
)  # fmt: skip


def parse_hf_config(config: Any) -> Row:
    """Return the columns of ``models`` that a configuration gives.

    ``config`` is the object of a ``config.json`` or a live transformers configuration. Of a model
    of several modalities the text part is read. Parameters are counted where the layout of the
    ``model_type`` is known to the last vector; they are never estimated.
    """
    part = _text_part(config)
    get = partial(_field, part)
    row = {"model_type": _field(config, "model_type"), **_sizes(get), **_layout(config, get)}
    row = {column: value for column, value in row.items() if value is not None}
    # A text part is not the whole model, so the whole is not counted from it.
    return row | _counts(row, get) if part is config else row


def is_hf_config(document: Any) -> bool:
    """Return whether a JSON document is the configuration of a decoder, in any family's names."""
    named = isinstance(document, dict) and isinstance(document.get("model_type"), str)
    return named and "n_layers" in parse_hf_config(document)


def check_hf_config(config: Any) -> list[str]:
    """Return a problem for each figure of a configuration that is not a whole number above 0."""
    get = partial(_field, _text_part(config))
    return [
        f"{name}: found {get(name)!r}; expected a whole number above 0"
        for names in SPELLINGS.values()
        for name in names
        if get(name) is not None and not _is_size(get(name)) and name not in _MAY_BE_ZERO
    ]


def format_hf_config(row: Mapping[str, Any]) -> Row:
    """Return a configuration of the shape that a row of ``models`` describes."""
    row = {column: value for column, value in row.items() if value is not None}
    config = {name: row[column] for column, name in _names(row).items() if column in row}
    if row.get("model_type") == _FUSED_GATE and "intermediate_size" in row:
        config["intermediate_size"] *= 2
    if "n_experts" in row:  # families differ in the name, and ignore the other's
        config["num_experts"] = row["n_experts"]
        config.setdefault("num_experts_per_tok", 2)
        if "intermediate_size" in row:
            config["moe_intermediate_size"] = row["intermediate_size"]
    if "head_dim" in config and config["head_dim"] == _usual_head_dim(row):
        del config["head_dim"]
    return config


def _names(row: Row) -> dict[str, str]:
    """Return the name of each column in a configuration of the row's family."""
    names = {column: spellings[0] for column, spellings in SPELLINGS.items()}
    names |= {"model_type": "model_type", "tied_embeddings": "tie_word_embeddings"}
    mlp_width = _MLP_WIDTH.get(row.get("model_type", ""), names["intermediate_size"])
    return names | {"attention_bias": _bias_flag(row), "intermediate_size": mlp_width}


def _bias_flag(row: Mapping[str, Any]) -> str:
    decoder = DECODERS.get(row.get("model_type") or "")
    flag = decoder.query_bias if decoder else None
    return flag if isinstance(flag, str) else "attention_bias"


def _field(config: Any, name: str) -> Any:
    return config.get(name) if isinstance(config, dict) else getattr(config, name, None)


def _text_part(config: Any) -> Any:
    parts = (_field(config, name) for name in _TEXT_PARTS)
    return next((part for part in parts if part and _sizes(partial(_field, part))), config)


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def _sizes(get: Lookup) -> Row:
    """Return the sizes that are there, and those that follow from them."""
    row = {}
    for column, names in SPELLINGS.items():
        found = next((value for name in names if _is_size(value := get(name))), None)
        if found is not None:
            row[column] = found
    if "hidden_size" in row:
        row |= _mlp_width(row, get) | _heads(row, get)
    return row


def _mlp_width(row: Row, get: Lookup) -> Row:
    if _is_size(get("moe_intermediate_size")):
        return {"intermediate_size": get("moe_intermediate_size")}
    kind, width = get("model_type"), row.get("intermediate_size")
    if kind == _FUSED_GATE and width:
        return {"intermediate_size": width // 2}
    if width is None and kind in _FOUR_TIMES:
        return {"intermediate_size": (get("expansion_ratio") or 4) * row["hidden_size"]}
    return {}


def _heads(row: Row, get: Lookup) -> Row:
    if "n_heads" not in row:
        return {}
    found = {"n_kv_heads": _kv_heads(row, get)}
    if get("kv_lora_rank"):  # latent attention: a query is wider than the residual stream's share
        found["head_dim"] = (get("qk_nope_head_dim") or 0) + (get("qk_rope_head_dim") or 0)
    elif "head_dim" not in row:
        found["head_dim"] = row["hidden_size"] // row["n_heads"]
    return found


def _kv_heads(row: Row, get: Lookup) -> int:
    """Return the key and value heads: as many as query heads where nothing is said."""
    if get("multi_query_attention") is True and _is_size(get("multi_query_group_num")):
        return int(get("multi_query_group_num"))
    one_for_all = get("model_type") in ("falcon", "gpt_bigcode")
    one_for_all &= get("multi_query") is not False and get("new_decoder_architecture") is not True
    return 1 if one_for_all else int(row.get("n_kv_heads") or row["n_heads"])


def _layout(config: Any, get: Lookup) -> Row:
    decoder = DECODERS.get(get("model_type") or "")
    tied = [_field(config, "tie_word_embeddings"), get("tie_word_embeddings")]
    tied += [decoder.tied_embeddings] if decoder else []
    bias = has_bias(decoder, decoder.query_bias, get) if decoder else get("attention_bias")
    return {
        "tied_embeddings": next((value for value in tied if isinstance(value, bool)), None),
        "attention_bias": bias if isinstance(bias, bool) else None,
        "gated_mlp": decoder.gated_mlp if decoder else _gated_by_activation(get),
    }


def _gated_by_activation(get: Lookup) -> bool | None:
    """Return what the activation suggests of a family that is not listed; None for no guess."""
    names = (get(name) for name in ("hidden_act", "hidden_activation", "activation_function"))
    activation = next((name for name in names if isinstance(name, str)), "")
    if activation in ("silu", "swish") or "glu" in activation:
        return True
    return False if activation in ("relu", "relu2", "gelu_new", "gelu_fast") else None


def _counts(row: Row, get: Lookup) -> Row:
    """Return the parameters in all, and those of one token in a mixture; nothing if not exact."""
    decoder = DECODERS.get(get("model_type") or "")
    if decoder is None or not _is_counted(row, decoder, get):
        return {}
    counts = {"n_params": count_parameters(row, decoder, get)}
    if row.get("n_experts") and row.get("n_experts_active"):
        counts["n_active_params"] = count_active_parameters(row, decoder, get)
    return counts


def _is_counted(row: Row, decoder: Decoder, get: Lookup) -> bool:
    needed = (*_COUNTED_FROM, *(() if decoder.extra_positions is None else ("max_positions",)))
    return (
        all(row.get(column) is not None for column in needed)
        and all(get(name) in usual for name, usual in _UNCOUNTED.items())
        and get("word_embed_proj_dim") in (None, row["hidden_size"])
    )


def _usual_head_dim(row: Mapping[str, Any]) -> int | None:
    hidden, heads = row.get("hidden_size"), row.get("n_heads")
    return hidden // heads if hidden and heads else None
