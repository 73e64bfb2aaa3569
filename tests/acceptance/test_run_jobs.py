"""Real jobs in processes of their own: trials on CPU, two gloo processes, an unedited script."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.measure.running.plan import parse_plan
from registry.measure.running.rerun import plan_of
from registry.measure.running.sweep import run_plan
from registry.measure.running.trials import expand_trials
from registry.measure.running.wrapped_command import run_command
from registry.submission.derive import complete_observation
from registry.submission.prepare import prepare_submission

# Looked for, not loaded: only the children need it.
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "peft")),
    reason="torch, transformers and peft are not installed",
)

ROOT = Path(__file__).parents[2]
CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the jobs' threads from waiting for each other on a busy machine."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


TINY = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def run_one(folder: Path, **document: Any) -> dict[str, Any]:
    stated = {
        "model": "tiny",
        "models": {"tiny": TINY},
        "device": "cpu",
        "dtype": "fp32",
        "seq_len": 32,
        "steps": 4,
        "warmup_steps": 1,
        "timeout_seconds": 120,
        **document,
    }
    rows: list[dict[str, Any]] = []

    def add(submission: dict[str, Any]) -> None:
        prepared = prepare_submission(submission, CATALOGUE, origin="trial")
        rows.append(complete_observation(prepared.document["observations"][0]))

    run_plan(parse_plan(stated, origin="p.toml"), folder, add=add, catalogue=CATALOGUE)
    assert len(rows) == 1
    return rows[0]


def total(observation: dict[str, Any], metric: str) -> float:
    return next(
        float(row["value"])
        for row in observation["measurements"]
        if row["metric"] == metric and row["scope"] == "total"
    )


def test_a_quantized_trial_without_weights_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    found = run_one(tmp_path, quantization="nf4", double_quant=True, gradient_checkpointing=True)
    assert (found["outcome"], found.get("outcome_detail")) == ("ok", None)
    configuration = found["configuration"]
    stated = {
        "weights": "random",
        "quant_method": "bitsandbytes",
        "quant_bits": 4,
        "quant_type": "nf4",
        "double_quant": True,
        "gradient_checkpointing": True,
        "gpu_id": "cpu",
        "seq_len": 32,
    }
    assert {name: configuration[name] for name in stated} == stated
    assert len(found["samples"]) == 4
    assert total(found, "n_tokens") == 4 * 32
    # 4-bit weights count as what they hold: the same shape in fp32 has this many.
    adapters = total(found, "trainable_params")
    per_layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    assert total(found, "n_params") - adapters == 2 * per_layer + 2 * 512 * 64 + 64
    again = plan_of(found, environment=found["environment"])
    assert [trial.trial_id for trial in expand_trials(again.plan, CATALOGUE)] == [
        found["provenance"]["spec"]["trial_id"]
    ]


def test_out_of_memory_on_cpu_is_an_honest_outcome(tmp_path: Path) -> None:
    shape = {**TINY, "vocab_size": 32_000, "hidden_size": 1024, "intermediate_size": 2816}
    found = run_one(
        tmp_path, models={"tiny": shape}, method="full", memory_limit="0.9 GiB", steps=3
    )
    assert found["outcome"] == "oom"
    assert "can't allocate memory" in found["outcome_detail"]
    assert "step_time" not in {row["metric"] for row in found["measurements"]}
    # What it held when it failed, within the limit: the libraries' own memory is part of it.
    assert 0.3 * 2**30 < total(found, "peak_memory") < 1.0 * 2**30


@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_two_processes_are_one_observation(sharding: str, tmp_path: Path) -> None:
    found = run_one(tmp_path, n_gpus=2, sharding=sharding, method="full")
    assert (found["outcome"], found.get("outcome_detail")) == ("ok", None)
    assert found["configuration"]["sharding"] == sharding
    assert found["configuration"]["n_gpus"] == 2
    assert found["configuration"]["global_batch_size"] == 2
    assert {row["tokens"] for row in found["samples"]} == {2 * 32}
    cards = {
        row["device_index"]: row["value"]
        for row in found["measurements"]
        if row["metric"] == "peak_memory" and row["scope"] == "per_gpu"
    }
    assert sorted(cards) == [0, 1]
    assert total(found, "peak_memory") == sum(cards.values())
    assert "ranks_missing" not in found["provenance"]


def test_one_rank_that_fails_is_the_outcome_of_the_job(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [1, 100000]}\n')
    found = run_one(tmp_path, n_gpus=2, method="full", dataset=str(data), steps=8)
    assert found["outcome"] == "error"
    assert "index out of range" in found["outcome_detail"].lower()


def test_the_users_own_file_is_trained_on(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [4, 5, 6, 7, 8]}\n')
    found = run_one(tmp_path, dataset=str(data), micro_batch_size=2)
    assert found["outcome"] == "ok"
    assert found["configuration"]["length_distribution"] == "variable"
    assert {row["tokens"] for row in found["samples"]} == {8}


@pytest.mark.parametrize("n_gpus", [1, 2])
def test_modules_in_the_current_folder_play_no_part_in_a_trial(
    n_gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("transformers", "torch", "registry", "json"):
        (hostile / f"{name}.py").write_text("raise SystemExit('hostile')\n")
    monkeypatch.chdir(hostile)
    found = run_one(tmp_path / "runs", n_gpus=n_gpus, sharding="ddp")
    assert (found["outcome"], found.get("outcome_detail")) == ("ok", None)


def test_a_script_is_measured_without_a_word_about_us() -> None:
    script = ROOT / "examples" / "sft.py"
    assert "import registry" not in script.read_text()
    done = run_command([sys.executable, str(script)], catalogue=CATALOGUE)
    assert (done.returncode, done.outcome, done.note) == (0, "ok", None)
    prepared = prepare_submission(done.submission, CATALOGUE, origin="run")
    found = prepared.document["observations"][0]
    assert found["provenance"]["wrapped"] == f"{Path(sys.executable).name} sft.py"
    assert len(found["samples"]) == 8
    assert found["configuration"]["method"] == "full"
    assert total(found, "peak_memory") > 100 << 20


def test_torchrun_is_measured_as_well() -> None:
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = run_command([*torchrun, str(ROOT / "examples" / "sft.py")], catalogue=CATALOGUE)
    assert (done.returncode, done.outcome, done.note) == (0, "ok", None)
    assert len(done.submission["observations"]) == 1
    configuration = done.submission["observations"][0]["configuration"]
    assert (configuration["gpus_per_node"], configuration["sharding"]) == (2, "ddp")
