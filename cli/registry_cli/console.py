"""What people read: errors, warnings and hints on stderr, answers in words on stdout.

What a terminal would act on is made visible in all of it, because names and messages come from
files that others wrote.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from registry.text import escape_unprintable

if TYPE_CHECKING:
    from collections.abc import Iterable


def error(message: str) -> None:
    """Show an error."""
    click.secho(f"error: {_clean(message)}", err=True, fg="red", color=_color())


def warning(message: str) -> None:
    """Show a warning."""
    click.secho(f"warning: {_clean(message)}", err=True, fg="yellow", color=_color())


def warn_all(messages: Iterable[str]) -> None:
    """Show several warnings."""
    for message in messages:
        warning(message)


def hint(message: str) -> None:
    """Show what happened or what to do next."""
    click.echo(_clean(message), err=True)


def answer(lines: Iterable[str]) -> None:
    """Show the lines of an answer on stdout."""
    click.echo("\n".join(map(escape_unprintable, lines)))


def say(line: str) -> None:
    """Show one line of an answer on stdout."""
    answer([line])


def data(document: Any) -> None:
    """Show an answer as JSON."""
    click.echo(json.dumps(document, indent=1))


def text(lines: str) -> None:
    """Show a text of several lines: as it is in a pipe, made visible on a terminal."""
    shown = escape_unprintable(lines, "\n") if sys.stdout.isatty() else lines
    click.echo(shown, nl=not lines.endswith("\n"))


def show_usage_error(problem: click.ClickException) -> None:
    """Show click's error with the command's usage, as click would."""
    context = getattr(problem, "ctx", None)
    if context is not None:
        click.echo(context.get_usage(), err=True)
        click.echo(f"Try '{context.command_path} --help' for help.\n", err=True)
    error(problem.format_message())


def _clean(message: str) -> str:
    return escape_unprintable(message, "\n")


def _color() -> bool | None:
    if os.environ.get("NO_COLOR"):
        return False
    return sys.stderr.isatty()
