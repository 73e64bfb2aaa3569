"""Keeps calls that would run the same trials apart: each leaves word of those that it holds.

The word is a file beside the trials' folders, where every machine that may run them sees it. The
kernel's locks end with their process, but on many file systems of clusters they do not reach
another machine. So a holder is known to live by its process where that can be seen, and elsewhere
by the time of its file, which it renews.
"""

from __future__ import annotations

import os
import random
import secrets
import socket
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from registry.errors import SourceError
from registry.measure.process_stat import STARTED, STATE, read_stat
from registry.measure.record_files import read_json, write_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

#: Where the files lie, among the folders of trials.
FOLDER = "calls"

#: Seconds between two signs of life, and after which one that gives none is gone.
BEAT_SECONDS, SILENT_SECONDS = 5.0, 60.0

#: How often a call asks anew where another one asks at the same moment.
_MOST_TRIES = 10


@dataclass
class Held:
    """The trials of this call; ``lost`` once another call has taken them over."""

    origin: str
    path: Path | None = None
    lost: bool = False
    _ended: threading.Event = field(default_factory=threading.Event)

    def require(self) -> None:
        """Raise SourceError where they are another call's by now."""
        self._renew()
        if self.lost:
            raise SourceError(
                f"{self.origin}: another call is running these trials now, because this one gave "
                f"no sign of life for {SILENT_SECONDS:g} s; expected one call at a time; wait for "
                "that one, which records their results"
            )

    def begin(self) -> None:
        """Give signs of life from here on."""
        threading.Thread(target=self._beat, name="registry-sweep", daemon=True).start()

    def end(self) -> None:
        """Give no more, and let go of the trials."""
        self._ended.set()
        if self.path is not None:
            self.path.unlink(missing_ok=True)

    def _beat(self) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self._renew()

    def _renew(self) -> None:
        try:
            if self.path is not None:
                os.utime(self.path)
        except FileNotFoundError:
            self.lost = True
        except OSError:
            pass  # the file server is away for a while


@contextmanager
def hold_trials(folder: Path, names: Collection[str], *, origin: str) -> Iterator[Held]:
    """Hold trials, by the names of their folders in ``folder``, until the end.

    ``origin`` is the plan that they are of, for messages. Raises SourceError where another call
    holds one of them. What a call held that is gone is free.
    """
    held = _ask(folder / FOLDER, set(names), origin) if names else Held(origin)
    try:
        held.begin()
        yield held
    finally:
        held.end()


def _ask(folder: Path, names: set[str], origin: str) -> Held:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{secrets.token_hex(8)}.json"
    word = {**_describe_caller(), "trials": sorted(names)}
    for _ in range(_MOST_TRIES):
        # written before anything is read: of two that ask at once, one at least sees the other
        write_json(path, {**word, "asks": True})
        try:
            others = list(_find_others(path, names))
            if not others:
                write_json(path, word)
                return Held(origin, path)
        except BaseException:
            path.unlink(missing_ok=True)
            raise
        path.unlink()
        if not all(other.get("asks") for other in others):
            break
        time.sleep(random.uniform(0.1, 1.0))  # noqa: S311 - so that one of them comes first
    raise SourceError(f"{origin}: {_format_refusal(others, names)}")


def _find_others(own: Path, names: set[str]) -> Iterator[dict[str, Any]]:
    """Yield what other calls say that hold some of the trials; forget those that are gone."""
    now = own.stat().st_mtime  # by the clock that all of these files have their times from
    for path in own.parent.glob("*.json"):
        word = read_json(path) if path != own else None
        if not isinstance(word, dict) or names.isdisjoint(word.get("trials", ())):
            continue
        with suppress(FileNotFoundError):  # it ended just now
            silent = now - path.stat().st_mtime
            if _is_gone(word, silent):
                path.unlink()
            else:
                yield {**word, "silent": silent}


def _is_gone(word: dict[str, Any], silent: float) -> bool:
    here = _describe_caller()
    if here["machine"] is not None and word.get("machine") == here["machine"]:
        return bool(_find_start(word["process"]) != word["began"])
    return silent > SILENT_SECONDS


def _format_refusal(others: list[dict[str, Any]], names: set[str]) -> str:
    other = next((each for each in others if not each.get("asks")), others[0])
    n_held = len(names.intersection(other["trials"]))
    there = other["machine"] != _describe_caller()["machine"]
    wait = max(SILENT_SECONDS - other["silent"], 0) + 1
    again = f"; if it was killed, call again in {wait:.0f} s" if there else ""
    return (
        f"found {n_held} of {len(names)} trials held by another call (process "
        f"{other['process']} on {other['host']}); expected one call at a time; wait until that one "
        f"has ended, or end it: what it has recorded is not run again{again}"
    )


def _describe_caller() -> dict[str, Any]:
    """Return what tells this process from others, on this machine and elsewhere."""
    return {
        "host": socket.gethostname(),
        "machine": _find_machine(),
        "process": os.getpid(),
        "began": _find_start(os.getpid()),
    }


def _find_machine() -> str | None:
    """Return what those have in common that see each other's processes; None without /proc."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        return None


def _find_start(process: int) -> int | None:
    """Return when a process began, in ticks since boot; None for none, and for a dead one."""
    try:
        fields = read_stat(process)
    except OSError:
        return None
    return None if fields[STATE] in "ZX" else int(fields[STARTED])
