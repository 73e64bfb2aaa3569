"""Entry point of the command ``registry``."""

from __future__ import annotations

import errno
import io
import os
import sys

#: Commands that run a query, in a process of its own.
QUERYING = {"query", "ls", "show", "compare", "models", "gpus", "sources", "environments"}

#: Arguments among which a command's name stands: ``--registry PATH`` may come before it.
_LEADING = slice(1, 4)

#: Errors of a start that a higher limit helps against.
_LIMITS = {errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE}


def main() -> None:
    """Run the command and end the process with its status."""
    if sys.platform == "win32":
        sys.exit("error: registry needs Linux; on Windows, run it in WSL")
    from registry.query.child import start_child  # noqa: PLC0415 - not there on Windows

    _open_closed_streams()
    if isinstance(sys.stdout, io.TextIOWrapper):  # what an encoding lacks is shown, as on stderr
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        child = start_child() if QUERYING & {*sys.argv[_LEADING]} else None
        from registry_cli.dispatch import dispatch  # noqa: PLC0415 - the child loads meanwhile

        status = dispatch(sys.argv[1:], child)
    except KeyboardInterrupt:  # while the command was loaded, or while it ended
        os.write(2, b"error: interrupted\n")
        status = 130
    except OSError as error:
        reason = f"{error.strerror}; raise the limit (see ulimit -a)"
        if error.errno not in _LIMITS and error.filename:
            reason = f"{error.filename}: {error.strerror}"
        os.write(2, f"error: cannot start a process: {reason}\n".encode())
        status = 1
    _remove_copies()
    os._exit(status)  # all is flushed; taking the interpreter down costs a tenth of a query


def _open_closed_streams() -> None:
    """Take the numbers of the standard streams that the caller closed, before a file does.

    What a program writes to its standard output would end up in that file. Reading finds nothing;
    writing a result fails, as without this, and what would be said on standard error is dropped.
    """
    modes = {"stdin": os.O_RDONLY, "stdout": os.O_RDONLY, "stderr": os.O_WRONLY}
    for number, (name, mode) in enumerate(modes.items()):
        if getattr(sys, name) is None:
            if (found := os.open(os.devnull, mode)) != number:
                os.dup2(found, number)
                os.close(found)
            stream = os.fdopen(number, "r" if number == 0 else "w", closefd=False)
            setattr(sys, name, stream)


def _remove_copies() -> None:
    """Remove the copies of registries on object storage, where this process made any."""
    module = sys.modules.get("registry.store.remote")
    if module is not None:
        module.remove_copies()
