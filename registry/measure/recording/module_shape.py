"""The shape of a model that carries no configuration, from its modules."""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]


def read_module_shape(model: Any) -> Row:
    """Return what a model's modules show of its shape, in the names of a ``config.json``.

    Vocabulary and width are those of the largest embedding, the layers those of the longest list of
    modules; heads are stated by an attention module or by none.
    """
    modules = list(model.modules())
    tables = [m for m in modules if hasattr(m, "num_embeddings") and hasattr(m, "embedding_dim")]
    lists = [m for m in modules if type(m).__name__ == "ModuleList"]
    row: Row = {}
    if tables:
        largest = max(tables, key=lambda module: int(module.num_embeddings))
        row["vocab_size"] = int(largest.num_embeddings)
        row["hidden_size"] = int(largest.embedding_dim)
    if lists:
        row["num_hidden_layers"] = max(len(module) for module in lists)
    return {**row, **_read_heads(modules)}


def _read_heads(modules: list[Any]) -> Row:
    for module in modules:
        heads = (getattr(module, "num_heads", None), getattr(module, "num_kv_heads", None))
        if all(isinstance(number, int) and number for number in heads):
            return {"num_attention_heads": heads[0], "num_key_value_heads": heads[1]}
    return {}
