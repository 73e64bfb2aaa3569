"""``registry fit --exact``: a dry run where torch is, and a way out where it is not."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import registry
from registry.predict.dryrun import executing

Run = Callable[..., subprocess.CompletedProcess[str]]
ASKED = ("fit", "--model", "gpt2", "--gpu", "t4", "--seq-len", "256", "--targets", "c_attn")
HAS_TORCH = all(find_spec(name) for name in ("torch", "transformers", "peft"))


@pytest.mark.skipif(HAS_TORCH, reason="torch is installed")
def test_without_torch_the_way_out_is_told(run: Run) -> None:
    done = run(*ASKED, "--exact")
    assert done.returncode == 1
    assert done.stderr == (
        "error: dry run: torch is not installed: pip install 'peft-registry[train]', or ask "
        "without it to use the formula\n"
    )
    assert run(*ASKED).returncode == 0


@pytest.mark.skipif(not HAS_TORCH, reason="needs torch, transformers and peft")
def test_a_dry_run_corrects_the_answer(run: Run) -> None:
    asked, executed = (run(*ASKED, *more, "--json") for more in ((), ("--exact",)))
    assert "a job of transformers' Trainer has" in executed.stderr
    plain, exact = (json.loads(done.stdout) for done in (asked, executed))
    assert exact["predictor"] == "dry run on fake tensors, with the formula's interval"
    assert exact["peak_bytes"]["value"] != plain["peak_bytes"]["value"]
    cards = {card["peak_bytes"]["value"] for card in exact["cards"]}
    assert cards <= {exact["peak_bytes"]["value"]}


def test_python_has_the_same_argument(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"peak_allocated_bytes": 9 * 2**30, "peak_reserved_bytes": 10 * 2**30, "notes": ["x"]}
    monkeypatch.setattr(executing, "run_in_child", lambda *_, **__: found)
    monkeypatch.setenv("REGISTRY_PATH", str(Path(__file__).parents[2] / "records"))
    asked: dict[str, Any] = {"gpu": "t4", "seq_len": 256, "targets": "c_attn"}
    plain, exact = (registry.fit("gpt2", exact=exact, **asked) for exact in (False, True))
    assert exact.answer.prediction.predictor == (
        "dry run on fake tensors, with the formula's interval"
    )
    assert exact.peak.value > 5 * 2**30 > plain.peak.value
    with pytest.raises(registry.RegistryError, match="offload optimizer is not executed"):
        registry.fit("gpt2", exact=True, offload="optimizer", **asked)


def test_what_is_not_executed_is_refused_by_name(run: Run) -> None:
    done = run(*ASKED, "--exact", "--offload", "optimizer")
    assert done.returncode == run("fit", "--model", "gpt2", "--method", "galore").returncode != 0
    assert done.stderr == (
        "error: dry run: offload optimizer is not executed; ask without it to use the formula\n"
    )
