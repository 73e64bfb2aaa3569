"""`registry run` and `registry rerun` as a user calls them; the jobs themselves need PyTorch."""

from __future__ import annotations

import json
import os
import platform
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., subprocess.CompletedProcess[str]]
    Write = Callable[[str, Any], Path]

PLAN = 'model = "tiny"\n{}\n[models.tiny]\nmodel_type = "llama"\nhidden_size = 8\n'

INTERRUPTED = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
sys.exit(7)
"""


def test_the_template_is_a_plan_that_runs_as_it_is(run: Run, work: Path) -> None:
    done = run("run", "--template")
    assert (done.returncode, done.stderr) == (0, "")
    (work / "plan.toml").write_text(done.stdout)
    listed = run("run", "plan.toml", "--dry-run")
    assert (listed.returncode, listed.stderr) == (0, "")
    assert listed.stdout.count("command") == 4
    both = run("run", "plan.toml", "--template")
    assert both.returncode == 2
    assert "expected a plan (PLAN.toml), or -- and" in both.stderr


@pytest.mark.parametrize(
    ("words", "written"),
    [
        ("run train.py", "-- python train.py"),
        ("run --label x nowhere.py", "--label x -- python nowhere.py"),
        (
            "run nowhere.py --lr 3 --label x --no-keep",
            "--label x --no-keep -- python nowhere.py --lr 3",
        ),
        ("run python3 train.py", "-- python3 train.py"),
        ("run torchrun --nproc-per-node 2 train.py", "-- torchrun --nproc-per-node 2 train.py"),
        ("run start.sh", "-- bash start.sh"),
        ("bench train.py", None),
        ("bench -- python train.py", None),
        ("bench python train.py --python a --python b", None),
    ],
)
def test_a_command_in_the_place_of_a_plan_is_told_how_it_is_measured(
    run: Run, write: Write, words: str, written: str | None
) -> None:
    write("train.py", "import torch\n")
    done = run(*words.split())
    assert (done.returncode, done.stdout) == (2, "")
    if written is not None:
        assert done.stderr.endswith(f"to measure a command, write: registry run {written}\n")
    else:
        assert "alternate registry run --label A -- CMD and registry run --label B" in done.stderr


def test_a_rerun_of_what_is_no_observation_asks_for_one(run: Run) -> None:
    for word in ("nope", "label=main", "abc"):
        done = run("rerun", word)
        assert done.returncode == 2
        assert f"{word}: found no observation whose id starts with this" in done.stderr
        assert "label (" not in done.stderr


def test_plans_of_the_package_are_found_by_their_name(run: Run, work: Path) -> None:
    assert run("run", "plans/cpu-smoke.toml", "--dry-run").stdout.count("command") == 13
    run("init", "mine")
    (work / "mine" / "plans" / "cpu-smoke.toml").write_text(PLAN.format(""))
    done = run("run", "plans/cpu-smoke.toml", "--dry-run", "--registry", "mine")
    assert done.stdout.count("command") == 1


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_a_plan_with_mistakes_is_refused_before_the_first_trial(
    run: Run, write: Write, work: Path, options: list[str]
) -> None:
    write("p.toml", PLAN.format('method = "lroa"\nsteps = -1\nsed = 0'))
    done = run("run", "p.toml", *options)
    assert (done.returncode, done.stdout) == (1, "")
    first, second, third = done.stderr.splitlines()
    assert first.startswith(
        "error: p.toml: method: found 'lroa'; did you mean 'lora'?; expected full or a method of "
    )
    assert second == "p.toml: steps: found -1; expected an integer from 1 to 10000000"
    assert third.startswith("p.toml: unknown key 'sed'; did you mean 'seed'?; expected one of ")
    assert [path.name for path in work.iterdir()] == ["p.toml"]


def test_a_dry_run_shows_model_data_and_command(run: Run, write: Write) -> None:
    write("p.toml", PLAN.format("seq_len = 64\n"))
    done = run("run", "p.toml", "--dry-run")
    assert (done.returncode, done.stderr) == (0, "")
    first, *rest = done.stdout.splitlines()
    assert first.split()[2:] == ["tiny", "lora", "64"]
    assert [line.split(maxsplit=1) for line in rest[:2]] == [
        ["model", 'random weights of {"model_type": "llama", "hidden_size": 8}'],
        ["data", "random tokens"],
    ]
    assert rest[2].split()[0] == "command"
    assert rest[2].endswith(" -P -m registry.measure.running.job spec.json result.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "repeats = 100000",
            (
                "p: 100000 trials; expected at most 10000; split the plan, or take values out of "
                "its matrix"
            ),
        ),
        (
            "a = " + "[" * 50_000 + "]" * 50_000,
            "p.toml: nested deeper than 16 levels; expected a plan, which has four",
        ),
        (
            'dataset = "/dev/zero"',
            (
                "p.toml: dataset: found '/dev/zero', which is not in the plan's folder; expected a "
                "file there; to train on another one, name it yourself: --dataset"
            ),
        ),
    ],
)
def test_a_plan_without_measure_is_refused_at_once(
    run: Run, write: Write, text: str, message: str
) -> None:
    write("p.toml", PLAN.format(text))
    done = run("run", "p.toml", "--dry-run")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", f"error: {message}\n")


@pytest.mark.parametrize("options", [[], ["--dry-run"]])
def test_endless_files_are_not_read(run: Run, write: Write, options: list[str]) -> None:
    done = run("run", "/dev/zero", *options)
    way_out = "in a regular file; save it in one first\n"
    plan = f"error: /dev/zero: found a device, expected a plan {way_out}"
    assert (done.returncode, done.stderr) == (1, plan)
    write("p.toml", PLAN.format(""))
    done = run("run", "p.toml", "--dataset", "/dev/zero", *options)
    data = "a JSONL file or a folder of datasets"
    message = f"error: /dev/zero: found a device, expected {data} {way_out}"
    assert (done.returncode, done.stderr) == (1, message)


NOTHING = (
    "nothing was recorded: no training began in a Python process of the command that loaded the "
    "recorder (it begins with the first step of an optimizer of torch.optim; a process whose "
    "PYTHONPATH was replaced does not load the recorder)\n"
)
NOT_LOADED = (
    "nothing was recorded: no Python process of the command loaded the recorder; if the command "
    "sets PYTHONPATH, write PYTHONPATH=…:$PYTHONPATH there, or set it before registry run; python "
    "-I, -E and -S also keep the recorder out; with a Trainer, you can use "
    "registry.trainer_callback()\n"
)


def test_a_command_without_a_training_keeps_its_exit_status(run: Run) -> None:
    done = run("run", "--", sys.executable, "-c", "print('out'); raise SystemExit(4)")
    assert (done.returncode, done.stdout, done.stderr) == (4, "out\n", NOTHING)
    done = run("run", "--", "no-such-command")
    message = "error: no-such-command: cannot be started: No such file or directory; expected a "
    assert (done.returncode, done.stderr) == (127, f"{message}command to measure\n")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("export PYTHONPATH=src; {python} -c pass", NOT_LOADED),
        ("PYTHONPATH=src {python} -c pass", NOT_LOADED),
        ("{python} -I -c pass", NOT_LOADED),
        ("export PYTHONPATH=src:$PYTHONPATH; {python} -c pass", NOTHING),
    ],
)
def test_a_script_that_leaves_the_recorder_out_is_told_so(
    run: Run, script: str, message: str
) -> None:
    done = run("run", "--", "sh", "-c", script.format(python=sys.executable))
    assert (done.returncode, done.stderr) == (0, message)


def test_a_prefix_that_sets_pythonpath_keeps_the_recorder(run: Run) -> None:
    python = (sys.executable, "-c", "import os; print(os.environ['PYTHONPATH'][-7:])")
    done = run("run", "--", "env", "PYTHONPATH=theirs", *python)
    assert (done.stdout, done.stderr) == (":theirs\n", NOTHING)


#: Trains with a torch that is too old for the recorder, as it lacks the hook of optimizers.
OLD_TORCH = """
import pathlib
pathlib.Path("torch/optim").mkdir(parents=True)
pathlib.Path("torch/__init__.py").touch()
pathlib.Path("torch/optim/__init__.py").touch()
pathlib.Path("torch/optim/optimizer.py").write_text("class Optimizer: pass")
from torch.optim.optimizer import Optimizer
Optimizer()
print("trained")
"""


def test_what_keeps_the_recorder_from_its_work_is_said(run: Run) -> None:
    done = run("run", "--", sys.executable, "-c", OLD_TORCH)
    assert (done.returncode, done.stdout) == (0, "trained\n")
    why = f"Python {platform.python_version()}: AttributeError: module 'torch.optim.optimizer' has "
    assert done.stderr.startswith(f"nothing was recorded: the recorder failed: {why}")


#: A job that leaves a record, as a training in it would.
LEAVES = """
import json, os, pathlib, sys
folder = pathlib.Path(os.environ["REGISTRY_RECORD_FOLDER"])
record = json.loads(pathlib.Path("record.json").read_text())
(folder / "record-0-1-1.json").write_text(json.dumps(record))
sys.exit(5)
"""


def test_a_record_that_cannot_be_added_is_kept_and_the_exit_is_the_jobs(
    run: Run, write: Write, submission: Callable[..., dict[str, Any]], work: Path
) -> None:
    document = submission()
    document["observations"][0]["configuration"]["seq_len"] = -7
    write("record.json", document)
    done = run("run", "--", sys.executable, "-c", LEAVES)
    assert done.returncode == 5
    message, kept = done.stderr.splitlines()
    assert "seq_len: found -7" in message
    (file,) = work.glob("registry-*.json")
    way_out = f"once the problem is fixed, add it with: registry add {file}"
    assert kept == f"the record was not added, and is kept in {file}; {way_out}"
    file.write_text(file.read_text().replace('"seq_len": -7', '"seq_len": 8'))
    assert run("add", str(file)).returncode == 0


#: A job that leaves a record of its own run: each takes as long as a file says.
TRAINS = """
import json, os, pathlib, secrets, sys
folder = pathlib.Path(os.environ["REGISTRY_RECORD_FOLDER"])
record = json.loads(pathlib.Path("record.json").read_text())
record["observations"][0]["run_id"] = secrets.token_hex(4)
seconds = float(pathlib.Path("seconds.txt").read_text())
record["observations"][0]["measurements"] = [{"metric": "total_time", "value": seconds}]
record["observations"][0]["environment"] = {"settings": {"num_threads": int(seconds)}}
record["observations"][0]["provenance"] = {
    "warmup_steps": int(os.environ.get("REGISTRY_WARMUP_STEPS", 2))}
(folder / "record-0-1-1.json").write_text(json.dumps(record))
print("trained with", *sys.argv[1:])
"""


@pytest.fixture
def measured(run: Run, write: Write, work: Path, submission: Callable[..., Any]) -> str:
    """Return the id of a measured command's training."""
    document = submission()
    document["source"]["kind"] = "run"
    write("record.json", document)
    write("seconds.txt", "2")
    write("train.py", TRAINS)
    done = run("run", "--warmup-steps", "7", "--", sys.executable, "train.py", "--token", "s3cr3t")
    assert done.returncode == 0, done.stderr
    assert "trained with --token s3cr3t\n" in done.stdout
    (kept,) = (work.parent / "data" / "peft-registry" / "commands").glob("*.json")
    assert kept.stat().st_mode & 0o777 == 0o600
    assert kept.parent.stat().st_mode & 0o777 == 0o700
    return kept.stem


def test_a_measured_command_is_run_again_where_it_ran(
    run: Run, write: Write, work: Path, measured: str
) -> None:
    write("seconds.txt", "3")
    elsewhere = work / "elsewhere"
    elsewhere.mkdir()
    shown = run("rerun", measured, "--dry-run", cwd=elsewhere)
    assert (shown.returncode, shown.stdout) == (0, "")
    name = Path(sys.executable).name
    assert f"runs again: {name} train.py (in {work})\n" in shown.stderr
    done = run("rerun", measured[:12], "--fail", cwd=elsewhere)
    assert done.returncode == 0  # one run against one says nothing of noise
    assert "trained with --token s3cr3t\n" in done.stdout
    assert "b / a = 1.500" in done.stdout
    assert "differs: num_threads: 2 → 3\n" in done.stderr
    assert done.stdout.splitlines()[-1] == (
        "cannot be told for 1 of 1 whether it is worse by more than a factor of 1.05; give "
        "--repeats 4 or more: an interval needs repeats"
    )
    assert "s3cr3t" not in done.stderr
    sql = "select count(*) filter (provenance->>'warmup_steps' = '7') as n from observations"
    assert run("query", sql).stdout == "n\n2\n"


def test_repeats_of_a_command_give_a_verdict(run: Run, write: Write, measured: str) -> None:
    write("seconds.txt", "3")
    done = run("rerun", measured, "--repeats", "3", "--factor", "1.4", "--fail")
    assert done.returncode == 1
    assert "(95% interval 1.500 to 1.500, 1 and 3 runs)" in done.stdout
    verdict = done.stdout.splitlines()[-1]
    assert verdict == "1 of 1 is worse by more than a factor of 1.4"
    done = run("rerun", measured, "--repeats", "2", "--factor", "1.6", "--fail")
    assert done.returncode == 0
    verdict = done.stdout.splitlines()[-1]
    assert verdict == "not worse: none of 1 is worse by more than a factor of 1.6"


def test_a_rerun_is_as_strict_as_a_comparison(run: Run, write: Write, measured: str) -> None:
    done = run("rerun", measured, "--strict")
    assert done.stdout.splitlines()[-1].startswith("cannot be told for 1 of 1")
    assert done.returncode == 1
    assert run("rerun", measured, "--repeats", "2", "--strict").returncode == 0
    write("seconds.txt", "3")
    assert run("rerun", measured, "--repeats", "2", "--strict").returncode == 1


def test_the_recorded_repeats_of_a_command_are_those_of_then(
    run: Run, write: Write, measured: str
) -> None:
    for other in ("--other", "--token"):  # another command of the same configuration is not it
        done = run("run", "--", sys.executable, "train.py", other, "s3cr3t")
        assert done.returncode == 0
    write("seconds.txt", "3")
    done = run("rerun", measured, "--repeats", "2", "--factor", "1.4", "--fail")
    assert done.returncode == 1
    assert ", 2 and 2 runs)" in done.stdout
    assert "s3cr3t" not in done.stderr


def test_a_kept_command_can_be_erased(run: Run, work: Path, measured: str) -> None:
    done = run("rerun", measured, "--forget")
    assert (done.returncode, done.stdout) == (0, f"erased the command of {measured[:12]}\n")
    assert not list((work.parent / "data" / "peft-registry" / "commands").glob("*.json"))
    again = run("rerun", measured, "--forget")
    assert (again.returncode, again.stderr) == (
        1,
        f"error: {measured[:12]}: no command is kept for it; nothing to do\n",
    )
    shown = run("rerun", measured, "--dry-run")
    assert "a synthetic trial of the same configuration is used instead" in shown.stderr


def test_erasing_an_observation_erases_its_command(run: Run, work: Path, measured: str) -> None:
    assert run("retract", measured, "--reason", "x", "--erase").returncode == 0
    assert not list((work.parent / "data" / "peft-registry" / "commands").glob("*.json"))


def test_a_command_is_not_kept_where_that_is_not_wanted(
    run: Run, work: Path, measured: str
) -> None:
    done = run("run", "--no-keep", "--", sys.executable, "train.py")
    assert done.returncode == 0
    (kept,) = (work.parent / "data" / "peft-registry" / "commands").glob("*.json")
    assert kept.stem == measured


def test_a_command_that_came_with_a_registry_is_not_run(
    run: Run, work: Path, measured: str
) -> None:
    """The registry of somebody else holds what was kept there; this user kept nothing."""
    kept = work.parent / "data" / "peft-registry" / "commands"
    for name in ("commands", "private"):
        shutil.copytree(kept, work.parent / "data" / "peft-registry" / "records" / name)
    run("rerun", measured, "--forget")
    shown = run("rerun", measured, "--dry-run")
    assert "runs again" not in shown.stderr
    assert "is used instead" in shown.stderr


def test_a_kept_command_that_others_may_write_is_not_run(
    run: Run, work: Path, measured: str
) -> None:
    kept = work.parent / "data" / "peft-registry" / "commands" / f"{measured}.json"
    kept.chmod(0o644)
    done = run("rerun", measured)
    assert (done.returncode, done.stdout) == (1, "")
    assert f"{kept}: found owner {os.geteuid()} and mode 644; expected what only" in done.stderr
    kept.chmod(0o600)
    kept.write_text('{"command": "rm -r x", "folder": "/", "training": 0}')
    assert f"{kept}: holds no command" in run("rerun", measured).stderr
    target = work / "elsewhere.json"
    target.write_text("{}")
    kept.unlink()
    kept.symlink_to(target)
    assert "cannot be read: Too many levels of symbolic links" in run("rerun", measured).stderr


def test_an_export_holds_no_command(run: Run, work: Path, measured: str) -> None:
    del measured
    assert run("export", "out").returncode == 0
    found = subprocess.run(
        ["grep", "-ra", "s3cr3t", "."], cwd=work, capture_output=True, check=False
    )
    assert found.stdout == b""
    records = work.parent / "data" / "peft-registry" / "records"
    found = subprocess.run(
        ["grep", "-ra", "s3cr3t", str(records)], cwd=work, capture_output=True, check=False
    )
    assert found.stdout == b""


@pytest.mark.parametrize("option", ["--no-keep", "--warmup-steps=3"])
def test_options_of_a_command_are_not_those_of_a_plan(run: Run, write: Write, option: str) -> None:
    write("p.toml", PLAN.format(""))
    done = run("run", "p.toml", option)
    assert done.returncode == 2
    assert "expected them only with a command after --" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--array"], "found --array with --backend local; expected it with --backend slurm"),
        (
            ["--backend", "slurm", "--address", "a:1"],
            "found --address with --backend slurm; expected it with --backend ray",
        ),
        (["--cpus", "2"], "found --cpus with --backend local; expected it with --backend ray or"),
        (
            ["--backend", "slurm", "--sbatch", "lab"],
            "--sbatch: found 'lab'; expected NAME=VALUE with a long name of sbatch, such as",
        ),
        (["--dry-run", "--", "true"], "found --dry-run with a command after --"),
        (["--cpus", "3", "--", "true"], "found --cpus with a command after --"),
        (["--no-resume", "--", "true"], "found --no-resume with a command after --"),
        (["--timeout", "9", "--", "true"], "registry run -- timeout SECONDS CMD"),
        (["--parallel", "2", "--", "true"], "found --parallel with a command after --"),
        (["--dataset", "x", "--", "true"], "found --dataset with a command after --"),
        (["--backend", "ray", "--", "true"], "found --backend ray with a command after --"),
    ],
)
def test_an_option_of_another_backend_is_a_wrong_call(
    run: Run, write: Write, options: list[str], said: str
) -> None:
    write("p.toml", PLAN.format(""))
    plan = [] if "--" in options else ["p.toml"]
    done = run("run", *plan, *options)
    assert done.returncode == 2
    assert said in " ".join(done.stderr.split())


def test_a_method_outside_the_vocabulary_is_recorded_as_it_was_found(
    run: Run, write: Write, submission: Callable[..., dict[str, Any]]
) -> None:
    document = submission()
    document["source"]["kind"] = "run"
    document["observations"][0]["configuration"]["method"] = "brandnewlora"
    write("record.json", document)
    assert run("run", "--", sys.executable, "-c", LEAVES).returncode == 5
    sql = "select method, provenance->>'method' as found from observations join configurations "
    sql += "using (configuration_id) where method = 'other'"
    done = run("query", sql, "-f", "json", "--no-curated")
    assert json.loads(done.stdout) == [{"method": "other", "found": "brandnewlora"}]


def test_an_interrupt_sent_to_the_command_alone_ends_the_measured_program(
    command: Path, environment: dict[str, str], work: Path
) -> None:
    with subprocess.Popen(
        [command, "run", "--", sys.executable, "-c", INTERRUPTED],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment,
        cwd=work,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate()
    assert process.returncode == 7
    assert stderr.decode() == NOTHING


def hand_in(run: Run, write: Write, submission: dict[str, Any], spec: Any) -> str:
    """Record an observation of a trial with this spec; return its id."""
    submission["observations"][0]["provenance"] = {"spec": spec}
    write("a.json", submission)
    done = run("add", "a.json", "--json")
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout)["observation_ids"][0])


def test_a_rerun_shows_exactly_what_it_would_run(
    run: Run, write: Write, submission: Callable[..., dict[str, Any]]
) -> None:
    spec = {
        "trial_id": "0123456789abcdef",
        "settings": {"model": "tiny", "seq_len": 8, "dataset": "/dev/zero"},
        "model": {"kind": "config", "config": {"model_type": "llama", "hidden_size": 8}},
    }
    observation_id = hand_in(run, write, submission(), spec)
    refused = run("rerun", observation_id, "--dry-run")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert refused.stderr.splitlines()[-1] == (
        "error: provenance.spec.settings.dataset: found '/dev/zero'; expected none: a data set is "
        "only read where you name it; add --dataset PATH"
    )
    data = write("data.jsonl", '{"input_ids": [1]}\n')
    done = run("rerun", observation_id, "--dry-run", "--dataset", "data.jsonl")
    assert done.returncode == 0
    assert [line.split(maxsplit=1) for line in done.stdout.splitlines()[1:3]] == [
        ["model", 'random weights of {"hidden_size": 8, "model_type": "llama"}'],
        ["data", str(data.resolve())],
    ]


def test_a_spec_that_names_a_module_is_not_run(
    run: Run, write: Write, work: Path, submission: Callable[..., dict[str, Any]]
) -> None:
    write("evil.py", "import pathlib; pathlib.Path('proof').touch()\n")
    spec = {
        "settings": {"model": "tiny", "peft": {"megatron_core": "evil"}},
        "model": {"kind": "config", "config": {"model_type": "llama"}},
    }
    done = run("rerun", hand_in(run, write, submission(), spec))
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        "error: provenance.spec.settings: peft.megatron_core: found 'evil'; expected a number"
    )
    assert not (work / "proof").exists()


def test_a_pipe_is_no_plan(run: Run, work: Path) -> None:
    os.mkfifo(work / "p.toml")
    done = run("run", "p.toml", "--dry-run")
    assert (done.returncode, done.stderr) == (
        1,
        "error: p.toml: found a pipe, expected a plan in a regular file; save it in one first\n",
    )
