"""Confine the calling process by the operating system: files, network, memory, lifetime.

Landlock binds the calling thread and the threads it starts later, never those already running:
the engine must not have started one (its workers are started after `restrict_files`).
Reference: the kernel's ``Documentation/userspace-api/landlock.rst`` and ``linux/landlock.h``.
"""

from __future__ import annotations

import ctypes
import os
import resource
import signal
import stat
import struct
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# The same numbers on all architectures: these calls came after the tables were unified.
_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION_QUERY = 1
_RULE_PATH_BENEATH = 1
_READ_FILE, _READ_DIR = 1 << 2, 1 << 3
_PR_SET_PDEATHSIG, _PR_SET_NO_NEW_PRIVS = 1, 38
# Handled rights by the ABI that brought them: 13 at first, then refer, truncate, ioctl on devices.
_FILE_RIGHTS = {1: (1 << 13) - 1, 2: 1 << 13, 3: 1 << 14, 5: 1 << 15}
_TCP_BIND_AND_CONNECT, _TCP_ABI = 3, 4
_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS, _SCOPE_ABI = 3, 6
# What the interpreter, the engine and the stacks of its threads take besides the query's data.
_SLACK_BYTES = 512 << 20
_THREADS = Path("/proc/self/task")
# How long an ending thread may take to leave the kernel's list.
_ENDING_SECONDS = 1.0


def _call_libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


def _raise_errno(what: str) -> None:
    number = ctypes.get_errno()
    raise OSError(number, f"{what}: {os.strerror(number)}")


def landlock_abi() -> int:
    """Return the kernel's Landlock version, 0 where there is none."""
    if not sys.platform.startswith("linux"):
        return 0
    size, flags = ctypes.c_size_t(0), ctypes.c_uint32(_VERSION_QUERY)
    return max(0, int(_call_libc().syscall(_CREATE_RULESET, None, size, flags)))


def count_threads() -> int:
    """Return the number of threads of this process, of Python alone where there is no /proc."""
    try:
        return sum(1 for _ in _THREADS.iterdir())
    except FileNotFoundError:
        return threading.active_count()


def _format_ruleset(abi: int) -> bytes:
    files = sum(rights for since, rights in _FILE_RIGHTS.items() if since <= abi)
    words = [files]
    if abi >= _TCP_ABI:
        words.append(_TCP_BIND_AND_CONNECT)
    if abi >= _SCOPE_ABI:
        words.append(_SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS)
    return struct.pack(f"{len(words)}Q", *words)


def _add_readable(libc: ctypes.CDLL, ruleset: int, path: Path) -> None:
    place = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        rule = struct.pack("=Qi", _READ_FILE | (_READ_DIR if is_folder else 0), place)
        if libc.syscall(_ADD_RULE, ruleset, _RULE_PATH_BENEATH, rule, 0) != 0:
            _raise_errno(f"cannot allow reading {path}")
    finally:
        os.close(place)


def _wait_for_one_thread() -> int:
    """Return the number of threads once it is 1, or after a while.

    A thread that was joined stays in the kernel's list for a moment, longer on a busy
    machine.
    """
    deadline = time.monotonic() + _ENDING_SECONDS
    while (threads := count_threads()) != 1 and time.monotonic() < deadline:
        time.sleep(0.001)
    return threads


def restrict_files(readable: Iterable[Path]) -> None:
    """Give up for good: all files but reading ``readable``, TCP, and signals to others.

    Raises:
        RuntimeError: another thread is already running, which the kernel would leave unconfined.
        OSError: the kernel refuses, or a readable path is missing.
    """
    if (threads := _wait_for_one_thread()) != 1:
        raise RuntimeError(f"cannot confine a process with {threads} threads, expected 1")
    libc = _call_libc()
    attributes = _format_ruleset(landlock_abi())
    size, flags = ctypes.c_size_t(len(attributes)), ctypes.c_uint32(0)
    ruleset = libc.syscall(_CREATE_RULESET, attributes, size, flags)
    if ruleset < 0:
        _raise_errno("cannot create a Landlock ruleset")
    try:
        for path in readable:
            _add_readable(libc, ruleset, path)
        if libc.syscall(_RESTRICT_SELF, ruleset, 0) != 0:
            _raise_errno("cannot confine the process")
    finally:
        os.close(ruleset)


def forbid_new_privileges() -> None:
    """Make set-uid programs powerless here; Landlock asks for it."""
    if sys.platform.startswith("linux"):
        _call_libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends, however it ends."""
    if sys.platform.startswith("linux"):
        _call_libc().prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:  # it ended before the line above
        os._exit(1)


def limit_memory(memory_bytes: int) -> None:
    """Bound what the process can write to in memory: ``memory_bytes`` and some slack.

    The limit is on data, not on the address space, of which allocators and stacks reserve much
    that they never use.
    """
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    bound = memory_bytes + _SLACK_BYTES
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    bound = bound if hard == resource.RLIM_INFINITY else min(bound, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (bound, bound))
