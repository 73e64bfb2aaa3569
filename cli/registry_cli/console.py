"""What goes to stderr: errors, warnings and hints. Data goes to stdout and nowhere else."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from collections.abc import Iterable


def error(message: str) -> None:
    """Show an error."""
    click.secho(f"error: {message}", err=True, fg="red", color=_color())


def warning(message: str) -> None:
    """Show a warning."""
    click.secho(f"warning: {message}", err=True, fg="yellow", color=_color())


def warn_all(messages: Iterable[str]) -> None:
    """Show several warnings."""
    for message in messages:
        warning(message)


def hint(message: str) -> None:
    """Show what happened or what to do next."""
    click.echo(message, err=True)


def show_usage_error(problem: click.ClickException) -> None:
    """Show click's error with the command's usage, as click would."""
    context = getattr(problem, "ctx", None)
    if context is not None:
        click.echo(context.get_usage(), err=True)
        click.echo(f"Try '{context.command_path} --help' for help.\n", err=True)
    error(problem.format_message())


def _color() -> bool | None:
    if os.environ.get("NO_COLOR"):
        return False
    return sys.stderr.isatty()
