"""Measure any command without editing it: ``registry run -- CMD…``.

A ``sitecustomize`` on the child's PYTHONPATH adds the recorder to every Python process of the
command, also below ``torchrun`` and ``accelerate launch``.
"""

from __future__ import annotations

import os
import re
import signal
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any

from registry.catalogue import Catalogue
from registry.errors import SourceError
from registry.measure.child_process import Finished, format_exit, run_in_foreground
from registry.measure.failure import Failure, is_consequence
from registry.measure.matching import tell_apart
from registry.measure.record_files import read_json
from registry.measure.recording.marks import Marks, read_marks
from registry.measure.recording.progress import WITHOUT_AN_END, assemble_files, check_ended
from registry.measure.recording.record import AT_ONCE
from registry.measure.running.records_folder import growing_files, read_run, records_folder
from registry.measure.running.trial_run import is_record, rank_of_failure
from registry.measure.trial_settings import RECORD_FOLDER, WARMUP_STEPS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

Row = dict[str, Any]

#: The folder of the ``sitecustomize``.
_SITE = Path(__file__).resolve().parents[1] / "recording" / "site"

#: Shells add this to the number of a signal that ended a command.
_SIGNAL_BASE = 128

#: What shells return for a command that is not found, and for one that may not be executed.
NOT_FOUND, NOT_EXECUTABLE = 127, 126


class CommandError(SourceError):
    """The command could not be started; ``status`` is what a shell would return."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True)
class WrappedRun:
    """What came of a measured command.

    Attributes:
        returncode: Exit status to pass on; 128 + n where signal n ended the command.
        seconds: Wall time of the command.
        submission: The trainings of the command; None where there was none.
        marks: Whether the recorder was loaded at all.
    """

    returncode: int
    seconds: float
    submission: Row | None
    marks: Marks


def run_command(
    command: Sequence[str],
    *,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
    warmup_steps: int | None = None,
    label: str | None = None,
) -> WrappedRun:
    """Run a command with the recorder in it; its input and output stay the caller's.

    It runs in ``folder``, the current one if None. ``warmup_steps`` is how many first steps the
    figures leave out, ``label`` the release that is measured. Several trainings of one command
    become several observations of one submission. Raises CommandError where the command cannot be
    started. Ctrl-C reaches the child, whose end is awaited. Where this process is killed, the
    command goes on, and :func:`recover_run` returns what its processes record.
    """
    environment = dict(environment or os.environ)
    run = {"wrapped": format_command(command)} | ({"label": label} if label else {})
    with records_folder(run) as own:
        wrapped = wrapped_environment(environment, str(own))
        if warmup_steps is not None:
            wrapped[WARMUP_STEPS] = str(warmup_steps)
        finished = _run(command, wrapped, folder)
        records, marks = list(read_folder(own)), read_marks(own)
    returncode = finished.returncode
    status = returncode if returncode >= 0 else _SIGNAL_BASE - returncode
    hidden = _words_to_hide(command, environment)
    submission = _unite(records, run, finished, hidden)
    return WrappedRun(status, finished.seconds, submission, marks)


def recover_run(folder: Path) -> Row | None:
    """Return the trainings of a command whose ``registry run`` was killed, from its folder.

    None where nothing was recorded. Raises SourceError while one of them goes on.
    """
    check_ended(growing_files(folder))
    run = {name: word for name, word in read_run(folder).items() if name in ("wrapped", "label")}
    return _unite(list(read_folder(folder)), run, None, _words_to_hide((), os.environ))


def wrapped_environment(environment: Mapping[str, str], folder: str) -> dict[str, str]:
    """Return the child's environment: the caller's, with the recorder's folders."""
    paths = [str(_SITE), *filter(None, [environment.get("PYTHONPATH")])]
    return {**environment, "PYTHONPATH": os.pathsep.join(paths), RECORD_FOLDER: folder}


def _run(command: Sequence[str], environment: dict[str, str], folder: Path | None) -> Finished:
    ours = {
        name: environment[name] for name in (RECORD_FOLDER, WARMUP_STEPS) if name in environment
    }
    kept = keep_variables(command, first={"PYTHONPATH": str(_SITE)}, exact=ours)
    try:
        return run_in_foreground(kept, environment=environment, folder=folder)
    except OSError as error:
        status = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
        message = f"{command[0]}: cannot be started: {error.strerror or error}"
        raise CommandError(f"{message}; expected a command to measure", status) from None


def read_folder(folder: Path) -> Iterator[Row]:
    """Yield the records that the processes of a command left."""
    for path in sorted(folder.glob("record-*.json")):
        if is_record(document := read_json(path)):
            yield document
    yield from assemble_files(growing_files(folder))


def _unite(
    records: list[Row], run: Mapping[str, str], finished: Finished | None, hidden: Sequence[str]
) -> Row | None:
    """Return one submission of a command's records; None where there are none, or none of ours."""
    # anybody in the command may have written the records, and written anything
    with suppress(AttributeError, IndexError, KeyError, TypeError, ValueError):
        if records:
            submission = _recorded(records, run, finished)
            observations = submission["observations"]
            return submission | {"observations": [_without(each, hidden) for each in observations]}
    return None


def _recorded(records: list[Row], run: Mapping[str, str], finished: Finished | None) -> Row:
    """Return one submission with the trainings of the first rank, or the most telling failures.

    How the command ended is not known where nobody waited for it.
    """
    how = {**run} | ({} if finished is None else {"exit": format_exit(finished.returncode)})
    leading = _told_apart(_leading(records))
    observations = []
    for number, record in enumerate(leading, start=1):
        each = record["observations"][0]
        observation = {**each, "provenance": {**each.get("provenance", {}), **how}}
        is_last = number == len(leading)
        failure = None if finished is None else _judge(observation, finished, is_last=is_last)
        if failure is not None:
            observation |= {"outcome": failure.outcome, "outcome_detail": failure.detail}
            if failure.outcome == "unknown":  # then no step is known to have failed
                observation.pop("failed_step", None)
        observations.append(observation)
    return {
        **records[0],
        "models": _distinct(leading, "models", "model_id"),
        "gpus": _distinct(leading, "gpus", "gpu_id"),
        "observations": observations,
    }


#: Statuses of a command that a signal ended which somebody sends to end it.
_ENDED_BY_OTHERS = {
    status
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    for status in (-number, _SIGNAL_BASE + number)
}


def _judge(observation: Row, finished: Finished, *, is_last: bool) -> Failure | None:
    """Return how a training ended, where the command's end says more than its own record.

    A loop does not say when it is over: of several, the command's failure is the last one's. A
    process that only says that another is gone is no reason beside a kernel that killed one. A
    record without an end, of a command that ended well, is one whose recorder stopped by itself.
    """
    how = format_exit(finished.returncode)
    is_interrupted = observation["outcome"] == "interrupted"
    lost_another = observation["outcome"] == "error" and is_consequence(
        str(observation.get("outcome_detail", ""))
    )
    was_killed = finished.kernel_oom_kills and _can_be_killed(observation, finished.returncode)
    if was_killed and (is_interrupted or lost_another):
        return Failure("oom", f"{how} while the kernel killed processes for lack of memory")
    if is_interrupted and finished.returncode:
        return Failure("interrupted", how)
    if is_interrupted and observation.get("outcome_detail") == WITHOUT_AN_END.detail:
        return Failure("unknown", f"the recording stopped before the training ended; {how}")
    is_loop = observation.get("provenance", {}).get("trainer") == "loop"
    if is_loop and is_last and observation["outcome"] == "ok" and finished.returncode:
        return Failure("interrupted" if finished.returncode in _ENDED_BY_OTHERS else "error", how)
    return None


def _can_be_killed(observation: Row, returncode: int) -> bool:
    """Return whether a command's status is that of a killed one, or of a launcher of several."""
    killed = (-signal.SIGKILL, _SIGNAL_BASE + signal.SIGKILL)
    is_launched = observation["configuration"].get("gpus_per_node", 1) > 1
    return returncode in killed or (is_launched and returncode == 1)


def _leading(records: list[Row]) -> list[Row]:
    """Return the records of rank 0, unless another rank knows why the job failed.

    Of trainings that went on at once in one process each stands for itself.
    """
    started = sorted(records, key=lambda record: str(record["observations"][0].get("observed_at")))
    alone = [r for r in started if AT_ONCE in r["observations"][0].get("flags", ())]
    return [*alone, *_leading_ranks([record for record in started if record not in alone])]


def _leading_ranks(started: list[Row]) -> list[Row]:
    well = [r for r in started if r["observations"][0]["outcome"] == "ok"]
    telling = [r for r in started if r["observations"][0]["outcome"] in ("oom", "error")]
    if telling:
        return [*well, min(telling, key=rank_of_failure)]
    return started if well else started[:1]


def _told_apart(records: list[Row]) -> list[Row]:
    """Return the records with an id of its own for each model that they describe."""
    known = Catalogue()
    apart = []
    for record in records:
        apart.append(tell_apart(record, known))
        known = known.extended(apart[-1].get("models", ()), ())
    return apart


def _distinct(records: list[Row], part: str, key: str) -> list[Row]:
    return list({row[key]: row for record in records for row in record.get(part, ())}.values())


#: Entries of provenance that hold names of programs and classes alone.
_OURS = (
    "wrapped",
    "label",
    "exit",
    "command",
    "commit",
    "trainer",
    "model_class",
    "optimizer",
    "method",
)

#: Shortest value of an argument or a variable that is looked for in texts.
_SHORTEST_HIDDEN = 5


def _words_to_hide(command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return what arguments and variables say that nobody else is to read, the longest first."""
    parts = [part for word in command[1:] for part in (word, *re.split(r"[=:,@/ ]", word))]
    found = {word for word in (*parts, *environment.values()) if len(word) >= _SHORTEST_HIDDEN}
    return sorted(found - _PLAIN, key=len, reverse=True)


def _without(observation: Row, words: Sequence[str]) -> Row:
    """Return an observation whose free texts hold none of some words."""
    cleaned = {
        **observation,
        "provenance": {
            name: value if name in _OURS else _hide(value, words)
            for name, value in observation.get("provenance", {}).items()
        },
    }
    if "outcome_detail" in observation:
        cleaned["outcome_detail"] = _hide(observation["outcome_detail"], words)
    return cleaned


def _hide(value: Any, words: Sequence[str]) -> Any:
    if not isinstance(value, str):
        return value
    for word in words:
        value = value.replace(word, "…")
    return value


#: Words of launchers and frameworks that say what was run and hold nothing of a user's.
_PLAIN = frozenset(
    (
        *("python", "python3", "torchrun", "accelerate", "launch", "deepspeed", "env", "run"),
        *("trl", "sft", "dpo", "kto", "orpo", "grpo", "rloo", "reward", "swift", "rlhf", "pt"),
        *("llamafactory-cli", "train", "axolotl", "litgpt", "finetune", "finetune_lora"),
        *("finetune_full", "finetune_adapter", "pretrain", "tune", "lightning", "fabric", "uv"),
        *("bash", "sh", "srun", "nice", "time", "numactl", "xtuner", "fine_tune"),
    )
)
_MODULE = re.compile(r"[A-Za-z_][\w.]*")


def format_command(command: Sequence[str]) -> str:
    """Return what was run: programs, subcommands that are known, the script; no other argument.

    >>> format_command(["/usr/bin/python3", "-u", "train/sft.py", "--token", "secret"])
    'python3 sft.py'
    >>> format_command(["env", "TOKEN=secret", "trl", "sft", "--hub_token", "secret"])
    'env trl sft'
    """
    shown: list[str] = []
    for place, word in enumerate(command):
        name = Path(word).name
        before = command[place - 1] if place else ""
        if word == "-c":
            return " ".join([*shown, word])
        if before == "-m" and _MODULE.fullmatch(word):
            return " ".join([*shown, "-m", word])
        is_value = before.startswith("-") and "=" not in before and before != "-u"
        if not is_value:
            if name.endswith(".py") and "=" not in word:
                return " ".join([*shown, name])
            if name in _PLAIN or re.fullmatch(r"python3?(\.\d+)?", name):
                shown.append(name)
                continue
        if not shown and place == 0:
            shown.append(name)
    return " ".join(shown)


# Keep the recorder's variables in a command that begins with ``env`` and changes them itself.

#: Options of env(1): those whose value is the next word, and all others that leave the command to
#: the words that follow.
_SEPARATE = re.compile(r"-[uCa]|--(unset|chdir|argv0)")
_OTHER = re.compile(
    r"-|-[iv]+|-[uCa].+|--(ignore-environment|debug|list-signal-handling)|"
    r"--(unset|chdir|argv0|block-signal|default-signal|ignore-signal)=.*|"
    r"--(block|default|ignore)-signal",
    re.DOTALL,
)
_EMPTIES = re.compile(r"-|-v*i[iv]*|--ignore-environment")
_UNSETS = re.compile(r"(?:-u|--unset=)(.+)", re.DOTALL)


def keep_variables(
    command: Sequence[str], *, first: Mapping[str, str], exact: Mapping[str, str]
) -> list[str]:
    """Return a command whose ``env`` prefix, where it has one, leaves some variables in place.

    The paths of ``first`` go in front of what the prefix says, the values of ``exact`` replace it.
    A prefix with an option that is not known is left as it is.

    >>> keep_variables(["env", "PYTHONPATH=src", "python"], first={"PYTHONPATH": "/r"}, exact={})
    ['env', 'PYTHONPATH=src', 'PYTHONPATH=/r:src', 'python']
    >>> keep_variables(["env", "SEED=1", "python"], first={"PYTHONPATH": "/r"}, exact={})
    ['env', 'SEED=1', 'python']
    """
    options = _read_options(command)
    if options is None:
        return list(command)
    place = 1 + len(options)
    said: dict[str, str] = {}
    while place < len(command) and "=" in command[place]:
        name, _, value = command[place].partition("=")
        said[name], place = value, place + 1
    lost = {*said, *_read_unset(options)}
    empties = any(_EMPTIES.fullmatch(option) for option in options)
    ours = {
        name: os.pathsep.join(filter(None, [path, said.get(name)])) for name, path in first.items()
    }
    kept = [
        f"{name}={value}" for name, value in {**ours, **exact}.items() if empties or name in lost
    ]
    return [*command[:place], *kept, *command[place:]]


def _read_options(command: Sequence[str]) -> list[str] | None:
    """Return the options of a leading ``env``; None where there is no such prefix."""
    if not command or PurePath(command[0]).name != "env":
        return None
    options: list[str] = []
    words = iter(command[1:])
    for word in words:
        if word == "--":
            return [*options, word]
        if not word.startswith("-"):
            return options
        if _SEPARATE.fullmatch(word):
            options += [word, next(words, "")]
        elif _OTHER.fullmatch(word):
            options.append(word)
        else:
            return None
    return options


def _read_unset(options: Sequence[str]) -> set[str]:
    """Return the names of variables that options take out of the environment."""
    named = {found[1] for option in options if (found := _UNSETS.fullmatch(option))}
    return named | {name for option, name in pairwise(options) if option in ("-u", "--unset")}
