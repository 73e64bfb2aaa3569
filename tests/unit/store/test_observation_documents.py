"""Rows of observations as documents."""

from __future__ import annotations

from typing import Any

import pytest

from registry.store.observation_documents import as_document


@pytest.mark.parametrize(
    ("row", "document"),
    [
        ({"provenance": '{"command": "train"}'}, {"provenance": {"command": "train"}}),
        ({"run_id": '{"command": "train"}'}, {"run_id": '{"command": "train"}'}),
        ({"configuration": {"peft_config": "[1]", "seq_len": None}},
         {"configuration": {"peft_config": [1]}}),
        ([{"cells": '{"a": "1.5"}', "page": None}, 7], [{"cells": {"a": "1.5"}}, 7]),
        ({"flags": ["[1]"]}, {"flags": ["[1]"]}),
    ],
)  # fmt: skip
def test_columns_of_json_are_objects_and_what_is_not_stated_is_left_out(
    row: Any, document: Any
) -> None:
    assert as_document(row) == document
