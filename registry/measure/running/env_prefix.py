"""Keep the recorder's variables in a command that begins with ``env`` and changes them itself."""

from __future__ import annotations

import os
import re
from itertools import pairwise
from pathlib import PurePath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

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
