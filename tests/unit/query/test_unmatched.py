"""Words that no row can hold are explained; all others are left alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.query.unmatched import explain_unmatched
from registry.store.folder import curated_dir, find_registry
from registry.store.snapshot import load_catalogue

if TYPE_CHECKING:
    from registry.catalogue import Catalogue

NOT_ITS_WORD = "none of the column's words"


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return load_catalogue(find_registry(curated_dir()))


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        ("method = 'qlora'", "method 'qlora': expected method = 'lora' and quant_bits = 4"),
        ("method == 'QDoRA'", "method 'QDoRA': expected method = 'dora' and quant_bits = 4"),
        ("r.\"outcome\"='OOM'", f"outcome 'OOM': {NOT_ITS_WORD}; did you mean 'oom'?"),
        ("outcome in ('ok', 'Fail')", f"outcome 'Fail': {NOT_ITS_WORD}"),
        ("OUTCOME IN ( 'it''s' )", f'OUTCOME "it\'s": {NOT_ITS_WORD}'),
        ("gpu_id = 'RTX 3090'", "gpu_id 'RTX 3090': its id is 'rtx-3090'"),
        ("gpu_id = 'rtx-3091'", "gpu_id 'rtx-3091': not known"),
        ("gpu_id = 'a100'", "gpu_id 'a100': a family of cards, whose ids are in ('a100-40gb', "),
        ("model_id = 'meta-llama/Llama-2-7b-hf'", "its id is 'llama-2-7b'"),
        ("model_id = 'lama-2-7b'", "not known; did you mean 'llama-2-7b'?; `registry models` "),
        ("model_type = 'm2m_100'", "model_type 'm2m_100': no known model has it"),
        ("m.family = 'qwenn'", "family 'qwenn': no known model has it; did you mean 'qwen'?"),
        ("gpu_id in ('t4', $gpu)", "gpu_id 'RTX 3090': its id is 'rtx-3090'"),
    ],
)
def test_a_word_that_no_row_can_hold_is_explained(
    condition: str, expected: str, catalogue: Catalogue
) -> None:
    (found,) = explain_unmatched(
        f"from results r where {condition}", {"gpu": "RTX 3090"}, catalogue
    )
    assert expected in found


@pytest.mark.parametrize(
    "condition",
    [
        "method = 'lora' and outcome = 'oom'",
        "gpu_id = 'rtx-3090' and model_id = 'llama-2-7b'",
        "model_type = 't5' and family = 'llama'",
        "gpu_id = $number and outcome = $missing",
        "framework = 'anything' and source_id = 'nowhere'",
        "method <> 'qlora' and method like 'qlora'",
    ],
)
def test_words_that_rows_may_hold_are_left_alone(condition: str, catalogue: Catalogue) -> None:
    assert (
        list(explain_unmatched(f"from results where {condition}", {"number": 3}, catalogue)) == []
    )
