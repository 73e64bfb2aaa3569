"""Two calls of the same trials are kept apart, on one machine and on several."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pytest

from registry.errors import SourceError
from registry.measure.running import held_trials
from registry.measure.running.held_trials import FOLDER

if TYPE_CHECKING:
    from pathlib import Path

hold_trials = partial(held_trials.hold_trials, origin="sweep")

HOLD = (
    "import sys, time\n"
    "from pathlib import Path\n"
    "from registry.measure.running.held_trials import hold_trials\n"
    "with hold_trials(Path(sys.argv[1]), ['a', 'b'], origin='p'):\n"
    "    print('held', flush=True)\n"
    "    time.sleep(600)\n"
)


def test_a_trial_in_other_hands_is_refused_with_whose_they_are(tmp_path: Path) -> None:
    with hold_trials(tmp_path, ["a", "b"]), pytest.raises(SourceError) as refused:
        hold_trials(tmp_path, ["b", "c", "d"]).__enter__()
    assert str(refused.value) == (
        f"sweep: found 1 of 3 trials held by another call (process {os.getpid()} on "
        f"{socket.gethostname()}); expected one call at a time; wait until that one has ended, or "
        "end it: what it has recorded is not run again"
    )


def test_other_trials_are_free_and_so_are_all_at_the_end(tmp_path: Path) -> None:
    with hold_trials(tmp_path, ["a", "b"]), hold_trials(tmp_path, ["c"]):
        pass
    with hold_trials(tmp_path, ["a", "b", "c"]):
        assert len(list((tmp_path / FOLDER).iterdir())) == 1
    assert list((tmp_path / FOLDER).iterdir()) == []


def test_a_sweep_that_is_done_holds_nothing(tmp_path: Path) -> None:
    with hold_trials(tmp_path, []) as held:
        held.require()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_call_held_is_free_at_once(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SourceError, match=rf"process {holder.pid} on"):
            hold_trials(tmp_path, ["a"]).__enter__()
        holder.kill()
    with hold_trials(tmp_path, ["a"]):
        assert len(list((tmp_path / FOLDER).iterdir())) == 1  # the other's word is gone


def test_a_call_on_another_machine_lives_as_long_as_it_renews_its_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(held_trials, "BEAT_SECONDS", 600.0)
    machines = iter(["one", *["another"] * 20])
    monkeypatch.setattr(held_trials, "_find_machine", lambda: next(machines))
    with hold_trials(tmp_path, ["a"]) as first:
        with pytest.raises(SourceError, match=r"if it was killed, call again in \d\d s$"):
            hold_trials(tmp_path, ["a"]).__enter__()
        first.require()
        assert first.path is not None
        long_ago = time.time() - held_trials.SILENT_SECONDS - 1
        os.utime(first.path, (long_ago, long_ago))
        with hold_trials(tmp_path, ["a"]):
            with pytest.raises(
                SourceError, match="sweep: another call is running these trials now"
            ):
                first.require()
            assert first.lost


def test_a_call_gives_signs_of_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(held_trials, "BEAT_SECONDS", 0.01)
    with hold_trials(tmp_path, ["a"]) as held:
        assert held.path is not None
        os.utime(held.path, (0, 0))
        end = time.monotonic() + 10
        while held.path.stat().st_mtime == 0 and time.monotonic() < end:
            time.sleep(0.01)
        assert held.path.stat().st_mtime > 0


def test_of_calls_that_ask_at_once_one_gets_the_trials(tmp_path: Path) -> None:
    n_calls = 6
    begin, done = threading.Barrier(n_calls), threading.Event()

    def call(_: int) -> bool:
        begin.wait()
        with suppress(SourceError), hold_trials(tmp_path, ["a"]):
            done.wait(20)  # until all others were refused
            return True
        return False

    with ThreadPoolExecutor(n_calls) as pool:
        calls = [pool.submit(call, number) for number in range(n_calls)]
        end = time.monotonic() + 20
        while sum(each.done() for each in calls) < n_calls - 1 and time.monotonic() < end:
            time.sleep(0.05)
        done.set()
        assert sorted(each.result() for each in calls) == [False] * (n_calls - 1) + [True]
