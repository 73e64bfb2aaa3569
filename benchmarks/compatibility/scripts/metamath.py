"""Run PEFT's MetaMathQA benchmark with no hub and no card at hand: ``metamath.py CLONE MODEL``.

The benchmark refuses to start without CUDA, fetches its data, and expects a loss that no random
model has. Those checks and look-ups are replaced here; configuration, model, optimizer and the
training loop are its own. Run it in a folder of its own, where its experiment is written.
"""

import importlib
import json
import sys
from pathlib import Path

import datasets
import torch
from peft import utils as peft_utils

STEPS, BATCH = 20, 4


def main() -> None:
    """Put the stand-ins in place and run the experiment."""
    clone, model = sys.argv[1:]
    sys.path.insert(0, clone)
    infer_device = peft_utils.infer_device
    peft_utils.infer_device = lambda: "cuda"
    utils = importlib.import_module("utils")
    peft_utils.infer_device = infer_device
    utils.device = "cpu"
    for name in ("reset_peak_memory_stats", "manual_seed_all", "empty_cache"):
        setattr(torch.cpu, name, lambda *_: None)
    for name in ("max_memory_reserved", "memory_allocated", "memory_reserved"):
        setattr(torch.cpu, name, lambda *_: 0)
    benchmark = importlib.import_module("run")
    importlib.import_module("data").load_dataset = load_dataset
    benchmark.get_wiki_small = list
    benchmark.calculate_mean_per_token_loss = lambda **_: 1.5
    benchmark.get_base_model_info = benchmark.get_dataset_info = lambda *_: None
    benchmark.log_results = lambda **_: None
    benchmark.print_verbose = print
    experiment = write_experiment(model)
    benchmark.main(path_experiment=experiment, experiment_name="tiny", clean=True, bucket_name=None)


def load_dataset(name: str, *_: object) -> datasets.DatasetDict:
    """Return questions and answers in the columns of a data set."""
    queries = [f"What is {number} plus {number}?" * (1 + number % 3) for number in range(200)]
    answers = [f"It is {2 * number}. The answer is: {2 * number}" for number in range(200)]
    if name == "openai/gsm8k":
        rows = {"question": queries, "answer": answers}
    else:
        rows = {"query": queries, "response": answers}
        rows |= {"type": ["sum"] * 200, "original_question": queries}
    data = datasets.Dataset.from_dict(rows)
    return datasets.DatasetDict({"train": data, "test": data.select(range(8))})


def write_experiment(model: str) -> str:
    """Write an experiment as the benchmark has them, and return its path."""
    folder = Path("experiments/lora/tiny")
    folder.mkdir(parents=True)
    adapter = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 32, "lora_alpha": 64}
    (folder / "adapter_config.json").write_text(
        json.dumps({**adapter, "target_modules": ["q_proj", "v_proj"]})
    )
    training = {
        "model_id": model,
        "dtype": "float32",
        "max_seq_length": 128,
        "batch_size": BATCH,
        "max_steps": STEPS,
        "eval_steps": STEPS // 2,
        "generation_kwargs": {"max_new_tokens": 4},
    }
    (folder / "training_params.json").write_text(json.dumps(training))
    return str(folder)


if __name__ == "__main__":
    main()
