"""Which shardings spread which state over the ranks."""

from __future__ import annotations

#: Cards that a host has, as a rule.
CARDS_OF_A_HOST = 8
#: PyTorch's shardings that spread the weights.
FSDP = frozenset({"fsdp", "hsdp"})
#: All of FSDP's, that which spreads gradients and the optimizer's state alone among them.
ANY_FSDP = FSDP | {"fsdp_grad_op"}
#: Names of its two generations; only what the first holds to the end tells them apart.
FSDP_VERSIONS = {"fsdp1": 1, "fsdp2": 2, "fully_shard": 2}
#: Shardings that spread the weights, the gradients, the optimizer's state over the ranks.
SHARDS_WEIGHTS = FSDP | {"zero3", "device_map"}
SHARDS_GRADIENTS = SHARDS_WEIGHTS | {"zero2", "fsdp_grad_op"}
SHARDS_OPTIMIZER = SHARDS_GRADIENTS | {"zero1"}
