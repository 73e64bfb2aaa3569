"""Children are started safely, get the signals that are theirs, and leave no process behind."""

from __future__ import annotations

import ctypes
import fcntl
import os
import pty
import signal
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from registry.measure.child_process import (
    Finished,
    interrupted_by_signals,
    job_environment,
    module_command,
    run_in_foreground,
    run_process,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

#: Runs a command in the foreground and adds 100 to its exit status.
DRIVER = """
import os, sys
from registry.measure.child_process import run_in_foreground
sys.exit(100 + run_in_foreground(sys.argv[1:], environment=os.environ).returncode)
"""

#: Waits for SIGINT and ends with status 7.
PATIENT = """
import signal, sys
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
sys.exit(7)
"""

#: Waits for SIGINT, then for a line, and says whether another SIGINT has come by then. It begins
#: once its parent is ready to tell where a signal comes from.
COUNTING = """
import os, signal
from pathlib import Path

def is_parent_ready():
    status = Path(f"/proc/{os.getppid()}/status").read_text()
    return int(status.partition("SigBlk:")[2].split()[0], 16) >> signal.SIGINT - 1 & 1

signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
while not is_parent_ready():
    os.sched_yield()
print("ready", flush=True)
signal.sigwait({signal.SIGINT})
print("got one", flush=True)
input()
print("and then:", "another" if signal.SIGINT in signal.sigpending() else "nothing", flush=True)
"""

#: Starts a daemon (two forks, a session of its own, no environment), and ends once it runs and its
#: pid is in a file.
DAEMONIZE = """
import os, sys
from pathlib import Path
program = "import os, signal; print(os.getpid(), flush=True); os.close(1); signal.pause()"
reading, writing = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.dup2(writing, 1)
        os.execve(sys.executable, [sys.executable, "-c", program], {})
    os._exit(0)
os.wait()
Path(sys.argv[1]).write_bytes(os.read(reading, 100))
"""


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


@pytest.fixture
def driver(request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    """Return a driver that runs the test's program, which has said that it is ready."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, sys.executable, "-c", request.param],
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    yield process
    process.kill()
    process.wait()
    process.stdout.close()


@pytest.mark.parametrize("driver", [PATIENT], indirect=True)
def test_an_interrupt_sent_to_this_process_alone_reaches_the_command(
    driver: subprocess.Popen[bytes],
) -> None:
    driver.send_signal(signal.SIGINT)
    assert driver.wait(timeout=300) == 107


@pytest.mark.parametrize("driver", [PATIENT], indirect=True)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_that_ends_the_command_is_its_exit_status(
    driver: subprocess.Popen[bytes], number: signal.Signals
) -> None:
    driver.send_signal(number)
    assert driver.wait(timeout=300) == 100 - number


def test_ctrl_c_in_the_terminal_reaches_the_command_once() -> None:
    leader, follower = pty.openpty()
    settings = termios.tcgetattr(follower)
    settings[3] |= termios.NOFLSH  # else Ctrl-C throws away what is being shown
    termios.tcsetattr(follower, termios.TCSANOW, settings)
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, sys.executable, "-c", COUNTING],
        stdin=follower,
        stdout=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(follower, termios.TIOCSCTTY, 0),  # noqa: PLW1509 - one thread
    )
    os.close(follower)
    try:
        read_until(leader, "ready")
        os.write(leader, b"\x03")
        read_until(leader, "got one")
        os.write(leader, b"\n")
        assert "and then: nothing" in read_until(leader, "and then:", more=8)
        assert process.wait(timeout=300) == 100
    finally:
        process.kill()
        process.wait()
        os.close(leader)


def read_until(descriptor: int, word: str, more: int = 0) -> str:
    """Read from a terminal until a word, and so many characters after it, were shown."""
    shown = ""
    while word not in shown or len(shown.partition(word)[2]) < more:
        shown += os.read(descriptor, 1).decode()
    return shown


def test_an_ignored_signal_stays_ignored_for_the_command() -> None:
    code = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    done = subprocess.run(
        ["nohup", sys.executable, "-c", DRIVER, sys.executable, "-c", code],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (100, b"True\n")


def daemon_of(run: Any, folder: Path) -> int:
    """Run a command that leaves a daemon behind; return the daemon's pid."""
    run([sys.executable, "-c", DAEMONIZE, str(folder / "pid")])
    return int((folder / "pid").read_text())


def test_a_daemon_that_a_trial_leaves_behind_is_ended(tmp_path: Path) -> None:
    def run(command: list[str]) -> Finished:
        environment = job_environment(os.environ)
        return run_process(command, environment=environment, folder=tmp_path, timeout_seconds=60)

    assert not is_alive(daemon_of(run, tmp_path))


def test_a_daemon_that_a_measured_command_leaves_behind_is_ended(tmp_path: Path) -> None:
    def run(command: list[str]) -> Finished:
        return run_in_foreground(command, environment=os.environ)

    assert not is_alive(daemon_of(run, tmp_path))


def test_children_from_before_are_spared(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", PATIENT], stdout=subprocess.PIPE) as other:
        assert other.stdout is not None
        other.stdout.readline()
        run_process(["true"], environment={}, folder=tmp_path, timeout_seconds=60)
        assert other.poll() is None
        other.send_signal(signal.SIGINT)
        assert other.wait(timeout=300) == 7


def test_orphans_are_adopted_only_while_a_child_runs(tmp_path: Path) -> None:
    run_process(["true"], environment={}, folder=tmp_path, timeout_seconds=60)
    adopts = ctypes.c_int(1)
    assert ctypes.CDLL(None).prctl(37, ctypes.byref(adopts), 0, 0, 0) == 0  # the option to ask
    assert adopts.value == 0


def test_a_program_that_cannot_be_started_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        run_process(["no-such"], environment={}, folder=tmp_path, timeout_seconds=None)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_that_end_the_program_end_its_job_first(number: signal.Signals) -> None:
    before = signal.getsignal(number)
    with pytest.raises(KeyboardInterrupt), interrupted_by_signals():
        os.kill(os.getpid(), number)
    assert signal.getsignal(number) == before


def test_modules_of_the_current_folder_are_not_imported(tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("raise SystemExit('the current folder is on the path')\n")
    (tmp_path / "transformers.py").write_text("raise SystemExit('so is it here')\n")
    command = module_command("json.tool", "--help")
    assert command[1] == "-P"
    done = run_process(
        command, environment=job_environment(os.environ), folder=tmp_path, timeout_seconds=60
    )
    assert (done.returncode, (tmp_path / "stderr.txt").read_text()) == (0, "")


def test_interpreters_that_a_job_starts_do_not_look_there_either(tmp_path: Path) -> None:
    (tmp_path / "transformers.py").write_text("raise SystemExit('found')\n")
    inner = (
        "import importlib.util as u, sys; s = u.find_spec('transformers'); print(s and s.origin)"
    )
    outer = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {inner!r}], check=True)"
    run_process(
        [sys.executable, "-P", "-c", outer],
        environment=job_environment(os.environ),
        folder=tmp_path,
        timeout_seconds=60,
    )
    said = (tmp_path / "stdout.txt").read_text()
    assert said
    assert str(tmp_path) not in said
