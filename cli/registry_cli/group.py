"""The group of commands: each is loaded when it is called; a mistyped one gets a hint."""

from __future__ import annotations

import importlib
import os
from typing import TYPE_CHECKING

import click

from registry import __version__
from registry.errors import did_you_mean
from registry_cli.options import registry_option, stated_globally, takes_registry

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

#: Commands: name to the first sentence of its help. The module is commands/<name>.py.
COMMANDS = {
    "fit": "Answer whether a training configuration fits a card, with evidence.",
    "estimate": "Break down a run's memory, time and cost.",
    "query": "Run a SQL SELECT over the registry.",
    "ls": "List observations.",
    "show": "Show one observation in full: figures, raw cells, citations, reasons.",
    "models": "List models, with what the records hold on each.",
    "gpus": "List accelerators, with what the records hold on each.",
    "sources": "List sources, with what they measured and their licences.",
    "environments": "List the environments and labels that compare can compare.",
    "plot": "Draw a chart: memory, speed, pareto, fits, scaling, history, compare, …",
    "add": "Record measurements: submissions, logs and results of frameworks, exports.",
    "import": "Record the tables of a document: Markdown, HTML, CSV, Excel, …",
    "source": "Add a published source to a checkout's records, and check it.",
    "run": "Run a plan of training jobs, or measure any training script.",
    "rerun": "Run an observation's configuration again and compare.",
    "compare": "Compare two releases, observations, environments, sources or plans.",
    "bench": "Measure a plan alternately with two Python environments, and compare.",
    "share": "Write a contribution to the curated records from your own runs.",
    "utilization": "Show how much of a card's peak performance a run used.",
    "calibrate": "Refit the predictions on your own registry.",
    "evaluate": "Show how accurate the predictions are.",
    "check": "Check the registry's integrity; exit 1 if something is wrong.",
    "retract": "Withdraw an observation.",
    "init": "Create a registry.",
    "fold": "Fold pending submissions into the tables.",
    "sync": "Synchronize two registries: each gets the documents that only the other has.",
    "export": "Write all tables to a folder, or all documents to a file.",
    "site": "Write the registry as a static web site.",
    "doctor": "Show what is installed, which registry is in use, and what is wrong.",
    "repair": "Rebuild a damaged registry from its documents.",
    "prune": "Remove old versions of the folded tables.",
    "build": "Regenerate the curated tables from their sources.",
    "completion": "Print a script that completes commands, options and names in a shell.",
    "help": "Show the help of a command.",
}


#: Commands that compute with numpy.
PREDICTING = ("plot", "fit", "estimate", "calibrate", "evaluate", "source", "share", "site")


class LazyGroup(click.Group):
    """A group that knows its commands by name and loads each when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the names of all commands."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        """Load a command."""
        if cmd_name not in COMMANDS:
            return None
        if cmd_name in PREDICTING:
            # small matrices: threads cost more than they bring, and much more on a busy machine
            os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
        module = importlib.import_module(f"registry_cli.commands.{cmd_name}_command")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that is called; a mistyped name gets a hint."""
        name = args[0] if args else ""
        if name not in COMMANDS and not name.startswith("-"):
            known = ", ".join(COMMANDS)
            raise click.UsageError(
                f"no command {name!r}{did_you_mean(name, COMMANDS)}; expected one of {known}", ctx
            )
        found = super().resolve_command(ctx, args)
        if found[1] is not None and stated_globally(ctx) and not takes_registry(found[1]):
            raise click.UsageError(
                f"`registry {name}` does not read a registry; leave out --registry and "
                "--no-curated",
                ctx,
            )
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        """Write the list of commands without loading any of them."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", prog_name="registry")
@registry_option
def cli(*, registry_path: Path | None) -> None:
    """GPU memory and training speed of LLM fine-tuning, as a registry you can query.

    --registry and --no-curated may also follow the command's name.

    \b
    Examples:
      registry fit --model qwen-7b --gpu rtx-3090 --method qlora --seq-len 2048
      registry query "select model_id, max(seq_len) from results where outcome = 'ok' group by all"
    """  # noqa: D301 - \b keeps the example's lines


class HintedChoice(click.Choice[str]):
    """A choice that suggests the nearest value."""

    def __init__(self, choices: Sequence[str]) -> None:
        super().__init__(choices, case_sensitive=False)

    def get_invalid_choice_message(self, value: object, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return what was found, what is near and what was expected."""
        known = [str(choice) for choice in self.choices]
        return f"found {value!r}{did_you_mean(str(value), known)}; expected {', '.join(known)}"

    def get_missing_message(self, param: click.Parameter, ctx: click.Context | None) -> str:  # noqa: ARG002 - click's signature
        """Return the choices on one line."""
        return f"Expected one of {', '.join(map(str, self.choices))}"
