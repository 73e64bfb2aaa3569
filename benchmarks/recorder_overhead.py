"""CPU time that the recorder takes: of a step, in a plain loop and in a Trainer, and at the start.

Run as ``python -m benchmarks.recorder_overhead [--pairs 30] [--steps 200]``. A pair trains
the same small model twice in this process, once with the recorder, in changing order, on one
thread of torch. The cost is the difference of the whole process's CPU seconds a step, the
recorder's own threads among them; the memory is sampled and the growing record written, as in a
measured command. Printed is the median of the pairs with its bootstrap interval.
"""

from __future__ import annotations

import argparse
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch.optim import optimizer as optimizer_module
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    logging,
)

from benchmarks.timing import format_load
from registry.measure import trainer_callback
from registry.measure.recording.loop_hooks import LoopRecorder
from registry.measure.running.job import RandomTokens, collate
from registry.measure.trial_settings import RECORD_FOLDER

if TYPE_CHECKING:
    from collections.abc import Callable

CONFIG = LlamaConfig(
    vocab_size=512,
    hidden_size=32,
    intermediate_size=64,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
)
_BATCH, _LENGTH = 2, 32
_FIRST_STEPS = 10  # what is loaded, compiled or made once belongs to no step
_SITE = Path(__file__).parents[1] / "registry" / "measure" / "recording" / "site"


class CpuWatch:
    """CPU seconds of this process from the end of the first steps to the last one's."""

    def __init__(self) -> None:
        self.borders: list[float] = []

    def note(self) -> None:
        """Note the end of a step."""
        self.borders.append(time.process_time())

    def seconds(self) -> float:
        """Return the mean CPU seconds of a step."""
        counted = self.borders[_FIRST_STEPS:]
        return (counted[-1] - counted[0]) / (len(counted) - 1)


def train_loop(steps: int, folder: str, *, with_recorder: bool) -> float:
    """Train in a plain loop; return the CPU seconds of a step."""
    model = AutoModelForCausalLM.from_config(CONFIG)
    recorder = handle = None
    if with_recorder:
        recorder = LoopRecorder()
        handle = _install(recorder, folder)
    optimizer = torch.optim.AdamW(model.parameters())
    if recorder is not None:
        recorder.expect(optimizer)
    watch = CpuWatch()
    for _ in range(steps):
        ids = torch.randint(0, CONFIG.vocab_size, (_BATCH, _LENGTH))
        model(input_ids=ids, labels=ids).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        watch.note()
    if recorder is not None and handle is not None:
        recorder.finish()
        handle.remove()
        _require(recorder.session.failure)
    return watch.seconds()


def _install(recorder: LoopRecorder, folder: str) -> Any:
    """Have the recorder note steps into a folder; return what takes its hook away again."""
    os.environ[RECORD_FOLDER] = folder
    handles = []

    class Module:
        @staticmethod
        def register_optimizer_step_post_hook(hook: Any) -> None:
            handles.append(optimizer_module.register_optimizer_step_post_hook(hook))

    recorder.install(Module)
    return handles[0]


class _Watching(TrainerCallback):  # type: ignore[misc] # transformers is not typed here
    def __init__(self, watch: CpuWatch) -> None:
        self._watch = watch

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the end of a step."""
        self._watch.note()


def train_trainer(steps: int, folder: str, *, with_recorder: bool) -> float:
    """Train with a Trainer; return the CPU seconds of a step."""
    watch = CpuWatch()
    callbacks: list[Any] = [_Watching(watch)]
    os.environ[RECORD_FOLDER] = folder
    if with_recorder:
        callbacks.insert(0, trainer_callback())
    trainer = Trainer(
        model=AutoModelForCausalLM.from_config(CONFIG),
        args=TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=_BATCH,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=True,
        ),
        train_dataset=RandomTokens(steps * _BATCH, _LENGTH, CONFIG.vocab_size, 0),
        data_collator=collate,
        callbacks=callbacks,
    )
    trainer.train()
    if with_recorder:
        _require(callbacks[0].session.failure)
    return watch.seconds()


def _require(failure: Exception | None) -> None:
    if failure is not None:
        raise SystemExit(f"the recorder stepped aside: {failure!r}; expected it to record")


def start_process(folder: str, *, with_recorder: bool) -> float:
    """Start an interpreter that does nothing; return its CPU seconds."""
    environment = {key: value for key, value in os.environ.items() if key != RECORD_FOLDER}
    if with_recorder:
        environment |= {RECORD_FOLDER: folder, "PYTHONPATH": str(_SITE)}
    before = _children_seconds()
    subprocess.run([sys.executable, "-c", "pass"], check=True, env=environment)
    return _children_seconds() - before


def _children_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def compare(n_pairs: int, measure: Callable[..., float], *arguments: Any) -> tuple[Any, float]:
    """Return the extra milliseconds of each pair, and the median milliseconds without."""
    extra, without = [], []
    for pair in range(n_pairs + 1):
        found = {}
        for with_recorder in (False, True) if pair % 2 else (True, False):
            found[with_recorder] = 1000 * measure(*arguments, with_recorder=with_recorder)
        if pair:  # the first warms up
            extra.append(found[True] - found[False])
            without.append(found[False])
    return extra, statistics.median(without)


def print_cost(title: str, extra: list[float], without: float) -> None:
    """Print the median cost and its interval."""
    low, high = interval(extra)
    print(
        f"{title:<28} {statistics.median(extra):8.3f} ms CPU (95 % interval {low:.3f} to "
        f"{high:.3f}), beside {without:.2f} ms without; {len(extra)} pairs, {format_load()}",
        flush=True,
    )


def interval(values: list[float], resamples: int = 9_999) -> tuple[float, float]:
    """Return the 95 % percentile-bootstrap interval of the median."""
    generator = random.Random(0)  # noqa: S311 - no secret
    medians = sorted(
        statistics.median(generator.choices(values, k=len(values))) for _ in range(resamples)
    )
    return medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


def main() -> None:
    """Run the pairs and print the costs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--steps", type=int, default=200)
    options = parser.parse_args()
    logging.set_verbosity_error()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        print_cost("start of a process", *compare(options.pairs, start_process, folder))
        for title, train in (("step of a loop", train_loop), ("step of a Trainer", train_trainer)):
            print_cost(title, *compare(options.pairs, train, options.steps, folder))


if __name__ == "__main__":
    main()
