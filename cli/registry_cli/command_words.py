"""A command to measure that was written where a plan is expected."""

from __future__ import annotations

import os
import shlex
import shutil
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Options of ``registry run`` that are for a command as well.
_OF_COMMANDS = ("--label", "--warmup-steps", "--registry", "--no-keep")

_SCRIPTS = {".py": "python", ".sh": "bash"}


@dataclass
class _Words:
    """The words of a call: the registry's own options, and the command."""

    own: list[str] = field(default_factory=list)
    command: list[str] = field(default_factory=list)
    #: How many words of the command are no options, and no values of options of the registry.
    n_plain: int = 0


def find_command(command: click.Command, args: Sequence[str]) -> str | None:
    """Return how a command is measured whose ``--`` was forgotten; None where a plan is named.

    ``command`` is the one of the registry that was called, with ``args``.
    """
    found = _part(command, args)
    if not found.command or not _is_command(found.command[0], found.n_plain):
        return None
    script = found.command[0]
    starts_itself = os.sep in script and os.access(script, os.X_OK)
    starter = None if starts_itself else _SCRIPTS.get(Path(script).suffix)
    words = [*found.own, "--", *([starter] if starter else []), *found.command]
    return shlex.join(["registry", "run", *words])


def _part(command: click.Command, args: Sequence[str]) -> _Words:
    """Tell the registry's options from the first word that is none, and what follows it."""
    takes_value = {
        name: not option.is_flag
        for option in command.params
        if isinstance(option, click.Option)
        for name in (*option.opts, *option.secondary_opts)
    }
    found = _Words()
    left = list(args)
    while left:
        word = left.pop(0)
        name, has_value, _ = word.partition("=")
        is_own = name in takes_value and (not found.command or name in _OF_COMMANDS)
        words = found.own if is_own else found.command
        words.append(word)
        if takes_value.get(name) and not has_value and left:
            words.append(left.pop(0))
        elif not word.startswith("-"):
            found.n_plain += 1
    return found


def _is_command(first: str, n_plain: int) -> bool:
    """Return whether what begins with a word is a script, a program, or several plain words."""
    if first.startswith("-") or first.endswith(".toml"):
        return False
    if Path(first).suffix in _SCRIPTS:
        return True
    if Path(first).exists() and not os.access(first, os.X_OK):
        return False
    return n_plain > 1 or shutil.which(first) is not None
