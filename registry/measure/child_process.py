"""Start a child process, wait for its end, and leave nothing of it behind.

Everything here that starts a program goes through :func:`run_process` (its output into files) or
:func:`run_in_foreground` (its input and output the caller's). While one of them runs, orphans of
the child become children of this process (PR_SET_CHILD_SUBREAPER), so that a grandchild is found
wherever it moved: into a session of its own, or with an environment that it cleared.
"""

from __future__ import annotations

import ctypes
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.measure.memory_meter import count_oom_kills
from registry.measure.process_stat import PARENT, read_stat

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

#: Options of ``prctl`` (linux/prctl.h): the signal a process gets when its parent dies, and whether
#: orphans among its descendants become its children.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37

#: ``si_code`` of a signal that the kernel sent, as the terminal's driver does on Ctrl-C: it went to
#: the whole foreground group, the child included (sigaction(2)).
_SI_KERNEL = 0x80

#: Signals that would end this process and are meant for the command that it measures.
_PASSED_ON = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

#: Longest sleep while a child runs in the foreground: where the program has other threads, the
#: kernel may hand them the signal that says that the child has ended.
_LOOK_SECONDS = 0.2

#: Seconds that processes of a user's own command have to finish after the command itself has ended.
GRACE_SECONDS = 5.0

#: Environment variables that a trial's job gets: what finds programs, caches and devices, and what
#: tunes them. Keys and tokens are not among them.
_ALLOWED = re.compile(
    r"^(PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TMPDIR|VIRTUAL_ENV|LD_LIBRARY_PATH|XDG_CACHE_HOME|"
    r"HF_(HOME|HUB_CACHE|DATASETS_CACHE|HUB_OFFLINE|ENDPOINT)|TRANSFORMERS_OFFLINE|"
    r"(CUDA|NVIDIA|NCCL|GLOO|OMP|MKL|PYTORCH|TORCH|TORCHINDUCTOR|TRITON|BNB)_\w+|PYTHONHASHSEED)$"
)

#: Where this package lies.
_PACKAGES = Path(__file__).resolve().parents[2]

#: Files that a child's output goes to, in the folder that it runs in.
OUTPUT_NAME, ERRORS_NAME = "stdout.txt", "stderr.txt"


@dataclass(frozen=True)
class Finished:
    """How a child ended.

    Attributes:
        returncode: Its exit status (negative: the signal).
        seconds: How long it took.
        timed_out: Whether it was ended for its own time limit.
        kernel_oom_kills: How many processes the kernel killed for want of memory meanwhile.
        stopped_by: What ended it from outside, where that is known; the exit status says nothing
            then.
        load_average: The load of its machine at its end, where that may be another than this one.
    """

    returncode: int
    seconds: float
    timed_out: bool = False
    kernel_oom_kills: int = 0
    stopped_by: str | None = None
    load_average: float | None = None


def module_command(module: str, *arguments: str, python: str | None = None) -> list[str]:
    """Return the command that runs a module of ours.

    With ``-P`` Python does not look for modules in the current folder, where anybody may have put a
    ``transformers.py``.
    """
    return [python or sys.executable, "-P", "-m", module, *arguments]


def job_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that a job of ours gets.

    PYTHONSAFEPATH is ``-P`` for the interpreters that the job starts itself, as torchrun does. Of
    PYTHONPATH the folder alone is passed on that this package was found in.
    """
    allowed = {name: value for name, value in environment.items() if _ALLOWED.match(name)}
    folders = environment.get("PYTHONPATH", "").split(os.pathsep)
    own = [name for name in folders if name and Path(name).resolve() == _PACKAGES]
    return {**allowed, "PYTHONSAFEPATH": "1"} | ({"PYTHONPATH": own[0]} if own else {})


def run_process(
    command: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    timeout_seconds: float | None,
    stdin: bytes = b"",
) -> Finished:
    """Run a command in a folder to its end or to its time-out, its output into files there.

    The caller sleeps meanwhile and starts no other process. Raises OSError where the command cannot
    be started, and KeyboardInterrupt after the child has been killed.
    """
    kills, began = count_oom_kills(), time.monotonic()
    with (
        no_one_left_behind(grace_seconds=0),
        (folder / OUTPUT_NAME).open("wb") as output,
        (folder / ERRORS_NAME).open("wb") as errors,
        tempfile.TemporaryFile() as given,
    ):
        given.write(stdin)
        given.seek(0)
        child = subprocess.Popen(
            list(command),
            cwd=folder,
            env=dict(environment),
            stdin=given,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        try:
            in_time = wait_for_one([child.pid], timeout_seconds)
        finally:
            child.kill()
            child.wait()
    seconds = time.monotonic() - began
    return Finished(child.returncode, seconds, not in_time, count_oom_kills() - kills)


def run_in_foreground(
    command: Sequence[str], *, environment: Mapping[str, str], folder: Path | None = None
) -> Finished:
    """Run a command with the caller's input and output, and pass signals on to it.

    The command decides what it does on Ctrl-C, and when it ends. Raises OSError where it cannot be
    started.
    """
    kills, began = count_oom_kills(), time.monotonic()
    with no_one_left_behind(GRACE_SECONDS), _passing_on() as received:
        child = subprocess.Popen(list(command), env=dict(environment), cwd=folder)
        received.begin(child)
        _wait_and_pass_on(child, received.signals)
        seconds = time.monotonic() - began
    return Finished(child.returncode, seconds, kernel_oom_kills=count_oom_kills() - kills)


class _Received:
    """Signals on their way to a child; those that come before it is there wait for it."""

    def __init__(self) -> None:
        self.signals: set[signal.Signals] = set()
        self._child: subprocess.Popen[bytes] | None = None
        self._waiting: list[int] = []

    def pass_on(self, number: int, _: object = None) -> None:
        if self._child is None:
            self._waiting.append(number)
        else:
            self._child.send_signal(number)

    def begin(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        for number in self._waiting:
            child.send_signal(number)


@contextmanager
def _passing_on() -> Iterator[_Received]:
    """Catch the signals that are meant for the child."""
    received = _Received()
    with _handling(_PASSED_ON, received.pass_on) as received.signals:
        yield received


@contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Have SIGTERM and SIGHUP raise KeyboardInterrupt, as Ctrl-C does: the job must not go on."""
    with _handling((signal.SIGTERM, signal.SIGHUP), signal.default_int_handler):
        yield


@contextmanager
def _handling(
    signals: Collection[signal.Signals], handler: Callable[[int, Any], Any]
) -> Iterator[set[signal.Signals]]:
    """Handle signals, except those that are ignored, and return which.

    A handler is not inherited over exec and an ignored signal is, so that a command starts with
    what the caller of this program chose (``nohup``, a job in the background).
    """
    before: dict[signal.Signals, Any] = {}
    for each in signals:
        with suppress(ValueError):  # not in the main thread
            if signal.getsignal(each) not in (signal.SIG_IGN, None):
                before[each] = signal.signal(each, handler)
    try:
        yield set(before)
    finally:
        for each, known in before.items():
            signal.signal(each, known)


def _wait_and_pass_on(child: subprocess.Popen[bytes], signals: set[signal.Signals]) -> None:
    """Wait for the child; send it what was sent to this process alone."""
    watched = {*signals, signal.SIGCHLD}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, watched)
    try:
        while child.poll() is None:
            found = signal.sigtimedwait(watched, _LOOK_SECONDS)
            if found and found.si_signo in signals and found.si_code != _SI_KERNEL:
                child.send_signal(found.si_signo)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def wait_for_one(pids: Sequence[int], seconds: float | None) -> bool:
    """Sleep until one of some processes ends; return False where the time is up before."""
    with ExitStack() as opened:
        poll = select.poll()
        for pid in pids:
            descriptor = os.pidfd_open(pid)
            opened.callback(os.close, descriptor)
            poll.register(descriptor, select.POLLIN)
        return bool(poll.poll(None if seconds is None else max(int(seconds * 1000), 0)))


@contextmanager
def no_one_left_behind(grace_seconds: float) -> Iterator[None]:
    """End what was started within and still lives; children from before are spared."""
    spared = set(_read_children().get(os.getpid(), ()))
    with _adopting_orphans():
        try:
            yield
        finally:
            blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            try:  # a second Ctrl-C waits until they are gone
                _end_descendants(spared, grace_seconds)
            finally:
                signal.pthread_sigmask(signal.SIG_SETMASK, blocked)


@contextmanager
def _adopting_orphans() -> Iterator[None]:
    before = ctypes.c_int(0)
    _prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before))
    _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(1))
    try:
        yield
    finally:
        _prctl(_PR_SET_CHILD_SUBREAPER, ctypes.c_ulong(before.value))


def _prctl(option: int, value: Any) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def die_with_parent(number: signal.Signals = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when the one that started it dies."""
    _prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(number))


def _end_descendants(spared: set[int], grace_seconds: float) -> None:
    if grace_seconds and (found := _find_descendants(spared)):
        for pid in found:
            _send(pid, signal.SIGTERM)
        _wait_for_all(found, grace_seconds)
    spared = set(spared)
    while found := _find_descendants(spared):  # the orphans of those that die are found next
        for pid in found:
            if _send(pid, signal.SIGKILL):
                with suppress(ChildProcessError):  # its own parent, soon dead, has not reaped it
                    os.waitpid(pid, 0)
            else:
                spared.add(pid)  # of another user, as sudo starts them


def _send(pid: int, number: signal.Signals) -> bool:
    """Send a signal; return False where that is not allowed."""
    try:
        os.kill(pid, number)
    except PermissionError:
        return False
    except ProcessLookupError:
        pass
    return True


def _wait_for_all(pids: Collection[int], seconds: float) -> None:
    end = time.monotonic() + seconds
    for pid in pids:
        with suppress(ProcessLookupError):
            wait_for_one([pid], end - time.monotonic())


def _find_descendants(spared: Collection[int]) -> list[int]:
    """Return the descendants of this process, without those spared and what descends from them."""
    children = _read_children()
    found, waiting = [], [os.getpid()]
    while waiting:
        new = [pid for pid in children.get(waiting.pop(), ()) if pid not in spared]
        found += new
        waiting += new
    return found


def _read_children() -> dict[int, list[int]]:
    """Return the processes of this machine by their parent."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            parent = int(read_stat(path.name)[PARENT])
            children.setdefault(parent, []).append(int(path.name))
    return children


def format_exit(returncode: int) -> str:
    """Return an exit status in words.

    >>> format_exit(-9)
    'killed by signal 9 (SIGKILL)'
    """
    if returncode >= 0:
        return f"exit status {returncode}"
    try:
        name = signal.Signals(-returncode).name
    except ValueError:
        return f"killed by signal {-returncode}"
    return f"killed by signal {-returncode} ({name})"
