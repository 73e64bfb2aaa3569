"""The view counts operations as the library does, and one observation is found in it."""

from __future__ import annotations

from typing import Any

import pytest

import registry
from registry.errors import QuestionError
from registry.predict.calibration.runs import read_runs_sql
from registry.predict.question import question_of
from registry.predict.utilization import Utilization, read_utilization, utilize
from registry.store.folder import curated_dir

_SAMPLES = "coalesce(samples_per_second, global_batch_size / seconds_per_step)"


def _of(row: dict[str, Any], rate: float, peak_flops: float) -> Utilization:
    """Return the utilization of a run of ``runs.sql``."""
    # methods differ in how many parameters are trained alone
    method = "full" if row["method"] == "full" else "lora"
    counts = {"trainable_params": row["trainable_params"] or 0, "gpu_id": None, "quant_bits": None}
    # what the view does not know: it counts an encoder-decoder as one stack, as long as both
    one_stack = {"model_type": None}
    question = question_of({**row, **counts, **one_stack, "method": method, "optimizer": None})
    if row["trainable_params"] is None and row["trains_embeddings"]:
        question = question.changed(trainable_params=question.model.embedding_params)
    tokens = min(row["tokens_per_second"] / row["samples"], row["seq_len"])
    return utilize(question, tokens=tokens, rate=rate, peak_flops=peak_flops)


def test_sql_counts_operations_as_the_formulas_do() -> None:
    db = registry.open(curated_dir())
    view = {row["observation_id"]: row for row in db.query("from utilization").rows()}
    rows = db.query(
        f"select *, {_SAMPLES} as samples from ({read_runs_sql()}) "  # noqa: S608 - names of our own
        "where tokens_per_second is not null and samples is not null and seq_len is not null"
    ).rows()
    computed = [row for row in rows if row["observation_id"] in view]
    assert len(computed) > 400
    for row in computed:
        seen = view[row["observation_id"]]
        found = _of(row, seen["tokens_per_second_per_gpu"], seen["peak_flops_per_second"])
        assert seen["model_flops_utilization"] == pytest.approx(found.model, rel=1e-9)
        hardware = found.hardware and pytest.approx(found.hardware, rel=1e-9)
        assert seen["hardware_flops_utilization"] == hardware


def test_no_run_used_more_than_its_card_has() -> None:
    db = registry.open(curated_dir())
    sql = "select source_id, model_flops_utilization as share from utilization order by share desc"
    first, *others = db.query(sql).rows()
    # 512,000 tokens of packed samples, which need not attend to each other: its review says so
    assert (first["source_id"], first["share"] > 1) == ("ms-swift-examples", True)
    assert 0.4 < others[0]["share"] < 1


def test_one_observation_is_found_by_the_beginning_of_its_id() -> None:
    db = registry.open(curated_dir())
    sql = (
        "from utilization where source_id = 'qwen-finetune-profile' order by observation_id limit 1"
    )
    row = db.query(sql).rows()[0]
    assert read_utilization(db, row["observation_id"][:12]) == {**row, "flags": None}


def test_an_observation_without_a_rate_has_none() -> None:
    db = registry.open(curated_dir())
    sql = "select observation_id from results where outcome = 'oom' limit 1"
    assert read_utilization(db, db.query(sql).rows()[0]["observation_id"]) is None


def test_an_id_of_no_run_is_refused() -> None:
    with pytest.raises(QuestionError) as caught:
        read_utilization(registry.open(curated_dir()), "nothing")
    assert str(caught.value) == (
        "observation 'nothing': found 0 observations; expected one; list them with `registry ls`"
    )
