"""Names as people write them lead to the curated catalogue's ids; a suggestion keeps the size."""

from __future__ import annotations

import pytest

from registry.store.folder import curated_dir
from registry.tables.curated import load_curated_catalogue

CATALOGUE = load_curated_catalogue(curated_dir())


@pytest.mark.parametrize(
    ("name", "gpu_id"),
    [
        ("RTX A6000", "rtx-a6000"),
        ("GeForce RTX 4090", "rtx-4090"),
        ("RTX4090", "rtx-4090"),
        ("RTX 4090 24GB", "rtx-4090"),
        ("RTX 3090, 24G", "rtx-3090"),
        ("RTX4070Ti SUPER", "rtx-4070-ti-super"),
        ("1080Ti", "gtx-1080-ti"),
        ("A100", "a100"),
        ("A100 40GB", "a100-40gb"),
        ("A100-80G", "a100-80gb"),
        ("NVIDIA A100-SXM4-80GB", "a100-sxm4-80gb"),
        ("A10G", "a10g"),
        ("H100", "h100"),
        ("H100 SXM", "h100-sxm5-80gb"),
        ("H100 80GB", "h100-80gb"),
        ("H100 NVL", "h100-nvl-94gb"),
        ("Tesla V100 32G", "v100-32gb"),
        ("Tesla V100", "v100"),
        ("Quadro RTX 6000", "quadro-rtx-6000"),
        ("RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("910B", "ascend-910b"),
        ("Ascend 910B", "ascend-910b"),
        ("华为昇腾 910B", "ascend-910b"),
        ("昇腾910B", "ascend-910b"),
        ("TPU v5e", "tpu-v5e"),
        ("TPU v5 lite", "tpu-v5e"),
        ("Gaudi 2", "gaudi2"),
        ("M3 Max", "apple-m3-max"),
        ("AMD Instinct MI 300X", "mi300x"),
        ("Trn1", "trainium1"),
    ],
)
def test_a_card_is_found_by_what_people_call_it(name: str, gpu_id: str) -> None:
    assert CATALOGUE.resolve_gpu(name) == gpu_id


@pytest.mark.parametrize(
    ("name", "model_id"),
    [
        ("Llama 3.1 8B", "llama-3.1-8b"),
        ("llama3_1_8b", "llama-3.1-8b"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b"),
        ("unsloth/Meta-Llama-3.1-8B-bnb-4bit", "llama-3.1-8b"),
        ("Qwen2.5-7B-Instruct", "qwen2.5-7b"),
        ("unsloth/Qwen3-14B-unsloth-bnb-4bit", "qwen3-14b"),
        ("qwen-7b-chat", "qwen-7b-chat"),
        ("mistral 7b", "mistral-7b"),
        ("Mistral-7B-Instruct-v0.3", "mistral-7b-v0.3"),
        ("Mixtral 8x7B", "mixtral-8x7b"),
        ("llama2 70b", "llama-2-70b"),
        ("T5 large", "t5-large"),
        ("DeepSeek R1", "deepseek-v3"),
        ("Gemma-3 4B it", "gemma-3-4b"),
        ("Qwen3-4B-Thinking-2507", "qwen3-4b"),
        ("Qwen/Qwen3-30B-A3B-Instruct-2507-FP8", "qwen3-30b-a3b"),
        ("Qwen2.5-7B-Instruct-GPTQ-Int4", "qwen2.5-7b"),
        ("Mistral-7B-Instruct-v0.2.Q4_K_M.gguf", "mistral-7b-v0.2"),
        ("Llama-3.2-1B-Instruct-IQ3_XXS.gguf", "llama-3.2-1b"),
        ("Qwen3-8B-UD-Q4_K_XL", "qwen3-8b"),
        ("llama3.1:8b", "llama-3.1-8b"),
        ("llama3.1:8b-instruct-q4_K_M", "llama-3.1-8b"),
        ("google/gemma-3-12b-it-qat-q4_0-gguf", "gemma-3-12b"),
        ("google/gemma-3-27b-it-qat-q4_0-unquantized", "gemma-3-27b"),
        ("allenai/Olmo-3-7B-Think", "olmo-3-7b"),
        ("mlx-community/Qwen3-8B-4bit-DWQ", "qwen3-8b"),
        ("Llama 3.1 8B Instruct (4-bit)", "llama-3.1-8b"),
        ("RedHatAI/Qwen2.5-7B-Instruct-quantized.w8a8", "qwen2.5-7b"),
        ("deepseek-r1:7b", "deepseek-r1-distill-qwen-7b"),
        ("unsloth/zephyr-sft-bnb-4bit", "zephyr-7b"),
        ("google/medgemma-27b-text-it", "medgemma-27b-text"),
        ("google/medgemma-27b-it", "medgemma-27b"),
    ],
)
def test_a_model_is_found_by_what_people_call_it(name: str, model_id: str) -> None:
    assert CATALOGUE.resolve_model(name) == model_id


@pytest.mark.parametrize(
    "name",
    [
        *("RTX 4090 48GB", "A1000", "H100 40GB", "RTX 3090 Max", "GPU", ""),
        *("双卡4090", "kein A100", "без A100", "отношение GPU/CPU"),
    ],
)
def test_a_card_that_is_not_known_is_no_other(name: str) -> None:
    assert CATALOGUE.resolve_gpu(name) is None


@pytest.mark.parametrize(
    "name",
    [
        "Llama 3.1 9B",
        "llama",
        "Mistral 12B v0.1",
        "Q4_K_M",
        "qwen3.5:8b-q4_K_M",
        "deepseek-r1:8b",  # Qwen3 or Llama, by the day
        "",
        "7B",
        "Qwen-7B\uff08量化\uff09",
        "LLaMA-7B 中文版",
    ],
)
def test_a_model_that_is_not_known_is_no_other(name: str) -> None:
    assert CATALOGUE.resolve_model(name) is None


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("rtx-309", "; did you mean 'rtx-3090'?"),
        ("rtx 4090 48gb", ""),
        ("a1000", ""),
        ("rtx-4085", ""),
        ("h100 40gb", ""),
    ],
)
def test_a_card_that_is_suggested_has_the_number_and_the_memory(name: str, meant: str) -> None:
    assert CATALOGUE.nearest_gpu(name) == meant


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("lama-3.1-8b", "; did you mean 'llama-3.1-8b'?"),
        ("llama-3.1-8", "; did you mean 'llama-3.1-8b'?"),
        ("llama", ""),
        ("llama-3.1-80b", ""),
        ("qwen2.4-72b", "; did you mean 'qwen2.5-72b'?"),
    ],
)
def test_a_model_that_is_suggested_has_the_size(name: str, meant: str) -> None:
    assert CATALOGUE.nearest_model(name) == meant


def test_a_family_means_all_of_its_kinds() -> None:
    assert CATALOGUE.kinds_of("a100") == [
        "a100", "a100-80gb", "a100-40gb", "a100-sxm4-80gb", "a100-pcie-80gb", "a100-sxm4-40gb",
        "a100-pcie-40gb",
    ]  # fmt: skip
    assert CATALOGUE.kinds_of("rtx-4090") == ["rtx-4090"]
    assert CATALOGUE.kinds_of("unheard-of") == ["unheard-of"]


def test_every_id_and_alias_leads_to_its_row() -> None:
    for key, row in CATALOGUE.models.items():
        for name in (key, row.get("hf_id"), *row.get("aliases", ())):
            assert name is None or CATALOGUE.resolve_model(name) == key
    for key, row in CATALOGUE.gpus.items():
        for name in (key, row.get("name"), *row.get("aliases", ()), *row.get("device_names", ())):
            assert name is None or CATALOGUE.resolve_gpu(name) == key
