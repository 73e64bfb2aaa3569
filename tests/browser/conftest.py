"""A site of the curated records and one of hostile records, and a real browser to look at them."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from registry.api import Registry
from registry.site.build import write_site
from registry.site.serve import build_server
from registry.store.folder import create_registry, find_registry

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

#: Names of the browser, in the order in which they are looked for.
NAMES = ("chromium", "chromium-browser", "google-chrome")


def find_browser() -> str | None:
    """Return the path of a Chromium of the system, or the one that CHROMIUM names."""
    named = os.environ.get("CHROMIUM")
    return named or next(filter(None, map(shutil.which, NAMES)), None)


def ignore_progress(_: int) -> Callable[[], None]:
    return lambda: None


@dataclass
class Site:
    """A site as several files at an address, and as one file."""

    db: Registry
    address: str
    single: str
    folder: Path

    @property
    def forms(self) -> dict[str, str]:
        """The address of each form."""
        return {"served": self.address, "single file": self.single}


def build_both(db: Registry, folder: Path, n_models: int) -> tuple[Path, Path]:
    several, single = folder / "several", folder / "single"
    write_site(db, several, n_models=n_models, progress=ignore_progress)
    write_site(db, single, n_models=n_models, single_file=True, progress=ignore_progress)
    return several, single


def serve_both(db: Registry, folder: Path, n_models: int) -> Iterator[Site]:
    several, single = build_both(db, folder, n_models)
    with build_server(several, 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        address = f"http://127.0.0.1:{server.server_port}/"
        yield Site(db, address, (single / "index.html").as_uri(), several)
        server.shutdown()
        thread.join()


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a headless Chromium."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="needs playwright: pip install -e '.[test,browser]'"
    )
    pytest.importorskip("altair", reason="the site's charts need the extra [plot]")
    path = find_browser()
    if path is None:
        pytest.skip(f"no browser: none of {', '.join(NAMES)} is on PATH (CHROMIUM names another)")
    with playwright.sync_playwright() as tools:
        # root in a container has no sandbox to set up, and the site is our own
        running = tools.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield running
        running.close()


@pytest.fixture(scope="session")
def site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the site of the curated records, with predictions for one model."""
    folder = tmp_path_factory.mktemp("site")
    assert browser.is_connected()
    path = folder / "registry"
    create_registry(path)
    yield from serve_both(Registry(find_registry(path)), folder, 1)


#: Text that a careless page would run or show as markup.
HOSTILE = '<img src=x onerror="window.attacked=1"></script><script>window.attacked=2</script>'


def hostile_submission() -> dict[str, Any]:
    return {
        "source": {
            "source_id": "hostile",
            "title": HOSTILE,
            "url": "javascript:window.attacked=3",
            "licence": HOSTILE,
            "note": HOSTILE,
        },
        "observations": [
            {
                "outcome": "ok",
                "model_reported": HOSTILE,
                "configuration": {
                    "model_id": "llama-2-7b", "method": "lora", "gpu_id": "rtx-3090", "n_gpus": 1,
                    "seq_len": 512, "micro_batch_size": 1, "dataset": HOSTILE,
                },
                "environment": {"framework": HOSTILE, "framework_version": HOSTILE},
                "measurements": [{"metric": "peak_memory", "kind": "reserved", "value": "20 GiB"}],
                "citations": [{"locator": HOSTILE, "cells": {HOSTILE: HOSTILE}}],
            }
        ],
    }  # fmt: skip


@pytest.fixture(scope="session")
def hostile_site(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Return the site of a registry that holds nothing but hostile text."""
    folder = tmp_path_factory.mktemp("hostile")
    assert browser.is_connected()
    path = folder / "registry"
    create_registry(path)
    db = Registry(find_registry(path, curated=False))
    db.add(hostile_submission())
    yield from serve_both(db, folder, 0)


@dataclass
class Seen:
    """What a page asked for and complained about."""

    errors: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def hear(self, said: Any) -> None:
        """Keep what the console says of an error."""
        if said.type == "error":
            self.errors.append(said.text)

    @property
    def foreign(self) -> list[str]:
        """Requests to anything but this machine and the page itself."""
        return [
            url
            for url in self.requests
            if urlsplit(url).scheme not in ("file", "data", "blob")
            and urlsplit(url).hostname != "127.0.0.1"
        ]


@pytest.fixture
def look(browser: Any) -> Iterator[Callable[..., Any]]:
    """Return a function that opens an address and waits for its page.

    At the end no page may have complained, or have asked another host for anything.
    """
    seen = Seen()
    contexts = []

    def open_page(address: str, name: str, **options: Any) -> Any:
        context = browser.new_context(accept_downloads=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("console", seen.hear)
        page.on("pageerror", lambda problem: seen.errors.append(str(problem)))
        page.on("request", lambda request: seen.requests.append(request.url))
        page.goto(address)
        wait_for(page, name)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert (seen.errors, seen.foreign) == ([], [])


def wait_for(page: Any, name: str) -> None:
    """Wait until a page says that it is shown."""
    page.wait_for_selector(f"html[data-ready={name}]", timeout=60_000)
