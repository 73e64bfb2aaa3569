"""``registry completion``."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

from registry_cli.group import HintedChoice, cli

#: What click's scripts set when a shell asks for completions.
_VARIABLE = "_REGISTRY_COMPLETE"


@click.command(name="completion")
@click.argument("shell", type=HintedChoice(["bash", "zsh", "fish"]), metavar="SHELL")
def command(*, shell: str) -> None:
    """Print a script that completes commands, options, models, cards, sources and ids.

    \b
    SHELL is bash, zsh or fish. To enable it in every session:
      bash   echo 'eval "$(registry completion bash)"' >> ~/.bashrc
      zsh    echo 'eval "$(registry completion zsh)"' >> ~/.zshrc
      fish   registry completion fish > ~/.config/fish/completions/registry.fish

    \b
    Example:
      registry completion bash
    """  # noqa: D301 - \b keeps the example's lines
    found = get_completion_class(shell)
    if found is None:
        raise click.UsageError(f"click completes nothing in {shell}")
    click.echo(found(cli, {}, "registry", _VARIABLE).source())
