"""fit, estimate, utilization, calibrate and evaluate, as a user calls them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from registry_cli.answer_text import _SETTINGS

if TYPE_CHECKING:
    from pathlib import Path

Run = Callable[..., subprocess.CompletedProcess[str]]


def test_a_qlora_run_fits_with_observations_cited(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--gpu", "rtx-3090", "--method", "qlora", "--seq-len", "2048")
    done = run("fit", *asked, "--stack", "qwen-finetune-profile")
    assert done.returncode == 0
    assert "verdict: fits: all of the 90 % interval, " in done.stdout
    assert "qwen-finetune-profile, ok" in done.stdout


def test_what_is_not_stated_is_told_with_what_it_does(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--gpu", "rtx-3090", "--method", "qlora")
    done = run("fit", *asked)
    assert "  not stated, so the answer covers:\n    checkpointing: on (" in done.stdout
    assert "  to narrow it most, state --checkpointing or --no-checkpointing\n" in done.stdout
    stated = json.loads(run("fit", *asked, "--checkpointing", "--json").stdout)
    assert "gradient_checkpointing" not in {one["setting"] for one in stated["assumptions"]}
    left = json.loads(run("fit", *asked, "--json").stdout)
    (checkpointing,) = (
        one for one in left["assumptions"] if one["setting"] == "gradient_checkpointing"
    )
    peaks = {case["value"]: case["peak_bytes"] for case in checkpointing["cases"]}
    assert peaks[True] < peaks[False]
    assert left["narrows_most"] == "gradient_checkpointing"


def test_an_answer_names_no_module_that_the_model_does_not_have(run: Run) -> None:
    llama, qwen = (
        run("fit", "--model", name, "--gpu", "a100-80gb").stdout
        for name in ("llama-2-7b", "qwen-7b")
    )
    assert "rank 8 on q_proj v_proj (" in llama
    assert "q_proj" not in qwen.partition("\nnearest measured runs:")[0]
    assert "rank 8 on queries and values (" in qwen


def test_each_option_that_an_answer_names_exists(run: Run) -> None:
    help_text = run("fit", "--help").stdout
    named = re.findall(r"--[a-z-]+", " ".join(way_out for _, way_out in _SETTINGS.values()))
    assert len(named) > len(_SETTINGS)
    assert [option for option in named if option not in help_text] == []


def test_full_training_does_not_fit_and_what_would_is_told(run: Run) -> None:
    asked = ("fit", "--model", "qwen-7b", "--gpu", "rtx-3090", "--method", "full")
    done = run(*asked, "--exit-code")
    assert done.returncode == 1
    assert "verdict: does not fit: all of the 90 % interval, " in done.stdout
    assert "quantize the base to 4 bits (QLoRA)" in done.stdout
    assert re.search(
        r"\n  rtx-3090 +24 GiB +-[0-9.]+ GiB +does not fit +[0-9.]+ +<?[0-9] %\n", done.stdout
    )
    assert re.search(r"\n  \S+ +[0-9.]+ GiB +[0-9.]+ GiB +fits +[0-9.]+ +>?9[0-9] %\n", done.stdout)


def test_a_recorded_out_of_memory_is_cited_and_the_answer_is_above_what_ran(run: Run) -> None:
    asked = ("--model", "llama-2-7b", "--gpu", "rtx-3090", "--method", "lora", "--batch", "4")
    answer = json.loads(run("fit", *asked, "--seq-len", "2048", "--json").stdout)
    assert answer["verdict"] in ("does not fit", "undecided")
    assert answer["peak_bytes"]["value"] > 22.3 * 2**30  # what a batch of 3 took
    assert answer["nearest_oom"]["source_id"] == "llama2-lora-3090"


#: All that a run states which was allowed 16 GiB of an H100.
LIMITED = (
    "--model", "llama-3.1-8b", "--method", "lora", "--seq-len", "2048", "--checkpointing",
    "--lora-rank", "16", "--targets", "down_proj,gate_proj,k_proj,o_proj,q_proj,up_proj,v_proj",
    "--optimizer", "adamw_torch", "--param-dtype", "bf16", "--dtype", "bf16", "--attention", "sdpa",
)  # fmt: skip


def test_a_run_that_was_allowed_less_of_its_card_is_cited_with_what_it_was_allowed(
    run: Run,
) -> None:
    text = run("fit", *LIMITED, "--gpu", "rtx-4090").stdout
    assert " gpu-sweep, oom, 16 GiB measured, allowed 16 GiB of its card: gpu h100" in text
    assert re.search(r" gpu-sweep, ok, [0-9.]+ GiB measured: gpu h100", text)
    found = json.loads(run("fit", *LIMITED, "--gpu", "rtx-4090", "--json").stdout)
    assert found["nearest_oom"]["memory_limit_bytes"] == 16 * 2**30
    assert found["nearest"][0]["memory_limit_bytes"] is None
    decided = run("fit", *LIMITED, "--vram", "16GiB", "--sharding", "none").stdout
    assert "ran out of memory where it was allowed 16 GiB of its card\n" in decided


def test_without_a_card_the_cards_that_do_are_told(run: Run) -> None:
    answer = json.loads(run("fit", "--model", "llama-2-7b", "--method", "lora", "--json").stdout)
    verdicts = {card["gpu_id"]: card["verdict"] for card in answer["cards"]}
    assert answer["verdict"] is None
    assert verdicts["h200"] == "fits"
    assert verdicts["t4"] != "fits"


def test_a_model_never_seen_gets_an_interval_and_its_reasons(run: Run) -> None:
    asked = ("--model", "qwen2.5-32b", "--gpu", "h100-sxm5-80gb", "--method", "qlora", "--json")
    answer = json.loads(run("fit", *asked).stdout)
    peak = answer["peak_bytes"]
    assert peak["low"] < peak["value"] < peak["high"]
    assert "formula, widened by errors on other software" in answer["reasons"][0]


def test_a_model_can_be_given_by_its_config_or_its_figures(run: Run, work: Path) -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "intermediate_size": 11008,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "vocab_size": 32000,
    }
    (work / "config.json").write_text(json.dumps(config), encoding="utf-8")
    by_config = json.loads(run("estimate", "--config", "config.json", "--json").stdout)
    by_name = json.loads(run("estimate", "--model", "llama-2-7b", "--json").stdout)
    assert by_config["parts_bytes"]["weights"] == by_name["parts_bytes"]["weights"]
    figures = json.loads(run("estimate", "--params", "7B", "--layers", "32", "--json").stdout)
    assert figures["peak_bytes"]["low"] < by_name["peak_bytes"]["value"]
    assert by_name["peak_bytes"]["value"] < figures["peak_bytes"]["high"]
    asked = ("--params", "7B", "--layers", "32", "--vocab", "32000")
    figures = json.loads(run("estimate", *asked, "--json").stdout)
    ratio = figures["peak_bytes"]["value"] / by_name["peak_bytes"]["value"]
    assert 0.9 < ratio < 1.1


def test_rules_of_thumb_by_name(run: Run) -> None:
    done = run("estimate", "--model", "llama-2-7b", "--rule", "16n")
    assert done.stdout.startswith("16n: 112 GB for n = 7e+09 ")
    done = run("estimate", "--params", "7e9", "--layers", "32", "--rule", "20n")
    assert done.stdout.startswith("20n: 140 GB for n = 7e+09 ")


def test_a_rule_of_thumb_names_what_it_has_no_use_for(run: Run) -> None:
    asked = ("estimate", "--model", "llama-2-7b", "--rule", "16n")
    done = run(*asked, "--method", "qlora", "--samples", "1e4", "--no-checkpointing")
    told = "warning: a rule of thumb counts parameters alone and leaves out "
    assert f"{told}--method, --checkpointing, --samples\n" in done.stderr
    assert run(*asked, "--json").stderr == ""


def test_time_and_cost_of_a_run(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--gpu", "a100-sxm4-80gb", "--samples", "10000", "--price", "2")
    cost = json.loads(run("estimate", *asked, "--json").stdout)["cost"]
    assert cost["price"]["value"] == pytest.approx(2 * cost["gpu_hours"]["value"])
    assert cost["gpu_hours"]["value"] == pytest.approx(cost["seconds_per_epoch"]["value"] / 3600)


def test_packed_samples_take_the_time_of_the_sequences_that_they_fill(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--gpu", "a100-sxm4-80gb", "--seq-len", "4096", "--packing")
    short = json.loads(
        run("estimate", *asked, "--samples", "10k", "--mean-tokens", "0.5k", "--json").stdout
    )
    filled = json.loads(run("estimate", *asked, "--samples", "1250", "--json").stdout)
    seconds = [one["cost"]["seconds_per_epoch"]["value"] for one in (short, filled)]
    assert seconds[0] == pytest.approx(seconds[1])
    assert short["n_samples"] == 10_000


def test_the_two_ratios_of_utilization(run: Run) -> None:
    by_flops = run("utilization", "--flops", "100e12", "--gpu", "a100-sxm4-80gb")
    assert "flops_utilization: 32.051%\n" in by_flops.stdout
    rate = ("--samples-per-second", "3", "--seq-len", "2048", "--gpus", "4", "--reference", "3300")
    by_rate = run("utilization", *rate)
    assert by_rate.stdout == "tokens_per_second_per_gpu: 1536\nthroughput_utilization: 46.545%\n"


def test_utilization_takes_one_rate_and_warns_of_more_than_the_peak(run: Run) -> None:
    rates = ("--samples-per-second", "2", "--tokens-per-second", "9999", "--seq-len", "2k")
    done = run("utilization", *rates)
    assert done.returncode == 2
    assert "found --samples-per-second and --tokens-per-second; expected one" in done.stderr
    done = run("utilization", "--flops", "400e12", "--gpu", "a100-sxm4-80gb")
    assert "warning: 128% of the peak of a100-sxm4-80gb: no card exceeds its peak" in done.stderr


def test_what_is_said_of_prices_and_names_is_not_dropped_in_silence(run: Run) -> None:
    asked = ("fit", "--model", "llama-2-7b", "--method", "qlora")
    done = run(*asked, "--gpu", "rtx-4090", "--price", "1", "--price", "2")
    assert done.returncode == 2
    assert "price: found 1 and 2 without a card; expected one of them" in done.stderr
    for idle in (("--vram", "24GiB", "--price", "0.4"), ("--gpu", "a100-80gb", "--samples", "10k")):
        assert "warning: no cost" in run(*asked, *idle).stderr, idle
    done = run(*asked, "--gpu", "h100-80gb", "--price", "2", "--samples", "1e4")
    kinds = "as its kinds differ; name one of h100-pcie-80gb, h100-sxm5-80gb\n"
    assert f"warning: no cost is shown: the speed of h100-80gb is not known, {kinds}" in done.stderr
    done = run("estimate", "--model", "Qwen/Qwen2.5-7B-Instruct-AWQ")
    assert "says that its weights are stored quantized (awq)" in done.stderr
    assert "says that" not in run("estimate", "--model", "llama-2-7b").stderr


@pytest.mark.parametrize(
    ("stated", "warning"),
    [
        (("estimate", "--price", "2"), "no cost is shown: give --samples"),
        (("estimate", "--epochs", "3"), "--epochs changes nothing without --samples, the samples"),
        (("fit", "--epochs", "3"), "--epochs changes nothing without --samples, the samples"),
    ],
)
def test_prices_and_epochs_without_samples_are_not_dropped_in_silence(
    run: Run, stated: tuple[str, ...], warning: str
) -> None:
    command, *options = stated
    done = run(command, "--model", "qwen-7b", "--gpu", "rtx-4090", *options)
    assert f"warning: {warning}" in done.stderr


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        (("--model", "llama-2-7b", "--method", "qlora"), "of llama-2-7b is unused: it has none"),
        (("--model", "mixtral-8x7b"), "of mixtral-8x7b is unused: no weights are quantized"),
    ],
)
def test_quantized_experts_that_there_are_not_are_warned_of(
    run: Run, asked: tuple[str, ...], reason: str
) -> None:
    for command in ("fit", "estimate"):
        done = run(command, *asked, "--quantized-experts")
        assert f"warning: what is said of quantized experts {reason}\n" in done.stderr
    assert "is unused" not in run("estimate", *asked).stderr


def test_hours_and_cost_say_of_how_many_epochs_they_are(run: Run) -> None:
    asked = ("--model", "qwen-7b", "--gpu", "rtx-4090", "--samples", "1e3", "--price", "2")
    done = run("estimate", *asked, "--epochs", "3")
    assert "\ntime per epoch of 1,000 samples: " in done.stdout
    assert "\nGPU-hours for 3 epochs: " in done.stdout
    assert "\ncost in USD for 3 epochs: " in done.stdout


def test_an_estimate_says_what_it_assumes(run: Run) -> None:
    bare = ("estimate", "--model", "llama-2-7b", "--method", "qlora")
    assert "no --quant-method is stated: bitsandbytes is assumed" in run(*bare).stderr
    asked = (*bare, "--quant-method", "bitsandbytes")
    assert "  not stated, so the answer covers:\n    checkpointing: on (" in run(*asked).stdout
    found = json.loads(run(*asked, "--json").stdout)
    assert "gradient_checkpointing" in {one["setting"] for one in found["assumptions"]}
    assert found["warnings"] == []


def test_utilization_of_an_observation_agrees_with_the_view(run: Run) -> None:
    listed = run(
        "query",
        "select observation_id, model_flops_utilization as mfu from utilization "
        "where mfu is not null order by all limit 1",
        "-f",
        "json",
    )
    (row,) = json.loads(listed.stdout)
    shown = json.loads(run("utilization", row["observation_id"], "--json").stdout)
    assert shown["model_flops_utilization"] == pytest.approx(row["mfu"])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--model", "qwen-7bb"), "error: unknown model 'qwen-7bb'; did you mean 'qwen-7b'?"),
        (
            ("--model", "qwen-7b", "--gpu", "rtx-309"),
            "error: unknown gpu 'rtx-309'; did",
        ),
        (("--model", "qwen-7b", "--batch", "0"), "error: batch: found 0; expected"),
        (("--model", "qwen-7b", "--gpus", "0"), "error: gpus: found 0; expected"),
        (
            ("--model", "qwen-7b", "--method", "full", "--targets", "q_proj"),
            "error: targets with method full: all weights are trained; expected no --targets, or",
        ),
        (
            ("--model", "qwen-7b", "--virtual-tokens", "20"),
            "error: virtual_tokens with method lora: it has none; expected none, or --method prom",
        ),
        (
            ("--model", "qwen-7b", "--method", "p_tuning", "--lora-rank", "4"),
            "error: lora_rank with method p_tuning: it has no adapters on modules; expected no lor",
        ),
        (
            ("--model", "chatglm-6b"),
            "error: model 'chatglm-6b': found no number of layers, hidden size, ",
        ),
    ],
)
def test_what_cannot_be_asked_is_said(run: Run, asked: tuple[str, ...], message: str) -> None:
    done = run("fit", *asked)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stdout == ""


def test_a_length_beyond_the_positions_is_warned_of(run: Run) -> None:
    done = run("fit", "--model", "llama-2-7b", "--gpu", "h200", "--seq-len", "8192")
    assert done.returncode == 0
    assert "warning: seq_len 8192 is beyond the 4096 positions of llama-2-7b" in done.stderr


def test_calibrating_a_registry_of_ones_own(run: Run, work: Path, few_records: Path) -> None:
    shutil.copytree(few_records / "tables", work / "mine" / "tables")
    (work / "mine" / "journal").mkdir()
    done = run("calibrate", "--registry", "mine")
    assert done.returncode == 0
    assert done.stdout.endswith("mine/calibration.json\n")
    fit = run("fit", "--model", "qwen-7b", "--method", "qlora", "--registry", "mine")
    assert fit.returncode == 0


def test_what_is_said_of_constants_moves_the_answer_or_is_said_to_be_unused(run: Run) -> None:
    asked = ("fit", "--model", "llama-3.3-70b", "--gpu", "l40s", "--method")
    twice, once = (
        json.loads(run(*asked, "qlora", option, "-f", "json").stdout)
        for option in ("--double-quant", "--no-double-quant")
    )
    saved = once["peak_bytes"]["value"] - twice["peak_bytes"]["value"]
    assert 2 * 2**30 < saved < 4 * 2**30
    shown = run(*asked, "qlora", "--no-checkpointing").stdout
    assert "    double quantization: on (" in shown
    unused = "what is said of double quantization is unused: only bitsandbytes' 4 bits have it"
    assert (
        unused in json.loads(run(*asked, "lora", "--double-quant", "-f", "json").stdout)["warnings"]
    )
    assert unused not in twice["warnings"]


def test_what_one_timed_oneself_is_the_speed_that_is_answered(run: Run, work: Path) -> None:
    configuration = {
        "model_id": "mistral-7b-v0.3", "gpu_id": "rtx-4090", "n_gpus": 1, "method": "lora",
        "lora_rank": 16, "seq_len": 1024, "micro_batch_size": 2, "grad_accum_steps": 4,
        "gradient_checkpointing": True, "compute_dtype": "bf16",
    }  # fmt: skip
    figures = [
        {"metric": "peak_memory", "kind": "device", "value": "19 GiB"},
        {"metric": "step_time", "statistic": "mean", "value": "9 s"},
    ]
    document = {
        "source": {"source_id": "my-runs", "kind": "person"},
        "observations": [
            {"outcome": "ok", "configuration": configuration, "measurements": figures}
        ],
    }
    asked: tuple[str, ...] = ("--model", "mistral-7b-v0.3", "--gpu", "rtx-4090")
    asked += ("--method", "lora", "--lora-rank", "16", "--seq-len", "1024", "--batch", "2")
    estimate = ("estimate", *asked, "--accum", "4", "-f", "json")
    before = json.loads(run(*estimate).stdout)
    assert before["time_assumes"] == ["checkpointing on", "samples of 1024 tokens"]
    assert before["cost"]["seconds_per_step"]["value"] < 4
    (work / "mine.json").write_text(json.dumps(document), encoding="utf-8")
    assert run("add", "mine.json").returncode == 0
    after = json.loads(run(*estimate).stdout)
    speed = "at the speed of your own runs (my-runs)"
    assert after["time_assumes"] == [*before["time_assumes"], speed]
    interval = after["cost"]["seconds_per_step"]
    assert interval["low"] < 9 < interval["high"]
    assert interval["value"] == pytest.approx(9, rel=0.15)
    shown = run("fit", *asked, "--gpu", "a100-80gb").stdout
    note = f"checkpointing on, samples of 1024 tokens, rtx-4090 {speed}"
    assert f"  s/sample: {note}" in shown.splitlines()
