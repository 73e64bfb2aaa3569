"""The budget: what the first chart costs, and how long the page takes to follow a change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    Look = Callable[..., Any]

#: Bytes of the first view, over the network.
FIRST_VIEW = 800_000
#: Seconds of processor time; twice the goal, since machines that run tests are slow and shared.
FIRST_CHART, INTERACTION = 2.0, 0.2


def busy(page: Any) -> float:
    """Return the seconds of work of a page so far."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    metrics = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in metrics if one["name"] == "TaskDuration"))


def test_the_first_chart_is_small_and_fast(look: Look, site: Any) -> None:
    for name in ("fit", "explore"):
        page = look(f"{site.address}#/{name}", name)
        assert busy(page) < FIRST_CHART
        sizes = page.evaluate(
            "['navigation', 'resource'].flatMap((kind) => performance.getEntriesByType(kind))"
            ".map((one) => one.encodedBodySize)"
        )
        assert min(sizes) > 0
        assert len(sizes) >= 6
        assert sum(sizes) < FIRST_VIEW


def test_the_page_follows_a_change_at_once(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/explore", "explore")
    page.locator(".facet summary", has_text="Outcome").click()
    before = busy(page)
    for _ in range(4):
        page.get_by_role("checkbox", name="ok").click()
        page.wait_for_timeout(400)
    assert (busy(page) - before) / 4 < INTERACTION
