"""Commands that are measured without knowing it."""

from __future__ import annotations

import json
import os
import signal
import sys
import venv
from pathlib import Path
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.measure import child_process
from registry.measure.running.wrapped_command import (
    CommandError,
    format_command,
    read_folder,
    run_command,
    wrapped_environment,
)
from registry.measure.trial_settings import RECORD_FOLDER
from registry.submission.prepare import prepare_submission

#: What runs at the start of each Python of a measured command.
SITE = Path(child_process.__file__).parent / "recording" / "site" / "sitecustomize.py"

CATALOGUE = Catalogue(gpus={"cpu": {"gpu_id": "cpu"}})


def run(*command: str, **environment: str) -> Any:
    return run_command(command, environment={**os.environ, **environment})


@pytest.mark.parametrize(
    ("code", "returncode"),
    [
        ("pass", 0),
        ("raise SystemExit(7)", 7),
        ("raise MemoryError", 1),
        ("import os; os.kill(os.getpid(), 9)", 137),
        ("import os; os.kill(os.getpid(), 11)", 139),
    ],
)
def test_a_command_that_trains_nothing_records_nothing(code: str, returncode: int) -> None:
    done = run(sys.executable, "-c", code)
    assert (done.returncode, done.submission) == (returncode, None)


def test_output_streams_through(capfd: pytest.CaptureFixture[str]) -> None:
    run(sys.executable, "-c", "import sys; print('out'); print('err', file=sys.stderr)")
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("out\n", "err\n")


def test_a_command_that_is_no_python_records_nothing() -> None:
    assert run("true").submission is None


def test_a_command_that_cannot_be_started_has_the_status_of_a_shell(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no-such: cannot be started: No such file") as caught:
        run("no-such")
    assert caught.value.status == 127
    (tmp_path / "plain").write_text("text")
    with pytest.raises(CommandError) as caught:
        run(str(tmp_path / "plain"))
    assert caught.value.status == 126


def test_another_sitecustomize_runs_as_well(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.mine = 'ran'\n")
    code = "import sys; sys.exit(0 if sys.mine == 'ran' else 3)"
    assert run(sys.executable, "-c", code, PYTHONPATH=str(tmp_path)).returncode == 0


def test_a_python_that_is_too_old_is_told_in_a_line(tmp_path: Path) -> None:
    site = tmp_path / "sitecustomize.py"  # runs ours as an older Python would meet it
    site.write_text(
        "import runpy, sys\n"
        "sys.modules.pop('registry', None)\n"
        "if sys.version_info[:2] >= (3, 11):\n"
        "    sys.version_info = (3, 8, 18)\n"
        f"    runpy.run_path({str(SITE)!r})\n"
        "    assert 'registry' not in sys.modules\n"
    )
    done = run(sys.executable, "-c", "import sys; sys.exit(3)", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.submission) == (3, None)
    assert done.marks.trouble == "Python 3.8.18: the recorder expects Python 3.11 or newer"


def test_the_job_does_not_see_our_packages() -> None:
    code = (
        "import sys; sys.exit(sum('recording' not in p and 'site-packages' in p for p in sys.path))"
    )
    plain = run(sys.executable, "-I", "-c", code).returncode
    assert run(sys.executable, "-c", code).returncode == plain


def test_the_job_may_have_a_registry_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "registry").mkdir()
    (tmp_path / "registry" / "__init__.py").write_text("OURS = 7\n")
    (tmp_path / "registry" / "measure.py").write_text("OURS = 8\n")
    script = tmp_path / "train.py"
    script.write_text(
        "import sys\n"
        "assert 'registry' not in sys.modules\n"
        "import registry, registry.measure\n"
        "sys.exit(registry.OURS + registry.measure.OURS)\n"
    )
    assert run(sys.executable, str(script)).returncode == 15


def test_a_job_whose_environment_lacks_us_imports_what_reports(tmp_path: Path) -> None:
    integrations = tmp_path / "transformers" / "integrations"
    integrations.mkdir(parents=True)
    (tmp_path / "transformers" / "__init__.py").write_text("")
    (integrations / "__init__.py").write_text("")
    (integrations / "integration_utils.py").write_text("INTEGRATION_TO_CALLBACK = {}\n")
    code = "from transformers.integrations import integration_utils"
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python = str(environment / "bin" / "python")
    assert run(python, "-P", "-c", "import registry").returncode == 1
    assert run(python, "-P", "-c", code, PYTHONPATH=str(tmp_path)).returncode == 0


#: What a recording does once the package's name is out of the job's sight.
_DESCRIBE = """
import sys
with sys.excepthook.__globals__["own_modules"]():
    from registry.measure.recording.catalogue_rows import describe_model
    from registry.measure.environment import collect_environment
assert "registry" not in sys.modules
collect_environment()
for kind in ("llama", "qwen2", "gpt2", "mixtral", "net"):
    config = {"model_type": kind, "hidden_size": 8, "num_hidden_layers": 2, "vocab_size": 16}
    row = describe_model({**config, "num_attention_heads": 2, "intermediate_size": 16}, 99)
    assert row["n_params"] == 99
"""


def test_the_recorder_needs_nothing_by_a_name_that_is_out_of_sight(tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python = str(environment / "bin" / "python")
    assert run(python, "-P", "-c", _DESCRIBE).returncode == 0


#: A recorder that stops, in a process with an environment of its own.
_STOPS = """
import os, pathlib, resource, sys
{change}
with sys.excepthook.__globals__["own_modules"]():
    from registry.measure.recording.session import Session
    from registry.measure.trial_settings import options_of_environment
session = Session(options_of_environment())
assert session.options.warmup_steps == 7
{more}
session.step_aside(OSError("the file is closed"))
"""


def run_and_stop(change: str, more: str = "") -> Any:
    command = [sys.executable, "-c", _STOPS.format(change=change, more=more)]
    done = run_command(command, environment=dict(os.environ), warmup_steps=7)
    assert done.returncode == 0
    return done


@pytest.mark.parametrize("change", ["os.environ.clear()", f"os.environ[{RECORD_FOLDER!r}] = '/'"])
def test_a_recorder_keeps_its_folder_whatever_the_job_makes_of_its_environment(
    change: str,
) -> None:
    more = f"session._path().with_suffix('.jsonl').write_text({lines(step(1))!r})"
    done = run_and_stop(change, more)
    assert only(done)["configuration"]["method"] == "full"
    assert (done.marks.trouble or "").endswith(": OSError: the file is closed")


def test_a_recorder_that_can_write_no_file_says_that_it_stopped() -> None:
    done = run_and_stop("resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))")
    assert done.submission is None
    assert (done.marks.trouble or "").startswith("it could write no file")


def test_a_broken_recorder_does_not_break_the_job(tmp_path: Path) -> None:
    environment = wrapped_environment(os.environ, str(tmp_path / "does" / "not" / "exist"))
    assert RECORD_FOLDER in environment
    done = run_command([sys.executable, "-c", "print()"], environment=environment)
    assert done.returncode == 0


def test_garbage_in_the_folder_is_passed_over(tmp_path: Path) -> None:
    (tmp_path / "record-0-1-1.json").write_text('{"observations": "')
    (tmp_path / "record-0-1-2.jsonl").write_text('{"rank": 0, "training": {}}\n{"step"')
    (tmp_path / "record-0-1-3.jsonl").write_text("[1]")
    assert list(read_folder(tmp_path)) == []


#: A record as a process leaves it: the parts that are looked at before it is validated.
RECORD: dict[str, Any] = {
    "schema_version": 1,
    "source": {"source_id": "run-0", "title": "Recorded run 0", "kind": "run"},
    "models": [{"model_id": "tiny", "model_type": "llama"}],
    "observations": [
        {
            "outcome": "ok",
            "observed_at": "2026-01-02T03:04:05+00:00",
            "run_id": "0",
            "configuration": {"model_id": "tiny", "method": "full", "gpus_per_node": 1},
            "measurements": [{"metric": "total_time", "value": 1.0}],
        }
    ],
}


def run_and_leave(tmp_path: Path, name: str, content: str, last: str = "sys.exit(3)") -> Any:
    """Run a command that leaves a file in the folder of records."""
    (tmp_path / "content").write_text(content)
    code = (
        f"import os, shutil, sys; shutil.copy({str(tmp_path / 'content')!r}, "
        f"os.path.join(os.environ[{RECORD_FOLDER!r}], {name!r})); {last}"
    )
    return run_command([sys.executable, "-c", code], environment=dict(os.environ))


def test_a_record_of_a_process_is_what_is_recorded(tmp_path: Path) -> None:
    done = run_and_leave(tmp_path, "record-0-1-1.json", json.dumps(RECORD))
    assert done.returncode == 3
    assert done.submission["models"] == RECORD["models"]
    (observation,) = done.submission["observations"]
    assert observation["outcome"] == "ok"  # a trainer knows how its training ended
    assert observation["provenance"] == {"wrapped": "python -c", "exit": "exit status 3"}


def test_two_models_of_one_shape_in_a_command_stay_two(tmp_path: Path) -> None:
    for number, width in ((1, 8), (2, 16)):
        model = {"model_id": "tiny", "model_type": "llama", "head_dim": width}
        (row,) = RECORD["observations"]
        at = f"2026-01-02T03:04:0{number}+00:00"
        record = {**RECORD, "models": [model], "observations": [{**row, "observed_at": at}]}
        (tmp_path / f"record-0-1-{number}.json").write_text(json.dumps(record))
    code = (
        f"import os, shutil; shutil.copytree({str(tmp_path)!r}, os.environ[{RECORD_FOLDER!r}], "
        "dirs_exist_ok=True)"
    )
    done = run_command([sys.executable, "-c", code], environment=dict(os.environ))
    assert done.submission is not None
    widths = {row["model_id"]: row["head_dim"] for row in done.submission["models"]}
    named = [row["configuration"]["model_id"] for row in done.submission["observations"]]
    assert [widths[name] for name in named] == [8, 16]


def changed(**observation: Any) -> str:
    (row,) = RECORD["observations"]
    return json.dumps({**RECORD, "observations": [{**row, **observation}]})


@pytest.mark.parametrize(
    "content",
    [
        json.dumps({"observations": "none"}),
        json.dumps({**RECORD, "models": [1]}),
        json.dumps({**RECORD, "gpus": {"gpu_id": 1}}),
        changed(provenance=[1]),
        changed(configuration=1),
    ],
)
def test_a_malformed_record_never_changes_the_exit(content: str, tmp_path: Path) -> None:
    done = run_and_leave(tmp_path, "record-0-1-1.json", content)
    assert (done.returncode, done.submission) == (3, None)


def test_what_a_job_wrote_in_place_of_its_record_never_changes_the_exit(tmp_path: Path) -> None:
    strange: tuple[Any, ...] = (None, 5, "x", [[1]], {"a": [1]})
    contents = [
        lines(step(1), step(2), **{name: value})
        for name in (*LOOP, "flags", "counts")
        for value in strange
    ]
    contents += [
        lines(step(1), {**step(2), name: value})
        for name in ("peaks", "longest", "flags", "seconds_apart", "configuration")
        for value in (*strange, [["a", 0, "b"]], {"a": "b"})
    ]
    said: tuple[Any, ...] = (
        [],
        {"seconds": 5},
        {"seconds": {"a": "x"}},
        {"failure": {"a": 1}},
        {"peaks": 5},
    )
    contents += [lines(step(1), {"end": end}) for end in said]
    contents += [
        lines(step(1), {"step": {**step(2)["step"], name: value}})
        for name in ("seconds", "tokens", "samples", "step")
        for value in (*strange, 10**400)
    ]
    for number, content in enumerate(contents):
        (tmp_path / f"record-0-{number}-1.jsonl").write_text(content)
    done = run_and_leave(tmp_path, "record-0-a-1.jsonl", lines(step(1), step(2)))
    assert done.returncode == 3
    assert done.submission is not None


def test_steps_of_a_clock_that_shows_no_time_are_passed_over(tmp_path: Path) -> None:
    strange = [step(number, float(word)) for number, word in enumerate(("nan", "inf", "-inf"), 3)]
    done = run_and_leave(tmp_path, "record-0-1-1.jsonl", lines(step(1), step(2), *strange))
    (observation,) = done.submission["observations"]
    figures = {row["metric"]: row["value"] for row in observation["measurements"]}
    assert (figures["n_steps"], figures["step_time"]) == (2, 0.5)


#: The first line of a loop's file, and two steps.
LOOP: dict[str, Any] = {
    "run_id": "0",
    "observed_at": "2026-01-02T03:04:05.000+00:00",
    "configuration": {
        "method": "full",
        "n_nodes": 1,
        "gpus_per_node": 2,
        "sharding": "ddp",
        "micro_batch_size": 2,
        "grad_accum_steps": 1,
    },
    "environment": {"torch_version": "2.13.0"},
    "model": {"model_id": "tiny", "model_type": "llama"},
    "gpu": {"gpu_id": "cpu"},
    "provenance": {"trainer": "loop", "warmup_steps": 1},
}


def lines(*rows: dict[str, Any], rank: int = 0, n_ranks: int = 1, **changes: Any) -> str:
    first = {"rank": rank, "n_ranks": n_ranks, "training": {**LOOP, **changes}}
    return "".join(f"{json.dumps(row)}\n" for row in (first, *rows))


def step(number: int, seconds: float = 0.5, samples: int = 2) -> dict[str, Any]:
    return {"step": {"step": number, "seconds": seconds, "samples": samples, "tokens": 64}}


END = {
    "end": {"seconds": {"train_time": 1.5}, "peaks": [["host_rss", 0, 5_000_000]], "failure": None}
}


def only(done: Any) -> dict[str, Any]:
    prepare_submission(done.submission, CATALOGUE, origin="run")
    (observation,) = done.submission["observations"]
    assert isinstance(observation, dict)
    return observation


def total(observation: dict[str, Any], metric: str) -> float:
    found = (
        row["value"]
        for row in observation["measurements"]
        if row["metric"] == metric and row.get("scope", "total") == "total"
    )
    return float(next(found))


def test_a_loop_that_was_killed_is_interrupted_with_its_steps(tmp_path: Path) -> None:
    content = lines(step(1), step(2), step(3)) + '{"step": {"step": 4, "sec'
    last = f"os.kill(os.getpid(), {int(signal.SIGKILL)})"
    done = run_and_leave(tmp_path, "record-0-1-1.jsonl", content, last)
    observation = only(done)
    assert done.returncode == 137
    assert observation["outcome"] == "interrupted"
    assert observation["outcome_detail"] == "killed by signal 9 (SIGKILL)"
    assert total(observation, "n_steps") == 3
    assert [row["warmup"] for row in observation["samples"]] == [True, False, False]


def test_a_record_without_an_end_of_a_command_that_ended_well_is_no_interrupted_one(
    tmp_path: Path,
) -> None:
    content = lines(step(1), step(2))
    observation = only(run_and_leave(tmp_path, "record-0-1-1.jsonl", content, last="pass"))
    assert observation["outcome"] == "unknown"
    detail = "the recording stopped before the training ended; exit status 0"
    assert observation["outcome_detail"] == detail
    assert "failed_step" not in observation
    assert total(observation, "n_steps") == 2


def test_a_trainer_that_was_interrupted_in_a_command_that_ended_well_stays_so(
    tmp_path: Path,
) -> None:
    content = changed(outcome="interrupted", outcome_detail="KeyboardInterrupt")
    observation = only(run_and_leave(tmp_path, "record-0-1-1.json", content, last="pass"))
    assert observation["outcome"] == "interrupted"


@pytest.mark.parametrize(("last", "outcome"), [("", "ok"), ("raise SystemExit(3)", "error")])
def test_a_loop_ends_as_its_command_does(last: str, outcome: str, tmp_path: Path) -> None:
    content = lines(step(1), step(2), END)
    done = run_and_leave(tmp_path, "record-0-1-1.jsonl", content, last or "pass")
    assert only(done)["outcome"] == outcome


def test_the_processes_of_a_loop_are_one_observation(tmp_path: Path) -> None:
    for rank in (0, 1):
        rows = (step(1, 0.5 + rank), step(2, 0.25 + rank), END)
        (tmp_path / f"record-{rank}-{rank}-1.jsonl").write_text(lines(*rows, rank=rank))
    (record,) = read_folder(tmp_path)
    (observation,) = record["observations"]
    assert [row["seconds"] for row in observation["samples"]] == [1.5, 1.25]
    assert [row["samples"] for row in observation["samples"]] == [4, 4]
    assert total(observation, "peak_memory") == 10_000_000
    assert "flags" not in observation or observation["flags"] == ["short_run"]


def test_a_process_of_one_job_is_no_part_of_another(tmp_path: Path) -> None:
    alone = {**LOOP["configuration"], "gpus_per_node": 1, "sharding": "none"}
    content = lines(step(1), step(2), END, configuration=alone)
    (tmp_path / "record-0-1-1.jsonl").write_text(content)
    later = "2026-01-02T04:00:00.000+00:00"
    for rank in (0, 1):
        content = lines(step(1), END, rank=rank, observed_at=later)
        (tmp_path / f"record-{rank}-{rank + 2}-1.jsonl").write_text(content)
    found = [record["observations"][0] for record in read_folder(tmp_path)]
    assert [each["configuration"]["gpus_per_node"] for each in found] == [1, 2]
    assert [total(each, "n_samples") for each in found] == [4, 4]
    assert [total(each, "peak_memory") for each in found] == [5_000_000, 10_000_000]


def test_a_later_rank_alone_is_recorded_by_its_first_one(tmp_path: Path) -> None:
    (tmp_path / "record-3-1-1.jsonl").write_text(lines(step(1), END, rank=3))
    assert list(read_folder(tmp_path)) == []


def test_a_later_rank_alone_that_knows_why_is_recorded(tmp_path: Path) -> None:
    end = {"end": {**END["end"], "failure": {"outcome": "oom", "detail": "out of memory"}}}
    (tmp_path / "record-3-1-1.jsonl").write_text(lines(step(1), end, rank=3))
    (record,) = read_folder(tmp_path)
    assert record["observations"][0]["outcome"] == "oom"


def test_what_all_processes_did_is_not_told_by_some_of_them(tmp_path: Path) -> None:
    for rank in (0, 2):
        content = lines(step(1), step(2), END, rank=rank, n_ranks=3)
        (tmp_path / f"record-{rank}-{rank}-1.jsonl").write_text(content)
    (record,) = read_folder(tmp_path)
    (observation,) = record["observations"]
    assert observation["provenance"]["ranks_missing"] == 1
    peaks = [row for row in observation["measurements"] if row["metric"] == "peak_memory"]
    assert {(row["scope"], row["device_index"]) for row in peaks} == {
        ("per_gpu", 0),
        ("per_gpu", 2),
    }
    told = {row["metric"] for row in observation["measurements"]}
    assert not told & {"n_tokens", "n_samples", "tokens_per_second", "samples_per_second"}
    assert "contradictions" not in observation["provenance"]


def test_a_peak_of_some_processes_is_not_that_of_all(tmp_path: Path) -> None:
    (tmp_path / "record-0-1-1.jsonl").write_text(lines(n_ranks=2))
    (tmp_path / "record-1-2-1.jsonl").write_text(lines(END, rank=1, n_ranks=2))
    (record,) = read_folder(tmp_path)
    measurements = record["observations"][0]["measurements"]
    peaks = [row for row in measurements if row["metric"] == "peak_memory"]
    assert [(row["scope"], row["device_index"]) for row in peaks] == [("per_gpu", 1)]


def test_a_rank_that_knows_why_decides(tmp_path: Path) -> None:
    gone = {"end": {**END["end"], "failure": {"outcome": "error", "detail": "Broken pipe"}}}
    why = {"end": {**END["end"], "failure": {"outcome": "oom", "detail": "out of memory"}}}
    for rank, end in enumerate((gone, why)):
        name = f"record-{rank}-{rank}-1.jsonl"
        (tmp_path / name).write_text(lines(step(1), end, rank=rank))
    (record,) = read_folder(tmp_path)
    observation = record["observations"][0]
    assert (observation["outcome"], observation["outcome_detail"]) == ("oom", "out of memory")


@pytest.mark.parametrize(("flags", "n_found"), [([], 1), (["side_by_side"], 2)])
def test_of_trainings_at_once_in_a_process_each_fails_for_itself(
    flags: list[str], n_found: int, tmp_path: Path
) -> None:
    why = {"end": {**END["end"], "failure": {"outcome": "oom", "detail": "out of memory"}}}
    for number in (1, 2):
        content = lines(step(1), why, flags=flags, run_id=str(number))
        (tmp_path / f"record-0-1-{number}.jsonl").write_text(content)
    copy = f"import glob, os, shutil; [shutil.copy(name, os.environ[{RECORD_FOLDER!r}])"
    code = f"{copy} for name in glob.glob({str(tmp_path / '*.jsonl')!r})]"
    done = run(sys.executable, "-c", code)
    assert [one["outcome"] for one in done.submission["observations"]] == ["oom"] * n_found


def test_samples_that_contradict_the_batch_are_flagged(tmp_path: Path) -> None:
    (tmp_path / "record-0-1-1.jsonl").write_text(lines(step(1, samples=7), END))
    (record,) = read_folder(tmp_path)
    observation = record["observations"][0]
    assert observation["flags"] == ["figures_disagree", "short_run"]
    assert observation["provenance"]["contradictions"] == [
        "samples per step: 7 counted, 4 by the configuration"
    ]


SECRETS = ("s3cr3t-one", "s3cr3t-two", "s3cr3t-three", "s3cr3t-four", "s3cr3t-five")


def test_no_secret_of_the_command_is_recorded(tmp_path: Path) -> None:
    one, two, three, four, five = SECRETS
    failure = {"outcome": "error", "detail": f"ValueError: {one} {two}: {three}, {four}/{five}"}
    content = lines(step(1), {"end": {**END["end"], "failure": failure}}, model_reported=None)
    (tmp_path / "content").write_text(content)
    code = (
        f"import os, shutil; shutil.copy({str(tmp_path / 'content')!r}, "
        f"os.path.join(os.environ[{RECORD_FOLDER!r}], 'record-0-1-1.jsonl')); raise SystemExit(1)"
    )
    command = [sys.executable, "-c", code, "--token", two, f"--key={three}", f"hf://x:{four}@y"]
    done = run_command([*command, five], environment={**os.environ, "HF_TOKEN": one})
    text = json.dumps(done.submission)
    assert not [secret for secret in SECRETS if secret in text]
    assert only(done)["outcome_detail"] == "ValueError: … …: …, …/…"


def test_modules_of_the_current_folder_stay_out_of_reach(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "script").mkdir()
    for name in ("transformers", "sitecustomize", "registry", "json"):
        (tmp_path / "here" / f"{name}.py").write_text("raise SystemExit(9)\n")
    script = tmp_path / "script" / "train.py"
    script.write_text(
        "import os, sys, json\n"
        "sys.exit(any(os.path.samefile(path or '.', '.') for path in sys.path if "
        "os.path.isdir(path or '.')))\n"
    )
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.delenv("PYTHONPATH", raising=False)
    assert run(sys.executable, str(script)).returncode == 0
    assert run(sys.executable, str(script), PYTHONPATH="").returncode == 0


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        (["torchrun", "--nproc-per-node=2", "/data/train.py", "--key", "x"], "torchrun train.py"),
        (["python", "-m", "trainer.main", "--token=secret"], "python -m trainer.main"),
        (["/usr/bin/python3", "-c", "print('secret')"], "python3 -c"),
        (["env", "T=secret", "trl", "sft", "secret", "--hub_token", "secret"], "env trl sft"),
        (["accelerate", "launch", "--key", "secret.py", "a/b.py"], "accelerate launch b.py"),
        (["/opt/tool", "secret"], "tool"),
    ],
)
def test_arguments_are_not_recorded(command: list[str], shown: str) -> None:
    assert format_command(command) == shown


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_loop_that_somebody_ends_is_interrupted(tmp_path: Path, number: int) -> None:
    (tmp_path / "content").write_text(lines(step(1), END))
    code = (
        f"import os, shutil, signal; shutil.copy({str(tmp_path / 'content')!r}, "
        f"os.path.join(os.environ[{RECORD_FOLDER!r}], 'record-0-1-1.jsonl')); "
        f"signal.signal({int(number)}, signal.SIG_DFL); os.kill(os.getpid(), {int(number)})"
    )
    done = run_command([sys.executable, "-c", code])
    assert done.returncode == 128 + number
    assert only(done)["outcome"] == "interrupted"


@pytest.mark.parametrize(
    ("n_processes", "end", "outcome"),
    [
        (1, "os.kill(os.getpid(), 9)", "oom"),
        (1, "sys.exit(137)", "oom"),  # what a shell says of it
        (2, "sys.exit(1)", "oom"),  # what torchrun says of it
        (1, "sys.exit(1)", "interrupted"),
        (2, "sys.exit(2)", "interrupted"),
    ],
)
def test_a_job_that_the_kernel_killed_is_out_of_memory(
    n_processes: int, end: str, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([3, 4])
    monkeypatch.setattr(child_process, "count_oom_kills", lambda: next(kills))
    configuration = {"model_id": "tiny", "method": "full", "gpus_per_node": n_processes}
    left = changed(outcome="interrupted", configuration=configuration)
    done = run_and_leave(tmp_path, "record-0-1-1.json", left, last=f"import os; {end}")
    observation = only(done)
    assert observation["outcome"] == outcome
    says_kernel = "while the kernel killed processes for" in observation["outcome_detail"]
    assert says_kernel == (outcome == "oom")


@pytest.mark.parametrize(
    ("detail", "n_kills", "outcome"),
    [
        ("RuntimeError: connection reset", 1, "oom"),
        ("DistBackendError: nccl", 1, "oom"),
        ("RuntimeError: connection reset", 0, "error"),
        ("ValueError", 1, "error"),
    ],
)
def test_a_process_that_lost_another_to_the_kernel_is_out_of_memory(
    detail: str, n_kills: int, outcome: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kills = iter([3, 3 + n_kills])
    monkeypatch.setattr(child_process, "count_oom_kills", lambda: next(kills))
    configuration = {"model_id": "tiny", "method": "full", "gpus_per_node": 2}
    left = changed(outcome="error", outcome_detail=detail, configuration=configuration)
    observation = only(run_and_leave(tmp_path, "record-0-1-1.json", left, last="sys.exit(1)"))
    assert observation["outcome"] == outcome
    assert (observation["outcome_detail"] == detail) == (outcome == "error")
