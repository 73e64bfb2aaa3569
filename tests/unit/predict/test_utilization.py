"""The view and the library compute the same utilization."""

from __future__ import annotations

from typing import Any

import pytest

import registry
from registry.errors import QuestionError
from registry.predict.calibration.runs import read_runs_sql
from registry.predict.utilization import Utilization, read_utilization, utilization_of
from registry.store.folder import curated_dir


def _of(row: dict[str, Any]) -> Utilization | None:
    try:
        return utilization_of(row)
    except QuestionError:
        return None


def test_sql_and_python_agree_on_every_observation() -> None:
    db = registry.open(curated_dir())
    view = {row["observation_id"]: row for row in db.query("from utilization").rows()}
    sql = read_runs_sql()
    rows = [row for row in db.query(sql).rows() if row["outcome"] == "ok"]
    found = {row["observation_id"]: _of(row) for row in rows}
    computed = {key: value for key, value in found.items() if value is not None}
    assert len(computed) > 400
    # runs.sql leaves out what predictions do not cover, such as models split within a layer
    assert set(view) & set(found) == set(computed)
    for key, value in computed.items():
        seen = view[key]
        assert seen["model_flops_utilization"] == pytest.approx(value.model, rel=1e-9)
        hardware = value.hardware and pytest.approx(value.hardware, rel=1e-9)
        assert seen["hardware_flops_utilization"] == hardware
        assert seen["tokens_per_second_per_gpu"] == pytest.approx(value.tokens_per_second_per_gpu)


def test_no_run_used_more_than_its_card_has() -> None:
    db = registry.open(curated_dir())
    sql = "select max(model_flops_utilization) as most from utilization"
    assert 0.4 < db.query(sql).rows()[0]["most"] < 1


def test_one_observation_is_found_by_the_beginning_of_its_id() -> None:
    db = registry.open(curated_dir())
    sql = (
        "from utilization where source_id = 'qwen-finetune-profile' order by observation_id limit 1"
    )
    row = db.query(sql).rows()[0]
    found = read_utilization(db, row["observation_id"][:12])
    assert found is not None
    assert found.model == pytest.approx(row["model_flops_utilization"])


def test_an_id_of_no_run_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        read_utilization(registry.open(curated_dir()), "nothing")
    assert str(caught.value) == (
        "observation 'nothing': found 0 runs; expected one; list them with `registry ls`"
    )


def test_a_run_whose_tokens_are_not_known_has_none() -> None:
    assert utilization_of({"samples_per_second": 2.0, "seq_len": 512, "n_gpus": 1}) is None


#: A model of 20,000 parameters, 16,800 of which are multiplied with; see the cases of the view.
ROW: dict[str, Any] = {
    "model_id": "small",
    "n_params": 20_000,
    "n_layers": 2,
    "hidden_size": 32,
    "n_heads": 4,
    "head_dim": 8,
    "intermediate_size": 64,
    "vocab_size": 100,
    "tied_embeddings": False,
    "method": "full",
    "gpu_id": "card",
    "n_gpus": 1,
    "seq_len": 100,
    "peak_flops_bf16": 5e9,
    "peak_flops_fp8": 8e9,
    "tokens_per_second": 36_000.0,
}


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"compute_dtype": "bf16"}, 1.00224),
        ({"compute_dtype": "fp8"}, 0.6264),
        ({"compute_dtype": "fp4"}, None),
        ({}, None),
        ({"tokens_per_second": 35_000.0}, 0.9744),
        ({"tokens_per_second": 60_000.0}, 1.6704),  # above all peaks: not explained by a dtype
        ({"compute_dtype": "bf16", "quant_bits": 8}, 1.00224),
    ],
)
def test_the_peak_is_that_of_the_dtype_and_no_16_bits_exceed_it(
    stated: dict[str, Any], expected: float | None
) -> None:
    found = utilization_of({**ROW, **stated})
    assert (found and found.model) == (expected and pytest.approx(expected))


def test_tokens_of_samples_of_no_known_length_have_none() -> None:
    assert utilization_of({**ROW, "compute_dtype": "bf16", "seq_len": None}) is None
