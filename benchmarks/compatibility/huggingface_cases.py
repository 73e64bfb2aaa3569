"""Cases that train with Hugging Face Trainer, or with the trainers of TRL."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.compatibility.case import Case

if TYPE_CHECKING:
    from benchmarks.compatibility.case import Place

#: Trainer's own figures, in the summary it prints at the end.
TRAINER_PRINTS = {
    "samples_per_second": r"train_samples_per_second'?\"?\s*[:=]\s*'?([\d.e+-]+)",
}

#: Arguments of every trainer here.
_COMMON = (
    *("--max_steps", "20", "--logging_steps", "5", "--save_strategy", "no", "--report_to", "none"),
    *("--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2"),
    *("--disable_tqdm", "true", "--use_cpu", "true", "--seed", "1"),
)

#: Two rows at a time, twice a step.
BATCH = {"micro_batch_size": 2, "grad_accum_steps": 2, "global_batch_size": 4}


def peft_sft(place: Place) -> list[str]:
    """PEFT's example of supervised fine-tuning."""
    script = place.script("peft/examples/sft/train.py")
    return [
        *(str(place.python), str(script), "--model_name_or_path", str(place.model)),
        *("--dataset_name", str(place.work / "text"), "--dataset_text_field", "text"),
        *("--splits", "train,test", "--max_length", "128", "--packing", "False"),
        *("--use_peft_lora", "True", "--lora_r", "8", "--lora_target_modules", "all-linear"),
        *("--bf16", "False", "--gradient_checkpointing", "False", "--eval_strategy", "no"),
        *("--output_dir", str(place.out), *_COMMON),
    ]


def olora(place: Place) -> list[str]:
    """PEFT's example of OLoRA, which trains one epoch."""
    return [
        *(
            str(place.python),
            str(place.script("peft/examples/olora_finetuning/olora_finetuning.py")),
        ),
        *("--base_model", str(place.model), "--data_path", str(place.work / "alpaca")),
        *(
            "--output_dir",
            str(place.out),
            "--batch_size",
            "16",
            "--lora_r",
            "4",
            "--dtype",
            "float32",
        ),
        *("--device_map", "cpu", "--cutoff_len", "64", "--val_set_size", "80", "--seed", "1"),
    ]


def run_clm(place: Place) -> list[str]:
    """The example of causal language modelling of transformers."""
    script = place.script("transformers/examples/pytorch/language-modeling/run_clm.py")
    return [
        *(str(place.python), str(script), "--model_name_or_path", str(place.model)),
        *("--train_file", str(place.work / "text.txt"), "--block_size", "128", "--do_train"),
        *("--output_dir", str(place.out), "--cache_dir", str(place.work / "cache"), *_COMMON),
    ]


def _trl(place: Place, kind: str, data: str, *more: str) -> list[str]:
    return [
        *(str(place.program("trl")), kind, "--model_name_or_path", str(place.model)),
        *("--dataset_name", str(place.work / data), "--bf16", "false"),
        *("--gradient_checkpointing", "false", "--output_dir", str(place.out), *_COMMON, *more),
    ]


def trl_sft(place: Place) -> list[str]:
    """``trl sft`` with LoRA."""
    lora = ("--use_peft", "--lora_r", "16", "--lora_target_modules", "q_proj", "v_proj")
    return _trl(place, "sft", "text", "--max_length", "96", *lora)


def trl_sft_packing(place: Place) -> list[str]:
    """``trl sft`` with several sequences in a row."""
    return _trl(place, "sft", "text", "--max_length", "256", "--packing", "true")


def trl_dpo(place: Place) -> list[str]:
    """``trl dpo`` with LoRA."""
    return _trl(place, "dpo", "pairs", "--max_length", "96", "--use_peft", "--lora_r", "8")


def accelerate_sft(place: Place) -> list[str]:
    """``trl sft`` below ``accelerate launch``, in two processes."""
    launch = (
        "--multi_gpu",
        "--num_processes",
        "2",
        "--num_machines",
        "1",
        "--mixed_precision",
        "no",
    )
    command = _trl(place, "sft", "text", "--max_length", "96")
    return [
        str(place.python),
        "-m",
        "accelerate.commands.launch",
        *launch,
        "-m",
        "trl.scripts.sft",
        *command[2:],
    ]


def torchrun_clm(place: Place) -> list[str]:
    """``run_clm.py`` below ``torchrun``, in two processes."""
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    return [str(place.python), *launch, *run_clm(place)[1:]]


CASES = (
    Case(
        name="peft-sft",
        title="PEFT `examples/sft/train.py`",
        environment="trl",
        packages=("peft", "trl", "transformers", "torch"),
        repository="huggingface/peft",
        command=peft_sft,
        told={"method": "lora", "lora_rank": 8, **BATCH, "seq_len": 128},
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="peft-olora",
        title="PEFT `examples/olora_finetuning/olora_finetuning.py`",
        environment="train",
        packages=("peft", "transformers", "torch"),
        repository="huggingface/peft",
        command=olora,
        told={
            "method": "lora",
            "lora_rank": 4,
            "micro_batch_size": 16,
            "grad_accum_steps": 1,
            "global_batch_size": 16,
            "seq_len": 64,
        },
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="run-clm",
        title="transformers `run_clm.py`",
        environment="trl",
        packages=("transformers", "torch"),
        repository="huggingface/transformers",
        command=run_clm,
        told={"method": "full", **BATCH, "seq_len": 128},
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="trl-sft",
        title="`trl sft`, no packing",
        environment="trl",
        packages=("trl", "transformers", "torch"),
        command=trl_sft,
        told={"method": "lora", "lora_rank": 16, **BATCH, "seq_len": 96},
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="trl-sft-packing",
        title="`trl sft`, packing",
        environment="trl",
        packages=("trl", "transformers", "torch"),
        command=trl_sft_packing,
        told={"method": "full", **BATCH, "seq_len": 256, "packing": True},
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="trl-dpo",
        title="`trl dpo`",
        environment="trl",
        packages=("trl", "transformers", "torch"),
        command=trl_dpo,
        told={"method": "lora", "lora_rank": 8, **BATCH, "seq_len": 96},
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="accelerate-launch",
        title="`accelerate launch`, 2 processes: `trl.scripts.sft`",
        environment="trl",
        packages=("accelerate", "trl", "transformers", "torch"),
        command=accelerate_sft,
        told={
            "method": "full",
            **BATCH,
            "global_batch_size": 8,
            "seq_len": 96,
            "n_gpus": 2,
            "sharding": "ddp",
        },
        printed=TRAINER_PRINTS,
    ),
    Case(
        name="torchrun",
        title="`torchrun`, 2 processes: `run_clm.py`",
        environment="trl",
        packages=("torch", "transformers"),
        repository="huggingface/transformers",
        command=torchrun_clm,
        told={
            "method": "full",
            **BATCH,
            "global_batch_size": 8,
            "seq_len": 128,
            "n_gpus": 2,
            "sharding": "ddp",
        },
        printed=TRAINER_PRINTS,
    ),
)
