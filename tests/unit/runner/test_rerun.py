"""From an observation back to its plan."""

from __future__ import annotations

from typing import Any

import pytest

from registry.errors import SourceError
from registry.recorder.failure import Failure
from registry.runner.plan import parse_plan
from registry.runner.rerun import Difference, plan_of
from registry.runner.trials import expand_trials
from registry.runner.unfinished import describe_unfinished

ENVIRONMENT = {"torch_version": "2.13.0", "packages": {"numpy": "2.4.6"}}
MODELS = {"m": {"model_type": "llama", "hidden_size": 64, "n_layers": 2, "vocab_size": 512}}


def test_a_recorded_trial_gives_back_the_very_same_trial() -> None:
    document = {
        "model": "tiny",
        "models": {"tiny": {"model_type": "llama", "hidden_size": 8}},
        "method": "dora",
        "seq_len": 64,
        "lora_target_modules": ["q_proj", "v_proj"],
    }
    trial = expand_trials(parse_plan(document, origin="p"))[0]
    recorded = describe_unfinished(trial.as_spec(), Failure("oom", "x"))["observations"][0]
    again = plan_of(recorded, environment=recorded["environment"])
    assert expand_trials(again.plan) == [trial]
    assert again.differences == ()


def test_a_foreign_observation_is_rebuilt_from_its_configuration() -> None:
    configuration = {
        "model_id": "m",
        "method": "lora",
        "quant_method": "bitsandbytes",
        "quant_type": "nf4",
        "quant_bits": 4,
        "lora_rank": 32,
        "lora_target_modules": ["q_proj"],
        "compute_dtype": "bf16",
        "seq_len": 1024,
        "micro_batch_size": 4,
        "optimizer": "other",
        "gpu_id": "cpu",
        "packing": True,
        "torch_compile": False,
    }
    again = plan_of({"configuration": configuration}, models=MODELS, environment={})
    settings = expand_trials(again.plan)[0].settings
    assert (settings.quantization, settings.lora_rank, settings.seq_len) == ("nf4", 32, 1024)
    assert (settings.lora_target_modules, settings.device) == (("q_proj",), "cpu")
    assert (settings.optimizer, settings.weights) == ("adamw_torch", "random")
    assert again.left_out == ("packing = True",)
    assert again.plan.models["m"]["num_hidden_layers"] == 2


def test_what_differs_in_the_environment_is_listed() -> None:
    recorded: dict[str, Any] = {
        "configuration": {"model_id": "m", "method": "full"},
        "environment": {**ENVIRONMENT, "python_version": "3.11.7", "cuda_version": "12.8"},
    }
    here = {"torch_version": "2.14.0", "python_version": "3.11.7", "packages": {}}
    assert plan_of(recorded, models=MODELS, environment=here).differences == (
        Difference("torch_version", "2.13.0", "2.14.0"),
        Difference("cuda_version", "12.8", None),
        Difference("packages.numpy", "2.4.6", None),
    )


def test_a_model_without_a_shape_cannot_be_rebuilt() -> None:
    with pytest.raises(SourceError, match="model 'm': its shape is not recorded"):
        plan_of({"configuration": {"model_id": "m", "method": "full"}}, environment={})


def test_quantizations_that_a_trial_cannot_make_are_refused() -> None:
    configuration = {"model_id": "m", "method": "lora", "quant_method": "gptq", "quant_bits": 4}
    with pytest.raises(SourceError, match="quantization gptq: a trial cannot make it"):
        plan_of({"configuration": configuration}, models=MODELS, environment={})
