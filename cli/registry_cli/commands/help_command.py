"""``registry help``."""

from __future__ import annotations

import click

from registry.errors import did_you_mean


@click.command(name="help")
@click.argument("words", nargs=-1, metavar="[COMMAND]…")
@click.pass_context
def command(context: click.Context, *, words: tuple[str, ...]) -> None:
    """Show the help of a command, as `registry COMMAND --help` does.

    \b
    Examples:
      registry help fit
      registry help source check
    """  # noqa: D301 - \b keeps the examples' lines
    shown = context.parent or context
    for word in words:
        shown = _step_into(shown, word)
    click.echo(shown.get_help())


def _step_into(context: click.Context, word: str) -> click.Context:
    """Return the context of a group's command."""
    group = context.command
    known = group.list_commands(context) if isinstance(group, click.Group) else []
    found = group.get_command(context, word) if isinstance(group, click.Group) else None
    if found is None:
        expected = f"one of {', '.join(known)}" if known else "no further word"
        raise click.UsageError(
            f"{context.command_path} has no command {word!r}{did_you_mean(word, known)}; "
            f"expected {expected}"
        )
    return click.Context(found, parent=context, info_name=word)
