"""What mkdocs asks for while it builds: the page of the commands, as ``--help`` prints them."""  # noqa: INP001 - no package, mkdocs loads it by its path

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import click

_PLACE = "{{ commands }}"


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the text of a page, with the help of all commands where its place is."""
    if _PLACE not in markdown:
        return markdown
    os.environ["COLUMNS"] = "80"
    from registry_cli.group import cli  # noqa: PLC0415 - only for that page

    return markdown.replace(_PLACE, "\n".join(_format(cli, "registry", None, depth=2)))


def _format(
    command: click.Command, name: str, parent: click.Context | None, *, depth: int
) -> Iterator[str]:
    """Yield the help of a command and of its commands, each under a heading."""
    context = command.make_context(name, [], parent, resilient_parsing=True)
    yield f"{'#' * depth} {context.command_path}\n\n```text\n{context.get_help()}\n```\n"
    names = command.list_commands(context) if hasattr(command, "list_commands") else ()
    for each in names:
        yield from _format(command.get_command(context, each), each, context, depth=depth + 1)
