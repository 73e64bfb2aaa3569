"""Real jobs in processes of their own: trials on CPU, two gloo processes, an unedited script."""

from __future__ import annotations

import importlib.util
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from registry.api import open_registry
from registry.catalogue import Catalogue
from registry.measure.matching import match_to_catalogue
from registry.measure.running.plan import parse_plan
from registry.measure.running.rerun import plan_of
from registry.measure.running.sweep import run_plan
from registry.measure.running.trial_run import find_root_cause
from registry.measure.running.trials import expand_trials
from registry.measure.running.wrapped_command import WrappedRun, run_command
from registry.store.folder import create_registry
from registry.submission.derive import complete_observation
from registry.submission.prepare import prepare_submission

# Looked for, not loaded: only the children need it.
pytestmark = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("torch", "transformers", "peft")),
    reason="torch, transformers and peft are not installed",
)

ROOT = Path(__file__).parents[2]
CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})


@pytest.fixture(autouse=True)
def _one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep the jobs' threads from waiting for each other on a busy machine."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


TINY = {
    "model_type": "llama",
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}


def run_one(folder: Path, **document: Any) -> dict[str, Any]:
    stated = {
        "model": "tiny",
        "models": {"tiny": TINY},
        "device": "cpu",
        "dtype": "fp32",
        "seq_len": 32,
        "steps": 4,
        "warmup_steps": 1,
        "timeout_seconds": 120,
        **document,
    }
    rows: list[dict[str, Any]] = []

    def add(submission: dict[str, Any]) -> None:
        prepared = prepare_submission(submission, CATALOGUE, origin="trial")
        rows.append(complete_observation(prepared.document["observations"][0]))

    run_plan(parse_plan(stated, origin="p.toml"), folder, add=add, catalogue=CATALOGUE)
    assert len(rows) == 1
    return rows[0]


def last_words(folder: Path) -> str:
    """Return what the jobs wrote last, for whoever reads why a test failed."""
    return "\n".join(path.read_text()[-4000:] for path in folder.rglob("stderr.txt"))


def total(observation: dict[str, Any], metric: str) -> float:
    return next(
        float(row["value"])
        for row in observation["measurements"]
        if row["metric"] == metric and row["scope"] == "total"
    )


def test_a_quantized_trial_without_weights_is_measured(tmp_path: Path) -> None:
    pytest.importorskip("bitsandbytes")
    found = run_one(tmp_path, quantization="nf4", double_quant=True, gradient_checkpointing=True)
    assert (found["outcome"], found.get("outcome_detail")) == ("ok", None)
    configuration = found["configuration"]
    stated = {
        "weights": "random",
        "quant_method": "bitsandbytes",
        "quant_bits": 4,
        "quant_type": "nf4",
        "double_quant": True,
        "gradient_checkpointing": True,
        "gpu_id": "cpu",
        "seq_len": 32,
    }
    assert {name: configuration[name] for name in stated} == stated
    assert len(found["samples"]) == 4
    assert total(found, "n_tokens") == 4 * 32
    # 4-bit weights count as what they hold: the same shape in fp32 has this many.
    adapters = total(found, "trainable_params")
    per_layer = 2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128 + 2 * 64
    assert total(found, "n_params") - adapters == 2 * per_layer + 2 * 512 * 64 + 64
    again = plan_of(found, environment=found["environment"])
    assert [trial.trial_id for trial in expand_trials(again.plan, CATALOGUE)] == [
        found["provenance"]["spec"]["trial_id"]
    ]


def test_out_of_memory_on_cpu_is_an_honest_outcome(tmp_path: Path) -> None:
    shape = {**TINY, "vocab_size": 32_000, "hidden_size": 1024, "intermediate_size": 2816}
    found = run_one(
        tmp_path, models={"tiny": shape}, method="full", memory_limit="1.2 GiB", steps=3
    )
    assert found["outcome"] == "oom"
    assert found["configuration"]["memory_limit_bytes"] == round(1.2 * 2**30)
    assert "can't allocate memory" in found["outcome_detail"]
    assert "step_time" not in {row["metric"] for row in found["measurements"]}
    # What it held when it failed, within the limit: the libraries' own memory is part of it.
    assert 0.3 * 2**30 < total(found, "peak_memory") < 1.3 * 2**30


def test_whatever_says_so_a_limit_below_the_libraries_own_memory_is_met(tmp_path: Path) -> None:
    found = run_one(tmp_path, memory_limit="256 MiB")  # an import fails, a thread, or a tensor
    assert found["outcome"] == "oom", found["outcome_detail"]


def test_pythons_own_objects_meet_the_limit_too(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    row = json.dumps({"input_ids": [1000 * (n % 2) + n for n in range(128)]})
    path.write_text(f"{row}\n" * 100_000)
    found = run_one(tmp_path, memory_limit="0.7 GiB", dataset=str(path))
    assert (found["outcome"], found["outcome_detail"]) == ("oom", "MemoryError")


def test_ln_tuning_trains_the_norms_alone(tmp_path: Path) -> None:
    found = run_one(tmp_path, method="ln_tuning")
    assert found["outcome"] == "ok"
    assert total(found, "trainable_params") == (2 * 2 + 1) * 64  # two of each layer, and the last


@pytest.mark.parametrize("sharding", ["ddp", "fsdp"])
def test_two_processes_are_one_observation(sharding: str, tmp_path: Path) -> None:
    found = run_one(tmp_path, n_gpus=2, sharding=sharding, method="full")
    assert (found["outcome"], found.get("outcome_detail")) == ("ok", None), last_words(tmp_path)
    assert found["configuration"]["sharding"] == sharding
    assert found["configuration"]["n_gpus"] == 2
    assert found["configuration"]["global_batch_size"] == 2
    assert {row["tokens"] for row in found["samples"]} == {2 * 32}
    cards = {
        row["device_index"]: row["value"]
        for row in found["measurements"]
        if row["metric"] == "peak_memory" and row["scope"] == "per_gpu"
    }
    assert sorted(cards) == [0, 1]
    assert total(found, "peak_memory") == sum(cards.values())
    assert "ranks_missing" not in found["provenance"]


def test_one_rank_that_fails_is_the_outcome_of_the_job(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [1, 100000]}\n')
    found = run_one(tmp_path, n_gpus=2, method="full", dataset=str(data), steps=8)
    assert found["outcome"] == "error"
    assert "index out of range" in found["outcome_detail"].lower()


@pytest.mark.parametrize(
    ("end", "says"),
    [
        ("os.kill(os.getpid(), 6)", "rank 1 failed first: killed by signal 6 (SIGABRT)"),
        ("os._exit(3)", "rank 1 failed first: exit status 3"),
    ],
)
def test_torchrun_names_the_root_cause(end: str, says: str, tmp_path: Path) -> None:
    script = tmp_path / "job.py"
    script.write_text(
        f"import os, time\nif os.environ['RANK'] == '1': {end}\nelse: time.sleep(600)\n"
    )
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", str(script)], capture_output=True, check=False, text=True
    )
    assert done.returncode == 1
    assert str(find_root_cause(done.stderr)) == says


def test_the_users_own_file_is_trained_on(tmp_path: Path) -> None:
    data = tmp_path / "data.jsonl"
    data.write_text('{"input_ids": [1, 2, 3]}\n{"input_ids": [4, 5, 6, 7, 8]}\n')
    found = run_one(tmp_path, dataset=str(data), micro_batch_size=2)
    assert found["outcome"] == "ok"
    assert found["configuration"]["length_distribution"] == "variable"
    assert {row["tokens"] for row in found["samples"]} == {8}


@pytest.mark.parametrize("n_gpus", [1, 2])
def test_modules_in_the_current_folder_play_no_part_in_a_trial(
    n_gpus: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    for name in ("transformers", "torch", "registry", "json"):
        (hostile / f"{name}.py").write_text("raise SystemExit('hostile')\n")
    monkeypatch.chdir(hostile)
    found = run_one(tmp_path / "runs", n_gpus=n_gpus, sharding="ddp")
    assert (found["outcome"], found.get("outcome_detail")) == ("ok", None)


def observations_of(done: WrappedRun) -> list[dict[str, Any]]:
    assert done.submission is not None
    prepared = prepare_submission(done.submission, CATALOGUE, origin="run")
    return [complete_observation(each) for each in prepared.document["observations"]]


def test_a_script_is_measured_without_a_word_about_us() -> None:
    script = ROOT / "examples" / "sft.py"
    assert "import registry" not in script.read_text()
    done = run_command([sys.executable, str(script)])
    assert done.returncode == 0
    (found,) = observations_of(done)
    assert found["outcome"] == "ok"
    assert found["provenance"]["wrapped"] == f"{Path(sys.executable).name} sft.py"
    assert len(found["samples"]) == 8
    assert found["configuration"]["method"] == "full"
    assert total(found, "peak_memory") > 100 << 20


#: A rank of the script that dies when all is trained, as gloo's threads make one die now and then.
ABORTS = """
import os, runpy
runpy.run_path({script!r}, run_name="__main__")
if os.environ["RANK"] == "0" and {aborts}:
    os.abort()
"""


@pytest.mark.parametrize("aborts", [False, True])
def test_torchrun_is_measured_as_well(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], *, aborts: bool
) -> None:
    script = tmp_path / "job.py"
    script.write_text(ABORTS.format(script=str(ROOT / "examples" / "sft.py"), aborts=aborts))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    done = run_command([*torchrun, str(script)])
    aborted = "Signal 6 (SIGABRT)" in capfd.readouterr().err
    assert aborted or not aborts
    assert done.returncode == int(aborted)  # torchrun's own status, whatever was recorded
    (found,) = observations_of(done)
    configuration = found["configuration"]
    assert (configuration["n_gpus"], configuration["sharding"]) == (2, "ddp")
    assert found["outcome"] == "ok"


#: A loop as people write it, with PEFT and torch alone; its own stopwatch goes to a file.
LOOP = """
import json, os, signal, sys, time
import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

torch.set_num_threads(1)
config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
model = AutoModelForCausalLM.from_config(config)
model = get_peft_model(model, LoraConfig(r=4, target_modules=["q_proj", "v_proj"],
                                         task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
seconds = []
for step in range(1, 25):
    began = time.perf_counter()
    for micro in range(2):
        ids = torch.randint(0, 256, (3, 48))
        model(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    seconds.append(time.perf_counter() - began)
    if step == 10:
        model.eval()
        with torch.no_grad():
            for _ in range(20):
                model(input_ids=ids)
        model.train()
    if step == 15:  # passes the outermost module by
        began = time.perf_counter()
        model.eval()
        model.generate(input_ids=ids, max_new_tokens=40, do_sample=False)
        model.train()
        generating = time.perf_counter() - began
    if sys.argv[2:] == ["kill"] and step == 20:
        os.kill(os.getpid(), signal.SIGKILL)
    if sys.argv[2:] == ["oom"] and step == 20:
        torch.empty(1 << 60)
json.dump([seconds, generating], open(sys.argv[1], "w"))
"""


def run_loop(folder: Path, *arguments: str) -> WrappedRun:
    script = folder / "nano.py"
    script.write_text(LOOP)
    return run_command([sys.executable, str(script), str(folder / "seconds.json"), *arguments])


def test_a_loop_without_a_trainer_is_recorded_whole(tmp_path: Path) -> None:
    done = run_loop(tmp_path)
    assert done.returncode == 0
    (found,) = observations_of(done)
    stated = {
        "model_id": "llama-h64-l2-i128-a4-kv2-v256",
        "method": "lora",
        "lora_rank": 4,
        "lora_target_modules": ["q_proj", "v_proj"],
        "optimizer": "adamw_torch",
        "micro_batch_size": 3,
        "grad_accum_steps": 2,
        "global_batch_size": 6,
        "seq_len": 48,
        "length_distribution": "full",
        "compute_dtype": "fp32",
        "n_gpus": 1,
    }
    assert {name: found["configuration"].get(name) for name in stated} == stated
    assert found["outcome"] == "ok"
    assert {(row["samples"], row["tokens"]) for row in found["samples"]} == {(6, 6 * 48)}
    assert total(found, "n_steps") == 24
    own, generating = json.loads((tmp_path / "seconds.json").read_text())
    assert total(found, "eval_time") > 0.5 * generating
    recorded = [row["seconds"] for row in found["samples"]]
    apart = [abs(ours - theirs) for ours, theirs in zip(recorded[2:], own[2:], strict=True)]
    assert statistics.median(apart) < 0.02 * statistics.median(own)
    assert apart[13] < 0.5 * generating  # the step after it


@pytest.mark.parametrize(
    ("how", "returncode", "outcome"), [("kill", 137, "interrupted"), ("oom", 1, "oom")]
)
def test_a_loop_that_ends_badly_keeps_its_steps(
    how: str, returncode: int, outcome: str, tmp_path: Path
) -> None:
    done = run_loop(tmp_path, how)
    assert done.returncode == returncode
    (found,) = observations_of(done)
    assert found["outcome"] == outcome
    assert len(found["samples"]) == 20
    assert found["configuration"]["seq_len"] == 48
    assert total(found, "peak_memory") > 100 << 20


#: Loops as people write them with torch alone, each odd in its own way.
ODD_LOOP = """
import sys
import torch
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
how = sys.argv[1]

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(64, 32)
        first = how == "time_first"
        self.layer = torch.nn.TransformerEncoderLayer(32, 2, 64, batch_first=not first)
        self.out = torch.nn.Linear(32, 64)

    def forward(self, ids):
        hidden = self.words(ids)
        if how == "checkpoint":
            hidden = checkpoint(self.layer, hidden, use_reentrant=False)
        else:
            hidden = self.layer(hidden)
        return self.out(hidden)

model = Model()
if how == "eval":
    model.eval()
optimizer = torch.optim.AdamW(model.parameters())
for step in range(12):
    if how == "new_optimizer" and step == 6:
        optimizer = torch.optim.AdamW(model.parameters())
    ids = torch.randint(0, 64, (4, 16))
    loss = torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step == 4 and how == "forgotten":  # .train()
        model.eval()
        with torch.no_grad():
            model(ids)
    if step == 9 and how == "new_optimizer" and sys.argv[2:]:
        raise ValueError("the second one failed")
print("done")
"""


def run_odd_loop(folder: Path, *how: str, returncode: int = 0) -> list[dict[str, Any]]:
    script = folder / "odd.py"
    script.write_text(ODD_LOOP)
    done = run_command([sys.executable, str(script), *how])
    assert done.returncode == returncode
    return observations_of(done)


@pytest.mark.parametrize("how", ["eval", "forgotten", "checkpoint"])
def test_steps_count_whatever_mode_the_model_is_in(how: str, tmp_path: Path) -> None:
    (found,) = run_odd_loop(tmp_path, how)
    assert found["outcome"] == "ok"
    assert total(found, "n_steps") == 12
    configuration = found["configuration"]
    assert (configuration["micro_batch_size"], configuration["seq_len"]) == (4, 16)
    assert configuration["grad_accum_steps"] == 1
    seen = configuration.get("gradient_checkpointing")  # there is no switch for torch's function
    assert seen is (True if how == "checkpoint" else None)


#: Loops whose script must go on, and whose numbers are set where no caller sees it.
INSIDE = """
import sys
import torch

torch.set_num_threads(1)
how, path = sys.argv[1:]
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters())
if how == "autocast":
    plain = model.forward
    def forward(ids):
        with torch.autocast("cpu", torch.bfloat16):
            return plain(ids)
    model.forward = forward

def find_loss(ids):
    return torch.nn.functional.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten())

if how == "compiled":
    find_loss = torch.compile(find_loss, fullgraph=True, backend="eager")
for _ in range(8):
    find_loss(torch.randint(0, 64, (4, 16))).backward()
    optimizer.step()
    optimizer.zero_grad()
if how == "saved":
    torch.save(model, path)
"""


def run_inside(folder: Path, how: str) -> WrappedRun:
    script = folder / "inside.py"
    script.write_text(INSIDE)
    done = run_command([sys.executable, str(script), how, str(folder / "model.pt")])
    assert done.returncode == 0
    return done


def test_a_model_that_sets_its_number_format_itself_is_recorded_with_it(tmp_path: Path) -> None:
    (found,) = observations_of(run_inside(tmp_path, "autocast"))
    configuration = found["configuration"]
    assert (configuration["compute_dtype"], configuration["param_dtype"]) == ("bf16", "fp32")


def test_a_loss_that_is_compiled_with_the_model_in_it_is_compiled(tmp_path: Path) -> None:
    run_inside(tmp_path, "compiled")  # which fails where a hook cannot be


def test_a_whole_model_can_be_saved(tmp_path: Path) -> None:
    assert total(observations_of(run_inside(tmp_path, "saved"))[0], "n_steps") == 8
    assert b"registry" not in (tmp_path / "model.pt").read_bytes()


#: A loop whose every step begins with passes that have no gradients, or has no optimizer.
ROLLOUTS = """
import json
import statistics
import sys
import time
import torch

torch.set_num_threads(1)
how = sys.argv[2]
model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 64))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
seconds = []
for step in range(12):
    began = time.perf_counter()
    if how == "evaluation mode":
        model.eval()
    if how != "no optimizer" and (how != "twice" or step in (3, 4)):
        with torch.no_grad():
            model(torch.ones(8, 64))
            time.sleep(0.05)
    model.train()
    model(torch.ones(8, 64)).sum().backward()
    if how == "no optimizer":
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 1e-3 * parameter.grad
                parameter.grad = None
    else:
        optimizer.step()
        optimizer.zero_grad()
    seconds.append(time.perf_counter() - began)
json.dump(seconds, open(sys.argv[1], "w"))
"""


def run_rollouts(folder: Path, how: str) -> tuple[dict[str, Any], list[float]]:
    script = folder / "rollouts.py"
    script.write_text(ROLLOUTS)
    done = run_command([sys.executable, str(script), str(folder / "seconds.json"), how])
    (found,) = observations_of(done)
    return found, json.loads((folder / "seconds.json").read_text())


@pytest.mark.parametrize("how", ["training mode", "evaluation mode"])
def test_what_every_step_begins_with_is_part_of_it(how: str, tmp_path: Path) -> None:
    found, own = run_rollouts(tmp_path, how)
    recorded = [row["seconds"] for row in found["samples"]]
    shares = [seen / said for seen, said in zip(recorded[1:], own[1:], strict=True)]
    assert median(shares) == pytest.approx(1, abs=0.1)  # a busy machine holds up single steps
    assert sum(recorded[1:]) == pytest.approx(sum(own[1:]), rel=0.1)
    assert not {"eval_time"} & {row["metric"] for row in found["measurements"]}
    assert "includes_evaluation" not in found.get("flags", [])


def test_an_evaluation_before_two_steps_is_none_of_theirs(tmp_path: Path) -> None:
    found, _ = run_rollouts(tmp_path, "twice")
    assert total(found, "eval_time") > 0.09
    assert max(row["seconds"] for row in found["samples"][1:]) < 0.04


def test_without_an_optimizer_no_time_is_one_of_training(tmp_path: Path) -> None:
    found, own = run_rollouts(tmp_path, "no optimizer")
    metrics = {row["metric"] for row in found["measurements"]}
    assert not metrics & {"train_time", "step_time", "n_steps"}
    assert total(found, "total_time") >= 0.5 * sum(own)


def test_a_second_optimizer_for_the_same_model_begins_another_training(tmp_path: Path) -> None:
    found = run_odd_loop(tmp_path, "new_optimizer")
    assert [one["outcome"] for one in found] == ["ok", "ok"]
    assert [total(one, "n_steps") for one in found] == [6, 6]
    assert [one["configuration"]["grad_accum_steps"] for one in found] == [1, 1]


def test_of_two_loops_the_last_is_the_one_that_failed(tmp_path: Path) -> None:
    found = run_odd_loop(tmp_path, "new_optimizer", "fail", returncode=1)
    assert [one["outcome"] for one in found] == ["ok", "error"]
    assert [total(one, "n_steps") for one in found] == [6, 4]


#: Loops whose optimizers hold more than one model's parameters, or a part of it.
SHARES = """
import sys
import torch

torch.set_num_threads(1)

def make(width):
    return torch.nn.Sequential(torch.nn.Embedding(64, width), torch.nn.Linear(width, 64))

how = sys.argv[1]
large, small, loss_scale = make(32), make(8), torch.nn.Parameter(torch.ones(1))
first = torch.optim.AdamW([*small.parameters()] if how == "two" else [loss_scale])
held = {"two": [*large.parameters()], "head": [*large[1].parameters()],
        "both": [*large.parameters(), *small.parameters()],
        "loss": [*large.parameters(), loss_scale]}[how]
optimizers = [first, torch.optim.SGD(held, lr=0.1)]
for _ in range(6):
    ids = torch.randint(0, 64, (4, 16))
    logits = large(ids) + small(ids)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), ids.flatten()).backward()
    for optimizer in optimizers:
        optimizer.step()
        optimizer.zero_grad()
"""

#: Of the larger model: 64 words of 32, and back.
_WORDS, _HEAD = 64 * 32, 32 * 64 + 64


@pytest.mark.parametrize(
    ("how", "method", "trained", "others"),
    [
        ("two", "full", _WORDS + _HEAD, None),
        ("loss", "full", _WORDS + _HEAD, None),
        ("head", "freeze", _HEAD, None),
        ("both", "full", _WORDS + _HEAD, 64 * 8 + 8 * 64 + 64),
    ],
)
def test_a_loop_trains_what_its_optimizer_steps(
    how: str, method: str, trained: int, others: int | None, tmp_path: Path
) -> None:
    script = tmp_path / "shares.py"
    script.write_text(SHARES)
    (found,) = observations_of(run_command([sys.executable, str(script), how]))
    configuration = found["configuration"]
    assert (configuration["method"], configuration["optimizer"]) == (method, "sgd")
    assert configuration["trainable_params"] == total(found, "trainable_params") == trained
    contradictions = [
        f"trained parameters: {trained} in the model, {trained + more} in the optimizer"
        for more in [others]
        if more
    ]
    assert found["provenance"].get("contradictions", []) == contradictions


#: Loops in processes that do not end as others do; the word says which.
ENDINGS = """
import multiprocessing, os, sys
import torch

torch.set_num_threads(1)
how = sys.argv[1]
model = torch.nn.Sequential(torch.nn.Embedding(64, 32), torch.nn.Linear(32, 64))
optimizer = torch.optim.AdamW(model.parameters())

def train(n_steps, fails=False):
    for _ in range(n_steps):
        ids = torch.randint(0, 64, (4, 16))
        torch.nn.functional.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()
    if fails:
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

def in_child(rank, *arguments):
    train(*arguments)

if __name__ == "__main__":
    if how == "exit":
        train(6)
        os._exit(0)
    if how == "exec":
        train(6 + len(sys.argv))
        if len(sys.argv) < 3:
            os.execv(sys.executable, [sys.executable, *sys.argv, "again"])
    if how == "fork":
        train(3)
        child = multiprocessing.get_context("fork").Process(target=train, args=(9,))
        child.start()
        train(4)
        child.join()
    if how.startswith("oom"):
        torch.multiprocessing.start_processes(in_child, (5, True), start_method=how[4:])
"""


@pytest.mark.parametrize(
    ("how", "n_steps", "outcome"),
    [
        ("exit", [6], "ok"),
        ("exec", [8, 9], "ok"),
        ("fork", [7, 9], "ok"),
        ("oom-fork", [5], "oom"),
        ("oom-spawn", [5], "oom"),
    ],
)
def test_a_loop_is_recorded_whole_however_its_process_ends(
    how: str, n_steps: list[int], outcome: str, tmp_path: Path
) -> None:
    script = tmp_path / "endings.py"
    script.write_text(ENDINGS)
    found = observations_of(run_command([sys.executable, str(script), how]))
    assert [total(one, "n_steps") for one in found] == n_steps
    assert {one["outcome"] for one in found} == {outcome}


def test_batches_with_time_first_state_neither_length_nor_size(tmp_path: Path) -> None:
    (found,) = run_odd_loop(tmp_path, "time_first")
    assert total(found, "n_steps") == 12
    assert not {"micro_batch_size", "seq_len"} & {*found["configuration"]}
    assert "samples_per_second" not in {row["metric"] for row in found["measurements"]}


#: A Trainer whose settings stand in a YAML file, a token among them, and that fails with its text.
OF_YAML = """
import sys
import torch
import yaml
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

torch.set_num_threads(1)
stated = yaml.safe_load(open(sys.argv[1]))
config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
rows = [{"input_ids": list(range(16)), "labels": list(range(16))}] * 8
arguments = TrainingArguments(use_cpu=True, report_to=[], disable_tqdm=True, **stated)
Trainer(AutoModelForCausalLM.from_config(config), arguments, train_dataset=rows).train()
raise ValueError(f"could not push with {stated['hub_token']} to {stated['hub_model_id']}")
"""


def test_nothing_of_a_yaml_file_is_recorded_but_settings(tmp_path: Path) -> None:
    script, stated = tmp_path / "train.py", tmp_path / "run.yaml"
    script.write_text(OF_YAML)
    stated.write_text(
        f"output_dir: {tmp_path}/s3cr3t-folder\nrun_name: s3cr3t-name\nhub_token: s3cr3t-token\n"
        "hub_model_id: s3cr3t-user/s3cr3t-model\nmax_steps: 3\nper_device_train_batch_size: 2\n"
    )
    done = run_command([sys.executable, str(script), str(stated)])
    assert done.returncode == 1
    assert [found["configuration"]["micro_batch_size"] for found in observations_of(done)] == [2]
    assert "s3cr3t" not in json.dumps(done.submission)


#: A loop with accelerate, which steps the optimizer every fourth batch.
ACCELERATED = """
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, LlamaConfig

torch.set_num_threads(1)
accelerator = Accelerator(cpu=True, gradient_accumulation_steps=4)
config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
model = get_peft_model(AutoModelForCausalLM.from_config(config),
                       LoraConfig(r=16, target_modules="all-linear", task_type="CAUSAL_LM"))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
data = [{"input_ids": torch.randint(0, 256, (40,))} for _ in range(96)]
model, optimizer, batches = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=2))
for batch in batches:
    with accelerator.accumulate(model):
        accelerator.backward(model(**batch, labels=batch["input_ids"]).loss)
        optimizer.step()
        optimizer.zero_grad()
"""


@pytest.mark.parametrize("n_processes", [1, 2])
def test_a_loop_with_accelerate_is_recorded_over_all_processes(
    n_processes: int, tmp_path: Path
) -> None:
    script = tmp_path / "train.py"
    script.write_text(ACCELERATED)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = run_command([*launch, f"--nproc-per-node={n_processes}", str(script)])
    assert done.returncode == 0
    (found,) = observations_of(done)
    stated = {
        "method": "lora",
        "lora_rank": 16,
        "micro_batch_size": 2,
        "grad_accum_steps": 4,
        "global_batch_size": 8 * n_processes,
        "seq_len": 40,
        "n_gpus": n_processes,
        "sharding": "ddp" if n_processes > 1 else "none",
    }
    assert {name: found["configuration"].get(name) for name in stated} == stated
    assert {row["samples"] for row in found["samples"]} == {8 * n_processes}
    assert len(found["samples"]) == 12 // n_processes
    assert done.submission is not None
    assert done.submission["models"][0]["n_params"] == 106_816
    assert "contradictions" not in found["provenance"]


#: A trainer that halves its batch until that fits.
SHRINKING = """
import sys
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

torch.set_num_threads(1)
config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
model = AutoModelForCausalLM.from_config(config)
forward = model.forward

def small(input_ids=None, **rest):
    if input_ids.shape[0] > 2:
        raise RuntimeError("CUDA out of memory.")
    return forward(input_ids=input_ids, **rest)

class Shrinking(Trainer):
    def _set_signature_columns_if_needed(self):
        self._signature_columns = ["input_ids", "labels"]

model.forward = small
data = [{"input_ids": [1] * 32, "labels": [1] * 32}] * 64
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=6, use_cpu=True, report_to=[],
                              per_device_train_batch_size=8, auto_find_batch_size=True,
                              save_strategy="no", disable_tqdm=True)
Shrinking(model=model, args=arguments, train_dataset=data).train()
"""


#: A trainer that fails in one of its processes.
FAILING = """
import sys
import torch
from transformers import (AutoModelForCausalLM, LlamaConfig, Trainer, TrainerCallback,
                          TrainingArguments)

torch.set_num_threads(1)
config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)

class Failing(TrainerCallback):
    def on_step_end(self, args, state, control, **rest):
        if args.process_index == 1 and state.global_step == 4:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB")

data = [{"input_ids": [1] * 32, "labels": [1] * 32}] * 64
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=8, use_cpu=True, report_to=[],
                              per_device_train_batch_size=3, save_strategy="no", disable_tqdm=True)
Trainer(AutoModelForCausalLM.from_config(config), arguments, train_dataset=data,
        callbacks=[Failing()]).train()
"""


def test_a_trainer_that_fails_in_one_process_is_recorded_with_all(tmp_path: Path) -> None:
    script = tmp_path / "failing.py"
    script.write_text(FAILING)
    launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    (found,) = observations_of(run_command([*launch, str(script), str(tmp_path / "out")]))
    assert (found["outcome"], found["failed_step"]) == ("oom", 5)
    assert total(found, "n_samples") == 4 * 2 * 3
    cards = [row["value"] for row in found["measurements"] if row["scope"] == "per_gpu"]
    assert len(cards) == 2
    assert total(found, "peak_memory") == sum(cards)


def test_the_batch_that_fitted_is_the_one_recorded(tmp_path: Path) -> None:
    script = tmp_path / "shrinking.py"
    script.write_text(SHRINKING)
    done = run_command([sys.executable, str(script), str(tmp_path / "out")])
    assert done.returncode == 0
    (found,) = observations_of(done)
    assert found["configuration"]["micro_batch_size"] == 2
    assert {row["samples"] for row in found["samples"]} == {2}
    assert "contradictions" not in found["provenance"]
    assert "recovered_from_oom" in found["flags"]


#: Two trainings in one process, of which the first is released or kept.
TWO = """
import gc, sys
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Trainer, TrainingArguments

torch.set_num_threads(1)

def train(batch, length, steps):
    config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128,
                         num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2)
    data = [{"input_ids": [1] * length, "labels": [1] * length}] * 64
    arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=steps, use_cpu=True,
                                  per_device_train_batch_size=batch, report_to=[],
                                  save_strategy="no", disable_tqdm=True)
    trainer = Trainer(model=AutoModelForCausalLM.from_config(config), args=arguments,
                      train_dataset=data)
    trainer.train()
    return trainer

if sys.argv[2] != "alone":
    kept = train(8, 512, 3)
if sys.argv[2] == "release":
    del kept
train(2, 32, 7)
"""


@pytest.mark.parametrize("how", ["release", "keep"])
def test_each_training_of_a_process_is_an_observation_of_its_own(how: str, tmp_path: Path) -> None:
    script = tmp_path / "two.py"
    script.write_text(TWO)
    command = [sys.executable, str(script), str(tmp_path / "out")]
    done = run_command([*command, how])
    assert done.returncode == 0
    first, second = observations_of(done)
    shapes = [
        (each["configuration"]["micro_batch_size"], each["configuration"]["seq_len"])
        for each in (first, second)
    ]
    assert shapes == [(8, 512), (2, 32)]
    assert [len(each["samples"]) for each in (first, second)] == [3, 7]
    metrics = [{row["metric"] for row in each["measurements"]} for each in (first, second)]
    assert ["load_time" in found for found in metrics] == [True, False]
    assert ("shared_process" in second.get("flags", ())) is (how == "keep")
    if how == "release":
        (alone,) = observations_of(run_command([*command, "alone"]))
        assert total(second, "peak_memory") == pytest.approx(total(alone, "peak_memory"), rel=0.1)
        assert total(second, "peak_memory") < total(first, "peak_memory")


#: A trainer with the recorder in its own code, killed after some steps.
KILLED = """
import os, signal, sys
import registry
import torch
from transformers import (AutoModelForCausalLM, LlamaConfig, Trainer, TrainerCallback,
                          TrainingArguments)

torch.set_num_threads(1)

class Kill(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.global_step == 6 and sys.argv[2] == "kill":
            os.kill(os.getpid(), signal.SIGKILL)

config = LlamaConfig(vocab_size=256, hidden_size=64, intermediate_size=128, num_hidden_layers=2,
                     num_attention_heads=4, num_key_value_heads=2)
data = [{"input_ids": [1] * 16, "labels": [1] * 16}] * 64
report = {"report_to": "registry"} if sys.argv[2] == "report" else {"report_to": []}
arguments = TrainingArguments(output_dir=sys.argv[1], max_steps=8, use_cpu=True,
                              save_strategy="no", disable_tqdm=True, **report)
callbacks = [registry.trainer_callback(), Kill()] if sys.argv[2] == "kill" else []
Trainer(model=AutoModelForCausalLM.from_config(config), args=arguments, train_dataset=data,
        callbacks=callbacks).train()
"""


def run_in_code(tmp_path: Path, how: str) -> subprocess.CompletedProcess[str]:
    script = tmp_path / "killed.py"
    script.write_text(KILLED)
    environment = {**os.environ, "REGISTRY_PATH": str(tmp_path / "own")}
    return subprocess.run(
        [sys.executable, str(script), str(tmp_path / "out"), how],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )


def read_own(tmp_path: Path) -> list[dict[str, Any]]:
    db = open_registry(tmp_path / "own", curated=False)
    sql = "select outcome, count(s.step) as n from results left join samples as s "
    return db.query(f"{sql} using (observation_id) group by all").rows()


def test_a_killed_training_is_found_in_its_output_folder(tmp_path: Path) -> None:
    create_registry(tmp_path / "own", curated=False)
    assert run_in_code(tmp_path, "kill").returncode == -9
    assert len(list((tmp_path / "out").glob("registry-*.jsonl"))) == 1
    add = Path(sys.executable).parent / "registry"
    own = ["--registry", str(tmp_path / "own")]
    subprocess.run([add, "add", str(tmp_path / "out"), *own], check=True)
    assert read_own(tmp_path) == [{"outcome": "interrupted", "n": 6}]


#: A loop that says when it trains, and trains on until a file is there.
PATIENT = """
import pathlib, sys, torch
model = torch.nn.Sequential(torch.nn.Embedding(16, 8), torch.nn.Linear(8, 16))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
while not pathlib.Path(sys.argv[1]).exists():
    for _ in range(5):
        model(torch.randint(0, 16, (2, 4))).sum().backward()
        optimizer.step()
    print("trains", flush=True)
"""


def test_a_training_goes_on_when_its_run_is_killed_and_is_recorded_whole(tmp_path: Path) -> None:
    create_registry(tmp_path / "own", curated=False)
    add = Path(sys.executable).parent / "registry"
    own = ["--registry", str(tmp_path / "own")]
    stop, temporary = tmp_path / "stop", tmp_path / "tmp"
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary)}
    job = ["--", sys.executable, "-c", PATIENT, str(stop)]
    measured = [str(add), "run", *own, "--label", "main", "--no-keep", *job]
    with subprocess.Popen(measured, env=environment, stdout=subprocess.PIPE) as run:
        assert run.stdout is not None
        try:
            run.stdout.readline()
            run.kill()
            run.wait()
            for _ in range(20):
                assert run.stdout.readline() == b"trains\n"  # the training goes on
            (folder,) = temporary.glob("registry-run-*")
            early = subprocess.run([add, "add", folder, *own], stderr=subprocess.PIPE, check=False)
        finally:
            stop.touch()
        run.stdout.read()  # until the training has ended
    assert early.returncode == 1
    assert b"found a training run that is still in progress" in early.stderr
    subprocess.run([add, "add", folder, *own], check=True)
    db = open_registry(tmp_path / "own", curated=False)
    sql = "select outcome, provenance->>'label' as label, count(s.step) > 100 as whole "
    sql += "from observations left join samples as s using (observation_id) group by all"
    assert db.query(sql).rows() == [{"outcome": "ok", "label": "main", "whole": True}]


def test_report_to_adds_to_the_registry_in_use(tmp_path: Path) -> None:
    create_registry(tmp_path / "own", curated=False)
    done = run_in_code(tmp_path, "report")
    assert done.returncode == 0
    assert "registry: recorded observation" in done.stderr
    assert read_own(tmp_path) == [{"outcome": "ok", "n": 8}]


def test_every_method_of_peft_can_be_recorded() -> None:
    peft = importlib.import_module("peft")
    kinds = {str(kind.value).lower() for kind in peft.PeftType}
    assert len(kinds) > 20
    for kind in kinds:
        document = minimal_submission(kind)
        matched = match_to_catalogue(document, CATALOGUE)
        prepare_submission(matched, CATALOGUE, origin=kind)


def minimal_submission(method: str) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "source": {"source_id": "run-1", "title": "A run", "kind": "run"},
        "models": [{"model_id": "tiny", "model_type": "llama"}],
        "observations": [
            {
                "outcome": "ok",
                "evidence": "measured",
                "configuration": {"model_id": "tiny", "method": method, "gpu_id": "cpu"},
                "measurements": [{"metric": "step_time", "value": 1.0}],
            }
        ],
    }
