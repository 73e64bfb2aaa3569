"""Train a model for real on the CPU and print its peak of resident memory over what it began with.

Run as a script, with a JSON object of settings and model source as its argument, in an environment
in which the allocator gives large blocks back at once (see test_tracker_against_cpu.py).
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

from registry.measure.running.model_builder import build_model
from registry.measure.trial_settings import Settings


def read_status(name: str) -> int:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return int(next(line for line in lines if line.startswith(name)).split()[1]) * 1024


def main(spec: dict[str, Any]) -> None:
    torch = import_module("torch")
    torch.set_num_threads(2)
    settings = Settings(**spec["settings"])
    model = build_model(settings, spec["model"], "cpu").train()
    if settings.gradient_checkpointing:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    trainable = [item for item in model.parameters() if item.requires_grad]
    optimizer = torch.optim.AdamW(trainable, lr=1e-5, foreach=True)
    warm_up(torch, model, mixed=settings.dtype == "bf16")
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = read_status("VmRSS:")
    for _ in range(2):
        step(torch, settings, model, optimizer)
    static = sum(item.numel() * item.element_size() for item in model.parameters())
    print(json.dumps({"peak": read_status("VmHWM:") - before + static}))  # noqa: T201 - the answer


def warm_up(torch: Any, model: Any, *, mixed: bool) -> None:
    """Have the libraries load and make what they keep for themselves, on a few tokens."""
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
        tokens = torch.ones((2, 16), dtype=torch.int64)
        model(input_ids=tokens, labels=tokens).loss.backward()
    model.zero_grad()
    weight = torch.nn.Parameter(torch.ones(8))
    weight.sum().backward()
    torch.nn.utils.clip_grad_norm_([weight], 1.0, foreach=True)
    torch.optim.AdamW([weight], foreach=True).step()


def step(torch: Any, settings: Any, model: Any, optimizer: Any) -> None:
    mixed = settings.dtype == "bf16"
    shape = (settings.micro_batch_size, settings.seq_len)
    tokens = torch.randint(0, model.config.vocab_size, shape)
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=mixed):
        outputs = model(input_ids=tokens, labels=tokens)
    loss = outputs.loss
    del outputs  # as at the end of the Trainer's compute_loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=True)
    optimizer.step()
    optimizer.zero_grad()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
