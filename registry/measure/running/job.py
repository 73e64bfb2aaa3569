"""The job of one trial, in a process of its own, started by ``trial_run``: SPEC RESULT."""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
from dataclasses import fields
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure import trainer_callback
from registry.measure.child_process import die_with_parent
from registry.measure.failure import classify_failure
from registry.measure.memory_meter import read_host_memory
from registry.measure.record_files import read_json, write_json
from registry.measure.recording.configuration import read_rank
from registry.measure.recording.progress import SUFFIX
from registry.measure.recording.ranks import rank_path
from registry.measure.running.model_builder import build_model
from registry.measure.running.unfinished import describe_unfinished
from registry.measure.trial_settings import settings_of

if TYPE_CHECKING:
    from registry.measure.trial_settings import Settings


def main(arguments: list[str]) -> int:
    """Run the trial of a spec file and leave its result; return the exit status."""
    spec_path, result_path = arguments
    if "RANK" not in os.environ:
        die_with_parent()
    spec = read_json(spec_path)
    settings = settings_of(spec["settings"])
    try:
        run_job(settings, spec, Path(result_path))
    except BaseException as error:
        own = rank_path(Path(result_path), read_rank()[0])
        is_recorded = own.with_suffix(SUFFIX).exists() or read_json(own) is not None
        if not is_recorded:  # it ended before the recorder began
            failure = classify_failure(error, training=False)
            write_json(own, describe_unfinished(spec, failure))
        raise
    if read_rank()[1] > 1:
        _end_at_once()
    return 0


def run_job(settings: Settings, spec: dict[str, Any], result: Path) -> None:
    """Build the model and train it, with the recorder at work."""
    transformers = import_module("transformers")
    device = pick_device(settings)
    transformers.set_seed(settings.seed)
    import_module("peft")
    limit_memory(settings.memory_limit_bytes, device)
    model = build_model(settings, spec["model"], device)
    with tempfile.TemporaryDirectory(
        prefix="registry-trial-", ignore_cleanup_errors=True
    ) as folder:
        trainer = transformers.Trainer(
            model=model,
            args=transformers.TrainingArguments(**training_arguments(settings, device, folder)),
            train_dataset=_build_dataset(settings, spec["model"], model.config.vocab_size),
            data_collator=collate,
            callbacks=[_recorder(settings, spec, result)],
        )
        if device == "cpu" and settings.n_devices > 1 and settings.sharding.startswith("fsdp"):
            _shard_on_cpu(trainer)
        trainer.train()


def _end_at_once() -> None:
    """End this process of several: all is recorded, and nothing may make a failure of it.

    The group's threads can crash a process at its exit, or while the group is destroyed. The
    neighbours need nothing more of it: the store is torchrun's.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def _shard_on_cpu(trainer: Any) -> None:
    """Have FSDP at work between processes on CPU, where accelerate would fall back to DDP."""
    accelerate = import_module("accelerate")
    plugin = accelerate.FullyShardedDataParallelPlugin(**trainer.args.fsdp_plugin_args)
    trainer.accelerator.state.fsdp_plugin = plugin
    # The state of the process is copied over that of the accelerator every now and then.
    for state in (trainer.accelerator.state, accelerate.PartialState()):
        state.distributed_type = accelerate.DistributedType.FSDP
    trainer.is_fsdp_enabled = True


def _recorder(settings: Settings, spec: dict[str, Any], result: Path) -> Any:
    return trainer_callback(
        out=result,
        warmup_steps=settings.warmup_steps,
        memory_from="train",
        weights=settings.weights,
        memory_limit_bytes=settings.memory_limit_bytes,
        model_reported=Path(settings.model).name,
        provenance={"spec": spec},
        quote_errors=True,
    )


def pick_device(settings: Settings) -> str:
    """Return the device of this process."""
    cuda = import_module("torch").cuda
    if settings.device == "cpu" or not cuda.is_available():
        if settings.device == "cuda":
            raise RuntimeError("device cuda: torch finds none; expected a GPU; use device = 'auto'")
        return "cpu"
    return f"cuda:{os.environ.get('LOCAL_RANK', '0')}"


def limit_memory(limit_bytes: int | None, device: str) -> None:
    """Bound what the job may use from here on: device memory, or the resident host memory.

    The host's bound is RLIMIT_DATA, which counts private memory by address and not by residence,
    so what the process has mapped but not touched until now is added to the limit.
    """
    if limit_bytes is None:
        return
    if device != "cpu":
        cuda = import_module("torch").cuda
        total = cuda.get_device_properties(device).total_memory
        cuda.set_per_process_memory_fraction(min(limit_bytes / total, 1.0), device)
        return
    _start_threads()
    memory = read_host_memory()
    data = memory["VmData"] + max(limit_bytes - memory["VmRSS"], 0)
    resource.setrlimit(resource.RLIMIT_DATA, (data, resource.getrlimit(resource.RLIMIT_DATA)[1]))


def _start_threads() -> None:
    """Have torch start its threads, whose stacks count in RLIMIT_DATA by their full size."""
    torch = import_module("torch")
    for dtype in (torch.float32, torch.bfloat16):
        square = torch.ones(512, 512, dtype=dtype, requires_grad=True)
        (square @ square).sum().backward()


def training_arguments(settings: Settings, device: str, folder: str) -> dict[str, Any]:
    """Return the keyword arguments of TrainingArguments in the installed transformers."""
    known = {item.name for item in fields(import_module("transformers").TrainingArguments)}
    name = "activation_checkpointing"  # the name since transformers 5.x
    checkpointing = name if name in known else "gradient_checkpointing"
    return {
        "output_dir": folder,
        "max_steps": settings.steps,
        "per_device_train_batch_size": settings.micro_batch_size,
        "gradient_accumulation_steps": settings.grad_accum_steps,
        checkpointing: settings.gradient_checkpointing,
        f"{checkpointing}_kwargs": {"use_reentrant": False},
        "bf16": settings.dtype == "bf16",
        "fp16": settings.dtype == "fp16",
        "optim": settings.optimizer,
        "learning_rate": 1e-5,
        "logging_steps": max(settings.steps, 1),
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "seed": settings.seed,
        "use_cpu": device == "cpu",
        "dataloader_pin_memory": device != "cpu",
        **sharding_arguments(settings),
    }


def sharding_arguments(settings: Settings) -> dict[str, Any]:
    """Return the arguments that spread the job over several devices."""
    if settings.n_devices == 1:
        return {}
    if settings.sharding.startswith("fsdp"):
        reshard = settings.sharding == "fsdp"
        return {"fsdp": True, "fsdp_config": {"version": 2, "reshard_after_forward": reshard}}
    if settings.sharding.startswith("zero"):
        stage = int(settings.sharding.removeprefix("zero"))
        return {
            "deepspeed": {
                "zero_optimization": {"stage": stage},
                "bf16": {"enabled": settings.dtype == "bf16"},
                "fp16": {"enabled": settings.dtype == "fp16"},
                "train_micro_batch_size_per_gpu": "auto",
                "gradient_accumulation_steps": "auto",
            }
        }
    return {"ddp_find_unused_parameters": False}


# What a trial trains on: full-length random tokens, or the user's own file.


class RandomTokens:
    """Sequences of random tokens, all of the full length: nothing is padded, so speed is fair."""

    def __init__(self, n_samples: int, seq_len: int, vocab_size: int, seed: int) -> None:
        self._torch = import_module("torch")
        self._shape = (n_samples, seq_len, vocab_size)
        self._seed = seed

    def __len__(self) -> int:
        """Return the number of sequences."""
        return self._shape[0]

    def __getitem__(self, index: int) -> dict[str, Any]:
        """Return one sequence; the same index has the same tokens in every process."""
        if not 0 <= index < len(self):
            raise IndexError(index)
        _, seq_len, vocab_size = self._shape
        generator = self._torch.Generator().manual_seed(self._seed * 1_000_003 + index)
        tokens = self._torch.randint(0, vocab_size, (seq_len,), generator=generator)
        mask = self._torch.ones_like(tokens)
        return {"input_ids": tokens, "labels": tokens, "attention_mask": mask}


def _build_dataset(settings: Settings, source: dict[str, Any], vocab_size: int) -> Any:
    """Return the data set of a trial."""
    n_samples = (
        settings.steps * settings.micro_batch_size * settings.grad_accum_steps * settings.n_devices
    )
    if settings.dataset is None:
        return RandomTokens(n_samples, settings.seq_len, vocab_size, settings.seed)
    rows = _read_rows(Path(settings.dataset))
    return [_tokens_of(row, settings, source) for row in rows]


def _read_rows(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a JSONL file, or of a folder that ``datasets`` wrote."""
    if path.is_dir():
        return list(import_module("datasets").load_from_disk(str(path)))
    lines = path.read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines if line.strip()]


def _tokens_of(row: dict[str, Any], settings: Settings, source: dict[str, Any]) -> dict[str, Any]:
    ids = row.get("input_ids")
    if ids is None:
        if source["kind"] != "hub" or "text" not in row:
            raise ValueError(
                f"{settings.dataset}: found the columns {', '.join(row)}; expected input_ids, or "
                "text together with a model of the hub, whose tokenizer is used"
            )
        ids = _tokenizer(source["hf_id"])(row["text"])["input_ids"]
    return {"input_ids": list(ids)[: settings.seq_len]}


_TOKENIZERS: dict[str, Any] = {}


def _tokenizer(name: str) -> Any:
    if name not in _TOKENIZERS:
        auto = import_module("transformers").AutoTokenizer
        _TOKENIZERS[name] = auto.from_pretrained(name, trust_remote_code=False)
    return _TOKENIZERS[name]


def collate(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return a batch, padded to its longest row; padding is masked and has no part in the loss."""
    torch = import_module("torch")
    lists = [torch.as_tensor(row["input_ids"]) for row in rows]
    pad = torch.nn.utils.rnn.pad_sequence
    masks = [torch.ones_like(ids) for ids in lists]
    ids = pad(lists, batch_first=True)
    mask = pad(masks, batch_first=True)
    return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, -100)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
