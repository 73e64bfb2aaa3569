"""Cases of frameworks that start from a command and a file of settings."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from benchmarks.compatibility.case import Case
from benchmarks.compatibility.huggingface_cases import BATCH, TRAINER_PRINTS

if TYPE_CHECKING:
    from benchmarks.compatibility.case import Place


def llamafactory(place: Place) -> list[str]:
    """``llamafactory-cli train``."""
    data = {"tiny": {"file_name": str(place.work / "alpaca.json")}}
    (place.work / "dataset_info.json").write_text(json.dumps(data))
    settings = {
        "model_name_or_path": str(place.model),
        "stage": "sft",
        "do_train": True,
        "finetuning_type": "lora",
        "lora_rank": 8,
        "lora_target": "all",
        "dataset": "tiny",
        "dataset_dir": str(place.work),
        "template": "default",
        "cutoff_len": 128,
        "output_dir": str(place.out),
        "per_device_train_batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_steps": 20,
        "save_strategy": "no",
        "logging_steps": 5,
        "report_to": "none",
        "use_cpu": True,
        "disable_tqdm": True,
    }
    path = place.work / "train.yaml"  # JSON is YAML
    path.write_text(json.dumps(settings))
    return [str(place.program("llamafactory-cli")), "train", str(path)]


def swift(place: Place) -> list[str]:
    """``swift sft``."""
    return [
        *(str(place.program("swift")), "sft", "--model", str(place.model)),
        *("--model_type", "llama", "--template", "dummy", "--torch_dtype", "float32"),
        *("--tuner_type", "lora", "--lora_rank", "8", "--target_modules", "all-linear"),
        *("--dataset", str(place.work / "alpaca" / "train.jsonl"), "--max_length", "128"),
        *("--max_steps", "20", "--per_device_train_batch_size", "2", "--eval_strategy", "no"),
        *("--gradient_accumulation_steps", "2", "--logging_steps", "5", "--save_strategy", "no"),
        *("--report_to", "none", "--use_cpu", "true", "--output_dir", str(place.out)),
        *("--split_dataset_ratio", "0", "--dataloader_num_workers", "0"),
    ]


CASES = (
    Case(
        name="llama-factory",
        title="LLaMA-Factory `llamafactory-cli train`",
        environment="lf",
        packages=("llamafactory", "peft", "transformers", "torch", "pandas"),
        command=llamafactory,
        told={"method": "lora", "lora_rank": 8, **BATCH, "seq_len": 128},
        printed=TRAINER_PRINTS,
        remark="Its length limit (`cutoff_len`) is known only to its data, not to its trainer: "
        "`seq_len` is the longest row.",
    ),
    Case(
        name="ms-swift",
        title="ms-swift `swift sft`",
        environment="swift",
        packages=("ms-swift", "peft", "transformers", "torch"),
        command=swift,
        told={"method": "lora", "lora_rank": 8, **BATCH, "seq_len": 128},
        printed=TRAINER_PRINTS,
    ),
)
