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
    assert len(view) > 400
    assert set(view) == set(computed)
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
