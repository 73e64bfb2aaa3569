"""A submission is made canonical, or everything that is wrong with it is told at once.

Single messages are held by tests/examples/invalid.
"""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from registry.catalogue import Catalogue
from registry.contract import load_table
from registry.errors import SubmissionError
from registry.submission import Submission
from registry.submission.messages import check_value
from registry.submission.prepare import Prepared, prepare_submission, read_figure

CATALOGUE = Catalogue(
    models={"tiny": {"model_id": "tiny", "aliases": ["Tiny LM"]}},
    gpus={"gpu-a": {"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30, "device_names": ["GPU A"]}},
)


def _document(**observation: Any) -> dict[str, Any]:
    return {
        "source": {"source_id": "s"},
        "observations": [
            {
                "outcome": "ok",
                "configuration": {"model_id": "tiny", "method": "lora"},
                "measurements": [{"metric": "step_time", "value": 2}],
                **observation,
            }
        ],
    }


def _prepare(document: Any) -> Prepared:
    return prepare_submission(document, CATALOGUE, origin="doc")


def _problems(document: Any) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        _prepare(document)
    return caught.value.problems


def _observation(prepared: Prepared) -> dict[str, Any]:
    observation: dict[str, Any] = prepared.document["observations"][0]
    return observation


def test_the_text_is_the_canonical_form_and_the_id_its_hash() -> None:
    prepared = _prepare(_document())
    assert json.loads(prepared.text) == prepared.document
    assert len(prepared.submission_id) == 64


def test_order_of_keys_nulls_and_empty_lists_do_not_change_the_id() -> None:
    plain = _prepare(_document()).submission_id
    padded = _document(flags=[], phase=None, samples=[])
    padded = {"observations": padded["observations"], "source": padded["source"], "models": []}
    assert _prepare(padded).submission_id == plain


def test_a_model_object_is_the_same_as_its_document() -> None:
    document = _document(observed_at="2024-05-01T12:00:00+02:00")
    assert _prepare(Submission.model_validate(document)).submission_id == (
        _prepare(document).submission_id
    )


def test_the_document_handed_in_is_left_as_it_is() -> None:
    document = _document()
    before = json.dumps(document)
    _prepare(document)
    assert json.dumps(document) == before


def test_aliases_become_ids() -> None:
    configuration = {"model_id": "tiny lm", "method": "lora", "gpu_id": "GPU A"}
    prepared = _prepare(_document(configuration=configuration))
    assert _observation(prepared)["configuration"]["model_id"] == "tiny"
    assert _observation(prepared)["configuration"]["gpu_id"] == "gpu-a"


def test_a_submission_may_describe_its_own_model() -> None:
    document = _document(configuration={"model_id": "mine", "method": "lora"})
    assert _problems(document)[0].startswith(
        "observations[0].configuration.model_id: unknown model 'mine'"
    )
    assert _prepare({**document, "models": [{"model_id": "mine"}]})


def test_figures_as_text_keep_their_text_unit_and_reading() -> None:
    figure = {"metric": "peak_memory", "kind": "device", "value": "20 GiB"}
    prepared = _prepare(_document(measurements=[figure]))
    (stored,) = _observation(prepared)["measurements"]
    assert stored["value"] == 20 * 2**30
    assert stored["raw"] == "20 GiB"
    assert stored["unit_reported"] == "GiB"
    assert stored["origin"] == "reported"


@pytest.mark.parametrize(
    ("scope", "cards"),
    [
        ({"scope": "mean_gpu"}, {"n_nodes": 2, "gpus_per_node": 8}),
        ({"scope": "per_gpu", "device_index": 3}, {"n_gpus": 4}),
        ({"scope": "mean_gpu"}, {}),
        ({}, {"n_gpus": 1}),
        ({}, {"n_nodes": 1, "gpus_per_node": 1}),
    ],
)
def test_a_share_of_one_gpu_is_read_where_a_figure_is_of_one_gpu(
    scope: dict[str, Any], cards: dict[str, Any]
) -> None:
    figure = {"metric": "tokens_per_second", "value": "1.2k tokens/s/gpu", **scope}
    stated = {"model_id": "tiny", "method": "lora", **cards}
    prepared = _prepare(_document(configuration=stated, measurements=[figure]))
    (stored,) = _observation(prepared)["measurements"]
    assert (stored["value"], stored["reading"]) == (1200.0, "k token/s/gpu")


@pytest.mark.parametrize("cards", [{}, {"n_gpus": 2}])
def test_a_share_of_one_gpu_is_no_rate_of_all(cards: dict[str, Any]) -> None:
    figure = {"metric": "tokens_per_second", "value": "1.2k tokens/s/gpu"}
    stated = {"model_id": "tiny", "method": "lora", **cards}
    (problem,) = _problems(_document(configuration=stated, measurements=[figure]))
    assert problem == (
        "observations[0].measurements[0].value: found '1.2k tokens/s/gpu', expected the speed of "
        "all GPUs together; one GPU's share has the scope mean_gpu; write it with its unit, or as "
        "a number (token/second)"
    )


def test_a_document_holds_what_was_stated_and_nothing_that_follows() -> None:
    configuration = {
        "model_id": "tiny",
        "method": "lora",
        "n_gpus": 1,
        "micro_batch_size": 2,
        "grad_accum_steps": 4,
    }
    prepared = _prepare(_document(configuration=configuration))
    (step_time,) = _observation(prepared)["measurements"]
    assert (step_time["value"], step_time["origin"]) == (2.0, "reported")
    assert _observation(prepared)["configuration"] == configuration
    assert "citations" not in _observation(prepared)


def test_preparing_again_changes_nothing() -> None:
    once = _prepare(_document(flags=["short_run", "figures_disagree"]))
    assert _prepare(once.document) == once


def test_lists_of_text_are_sorted_sets() -> None:
    one = _prepare(_document(flags=["short_run", "figures_disagree", "short_run"]))
    assert _observation(one)["flags"] == ["figures_disagree", "short_run"]


def test_all_problems_are_told_together_with_their_places() -> None:
    document = _document(outcome="fine", phase="forwards")
    document["source"]["source_id"] = "S"
    places = [problem.split(":")[0] for problem in _problems(document)]
    assert places == ["source.source_id", "observations[0].outcome", "observations[0].phase"]


def test_at_most_twenty_problems_are_told() -> None:
    document = _document(samples=[{"step": -1} for _ in range(30)])
    problems = _problems(document)
    assert len(problems) == 21
    assert problems[-1] == "and 10 more problems in this document"


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_figures_from_python_are_finite(value: float) -> None:
    assert _problems(_document(measurements=[{"metric": "step_time", "value": value}])) == [
        (
            f"observations[0].measurements[0].value: found {value}; expected a finite number, or "
            "text with a unit such as 36.6 GiB"
        )
    ]


def test_a_long_value_is_cut_in_the_message() -> None:
    (problem,) = _problems(_document(outcome="x" * 1000))
    assert len(problem) < 200


@pytest.mark.parametrize(
    ("table", "column", "value", "problem"),
    [
        ("configurations", "lora_dropout", 1.5, "expected at most 1"),
        ("configurations", "lora_dropout", 0.5, None),
        ("configurations", "packing", False, None),
        ("configurations", "seq_len", 2**63, "expected at most 1000000000"),
        ("configurations", "attention", "flash2", None),
        ("sources", "note", "two\nlines", None),
        (
            "sources",
            "note",
            "a\x1db",
            "expected text without control characters or unpaired surrogates",
        ),
        ("observations", "provenance", {"a": "b"}, None),
    ],
)
def test_a_value_is_checked_against_its_column(
    table: str, column: str, value: Any, problem: str | None
) -> None:
    assert check_value(load_table(table).column(column), value) == problem


def test_a_figure_is_read_in_the_unit_of_its_metric() -> None:
    assert read_figure("total_time", "1h30min", where="x")["value"] == 5400
    assert read_figure("step_time", "2.5s/it", where="x")["value"] == 2.5
    assert read_figure("trainable_params", "33.55M", where="x")["value"] == 33_550_000


def test_true_is_no_version() -> None:
    assert _problems({**_document(), "schema_version": True}) == [
        "schema_version: found True; expected an integer"
    ]
