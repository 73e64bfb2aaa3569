"""The pages in a real browser: they load, filters change them, addresses restore them."""

from __future__ import annotations

import io
import json
import re
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from registry.predict.answer.advice import collect_cards
from registry.predict.answer.prediction import chance_of_fitting, predict_memory
from registry.predict.architecture import architecture_of, gpu_of
from registry.predict.calibration.calibration_file import read_calibration
from registry.predict.question import Question
from registry.store.snapshot import load_catalogue

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Look = Callable[..., Any]

#: Each page, and the heading that it has.
PAGES = {
    "fit": "Will it fit?",
    "explore": "Explore",
    "leaderboards": "Leaderboards",
    "regressions": "Regressions",
    "sources": "Sources",
}
FORMS = ("served", "single file")


def wait_for(page: Any, name: str) -> None:
    """Wait until a page says that it is shown."""
    page.wait_for_selector(f"html[data-ready={name}]", timeout=60_000)


def until(page: Any, condition: str) -> None:
    """Wait until an expression holds on a page, at most 30 s.

    Playwright's own ``wait_for_function`` evaluates the expression in the page after the first
    time, which the pages' policy forbids.
    """
    last = time.monotonic() + 30
    while not page.evaluate(condition):
        assert time.monotonic() < last, f"{condition} did not come to hold"
        page.wait_for_timeout(20)


def drawn(page: Any) -> int:
    """Return how many rows the chart of a page has drawn."""
    return int(page.locator(".chart").get_attribute("data-drawn"))


def ids(page: Any) -> list[str]:
    """Return the observations that a page's table shows."""
    return [link.inner_text() for link in page.locator("td a[href^='#/observation/']").all()]


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize(
    ("form", "width", "theme"),
    [("served", 1280, "light"), ("served", 390, "dark"), ("single file", 390, "light")],
)
def test_every_page_is_shown_without_complaint(  # noqa: PLR0913 - all ways to look at it
    *, look: Look, site: Any, form: str, name: str, width: int, theme: str
) -> None:
    viewport = {"width": width, "height": 844}
    page = look(f"{site.forms[form]}#/{name}", name, viewport=viewport, color_scheme=theme)
    assert page.locator("h1").inner_text() == PAGES[name]
    assert page.locator("nav a[aria-current=page]").inner_text() == PAGES[name]
    assert page.locator("table tbody tr").count() > 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("document.documentElement.lang") == "en"


@pytest.mark.parametrize("form", FORMS)
def test_an_observation_is_shown_in_full(look: Look, site: Any, form: str) -> None:
    (row,) = site.db.query(
        "select o.observation_id as id, m.raw, m.reason from observations o "
        "inner join measurements m using (observation_id) where o.source_id = 'llama2-lora-3090' "
        "and m.metric = 'peak_memory' and m.reason is not null order by id limit 1"
    ).rows()
    page = look(f"{site.forms[form]}#/observation/{row['id'][:12]}", "observation")
    text = page.locator("main").inner_text()
    assert row["id"] in text
    assert f'"{row["raw"]}"' in text
    assert row["reason"] in text
    assert "Licence of the source" in text
    unknown = look(f"{site.forms[form]}#/observation/000000000000", "observation")
    assert unknown.locator("h1").inner_text() == "No such observation"


def test_a_long_link_breaks_on_a_phone(look: Look, site: Any) -> None:
    (row,) = site.db.query(
        "select observation_id as id from observations inner join sources using (source_id) "
        "order by length(url) desc, id limit 1"
    ).rows()
    viewport = {"width": 390, "height": 844}
    page = look(f"{site.address}#/observation/{row['id'][:12]}", "observation", viewport=viewport)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_a_filter_changes_what_is_drawn_and_the_address_restores_it(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/explore", "explore")
    everything, all_ids = drawn(page), ids(page)
    page.locator(".facet summary", has_text="Source").click()
    page.get_by_label("Search in Source").fill("llama2-lora")
    page.get_by_label(re.compile("llama2-lora-3090")).check()
    expected = site.db.query(
        "select count(*) as n from results where source_id = 'llama2-lora-3090' and "
        "seq_len is not null and (peak_memory_bytes is not null or outcome = 'oom')"
    ).rows()[0]["n"]
    until(page, f"document.querySelector('.chart').dataset.drawn === '{expected}'")
    assert 0 < expected < everything
    assert ids(page) != all_ids
    assert "source_id=llama2-lora-3090" in page.url
    page.select_option("#select-x", "micro_batch_size")
    until(page, "location.hash.includes('x=micro_batch_size')")
    again = look(page.url, "explore")
    assert (drawn(again), ids(again)) == (drawn(page), ids(page))
    assert again.locator("#select-x").input_value() == "micro_batch_size"
    again.get_by_role("button", name="Clear filters").click()
    until(again, f"+document.querySelector('.chart').dataset.drawn > {expected}")


@pytest.mark.parametrize("view", ["memory", "speed", "pareto", "fits"])
def test_the_pictures_of_the_command_are_drawn_for_few_models(
    look: Look, site: Any, view: str
) -> None:
    address = f"{site.address}#/explore?view={view}"
    page = look(f"{address}&model_id=mistral-7b&model_id=llama-3.2-3b", "explore")
    assert drawn(page) > 0
    assert page.locator(".chart canvas").is_visible()
    crowded = look(address, "explore")
    assert "choose models and cards with the filters" in crowded.locator(".said").inner_text()
    assert not crowded.locator(".chart").is_visible()


def test_a_picture_draws_the_runs_that_the_command_draws(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/explore?view=pareto&model_id=llama-3.1-8b", "explore")
    command = site.db.plot("pareto", model="llama-3.1-8b").to_dict()
    heading = " ".join(command["title"]["subtitle"])
    (n,) = re.findall(r"^(\d+) observations", heading)
    assert page.locator(".said").inner_text().startswith(f"{n} of ")
    assert "choose an objective to see them" in page.locator(".said").inner_text()
    address = f"{site.address}#/explore?view=pareto&model_id=llama-3.1-8b&objective=pretrain"
    (n,) = site.db.query(PRETRAINED).rows()
    said = look(address, "explore").locator(".said").inner_text()
    assert said.startswith(f"{n['n']} of ")
    assert "left out" not in said


PRETRAINED = """
select count(*) as n
from results
where model_id = 'llama-3.1-8b' and objective = 'pretrain' and tokens_per_second is not null
    and peak_memory_bytes_per_gpu is not null
"""


def test_runs_out_of_memory_are_drawn_at_the_cards_memory(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/explore?outcome=oom", "explore")
    expected = site.db.query(
        "select count(*) as n from results where outcome = 'oom' and seq_len is not null "
        "and gpu_memory_bytes is not null"
    ).rows()[0]["n"]
    assert drawn(page) == expected > 0
    assert f"{expected} of them out of memory" in page.locator(".said").inner_text()


def test_what_is_downloaded_is_what_passes_the_filters(
    look: Look, site: Any, tmp_path: Path
) -> None:
    page = look(f"{site.address}#/explore?source_id=llama2-lora-3090", "explore")
    expected = site.db.query(
        "select left(observation_id, 12) as id, peak_memory_bytes as peak, gradient_checkpointing "
        "as checkpointing from results where source_id = 'llama2-lora-3090' order by id"
    ).rows()
    for name in ("CSV", "Parquet"):
        with page.expect_download() as download:
            page.get_by_role("button", name=f"Download {name}").click()
        download.value.save_as(tmp_path / name)
    lines = (tmp_path / "CSV").read_text(encoding="utf-8").splitlines()
    assert sorted(line.split(",")[0] for line in lines[1:]) == [row["id"] for row in expected]
    rows = pq.read_table(io.BytesIO((tmp_path / "Parquet").read_bytes())).to_pylist()
    rows.sort(key=lambda row: str(row["observation_id"]))
    found = [
        (row["observation_id"], row["peak_memory_bytes"], row["gradient_checkpointing"])
        for row in rows
    ]
    assert found == [(row["id"], row["peak"], row["checkpointing"]) for row in expected]


def test_the_verdicts_are_those_of_the_predictor(look: Look, site: Any) -> None:
    grid = json.loads((site.folder / "data" / "fit.json").read_bytes())
    (model,) = (one["id"] for one in grid["models"])
    page = look(f"{site.address}#/fit?model={model}&method=LoRA&length=1024&batch=2", "fit")
    catalogue, calibration = load_catalogue(site.db.location), read_calibration(site.db)
    question = Question(
        model=architecture_of(catalogue.models[model]),
        method="lora", seq_len=1024, micro_batch_size=2,
    )  # fmt: skip
    gpus = [gpu_of(row) for row in catalogue.gpus.values() if row.get("memory_bytes")]
    cards = collect_cards(question, calibration, gpus)
    expected = {card.gpu.gpu_id: card.verdict for card in cards}
    rows = page.locator("table", has_text="Verdict on each card").locator("tbody tr").all()
    cells = [[cell.inner_text() for cell in row.locator("td").all()] for row in rows]
    assert {row[0].split(" (")[0]: row[2][2:] for row in cells} == expected
    chances = {row[0].split(" (")[0]: int(row[3].strip("<>% ")) for row in cells}
    found = predict_memory(question, calibration)  # whatever ran on the very card
    wanted = {
        gpu.gpu_id: min(max(100 * chance_of_fitting(found, gpu.memory_bytes), 1), 99)
        for gpu in gpus
    }
    assert chances == pytest.approx(wanted, abs=1)
    assert set(expected.values()) >= {"fits", "undecided"}
    page.select_option("#select-card", "a100-sxm4-80gb")
    verdict = page.locator(".verdict").inner_text()
    assert verdict.split(" ", 1)[1].startswith(f"{expected['a100-sxm4-80gb']} on a100-sxm4-80gb")
    assert "card=a100-sxm4-80gb" in page.url


def test_a_leaderboard_names_the_fastest_first(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/leaderboards?model_id=mistral-7b", "leaderboards")
    (best,) = site.db.query(
        "select max(tokens_per_second / n_gpus) as v from results where model_id = 'mistral-7b' "
        "and outcome = 'ok' and evidence = 'measured'"
    ).rows()
    first = page.locator("tbody tr").first.locator("td").nth(1).inner_text()
    assert float(first.replace(",", "")) == pytest.approx(best["v"], rel=0.01)


#: Runs of models on a card that ended well, with a rate, and those of them that may be believed.
RANKED = """
select
    count(*) as n,
    count(*) filter (not coalesce(array_contains(flags, 'suspect'), false)) as believed
from results
where outcome = 'ok' and evidence = 'measured' and tokens_per_second / n_gpus is not null
"""


def test_what_is_hard_to_believe_is_ranked_nowhere_and_found_by_its_flag(
    look: Look, site: Any
) -> None:
    page = look(f"{site.address}#/leaderboards?objective=any", "leaderboards")
    (ranked,) = site.db.query(RANKED).rows()
    assert ranked["believed"] < ranked["n"]
    assert page.locator(".said").inner_text().endswith(f" of {ranked['believed']:,} runs.")
    page = look(f"{site.address}#/explore?flags=suspect", "explore")
    (suspects,) = site.db.query(
        "select observation_id as id, gpu_id from results where flags = ['suspect'] order by id"
    ).rows()[:1]
    said = page.locator(".said").inner_text()
    (n,) = site.db.query("select count(*) as n from results where flags = ['suspect']").rows()
    assert f" of {n['n']} observations have both figures" in said
    assert page.locator("tbody tr", has_text=suspects["id"][:12]).inner_text().endswith("suspect")
    panels = look(f"{site.address}#/explore?view=memory&flags=suspect", "explore")
    assert panels.locator(".said").inner_text().startswith("0 of ")


def test_a_configuration_is_drawn_over_its_releases(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/regressions", "regressions")
    before = page.locator("h2").first.inner_text()
    page.locator("table", has_text="Change from").locator("tbody tr").nth(3).locator("a").click()
    until(page, f"document.querySelector('h2').textContent !== {json.dumps(before)}")
    assert drawn(page) >= 2
    assert "series=" in page.url


@pytest.mark.parametrize("form", FORMS)
def test_hostile_text_stays_text(look: Look, hostile_site: Any, form: str) -> None:
    address = hostile_site.forms[form]
    (row,) = hostile_site.db.query("select observation_id as id from results").rows()
    for name in (*PAGES, f"observation/{row['id']}"):
        page = look(f"{address}#/{name}", name.split("/")[0])
        assert page.evaluate("window.attacked") is None
        assert page.locator("main img").count() == 0
        assert page.locator("a[href^='javascript']").count() == 0
    text = page.locator("main").inner_text()
    assert text.count("<img src=x onerror=") >= 4
    sources = look(f"{address}#/sources", "sources")
    assert "<img src=x onerror=" in sources.locator("table").inner_text()
    sources.evaluate("location.hash = '#/<img src=x onerror=window.attacked=4>'")
    until(sources, "document.querySelector('h1').textContent.startsWith('There is no')")
    assert sources.evaluate("window.attacked") is None


@pytest.mark.parametrize("form", FORMS)
def test_the_policy_forbids_evaluated_and_inline_scripts(
    browser: Any, site: Any, form: str
) -> None:
    page = browser.new_page()
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(site.forms[form])
    wait_for(page, "fit")
    assert said == []
    ran = page.evaluate(
        """() => {
            const script = document.createElement("script");
            script.textContent = "window.attacked = 1";
            document.body.append(script);
            return window.attacked ?? null;
        }"""
    )
    if not said:
        page.wait_for_event("console")
    assert ran is None
    assert len(said) == 1
    assert "violates the following Content Security Policy directive" in said[0]
    assert "unsafe" not in page.locator("meta[http-equiv]").get_attribute("content")
    page.close()


def test_the_pages_work_from_the_keyboard(look: Look, site: Any) -> None:
    page = look(f"{site.address}#/explore", "explore")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.locator(".facet summary", has_text="Outcome").focus()
    page.keyboard.press("Enter")
    page.get_by_role("checkbox", name="oom").wait_for()
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.type") == "checkbox"
    page.keyboard.press("Space")
    until(page, "location.hash.includes('outcome=')")
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("select, input, button, a, [role=region]")]
            .filter((one) => !one.hidden && !(one.labels?.length || one.textContent.trim()
                || one.getAttribute("aria-label"))).length"""
    )
    assert unnamed == 0
