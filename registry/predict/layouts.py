"""Say what of a model the formulas take for something else: they know attention, MLP and logits."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from registry.catalogue.decoders import DECODERS
from registry.catalogue.encoders import OTHERS
from registry.catalogue.towers import TEXT_TYPES, TOWERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from registry.predict.question import Question

#: What layers have instead of attention, by ``Decoder.mixer``.
_MIXERS = {
    "delta": "a gated delta network",
    "kimi_delta": "a gated delta network",
    "lightning": "linear attention",
    "recurrent": "a recurrent block",
    "mamba": "Mamba",
    "mamba2": "Mamba-2",
    "short_convolution": "a convolution",
}
#: Families whose matrices are of a class of their own. transformers 5 hands bitsandbytes what is of
#: PyTorch's class itself (`replace_with_bnb_linear`), transformers 4 what derives from it too.
_OWN_LINEAR = frozenset({"falcon"})
#: Heads that classify, in a configuration's ``architectures``.
_CLASSIFIER = re.compile(r"\w*(For(Sequence|Token)Classification|ForReward|RewardModel)\w*")


def describe_layout(question: Question) -> Iterator[str]:
    """Yield what is computed as if it were a decoder of text whose layers are all llama's.

    With checkpointing one layer is alive at a time, and dry runs of Falcon-H1, Granite 4,
    Qwen3-Next and Nemotron-H agree within 15 %. Without it up to three times as much is kept of
    Mamba's layers, where PyTorch runs them without fused kernels.
    """
    model = question.model
    kind = TEXT_TYPES.get(model.model_type or "", model.model_type or "")
    mixer = DECODERS[kind].mixer if kind in DECODERS else None
    if mixer or _is_uncommon(kind) or kind not in {"", *DECODERS, *OTHERS, *TOWERS}:
        what = f"{_MIXERS[mixer]} in place of attention" if mixer else f"{kind}'s layout"
        yield (
            f"{model.model_id}: {what} is not computed: all layers count as llama's, of attention "
            f"and an MLP{_OPEN if question.gradient_checkpointing is not True else ''}; --exact "
            "(needs torch) executes them as they are"
        )
    if kind in _OWN_LINEAR and question.quantized and question.bitsandbytes:
        held = model.linear_params * (4 if question.keeps_fp32_embeddings else 2) / 2**30
        yield (
            f"{model.model_id}: its matrices are assumed to be quantized, as transformers 4 does; "
            f"transformers 5 hands none of {kind}'s to bitsandbytes: they take {held:.0f} GiB there"
        )
    if model.model_type in TOWERS:
        yield (
            f"{model.model_id} reads images too: their tokens are part of --seq-len; what its "
            "vision tower keeps of them is left out, and so are adapters in it, which PEFT adds "
            "where --targets match"
        )


def _is_uncommon(kind: str) -> bool:
    """Return whether a family is counted by itself, or its layers hold more than llama's."""
    decoder = DECODERS.get(kind)
    if decoder is None:
        return False
    return bool(decoder.stack or decoder.attention or decoder.extra in _MORE)


#: What layers have besides that takes memory of its own.
_MORE = frozenset({"indexer", "mamba2_beside"})
_OPEN = ", which without --checkpointing may be far too little"


def describe_head(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield what is computed of a model that classifies, by its configuration."""
    named = config.get("architectures")
    for name in named if isinstance(named, list) else ():
        if _CLASSIFIER.fullmatch(str(name)):
            yield (
                f"{name} is computed with an output layer and logits over the vocabulary, which it "
                "does not have: it takes less; --loss-kernel liger leaves the logits out"
            )
