"""Write ``docs/compatibility.md`` from the trials."""

from __future__ import annotations

from typing import Any

from benchmarks.compatibility.judge import TOLERANCE, Comparison, compare

Row = dict[str, Any]

_INTRODUCTION = f"""# Compatibility

Third-party training scripts under `registry run -- CMD`, unmodified. This page is made by
`python -m benchmarks.compatibility`, whose `--help` says how to run it. The models, tokenizers and
data are tiny and made on the spot, the models from configurations. All runs were on the CPU.

Next to each recorded figure is an independent one: what the command stated; a stopwatch that
shares no code with the recorder and times each optimizer step; the resident memory of the training
processes that psutil saw from outside, until their last step. Step times are medians after two
warm-up steps; the stopwatch's rate leaves out pauses longer than a step (evaluation). If the
two differ by more than {100 * TOLERANCE:.0f} %, the cell is marked `(!)`; the reason is given
below. What the framework itself prints includes its first steps, and for some also evaluation.

`seq_len` is the width of the rows if all have the same and none is padded, else the limit if the
trainer states one, else the longest row that was seen. Where that is not what the script states,
the cell is `recorded (stated)`.
"""

_ADAPTED = """## Adapted

On 2026-11-27 code of these repositories, or loops with these libraries, ran under the recorder,
with a tiny model, made-up data and local paths put in. What was recorded was compared with the
script's settings and its own count of parameters, not with a stopwatch. *Mended* is what was wrong
before.
"""

#: Code of others that needed changes to run here, and what of its record was wrong.
_OTHERS = (
    ("minGPT `projects/adder`, and `demo.ipynb` by `jupyter nbconvert --execute`", "nothing"),
    (
        "pytorch/examples `word_language_model`",
        (
            "it saves the whole model, and failed under the recorder; without an optimizer of "
            "torch.optim nothing is recorded"
        ),
    ),
    ("pytorch/examples `distributed/ddp-tutorial-series/multigpu.py`, 2 processes", "nothing"),
    (
        "pytorch/examples `distributed/FSDP2/example.py --mixed-precision`, 2 processes",
        "`compute_dtype` was fp32",
    ),
    (
        "Llama under FSDP's first version, 2 processes, with and without `use_orig_params`",
        "parameters were those of one process, `compute_dtype` fp32, `trains_embeddings` false",
    ),
    (
        "LLMs-from-scratch `ch06/02_bonus_additional-experiments`, LoRA",
        "no rank; modules in lists were targets called `0` and `2`",
    ),
    ("minLoRA on Llama", "nothing was recorded"),
    ("GaLore `GaLoreAdamW` in a loop", "the optimizer was `adamw`"),
    (
        "LOMO `Lomo` in a loop",
        "not mended: `fused_backward` is no step of an optimizer, so no step is timed",
    ),
    (
        "schedule-free, Lion, Muon with AdamW, `AdamW8bit`, an optimizer for each parameter",
        "nothing",
    ),
    ('accelerate with `mixed_precision="bf16"` and `accumulate`', "`compute_dtype` was fp32"),
    ("Trainer with a `training_step` of its own", "no length, tokens or samples"),
    (
        "`torch.compile`: of the model, of `forward`, of the loss with the model in it",
        (
            "`forward` was recorded as not compiled; the loss, with `fullgraph=True`, failed under "
            "the recorder, and now runs without a record"
        ),
    ),
    (
        "Whisper and wav2vec2, Trainer and loop",
        (
            "the labels' length was `seq_len`; nothing if weights are parametrized; Whisper, whose "
            "encoder never trains its positions, was `freeze`"
        ),
    ),
    ("ViT, T5, BERT and LLaVA; sentence-transformers (tokens of the first column)", "nothing"),
    (
        "loops written for this: DPO by hand, decoding word by word, SAM, FGM, L-BFGS",
        "accumulation of passes that share a gradient or a batch; now batch and length are open",
    ),
    (
        "loops written for this: a teacher, then its student; mutual learning; GAN",
        "the student left no record; steps of the other model's optimizer were counted",
    ),
    (
        "a loop written for this: 2 processes with torch's `ZeroRedundancyOptimizer`",
        "the optimizer was `other`, the sharding `ddp`",
    ),
    (
        "22 methods of PEFT in one process",
        "ranks of methods other than LoRA were left out; Llama-Adapter counted as base model",
    ),
)

_ON_CARDS = """## On cards

Mocks of `torch.cuda` and NVML test the logic of these paths
(`tests/unit/measure/recording/test_on_cards.py`, `tests/unit/measure/running`). On 2026-11-22 some
ran on one H100 SXM5 of 80 GB (torch 2.11.0, transformers 5.17.0, peft 0.21.2, trl 1.16.0,
bitsandbytes 0.50.2, driver 580.159.04): a raw loop, one that resets the peaks midway, one that runs
out of memory, two Trainers in one process, `trl sft` with packing, torchrun with one process, and
58 recorded trials of `records/plans/gpu-sweep.toml`.

- Allocator peaks, held and reserved, matched the job's own to the byte in all four jobs that
  printed theirs; the mean step of the raw loop was 118.25 ms, as on its own stopwatch.
- Memory in use was 479 MiB above nvidia-smi's: version 1 of NVML's call counts what the driver
  keeps for itself. Version 2 has been used since; it has not run on a card. If the samples
  missed a short peak (66 GB seen, 77 GB reserved before an OOM), they are no longer reported as
  one.
- The card was recorded as an H100 80GB without a form factor. Since then the driver's name is tried
  first.
- LN tuning was given all linear layers to train. Since then PEFT chooses what it trains.
"""

#: What differs on a card, whether a mock tests it, and whether it has run on one.
_PATHS = (
    ("peaks of the allocator; also where the job resets them", "yes", "yes (one card)"),
    ("memory in use by NVML, sampled alongside the job", "yes", "yes, and fixed since"),
    ("a slice of a card (MIG)", "yes", "no"),
    ("NVML that is missing, or fails for a moment", "yes", "no"),
    ("a process of a distributed job watches only its own card", "yes", "no"),
    ("out of memory, with what was reached until then", "yes", "yes"),
    ("a loop that catches CUDA's error: `oom`, or `recovered_from_oom`", "yes", "no"),
    ("the card's name, memory and capability", "yes", "yes, and fixed since"),
    ("NVLink and NVSwitch", "yes", "no"),
    ("versions of CUDA, NCCL and the driver", "yes", "yes"),
    ("trials side by side, each with its own cards", "yes", "no"),
    ("a limit of a card's memory (`memory_limit`)", "no", "yes"),
    ("bitsandbytes: NF4, 8 bits, optimizers of 8 bits, paged ones", "no", "yes"),
    ("FlashAttention, FSDP and ZeRO on cards", "no", "no"),
)

_HEADER = (
    "training",
    "model",
    "method",
    "batch x accumulation = global",
    "seq_len",
    "steps",
    "step time, ms",
    "samples/s",
    "framework's own samples/s",
    "peak memory, MiB",
    "date",
)


def format_page(trials: list[Row]) -> str:
    """Return the page."""
    ran = [trial for trial in trials if trial["n_observations"] and trial["outcome"] == "ok"]
    others = [trial for trial in trials if trial not in ran]
    parts = [_INTRODUCTION, f"## Recorded ({len(ran)})\n\nEach cell: recorded / independent.\n"]
    parts += [_format_table(_HEADER, [_format_trial(trial) for trial in ran])]
    remarks = [f"- **{trial['title']}**: {trial['remark']}" for trial in ran if trial["remark"]]
    parts += ["\n".join(remarks) + "\n"] if remarks else []
    parts += ["## Versions\n", _format_table(("training", "ran with"), _versions(ran))]
    if others:
        rows = [(trial["title"], _why(trial), trial["date"]) for trial in others]
        parts += ["## Not run\n", _format_table(("training", "why", "date"), rows)]
    parts += [_ADAPTED, _format_table(("code", "mended"), list(_OTHERS))]
    paths = _format_table(("path", "tested with a mock", "run on a card"), list(_PATHS))
    return "\n".join([*parts, _ON_CARDS, paths])


def _format_table(header: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [header, tuple("---" for _ in header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _format_trial(trial: Row) -> tuple[str, ...]:
    found = {comparison.name: comparison for comparison in compare(trial)}
    recorded = trial["recorded"]
    printed = trial["independent"].get("printed_samples_per_second")
    return (
        trial["title"],
        f"`{recorded['model_id']}`",
        _format_method(trial, found),
        _format_batch(trial, found),
        _format_length(found.get("seq_len")),
        _format_pair(found["steps"], "d"),
        _format_pair(found["step time, s"], ".1f", 1000),
        _format_pair(found["samples/s"], ".2f"),
        "" if printed is None else f"{printed:.2f}",
        _format_pair(found["peak memory, MiB"], ".0f", 1 / 2**20),
        trial["date"],
    )


def _format_method(trial: Row, found: dict[str, Comparison]) -> str:
    """Return method, rank and how the processes share the work; they are the command's own."""
    row = trial["recorded"]
    words = [row["method"]]
    words += [f"r={row['lora_rank']}"] if "lora_rank" in found else []
    words += [f"{row['n_gpus']} x {row['sharding']}"] if "sharding" in found else []
    names = ("method", "lora_rank", "n_gpus", "sharding", "packing")
    return " ".join(map(str, words)) + _mark(*(found[name] for name in names if name in found))


def _format_batch(trial: Row, found: dict[str, Comparison]) -> str:
    row = trial["recorded"]
    names = ("micro_batch_size", "grad_accum_steps", "global_batch_size")
    text = f"{row[names[0]]} x {row[names[1]]} = {row[names[2]]}"
    return text + _mark(*(found[name] for name in names))


def _format_length(length: Comparison | None) -> str:
    if length is None:
        return ""
    stated = "" if length.recorded == length.independent else f" ({length.independent})"
    return f"{length.recorded}{stated}" + _mark(length)


def _format_pair(comparison: Comparison, pattern: str, factor: float = 1) -> str:
    values = (comparison.recorded, comparison.independent)
    texts = ["-" if value is None else format(value * factor, pattern) for value in values]
    return " / ".join(texts) + _mark(comparison)


def _mark(*comparisons: Comparison) -> str:
    return " (!)" if any(each.fits is False for each in comparisons) else ""


def _versions(trials: list[Row]) -> list[tuple[str, ...]]:
    return [
        (trial["title"], ", ".join(f"{name} {text}" for name, text in trial["versions"].items()))
        for trial in trials
    ]


def _why(trial: Row) -> str:
    return trial["not_run"].replace("|", "\\|") or f"ended with {trial['returncode']}"
