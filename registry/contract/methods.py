"""Names of methods that people use for a method of the contract together with another setting."""

from __future__ import annotations

#: Customary names of methods on a quantized base: the method, and the bits of the base.
QUANTIZED = {"qlora": ("lora", 4), "qdora": ("dora", 4)}
