"""Columns of tables and views have one meaning and unit, from the contract."""

from __future__ import annotations

from registry.contract.descriptions import (
    Description,
    collect_comments,
    describe_column,
    describe_relation,
    describe_result_column,
    format_comment,
    view_columns,
)


def test_a_table_column_is_described_by_its_contract() -> None:
    assert describe_column("configurations", "attention") == Description(
        "Attention implementation.", vocabulary="attention"
    )
    assert describe_column("configurations", "colour") is None


def test_a_view_column_has_its_own_description_else_that_of_the_table() -> None:
    peak = describe_column("results", "peak_memory_bytes")
    assert peak == Description("Peak memory of all accelerators together.", "byte")
    assert describe_column("scaling", "peak_memory_bytes_per_gpu") == describe_column(
        "results", "peak_memory_bytes_per_gpu"
    )
    assert describe_column("results", "seq_len") == describe_column("configurations", "seq_len")


def test_a_comment_ends_with_the_unit() -> None:
    assert format_comment(Description("Peak.", "byte")) == "Peak. [byte]"
    assert format_comment(Description("Peak.")) == "Peak."


def test_every_relation_and_every_column_of_results_has_a_comment() -> None:
    comments = {(relation, column): text for relation, column, text in collect_comments()}
    assert comments["results", ""] == describe_relation("results")
    assert all(comments["results", column] for column in view_columns("results"))
    assert comments["models", "n_params"].endswith("[parameter]")


def test_a_result_column_is_described_by_its_name_alone() -> None:
    speedup = describe_result_column("speedup")
    assert speedup is not None
    assert speedup.meaning == "Throughput over that of the smallest number of GPUs."
    assert describe_result_column("n") is None
