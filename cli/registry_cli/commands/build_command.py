"""``registry build``."""

from __future__ import annotations

from pathlib import Path

import click

from registry_cli import console
from registry_cli.options import locate, registry_option


@click.command(name="build")
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if a file is wrong.")
@registry_option
def command(*, check: bool, registry_path: Path | None) -> int:
    """Regenerate records/tables from records/sources and records/catalogue.

    It also writes records/REVIEW.md, which lists figures that contradict each other, and
    docs/sources.md.

    Sources that were added or changed since the last build are pending: readers derive them, and
    --check accepts them.

    Unlike other commands, it uses ./records of a checkout unless --registry names others.

    \b
    Example:
      registry build --check
    """  # noqa: D301 - \b keeps the example's lines
    from registry.sources.pages import check_pages, write_pages  # noqa: PLC0415 - heavy
    from registry.store.build import build_tables, check_tables  # noqa: PLC0415 - heavy

    location = locate(registry_path)
    folder = location.own if registry_path else location.curated or location.own
    result = check_tables(folder.path) if check else build_tables(folder.path)
    pages: list[str] = []
    if not check:
        pages = write_pages(folder.path)
    elif not result.pending and not result.changed:
        pages = check_pages(folder.path)
    changed = (*result.changed, *pages)
    verdict = f"{len(changed)} files differ" if changed else "no file differs"
    click.echo(
        f"{result.n_submissions} submissions, {result.n_observations} observations; {verdict}"
    )
    for name in changed:
        console.say(f"  {name}")
    if result.renamed:
        console.hint(f"{len(result.renamed)} observations have a new id: ids.csv maps the old ones")
    if check and result.pending:
        console.hint(f"pending: {', '.join(result.pending)}; `registry build` makes the tables")
    return 1 if check and changed else 0
