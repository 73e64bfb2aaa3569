"""What trials are called, and how long those that are left will take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from registry.measure.running.bench import Side, order_turns
from registry.measure.running.plan import parse_plan
from registry.measure.running.time_left import TimeLeft
from registry.measure.running.trial_labels import find_varied, label_trials
from registry.measure.running.trial_run import TrialResult
from registry.measure.running.trials import Trial, expand_trials
from registry_cli.commands import bench_command

if TYPE_CHECKING:
    import pytest


def trials_of(**document: Any) -> list[Trial]:
    models = {"tiny": {"model_type": "llama"}, "wide": {"model_type": "llama", "hidden_size": 8}}
    stated = {"model": "tiny", "models": models, **document}
    return expand_trials(parse_plan(stated, origin="p"))


def labels_of(**document: Any) -> list[str]:
    return list(label_trials(trials_of(**document)).values())


def test_a_label_says_what_differs_and_nothing_else() -> None:
    assert labels_of(seq_len=8, matrix={"lora_rank": [4, 8], "dtype": ["bf16", "fp32"]}) == [
        "dtype=bf16 lora_rank=4",
        "dtype=fp32 lora_rank=4",
        "dtype=bf16 lora_rank=8",
        "dtype=fp32 lora_rank=8",
    ]


def test_every_kind_of_value_can_differ() -> None:
    matrix = {
        "model": ["tiny", "wide"],
        "lora_alpha": [8.0, 0.5],
        "gradient_checkpointing": [False, True],
        "lora_target_modules": [["q_proj"], ["v_proj", "k_proj"]],
        "peft": [{}, {"bias": "none"}],
        "memory_limit": ["1 GiB", "2 GiB"],
    }
    labels = labels_of(matrix=matrix, repeats=2)
    assert len(set(labels)) == 2**7
    assert labels[-1] == (
        "model=wide gradient_checkpointing=true lora_alpha=0.5 lora_target_modules=k_proj,v_proj "
        'peft={"bias": "none"} repeat=2 memory_limit=2 GiB'
    )


def test_what_only_some_trials_have_is_named_there() -> None:
    include = [{"memory_limit": "1 GiB"}]
    assert labels_of(matrix={"seq_len": [8]}, include=include) == [
        "seq_len=8",
        "seq_len=512 memory_limit=1 GiB",
    ]


def test_what_most_trials_share_is_left_out() -> None:
    include = [{"seq_len": 512, "optimizer": "sgd"}, {"seq_len": 512, "dtype": "fp32"}]
    assert labels_of(matrix={"seq_len": [512, 1024]}, include=include) == [
        "seq_len=512 optimizer=adamw_torch dtype=bf16",
        "seq_len=1024",
        "optimizer=sgd",
        "dtype=fp32",
    ]


def test_a_trial_alone_is_described() -> None:
    assert labels_of(quantization="nf4") == ["tiny lora nf4 512"]
    assert find_varied([]) == ()


def test_the_time_left_is_that_of_trials_with_the_same_settings() -> None:
    trials = trials_of(matrix={"model": ["tiny", "wide"], "seq_len": [8, 16]})
    time_left = TimeLeft(trials)
    assert time_left.estimate(trials) is None
    time_left.note(trials[0], 10.0)
    assert time_left.estimate(trials[1:]) == 30.0
    time_left.note(trials[1], 20.0)
    assert time_left.estimate(trials[2:]) == 10.0 + 20.0
    assert time_left.estimate(trials[2:], n_at_once=2) == 15.0
    assert time_left.estimate([]) == 0.0


def test_of_very_many_trials_the_mean_is_taken() -> None:
    trials = trials_of(matrix={"seq_len": list(range(1, 1001))})
    time_left = TimeLeft(trials)
    for trial in trials[:400]:
        time_left.note(trial, 2.0)
    assert time_left.estimate(trials[400:]) == 1200.0


def test_a_bench_says_the_time_left_by_trials_of_the_same_settings(
    capsys: pytest.CaptureFixture[str],
) -> None:
    turns = order_turns(trials_of(matrix={"seq_len": [8, 16]}), 2)
    sides = tuple(Side(name, cast("Any", None)) for name in ("old", "new"))
    show = bench_command._follow(turns, cast("Any", sides))
    for turn, seconds in zip(turns, (2.0, 2.0, 200.0, 200.0), strict=False):
        show(turn, None)
        show(turn, TrialResult(turn.trial, "ok", None, seconds, {}))
    assert [line.rpartition(", ")[2] for line in capsys.readouterr().err.splitlines()] == [
        "about 14 s to go",
        "about 12 s to go",
        "about 10 min 4 s to go",
        "about 6 min 44 s to go",
    ]
