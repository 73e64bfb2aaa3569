from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import asdict
from importlib.util import find_spec

import pytest

from registry.errors import RegistryError
from registry.measure.trial_settings import Settings
from registry.predict.dryrun import DryRunError, Recipe, child, dry_run, requirements, run_in_child
from registry.predict.dryrun.__main__ import main

CONFIG = {"kind": "config", "config": {"model_type": "llama"}}
WAY_OUT = "pip install 'peft-registry[train]', or ask without it to use the formula"
TORCH_MISSING = f"dry run: torch is not installed: {WAY_OUT}"


def test_the_package_loads_no_torch() -> None:
    code = (
        "import sys, registry.predict.dryrun; "
        "print([n for n in ('torch', 'numpy', 'transformers', 'pandas') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_errors_of_a_dry_run_are_the_registrys() -> None:
    assert issubclass(DryRunError, RegistryError)


def test_torch_that_is_not_installed_is_named_with_the_way_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(requirements, "find_spec", lambda _: None)
    with pytest.raises(DryRunError) as caught:
        dry_run(Settings("m"), CONFIG)
    assert str(caught.value) == TORCH_MISSING


@pytest.mark.skipif(find_spec("torch") is not None, reason="torch is installed")
def test_a_child_without_torch_says_so() -> None:
    with pytest.raises(DryRunError) as caught:
        run_in_child(Settings("m"), CONFIG)
    assert str(caught.value) == TORCH_MISSING


@pytest.mark.parametrize(
    ("settings", "missing"),
    [
        (Settings("m"), "peft"),
        (Settings("m", quantization="nf4"), "peft"),
        (Settings("m", method="full"), None),
    ],
)
def test_only_packages_that_the_settings_need_are_asked_for(
    settings: Settings, missing: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = ("torch", "transformers")
    monkeypatch.setattr(requirements, "find_spec", lambda name: name if name in there else None)
    problems = requirements.check_packages(settings)
    expected = f"dry run: {missing} is not installed: {WAY_OUT}"
    assert problems == ([] if missing is None else [expected])


def test_settings_that_cannot_be_executed_are_reported_together() -> None:
    settings = Settings(
        "m", seq_len=0, micro_batch_size=-1, n_gpus=2, sharding="zero3", method="full"
    )
    assert requirements.check_settings(settings) == [
        "seq_len 0: expected 1 or more",
        "micro_batch_size -1: expected 1 or more",
        (
            "sharding 'zero3': the dry run executes one entire device; expected none or ddp; "
            "use the formula for sharded states"
        ),
    ]


def test_quantized_weights_are_not_trained() -> None:
    settings = Settings("m", method="full", quantization="nf4")
    assert requirements.check_settings(settings) == [
        (
            "method 'full' with quantization 'nf4': quantized weights are not trained; expected "
            "quantization 'none', or an adapter method"
        )
    ]


def test_dora_on_quantized_weights_is_refused() -> None:
    settings = Settings("m", method="dora", quantization="nf4")
    assert requirements.check_settings(settings) == [
        (
            "method 'dora' with quantization 'nf4': PEFT reads the unpacked weights, which a dry "
            "run does not have; expected quantization 'none'; use the formula"
        )
    ]


def test_a_killed_child_is_an_error_with_its_signal() -> None:
    with pytest.raises(DryRunError) as caught:
        child._parse_answer("", "", -9, "qwen-7b")
    assert str(caught.value) == (
        "dry run of qwen-7b: killed by signal 9 (SIGKILL): no message; expected an answer in JSON; "
        "use the formula"
    )


def test_a_childs_last_words_are_kept() -> None:
    with pytest.raises(DryRunError) as caught:
        child._parse_answer("", "one\ntwo\nthree\nfour\n", 3, "qwen-7b")
    assert str(caught.value) == (
        "dry run of qwen-7b: exit status 3: two | three | four; expected an answer in JSON; "
        "use the formula"
    )


def test_a_childs_own_error_is_passed_on_as_it_is() -> None:
    with pytest.raises(DryRunError, match=r"^no such thing$"):
        child._parse_answer('{"error": "no such thing"}', "", 1, "m")


def test_a_child_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    sleep = [sys.executable, "-c", "import time; time.sleep(600)"]
    monkeypatch.setattr(child, "module_command", lambda _: sleep)
    with pytest.raises(DryRunError) as caught:
        run_in_child(Settings("qwen-7b"), CONFIG, timeout_seconds=0.25)
    assert str(caught.value) == (
        "dry run of qwen-7b: not done after 0.25 s; expected an answer by then; allow more time, "
        "or use the formula"
    )


def test_the_worker_passes_on_what_the_registry_refuses() -> None:
    spec = {"settings": asdict(Settings("m", seq_len=0)), "model": CONFIG}
    answer = io.StringIO()
    assert main(io.StringIO(json.dumps(spec)), answer) == 1
    expected = "settings: seq_len: found 0; expected an integer from 1 to 16777216"
    assert json.loads(answer.getvalue()) == {"error": expected}


def test_a_recipe_knows_its_words() -> None:
    with pytest.raises(DryRunError) as caught:
        Recipe(loss="upcasted")
    assert str(caught.value) == (
        "recipe: loss 'upcasted'; expected one of upcast, shifted, plain; did you mean 'upcast'?"
    )


@pytest.mark.skipif(find_spec("peft") is None, reason="needs torch and peft")
def test_a_graph_that_cannot_be_executed_is_an_error_with_its_reason() -> None:
    source = {"kind": "config", "config": {"model_type": "no-such-model"}}
    with pytest.raises(DryRunError) as caught:
        dry_run(Settings("mine"), source)
    expected = (
        "expected a training step that runs on fake tensors; ask without it to use the formula"
    )
    assert str(caught.value).startswith("dry run of mine: ValueError: ")
    assert str(caught.value).endswith(expected)
    assert len(str(caught.value)) < 500  # transformers names all its models
