"""Each key of the mapping language is documented, and has an example that runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.tables import parse_mapping
from registry.tables.mapping_page import (
    PAGE,
    collect_keys,
    format_page,
    read_examples,
    run_example,
    used_keys,
)

if TYPE_CHECKING:
    from registry.catalogue import Catalogue

EXAMPLES = read_examples()


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_what_it_says(name: str, catalogue: Catalogue) -> None:
    assert run_example(EXAMPLES[name], catalogue) == EXAMPLES[name]["gives"]


def test_each_key_of_the_model_has_an_example_and_a_meaning() -> None:
    mappings = [parse_mapping(e["mapping"], origin="m.yaml") for e in EXAMPLES.values()]
    shown = {key for mapping in mappings for key in used_keys(mapping)}
    fields = {
        (spec, name): field
        for spec, of_spec in collect_keys().items()
        for name, field in of_spec.model_fields.items()
    }
    assert fields.keys() - shown == set()
    assert [key for key, field in fields.items() if not field.description] == []


def test_the_page_is_the_one_that_the_model_gives() -> None:
    assert PAGE.read_text(encoding="utf-8") == format_page(EXAMPLES)
