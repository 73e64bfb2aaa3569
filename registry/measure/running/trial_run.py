"""Run one trial in a child process and say what came of it, whatever happens to the child."""

from __future__ import annotations

import os
import re
import signal
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from registry.measure.child_process import (
    ERRORS_NAME,
    Finished,
    format_exit,
    job_environment,
    module_command,
    run_process,
)
from registry.measure.failure import (
    TELLING,
    Failure,
    rank_outcome,
    shorten,
    text_says_limit,
    text_says_out_of_memory,
)
from registry.measure.matching import match_to_catalogue
from registry.measure.record_files import read_json, write_json
from registry.measure.recording.progress import SUFFIX, assemble_files
from registry.measure.running.slots import VISIBLE, Slot
from registry.measure.running.unfinished import describe_unfinished
from registry.text import format_slug

if TYPE_CHECKING:
    from pathlib import Path

    from registry.catalogue import Catalogue
    from registry.measure.running.trials import Trial

Row = dict[str, Any]

JOB_MODULE = "registry.measure.running.job"

#: Files of a trial's folder: what the job is told, and what it leaves.
SPEC_NAME, RESULT_NAME = "spec.json", "result.json"

#: Characters of the child's last words that are looked at.
_LAST_WORDS = 20_000

#: How the last line of a traceback begins.
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(Error|Exception)\b")

#: The part of its limit that a job has used at least where the limit is what it met.
_MET = 0.5


@dataclass(frozen=True)
class TrialResult:
    """What came of a trial: its outcome in words, and the submission that records it."""

    trial: Trial
    outcome: str
    detail: str | None
    seconds: float
    submission: Row


def run_trial(
    trial: Trial,
    folder: Path,
    *,
    catalogue: Catalogue | None = None,
    python: str | None = None,
    environment: Row | None = None,
) -> TrialResult:
    """Run a trial in ``folder`` and return its result; a failure of the child is a result too.

    ``python`` is the job's interpreter and ``environment`` what is installed there; by default
    both are this process's. The folder then holds the spec, the child's output and the result.
    Raises OSError where the child cannot be started, and KeyboardInterrupt after the child has been
    killed.
    """
    folder = prepare_folder(trial, folder)
    finished = run_process(
        job_command(trial, folder, python),
        environment=trial_environment(trial),
        folder=folder,
        timeout_seconds=trial.settings.timeout_seconds,
    )
    return conclude(trial, folder, finished, catalogue=catalogue, environment=environment)


def prepare_folder(trial: Trial, folder: Path) -> Path:
    """Make the folder that a trial's job runs in, with its spec; return its absolute path."""
    folder = folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for stale in folder.glob("result*.json*"):
        stale.unlink()
    write_json(folder / SPEC_NAME, trial.as_spec())
    return folder


def conclude(
    trial: Trial,
    folder: Path,
    finished: Finished,
    *,
    catalogue: Catalogue | None = None,
    environment: Row | None = None,
) -> TrialResult:
    """Return the result of a trial whose job has ended.

    ``environment`` is the one of its interpreter, where that is not this process's.
    """
    document = read_results(folder)
    failure = judge(finished, document, trial, _last_words(folder / ERRORS_NAME))
    document = complete(document, trial.as_spec(), failure, finished, environment)
    document = {**document, "source": name_source(trial, document["source"])}
    if catalogue is not None:
        document = match_to_catalogue(document, catalogue, prefer=trial.model.get("model_id"))
    observation = document["observations"][0]
    detail = observation.get("outcome_detail")
    return TrialResult(trial, observation["outcome"], detail, finished.seconds, document)


@dataclass(frozen=True)
class Team:
    """Where a node stands among those of a trial: its number, and how the first one is reached."""

    rank: int
    address: str
    port: int


def job_command(
    trial: Trial, folder: Path, python: str | None = None, team: Team | None = None
) -> list[str]:
    """Return the command of a trial's job: torchrun where there are several processes."""
    job = (JOB_MODULE, str(folder / SPEC_NAME), str(folder / RESULT_NAME))
    if trial.settings.n_devices == 1:
        return module_command(*job, python=python)
    processes = f"--nproc-per-node={trial.settings.n_gpus}"
    meeting: tuple[str, ...] = ("--standalone",)
    if team is not None:
        meeting = (
            f"--nnodes={trial.settings.n_nodes}",
            f"--node-rank={team.rank}",
            f"--master-addr={team.address}",
            f"--master-port={team.port}",
        )
    options = (*meeting, processes, "--module")
    return module_command("torch.distributed.run", *options, *job, python=python)


def trial_environment(
    trial: Trial, slot: Slot | None = None, *, n_cpus: int | None = None
) -> dict[str, str]:
    """Return the environment of a trial's job, which sees the GPUs of its slot alone.

    ``n_cpus`` is how many processors it may use, where the system does not hold it to those.
    """
    slot = slot or Slot()
    environment = job_environment(os.environ)
    environment["PYTHONUNBUFFERED"] = "1"
    environment["TOKENIZERS_PARALLELISM"] = "false"
    if trial.settings.weights == "random":
        environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    if trial.settings.n_devices > 1 or trial.settings.device == "cpu":
        # half the processors: OpenMP's threads wait for each other by spinning, so that one
        # processor taken by somebody else makes a step a hundred times longer
        n_seen = len(slot.cpus or os.sched_getaffinity(0))
        n_threads = min(n_cpus or n_seen, n_seen) // 2 // trial.settings.n_gpus
        environment.setdefault("OMP_NUM_THREADS", str(max(n_threads, 1)))
    if slot.gpus:
        environment[VISIBLE] = ",".join(slot.gpus)
    return environment


def read_results(folder: Path) -> Row | None:
    """Return the most telling record that the processes of a job left; None where none is one."""
    paths = sorted(folder.glob("result*.json"))
    documents: list[Row] = [found for path in paths if is_record(found := read_json(path))]
    documents += assemble_files(folder.glob(f"result*{SUFFIX}"))
    if not documents:
        return None
    if (folder / RESULT_NAME).exists() and _outcome(documents[0]) == "ok":
        return documents[0]
    return min(documents, key=rank_of_failure)


def rank_of_failure(document: Row) -> tuple[int, bool]:
    """Return how little a record says of why its job failed: the least is the one to keep."""
    detail = str(document["observations"][0].get("outcome_detail", ""))
    return rank_outcome(_outcome(document), detail)


def is_record(document: Any) -> bool:
    """Return whether a document has the form of a record; what it says is validated later."""
    observations = document.get("observations") if isinstance(document, dict) else None
    return (
        isinstance(observations, list)
        and len(observations) == 1
        and isinstance(observations[0], dict)
        and isinstance(observations[0].get("configuration"), dict)
        and observations[0].get("outcome") in TELLING
    )


def _outcome(document: Row) -> str:
    return str(document["observations"][0]["outcome"])


def judge(
    finished: Finished, document: Row | None, trial: Trial, last_words: str
) -> Failure | None:
    """Return how a trial failed, where its own record does not say it; None where it does."""
    told = _outcome(document) if document is not None else None
    if finished.timed_out:
        limit = trial.settings.timeout_seconds
        return Failure("interrupted", f"time limit of {limit:g} s", None)
    if finished.stopped_by is not None:
        return Failure("interrupted", f"stopped by {finished.stopped_by}")
    if told == "oom" or (told == "ok" and finished.returncode == 0):
        return None
    met = _judge_limit(document, trial, last_words)
    if met is not None or told == "error":
        return met
    return _judge_exit(finished, last_words, has_record=document is not None)


def _judge_limit(document: Row | None, trial: Trial, last_words: str) -> Failure | None:
    """Return that a job met its memory limit, where it says so in words that leave it open."""
    limit = trial.settings.memory_limit_bytes
    observation = document["observations"][0] if document is not None else {}
    own = observation.get("outcome_detail") if observation.get("outcome") == "error" else None
    if limit is None or not text_says_limit(own or last_words):
        return None
    figures = observation.get("measurements", ())
    peaks = [row["value"] for row in figures if row["metric"] == "peak_memory"]
    if peaks and max(peaks) < limit * _MET:
        return None
    return Failure("oom", f"at the memory limit: {own}" if own else "at the memory limit")


def _judge_exit(finished: Finished, last_words: str, *, has_record: bool) -> Failure:
    how, returncode = format_exit(finished.returncode), finished.returncode
    if (cause := find_root_cause(last_words)) is not None:
        how, returncode = f"{how}; {cause}", cause.returncode
    if finished.kernel_oom_kills and returncode < 0:
        return Failure("oom", f"{how} while the kernel killed processes for lack of memory")
    if text_says_out_of_memory(last_words):
        return Failure("oom", f"{how}; its last output mentions memory")
    if returncode == 0:
        return Failure("error", f"{how}, but the job left no readable result")
    said = last_words.strip().rsplit("\n", 1)[-1]
    outcome = "interrupted" if returncode == -signal.SIGKILL else "error"
    is_reason = not has_record or _EXCEPTION.match(said)
    if cause is not None or not said or outcome == "interrupted" or not is_reason:
        return Failure(outcome, how)
    return Failure(outcome, shorten(f"{how}: {said}"))


def complete(
    document: Row | None,
    spec: Row,
    failure: Failure | None,
    finished: Finished,
    environment: Row | None = None,
) -> Row:
    """Return the submission of a trial, with what the parent knows of its end."""
    if document is None:
        # No failure of its own and no record: judge() has said so.
        document = describe_unfinished(spec, failure or Failure("error", "no result"), environment)
    observation = dict(document["observations"][0])
    if failure is not None:
        observation |= {"outcome": failure.outcome, "outcome_detail": failure.detail}
        if failure.outcome == "oom" and not observation.get("failed_step"):
            observation["measurements"] = _without_step_times(observation)
    observation["provenance"] = {
        **observation.get("provenance", {}),
        "spec": spec,
        "process_seconds": round(finished.seconds, 3),
        "exit": _format_end(finished),
        "load_average": round(_load_average(finished), 2),
    }
    return {**document, "observations": [observation]}


def _format_end(finished: Finished) -> str:
    if finished.stopped_by is not None:
        return f"stopped by {finished.stopped_by}"
    return format_exit(finished.returncode)


def _load_average(finished: Finished) -> float:
    return os.getloadavg()[0] if finished.load_average is None else finished.load_average


def name_source(trial: Trial, recorded: Row) -> Row:
    """Return the source of a trial's record: all trials of a plan are one source, named after it.

    A trial of no plan, or of one whose name no id can hold, keeps the source of its own.
    """
    name = format_slug(trial.plan, "")
    if not name:
        return {**recorded, "title": "Trial of the registry's runner"}
    return {**recorded, "source_id": name, "title": f"Trials of the plan {name}"}


def mark_neighbours(result: TrialResult, n_beside: int) -> TrialResult:
    """Return the result with the word that others ran at the same time, if there were any."""
    if not n_beside:
        return result
    (observation,) = result.submission["observations"]
    marked = {
        **observation,
        "flags": sorted({*observation.get("flags", ()), "side_by_side"}),
        "provenance": {**observation["provenance"], "trials_beside": n_beside},
    }
    return replace(result, submission={**result.submission, "observations": [marked]})


def _without_step_times(observation: Row) -> list[Row]:
    return [row for row in observation.get("measurements", []) if row["metric"] != "step_time"]


def _last_words(path: Path) -> str:
    try:
        with path.open("rb") as file:
            file.seek(0, os.SEEK_END)
            file.seek(max(file.tell() - _LAST_WORDS, 0))
            return file.read().decode("utf-8", errors="replace")
    except OSError:
        return ""


# What torchrun says of the process that ended a job of several; its own status is always 1.

_ROOT_CAUSE = re.compile(
    r"^Root Cause \(first observed failure\):\s*\n\[\d+\]:\s*\n(?:  .*\n)*?"
    r"  rank +: (\d+).*\n  exitcode +: (-?\d+)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class _RootCause:
    """The first process of a job that failed, and its exit status (negative: the signal)."""

    rank: int
    returncode: int

    def __str__(self) -> str:
        """Return it in words."""
        return f"rank {self.rank} failed first: {format_exit(self.returncode)}"


def find_root_cause(last_words: str) -> _RootCause | None:
    r"""Return what torchrun names as the root cause at the end of its output, if it does.

    >>> said = "Root Cause (first observed failure):\n[0]:\n  time      : now\n"
    >>> said += "  rank      : 1 (local_rank: 1)\n  exitcode  : -6 (pid: 9)  (SIGABRT)\n"
    >>> str(find_root_cause(said))
    'rank 1 failed first: killed by signal 6 (SIGABRT)'
    """
    found = _ROOT_CAUSE.findall(last_words)
    return _RootCause(int(found[-1][0]), int(found[-1][1])) if found else None
