"""Entry point of the command ``registry``: dispatch, and errors as one paragraph on stderr."""

from __future__ import annotations

import os
import sys

EXIT_BAD_ANSWER = 1
EXIT_WRONG_CALL = 2
EXIT_TIMED_OUT = 124
EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command and exit with its status."""
    from registry_cli import prefork  # noqa: PLC0415 - forks before anything else is loaded

    prefork.start_early(sys.argv[1:])
    status = run(sys.argv[1:])
    prefork.close()
    _flush()
    sys.exit(status)


def run(arguments: list[str]) -> int:
    """Run the command with these arguments and return its exit status."""
    import click  # noqa: PLC0415 - the query's child is forked before it is loaded

    from registry.errors import (  # noqa: PLC0415 - likewise
        MissingRegistryError,
        QueryTimeoutError,
        RegistryError,
    )
    from registry_cli import console  # noqa: PLC0415 - likewise
    from registry_cli.group import cli  # noqa: PLC0415 - likewise

    exit_codes = {
        QueryTimeoutError: EXIT_TIMED_OUT,
        MissingRegistryError: EXIT_WRONG_CALL,
        RegistryError: EXIT_BAD_ANSWER,
    }

    status: object = 0
    try:
        status = cli.main(args=arguments, prog_name="registry", standalone_mode=False)
    except click.exceptions.Exit as error:
        status = error.exit_code
    except click.ClickException as error:
        console.show_usage_error(error)
        status = EXIT_WRONG_CALL
    except (click.Abort, KeyboardInterrupt):
        console.error("interrupted")
        status = EXIT_INTERRUPTED
    except RegistryError as error:
        console.error(str(error))
        status = next(code for kind, code in exit_codes.items() if isinstance(error, kind))
    except BrokenPipeError:
        status = 0  # the reader of the output hung up, as `head` does
    return status if isinstance(status, int) else 0


def _flush() -> None:
    """Flush stdout; a reader that hung up (``| head``) is no error."""
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
