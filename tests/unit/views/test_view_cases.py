"""Each view gives the rows that its cases state, of pending rows, folded rows and both."""

from __future__ import annotations

import shutil
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import registry
from registry.contract import view_names
from registry.store.folder import create_registry
from tests.unit.views.view_cases import (
    ROUTES,
    Case,
    find_problems,
    hand_in,
    list_ready,
    load_cases,
    read_names,
    take_route,
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from registry import Registry
    from tests.unit.views.view_cases import Names

    Seen = tuple[str, Names, Mapping[str, list[dict[str, Any]]]]

CASES = load_cases()
READY = list_ready(CASES)


def _see(opened: Registry, route: str) -> Seen:
    rows = {name: opened.query(f"from {name}").rows() for name in view_names()}
    return route, read_names(opened), rows


@pytest.fixture(scope="module")
def first_handed_in(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a registry that holds the first submission of each case, not folded."""
    path: Path = tmp_path_factory.mktemp("cases") / "registry"
    create_registry(path, curated=False)
    hand_in(registry.open(path), READY, later=False)
    return path


@pytest.fixture(scope="module", params=ROUTES)
def seen(request: pytest.FixtureRequest, first_handed_in: Path, tmp_path_factory: Any) -> Seen:
    """Return the rows of every view over a registry that holds all cases."""
    path = tmp_path_factory.mktemp("route") / "registry"
    opened = registry.open(shutil.copytree(first_handed_in, path))
    take_route(opened, READY, request.param)
    return _see(opened, request.param)


def _parameter(case: Case) -> Any:
    marks = [pytest.mark.skip(reason=f"awaits {case.awaits}")] if case.awaits else []
    return pytest.param(case, id=f"{case.view}-{case.slug}", marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_a_view_gives_the_rows_of_its_case(
    case: Case, seen: Seen, request: pytest.FixtureRequest
) -> None:
    route, names, rows = seen
    if reason := case.fails(route):
        request.applymarker(pytest.mark.xfail(reason=reason, strict=True))
    assert find_problems(case, rows[case.view], names) == []


def test_every_view_has_cases_and_results_has_sixty() -> None:
    counts = Counter(case.view for case in READY)
    assert set(counts) == set(view_names())
    assert counts["results"] >= 60


def test_no_two_cases_share_a_claim() -> None:
    assert [slug for slug, n in Counter(case.slug for case in CASES).items() if n > 1] == []
