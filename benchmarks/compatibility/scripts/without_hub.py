"""Run PEFT's accelerate example of causal language modelling with no hub and no card at hand.

    without_hub.py SCRIPT MODEL

The script names a model and a data set of the hub, and reads the memory of an accelerator. What it
gets here instead: a local model, rows made of words, and counters that say nothing. Its training
loop is its own.
"""

import runpy
import sys
from types import SimpleNamespace

import datasets
import torch
import transformers

#: Rows of the data; the script trains 20 epochs of them with 8 rows a batch.
N_ROWS = 16


def load_dataset(*_: object, **__: object) -> datasets.DatasetDict:
    """Return complaints with labels."""
    labels = datasets.ClassLabel(names=["Unlabeled", "complaint", "no complaint"])
    rows = {
        "Tweet text": [f"the train was late again {number}" for number in range(N_ROWS)],
        "ID": list(range(N_ROWS)),
        "Label": [1 + number % 2 for number in range(N_ROWS)],
    }
    kinds = {"Tweet text": datasets.Value("string"), "ID": datasets.Value("int64"), "Label": labels}
    data = datasets.Dataset.from_dict(rows, features=datasets.Features(kinds))
    return datasets.DatasetDict({"train": data, "test": data})


def main() -> None:
    """Put the stand-ins in place and run the script."""
    script, model = sys.argv[1:]
    datasets.load_dataset = load_dataset
    for loader in (transformers.AutoModelForCausalLM, transformers.AutoTokenizer):
        original = loader.from_pretrained
        loader.from_pretrained = lambda *_, _original=original, **__: _original(model)
    counters = {"empty_cache": None, "reset_peak_memory_stats": None}
    counters |= {"memory_allocated": 0, "max_memory_allocated": 0}
    for name, value in counters.items():
        setattr(torch.cpu, name, lambda *_, _value=value: _value)
    accelerator = torch.accelerator.current_accelerator

    def current_accelerator(*arguments: object, **named: object) -> object:
        """Return an accelerator to the script alone."""
        asking = sys._getframe(1).f_globals  # noqa: SLF001 - who asks decides
        is_script = asking.get("__file__") == script
        return SimpleNamespace(type="cpu") if is_script else accelerator(*arguments, **named)

    torch.accelerator.current_accelerator = current_accelerator
    sys.argv = [script]
    runpy.run_path(script, run_name="__main__")


if __name__ == "__main__":
    main()
