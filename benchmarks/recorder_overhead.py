"""Step time with the recorder against without it, on the same job, in pairs.

    python benchmarks/recorder_overhead.py [--pairs 10] [--steps 40]

Each pair trains the same small model twice in this process, in changing order, and times the steps
with a stopwatch of its own: from the end of one step to the end of the next. The overhead of a pair
is the ratio of the medians; printed is the median over the pairs with a bootstrap interval. Beside
it stands the time that the recorder's own calls take, which noise of the job does not reach.
"""

from __future__ import annotations

import argparse
import random
import statistics
import tempfile
import time
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    LlamaConfig,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    logging,
)

from registry.measure import trainer_callback
from registry.measure.running.training_data import RandomTokens, collate

CONFIG = LlamaConfig(
    vocab_size=4096,
    hidden_size=512,
    intermediate_size=1408,
    num_hidden_layers=4,
    num_attention_heads=8,
    num_key_value_heads=8,
)


class Stopwatch(TrainerCallback):
    """Times steps; independent of the recorder."""

    def __init__(self) -> None:
        self.borders: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        """Note the end of a step."""
        self.borders.append(time.perf_counter())

    def seconds(self) -> list[float]:
        """Return the seconds of the steps after the first two."""
        pairs = zip(self.borders, self.borders[1:], strict=False)
        return [after - before for before, after in pairs][2:]


def train(steps: int, folder: str, *, with_recorder: bool) -> tuple[list[float], float]:
    """Return the seconds of the steps, and those of the recorder's calls in the median step."""
    torch.manual_seed(0)
    watch = Stopwatch()
    callbacks: list[Any] = [watch]
    spent: list[float] = []
    if with_recorder:
        recorder = trainer_callback(out=f"{folder}/record.json")
        callbacks.insert(0, recorder)
        time_calls(recorder.session, spent)
    trainer = Trainer(
        model=AutoModelForCausalLM.from_config(CONFIG),
        args=TrainingArguments(
            output_dir=folder,
            max_steps=steps,
            per_device_train_batch_size=2,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            logging_strategy="no",
            use_cpu=not torch.cuda.is_available(),
        ),
        train_dataset=RandomTokens(steps * 2, 256, CONFIG.vocab_size, 0),
        data_collator=collate,
        callbacks=callbacks,
    )
    trainer.train()
    return watch.seconds(), sum(spent) / steps


def time_calls(session: Any, spent: list[float]) -> None:
    """Time what the recorder does in every step."""
    for name in ("begin_step", "count", "end_step"):
        original = getattr(session, name)

        def timed(*arguments: Any, _original: Any = original) -> Any:
            began = time.perf_counter()
            result = _original(*arguments)
            spent.append(time.perf_counter() - began)
            return result

        setattr(session, name, timed)


def main() -> None:
    """Run the pairs and print the overhead."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=40)
    options = parser.parse_args()
    logging.set_verbosity_error()
    ratios, own, steps = [], [], []
    with tempfile.TemporaryDirectory() as folder:
        train(5, folder, with_recorder=False)  # warms the libraries up
        for pair in range(options.pairs):
            medians = {}
            for with_recorder in (False, True) if pair % 2 else (True, False):
                seconds, spent = train(options.steps, folder, with_recorder=with_recorder)
                medians[with_recorder] = statistics.median(seconds)
                if with_recorder:
                    own.append(spent)
            ratios.append(medians[True] / medians[False])
            steps.append(medians[False])
    low, high = interval(ratios)
    step = statistics.median(steps)
    overhead = 100 * (statistics.median(ratios) - 1)
    print(f"step without the recorder   {1000 * step:9.3f} ms")
    print(f"recorder's calls, per step  {1000 * statistics.median(own):9.3f} ms", end="")
    print(f"  = {100 * statistics.median(own) / step:.2f} % of the step")
    print(f"step with / without         {overhead:+9.2f} %", end="")
    print(f"   (95 % interval {100 * (low - 1):+.2f} % to {100 * (high - 1):+.2f} %,", end="")
    print(f" {options.pairs} pairs of {options.steps} steps)")


def interval(values: list[float], resamples: int = 9_999) -> tuple[float, float]:
    """Return the 95 % percentile-bootstrap interval of the median."""
    generator = random.Random(0)  # noqa: S311 - no secret
    medians = sorted(
        statistics.median(generator.choices(values, k=len(values))) for _ in range(resamples)
    )
    return medians[int(0.025 * resamples)], medians[int(0.975 * resamples)]


if __name__ == "__main__":
    main()
