"""What a shell completes a name to: models, cards, sources and observations of the registry in use.

A registry that cannot be read completes nothing: a completion has no place for an error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from registry.errors import RegistryError

if TYPE_CHECKING:
    import click

#: How many ids are offered at once, and how many of their digits.
_AT_MOST, _ID_DIGITS = 50, 12


def complete_model(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the models whose id starts with this."""
    return _of_catalogue(context, "models", incomplete)


def complete_gpu(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the accelerators whose id starts with this."""
    return _of_catalogue(context, "gpus", incomplete)


def complete_source(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the sources whose id starts with this."""
    return _ask(context, "select source_id as word from sources order by all", incomplete)


def complete_observation(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """Return the first of the observations whose id starts with this."""
    sql = (
        f"select observation_id[:{_ID_DIGITS}] as word from observations "  # noqa: S608 - a number
        f"where starts_with(observation_id, $begin) order by all limit {_AT_MOST}"
    )
    return _ask(context, sql, incomplete, begin=incomplete.lower())


def _of_catalogue(context: click.Context, part: str, incomplete: str) -> list[str]:
    from registry.store.snapshot import load_catalogue  # noqa: PLC0415 - only where a shell asks
    from registry_cli.options import locate  # noqa: PLC0415 - as above

    try:
        catalogue = load_catalogue(locate(context.params.get("registry_path")))
    except (RegistryError, OSError):
        return []
    known = catalogue.models if part == "models" else catalogue.gpus
    return sorted(name for name in known if name.startswith(incomplete.lower()))


def _ask(context: click.Context, sql: str, incomplete: str, **params: str) -> list[str]:
    from registry.query.process import read_rows  # noqa: PLC0415 - only where a shell asks
    from registry.store.read import read_dataset  # noqa: PLC0415 - as above
    from registry_cli.options import locate  # noqa: PLC0415 - as above

    try:
        dataset, _ = read_dataset(locate(context.params.get("registry_path")))
        rows = read_rows(dataset, sql, params)
    except (RegistryError, OSError):
        return []
    return [row["word"] for row in rows if row["word"].startswith(incomplete.lower())]
