"""The curated catalogue: its arithmetic, its keys and its types.

Parameter counts are recomputed from the architecture, so a mistyped width, layer count or
vocabulary cannot stay. Peak rates of NVIDIA's GA10x, Ada and Blackwell cards are recomputed
from SM count and boost clock for the same reason.
"""

import re
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from registry.catalogue.known import Catalogue
from registry.contract.resources import parse_yaml
from registry.measure.matching import find_gpu
from registry.text import format_slug

CATALOGUE: Final = Path(__file__).parents[3] / "records" / "catalogue"
MEBIBYTE: Final = 2**20

Entry = dict[str, Any]


def read_entries(name: str) -> list[Entry]:
    entries: list[Entry] = parse_yaml((CATALOGUE / name).read_bytes())
    return entries


MODELS: Final = {model["model_id"]: model for model in read_entries("models.yaml")}
GPUS: Final = {gpu["gpu_id"]: gpu for gpu in read_entries("gpus.yaml")}

# Why these are not held to the last parameter: their config.json was not read in full.
APPROXIMATE: Final = {
    "granite-4.0-tiny-preview": "vocabulary and kv heads of this checkpoint are not known",
    "moe-7b-1b-active-shared-experts": "no shape at all; counted from the size of its shards",
}
# Models of which the sources at hand state a name, or a count, alone.
UNSHAPED: Final = {key for key, model in MODELS.items() if model["model_type"] is None}
EXACT: Final = sorted(set(MODELS) - set(APPROXIMATE) - UNSHAPED)

# Families whose plan is written out below, apart from the reader; a test holds the reader's other
# plans to the modules of transformers.
PLAIN: Final = {
    *("qwen", "qwen2", "llama", "mistral", "mixtral", "chatglm", "baichuan", "internlm2", "phi3"),
    *("qwen3", "gemma", "gemma2", "granite", "granitemoe", "bloom", "gpt_bigcode"),
}
SPELLED_OUT: Final = [key for key in EXACT if MODELS[key]["model_type"] in PLAIN]
MIXTURES: Final = sorted(
    model_id for model_id in EXACT if MODELS[model_id]["n_experts"] is not None
)
PLAIN_MIXTURES: Final = sorted({*MIXTURES} & {*SPELLED_OUT})

# Totals that the checkpoints themselves state (safetensors metadata, or the paper), from
# outside the formulas below.
PUBLISHED_N_PARAMS: Final = {
    "qwen-7b": 7_721_324_544,
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "llama-3.2-3b": 3_212_749_824,
    "mixtral-8x7b": 46_702_792_704,
    "chatglm3-6b": 6_243_584_000,
    "qwen2.5-7b": 7_615_616_512,
    "qwen3-8b": 8_190_735_360,
    "gemma-2-2b": 2_614_341_888,
    "phi-3-mini": 3_821_079_552,
    "santacoder": 1_124_886_528,
}


def count_embeddings(model: Entry) -> int:
    tables = 1 if model["tied_embeddings"] else 2
    return int(tables * model["vocab_size"] * model["hidden_size"])


def count_attention(model: Entry) -> int:
    query = model["n_heads"] * model["head_dim"]
    fused = query + 2 * model["n_kv_heads"] * model["head_dim"]
    bias = fused if model["attention_bias"] else 0
    return int(model["hidden_size"] * (fused + query) + bias)


def count_mlp(model: Entry, n_experts: int | None) -> int:
    projections = 3 if model["gated_mlp"] else 2
    one = projections * model["hidden_size"] * model["intermediate_size"]
    if n_experts is None:
        return int(one)
    router = model["hidden_size"] * model["n_experts"]
    return int(n_experts * one + router)


def count_layer_norms(model: Entry) -> int:
    norms = 4 if model["model_type"] == "gemma2" else 2
    query_and_key = 2 * model["head_dim"] if model["model_type"] == "qwen3" else 0
    return int(norms * model["hidden_size"] + query_and_key)


def count_decoder(model: Entry, n_experts: int | None) -> int:
    """Llama's plan: RMS norms, no bias but q, k and v's, one norm before the output layer."""
    layer = count_attention(model) + count_mlp(model, n_experts) + count_layer_norms(model)
    return int(count_embeddings(model) + model["n_layers"] * layer + model["hidden_size"])


def count_gpt2_like(model: Entry) -> int:
    """GPT-2's plan: layer norms with a bias, a bias in every linear layer."""
    hidden, inner = model["hidden_size"], model["intermediate_size"]
    biases = hidden + inner + hidden  # attention output, MLP up, MLP down
    layer = count_attention(model) + count_mlp(model, None) + biases + 4 * hidden
    return int(count_embeddings(model) + model["n_layers"] * layer + 2 * hidden)


def count_params(model: Entry, n_experts: int | None) -> int:
    if model["model_type"] == "bloom":
        return count_gpt2_like(model) + 2 * int(model["hidden_size"])  # norm of the embedding
    if model["model_type"] == "gpt_bigcode":
        positions = int(model["max_positions"] * model["hidden_size"])
        return count_gpt2_like(model) + positions
    return count_decoder(model, n_experts)


def count_granite_hybrid(model: Entry, *, vocab_size: int, n_kv_heads: int) -> int:
    """Mamba-2 layers (Dao and Gu 2024) but for four; every layer has experts and a shared one."""
    full = model | {"vocab_size": vocab_size, "n_kv_heads": n_kv_heads}
    hidden, inner, state, n_heads = model["hidden_size"], 3072, 128, 48
    convolved = inner + 2 * state
    mamba = hidden * (inner + convolved + n_heads) + 5 * convolved + 3 * n_heads
    mamba += inner + inner * hidden  # gated norm, output projection
    mixture = count_mlp(full, full["n_experts"]) + 3 * hidden * 1024 + 2 * hidden
    attention = 4 * count_attention(full) + (full["n_layers"] - 4) * mamba
    return int(count_embeddings(full) + attention + full["n_layers"] * mixture + hidden)


def list_names(entry: Entry, *fields: str) -> set[str]:
    return {str(entry[field]).casefold() for field in fields} | {
        alias.casefold() for alias in entry["aliases"]
    }


def find_shared(groups: list[set[str]]) -> list[str]:
    counts = Counter(name for group in groups for name in group)
    return sorted(name for name, count in counts.items() if count > 1)


@pytest.mark.parametrize("model_id", SPELLED_OUT)
def test_parameters_add_up_to_the_last_one(model_id: str) -> None:
    model = MODELS[model_id]
    assert count_params(model, model["n_experts"]) == model["n_params"]


@pytest.mark.parametrize("model_id", sorted(PUBLISHED_N_PARAMS))
def test_parameters_are_those_of_the_published_checkpoint(model_id: str) -> None:
    assert MODELS[model_id]["n_params"] == PUBLISHED_N_PARAMS[model_id]


@pytest.mark.parametrize("model_id", PLAIN_MIXTURES)
def test_active_parameters_leave_out_the_experts_not_chosen(model_id: str) -> None:
    model = MODELS[model_id]
    assert count_params(model, model["n_experts_active"]) == model["n_active_params"]


def test_only_mixtures_have_active_parameters() -> None:
    with_active = {key for key, model in MODELS.items() if model["n_active_params"] is not None}
    assert with_active == set(MIXTURES)


@pytest.mark.parametrize(("vocab_size", "n_kv_heads"), [(49160, 4), (50304, 4), (50304, 12)])
def test_hybrid_granite_is_right_to_one_percent(vocab_size: int, n_kv_heads: int) -> None:
    model = MODELS["granite-4.0-tiny-preview"]
    counted = count_granite_hybrid(model, vocab_size=vocab_size, n_kv_heads=n_kv_heads)
    assert model["n_params"] == pytest.approx(counted, rel=0.01)


def test_shared_expert_granite_has_the_bytes_of_its_shards() -> None:
    shard_bytes = (4.72 + 4.99 + 4.84 + 4.65 + 4.99 + 1.30) * 1e9
    model = MODELS["moe-7b-1b-active-shared-experts"]
    assert model["n_params"] == pytest.approx(shard_bytes / 4, rel=0.01)


def test_powerlm_has_the_bytes_of_its_shards() -> None:
    shard_bytes = (4.87 + 4.93 + 4.25) * 1e9
    assert MODELS["powerlm-3b"]["n_params"] == pytest.approx(shard_bytes / 4, rel=0.01)


@pytest.mark.parametrize("model_id", sorted(UNSHAPED))
def test_a_model_without_shape_says_so_and_where_it_is_named(model_id: str) -> None:
    model = MODELS[model_id]
    assert model["note"].startswith(("no shape: ", "no shape but its layers: "))
    assert model["hidden_size"] is None


@pytest.mark.parametrize("model_id", sorted(APPROXIMATE))
def test_an_approximate_count_says_so(model_id: str) -> None:
    assert MODELS[model_id]["note"].startswith("approximate: ")


def test_pruned_bloom_is_bloom_3b_less_the_tokens_cut() -> None:
    cut = (250_880 - 46_145) * 2560
    assert MODELS["bloom-2b6"]["n_params"] == 3_002_557_440 - cut


@pytest.mark.parametrize("model_id", [f"qwen-{size}" for size in ("1.8b", "7b", "14b", "72b")])
def test_chat_variants_have_the_shape_of_their_base(model_id: str) -> None:
    shape = ("n_params", "n_layers", "hidden_size", "intermediate_size", "vocab_size")
    base, chat = MODELS[model_id], MODELS[f"{model_id}-chat"]
    assert [chat[field] for field in shape] == [base[field] for field in shape]


@pytest.mark.parametrize("name", ["models.yaml", "gpus.yaml"])
def test_ids_are_unique_slugs(name: str) -> None:
    ids = [next(iter(entry.values())) for entry in read_entries(name)]
    assert [slug for slug in ids if not re.fullmatch(r"[a-z0-9][a-z0-9.-]*", slug)] == []
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("name", ["models.yaml", "gpus.yaml"])
def test_every_entry_has_the_same_fields_in_the_same_order(name: str) -> None:
    assert len({tuple(entry) for entry in read_entries(name)}) == 1


def test_no_name_means_two_models() -> None:
    groups = [
        list_names(model, "model_id", *(["hf_id"] if model["hf_id"] else []))
        for model in MODELS.values()
    ]
    assert find_shared(groups) == []


def test_no_name_means_two_gpus() -> None:
    groups = [
        list_names(gpu, "gpu_id", "name") | {name.casefold() for name in gpu["device_names"]}
        for gpu in GPUS.values()
    ]
    assert find_shared(groups) == []


@pytest.mark.parametrize("name", ["models.yaml", "gpus.yaml"])
def test_aliases_stand_once_and_are_not_the_id(name: str) -> None:
    for entry in read_entries(name):
        names = [next(iter(entry.values())), *(alias.casefold() for alias in entry["aliases"])]
        assert len(names) == len(set(names)), names


MODEL_TEXTS: Final = ("model_id", "family", "model_type")
MODEL_FLAGS: Final = ("gated_mlp", "tied_embeddings", "attention_bias")
MODEL_COUNTS: Final = (
    "n_params",
    "n_active_params",
    "n_layers",
    "hidden_size",
    "intermediate_size",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "vocab_size",
    "max_positions",
    "n_experts",
    "n_experts_active",
)
OPTIONAL_COUNTS: Final = {"n_active_params", "n_experts", "n_experts_active"}

# Columns that families do not have, or that their sources do not say.
SPARSE: Final = {"gated_mlp", "attention_bias", "max_positions"}


@pytest.mark.parametrize("model_id", sorted(MODELS))
def test_model_fields_have_their_types(model_id: str) -> None:
    model = MODELS[model_id]
    is_sparse = model_id not in EXACT
    optional = {*MODEL_COUNTS, *MODEL_FLAGS} if is_sparse else {*OPTIONAL_COUNTS, *SPARSE}
    for field in MODEL_TEXTS:
        is_open = field == "model_type" and model_id in UNSHAPED
        assert isinstance(model[field], str) or is_open, field
    for field in MODEL_FLAGS:
        assert type(model[field]) is bool or field in optional, field
    for field in MODEL_COUNTS:
        value = model[field]
        assert (value is None and field in optional) or (type(value) is int and value > 0), field
    assert model["hf_id"] is None or isinstance(model["hf_id"], str)


@pytest.mark.parametrize("name", ["models.yaml", "gpus.yaml"])
def test_figures_have_their_source_or_say_that_nobody_read_one(name: str) -> None:
    for entry in read_entries(name):
        if entry["verified"] is False:
            assert entry["source"] is None, entry
        elif entry.get("gpu_id") == "cpu":
            assert entry["source"] == "a word of this registry; it states no figure"
        else:
            assert entry["source"].startswith("https://"), entry


def test_the_catalogue_covers_what_people_train_on() -> None:
    assert len(MODELS) >= 250
    assert len(GPUS) >= 90


def test_cards_are_kinds_of_cards_that_there_are() -> None:
    families = {gpu["family_id"] for gpu in GPUS.values()} - {None}
    assert families == {"a100", "a100-40gb", "a100-80gb", "h100", "h100-80gb", "v100",
                        "v100-16gb", "v100-32gb"}  # fmt: skip
    assert families <= {*GPUS}


@pytest.mark.parametrize("gpu_id", sorted(key for key, gpu in GPUS.items() if gpu["family_id"]))
def test_a_family_states_only_what_its_kinds_share(gpu_id: str) -> None:
    card, family = GPUS[gpu_id], GPUS[GPUS[gpu_id]["family_id"]]
    for field in (*GPU_FIGURES, "vendor", "architecture", "compute_capability"):
        if family[field] is not None and card[field] is not None and field != "released":
            assert card[field] == family[field], field


@pytest.mark.parametrize("model_id", EXACT)
def test_query_heads_share_key_and_value_heads_evenly(model_id: str) -> None:
    assert MODELS[model_id]["n_heads"] % MODELS[model_id]["n_kv_heads"] == 0


GPU_FIGURES: Final = (
    "memory_bytes",
    "memory_bandwidth_bytes_per_second",
    "peak_flops_fp32",
    "peak_flops_tf32",
    "peak_flops_fp16",
    "peak_flops_bf16",
    "peak_flops_fp8",
    "peak_ops_int8",
    "released",
)
CARDS: Final = sorted(set(GPUS) - {"cpu"})
NVIDIA: Final = [
    gpu_id
    for gpu_id in CARDS
    if GPUS[gpu_id]["vendor"] == "nvidia" and GPUS[gpu_id]["memory_source"]
]


@pytest.mark.parametrize("gpu_id", CARDS)
def test_gpu_fields_have_their_types(gpu_id: str) -> None:
    gpu = GPUS[gpu_id]
    for field in ("vendor", "name", "architecture"):
        assert isinstance(gpu[field], str), field
    for field in GPU_FIGURES:
        value = gpu[field]
        assert value is None or (type(value) is int and value > 0), field
    assert gpu["device_names"] or "form factor not stated" in gpu["note"]
    if gpu["verified"] is not False:
        assert (gpu["memory_bytes"] is None) == (gpu["memory_source"] is None)


def test_a_run_without_accelerator_has_no_figures() -> None:
    cpu = GPUS["cpu"]
    assert [field for field in GPU_FIGURES if cpu[field] is not None] == []
    assert (cpu["vendor"], cpu["device_names"], cpu["aliases"]) == (None, [], [])


@pytest.mark.parametrize("gpu_id", NVIDIA)
def test_nvidia_memory_is_whole_mebibytes_as_its_source_says(gpu_id: str) -> None:
    gpu = GPUS[gpu_id]
    mebibytes, remainder = divmod(gpu["memory_bytes"], MEBIBYTE)
    assert remainder == 0
    assert gpu["memory_source"].startswith(f"{mebibytes} MiB, ")
    assert re.fullmatch(r"\d+\.\d", gpu["compute_capability"])


@pytest.mark.parametrize(
    ("gpu_id", "mebibytes"),
    [
        ("a100-sxm4-80gb", 81920),
        ("h100-sxm5-80gb", 81559),
        ("h200", 143771),
        ("rtx-3090", 24576),
        ("rtx-4090", 24564),
        ("l40s", 46068),
        ("t4", 15360),
        ("a10g", 23028),
    ],
)
def test_memory_is_what_nvidia_smi_prints(gpu_id: str, mebibytes: int) -> None:
    assert GPUS[gpu_id]["memory_bytes"] == mebibytes * MEBIBYTE


@pytest.mark.parametrize("gpu_id", CARDS)
def test_narrower_types_are_not_slower(gpu_id: str) -> None:
    fields = ("peak_flops_fp32", "peak_flops_tf32", "peak_flops_fp16", "peak_flops_fp8")
    rates = [GPUS[gpu_id][field] for field in fields if GPUS[gpu_id][field] is not None]
    assert rates == sorted(rates)


@pytest.mark.parametrize("gpu_id", CARDS)
def test_bf16_runs_at_the_rate_of_fp16_where_both_exist(gpu_id: str) -> None:
    fp16, bf16 = GPUS[gpu_id]["peak_flops_fp16"], GPUS[gpu_id]["peak_flops_bf16"]
    assert fp16 is None or bf16 is None or fp16 == bf16 or gpu_id == "mi100"


# SMs and boost clock in MHz (white papers and product pages), and how often the dense fp16
# rate with fp32 accumulation holds the fp32 rate: 2 on GeForce and its kin, 4 elsewhere.
CLOCKED: Final = {
    "a10": (72, 1695, 4),
    "a40": (84, 1740, 4),
    "rtx-a6000": (84, 1800, 4),
    "l4": (58, 2040, 4),
    "l40": (142, 2490, 2),
    "l40s": (142, 2520, 4),
    "rtx-6000-ada": (142, 2505, 4),
    "rtx-3060-12gb": (28, 1777, 2),
    "rtx-3080-10gb": (68, 1710, 2),
    "rtx-3090": (82, 1695, 2),
    "rtx-3090-ti": (84, 1860, 2),
    "rtx-4060-ti-16gb": (34, 2535, 2),
    "rtx-4070-ti": (60, 2610, 2),
    "rtx-4080": (76, 2505, 2),
    "rtx-4090": (128, 2520, 2),
    "rtx-5080": (84, 2617, 2),
    "rtx-5090": (170, 2407, 2),
}


@pytest.mark.parametrize("gpu_id", sorted(CLOCKED))
def test_peak_rates_are_dense_and_accumulate_in_fp32(gpu_id: str) -> None:
    n_sms, boost_mhz, ratio = CLOCKED[gpu_id]
    fp32 = n_sms * 128 * 2 * boost_mhz * 10**6
    assert GPUS[gpu_id]["peak_flops_fp32"] == pytest.approx(fp32, rel=0.01)
    assert GPUS[gpu_id]["peak_flops_fp16"] == pytest.approx(ratio * fp32, rel=0.015)


@pytest.mark.parametrize(
    ("gpu_id", "name"),
    [(key, name) for key, gpu in GPUS.items() for name in gpu["device_names"] or ()],
)
def test_a_card_is_found_by_the_name_that_its_driver_gives(gpu_id: str, name: str) -> None:
    described = {"gpu_id": format_slug(name), "device_names": [name]}
    assert find_gpu(described, Catalogue(gpus=GPUS)) == gpu_id
