"""Plans: what is read, what is refused, and which trials come of it."""

from __future__ import annotations

import json
import os
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.errors import SourceError
from registry.measure.running.model_sources import check_config
from registry.measure.running.plan import parse_plan, read_plan
from registry.measure.running.plan_model import PlanError, parse_settings
from registry.measure.running.trials import Trial, expand_trials
from registry.measure.trial_settings import ABOUT, DEFAULTS, Settings

FIVE = ("seq_len", "micro_batch_size", "grad_accum_steps", "lora_rank", "steps")
TINY = {"tiny": {"model_type": "llama", "hidden_size": 8}}
SMOKE = Path(__file__).parents[4] / "records" / "plans" / "cpu-smoke.toml"


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
            r"p.toml: matrix.seq_len: found 5; expected a list of values",
        ),
        (
            {"quantization": "nf3"},
            (
                r"p.toml: quantization: found 'nf3'; did you mean 'nf4'\?; "
                r"expected one of none, nf4, fp4, int8"
            ),
        ),
        (
            {"seq_len": "512"},
            r"p.toml: seq_len: found '512'; expected an integer from 1 to 16777216",
        ),
        ({"seq_len": True}, r"p.toml: seq_len: found True; expected an integer from 1 to 16777216"),
        ({"steps": 0}, r"p.toml: steps: found 0; expected an integer from 1 to 10000000"),
        (
            {"lora_alpha": float("nan")},
            r"p.toml: lora_alpha: found nan; expected a number from 1e-09 to 1000000.0",
        ),
        (
            {"timeout_seconds": float("inf")},
            r"p.toml: timeout_seconds: found inf; expected a number from 0.001 to 1209600.0",
        ),
        (
            {"method": "LoRA"},
            r"p.toml: method: found 'LoRA'; did you mean 'lora'\?; expected full or a method .*",
        ),
        (
            {"model": "tiny\x1b[31m"},
            (
                r"p.toml: model: found 'tiny\\x1b\[31m'; expected a name without control "
                r"characters"
            ),
        ),
        ({"name": "a\x9bb"}, r"p.toml: name: found 'a\\x9bb'; expected a short text"),
        (
            {"peft": {"megatron_core": "evil"}},
            (
                r"p.toml: peft.megatron_core: found 'evil'; expected a number, true or false, or a "
                r"list of numbers; texts only for bias, .*, because the others name code or files "
                r"that PEFT would load"
            ),
        ),
        (
            {"peft": {"lora_alpha": float("nan")}},
            r"p.toml: peft.lora_alpha: found nan; expected a number, .*",
        ),
        (
            {"peft": {"r": [1, 10**400]}},
            r"p.toml: peft.r: found \[1, 10+…; expected a number, .*",
        ),
        (
            {"peft": {"tokenizer_kwargs": {"trust_remote_code": True}}},
            r"p.toml: peft.tokenizer_kwargs: found {'trust_remote_code': True}; expected a .*",
        ),
        (
            {"models": {"tiny": {"model_type": "llama", "auto_map": {"AutoConfig": "evil.C"}}}},
            (
                r"p.toml: models.tiny.auto_map: found {'AutoConfig': 'evil.C'}; expected a number, "
                r"true or false, or one word: a configuration may not name code or files; remove "
                r"the field"
            ),
        ),
        (
            {"models": {"tiny": {"model_type": "x", "text_config": {"attn_impl": "evil/kernel"}}}},
            r"p.toml: models.tiny.text_config.attn_impl: found 'evil/kernel'; expected .*",
        ),
        (
            {"matrix": {name: list(range(1, 200)) for name in FIVE}},
            (
                r"p: 312079600999 trials; expected at most 10000; split the plan, or take values "
                r"out of its matrix"
            ),
        ),
        ({"repeats": 10**18}, r"p: 1000000000000000000 trials; expected at most 10000; .*"),
        ({"gradient_checkpointing": 1}, r"p.toml: .*: found 1; expected true or false"),
        ({"repeats": 0}, r"p.toml: repeats: found 0; expected a positive integer"),
        ({"memory_limit": 5}, r"p.toml: memory_limit: found 5; expected text such as '2 GiB'"),
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
                r"p: model 'llama-y': unknown; did you mean 'llama-x'\?; expected a table "
                r"\[models.llama-y\] of the plan, a model of the catalogue, a config.json or a "
                r"name of the hub"
            ),
        ),
        (
            {"model": "shapeless"},
            (
                r"p: model 'shapeless': the catalogue does not hold its shape; expected model_type "
                r"and sizes; describe it under \[models\] of the plan"
            ),
        ),
        (
            {"model": "qwen-x", "weights": "pretrained"},
            (
                r"p: model 'qwen-x': the catalogue has no hub name for it; expected one for "
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


def refusals_of(**document: Any) -> list[str]:
    with pytest.raises(PlanError) as caught:
        plan(**document)
    return caught.value.problems


def test_all_that_is_wrong_with_a_document_is_said_at_once() -> None:
    problems = refusals_of(
        metod="lora",
        quantization="nf5",
        seq_len=-1,
        lora_alpha="16",
        memory_limit="2 gigs",
        matrix={"optimizer": ["adamw", "sgd"], "dtype": []},
        exclude=[{"sharding": "fdsp"}],
        method="lroa",
        models={"tiny": {"model_type": "llama", "auto_map": "evil/code"}},
        include=[{"methd": "full"}, {"lora_target_modules": ["all-linear", "q_proj"]}],
    )
    assert [re.split("[;,] expected", problem)[0].split(";")[0] for problem in problems] == [
        "method: found 'lroa'",
        "quantization: found 'nf5'",
        "seq_len: found -1",
        "lora_alpha: found '16'",
        "memory_limit: found unit 'gigs'",
        "matrix.optimizer[0]: found 'adamw'",
        "matrix.dtype: found []",
        "exclude[0].sharding: found 'fdsp'",
        "include[0]: unknown key 'methd'",
        "include[1].lora_target_modules: found ['all-linear', 'q_proj']",
        "models.tiny.auto_map: found 'evil/code'",
        "unknown key 'metod'",
    ]
    assert "did you mean 'lora'?" in problems[0]
    assert "did you mean 'fsdp'?" in problems[7]


@pytest.mark.parametrize("method", ["prompt_tuning", "p_tuning", "prefix_tuning"])
def test_a_prompt_without_a_number_of_tokens_is_refused_before_it_runs(method: str) -> None:
    (problem,) = refusals_of(method=method)
    assert problem == (
        f"method {method} without a number of virtual tokens: PEFT has no default for it; expected "
        "for example peft = { num_virtual_tokens = 8 }, beside other methods in an [[include]]"
    )
    (trial,) = plan(method=method, peft={"num_virtual_tokens": 8})
    assert trial.settings.peft == {"num_virtual_tokens": 8}


def test_all_that_is_wrong_with_the_trials_is_said_at_once() -> None:
    problems = refusals_of(
        matrix={"model": ["tiny", "llama-y"], "method": ["lora", "full"]},
        quantization="nf4",
        device="cpu",
        attention="flash2",
        lora_target_modules=["q_prj", "v_proj"],
    )
    assert [problem.split(":")[0] for problem in problems] == [
        "attention flash2 on device cpu",
        "lora_target_modules",
        "method full with quantization nf4",
        "model 'llama-y'",
    ]
    assert problems[1] == (
        "lora_target_modules: found 'q_prj'; did you mean 'q_proj'?; expected all-linear, or "
        "modules of llama: q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj, down_proj"
    )


def test_a_long_list_of_problems_is_cut() -> None:
    include = [{"seq_len": -number} for number in range(1, 31)]
    with pytest.raises(PlanError) as caught:
        plan(include=include)
    lines = str(caught.value).splitlines()
    assert len(lines) == 21
    assert lines[-1] == "p.toml: and 10 more problems in this plan"


def test_modules_of_an_unknown_architecture_are_left_to_the_job() -> None:
    models = {"tiny": {"model_type": "brandnew"}}
    (trial,) = plan(models=models, lora_target_modules=["brand_proj"])
    assert trial.settings.lora_target_modules == ("brand_proj",)


def test_every_setting_has_a_meaning_and_an_example_that_is_valid() -> None:
    assert set(ABOUT) == {item.name for item in fields(Settings)}
    for name, about in ABOUT.items():
        assert about.meaning.endswith(".")
        if about.example is not None and name != "model":
            parse_settings({"model": "m", name: about.example}, "s")
    for name, default in DEFAULTS.items():
        assert parse_settings({"model": "m", name: default}, "s") == Settings("m"), name


def test_a_plan_without_a_model_is_refused() -> None:
    with pytest.raises(SourceError, match=r"p.toml: no model; expected 'model' in the plan or"):
        parse_plan({"seq_len": 5}, origin="p.toml")


def read(folder: Path, content: bytes) -> str:
    """Return why a plan of this content cannot be read, the path left out."""
    path = folder / "p.toml"
    path.write_bytes(content)
    with pytest.raises(SourceError) as caught:
        read_plan(path)
    return str(caught.value).removeprefix(f"{path}: ")


TOO_DEEP = "nested deeper than 16 levels; expected a plan, which has four"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"model = ", "Invalid value (at end of document); expected a plan in TOML"),
        (b"a = " + b"[" * 50_000 + b"]" * 50_000, TOO_DEEP),
        (b"a = " + b"[" * 20 + b"]" * 20, TOO_DEEP),
        (b"a." * 50_000 + b"a = 1", TOO_DEEP),
        (b"[" + b'"a" . ' * 50_000 + b"a]", TOO_DEEP),
        (b"#" * (2**20 + 1), "longer than 1048576 bytes; expected a plan below that; split it"),
    ],
)
def test_a_file_that_is_no_plan_is_refused(content: bytes, message: str, tmp_path: Path) -> None:
    assert read(tmp_path, content) == message


def test_text_in_another_encoding_and_endless_integers_are_refused(tmp_path: Path) -> None:
    assert read(tmp_path, b'name = "\xff"').endswith("; expected a plan in TOML")
    assert read(tmp_path, b"seq_len = " + b"9" * 5000).endswith("; expected a plan in TOML")


def test_a_byte_order_mark_is_no_part_of_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_bytes(b"\xef\xbb\xbfmodel = 'llama-x'")
    assert read_plan(path).base == {"model": "llama-x"}


def test_names_that_no_file_can_have_are_refused_at_their_place(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    name = "x" * 300
    path.write_text(f"model = '{name}'", encoding="utf-8")
    with pytest.raises(SourceError, match="model 'xxx"):
        expand_trials(read_plan(path), CATALOGUE)
    path.write_text(f"model = 'llama-x'\nmatrix.dataset = ['{name}']", encoding="utf-8")
    with pytest.raises(PlanError, match=r"p\.toml: matrix\.dataset: .*expected the name of a file"):
        read_plan(path)


def test_a_plan_that_is_not_there_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "missing.toml"
    with pytest.raises(SourceError) as caught:
        read_plan(path)
    assert str(caught.value) == (
        f"{path}: cannot be read: No such file or directory; expected a readable file"
    )


def test_devices_pipes_and_folders_are_not_read(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    way_out = "in a regular file; save it in one first"
    for path, found in ((Path("/dev/zero"), "a device"), (pipe, "a pipe")):
        with pytest.raises(SourceError) as caught:
            read_plan(path)
        assert str(caught.value) == f"{path}: found {found}, expected a plan {way_out}"
        with pytest.raises(SourceError) as caught:
            plan(model="tiny", dataset=str(path))
        what = "a JSONL file or a folder of datasets"
        assert str(caught.value) == f"{path}: found {found}, expected {what} {way_out}"
    with pytest.raises(SourceError) as caught:
        read_plan(tmp_path)
    assert str(caught.value) == (
        f"{tmp_path}: cannot be read: Is a directory; expected a readable file"
    )


def write_plan(folder: Path, text: str) -> Path:
    path = folder / "plans" / "p.toml"
    path.parent.mkdir(exist_ok=True)
    path.write_text(f'[models.tiny]\nmodel_type = "llama"\n\n{text}')
    return path


@pytest.mark.parametrize(
    "text",
    [
        '[[include]]\nmodel = "tiny"\ndataset = "{outside}"\n',
        '[[include]]\nmodel = "tiny"\ndataset = "../data.jsonl"\n',
        '[matrix]\nmodel = ["tiny"]\ndataset = ["link.jsonl"]\n',
    ],
)
def test_a_data_set_outside_the_plans_folder_is_read_only_where_it_is_named(
    text: str, tmp_path: Path
) -> None:
    outside = tmp_path / "data.jsonl"
    outside.write_text("{}\n")
    path = write_plan(tmp_path, text.format(outside=outside))
    (path.parent / "link.jsonl").symlink_to(outside)
    with pytest.raises(SourceError) as caught:
        read_plan(path)
    assert re.fullmatch(
        rf"{path}: (include\[0\]|matrix).dataset: found '.*, which is not in the plan's folder; "
        r"expected a file there; to train on another one, name it yourself: --dataset",
        str(caught.value),
    )


def test_a_data_set_that_is_named_holds_for_all_trials(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text("{}\n")
    path = write_plan(tmp_path, '[matrix]\nmodel = ["tiny"]\nseq_len = [8, 16]\n')
    trials = expand_trials(read_plan(path, dataset=data))
    assert [trial.settings.dataset for trial in trials] == [str(data)] * 2
    stated = write_plan(tmp_path, '[[include]]\nmodel = "tiny"\ndataset = "x"\n')
    with pytest.raises(SourceError) as caught:
        read_plan(stated, dataset=data)
    assert str(caught.value) == (
        f"{stated}: include[0].dataset: found 'x' as well as the one named for all trials; "
        "expected one of the two; remove it from the plan"
    )


def test_a_configuration_file_is_read_without_what_names_code(tmp_path: Path) -> None:
    config = {"model_type": "llama", "auto_map": {"AutoConfig": "evil.C"}, "hidden_act": "silu"}
    path = tmp_path / "config.json"
    path.write_text(json.dumps({**config, "_attn_implementation": "evil/kernel"}))
    (trial,) = plan(model=str(path))
    assert trial.model["config"] == {"model_type": "llama", "hidden_act": "silu"}
    path.write_text("[" * 100_000)
    with pytest.raises(SourceError, match=r"expected a config.json of transformers$"):
        plan(model=str(path))


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


def test_a_word_of_a_configuration_may_have_a_sign_for_each_layer() -> None:
    config = {"model_type": "nemotron_h", "hybrid_override_pattern": "M-M*" * 30}
    assert check_config(config, "config.json") == config
    with pytest.raises(SourceError, match="may not name code or files"):
        check_config(config | {"hybrid_override_pattern": "../M*"}, "config.json")
