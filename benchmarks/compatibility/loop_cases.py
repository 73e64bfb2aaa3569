"""Cases that train without Hugging Face Trainer."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING

from benchmarks.compatibility.case import HERE, Case, prepare
from benchmarks.compatibility.huggingface_cases import BATCH, TRAINER_PRINTS

if TYPE_CHECKING:
    from benchmarks.compatibility.case import Place

_SCRIPTS = HERE / "scripts"


def raw_loop(place: Place) -> list[str]:
    """PEFT and torch alone."""
    return [str(place.python), str(_SCRIPTS / "raw_loop.py"), str(place.model)]


def in_code(place: Place, how: str) -> list[str]:
    """Trainer, with the recorder named in the script."""
    return [str(place.python), str(_SCRIPTS / "in_code.py"), how, str(place.model), str(place.out)]


def lightning_loop(place: Place) -> list[str]:
    """Lightning's Trainer."""
    return [str(place.python), str(_SCRIPTS / "lightning_loop.py"), str(place.model)]


def nanogpt(place: Place) -> list[str]:
    """``train.py`` of nanoGPT, which reads its data beside itself."""
    clone = place.work / "nanoGPT"
    shutil.copytree(place.sources / "nanoGPT", clone, ignore=shutil.ignore_patterns(".git"))
    prepare(place, "tiny_tokens.py", str(clone / "data" / "tiny"))
    settings = {
        "dataset": "tiny",
        "device": "cpu",
        "compile": False,
        "dtype": "float32",
        "eval_interval": 1000,
        "eval_iters": 2,
        "gradient_accumulation_steps": 2,
        "batch_size": 2,
        "block_size": 128,
        "n_layer": 4,
        "n_head": 4,
        "n_embd": 128,
        "max_iters": 19,
    }
    options = [f"--{name}={value}" for name, value in settings.items()]
    inside = "import os, sys; os.chdir(sys.argv[1]); os.execv(sys.argv[2], sys.argv[2:])"
    start = [str(place.python), "-c", inside, str(clone)]
    return [*start, str(place.python), "train.py", *options]


def litgpt_lora(place: Place) -> list[str]:
    """``litgpt finetune_lora``."""
    checkpoint = place.work / "checkpoint"
    prepare(place, "tiny_litgpt.py", str(place.model), str(checkpoint))
    return [
        *(str(place.program("litgpt")), "finetune_lora", str(checkpoint)),
        *("--precision", "32-true", "--devices", "1", "--lora_r", "4"),
        *("--data", "JSON", "--data.json_path", str(place.work / "alpaca.json")),
        *("--data.val_split_fraction", "0.1", "--data.num_workers", "0"),
        *("--train.global_batch_size", "4", "--train.micro_batch_size", "2"),
        *("--train.max_steps", "20", "--train.max_seq_length", "128"),
        *("--train.lr_warmup_steps", "5", "--eval.final_validation", "false"),
        *("--eval.max_new_tokens", "8", "--eval.interval", "1000", "--out_dir", str(place.out)),
    ]


def torchtune_lora(place: Place) -> list[str]:
    """``tune run lora_finetune_single_device``."""
    prepare(
        place, "tiny_sentencepiece.py", str(place.work / "text.txt"), str(place.work / "sentences")
    )
    model = {
        "_component_": "torchtune.models.llama2.lora_llama2",
        "lora_attn_modules": "[q_proj,v_proj]",
        "lora_rank": 8,
        "lora_alpha": 16,
        "vocab_size": 512,
        "num_layers": 4,
        "num_heads": 4,
        "num_kv_heads": 2,
        "embed_dim": 128,
        "max_seq_len": 512,
        "intermediate_dim": 352,
    }
    settings = {
        "output_dir": place.out,
        "tokenizer._component_": "torchtune.models.llama2.llama2_tokenizer",
        "tokenizer.path": place.work / "sentences.model",
        "tokenizer.max_seq_len": 128,
        "checkpointer.checkpoint_dir": place.model,
        "checkpointer.checkpoint_files": "[model.safetensors]",
        "checkpointer.model_type": "LLAMA2",
        "dataset._component_": "torchtune.datasets.alpaca_dataset",
        "dataset.source": place.work / "alpaca",
        "device": "cpu",
        "dtype": "fp32",
        "batch_size": 2,
        "gradient_accumulation_steps": 2,
        "max_steps_per_epoch": 20,
        "log_peak_memory_stats": False,
        "optimizer.fused": False,
        "compile": False,
    }
    changed = [f"{name}={value}" for name, value in settings.items()]
    built = [f"model.{name}={value}" for name, value in model.items()]
    recipe = ("run", "lora_finetune_single_device", "--config", "llama2/7B_lora_single_device")
    return [str(place.program("tune")), *recipe, *built, *changed]


def deepspeed_loop(place: Place) -> list[str]:
    """DeepSpeed's engine below ``torchrun``, in two processes."""
    launch = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    return [str(place.python), *launch, str(_SCRIPTS / "deepspeed_loop.py"), str(place.model)]


def peft_accelerate(place: Place) -> list[str]:
    """PEFT's accelerate example, with stand-ins for what it fetches."""
    script = "peft/examples/causal_language_modeling/peft_lora_clm_accelerate_ds_zero3_offload.py"
    driver = str(_SCRIPTS / "without_hub.py")
    return [str(place.python), driver, str(place.script(script)), str(place.model)]


def run_clm_no_trainer(place: Place) -> list[str]:
    """The accelerate loop of transformers' examples."""
    script = place.script("transformers/examples/pytorch/language-modeling/run_clm_no_trainer.py")
    return [
        *(str(place.python), str(script), "--model_name_or_path", str(place.model)),
        *("--train_file", str(place.work / "text.txt"), "--block_size", "128"),
        *("--validation_file", str(place.work / "few.txt")),
        *("--per_device_train_batch_size", "2", "--gradient_accumulation_steps", "2"),
        *("--max_train_steps", "20", "--output_dir", str(place.out)),
    ]


def metamath(place: Place) -> list[str]:
    """PEFT's MetaMathQA benchmark, with stand-ins for what it fetches."""
    clone = str(place.script("peft/method_comparison/MetaMathQA"))
    return [str(place.python), str(_SCRIPTS / "metamath.py"), clone, str(place.model)]


CASES = (
    Case(
        name="raw-loop",
        title="a loop with only PEFT and torch (`scripts/raw_loop.py`)",
        environment="train",
        packages=("peft", "transformers", "torch"),
        command=raw_loop,
        told={"method": "lora", "lora_rank": 4, **BATCH, "seq_len": 128},
        printed={"samples_per_second": r"samples per second: ([\d.]+)"},
    ),
    Case(
        name="in-code-callback",
        title="Trainer with `registry.trainer_callback(add=True)` (`scripts/in_code.py`)",
        environment="train",
        packages=("transformers", "torch"),
        command=partial(in_code, how="callback"),
        told={"method": "full", **BATCH, "seq_len": 128},
        printed=TRAINER_PRINTS,
        is_in_code=True,
    ),
    Case(
        name="in-code-report",
        title='Trainer with `report_to="registry"` (`scripts/in_code.py`)',
        environment="train",
        packages=("transformers", "torch"),
        command=partial(in_code, how="report"),
        told={"method": "full", **BATCH, "seq_len": 128},
        printed=TRAINER_PRINTS,
        is_in_code=True,
    ),
    Case(
        name="nanogpt",
        title="nanoGPT `train.py`",
        environment="train",
        packages=("torch",),
        repository="karpathy/nanoGPT",
        command=nanogpt,
        told={"method": "full", **BATCH, "seq_len": 128},
    ),
    Case(
        name="litgpt",
        title="`litgpt finetune_lora`",
        environment="litgpt",
        packages=("litgpt", "lightning", "torch"),
        command=litgpt_lora,
        told={"method": "lora", "lora_rank": 4, **BATCH, "seq_len": 128},
    ),
    Case(
        name="torchtune",
        title="torchtune recipe `lora_finetune_single_device`",
        environment="torchtune",
        packages=("torchtune", "torchao", "torch"),
        command=torchtune_lora,
        told={"method": "lora", "lora_rank": 8, **BATCH, "seq_len": 128},
    ),
    Case(
        name="lightning",
        title="Lightning `Trainer` (`scripts/lightning_loop.py`)",
        environment="lightning",
        packages=("lightning", "peft", "transformers", "torch"),
        command=lightning_loop,
        told={"method": "lora", "lora_rank": 8, **BATCH, "seq_len": 128},
    ),
    Case(
        name="deepspeed-zero2",
        title="DeepSpeed ZeRO-2, 2 processes on the CPU (`scripts/deepspeed_loop.py`)",
        environment="deepspeed",
        packages=("deepspeed", "transformers", "torch"),
        command=deepspeed_loop,
        told={
            "method": "full",
            **BATCH,
            "global_batch_size": 8,
            "seq_len": 128,
            "n_gpus": 2,
            "sharding": "zero2",
        },
        variables={"DS_ACCELERATOR": "cpu"},
    ),
    Case(
        name="peft-accelerate",
        title="PEFT `examples/causal_language_modeling/peft_lora_clm_accelerate…`",
        environment="train",
        packages=("peft", "accelerate", "transformers", "torch"),
        repository="huggingface/peft",
        command=peft_accelerate,
        told={
            "method": "lora",
            "lora_rank": 8,
            "micro_batch_size": 8,
            "grad_accum_steps": 1,
            "global_batch_size": 8,
            "seq_len": 64,
        },
        remark="The script names a model and a data set on the hub and reads the memory of an "
        "accelerator; `scripts/without_hub.py` gives it local ones and dummy counters.",
    ),
    Case(
        name="clm-no-trainer",
        title="transformers `run_clm_no_trainer.py`",
        environment="trl",
        packages=("transformers", "accelerate", "torch"),
        repository="huggingface/transformers",
        command=run_clm_no_trainer,
        told={"method": "full", **BATCH, "seq_len": 128},
    ),
    Case(
        name="peft-metamath",
        title="PEFT `method_comparison/MetaMathQA/run.py`",
        environment="train",
        packages=("peft", "transformers", "torch"),
        repository="huggingface/peft",
        command=metamath,
        told={
            "method": "lora",
            "lora_rank": 32,
            "micro_batch_size": 4,
            "grad_accum_steps": 1,
            "global_batch_size": 4,
        },
        remark="The benchmark refuses to start without CUDA, fetches its data and expects the loss "
        "of a trained model; `scripts/metamath.py` replaces those checks and look-ups. Rows "
        "are padded to the longest of a batch, and none reaches its limit.",
    ),
)
