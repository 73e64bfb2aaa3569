"""Entry point of the command ``registry``."""

from __future__ import annotations

import os
import sys

from registry.query.child import start_child

#: Commands that run a query, in a process of its own.
QUERYING = {"query", "ls", "show", "compare"}


def main() -> None:
    """Run the command and exit with its status."""
    child = start_child() if QUERYING & {*sys.argv[1:2]} else None
    try:
        from registry_cli.dispatch import dispatch  # noqa: PLC0415 - the child loads meanwhile

        status = dispatch(sys.argv[1:], child)
    except KeyboardInterrupt:  # while the command was loaded, or while it ended
        os.write(2, b"error: interrupted\n")
        status = 130
    sys.exit(status)
