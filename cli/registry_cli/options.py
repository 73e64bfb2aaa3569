"""Options that several commands share."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from registry.errors import RegistryError, UnitError
from registry.store.address import require_absolute
from registry.store.folder import find_registry
from registry.store.ids import SHORTEST_PREFIX

if TYPE_CHECKING:
    from collections.abc import Callable

    from registry.store.folder import Location


class Parsed(click.ParamType[Any]):
    """What a function makes of a text, or refuses with the reason."""

    def __init__(self, name: str, parse: Callable[[Any], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return what the function makes of a value; fail where it raises."""
        try:
            return self._parse(value)
        except RegistryError as error:
            self.fail(str(error).removeprefix(f"{self.name}: "), param, ctx)


class Finite(click.FloatRange):
    """A finite number."""

    name = "number"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number; refuse nan, which any range lets through, and inf."""
        number = float(super().convert(value, param, ctx))
        if not math.isfinite(number):
            self.fail(f"{value!r} is not a finite {self.name}.", param, ctx)
        return number


class Seconds(Finite):
    """A finite number of seconds."""

    name = "number of seconds"


#: A finite number above 0.
POSITIVE = Finite(min=0, min_open=True)


wait_option = click.option(
    "--wait",
    metavar="SECONDS",
    type=Seconds(min=0),
    default=60.0,
    show_default=True,
    help="How long to wait for another process that is folding.",
)


def parse_size(text: str) -> int:
    """Return the bytes of ``--memory``; raise UsageError for no size."""
    from registry.units import parse_memory  # noqa: PLC0415 - only where a size is given

    try:
        return int(parse_memory(text, where="--memory").value)
    except UnitError as error:
        raise click.UsageError(str(error)) from None


def parse_prefix(text: str) -> str:
    """Return the first digits of an id; raise UsageError for too few."""
    prefix = text.strip().lower()
    if len(prefix) < SHORTEST_PREFIX:
        raise click.UsageError(
            f"found {text!r}; expected at least {SHORTEST_PREFIX} digits of an id"
        )
    return prefix


class RegistryPath(click.Path):
    """A folder or an address of a registry."""

    def __init__(self) -> None:
        super().__init__(path_type=Path)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the path. Raises StoreError for an address of a file without its third slash."""
        require_absolute(str(value))
        return super().convert(value, param, ctx)


def registry_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add ``--registry`` and ``--no-curated``: what to read, and where to write.

    Where they stand before the command's name, they are those of the command.
    """
    function = click.option(
        "--no-curated",
        is_flag=True,
        expose_value=False,
        callback=_leave_out_curated,
        help="Leave out the curated observations that are read alongside your own.",
    )(function)
    return click.option(
        "--registry",
        "registry_path",
        metavar="PATH|URL",
        type=RegistryPath(),
        callback=keep_path,
        help="Registry to use (else REGISTRY_PATH, else ./records if it is a registry of your own, "
        "else the one in your data folder).",
    )(function)


_NO_CURATED = "registry_cli.no_curated"
_REGISTRY = "registry_cli.registry"


def _leave_out_curated(context: click.Context, _: click.Parameter, value: bool) -> None:  # noqa: FBT001 - click's form
    context.meta[_NO_CURATED] = value or context.meta.get(_NO_CURATED, False)


def keep_path(context: click.Context, _: click.Parameter, value: Path | None) -> Path | None:
    """Return the path, else the one that stands before the command's name."""
    found: Path | None = context.meta.get(_REGISTRY) if value is None else value
    context.meta[_REGISTRY] = found
    return found


def takes_registry(command: click.Command) -> bool:
    """Return whether a command, or one of its group, has the option ``--registry``."""
    named = any(option.name == "registry_path" for option in command.params)
    return named or isinstance(command, click.Group)


def stated_globally(context: click.Context) -> bool:
    """Return whether an option of `registry_option` stands before the command's name."""
    return bool(context.meta.get(_NO_CURATED)) or context.meta.get(_REGISTRY) is not None


def locate(path: Path | None) -> Location:
    """Return the registry that the command's options name. Raises MissingRegistryError."""
    context = click.get_current_context(silent=True)
    left_out = bool(context and context.meta.get(_NO_CURATED))
    return find_registry(path, curated=not left_out)
