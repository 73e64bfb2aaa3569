"""Run a command; show its errors as one paragraph on stderr, and return its exit status."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from registry.errors import (
    ChartError,
    FilterError,
    MissingRegistryError,
    QueryTimeoutError,
    QuestionError,
    RegistryError,
)
from registry.tracking import watched_by
from registry_cli import console
from registry_cli.group import cli
from registry_cli.progress_bar import show_progress

if TYPE_CHECKING:
    from registry.query.child import Child

EXIT_BAD_ANSWER = 1
EXIT_WRONG_CALL = 2
EXIT_TIMED_OUT = 124
EXIT_INTERRUPTED = 130

_EXIT_CODES = {
    QueryTimeoutError: EXIT_TIMED_OUT,
    MissingRegistryError: EXIT_WRONG_CALL,
    QuestionError: EXIT_WRONG_CALL,
    FilterError: EXIT_WRONG_CALL,
    ChartError: EXIT_WRONG_CALL,
    RegistryError: EXIT_BAD_ANSWER,
}

#: Set it to see the traceback of an unexpected error.
TRACEBACK_VARIABLE = "REGISTRY_TRACEBACK"


def dispatch(arguments: list[str], child: Child | None = None) -> int:
    """Run the command with these arguments and return its exit status.

    ``child`` is the process that its query is to run in.
    """
    return _flush(_run(arguments, child))


def _run(arguments: list[str], child: Child | None) -> int:
    status: object = 0
    stdout = sys.stdout
    try:
        with watched_by(show_progress):
            status = cli.main(arguments, "registry", standalone_mode=False, obj=child)
    except click.exceptions.Exit as error:
        status = error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message(), err=True)
        status = EXIT_WRONG_CALL
    except click.ClickException as error:
        console.show_usage_error(error)
        status = EXIT_WRONG_CALL
    except (click.Abort, KeyboardInterrupt):
        console.error("interrupted")
        status = EXIT_INTERRUPTED
    except RegistryError as error:
        console.error(str(error))
        status = next(code for kind, code in _EXIT_CODES.items() if isinstance(error, kind))
    except SystemExit:
        if sys.stdout is stdout:
            raise
        status = 0  # click replaces it where the reader of the output hung up, as `head` does
    except Exception as error:  # the command's last line: a user gets no traceback
        if os.environ.get(TRACEBACK_VARIABLE):
            raise
        console.error(_describe(error))
        status = EXIT_BAD_ANSWER
    return status if isinstance(status, int) else 0


def _describe(error: Exception) -> str:
    """Return what to say about an error that no part of the program expects."""
    if isinstance(error, OSError):
        place = f"{error.filename}: " if error.filename is not None else ""
        return f"{place}{error.strerror or error}; expected usable files and output"
    return (
        f"unexpected {type(error).__name__}: {error}; this is a bug in the command, please "
        f"report it with the traceback that {TRACEBACK_VARIABLE}=1 shows"
    )


def _flush(status: int) -> int:
    """Flush stdout; a reader that hung up (``| head``) is not an error, a full disk is."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        _drop_output()
    except OSError as error:
        _drop_output()
        if not status:  # else it was said when the command wrote
            os.write(2, f"error: standard output: {error.strerror}\n".encode())
        return status or EXIT_BAD_ANSWER
    return status


def _drop_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
