"""What registry fit prints: cards with prices, remedies, switches, sweeps; narrow terminals."""

from __future__ import annotations

import json
import os
import pty
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Run = Callable[..., subprocess.CompletedProcess[str]]

CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
COMMAND = Path(sys.executable).parent / "registry"


def test_lora_of_llama_on_a_3090_with_batch_4_is_above_what_batch_3_took(run: Run) -> None:
    asked = ("--model", "llama-2-7b", "--gpu", "rtx-3090", "--method", "lora")
    answer = json.loads(run("fit", *asked, "--seq-len", "2k", "--batch", "4", "-f", "json").stdout)
    assert answer["peak_bytes"]["value"] > 22.3 * 2**30
    assert answer["verdict"] != "fits"
    assert answer["why"].startswith("the 90 % interval, ")


def test_an_offloaded_optimizer_leaves_the_weights_on_the_card(run: Run) -> None:
    asked = ("--model", "llama-3.1-8b", "--gpu", "t4", "--method", "full")
    done = run("fit", *asked, "--offload", "optimizer")
    assert "\nverdict: does not fit: all of the 90 % interval, " in done.stdout


def test_a_config_of_deepseek_counts_all_experts(run: Run) -> None:
    config = str(CONFIGS / "deepseek-v2-lite.json")
    done = run("fit", "--config", config, "--gpu", "rtx-4060-ti-16gb", "--method", "lora")
    assert "\nverdict: does not fit: " in done.stdout


def test_methods_are_computed_or_refused_by_name(run: Run) -> None:
    asked = ("fit", "--model", "llama-2-7b", "--gpu", "rtx-3090", "-f", "json", "--method")
    lora, ia3 = (json.loads(run(*asked, name).stdout)["peak_bytes"] for name in ("lora", "ia3"))
    assert ia3["value"] < lora["value"]
    refused = run(*asked, "galore")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert refused.stderr.startswith("error: method galore: ")


def test_cards_have_memory_headroom_verdict_time_and_cost(run: Run, work: Path) -> None:
    (work / "prices.csv").write_text("gpu,usd_per_hour\nh200,3.5\n", encoding="utf-8")
    asked: tuple[str, ...] = ("--model", "llama-2-7b", "--method", "qlora")
    asked += ("--gpu", "rtx-4090", "--gpu", "a100")
    asked += ("--gpu", "h200", "--samples", "1e4", "--epochs", "2", "--price", "a100=1.8")
    answer = json.loads(run("fit", *asked, "--price-file", "prices.csv", "-f", "json").stdout)
    cards = {card["gpu_id"]: card for card in answer["cards"]}
    assert answer["verdict"] is None
    assert answer["n_samples"] == 20_000
    assert len(cards) == 8
    for card in cards.values():
        left = 0.98 * card["memory_bytes"] - card["peak_bytes"]["value"]
        assert card["headroom_bytes"] == pytest.approx(left)
        price = card["usd_per_gpu_hour"]
        if price is None:
            assert card["usd"] is None
        else:
            hours = 20_000 * card["seconds_per_sample"]["value"] / 3600
            assert card["usd"]["value"] == pytest.approx(hours * price)
    assert cards["rtx-4090"]["usd"] is None
    assert cards["a100-sxm4-40gb"]["usd_per_gpu_hour"] == 1.8
    assert cards["h200"]["usd_per_gpu_hour"] == 3.5
    text = run("fit", *asked, "--price-file", "prices.csv").stdout
    assert "cards (headroom: what the most likely peak leaves; USD: for 20,000 samples; " in text
    (head,) = (line for line in text.splitlines() if line.startswith("  card "))
    assert head.split() == ["card", "memory", "headroom", "verdict", "s/sample", "USD", "chance"]
    for card in cards.values():
        assert (card["chance"] >= 0.95) == (card["verdict"] == "fits")
        (line,) = (line for line in text.splitlines() if line.startswith(f"  {card['gpu_id']} "))
        assert float(line.split()[-2].strip("<>")) == pytest.approx(100 * card["chance"], abs=1)


def test_cards_with_a_price_come_first_among_those_that_nobody_named(run: Run, work: Path) -> None:
    (work / "prices.csv").write_text("gpu,usd_per_hour\nh200,4\na100-80gb,2\n", encoding="utf-8")
    asked = ("--model", "llama-2-7b", "--method", "qlora", "--price-file", "prices.csv")
    lines = run("fit", *asked).stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  card "))
    assert lines[start].split()[-2:] == ["USD", "chance"]
    fits = [line.split() for line in lines[start + 1 :] if " fits " in line]
    assert [cells[0] for cells in fits[:2]] == ["a100-80gb", "h200"]
    assert [len(cells) for cells in fits[:3]] == [10, 10, 9]


def test_without_a_card_those_that_could_hold_it_are_named_smallest_first(run: Run) -> None:
    lines = run("fit", "--model", "llama-2-7b", "--method", "qlora").stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("  card "))
    rows = [line.split() for line in lines[start + 1 : lines.index("", start)] if "GiB" in line]
    sizes = [float(row[1]) for row in rows]
    undecided = sum("undecided" in row for row in rows)
    assert sizes[:undecided] == sorted(sizes[:undecided])
    assert sizes[undecided:] == sorted(sizes[undecided:])
    assert len(sizes) > 8
    assert all("-" not in row[3] for row in rows)  # headroom
    times = {row[0]: row[-3] for row in rows}
    assert times["a10g"].startswith("~")  # nobody timed a run of full samples on it
    assert not times["rtx-3090"].startswith("~")
    assert not times["t4"].startswith("~")
    assert "  ~: no run of full samples was timed on it, to hold its time against" in lines


def test_each_command_of_a_sweep_asks_for_what_fits(run: Run) -> None:
    asked = ("fit", "--model", "llama-2-7b", "--gpu", "rtx-a6000", "--method", "qlora")
    done = run(*asked, "--checkpointing", "--sweep", "batch,seq-len,rank")
    commands = [line.strip() for line in done.stdout.splitlines() if "    registry " in line]
    assert commands
    assert len(set(commands)) == len(commands)
    for line in commands[:3]:
        tried = run(*shlex.split(line)[1:], "--exit-code")
        assert tried.returncode == 0, tried.stdout
        assert "\nverdict: fits: " in tried.stdout


def test_each_remedy_has_a_command_that_gives_its_verdict(run: Run) -> None:
    asked = ("--model", "llama-2-70b", "--gpu", "rtx-3090", "--gpus", "2", "--seq-len", "512")
    answer = json.loads(run("fit", *asked, "--checkpointing", "-f", "json").stdout)
    remedies = {one["what"]: one for one in answer["remedies"]}
    assert "QLoRA over 2 cards with FSDP, weights in host memory" in remedies
    assert any(one["settings"].get("n_gpus", 0) >= 16 for one in answer["remedies"])
    for one in answer["remedies"]:
        tried = run(*shlex.split(one["command"])[1:], "-f", "json")
        found = json.loads(tried.stdout)
        assert found["verdict"] == one["verdict"]
        assert found["peak_bytes"]["value"] == pytest.approx(one["peak_bytes"]["value"])


def test_switches_are_priced_in_words(run: Run) -> None:
    asked = ("fit", "--model", "llama-2-7b", "--gpu", "rtx-3090", "--batch", "4", "--explain")
    told = run(*asked).stdout.partition("what each switch does on its own")[2]
    assert " % less time per sample\n" in told.partition("  checkpointing off: ")[2]
    assert "  4-bit base: " in told
    (data,) = (json.loads(run(*asked, "-f", "json").stdout)["explanation"],)
    off = next(one for one in data["switches"] if one["what"] == "checkpointing off")
    assert off["settings"] == {"gradient_checkpointing": False}
    assert off["peak_change_bytes"] > 0
    assert off["time_ratio"] < 1


def _on_a_terminal(arguments: list[str], columns: int, environment: dict[str, str]) -> list[str]:
    """Return the lines that a command prints on a terminal of so many columns."""
    leader, follower = pty.openpty()
    done = subprocess.Popen(
        [str(COMMAND), *arguments],
        stdout=follower,
        stdin=subprocess.DEVNULL,
        env={**environment, "COLUMNS": str(columns)},
    )
    os.close(follower)
    read = bytearray()
    try:
        while piece := os.read(leader, 65536):
            read += piece
    except OSError:  # the end of a terminal
        pass
    os.close(leader)
    assert done.wait(timeout=300) == 0
    return read.decode().replace("\r\n", "\n").splitlines()


@pytest.mark.parametrize("columns", [80, 60])
def test_nothing_is_wider_than_the_terminal(environment: dict[str, str], columns: int) -> None:
    asked = ["fit", "--model", "llama-2-7b", "--gpu", "rtx-3090", "--batch", "4", "--price", "0.4"]
    lines = _on_a_terminal(asked, columns, environment)
    assert max(map(len, lines)) <= columns
    assert any(line.startswith("  card ") and " verdict" in line for line in lines)
    hidden = [line for line in lines if line.startswith("  not shown at this width: ")]
    assert hidden == (["  not shown at this width: USD, chance"] if columns == 60 else [])


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (("--vram", "15"), "vram: found '15', expected an amount of memory with its"),
        (("--vram", "15GiB", "--gpu", "t4"), "found --gpu and --vram; expected one of them"),
        (("--config", "none"), "found --model and --config; expected one of --model ID"),
        (("--price", "t5=1"), "unknown gpu 't5'"),
        (("--price-file", "none.yaml"), "none.yaml: "),
        (("--sweep", "batchs", "--gpu", "t4"), "sweep: found 'batchs'; did you mean 'batch'?"),
        (("--seq-len", "4q"), "Invalid value for '--seq-len': found '4q'; expected a whole number"),
        (("-f", "jsn"), "Invalid value for '-f' / '--format': found 'jsn'; did you mean 'json'?"),
    ],
)
def test_a_wrong_question_is_exit_2(run: Run, asked: tuple[str, ...], message: str) -> None:
    done = run("fit", "--model", "llama-2-7b", *asked)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"error: {message}" in done.stderr


def test_the_utilization_of_a_rate_of_ones_own(run: Run) -> None:
    rate = ("--model", "llama-2-7b", "--gpu", "a100-80gb", "--seq-len", "2k", "--gpus", "2")
    done = run("utilization", *rate, "--method", "full", "--samples-per-second", "4")
    # 6 operations a parameter and token, and attention's 6 * layers * width * tokens
    matrices, attention = 6_738_415_616 - 32_000 * 4096, 32 * 4096 * 2048
    share = 2 * 2048 * (6 * matrices + 6 * attention) / 312e12
    assert f"model_flops_utilization: {share:.3%}\n" in done.stdout
    assert done.stdout.endswith(
        "formula: PaLM (Chowdhery et al. 2022), appendix B; Korthikanti et al. 2022, section 6\n"
    )
    tokens = run("utilization", *rate, "--method", "full", "--tokens-per-second", str(4 * 2048))
    assert tokens.stdout == done.stdout
    assert "is assumed" not in done.stderr
    fast = run("utilization", *rate, "--samples-per-second", "400", "--checkpointing", "-f", "json")
    assert "no card exceeds its peak" in fast.stderr
    assert "--method is not stated: lora is assumed" in fast.stderr
    assert json.loads(fast.stdout)["hardware_flops_utilization"] > 1


@pytest.mark.parametrize(
    ("gpu", "way_out"),
    [
        ("t4", "t4: its dense peak in bf16 is not known; expected --dtype fp16 or fp32"),
        ("h100", "h100: its dense peak in bf16 is not known, as its kinds differ; expected one "),
    ],
)
def test_a_peak_that_is_not_known_is_refused_with_those_that_are(
    run: Run, gpu: str, way_out: str
) -> None:
    done = run("utilization", "--flops", "1e12", "--gpu", gpu)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {way_out}")
    *_, named = done.stderr.split(" or " if gpu == "t4" else ", ")
    stated = ("--dtype", named.strip()) if gpu == "t4" else ("--gpu", named.strip())
    assert run("utilization", "--flops", "1e12", "--gpu", gpu, *stated).returncode == 0


def test_packed_samples_without_a_mean_are_told_to_be_one_a_sequence(run: Run) -> None:
    words = ("--model", "llama-2-7b", "--gpu", "a100-80gb", "--packing", "--samples", "1000")
    told = "one sample in each packed sequence of 2048 tokens, as no --mean-tokens says how many"
    mean = ("--mean-tokens", "512")
    assert told in json.loads(run("fit", *words, "--json").stdout)["time_assumes"]
    assert told not in json.loads(run("fit", *words, *mean, "--json").stdout)["time_assumes"]
    found = [run("estimate", *words, *more, "--json").stdout for more in ((), mean)]
    assert [told in str(json.loads(one)["warnings"]) for one in found] == [True, False]
