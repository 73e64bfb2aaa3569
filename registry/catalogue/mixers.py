"""Count what a layer of a hybrid decoder has instead of attention."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from registry.catalogue.decoders import Lookup

    Row = Mapping[str, Any]
    Mixer = Callable[[Row, Lookup], int]


def _count_delta(row: Row, get: Lookup) -> int:
    """Count a gated delta network (Yang et al. 2024) as Qwen3-Next has it."""
    hidden, values = row["hidden_size"], get("linear_num_value_heads")
    key = get("linear_num_key_heads") * get("linear_key_head_dim")
    value = values * get("linear_value_head_dim")
    n_params = hidden * (2 * key + 2 * value + 2 * values) + value * hidden
    n_params += (2 * key + value) * get("linear_conv_kernel_dim")
    return int(n_params + 2 * values + get("linear_value_head_dim"))


def _count_mamba(row: Row, get: Lookup) -> int:
    """Count Mamba's mixer (Gu and Dao 2023) with the norms that Jamba adds."""
    hidden, state = row["hidden_size"], get("mamba_d_state")
    inner = (get("mamba_expand") or 2) * hidden
    rank = get("mamba_dt_rank")
    rank = rank if isinstance(rank, int) else -(-hidden // 16)
    n_params = 2 * hidden * inner + inner * hidden + inner * (rank + 2 * state)
    n_params += rank * inner + inner  # time steps
    n_params += inner * state + inner + inner * get("mamba_d_conv")
    n_params += inner * (get("mamba_conv_bias") is not False)
    n_params += (2 * inner + hidden) * (get("mamba_proj_bias") is True)
    return int(n_params + rank + 2 * state)


def count_mamba2(  # noqa: PLR0913 - the shape of one module
    hidden: int,
    heads: int,
    inner: int,
    states: int,
    kernel: int,
    *,
    convolution_bias: bool,
    biases: tuple[bool, bool] = (False, False),
    has_norm: bool = True,
) -> int:
    """Count Mamba-2's mixer (Dao and Gu 2024); ``biases`` are those into it and out of it.

    ``states`` is the width of what is convolved besides the inner width: twice groups by states.
    """
    convolved = inner + states
    inputs = inner + convolved + heads
    n_params = hidden * inputs + inner * hidden + 3 * heads + has_norm * inner
    n_params += convolved * (kernel + convolution_bias)
    return int(n_params + biases[0] * inputs + biases[1] * hidden)


def _count_mamba2(row: Row, get: Lookup) -> int:
    hidden, into = row["hidden_size"], get("mamba_proj_bias") is True
    out = get("projectors_bias")  # Falcon-H1's, which may leave the norm out too
    return count_mamba2(
        hidden,
        get("mamba_n_heads"),
        get("mamba_d_ssm") or (get("mamba_expand") or 2) * hidden,
        2 * get("mamba_n_groups") * get("mamba_d_state"),
        get("mamba_d_conv"),
        convolution_bias=get("mamba_conv_bias") is not False,
        biases=(into, into if out is None else out is True),
        has_norm=get("mamba_rms_norm") is not False,
    )


def read_kimi(get: Lookup) -> Mapping[str, Any]:
    """Return the part in which Kimi's published configurations describe their linear attention."""
    own = get("linear_attn_config")
    return own if isinstance(own, dict) else {}


def _count_kimi_delta(row: Row, get: Lookup) -> int:
    """Count Kimi's delta attention: as many queries, keys and values, and two low-rank gates."""
    own = read_kimi(get)
    hidden, head = row["hidden_size"], own.get("head_dim") or get("linear_head_dim")
    heads = own.get("num_heads") or get("linear_num_heads")
    kernel = own.get("short_conv_kernel_size") or get("linear_conv_kernel_dim")
    width = heads * head
    n_params = 4 * hidden * width + 3 * width * kernel + 2 * (hidden * head + head * width)
    return int(n_params + hidden * heads + width + heads + head)


def _count_lightning(row: Row, _: Lookup) -> int:
    """Count MiniMax's linear attention: queries, keys, values, a gate, a norm and the output."""
    hidden, inner = row["hidden_size"], row["n_heads"] * row["head_dim"]
    return int(5 * hidden * inner + inner)


def _count_short_convolution(row: Row, get: Lookup) -> int:
    """Count LFM2's gated convolution."""
    hidden = row["hidden_size"]
    biases = 5 * hidden * (get("conv_bias") is True)
    return int(4 * hidden * hidden + hidden * get("conv_L_cache") + biases)


def _count_recurrent(row: Row, get: Lookup) -> int:
    """Count Griffin's recurrent block (De et al. 2024), whose gates work in blocks, one a head."""
    hidden, heads = row["hidden_size"], row["n_heads"]
    width = get("lru_width") or hidden
    n_params = 3 * hidden * width + 2 * width + hidden
    n_params += width * (get("conv1d_width") + 1) + width
    return int(n_params + 2 * heads * ((width // heads) ** 2 + width // heads))


#: Mixers by the name that ``Decoder.mixer`` gives.
MIXERS: Final[Mapping[str, Mixer]] = {
    "delta": _count_delta,
    "kimi_delta": _count_kimi_delta,
    "mamba": _count_mamba,
    "mamba2": _count_mamba2,
    "lightning": _count_lightning,
    "recurrent": _count_recurrent,
    "short_convolution": _count_short_convolution,
}
