"""From an observation back to its plan."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from registry.errors import SourceError
from registry.measure.failure import Failure
from registry.measure.running.plan import parse_plan, read_plan
from registry.measure.running.rerun import Difference, plan_of
from registry.measure.running.trials import expand_trials
from registry.measure.running.unfinished import describe_unfinished
from registry.measure.trial_settings import NAMES

ENVIRONMENT = {"torch_version": "2.13.0", "packages": {"numpy": "2.4.6"}}
RECORDS = Path(__file__).parents[4] / "records"
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


SPEC: dict[str, Any] = {
    "trial_id": "0123456789abcdef",
    "settings": {"model": "tiny", "method": "lora", "seq_len": 8},
    "model": {"kind": "config", "config": {"model_type": "llama", "hidden_size": 8}},
}


def refusal_of(spec: Any, **options: Any) -> str:
    """Return why a spec is not run again."""
    recorded = {"configuration": {"model_id": "m"}, "provenance": {"spec": spec}}
    with pytest.raises(SourceError) as caught:
        plan_of(recorded, environment={}, **options)
    return str(caught.value)


def with_settings(**settings: Any) -> dict[str, Any]:
    return {**SPEC, "settings": {**SPEC["settings"], **settings}}


def with_model(**model: Any) -> dict[str, Any]:
    return {**SPEC, "model": model}


def nested(levels: int) -> Any:
    return [nested(levels - 1)] if levels else []


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("run this", "provenance.spec: found 'run this'; expected a table"),
        ({"trial_id": "0"}, "provenance.spec.settings: found null; expected a table of settings"),
        (
            {**SPEC, "comand": "rm"},
            ("provenance.spec: unknown key 'comand'; expected one of model, settings, trial_id"),
        ),
        (
            {**SPEC, "settings": ["model"]},
            "provenance.spec.settings: found ['model']; expected a table of settings",
        ),
        (
            {**SPEC, "settings": {}},
            "provenance.spec.settings: no model; expected 'model' among the settings",
        ),
        (
            with_settings(seq_len="512"),
            (
                "provenance.spec.settings: seq_len: found '512'; expected an integer from 1 to "
                "16777216"
            ),
        ),
        (
            with_settings(n_gpus=10**9),
            (
                "provenance.spec.settings: n_gpus: found 1000000000; expected an integer from 1 to "
                "1024"
            ),
        ),
        (
            with_settings(lora_target_modules=[1]),
            ("provenance.spec.settings: lora_target_modules[0]: found 1; expected text"),
        ),
        (
            with_settings(device="cuda:0; rm"),
            (
                "provenance.spec.settings: device: found 'cuda:0; rm'; expected one of auto, cpu, "
                "cuda"
            ),
        ),
        (
            with_settings(dataset="/dev/zero"),
            (
                "provenance.spec.settings.dataset: found '/dev/zero'; expected none: a data set is "
                "only read where you name it; add --dataset PATH"
            ),
        ),
        (
            {**SPEC, "model": None},
            "provenance.spec.model: found null; expected a table of kind config or hub",
        ),
        (
            with_model(kind="config", config={"hidden_size": 8}),
            (
                "provenance.spec.model.config: found no model_type; expected the fields of a "
                "transformers configuration, model_type among them"
            ),
        ),
        (
            with_model(kind="hub", hf_id="/home/someone/model"),
            (
                "provenance.spec.model.hf_id: found '/home/someone/model'; expected a name of the "
                "hub; to train the weights of a folder, write a plan that names it and run that"
            ),
        ),
        ({**SPEC, "trial_id": nested(20)}, "provenance.spec: nested deeper than 16 levels"),
    ],
)
def test_a_malformed_spec_is_not_run(spec: Any, message: str) -> None:
    assert refusal_of(spec).removesuffix("; expected a plan, which has four") == message


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=6,
)


@given(settings=st.dictionaries(st.sampled_from([*NAMES, "x"]), JSON), model=JSON, spec=JSON)
def test_whatever_a_spec_holds_it_is_a_plan_or_refused(
    settings: dict[str, Any], model: Any, spec: Any
) -> None:
    for each in (spec, with_settings(**settings), {**SPEC, "model": model}, with_model(**settings)):
        configuration = {"model_id": "m", "method": "full"}
        recorded = {"configuration": configuration, "provenance": {"spec": each}}
        try:
            rerun = plan_of(recorded, models=MODELS, environment={})
        except SourceError as error:
            assert str(error).startswith(("provenance.spec", "configuration: "))  # noqa: PT017
        else:
            assert each is None or len(expand_trials(rerun.plan)) == 1


@pytest.mark.parametrize(
    "peft",
    [
        {"megatron_core": "evil", "megatron_config": {}},
        {"auto_mapping": {"parent_library": "evil"}},
        {"tokenizer_name_or_path": "evil/repo"},
    ],
)
def test_a_spec_cannot_have_a_module_imported(peft: dict[str, Any]) -> None:
    message = refusal_of(with_settings(peft=peft))
    assert message.startswith(f"provenance.spec.settings: peft.{next(iter(peft))}: found ")
    assert message.endswith("because the others name code or files that PEFT would load")


def test_a_data_set_that_the_user_names_is_trained_on(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("{}\n")
    spec = with_settings(dataset="/dev/zero")
    recorded = {"configuration": {"model_id": "m"}, "provenance": {"spec": spec}}
    (trial,) = expand_trials(plan_of(recorded, environment={}, dataset=data).plan)
    assert trial.settings.dataset == str(data)


def test_the_model_of_a_spec_is_built_as_it_was_and_not_looked_up(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"model_type": "gpt2"}')
    recorded = {
        "configuration": {"model_id": "m"},
        "provenance": {"spec": with_settings(model=str(path))},
    }
    (trial,) = expand_trials(plan_of(recorded, environment={}).plan)
    assert trial.model == SPEC["model"]


@pytest.mark.parametrize("name", ["cpu-smoke", "cpu-sweep"])
def test_the_published_trials_are_those_of_their_plan_and_can_be_repeated(name: str) -> None:
    path = RECORDS / "sources" / name / "submissions.jsonl"
    documents = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert {document["source"]["source_id"] for document in documents} == {name}
    recorded = [each for document in documents for each in document["observations"]]
    planned = expand_trials(read_plan(RECORDS / "plans" / f"{name}.toml"))
    assert sorted(each["provenance"]["spec"]["trial_id"] for each in recorded) == sorted(
        trial.trial_id for trial in planned
    )
    first = {trial.trial_id for trial in planned if trial.settings.repeat == 1}
    for each in recorded:
        (trial,) = expand_trials(plan_of(each, environment={}).plan)
        spec = each["provenance"]["spec"]
        assert trial.trial_id == spec["trial_id"] or spec["settings"]["repeat"] > 1
        assert trial.trial_id in first


def test_a_configuration_of_sizes_that_no_machine_has_is_not_run() -> None:
    configuration = {"model_id": "m", "method": "lora", "seq_len": 2**62}
    with pytest.raises(SourceError) as caught:
        plan_of({"configuration": configuration}, models=MODELS, environment={})
    assert str(caught.value) == (
        "configuration: seq_len: found 4611686018427387904; expected an integer from 1 to 16777216"
    )


def test_quantizations_that_a_trial_cannot_make_are_refused() -> None:
    configuration = {"model_id": "m", "method": "lora", "quant_method": "gptq", "quant_bits": 4}
    with pytest.raises(SourceError, match="quantization gptq: a trial cannot make it"):
        plan_of({"configuration": configuration}, models=MODELS, environment={})
