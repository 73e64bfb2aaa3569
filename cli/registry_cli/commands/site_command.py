"""``registry site``."""

from __future__ import annotations

import contextlib
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import click

from registry.text import format_count
from registry_cli import console
from registry_cli.options import locate, registry_option
from registry_cli.output_file import validate_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@click.command(name="site")
@click.option(
    "-o",
    "--output",
    "target",
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="Folder to write; it must be new or empty.",
)
@click.option("--single-file", is_flag=True, help="Write one page that opens with a double click.")
@click.option("--serve", is_flag=True, help="Serve the site on this machine until interrupted.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Port for --serve.",
)
@click.option(
    "--fit-models",
    "n_models",
    type=click.IntRange(min=0),
    default=24,
    show_default=True,
    help="How many models get predictions: those that the most sources have measured.",
)
@registry_option
def command(
    *,
    target: Path | None,
    single_file: bool,
    serve: bool,
    port: int,
    n_models: int,
    registry_path: Path | None,
) -> None:
    """Write the registry as a static web site: charts, tables, and each observation in full.

    The files need no server program and load nothing from elsewhere: put DIR on any web host, such
    as GitHub Pages. With --single-file, DIR/index.html opens directly from disk. Predictions are
    computed while the site is written, about 5 s per model.

    \b
    Examples:
      registry site -o site --fit-models 1
      registry site --single-file -o page --fit-models 0
    """  # noqa: D301 - \b keeps the examples' lines
    if target is None and not serve:
        raise click.UsageError("expected a folder to write (-o DIR), or --serve")
    with _folder(target) as folder:
        _write(folder, registry_path, n_models=n_models, single_file=single_file)
        if target is not None:
            console.say(f"open {folder / 'index.html'}" if single_file else f"wrote {folder}")
        if serve:
            _serve(folder, port)


@contextlib.contextmanager
def _folder(target: Path | None) -> Iterator[Path]:
    """Yield the folder to write: the one that is named, else one that goes away afterwards."""
    if target is not None:
        yield target
        return
    with tempfile.TemporaryDirectory(prefix="registry-site-") as folder:
        yield Path(folder)


def _write(folder: Path, registry_path: Path | None, *, n_models: int, single_file: bool) -> None:
    from registry.api import Registry  # noqa: PLC0415 - heavy
    from registry.site.build import write_site  # noqa: PLC0415 - heavy

    location = locate(registry_path)
    validate_output(folder / "index.html", location)
    with contextlib.ExitStack() as stack:

        def show_progress(n_steps: int) -> Callable[[], None]:
            bar = stack.enter_context(
                click.progressbar(
                    length=n_steps,
                    label="predicting",
                    file=sys.stderr,
                    hidden=not sys.stderr.isatty(),
                )
            )
            return lambda: bar.update(1)

        sizes = write_site(
            Registry(location),
            folder,
            n_models=n_models,
            single_file=single_file,
            progress=show_progress,
        )
    console.hint(f"{format_count(len(sizes), 'file')}, {sum(sizes.values()) / 1e6:.1f} MB")


def _serve(folder: Path, port: int) -> None:
    from registry.site.serve import serve_folder  # noqa: PLC0415 - only for --serve

    serve_folder(folder, port, lambda address: console.hint(f"serving {address} (Ctrl-C ends it)"))
