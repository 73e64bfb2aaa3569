"""Ids of corrected observations are found again by the places that report them."""

from __future__ import annotations

import json

from registry.store.documents import match_places


def places(*locators: str) -> str:
    rows = [{"source_id": "s"}, *({"locator": one, "source_id": "s"} for one in locators)]
    return "\n".join(sorted(json.dumps(row, sort_keys=True) for row in rows))


def test_a_corrected_row_is_found_in_its_place() -> None:
    old = {"a": places("table 1, row 1"), "b": places("table 1, row 2")}
    new = {"a": places("table 1, row 1"), "b2": places("table 1, row 2")}
    assert match_places(old, new) == {"b": "b2"}


def test_rows_added_at_the_end_move_nothing() -> None:
    old = {"a": places("table 1, row 1"), "b": places("table 1, row 2")}
    new = {"a2": places("table 1, row 1"), "b": places("table 1, row 2", "table 1, row 3")}
    assert match_places(old, new) == {"a": "a2"}


def test_an_id_that_was_there_before_is_nobody_elses_new_one() -> None:
    old = {"a": places("table 1, row 1"), "b": places("table 2, row 1")}
    assert match_places(old, {"b": places("table 1, row 1")}) == {}


def test_where_rows_moved_no_id_of_their_table_is_matched() -> None:
    old = {f"r{n}": places(f"table 1, row {n}") for n in (1, 2, 3)}
    old["c"] = places("table 2, row 1")
    new = {"added": places("table 1, row 1"), "corrected": places("table 1, row 2")} | {
        "r2": places("table 1, row 3"),
        "r3": places("table 1, row 4"),
        "c2": places("table 2, row 1"),
    }
    assert match_places(old, new) == {"c": "c2"}
