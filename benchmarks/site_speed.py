"""Take the budget of the web site in a real browser: bytes and seconds of the first chart, changes.

Run as ``python -m benchmarks.site_speed [LOADS]`` with ``pip install -e '.[test,browser]'`` and a
Chromium on PATH (``CHROMIUM`` names another). A page is loaded with an empty cache over 20 Mbit/s
and 20 ms, as the browser's own throttle simulates them. A change is counted in processor time of
the page: what others do on the machine does not count.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import threading
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from benchmarks.timing import format_load
from registry.api import Registry
from registry.site.build import write_site
from registry.site.serve import build_server
from registry.store.folder import create_registry, find_registry
from tests.browser.conftest import find_browser, ignore_progress, wait_for

if TYPE_CHECKING:
    from collections.abc import Callable

_LOADS: Final = 15
#: Bytes a second and milliseconds of the simulated network.
_THROUGHPUT: Final = 20e6 / 8
_LATENCY: Final = 20
#: Milliseconds after which a page has certainly followed a change.
_SETTLED: Final = 350
#: Pages whose chart is timed.
_PAGES: Final = ("fit", "explore")
#: Choices that are changed to their last value and back.
_CHOICES: Final = {
    "fit": ("model", "method", "length", "batch", "cards", "card", "settings"),
    "explore": ("x", "y", "colour", "scale"),
}
#: Keeps when a page said that its chart is drawn.
_WATCH: Final = (
    "new MutationObserver((_, observer) => {"
    " if (document.documentElement.dataset.ready)"
    " { window.shownAt = performance.now(); observer.disconnect(); } })"
    ".observe(document, {attributes: true, subtree: true, attributeFilter: ['data-ready']})"
)
_SIZES: Final = (
    "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
    ".reduce((sum, one) => sum + one.encodedBodySize, 0)"
)


def main(loads: int) -> None:
    """Build the site of the curated records, and print what its pages cost."""
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as tools:
        site = Path(folder) / "site"
        create_registry(Path(folder) / "registry")
        db = Registry(find_registry(Path(folder) / "registry"))
        write_site(db, site, n_models=24, progress=ignore_progress)
        # root in a container has no sandbox to set up, and the site is our own
        browser = tools.chromium.launch(executable_path=find_browser(), args=["--no-sandbox"])
        with build_server(site, 0) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            address = f"http://127.0.0.1:{server.server_port}/"
            for name in _PAGES:
                _time_first_chart(browser, address, name, loads)
            for name in _PAGES:
                _time_changes(browser, address, name, loads)
            server.shutdown()
        browser.close()


def _open(browser: Any, address: str, name: str, *, throttled: bool) -> tuple[Any, Any]:
    context = browser.new_context()
    page = context.new_page()
    session = context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    if throttled:
        session.send("Network.enable")
        speeds = {"downloadThroughput": _THROUGHPUT, "uploadThroughput": _THROUGHPUT}
        conditions = {"offline": False, "latency": _LATENCY, **speeds}
        session.send("Network.emulateNetworkConditions", conditions)
        page.add_init_script(_WATCH)
    page.goto(f"{address}#/{name}")
    wait_for(page, name)
    return page, session


def _time_first_chart(browser: Any, address: str, name: str, loads: int) -> None:
    seconds, size = [], 0
    for _ in range(loads):
        page, _session = _open(browser, address, name, throttled=True)
        seconds.append(page.evaluate("window.shownAt") / 1000)
        size = page.evaluate(_SIZES)
        page.context.close()
    print(
        f"{name}: first chart after {statistics.median(seconds):.2f} s "
        f"({min(seconds):.2f} to {max(seconds):.2f}), {size / 1e6:.2f} MB ({format_load()})"
    )


def _time_changes(browser: Any, address: str, name: str, rounds: int) -> None:
    page, session = _open(browser, address, name, throttled=False)
    page.wait_for_timeout(_SETTLED)
    for choice in _CHOICES[name]:
        select = page.locator(f"#select-{choice}")
        usual = select.input_value()
        values = select.evaluate("(one) => [...one.options].map((option) => option.value)")
        other = [value for value in values if value != usual][-1]
        changes = [partial(select.select_option, value) for value in (other, usual)]
        _report(f"{name}, {choice}", page, session, changes * rounds)
    if name == "explore":
        page.locator(".facet summary", has_text="Outcome").click()
        box = page.get_by_role("checkbox", name="ok")
        _report("explore, a filter", page, session, [box.click] * 2 * rounds)
        sort = page.locator("th button.sort").nth(3)
        _report("explore, sort", page, session, [sort.click] * 2 * rounds)
    page.context.close()


def _report(label: str, page: Any, session: Any, changes: list[Callable[[], object]]) -> None:
    page.wait_for_timeout(_SETTLED)
    seconds = []
    for change in changes:
        before = _busy(session)
        change()
        page.wait_for_timeout(_SETTLED)
        seconds.append(_busy(session) - before)
    print(
        f"{label:<22} {1000 * statistics.median(seconds):4.0f} ms of processor time, "
        f"at most {1000 * max(seconds):.0f}"
    )


def _busy(session: Any) -> float:
    """Return the seconds of work of a page so far."""
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


if __name__ == "__main__":
    main(int(sys.argv[1]) if sys.argv[1:] else _LOADS)
