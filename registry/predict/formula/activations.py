"""What a micro-batch needs: activations of the layers, logits and their loss."""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.predict.formula.methods import added_tokens, kept_of_weights, kept_per_token
from registry.predict.formula.state import HALF_BYTES, compute_bytes
from registry.predict.formula.term import Term
from registry.predict.sharding import ANY_FSDP, FSDP_VERSIONS

if TYPE_CHECKING:
    from registry.predict.question import Question


def _tokens(question: Question) -> int:
    """Tokens that run through the layers, virtual ones included."""
    return question.micro_batch_size * (question.longest + added_tokens(question))


def layer_activation_bytes(question: Question) -> float:
    """Return what one layer keeps for its backward pass, without the attention matrix.

    Formula: counted over llama's modules in 16 bits, and checked by running them. Kept always: two
    norms in fp32 (8 hidden widths in bytes), queries, keys, values and the output of attention (2
    each), gate, its activation and up projection (6 MLP widths). Where the weights are trained, a
    product also keeps its input: 8 more hidden and 2 MLP widths, the norms' inputs among them. An
    MLP without a gate (GPT-2, GPT-NeoX, Phi; LayerNorm in 16 bits) keeps 4 hidden and 2 MLP widths,
    trained 4 and 2 more. As in Korthikanti et al. 2022, section 4.1, without dropout. Computed in
    fp32, all of it but llama's norms is twice as large.
    """
    model = question.model
    norms, inputs, middle = (8, 0, 6) if model.gated_mlp else (0, 4, 2)
    if question.full:
        inputs, middle = inputs + (8 if model.gated_mlp else 4), middle + 2
    heads = 4 * model.head_dim * (model.n_heads + model.n_kv_heads)
    others = inputs * model.hidden_size + middle * model.mlp_width + heads
    each = norms * model.hidden_size + compute_bytes(question) / HALF_BYTES * others
    return float(_tokens(question) * each)


def activations(question: Question) -> list[Term]:
    """Activations: one vector a token and layer with checkpointing, plus one entire layer.

    Eager attention keeps its matrix: heads x seq² scores, as scores, fp32 softmax and 16-bit
    probabilities (2 + 4 + 2 bytes). Adapters keep what `methods` says. Activations offloaded to
    the host are on the card for the layer at work and the next.
    """
    model, tokens = question.model, _tokens(question)
    checkpointed = bool(question.setting("gradient_checkpointing"))
    away = question.offload == "activations"
    layers = 1 if checkpointed else min(2, model.n_layers) if away else model.n_layers
    terms = [
        Term("layer_activations", "activations", layers * layer_activation_bytes(question),
             0.3, transient=True),
    ]  # fmt: skip
    if checkpointed:
        saved = float(compute_bytes(question) * tokens * model.hidden_size)
        kept = saved * (min(2, model.n_layers) if away else model.n_layers)
        terms.append(Term("checkpoints", "activations", kept, 0.2, transient=True))
    if not question.full:
        terms += _of_adapters(question, layers)
    if question.setting("attention") == "eager":
        matrix = 8.0 * model.n_heads * tokens * (question.longest + added_tokens(question)) * layers
        terms.append(Term("attention_matrix", "activations", matrix, 0.5, transient=True))
    return terms


def held_at_the_end(question: Question) -> list[Term]:
    """Return the activations at the end of the backward pass where they outlast their layers.

    FSDP 1, however it shards, waits for the gradients of the inputs of layers whose weights are
    frozen (`register_multi_grad_hook`, torch 2.1 to 2.13), and its hooks keep what they wait for
    until all layers are through: of a layer that is checkpointed with reentrant autograd, its input
    and the gradient of that, twice what checkpoints are. No terms of other training. Checked on 36
    runs of `fms-acceleration` (Mistral 7B and Llama 3 8B, LoRA and QLoRA on 2 and 4 cards): what
    PyTorch allocated is within 5 % of it where no logits are held.
    """
    frozen = question.sharding in ANY_FSDP and question.fsdp_version != FSDP_VERSIONS["fsdp2"]
    if not frozen or question.full or not question.setting("gradient_checkpointing"):
        return []
    return [
        term._replace(value=2 * term.value) if term.name == "checkpoints" else term
        for term in activations(question)
    ]


def _of_adapters(question: Question, layers: int) -> list[Term]:
    per_token = layers * _tokens(question) * kept_per_token(question)
    made = layers * kept_of_weights(question)
    return [
        Term("adapter_inputs", "activations", per_token, 0.6, transient=True),
        Term("adapter_matrices", "activations", made, 0.3),
    ]


#: Bytes of a logit at the start of the backward pass, by how the loss is computed. Whole: 16-bit
#: logits (2; none beside the copy if computed in fp32), their fp32 copy (4), log-probabilities (4)
#: and gradient (4). Chunked (torchtune):
#: 16-bit logits and their gradient whole, the rest for one of 8 chunks. Unsloth: the kernel writes
#: the gradient over the 16-bit logits. Liger and cut cross-entropy never hold all logits.
LOGIT_BYTES = {"whole": 14.0, "chunked": 4 + 12 / 8, "unsloth": 2.0, "liger": 0.0}


def logits(question: Question) -> list[Term]:
    """Logits: tokens x vocabulary, alive in several copies at the start of the backward pass.

    An output layer in fp32 adds 2 bytes each. Liger (Hsu et al. 2024, section 3.2) makes as many
    logits at a time as the hidden states weigh: 10 bytes a token and hidden width, gradient of the
    hidden states included.
    """
    kernel = question.setting("loss_kernel")
    tokens, model = _tokens(question), question.model
    each = LOGIT_BYTES[kernel]
    if kernel == "whole":
        is_wide = compute_bytes(question) > HALF_BYTES
        each += -HALF_BYTES if is_wide else 2 * question.keeps_fp32_embeddings
    held = each * tokens * model.vocab_size
    if kernel == "liger":
        held = 10.0 * tokens * model.hidden_size
    return [Term("logits", "logits", float(held), 0.2, transient=True)]


def fragmentation(question: Question) -> list[Term]:
    """Blocks that the caching allocator cannot use again where samples vary in length.

    The largest blocks are copies of the logits; a longer sample than all before finds the cached
    ones too small. It shows where samples beyond 2,048 tokens occur.
    """
    if not question.varies or question.setting("loss_kernel") != "whole":
        return []
    beyond = question.micro_batch_size * max(0, question.longest - 2048)
    held = 10.0 * beyond * question.model.vocab_size
    return [Term("fragmentation", "fragmentation", held, 1.0, transient=True)]
