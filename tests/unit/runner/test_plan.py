"""Plans: what is read, what is refused, and which trials come of it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.errors import SourceError
from registry.runner.plan import parse_plan, read_plan
from registry.runner.trials import Trial, expand_trials

TINY = {"tiny": {"model_type": "llama", "hidden_size": 8}}
SMOKE = Path(__file__).parents[3] / "records" / "plans" / "cpu-smoke.toml"


def plan(**document: Any) -> list[Trial]:
    stated = {"model": "tiny", "models": TINY, **document}
    return expand_trials(parse_plan(stated, origin="p.toml"), CATALOGUE)


CATALOGUE = Catalogue(
    models={
        "llama-x": {
            "model_id": "llama-x",
            "model_type": "llama",
            "hidden_size": 16,
            "n_layers": 2,
            "hf_id": "some/llama-x",
        },
        "qwen-x": {"model_id": "qwen-x", "model_type": "qwen", "hidden_size": 16},
        "shapeless": {"model_id": "shapeless"},
    }
)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"seqlen": 5},
            r"p.toml: unknown key 'seqlen'; did you mean 'seq_len'\?; expected one of .*",
        ),
        (
            {"matrix": {"lora_rnk": [1]}},
            r"p.toml: matrix: unknown key 'lora_rnk'; did you mean 'lora_rank'\?; expected .*",
        ),
        (
            {"matrix": {"seq_len": 5}},
            r"p.toml: matrix: seq_len: found 5; expected a list of values",
        ),
        (
            {"quantization": "nf3"},
            (
                r"p.toml: quantization: found 'nf3'; did you mean 'nf4'\?; "
                r"expected one of none, nf4, fp4, int8"
            ),
        ),
        ({"seq_len": "512"}, r"p.toml: seq_len: found '512'; expected an integer"),
        ({"seq_len": True}, r"p.toml: seq_len: found True; expected an integer"),
        ({"steps": 0}, r"p.toml: steps: found 0; expected a positive number"),
        ({"gradient_checkpointing": 1}, r"p.toml: .*: found 1; expected true or false"),
        ({"repeats": 0}, r"p.toml: repeats: found 0; expected a positive integer"),
        ({"memory_limit": 5}, r"p.toml: memory_limit: found 5; expected text, as '2 GiB'"),
        ({"exclude": {"method": "full"}}, r"p.toml: exclude: found .*; expected tables, as .*"),
        (
            {"models": {"tiny": {"hidden_size": 8}}},
            (
                r"p.toml: models.tiny: found no model_type; expected the fields of a "
                r"transformers configuration, model_type among them"
            ),
        ),
        (
            {"method": "full", "quantization": "nf4"},
            (
                r"p: method full with quantization nf4: quantized weights take no gradient; "
                r"expected an adapter; exclude the combination"
            ),
        ),
        (
            {"model": "llama-y"},
            (
                r"model 'llama-y': unknown; did you mean 'llama-x'\?; expected a table "
                r"\[models.llama-y\] of the plan, a model of the catalogue, a config.json or a "
                r"name of the hub"
            ),
        ),
        (
            {"model": "shapeless"},
            (
                r"model 'shapeless': the catalogue does not hold its shape; expected model_type "
                r"and sizes; describe it under \[models\] of the plan"
            ),
        ),
        (
            {"model": "qwen-x", "weights": "pretrained"},
            (
                r"model 'qwen-x': the catalogue knows no hub name of it; expected one for "
                r"pretrained weights; use weights = 'random', or name the repository"
            ),
        ),
    ],
)
def test_a_wrong_plan_is_refused_with_place_and_way_out(
    document: dict[str, Any], message: str
) -> None:
    with pytest.raises(SourceError) as caught:
        plan(**document)
    assert re.fullmatch(message, str(caught.value)), str(caught.value)


def test_a_plan_without_a_model_is_refused() -> None:
    with pytest.raises(SourceError, match=r"p.toml: no model; expected 'model' in the plan or"):
        parse_plan({"seq_len": 5}, origin="p.toml")


def test_a_file_that_is_no_toml_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text("model = ")
    with pytest.raises(SourceError, match=r"p.toml: Invalid value .*; expected a plan in TOML"):
        read_plan(path)
    with pytest.raises(SourceError, match="cannot be read: No such file or directory"):
        read_plan(tmp_path / "missing.toml")


def test_axes_are_combined_and_exclusions_left_out() -> None:
    trials = plan(
        matrix={"method": ["full", "lora"], "quantization": ["none", "nf4"], "seq_len": [8, 16]},
        exclude=[{"method": "full", "quantization": "nf4"}],
        include=[{"seq_len": 32, "memory_limit": "1 GiB"}],
    )
    assert [
        (trial.settings.method, trial.settings.quantization, trial.settings.seq_len)
        for trial in trials
    ] == [
        ("full", "none", 8),
        ("full", "none", 16),
        ("lora", "none", 8),
        ("lora", "none", 16),
        ("lora", "nf4", 8),
        ("lora", "nf4", 16),
        ("lora", "none", 32),
    ]
    assert trials[-1].settings.memory_limit_bytes == 2**30


def test_repeats_are_trials_of_their_own() -> None:
    trials = plan(repeats=3)
    assert [trial.settings.repeat for trial in trials] == [1, 2, 3]
    assert len({trial.trial_id for trial in trials}) == 3


def test_the_same_trial_runs_once() -> None:
    assert len(plan(matrix={"seq_len": [8, 8]}, include=[{"seq_len": 8}])) == 1


def test_a_longer_time_limit_is_the_same_trial() -> None:
    first, second = plan(timeout_seconds=5), plan(timeout_seconds=50.0)
    assert first[0].trial_id == second[0].trial_id


def test_another_shape_under_the_same_name_is_another_trial() -> None:
    other = {"tiny": {"model_type": "llama", "hidden_size": 16}}
    assert plan()[0].trial_id != plan(models=other)[0].trial_id


def test_another_data_set_under_the_same_name_is_another_trial(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"input_ids": [1]}\n')
    first = plan(dataset=str(data))[0].trial_id
    data.write_text('{"input_ids": [2]}\n')
    assert plan(dataset=str(data))[0].trial_id != first


def test_paths_are_relative_to_the_plan(tmp_path: Path) -> None:
    (tmp_path / "data.jsonl").write_text("{}\n")
    (tmp_path / "config.json").write_text('{"model_type": "llama", "hidden_size": 8}')
    path = tmp_path / "p.toml"
    path.write_text('model = "config.json"\ndataset = "data.jsonl"\n')
    trial = expand_trials(read_plan(path))[0]
    assert trial.settings.dataset == str(tmp_path / "data.jsonl")
    assert trial.model == {"kind": "config", "config": {"model_type": "llama", "hidden_size": 8}}
    assert trial.label == "config.json lora 512"


def test_a_model_of_the_catalogue_is_built_from_its_shape() -> None:
    assert plan(model="llama-x")[0].model == {
        "kind": "config",
        "config": {"model_type": "llama", "hidden_size": 16, "num_hidden_layers": 2},
        "model_id": "llama-x",
    }
    assert plan(model="llama-x", weights="pretrained")[0].model == {
        "kind": "hub",
        "hf_id": "some/llama-x",
        "model_id": "llama-x",
    }


def test_the_nearest_architecture_does_not_bear_the_models_name() -> None:
    model = plan(model="qwen-x")[0].model
    assert model["config"]["model_type"] == "qwen2"
    assert model["nearest_of"] == "qwen-x"
    assert "model_id" not in model


def test_the_published_plan_holds_what_it_says() -> None:
    trials = expand_trials(read_plan(SMOKE))
    assert len(trials) == 13
    assert sum(trial.settings.memory_limit_bytes is not None for trial in trials) == 1
    assert {trial.settings.device for trial in trials} == {"cpu"}
