"""Logs and results of MLPerf, milabench, optimum-habana, notebooks, DeepSpeed and Megatron."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from registry.importers import IMPORTERS, Imported

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Observe = Callable[..., list[dict[str, Any]]]

STATED = {"model_id": "llama-2-7b", "method": "full"}


def figures_of(observation: dict[str, Any]) -> dict[tuple[str, str | None], float]:
    """Return the figures by metric and kind."""
    return {
        (figure["metric"], figure.get("kind")): figure["value"]
        for figure in observation["measurements"]
    }


def test_mlperf_has_the_system_and_the_clock_of_each_log(fixtures: Path, observe: Observe) -> None:
    done, ended = observe(fixtures / "mlperf")
    assert done["configuration"] == {
        "model_id": "llama-2-70b", "method": "lora", "objective": "sft", "seq_len": 8192,
        "length_distribution": "full", "global_batch_size": 8, "grad_accum_steps": 2,
        "lora_rank": 16, "lora_alpha": 32, "n_samples": 3901, "gpu_id": "h200", "n_nodes": 1,
        "gpus_per_node": 8, "n_gpus": 8,
    }  # fmt: skip
    assert done["environment"]["driver_version"] == "570.124.06"
    assert (done["outcome"], ended["outcome"]) == ("ok", "interrupted")
    assert (done["run_id"], ended["run_id"]) == ("seed 1", "seed 2")
    figures = figures_of(done)
    assert figures[("total_time", None)] == 1353.757
    assert figures[("samples_per_second", None)] == 2.6  # of 2.5, 2.6 and 2.7
    assert figures[("eval_loss", None)] == 0.93
    assert done["flags"] == ["includes_evaluation"]


def test_mlperf_without_the_system_leaves_the_hardware_open(
    fixtures: Path, read: Callable[..., Imported]
) -> None:
    imported = read(fixtures / "mlperf" / "result_0.txt")
    (observation,) = imported.submissions[0]["observations"]
    assert "gpu_id" not in observation["configuration"]
    assert (
        "result_0.txt: no accelerator; add the JSON of the system beside the log, or state it "
        "(--set gpu_id=…)"
    ) in imported.missing
    stated = read(fixtures / "mlperf" / "result_0.txt", gpu_id="mi300x")
    assert not any("no accelerator" in text for text in stated.missing)


def test_gpt3s_throughput_is_of_tokens(fixtures: Path, tmp_path: Path, observe: Observe) -> None:
    text = (fixtures / "mlperf" / "result_0.txt").read_text(encoding="utf-8")
    log = tmp_path / "result_0.txt"
    lines = [line for line in text.splitlines() if '"lora_' not in line]
    log.write_text("\n".join(lines).replace("llama2_70b_lora", "gpt3"), encoding="utf-8")
    (observation,) = observe(log)
    assert ("tokens_per_second", None) in figures_of(observation)
    assert ("samples_per_second", None) not in figures_of(observation)


def test_milabench_takes_benches_of_transformers_on_the_card_of_the_file(
    fixtures: Path, observe: Observe
) -> None:
    bert, single, several = observe(fixtures / "milabench" / "H100.yaml")
    assert {run["configuration"]["gpu_id"] for run in (bert, single, several)} == {"h100"}
    assert bert["configuration"]["compute_dtype"] == "fp16"
    assert figures_of(bert) == {
        ("peak_memory", "device"): 9895 * 2**20,
        ("samples_per_second", None): 361.64,
    }
    assert single["configuration"]["method"] == "lora"
    assert ("tokens_per_second", None) in figures_of(single)
    assert set(figures_of(several)) == {("peak_memory", "device")}  # of how many cards?
    assert "n_gpus" not in several["configuration"]


@pytest.mark.parametrize("time", ["1.0e+300", "253402300800.0", "-1"])
def test_milabench_leaves_out_a_time_that_is_none(
    fixtures: Path, observe: Observe, tmp_path: Path, time: str
) -> None:
    text = (fixtures / "milabench" / "H100.yaml").read_text(encoding="utf-8")
    path = tmp_path / "H100.yaml"
    path.write_text(re.sub(r"(?<=\btime: )[0-9.]+", time, text), encoding="utf-8")
    assert not any("observed_at" in run for run in observe(path))


def test_a_baseline_that_names_no_adapter_leaves_the_method_unknown(
    fixtures: Path, observe: Observe
) -> None:
    lora, dpo, unsaid = observe(fixtures / "optimum_habana" / "llama_7b.json")
    assert lora["configuration"]["lora_target_modules"] == ["q_proj", "v_proj"]
    assert (lora["configuration"]["n_gpus"], lora["configuration"]["gpu_id"]) == (1, "gaudi2")
    assert (dpo["configuration"]["objective"], dpo["configuration"]["lora_rank"]) == ("dpo", 4)
    assert "n_gpus" not in dpo["configuration"]
    assert unsaid["configuration"]["method"] == "unknown"
    assert figures_of(lora) == {
        ("total_time", None): 113.97,
        ("samples_per_second", None): 18.4,
    }


@pytest.mark.parametrize(
    ("name", "arguments", "expected"),
    [
        ("llama-adapter", ["--lora_rank 8", "--peft_type llama-adapter"], "adaption_prompt"),
        ("multitask-prompt-tuning", [], "multitask_prompt_tuning"),
        ("prefix-tuning", ["--peft_type prompt_tuning"], "prompt_tuning"),
        ("trl-sft", ["--lora_r 8"], "lora"),
        ("trl-sft-chat", ["--use_peft False"], "full"),
        ("alpaca", ["--peft_type adalora"], "adalora"),
    ],
)
def test_the_method_of_a_baseline_is_that_of_its_arguments_else_of_its_name(
    tmp_path: Path, observe: Observe, name: str, arguments: list[str], expected: str
) -> None:
    figures = {"train_runtime": 10.0, "train_samples_per_second": 2.0}
    runs = {"distribution": {"multi_card": {**figures, "extra_arguments": arguments}}}
    path = tmp_path / "llama_7b.json"
    path.write_text(json.dumps({"gaudi2": {name: runs}}), encoding="utf-8")
    (run,) = observe(path)
    assert run["configuration"]["method"] == expected


@pytest.mark.parametrize(
    ("test", "method"),
    [
        ("MultiCardCausalLanguageModelingLnExampleTester::test_run_lora_clm", "ln_tuning"),
        (
            "MultiCardCausalLanguageModelingPTuningExampleTester::test_run_prompt_tuning_clm",
            "p_tuning",
        ),
        ("MultiCardCausalLanguageModelingLoRAFP8ExampleTester::test_run_lora_clm", "lora"),
        ("MultiCardImageToTextExampleTester::test_run_image2text_lora_finetune", "lora"),
        ("MultiCardDPOExampleTester::test_dpo", "unknown"),
    ],
)
def test_the_method_of_a_test_is_that_of_its_class_else_of_its_function(
    tmp_path: Path, observe: Observe, test: str, method: str
) -> None:
    figures = {"train_runtime": 10.0, "train_samples_per_second": 2.0}
    path = tmp_path / "test_examples.json"
    named = f"tests/test_examples.py::{test}_llama-7b_multi_card"
    path.write_text(json.dumps({named: {"gaudi2": figures}}), encoding="utf-8")
    (run,) = observe(path)
    assert run["configuration"]["method"] == method
    assert run["configuration"].get("compute_dtype") == ("fp8" if "FP8" in test else None)
    # the same test on one card has the same name
    name = test.partition("::")[0].removeprefix("MultiCard")
    assert run["environment"]["settings"] == {"test": name}


def test_a_baseline_of_an_unknown_model_does_not_refuse_the_others(
    fixtures: Path, read: Callable[..., Imported]
) -> None:
    imported = read(fixtures / "optimum_habana" / "test_examples.json")
    found = [run["configuration"] for run in imported.submissions[0]["observations"]]
    assert [(run["model_id"], run["gpu_id"], run["method"]) for run in found] == [
        ("llama-7b", "gaudi2", "lora"),
        ("llama-7b", "gaudi3", "lora"),
    ]
    assert any("vit-base-patch16-224-in21k" in text for text in imported.missing)


def test_a_notebook_of_unsloth_gives_its_banner_cells_and_last_figures(
    fixtures: Path, observe: Observe
) -> None:
    (run,) = observe(fixtures / "notebook" / "unsloth.ipynb.json")
    configuration = run["configuration"]
    assert configuration["model_id"] == "gemma-2-9b"
    assert (configuration["gpu_id"], configuration["quant_type"]) == ("t4", "nf4")
    assert (configuration["micro_batch_size"], configuration["grad_accum_steps"]) == (2, 4)
    assert run["environment"]["torch_version"] == "2.3.0+cu121"
    figures = figures_of(run)
    assert figures[("peak_memory", "reserved")] == 9.383 * 2**30
    assert figures[("total_time", None)] == 702.5893
    assert figures[("trainable_params", None)] == 54_018_048
    assert "flags" not in run


def test_a_peak_that_is_another_share_of_the_card_is_flagged(
    fixtures: Path, tmp_path: Path, observe: Observe
) -> None:
    text = (fixtures / "notebook" / "unsloth.ipynb.json").read_text(encoding="utf-8")
    copy = tmp_path / "other.ipynb"
    copy.write_text(text.replace("63.622 %", "35.6 %"), encoding="utf-8")
    (run,) = observe(copy)
    assert run["flags"] == ["figures_disagree"]


def test_a_notebook_as_text_gives_what_the_trainer_returned(
    fixtures: Path, observe: Observe
) -> None:
    (run,) = observe(fixtures / "notebook" / "peft.txt")
    assert (run["configuration"]["model_id"], run["configuration"]["lora_rank"]) == ("qwen3-8b", 8)
    figures = figures_of(run)
    assert figures[("n_params", None)] == 8_212_558_848
    assert figures[("step_time", None)] == pytest.approx(879.9696 / 699)


def write_notebook(path: Path, source: str, *outputs: dict[str, Any]) -> Path:
    cell = {"cell_type": "code", "source": source, "outputs": list(outputs)}
    path.write_text(json.dumps({"cells": [cell], "nbformat": 4}), encoding="utf-8")
    return path


METRICS = (
    "{'train_runtime': 189.7726, 'train_samples_per_second': 0.105,\n"
    " 'train_steps_per_second': 0.026, 'train_loss': 0.177, 'epoch': 5.0}"
)
CELL = "model = from_pretrained('Qwen/Qwen2.5-0.5B')\nTrainingArguments(max_steps=5)"


@pytest.mark.parametrize(
    "output",
    [
        {
            "output_type": "execute_result",
            "data": {"text/plain": METRICS.splitlines(keepends=True)},
        },
        {"output_type": "stream", "text": [f"{{'loss': 0.1}}\n{METRICS}\n"]},
        {"output_type": "stream", "text": METRICS.replace("'", '"')},
        {"output_type": "stream", "text": METRICS + METRICS.replace("189.7726", "'189.8'")},
    ],
)
def test_metrics_that_a_notebook_shows_on_their_own_are_its_run(
    tmp_path: Path,
    observe: Observe,
    figure: Callable[..., dict[str, Any]],
    output: dict[str, Any],
) -> None:
    other = "\n# {'train_runtime': 5.0, 'train_loss': 9.9}"
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", CELL + other, output))
    assert figure(run, "total_time")["value"] == pytest.approx(189.8, abs=0.1)
    assert figure(run, "n_steps")["value"] == 5
    assert run["configuration"]["model_id"] == "qwen2.5-0.5b"


def test_a_notebook_without_its_steps_has_the_epochs_of_its_totals(
    tmp_path: Path, observe: Observe
) -> None:
    source = CELL.partition("\n")[0]
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", source, {"text": METRICS}))
    assert run["configuration"]["n_epochs"] == 5.0
    assert "n_steps" not in run["configuration"]


def test_a_notebook_with_metrics_of_two_runs_is_refused(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = METRICS + METRICS.replace("189.7726", "201.5")
    path = write_notebook(tmp_path / "run.ipynb", CELL, {"text": text})
    (refusal,) = read(path).refused
    assert refusal.reason == "it holds the figures of several runs; split the notebook"


def test_a_notebook_without_totals_says_what_it_lacks(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", CELL, {"text": "{'loss': 1.2}"})
    (refusal,) = read(path).refused
    assert refusal.reason.startswith(
        "a notebook that shows no totals of a training run: found neither TrainOutput(…), nor"
    )


def test_a_notebook_with_two_runs_is_refused(
    fixtures: Path, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = (fixtures / "notebook" / "peft.txt").read_text(encoding="utf-8")
    (tmp_path / "two.txt").write_text(text + text, encoding="utf-8")
    (refusal,) = read(tmp_path / "two.txt").refused
    assert refusal.reason == "it holds the figures of several runs; split the notebook"


QUANTIZED = """model_id = 'NousResearch/Llama-2-7b-chat-hf'
use_4bit = True
model = AutoModelForCausalLM.from_pretrained('NousResearch/Llama-2-7b-chat-hf',
    quantization_config=BitsAndBytesConfig(load_in_4bit=use_4bit, bnb_4bit_quant_type='fp4'))
"""
ADAPTED = """lora_r = 64
adapters = LoraConfig(lora_alpha=16, lora_dropout=0.1, r=lora_r, task_type='CAUSAL_LM')
trainer = SFTTrainer(model=model, peft_config=adapters, max_seq_length=None)
"""
GENERATED = """pipe = pipeline(task='text-generation', model=model, max_length=200)
model.generate(**tokenizer(text).to(model.device), max_length=300)
"""


def test_adapters_that_the_trainer_makes_are_no_full_fine_tuning(
    tmp_path: Path, observe: Observe
) -> None:
    cells = QUANTIZED + ADAPTED + GENERATED
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", cells, {"text": METRICS}))
    configuration = run["configuration"]
    assert (configuration["method"], configuration["lora_rank"]) == ("lora", 64)
    assert (configuration["quant_bits"], configuration["quant_type"]) == (4, "fp4")
    assert "seq_len" not in configuration  # what is generated has a length of its own


def test_a_notebooks_model_is_not_the_label_of_its_run(tmp_path: Path, observe: Observe) -> None:
    cells = """hub_model_id = 'me/mine'
base_model_id = 'Qwen/Qwen2.5-0.5B'
base_model_name = 'mine'
RewardTrainer(model=model)"""
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", cells, {"text": METRICS}))
    assert run["configuration"]["model_id"] == "qwen2.5-0.5b"
    assert run["configuration"]["objective"] == "reward"


@pytest.mark.parametrize(
    ("cell", "method"),
    [
        ("get_peft_model(model, PromptTuningConfig(num_virtual_tokens=8))", "prompt_tuning"),
        ("SFTTrainer(model=model, peft_config=None)", "full"),
        ("from peft import LoraConfig, get_peft_model", "full"),
    ],
)
def test_the_method_of_a_notebook_is_that_of_the_adapter_it_makes(
    cell: str, method: str, tmp_path: Path, observe: Observe
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", f"{CELL}\n{cell}", {"text": METRICS})
    (run,) = observe(path)
    assert run["configuration"]["method"] == method


@pytest.mark.parametrize(
    "cells",
    [
        QUANTIZED,
        f"{CELL}\nSFTTrainer(model=model, peft_config=get_peft_config(script))",
        f"{CELL}\nget_peft_model(model, LoraConfig(r=8))\nPromptTuningConfig(r=1)",
    ],
)
def test_a_method_that_the_cells_do_not_tell_is_asked_for(
    cells: str, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", cells, {"text": METRICS})
    (refusal,) = read(path).refused
    assert refusal.reason.startswith("the files do not say the method; say it with `--set method=")


LOADED = """model = AutoModelForCausalLM.from_pretrained('Qwen/Qwen2.5-7B')  # only asked
name = 'Qwen/Qwen2.5-0.5B'
model, tokenizer = FastLanguageModel.from_pretrained(
    model_name = name,
)
trainer.train()
"""


@pytest.mark.parametrize(
    "after",
    [
        "model = AutoModelForCausalLM.from_pretrained('out/checkpoint-1500')",
        "name = 'out/checkpoint-1500'\nmodel = AutoModel.from_pretrained(name)",
        "model_name = 'Qwen/Qwen2.5-7B'",
    ],
)
def test_a_notebooks_model_is_the_one_loaded_last_before_it_trains(
    after: str, tmp_path: Path, observe: Observe
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", LOADED + after, {"text": METRICS})
    (run,) = observe(path)
    assert run["configuration"]["model_id"] == "qwen2.5-0.5b"


@pytest.mark.parametrize(
    ("length", "expected"),
    [
        ("2048+512", 2560),
        ("2 * 2 * 2048  # any", 8192),
        ("1_024", 1024),
        ("2048 if is_long else 512", 2048),
        ("2 ** 11", None),
        ("2048 / 2", None),
    ],
)
def test_a_length_that_cells_compute_is_what_it_comes_to(
    length: str, expected: int | None, tmp_path: Path, observe: Observe
) -> None:
    cells = f"{CELL}\nmax_seq_length = {length}\n"
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", cells, {"text": METRICS}))
    assert run["configuration"].get("seq_len") == expected


def test_the_length_that_trl_falls_back_to_is_the_runs(tmp_path: Path, observe: Observe) -> None:
    warning = "You didn't pass a `max_seq_length` argument to the SFTTrainer, this will default to"
    text = f"{warning} 1024\n{METRICS}"
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", CELL, {"text": text}))
    assert run["configuration"]["seq_len"] == 1024
    assert run["inferences"]["seq_len"] == "TRL's warning of its default"


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ("get_peft_model(model, use_gradient_checkpointing=False)", False),
        ("get_peft_model(model, use_gradient_checkpointing='unsloth')", True),
        ("f(use_gradient_checkpointing=False)\nArguments(gradient_checkpointing=True)", True),
        ("model.gradient_checkpointing_enable()", True),
        ("# model.gradient_checkpointing_enable()", None),
    ],
)
def test_whether_activations_are_recomputed_is_what_the_cells_turn_on(
    cells: str,
    expected: bool | None,  # noqa: FBT001 - what is read
    tmp_path: Path,
    observe: Observe,
) -> None:
    adapter = "LoraConfig(r=8, attn_implementation='flash_attention_2')\nget_peft_model(model)"
    path = write_notebook(tmp_path / "run.ipynb", f"{CELL}\n{adapter}\n{cells}", {"text": METRICS})
    configuration = observe(path)[0]["configuration"]
    assert configuration.get("gradient_checkpointing") is expected
    assert configuration["attention"] == "flash2"


def test_what_a_library_advises_is_no_setting(tmp_path: Path, observe: Observe) -> None:
    advice = "use `attn_implementation='eager'` or `max_seq_length=512`, load_in_4bit=True\n"
    path = write_notebook(tmp_path / "run.ipynb", CELL, {"text": advice + METRICS})
    configuration = observe(path)[0]["configuration"]
    assert not configuration.keys() & {"attention", "seq_len", "quant_bits"}


LLAMA_FACTORY = """args = dict(stage='sft', model_name_or_path='Qwen/Qwen2.5-0.5B',
  finetuning_type='lora', quantization_bit=4, cutoff_len=1024, per_device_train_batch_size=2)
!llamafactory-cli train train.json
"""


def test_a_notebook_that_starts_llama_factory_has_the_method_of_its_arguments(
    tmp_path: Path, observe: Observe
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", LLAMA_FACTORY, {"text": METRICS})
    configuration = observe(path)[0]["configuration"]
    assert (configuration["method"], configuration["quant_bits"]) == ("lora", 4)
    assert (configuration["seq_len"], configuration["model_id"]) == (1024, "qwen2.5-0.5b")


@pytest.mark.parametrize(
    ("cells", "printed"),
    [
        ("!accelerate launch train.py --max_steps 5", ""),
        ("!python finetune.py", ""),
        ("trainer.train()", "trainable params: 4,194,304 || all params: 6,742,609,920 || 0.06\n"),
    ],
)
def test_a_script_or_a_few_trained_parameters_are_no_full_fine_tuning(
    cells: str, printed: str, tmp_path: Path, read: Callable[..., Imported]
) -> None:
    text = f"{printed}{METRICS}"
    path = write_notebook(tmp_path / "run.ipynb", f"{CELL}\n{cells}", {"text": text})
    (refusal,) = read(path).refused
    assert refusal.reason.startswith("the files do not say the method; say it with `--set method=")


def test_a_notebook_that_prints_all_parameters_alone_may_train_them_all(
    tmp_path: Path, observe: Observe
) -> None:
    text = f"all params: 494,032,768{METRICS}"
    (run,) = observe(write_notebook(tmp_path / "run.ipynb", CELL, {"text": text}))
    assert run["configuration"]["method"] == "full"


def test_deepspeeds_rate_is_of_all_processes_and_its_memory_of_the_first(
    fixtures: Path, observe: Observe, figure: Callable[..., dict[str, Any]]
) -> None:
    (run,) = observe(fixtures / "deepspeed" / "train.log", **STATED)
    configuration = run["configuration"]
    assert (configuration["n_gpus"], configuration["sharding"]) == (8, "zero3")
    assert configuration["global_batch_size"] == 64
    assert figures_of(run)[("samples_per_second", None)] == 12.625
    peak = figure(run, "peak_memory")
    assert (peak["value"], peak["scope"], peak["device_index"]) == (20.25 * 2**30, "per_gpu", 0)
    assert run["outcome"] == "unknown"


def test_deepspeed_chat_gives_the_batch_in_the_middle(fixtures: Path, observe: Observe) -> None:
    (run,) = observe(fixtures / "deepspeed" / "chat.log", **STATED)
    assert run["configuration"]["seq_len"] == 512
    assert figures_of(run) == {("samples_per_second", None): 20.0}


def test_megatrons_first_iterations_are_no_speed(fixtures: Path, observe: Observe) -> None:
    (run,) = observe(fixtures / "megatron" / "megatron.log", **STATED)
    assert run["configuration"]["tensor_parallel"] == 2
    figures = figures_of(run)
    assert figures[("step_time", None)] == 0.8266
    assert figures[("flops_per_second", None)] == 305e12
    assert figures[("peak_memory", "allocated")] == 20600 * 2**20  # the fuller of two processes
    assert run["outcome"] == "ok"


def test_nemo_counts_its_iterations_from_zero(fixtures: Path, observe: Observe) -> None:
    (run,) = observe(fixtures / "megatron" / "nemo.log", **STATED)
    assert run["outcome_detail"] == "the log ends at iteration 5 of 99"
    figures = figures_of(run)
    assert figures[("n_steps", None)] == 6
    assert figures[("peak_memory", "allocated")] == 70_833_405_952
    assert figures[("tokens_per_second", None)] == 10_700


def test_text_that_nobody_knows_names_what_is_known(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    (tmp_path / "notes.txt").write_text("step one: buy a card\n", encoding="utf-8")
    (refusal,) = read(tmp_path / "notes.txt").refused
    assert refusal.reason.startswith(
        "not recognized as a training log or result of any known framework ("
    )
    assert all(f"{name}" in refusal.reason for name in IMPORTERS if name != "csv")


LAST_CELL = """\
GPU = Tesla T4. Max memory = 14.741 GB.
446.5 seconds used for training.
Peak reserved memory = 6.531 GB.
Peak reserved memory % of max memory = {share} %.
"""


@pytest.mark.parametrize(("share", "flags"), [("44.284", ["figures_disagree"]), ("44.305", [])])
def test_figures_of_a_templates_last_cell_disagree_with_the_card_of_the_training(
    tmp_path: Path, read: Callable[..., Imported], share: str, flags: list[str]
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", CELL, {"text": LAST_CELL.format(share=share)})
    found = read(path, gpu_id="t4")
    (run,) = found.submissions[0]["observations"]
    assert run.get("flags", []) == flags
    said = "its peak, 6.531 GB, is not the 44.284 % of 14.741 GB that it prints; if another"
    assert any(said in text for text in found.missing) == bool(flags)


@pytest.mark.parametrize(
    ("printed", "card"),
    [
        ("Recommended GPU: A100-SXM4-80GB\nGPU: Tesla T4\n", "t4"),
        ("Requires a GPU: NVIDIA L4 or RTX 4090\nMinimum GPU: NVIDIA L4\n", None),
        ("GPU: NVIDIA GeForce RTX 5090\nVRAM: 34.2 GB\n", "rtx-5090"),
        ("|   0  Tesla T4                       Off |   00000000:00:04.0 Off |", "t4"),
        ("GPU 0: NVIDIA L4 (UUID: GPU-5)\nGPU 1: NVIDIA L4 (UUID: GPU-6)\n", "l4"),
        ("GPU: NVIDIA L4\nTeacher on device: NVIDIA GeForce RTX 5090\n", None),
        ("Device: cuda\n", None),
    ],
)
def test_the_card_of_a_notebook_is_the_only_one_that_its_cells_print(
    tmp_path: Path, observe: Observe, printed: str, card: str | None
) -> None:
    path = write_notebook(tmp_path / "run.ipynb", CELL, {"text": printed + METRICS})
    (run,) = observe(path)
    assert run["configuration"].get("gpu_id") == card


@pytest.mark.parametrize(
    ("printed", "n_gpus"),
    [((2, 1, 1), 1), ((1, 2, 1), 1), ((2, 2, 1), 2), ((2, 1, 2), 2)],
    ids=["one of two", "with the host", "split", "copies"],
)
def test_cards_that_unsloth_sees_need_not_be_those_it_trains_on(
    tmp_path: Path, observe: Observe, printed: tuple[int, int, int], n_gpus: int
) -> None:
    seen, used, processes = printed
    banner = (
        f"   \\\\   /|    Tesla T4. Num GPUs = {seen}. Max memory: 14.741 GB. Platform: Linux.\n"
        f"==((====))==  Unsloth - 2x faster free finetuning | Num GPUs used = {used}\n"
        f"\\        /    Data Parallel GPUs = {processes} | Total batch size (1 x 4 x 1) = 4\n"
    )
    path = write_notebook(tmp_path / "run.ipynb", CELL, {"text": banner + METRICS})
    (run,) = observe(path)
    assert (run["configuration"]["gpu_id"], run["configuration"]["n_gpus"]) == ("t4", n_gpus)


def test_cards_of_several_sessions_are_not_the_runs(
    tmp_path: Path, read: Callable[..., Imported]
) -> None:
    other = "NVIDIA GeForce RTX 3060. Num GPUs = 1. Max memory: 11.755 GB. Platform: Linux.\n"
    text = f"   \\\\   /|    {other}{LAST_CELL.format(share=44.305)}"
    found = read(write_notebook(tmp_path / "run.ipynb", CELL, {"text": text}))
    (run,) = found.submissions[0]["observations"]
    assert "gpu_id" not in run["configuration"]
    assert run["flags"] == ["figures_disagree"]
    assert any("no card: it names rtx-3060-12gb, t4" in text for text in found.missing)


SMALL_LLAMA = """\
model = from_pretrained('unsloth/Llama-3.2-1B-Instruct')
get_peft_model(model, r=16, lora_alpha=16, target_modules=[
    "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
"""


@pytest.mark.parametrize(
    ("counted", "flags"), [("11,272,192", []), ("24,313,856", ["figures_disagree"])]
)
def test_trained_parameters_of_another_model_than_the_cells_name_are_flagged(
    tmp_path: Path, read: Callable[..., Imported], counted: str, flags: list[str]
) -> None:
    text = f"     Trainable parameters = {counted}/3,000,000,000 (0.81% trained)\n{METRICS}"
    found = read(write_notebook(tmp_path / "run.ipynb", SMALL_LLAMA, {"text": text}))
    (run,) = found.submissions[0]["observations"]
    assert run.get("flags", []) == flags
    said = "the adapters of llama-3.2-1b with rank 16 have 11,272,192"
    assert any(said in text for text in found.missing) == bool(flags)
