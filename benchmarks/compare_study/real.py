"""Runs of one small training job, each in a process of its own, on this machine as it is.

A run is a trial of the runner (``registry.measure.running.job``) with the recorder in it. What is
left out is the start of the interpreter: torch, transformers and peft are imported once and each
run is a fork of that process, so that hundreds fit into an hour. Nothing is computed before a fork.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import tempfile
import time
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.ratios import choose_time
from registry.measure.running.job import run_job
from registry.measure.running.plan_model import parse_settings
from registry.measure.running.trials import trial_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from registry.measure.running.trials import Trial

SETTINGS = {
    "model": "tiny",
    "device": "cpu",
    "seq_len": 64,
    "micro_batch_size": 2,
    "steps": 20,
    "dtype": "fp32",
}

MODEL = {
    "model_type": "llama",
    "vocab_size": 1024,
    "hidden_size": 128,
    "intermediate_size": 352,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
}


@dataclass(frozen=True)
class Run:
    """One run: its time per step in seconds, its whole time, and the machine's load before it."""

    step_seconds: float
    seconds: float
    load: float


def prepare() -> Trial:
    """Load what the runs need and return their trial."""
    os.environ |= {"OMP_NUM_THREADS": "1", "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
    for name in ("torch", "transformers", "transformers.trainer", "peft", "accelerate"):
        import_module(name)
    import_module("transformers").logging.set_verbosity_error()
    return trial_of(
        parse_settings(SETTINGS, "the study's trial"), {"kind": "config", "config": MODEL}
    )


def measure_runs(n_runs: int) -> Iterator[Run]:
    """Yield runs of the trial, one after the other. Raises RuntimeError where one fails."""
    trial = prepare()
    for _ in range(n_runs):
        load = os.getloadavg()[0]
        began = time.monotonic()
        document = _run(trial)
        (observation,) = document["observations"]
        chosen = choose_time([observation])
        if observation["outcome"] != "ok" or chosen is None or chosen[0] != "step_time":
            raise RuntimeError(f"a run ended otherwise: {observation}")
        yield Run(chosen[1](observation) or 0.0, time.monotonic() - began, load)


def _run(trial: Trial) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="registry-study-") as folder:
        result = Path(folder) / "result.json"
        process = multiprocessing.get_context("fork").Process(target=_job, args=(trial, result))
        process.start()
        process.join()
        if process.exitcode or not result.exists():
            raise RuntimeError(f"a run ended with exit status {process.exitcode}")
        document: dict[str, Any] = json.loads(result.read_text(encoding="utf-8"))
        return document


def _job(trial: Trial, result: Path) -> None:
    with (result.parent / "output.txt").open("wb") as output:
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    run_job(trial.settings, trial.as_spec(), result)
