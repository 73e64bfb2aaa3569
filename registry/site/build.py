"""Write the site: a folder of static files, or one page that holds everything."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from registry import __version__
from registry.charts import require_altair
from registry.contract import load_metrics
from registry.site.fit_grid import choose_models, predict_grid
from registry.site.page import build_assets, format_page, format_single_page
from registry.site.pictures import build_pictures
from registry.site.tables import (
    SHARD_DIGITS,
    collect_shards,
    format_json,
    format_parquet,
    rank_methods,
    read_rows,
    read_sources,
)
from registry.store.files import filled_folder, require_free

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from registry.api import Registry
    from registry.site.fit_grid import Grid

#: The page, which is written last.
PAGE = "index.html"
_DATA = "data"


def write_site(
    db: Registry,
    target: Path,
    *,
    n_models: int,
    single_file: bool = False,
    progress: Callable[[int], Callable[[], None]],
) -> dict[str, int]:
    """Write the site to the folder ``target`` and return the bytes of each file.

    ``n_models`` models are on the grid of predictions. ``progress`` is called with the number of
    steps and returns what is called after each. Raises StoreError where ``target`` exists and is
    not empty, or cannot be written; MissingExtraError where Altair is not installed.
    """
    require_altair()
    require_free(target)
    grid = choose_models(db, n_models)
    tick = progress(len(grid.jobs) + 2)
    contents, about = _collect(db, grid, tick)
    pages = (
        {PAGE: format_single_page(about, contents).encode()}
        if single_file
        else {
            **{path: text.encode() for path, text in build_assets().items()},
            **contents,
            PAGE: format_page(about).encode(),
        }
    )
    with filled_folder(target, last=PAGE) as folder:
        for path, content in pages.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(content)
    return {path: len(content) for path, content in pages.items()}


def _collect(
    db: Registry, grid: Grid, tick: Callable[[], None]
) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Return the files that the page reads, and what it says about itself."""
    rows = read_rows(db)
    sources = read_sources(db)
    tick()
    shards = dict(collect_shards(db))
    tick()
    contents = {
        f"{_DATA}/results.parquet": format_parquet(rows),
        f"{_DATA}/sources.json": format_json(sources),
        f"{_DATA}/pictures.json": format_json(build_pictures(rank_methods(rows))),
        f"{_DATA}/fit.json": format_json(predict_grid(db, grid, tick)),
        **{f"{_DATA}/observations/{name}.json.zst": part for name, part in shards.items()},
    }
    about = {
        "version": __version__,
        "observations": rows.num_rows,
        "sources": len(sources),
        "shards": list(shards),
        "shard_digits": SHARD_DIGITS,
        "units": {name: metric.unit for name, metric in load_metrics().items()},
    }
    return contents, about
