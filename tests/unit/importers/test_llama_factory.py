from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


RUN = {"model_id": "llama-3.2-1b", "method": "lora"}


def write_log(folder: Path, entries: Iterable[dict[str, Any]]) -> Path:
    text = "".join(json.dumps(entry) + "\n" for entry in entries)
    (folder / "trainer_log.jsonl").write_text(text, encoding="utf-8")
    return folder


def entry(step: int, of: int, elapsed: str, **more: Any) -> dict[str, Any]:
    return {"current_steps": step, "total_steps": of, "elapsed_time": elapsed, "loss": 1.0, **more}


def test_a_real_run_takes_its_yaml_and_its_results(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(fixtures / "llama_factory")
    configuration = observation["configuration"]
    assert configuration["model_id"] == "llama-3.2-1b"
    assert (configuration["quant_method"], configuration["quant_bits"]) == ("bitsandbytes", 4)
    assert configuration["double_quant"] is True
    assert configuration["seq_len"] == 32
    assert configuration["attention"] == "sdpa"
    assert figure(observation, "total_time")["raw"] == "14.2191"
    assert observation["citations"][0]["locator"] == "trainer_log.jsonl, lines 1 to 11"


def test_a_yaml_without_the_kind_of_tuning_is_one_of_lora(
    fixtures: Path, tmp_path: Path, observe: Observe
) -> None:
    shutil.copy(fixtures / "llama_factory" / "trainer_log.jsonl", tmp_path)
    text = (fixtures / "llama_factory" / "run.yaml").read_text(encoding="utf-8")
    settings = text.replace("finetuning_type: lora\n", "")
    (tmp_path / "qwen2.5_sft.yaml").write_text(settings, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert (run["configuration"]["method"], run["configuration"]["lora_rank"]) == ("lora", 4)
    assert run["inferences"]["method"] == "LLaMA-Factory's default"


def test_evaluations_are_read_off_the_clock_of_the_log(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(fixtures / "llama_factory")
    assert observation["flags"] == ["includes_evaluation"]
    assert figure(observation, "eval_time")["value"] == 4.0
    assert figure(observation, "step_time")["value"] == pytest.approx((14.2191 - 4) / 8)


def test_a_restart_makes_two_observations(fixtures: Path, observe: Observe) -> None:
    first, second = observe(fixtures / "llama_factory_restart")
    assert (first["run_id"], first["outcome"]) == ("lines 1 to 6", "unknown")
    assert first["outcome_detail"] == "the log ends at step 5 of 8"
    assert (second["run_id"], second["outcome"]) == ("lines 7 to 12", "ok")


def test_rates_after_a_restart_are_not_taken(
    fixtures: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    """The Trainer divides all eight steps by the time of the last four."""
    _, second = observe(fixtures / "llama_factory_restart")
    metrics = {row["metric"] for row in second["measurements"]}
    assert not metrics & {"steps_per_second", "samples_per_second"} - {"samples_per_second"}
    assert all(
        row["origin"] == "derived"
        for row in second["measurements"]
        if row["metric"] == "samples_per_second"
    )
    assert (
        "trainer_log.jsonl, lines 7 to 12: no rates: after a restart the results divide all "
        "steps by the time since then"
    ) in read(fixtures / "llama_factory_restart").missing


def test_interleaved_runs_of_different_lengths_are_told_apart(
    tmp_path: Path, observe: Observe
) -> None:
    log = write_log(
        tmp_path,
        [
            entry(10, 40, "0:00:10"),
            entry(10, 30, "0:00:21"),
            entry(20, 40, "0:00:20"),
            entry(20, 30, "0:00:42"),
            entry(40, 40, "0:00:40"),
            entry(30, 30, "0:01:03"),
        ],
    )
    first, second = observe(log, **RUN)
    assert first["configuration"]["n_steps"] == 40
    assert second["configuration"]["n_steps"] == 30


def test_interleaved_runs_that_look_alike_are_refused(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    log = write_log(
        tmp_path,
        [
            entry(10, 40, "0:00:10"),
            entry(10, 40, "0:00:09"),
            entry(20, 40, "0:00:20"),
            entry(20, 40, "0:00:20"),
        ],
    )
    found = read(log, **RUN)
    assert found.submissions == ()
    assert found.refused[0].reason == (
        "lines 1 to 1, lines 2 to 4: several runs wrote into one another and cannot be told apart"
    )


def test_results_of_another_run_are_refused(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    write_log(tmp_path, [entry(10, 20, "0:00:10"), entry(20, 20, "1:00:20")])
    shutil.copyfile(
        fixtures / "llama_factory" / "train_results.json", tmp_path / "train_results.json"
    )
    (refusal,) = read(tmp_path, **RUN).refused
    assert refusal.path.name == "train_results.json"
    assert refusal.reason == "its total time belongs to no run of the log beside it"


def test_a_prediction_run_is_refused(tmp_path: Path, read: Callable[..., Imported]) -> None:
    bare = {"current_steps": 5, "total_steps": 10, "elapsed_time": "0:00:05", "percentage": 50.0}
    found = read(write_log(tmp_path, [bare, {**bare, "current_steps": 10}]), **RUN)
    assert found.refused[0].reason == (
        "a prediction run: no step of it has a loss; nothing was trained"
    )


def test_a_training_that_stopped_before_its_first_loss_is_no_prediction(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    evaluated = {"total_steps": 900, "eval_loss": 1.2, "epoch": 0.3}
    entries = [
        {**evaluated, "current_steps": 100, "elapsed_time": "0:10:00"},
        {**evaluated, "current_steps": 200, "elapsed_time": "0:20:00"},
    ]
    (run,) = observe(write_log(tmp_path, entries), **RUN)
    assert (run["outcome"], run["outcome_detail"]) == (
        "unknown",
        "the log ends at step 200 of 900",
    )
    assert figure(run, "step_time")["reason"].endswith("evaluation included")
    assert run["flags"] == ["includes_evaluation"]


def test_vram_is_divided_by_gibibytes(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    log = write_log(
        tmp_path,
        [
            entry(1, 2, "0:00:01", vram_allocated=10.5, vram_reserved=12.25),
            entry(2, 2, "0:00:02", vram_allocated=10.25, vram_reserved=12.0),
        ],
    )
    (observation,) = observe(log, **RUN)
    peak = figure(observation, "peak_memory", kind="reserved")
    assert peak["value"] == 12.25 * 2**30
    assert (peak["low"], peak["high"]) == (12.245 * 2**30, 12.255 * 2**30)
    assert figure(observation, "peak_memory", kind="allocated")["value"] == 10.5 * 2**30


def test_the_throughput_of_the_log_is_a_rate_of_all_tokens(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    log = write_log(
        tmp_path,
        [
            entry(1, 2, "0:00:10", throughput=1234.5, total_tokens=12345),
            entry(2, 2, "0:00:20", throughput=1299.5, total_tokens=25990),
        ],
    )
    (observation,) = observe(log, **RUN)
    rate = figure(observation, "tokens_per_second")
    assert (rate["value"], rate["statistic"]) == (1299.5, "mean")
    assert figure(observation, "n_tokens")["value"] == 25990


def test_results_and_their_yaml_are_a_run_without_the_log(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (tmp_path / "train_results.json").write_text(
        json.dumps({"train_runtime": 200.0, "train_samples_per_second": 4.0, "train_loss": 1.0,
                    "train_steps_per_second": 0.5, "epoch": 1.0}),
        encoding="utf-8",
    )  # fmt: skip
    (tmp_path / "training_args.yaml").write_text(
        "model_name_or_path: Qwen/Qwen2.5-7B-Instruct\nfinetuning_type: lora\nlora_rank: 16\n"
        "stage: sft\ncutoff_len: 2048\nper_device_train_batch_size: 2\n"
        "gradient_accumulation_steps: 4\n",
        encoding="utf-8",
    )
    (run,) = observe(tmp_path)
    configuration = run["configuration"]
    assert (configuration["model_id"], configuration["method"]) == ("qwen2.5-7b", "lora")
    assert (configuration["lora_rank"], configuration["seq_len"]) == (16, 2048)
    assert (configuration["micro_batch_size"], configuration["grad_accum_steps"]) == (2, 4)
    assert run["environment"]["framework"] == "llama-factory"
    assert figure(run, "total_time")["value"] == 200.0


@pytest.mark.parametrize(("strategy", "flags"), [("steps", ["includes_evaluation"]), ("no", None)])
def test_results_alone_hold_the_evaluations_that_the_yaml_asks_for(
    tmp_path: Path, observe: Observe, strategy: str, flags: list[str] | None
) -> None:
    results = {"train_runtime": 100.0, "train_loss": 1.0, "train_samples_per_second": 1.5}
    (tmp_path / "train_results.json").write_text(json.dumps(results), encoding="utf-8")
    settings = f"finetuning_type: lora\neval_strategy: '{strategy}'\n"
    (tmp_path / "training_args.yaml").write_text(settings, encoding="utf-8")
    (run,) = observe(tmp_path, model_id="llama-3.2-1b")
    assert run.get("flags") == flags


def test_an_adapters_configuration_that_is_used_is_named(
    fixtures: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    shutil.copy(fixtures / "llama_factory" / "trainer_log.jsonl", tmp_path)
    adapter = {"peft_type": "LORA", "r": 32, "base_model_name_or_path": "meta-llama/Llama-3.2-1B"}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter), encoding="utf-8")
    (taken,) = read(tmp_path).taken
    assert taken == "trainer_log.jsonl, adapter_config.json: a LLaMA-Factory run"


def test_the_state_of_the_run_gives_the_batch_of_a_process(
    tmp_path: Path, observe: Observe
) -> None:
    write_log(tmp_path, [entry(5, 10, "0:00:05"), entry(10, 10, "0:00:10")])
    results = {"train_runtime": 10.2, "train_samples_per_second": 15.69, "train_loss": 1.0}
    (tmp_path / "train_results.json").write_text(json.dumps(results), encoding="utf-8")
    state = {"global_step": 10, "max_steps": 10, "train_batch_size": 4, "log_history": []}
    (tmp_path / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    (run,) = observe(tmp_path, **RUN)
    assert run["configuration"]["micro_batch_size"] == 4
