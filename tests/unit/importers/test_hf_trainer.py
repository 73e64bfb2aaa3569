from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.submission.derive import complete_observation

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.importers import Imported

    Observe = Callable[..., list[dict[str, Any]]]


RUN = {"model_id": "llama-3.2-1b", "method": "lora"}


def write_run(folder: Path, results: dict[str, Any], state: dict[str, Any] | None = None) -> Path:
    (folder / "all_results.json").write_text(json.dumps(results), encoding="utf-8")
    if state is not None:
        (folder / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    return folder


def state_at(step: int, of: int, *history: dict[str, Any]) -> dict[str, Any]:
    return {"global_step": step, "max_steps": of, "log_history": list(history)}


def test_a_real_run_gives_its_settings(fixtures: Path, observe: Observe) -> None:
    (observation,) = observe(fixtures / "hf_trainer")
    configuration = observation["configuration"]
    assert observation["outcome"] == "ok"
    assert configuration["method"] == "lora"
    assert configuration["lora_rank"] == 4
    assert configuration["lora_target_modules"] == ["q_proj", "v_proj"]
    assert (configuration["micro_batch_size"], configuration["grad_accum_steps"]) == (2, 2)
    assert complete_observation(observation)["configuration"]["global_batch_size"] == 4
    assert configuration["gpu_id"] == "cpu"
    assert configuration["n_samples"] == 24


def test_a_model_outside_the_catalogue_is_described_by_its_config(
    fixtures: Path, read: Callable[..., Imported]
) -> None:
    (submission,) = read(fixtures / "hf_trainer").submissions
    (model,) = submission["models"]
    assert model["model_id"] == "llama-of-this-run"
    assert (model["n_layers"], model["hidden_size"], model["head_dim"]) == (2, 32, 8)


def test_the_config_of_any_family_describes_the_model(
    fixtures: Path, read: Callable[..., Imported], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(fixtures / "hf_trainer", tmp_path / "run"))
    config = {"model_type": "gpt2", "n_embd": 64, "n_layer": 2, "n_head": 4, "n_positions": 128}
    (folder / "config.json").write_text(json.dumps({**config, "vocab_size": 100}))
    (model,) = read(folder).submissions[0]["models"]
    assert model == {
        "model_id": "gpt2-of-this-run", "model_type": "gpt2", "n_layers": 2, "hidden_size": 64,
        "intermediate_size": 256, "n_heads": 4, "n_kv_heads": 4, "head_dim": 16, "vocab_size": 100,
        "max_positions": 128, "gated_mlp": False, "tied_embeddings": True, "attention_bias": True,
        "n_params": 114688, "source": "config.json beside the log",
    }  # fmt: skip


def test_a_described_model_has_the_name_that_the_user_or_the_adapter_says(
    fixtures: Path, read: Callable[..., Imported], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(fixtures / "hf_trainer", tmp_path / "run"))
    (document,) = read(folder, model_id="mine").submissions
    assert document["models"][0]["model_id"] == "mine"
    assert document["observations"][0]["configuration"]["model_id"] == "mine"
    path = folder / "adapter_config.json"
    adapter = json.loads(path.read_text(encoding="utf-8"))
    path.write_text(json.dumps(adapter | {"base_model_name_or_path": "me/private-thing"}))
    (document,) = read(folder).submissions
    assert document["models"][0]["model_id"] == "private-thing"
    (folder / "config.json").unlink()
    (refusal, *_) = read(folder).refused
    assert refusal.reason.startswith("unknown model 'me/private-thing'; expected an id of the")
    assert refusal.reason.endswith("=…`, or put its config.json beside the files")
    assert "submission" not in refusal.reason


def test_step_time_is_without_the_evaluations_that_the_runtime_includes(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(fixtures / "hf_trainer")
    assert observation["flags"] == ["includes_evaluation"]
    assert figure(observation, "total_time")["value"] == 0.427
    assert figure(observation, "eval_time")["value"] == pytest.approx(0.0127)
    assert figure(observation, "step_time")["value"] == pytest.approx((0.427 - 0.0127) / 12)


def test_memory_deltas_add_up_to_a_peak_where_the_start_is_known(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (observation,) = observe(fixtures / "hf_trainer")
    peak = figure(observation, "peak_memory", kind="host_rss")
    assert peak["value"] == 505614336 + 86016 + 14626816 + 4096
    assert peak["origin"] == "derived"
    assert "memory_is_delta" not in observation["flags"]


def test_memory_deltas_without_a_start_are_flagged_as_deltas(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {"train_runtime": 10.0, "train_loss": 1.0} | {
        "train_mem_gpu_alloc_delta": 1000,
        "train_mem_gpu_peaked_delta": 500,
    }
    (observation,) = observe(write_run(tmp_path, results), **RUN)
    assert observation["flags"] == ["memory_is_delta"]
    assert figure(observation, "peak_memory", kind="allocated")["value"] == 1500


def test_a_rate_of_samples_that_equals_steps_per_second_is_one_of_steps(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {"train_runtime": 363.7, "train_samples_per_second": 1.905}
    state = state_at(693, 693, {"step": 693, "train_loss": 1.0, **results})
    (observation,) = observe(write_run(tmp_path, results, state), **RUN)
    rate = figure(observation, "steps_per_second")
    assert rate["value"] == pytest.approx(693 / 363.7)
    assert rate["raw"] == "1.905"
    assert rate["reason"].startswith(
        "written as train_samples_per_second, but equal to steps / seconds"
    )
    assert all(row["metric"] != "samples_per_second" for row in observation["measurements"])


def test_a_rate_with_three_decimals_is_computed_from_the_totals(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {"train_runtime": 857595.0988, "train_loss": 2.0} | {
        "train_samples_per_second": 3.902,
        "train_steps_per_second": 0.003,
    }
    folder = write_run(tmp_path, results, state_at(2178, 2178))
    (observation,) = observe(folder, **RUN)
    rate = figure(observation, "steps_per_second")
    assert rate["value"] == pytest.approx(2178 / 857595.0988)
    assert (rate["raw"], rate["origin"]) == ("0.003", "derived")
    assert rate["reason"] == "2178 / 857595 s; the file writes 0.003"


def test_totals_that_contradict_a_rate_are_flagged(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    totals = {"train_runtime": 100.0, "train_loss": 1.0, "train_steps_per_second": 5.0}
    state = state_at(100, 100, {"step": 100, **totals})
    (observation,) = observe(write_run(tmp_path, totals, state), **RUN)
    assert observation["flags"] == ["figures_disagree"]
    assert figure(observation, "steps_per_second")["value"] == 1.0


def test_the_results_of_a_run_are_not_those_of_its_checkpoint(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {"train_runtime": 400.0, "train_loss": 1.0, "train_steps_per_second": 2.0}
    (observation,) = observe(write_run(tmp_path, results, state_at(100, 800)), **RUN)
    assert figure(observation, "n_steps")["value"] == 800
    assert figure(observation, "step_time")["value"] == 0.5


def test_a_checkpoint_has_no_total_time(
    fixtures: Path, read: Callable[..., Imported], observe: Observe
) -> None:
    checkpoint = fixtures / "hf_trainer" / "checkpoint-6"
    (observation,) = observe(checkpoint, **RUN)
    assert observation["outcome"] == "unknown"
    assert observation["outcome_detail"] == "state of a checkpoint at step 6 of 12"
    metrics = {row["metric"] for row in observation["measurements"]}
    assert metrics == {"n_steps", "train_loss", "n_tokens", "eval_time"} - ({"eval_time"} - metrics)
    assert read(checkpoint, **RUN).missing[0] == (
        "trainer_state.json: no total time and no rate: the state of a checkpoint at step 6 of 12"
    )


@pytest.mark.parametrize(
    ("state", "stated"),
    [
        ({"epoch": 0.46, "num_train_epochs": 4}, {"n_steps": 868, "n_epochs": 4.0}),
        ({"epoch": 0.02, "num_train_epochs": 1}, {"n_steps": 868}),
        ({}, {"n_steps": 868}),
    ],
)
def test_a_state_has_its_epochs_where_its_steps_are_all_of_them(
    tmp_path: Path, observe: Observe, state: dict[str, Any], stated: dict[str, Any]
) -> None:
    text = json.dumps(state_at(100, 868) | state)
    (tmp_path / "trainer_state.json").write_text(text, encoding="utf-8")
    (run,) = observe(tmp_path, **RUN)
    assert {key: value for key, value in run["configuration"].items() if key not in RUN} == stated


@pytest.mark.parametrize(
    ("written", "n_epochs", "n_steps"),
    [
        ({"epoch": 4.0}, 4.0, None),
        ({"epoch": 0.02}, None, None),  # of two decimals, which is 0.015 to 0.025
        ({"epoch": 2.0, "step": 693}, 2.0, 693),
        ({"epoch": 2.0, "global_step": 693, "train_steps_per_second": 1.905}, 2.0, 693),
        ({"epoch": 2.0, "step": 9, "train_steps_per_second": 1.905}, 2.0, None),
    ],
)
def test_results_alone_have_the_epochs_and_steps_that_they_write(
    tmp_path: Path,
    observe: Observe,
    written: dict[str, Any],
    n_epochs: float | None,
    n_steps: int | None,
) -> None:
    results = {"train_runtime": 363.7, "train_loss": 1.0, **written}
    (run,) = observe(write_run(tmp_path, results), **RUN)
    assert run["configuration"].get("n_epochs") == n_epochs
    steps = [row["value"] for row in run["measurements"] if row["metric"] == "n_steps"]
    assert steps == ([n_steps] if n_steps else [])


def test_what_ligers_callback_adds_to_results_is_read(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    added = {"avg_step_time_sec": 2.66, "total_peak_memory_allocated_MB": 40729.03, "step": 10}
    results = {"train_runtime": 29.3781, "train_loss": 16.1592, **added}
    (run,) = observe(write_run(tmp_path, results), **RUN)
    assert figure(run, "peak_memory")["value"] == 40729.03 * 2**20
    assert (figure(run, "step_time")["value"], figure(run, "n_steps")["value"]) == (2.66, 10)


def test_a_state_before_the_first_step_is_no_run(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    (tmp_path / "trainer_state.json").write_text(json.dumps(state_at(0, 2000)), encoding="utf-8")
    (refusal,) = read(tmp_path, model_id="llama-2-7b", method="lora").refused
    assert refusal.reason == "the state of a run before its first step; nothing was trained"


def test_results_of_an_evaluation_alone_are_refused(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    found = read(write_run(tmp_path, {"eval_loss": 1.0, "eval_runtime": 3.0}), **RUN)
    assert found.submissions == ()
    assert [(refusal.path.name, refusal.reason) for refusal in found.refused] == [
        ("all_results.json", "evaluation or prediction results only; nothing was trained here")
    ]


def test_evaluations_of_a_training_are_not_said_to_be_of_none(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    results = {"epoch": 0.5, "eval_loss": 1.0, "eval_runtime": 3.0}
    (refusal,) = read(write_run(tmp_path, results), **RUN).refused
    assert refusal.reason == (
        "evaluations of a training run, without the run itself: found no train_runtime; expected "
        "trainer_state.json, train_results.json or the log of the run"
    )


def test_a_run_without_model_and_method_says_how_to_give_them(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    found = read(write_run(tmp_path, {"train_runtime": 1.0, "train_loss": 1.0}))
    assert found.refused[0].reason == (
        "the files do not name the model; say which one it is with `--set model_id=…`; "
        "the files do not say the method; say it with `--set method=…` (full, lora, …)"
    )


def test_what_the_user_says_wins_and_is_marked(fixtures: Path, observe: Observe) -> None:
    (observation,) = observe(fixtures / "hf_trainer", gpu_id="rtx-4090", torch_version="2.13.0")
    assert observation["configuration"]["gpu_id"] == "rtx-4090"
    assert observation["environment"]["torch_version"] == "2.13.0"
    assert observation["inferences"]["gpu_id"] == "said at import"


@pytest.mark.parametrize(
    ("said", "held"),
    [
        ({"method": "full"}, "fp32"),
        ({"method": "full", "param_dtype": "bf16"}, "bf16"),
        ({"method": "full", "sharding": "ddp"}, "bf16"),
        ({"method": "lora"}, "bf16"),
    ],
)
def test_fsdp_holds_fp32_of_full_training_that_the_user_names(
    fixtures: Path, tmp_path: Path, observe: Observe, said: dict[str, str], held: str
) -> None:
    write_run(tmp_path, {"train_runtime": 1.0, "train_loss": 1.0})
    model = json.loads((fixtures / "hf_trainer" / "config.json").read_text(encoding="utf-8"))
    files = {
        "config.json": model | {"torch_dtype": "bfloat16"},
        "training_args.json": {
            "per_device_train_batch_size": 1,
            "bf16": True,
            "fsdp": "full_shard",
        },
    }
    for name, content in files.items():
        (tmp_path / name).write_text(json.dumps(content), encoding="utf-8")
    (observation,) = observe(tmp_path, model_id="llama-3.2-1b", **said)
    assert observation["configuration"]["param_dtype"] == held


def test_no_figure_is_taken_from_a_number_that_is_none(tmp_path: Path, observe: Observe) -> None:
    text = '{"train_runtime": 10.0, "train_loss": NaN, "total_flos": 1.0}'
    (tmp_path / "train_results.json").write_text(text, encoding="utf-8")
    (observation,) = observe(tmp_path, **RUN)
    assert {row["metric"] for row in observation["measurements"]} == {"total_time"}


def losses_to(steps: int, *, start: float = 2.0) -> list[dict[str, Any]]:
    """Return the entries of a log every two steps, with a loss that falls."""
    return [{"step": step, "loss": start - step / 100} for step in range(2, steps + 1, 2)]


def mean_loss(entries: list[dict[str, Any]], steps: int) -> float:
    """Return the sum of losses of some entries, two steps each, over all steps."""
    return sum(2 * float(entry["loss"]) for entry in entries) / steps


def test_a_resumed_run_is_flagged_and_timed_by_its_session(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    history = losses_to(40)
    results = {
        "train_runtime": 120.0, "train_samples_per_second": 0.667,
        "train_steps_per_second": 0.333, "train_loss": mean_loss(history[10:], 40),
    }  # fmt: skip
    (run,) = observe(write_run(tmp_path, results, state_at(40, 40, *history)), **RUN)
    assert run["flags"] == ["resumed"]
    assert run["provenance"]["resumed_at_step"] == 20
    assert figure(run, "step_time")["value"] == pytest.approx(6.0)  # 120 s of 20 steps
    assert figure(run, "n_steps")["value"] == 20
    rates = {"samples_per_second", "steps_per_second"}
    assert rates.isdisjoint(row["metric"] for row in run["measurements"])


def test_a_resumed_run_of_a_later_version_is_known_by_its_rate(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {"train_runtime": 120.0, "train_steps_per_second": 0.167, "train_loss": 1.7}
    total = {"step": 40, **results}
    state = state_at(40, 40, *losses_to(40), total)
    (run,) = observe(write_run(tmp_path, results, state), **RUN)
    assert run["flags"] == ["resumed"]
    assert figure(run, "step_time")["value"] == pytest.approx(6.0)


@pytest.mark.parametrize("decimals", [4, 1])
def test_a_whole_run_is_not_taken_for_a_resumed_one(
    tmp_path: Path, observe: Observe, decimals: int
) -> None:
    history = losses_to(40)
    results = {
        "train_runtime": 120.0, "train_steps_per_second": 0.333,
        "train_loss": round(mean_loss(history, 40), decimals),
    }  # fmt: skip
    (run,) = observe(write_run(tmp_path, results, state_at(40, 40, *history)), **RUN)
    assert "flags" not in run


def test_a_peak_counts_what_was_allocated_at_the_start(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {
        "train_runtime": 10.0, "init_mem_gpu_alloc_delta": 78,
        "train_mem_gpu_alloc_delta": 300, "train_mem_gpu_peaked_delta": 622,
    }  # fmt: skip
    (run,) = observe(write_run(tmp_path, results), **RUN)
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["raw"]) == (1000, "78 + 300 + 622")
    assert run["flags"] == ["memory_is_delta"]  # what was there before is not known


ENTRY = {"loss": 1.5, "learning_rate": 1e-4, "epoch": 0.5, "step": 5}
LAST = {
    "epoch": 1.0,
    "step": 10,
    "train_loss": 1.0,
    "train_runtime": 20.0,
    "train_samples_per_second": 4.0,
    "train_steps_per_second": 0.5,
}


@pytest.mark.parametrize("name", [None, "log_history"])
def test_the_log_of_a_state_that_stands_alone_is_a_run(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]], name: str | None
) -> None:
    def write(history: list[dict[str, Any]]) -> Path:
        path = tmp_path / "history.json"
        path.write_text(json.dumps({name: history} if name else history), encoding="utf-8")
        return path

    (run,) = observe(write([ENTRY, LAST]), **RUN)
    assert (run["outcome"], figure(run, "step_time")["value"]) == ("ok", 2)
    (run,) = observe(write([ENTRY]), **RUN)
    assert run["outcome"] == "unknown"
    assert run["outcome_detail"] == "log of the Trainer at step 5"


def test_of_several_logs_beside_each_other_none_is_taken(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    for name in ("a.json", "b.json"):
        (tmp_path / name).write_text(json.dumps([ENTRY, LAST]), encoding="utf-8")
    reason = "several logs of the Trainer next to each other (a.json, b.json); name one"
    assert {refusal.reason for refusal in read(tmp_path, **RUN).refused} == {reason}


def test_a_list_of_other_losses_is_no_log_of_the_trainer(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    (tmp_path / "a.json").write_text('[{"epoch": 1, "loss": 0.5}]', encoding="utf-8")
    assert read(tmp_path).refused[0].reason.startswith("not recognized")


def test_an_epoch_of_two_decimals_is_not_held_against_a_rate(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    results = {
        "epoch": 0.28,
        "train_loss": 1.2,
        "train_runtime": 27386.6257,
        "train_samples": 173235,
        "train_samples_per_second": 1.753,
        "train_steps_per_second": 0.11,
    }
    (run,) = observe(write_run(tmp_path, results), **RUN)
    assert figure(run, "samples_per_second")["value"] == 1.753
    assert "flags" not in run
    state = state_at(3000, 3000) | {"epoch": 0.2770786672516105}
    (run,) = observe(write_run(tmp_path, results, state), **RUN)
    assert figure(run, "samples_per_second")["value"] == 1.753
    assert "flags" not in run
    (run,) = observe(write_run(tmp_path, results | {"train_samples": 200000}, state), **RUN)
    assert run["flags"] == ["figures_disagree"]


def test_weights_that_are_called_as_quantized_are(tmp_path: Path, observe: Observe) -> None:
    name = "unsloth/llama-3.2-1b-unsloth-bnb-4bit"
    adapter = {"peft_type": "LORA", "r": 16, "base_model_name_or_path": name}
    (tmp_path / "adapter_config.json").write_text(json.dumps(adapter), encoding="utf-8")
    (run,) = observe(write_run(tmp_path, {"train_runtime": 10.0, "train_loss": 1.0}), **RUN)
    assert run["configuration"]["quant_bits"] == 4
    reason = "the weights are called llama-3.2-1b-unsloth-bnb-4bit"
    assert run["inferences"]["quant_bits"] == reason


SCRIPT = """\
model_name_or_path: Qwen/Qwen3-4B
use_peft: true
load_in_4bit: true
lora_r: 16
lora_target_modules: all-linear
max_length: 2048
per_device_train_batch_size: 4
gradient_accumulation_steps: 2
attn_implementation: flash_attention_2
bf16: true
"""
TOTALS = {"train_runtime": 976.0, "train_steps_per_second": 0.173, "train_loss": 0.06}


@pytest.mark.parametrize(("also", "objective"), [("packing: true\n", "sft"), ("beta: 0.1\n", None)])
def test_the_yaml_of_a_trl_script_gives_the_settings(
    tmp_path: Path, observe: Observe, also: str, objective: str | None
) -> None:
    write_run(tmp_path, TOTALS)
    (tmp_path / "config.yaml").write_text(SCRIPT + also, encoding="utf-8")
    (run,) = observe(tmp_path)
    configuration = run["configuration"]
    assert (configuration["model_id"], configuration["method"]) == ("qwen3-4b", "lora")
    assert (configuration["lora_rank"], configuration["quant_bits"]) == (16, 4)
    assert (configuration["seq_len"], configuration["micro_batch_size"]) == (2048, 4)
    assert configuration["attention"] == "flash2"
    assert configuration.get("objective") == objective


def test_the_yaml_of_a_script_says_whether_constants_are_quantized_too(
    tmp_path: Path, observe: Observe
) -> None:
    write_run(tmp_path, TOTALS)
    said = "bnb_4bit_quant_type: nf4\nbnb_4bit_use_double_quant: true\n"
    (tmp_path / "config.yaml").write_text(SCRIPT + said, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert (run["configuration"]["quant_type"], run["configuration"]["double_quant"]) == (
        "nf4",
        True,
    )


def test_what_a_run_wrote_wins_over_the_yaml_of_its_script(
    tmp_path: Path, observe: Observe
) -> None:
    (tmp_path / "config.yaml").write_text(SCRIPT, encoding="utf-8")
    arguments = {"per_device_train_batch_size": 16, "model_name_or_path": "Qwen/Qwen2.5-3B"}
    (tmp_path / "training_args.json").write_text(json.dumps(arguments), encoding="utf-8")
    (tmp_path / "all_results.json").write_text(json.dumps(TOTALS), encoding="utf-8")
    settings = observe(tmp_path)[0]["configuration"]
    assert settings["micro_batch_size"] == 16
    assert settings["model_id"] == "qwen2.5-3b"
    assert settings["seq_len"] == 2048


def test_of_two_scripts_yamls_none_is_the_runs(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    write_run(tmp_path, TOTALS)
    (tmp_path / "config.yaml").write_text(SCRIPT, encoding="utf-8")
    (tmp_path / "args.yaml").write_text(SCRIPT.replace("2048", "512"), encoding="utf-8")
    found = read(tmp_path, **RUN)
    (run,) = found.submissions[0]["observations"]
    assert "seq_len" not in run["configuration"]
    assert any("no settings of args.yaml, config.yaml" in text for text in found.missing)


def test_a_model_in_the_hubs_cache_has_its_name_and_not_that_of_its_revision(
    tmp_path: Path, fixtures: Path, read: Callable[..., Imported]
) -> None:
    folder = Path(shutil.copytree(fixtures / "hf_trainer", tmp_path / "run"))
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    config["_name_or_path"] = r"C:\Users\me\hub\models--fnlp--cpt-large\snapshots\f07323ad"
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    (submission,) = read(folder).submissions
    assert [model["model_id"] for model in submission["models"]] == ["cpt-large"]


WANDB = """\
_name_or_path: {value: Qwen/Qwen3-4B}
_wandb: {value: {cli_version: 0.21.0}}
max_length: {value: 20}
per_device_train_batch_size: {value: 4}
gradient_accumulation_steps: {desc: null, value: 8}
bf16: {value: true}
peft_config:
  value:
    default: {peft_type: LORA, r: 16, target_modules: [q_proj, v_proj]}
quantization_config:
  value: {load_in_4bit: true, bnb_4bit_quant_type: nf4}
"""


@pytest.mark.parametrize(("also", "seq_len"), [("", None), ("packing: {value: true}\n", 2048)])
def test_the_folder_of_weights_and_biases_gives_settings_card_and_steps(
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
    also: str,
    seq_len: int | None,
) -> None:
    summary = {**TOTALS, "_wandb": {"runtime": 980}, "train/global_step": 169}
    (tmp_path / "wandb-summary.json").write_text(json.dumps(summary), encoding="utf-8")
    config = WANDB.replace("20}", "2048}") if also else WANDB
    (tmp_path / "config.yaml").write_text(config + also, encoding="utf-8")
    machine = {"gpu": "NVIDIA GeForce RTX 4090", "gpu_count": 2}
    (tmp_path / "wandb-metadata.json").write_text(json.dumps(machine), encoding="utf-8")
    (run,) = observe(tmp_path)
    found = run["configuration"]
    assert (found["model_id"], found["method"], found["lora_rank"]) == ("qwen3-4b", "lora", 16)
    assert (found["micro_batch_size"], found["grad_accum_steps"]) == (4, 8)
    assert (found["quant_bits"], found["quant_type"]) == (4, "nf4")
    assert (found["gpu_id"], found.get("n_gpus")) == ("rtx-4090", None)
    assert found.get("seq_len") == seq_len
    assert figure(run, "step_time")["value"] == pytest.approx(976 / 169)


def test_totals_that_were_handed_to_weights_and_biases_have_a_word_before_their_names(
    tmp_path: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    handed = {f"train/{key}": value for key, value in TOTALS.items()}
    summary = {**handed, "train/global_step": 169, "train/epoch": 3.0, "_wandb": {"runtime": 980}}
    (tmp_path / "wandb-summary.json").write_text(json.dumps(summary), encoding="utf-8")
    (tmp_path / "config.yaml").write_text(WANDB, encoding="utf-8")
    (run,) = observe(tmp_path)
    assert figure(run, "total_time")["value"] == TOTALS["train_runtime"]
    assert figure(run, "n_steps")["value"] == 169
    assert run["configuration"]["n_epochs"] == 3


def test_a_run_of_weights_and_biases_that_did_not_end_is_told(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    summary = {"train/loss": 0.4, "train/global_step": 12, "_wandb": {"runtime": 98}}
    (tmp_path / "wandb-summary.json").write_text(json.dumps(summary), encoding="utf-8")
    (tmp_path / "config.yaml").write_text(f"{WANDB}eval_steps: {{value: 5}}\n", encoding="utf-8")
    reasons = {refusal.reason for refusal in read(tmp_path).refused}
    assert len(reasons) == 1
    assert "found no train_runtime" in reasons.pop()


CARD = """---
base_model: meta-llama/Llama-3.2-1B
---

### Training hyperparameters

The following hyperparameters were used during training:
- learning_rate: 5e-05
- train_batch_size: 2
- distributed_type: multi-GPU
- num_devices: 4
- gradient_accumulation_steps: 8
- total_train_batch_size: 64
- optimizer: Adam with betas=(0.9,0.999) and epsilon=1e-08
- num_epochs: 3.0

### Framework versions

- Transformers 4.41.2
- Pytorch 2.3.0+cu121
"""


def test_the_card_of_the_model_gives_what_the_results_leave_out(
    tmp_path: Path, observe: Observe
) -> None:
    write_run(tmp_path, TOTALS)
    (tmp_path / "README.md").write_text(CARD, encoding="utf-8")
    (run,) = observe(tmp_path, **RUN)
    found = run["configuration"]
    assert (found["micro_batch_size"], found["grad_accum_steps"], found["n_gpus"]) == (2, 8, 4)
    assert (found["global_batch_size"], found["n_epochs"]) == (64, 3)
    assert run["environment"]["transformers_version"] == "4.41.2"
    assert run["environment"]["torch_version"] == "2.3.0+cu121"


def test_a_card_alone_is_no_run(tmp_path: Path, read: Callable[..., Imported]) -> None:
    (tmp_path / "README.md").write_text(CARD, encoding="utf-8")
    assert not read(tmp_path, **RUN).submissions
