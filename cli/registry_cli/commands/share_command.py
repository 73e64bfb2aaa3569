"""``registry share``."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.errors import SourceError
from registry.query.model import Layout
from registry.text import format_slug
from registry_cli import console
from registry_cli.options import locate, parse_prefix, registry_option
from registry_cli.output import terminal_width
from registry_cli.output_file import open_output, validate_output

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from registry.sharing.patch import Author
    from registry.sharing.request import Contribution
    from registry.sharing.selection import ChosenRecords, OwnRecords
    from registry.store.derive_tables import Document
    from registry.store.folder import Location

_DIGITS = 8
#: Columns that are shown first where a terminal is too narrow for all of them.
_FIRST = ("observation", "model", "card", "peak", "s/step", "nearest curated")
#: Cells of a line where no terminal shows it: nothing is left out.
_WIDEST = 10_000


@click.command(name="share")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option(
    "--plan",
    metavar="PLAN",
    help="Share all trials of this plan (its name or file), or a source of yours.",
)
@click.option("--last", is_flag=True, help="Share what was measured last.")
@click.option(
    "-o",
    "--output",
    "folder",
    metavar="DIR",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path(),
    help="Where to write the patch and the text (else the current folder).",
)
@click.option("--dry-run", is_flag=True, help="Check and show; write nothing.")
@click.option("--author", metavar="'NAME <MAIL>'", help="Who contributes (else git's user).")
@click.option(
    "--allow",
    metavar="TEXT",
    multiple=True,
    help="Share this text although it looks private (repeatable).",
)
@click.option(
    "--clone",
    metavar="DIR",
    type=click.Path(path_type=Path, exists=True, file_okay=False),
    help="Also commit on a new branch of this clone of the curated repository.",
)
@click.option("--push", metavar="REMOTE", help="Push that branch to a remote, after you confirm.")
@registry_option
def command(
    ids: tuple[str, ...],
    *,
    plan: str | None,
    last: bool,
    folder: Path,
    dry_run: bool,
    author: str | None,
    allow: tuple[str, ...],
    clone: Path | None,
    push: str | None,
    registry_path: Path | None,
) -> None:
    """Write a contribution to the curated records from your own observations.

    Checks the observations chosen by ID, --plan or --last, shows everything that would be shared,
    and writes a patch for `git am` and the text of a pull request, with the figures next to the
    nearest curated ones. Works offline: nothing leaves this machine without --push and your
    confirmation. Ids stay the same. If anything looks private, it stops with exit status 1.

    \b
    Examples:
      registry add tests/examples/valid/minimal.json
      registry share --plan my-runs --dry-run --author 'Ada <ada@example.org>'
    """  # noqa: D301 - \b keeps the examples' lines
    _validate(ids, plan=plan, last=last, clone=clone, push=push)
    from registry.api import Registry  # noqa: PLC0415 - heavy
    from registry.sharing.patch import find_author  # noqa: PLC0415 - likewise
    from registry.sharing.request import describe_contribution, format_files, offer_documents  # noqa: PLC0415 - heavy
    from registry.sharing.selection import read_own  # noqa: PLC0415 - likewise

    location = locate(registry_path)
    giver = find_author(author)
    own = read_own(location, giver.name)
    chosen = _choose(own, ids, plan, last=last)
    documents = offer_documents(chosen, giver)
    _show_content(documents, allow)
    contribution = describe_contribution(Registry(location), chosen, own.observation_ids)
    _show_contribution(contribution, chosen)
    if dry_run:
        console.hint("nothing was written; leave out --dry-run to write the patch")
        return
    files = format_files(documents)
    paths = _name_files(location, folder, contribution)
    branch = _commit(clone, files, contribution, giver) if clone else ""
    _write(paths, files, contribution, giver)
    if clone and push:
        _push(clone, push, branch)


def _validate(
    ids: tuple[str, ...],
    *,
    plan: str | None,
    last: bool,
    clone: Path | None,
    push: str | None,
) -> None:
    if [bool(ids), plan is not None, last].count(True) != 1:
        raise click.UsageError("expected ids of observations, or --plan PLAN, or --last")
    if push and not clone:
        raise click.UsageError("found --push without --clone; expected the clone to push from")
    for one in ids:
        parse_prefix(one)


def _choose(
    own: OwnRecords, ids: tuple[str, ...], plan: str | None, *, last: bool
) -> ChosenRecords:
    if plan is not None:
        return own.choose_source(_plan_name(plan))
    return own.choose_last() if last else own.choose_ids(ids)


def _plan_name(plan: str) -> str:
    """Return the source that the trials of a plan are recorded under."""
    if not plan.endswith(".toml"):
        return plan
    from registry.measure.running.plan import read_plan  # noqa: PLC0415 - of a file alone

    path = Path(plan)
    return format_slug(read_plan(path).name if path.is_file() else path.stem)


def _show_content(documents: Sequence[Document], allow: Iterable[str]) -> None:
    """Show every value that would go out; raise SourceError where some look private."""
    from registry.sharing.content import collect_leaves, find_private, format_leaves  # noqa: PLC0415 - heavy

    leaves = collect_leaves(documents)
    console.say("Everything that would be shared, each field once with its distinct values:")
    console.answer(f"  {line}" for line in format_leaves(leaves))
    found = find_private(leaves, allow)
    if found:
        raise SourceError(
            "\n".join(found) + "\nnothing was written; leave these observations out, or allow a "
            "text that is not private with --allow TEXT"
        )


def _show_contribution(contribution: Contribution, chosen: ChosenRecords) -> None:
    from registry.query.table import format_table  # noqa: PLC0415 - heavy
    from registry.sharing.request import format_rows  # noqa: PLC0415 - likewise
    from registry.sharing.selection import PUBLISHED_WAY_OUT  # noqa: PLC0415 - likewise

    heading, *rows = format_rows(contribution)
    layout = Layout(
        width=terminal_width() or _WIDEST,
        first=_FIRST,
        prose=_FIRST[-1:],
        way_out="in the text of the pull request",
    )
    console.say("")
    console.answer("".join(format_table(heading, iter([rows]), layout)).splitlines())
    console.say("")
    console.say("What a reviewer may ask about:")
    console.answer(f"  {line}" for line in contribution.doubts or ("nothing was found",))
    if chosen.n_curated:
        console.hint(f"left out: {chosen.n_curated} that the curated records already hold")
    for source, count in chosen.published:
        console.hint(f"left out: {count} that others published: {source}")
    if chosen.published:
        console.hint(PUBLISHED_WAY_OUT)


def _name_files(location: Location, folder: Path, contribution: Contribution) -> tuple[Path, Path]:
    """Return where patch and text go. Raises SourceError where something is there already."""
    stem = f"share-{contribution.source_ids[0]}"
    patch, text = folder / f"{stem}.patch", folder / f"{stem}.md"
    for path in (patch, text):
        validate_output(path, location)
        if path.exists():
            raise SourceError(
                f"{path}: exists already; expected no such file; remove it, or name another "
                "folder with -o"
            )
    return patch, text


def _write(
    paths: tuple[Path, Path],
    files: Mapping[str, bytes],
    contribution: Contribution,
    author: Author,
) -> None:
    from registry.sharing.patch import format_patch  # noqa: PLC0415 - heavy

    message = _message(contribution)
    contents = (format_patch(files, message, author), f"# {message}".encode())
    paths[0].parent.mkdir(parents=True, exist_ok=True)
    for path, data in zip(paths, contents, strict=True):
        with open_output(path) as file:
            file.write(data)
    patch, text = (shlex.quote(str(path)) for path in paths)
    console.say("")
    console.say(f"{patch}: in a clone of the curated repository, git am {patch}")
    console.say(f"{text}: title and text of the pull request")


def _message(contribution: Contribution) -> str:
    from registry.sharing.request import format_request  # noqa: PLC0415 - heavy

    return "\n".join((contribution.title, "", *format_request(contribution), ""))


def _commit(
    clone: Path, files: Mapping[str, bytes], contribution: Contribution, author: Author
) -> str:
    """Commit on a new branch of the clone, and return the branch's name."""
    from registry.sharing.patch import make_branch  # noqa: PLC0415 - heavy

    first = contribution.rows[0]["observation_id"][:_DIGITS]
    branch = f"share-{contribution.source_ids[0]}-{first}"
    commit = make_branch(clone, branch, files, _message(contribution), author)
    console.say("")
    console.say(f"{clone}: branch {branch}, commit {commit[:12]}; nothing else there was changed")
    return branch


def _push(clone: Path, remote: str, branch: str) -> None:
    from registry.sharing.patch import push_branch  # noqa: PLC0415 - heavy

    if not click.confirm(f"Push {branch} to {remote}?", err=True):
        console.hint("not pushed; nothing has left this machine")
        return
    console.say(push_branch(clone, remote, branch).strip())
