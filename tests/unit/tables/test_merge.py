"""Reports of the same experiment become one observation, and only these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

import pytest

from registry.submission.prepare import prepare_submission

if TYPE_CHECKING:
    from registry.catalogue import Catalogue
    from registry.tables import ImportResult

    class Importer(Protocol):
        def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult: ...


MAPPING = """
source: {source_id: mine}
defaults: {method: lora, gpu_id: rtx-4090, n_gpus: 1}
columns:
  model: {to: model_id}
  batch: {to: micro_batch_size}
  memory: {figure: {metric: peak_memory}}
  speed: {figure: {metric: step_time}}
tables:
  - match: {table: 1}
    title: results
"""


def observations(importer: Importer, rows: list[str], mapping: str) -> list[dict[str, Any]]:
    lines = ["| model | batch | memory | speed |", "| --- | --- | --- | --- |", *rows]
    result = importer("\n".join(lines), mapping)
    assert result.problems == ()
    return list(result.submission["observations"])


def test_the_same_configuration_with_other_figures_is_another_run(importer: Importer) -> None:
    rows = ["| qwen-7b | 1 | 17GiB | - |", "| qwen-7b | 1 | 18GiB | - |"]
    found = observations(importer, rows, MAPPING)
    assert [entry["run_id"] for entry in found] == ["1", "2"]


def test_reports_of_one_run_unite_their_figures(importer: Importer) -> None:
    rows = ["| qwen-7b | 1 | 17GiB | - |", "| qwen-7b | 1 | 17GiB | 2s/it |"]
    (found,) = observations(importer, rows, MAPPING)
    assert [entry["metric"] for entry in found["measurements"]] == ["peak_memory", "step_time"]
    assert [entry["row"] for entry in found["citations"]] == [1, 2]
    assert "run_id" not in found


def test_figures_that_may_be_of_several_runs_join_none(importer: Importer) -> None:
    rows = [
        *("| qwen-7b | 1 | 17GiB | - |", "| qwen-7b | 1 | 18GiB | - |"),
        *("| qwen-7b | 1 | - | 2s/it |", "| qwen-7b | 1 | - | 3s/it |"),
    ]
    found = observations(importer, rows, MAPPING)
    assert [len(entry["measurements"]) for entry in found] == [1, 1, 1, 1]


UNITE = MAPPING + "unite: {micro_batch_size: the same figures}\n"


def test_a_report_that_leaves_a_column_out_joins_the_one_that_states_it(importer: Importer) -> None:
    rows = ["| qwen-7b | - | 17GiB | - |", "| qwen-7b | 1 | 17GiB | 2s/it |"]
    (found,) = observations(importer, rows, UNITE)
    assert found["configuration"]["micro_batch_size"] == 1
    assert found["inferences"] == {"micro_batch_size": "the same figures"}


@pytest.mark.parametrize(
    "rows",
    [
        ["| qwen-7b | - | 17GiB | - |", "| qwen-7b | 1 | 18GiB | - |"],
        ["| qwen-7b | - | 17GiB | - |", "| qwen-7b | 1 | - | 2s/it |"],
        ["| qwen-7b | 2 | 17GiB | - |", "| qwen-7b | 1 | 17GiB | - |"],
    ],
    ids=["figures differ", "no figure in common", "both stated"],
)
def test_reports_that_are_not_surely_of_one_run_stay_apart(
    importer: Importer, rows: list[str]
) -> None:
    assert len(observations(importer, rows, UNITE)) == 2


def test_a_report_that_fits_two_others_joins_neither(importer: Importer) -> None:
    rows = [f"| qwen-7b | {batch} | 17GiB | - |" for batch in ("-", "1", "2")]
    assert len(observations(importer, rows, UNITE)) == 3


def test_null_takes_a_default_away(importer: Importer) -> None:
    mapping = MAPPING.replace("    title: results", "    defaults: {gpu_id: null}")
    (found,) = observations(importer, ["| qwen-7b | 1 | 90GiB | - |"], mapping)
    assert "gpu_id" not in found["configuration"]


def test_rules_hold_for_their_rows_only(importer: Importer) -> None:
    rule = "rules: [{when: {batch: [2, 3]}, set: {seq_len: {value: 512, because: so}}}]\n"
    rows = ["| qwen-7b | 1 | 17GiB | - |", "| qwen-7b | 2 | 17GiB | - |"]
    found = observations(importer, rows, MAPPING + rule)
    assert [entry["configuration"].get("seq_len") for entry in found] == [None, 512]
    assert [entry.get("inferences") for entry in found] == [None, {"seq_len": "so"}]


def test_a_rule_may_give_the_reason_for_a_cells_value(importer: Importer) -> None:
    rule = "rules: [{when: {batch: 1}, because: {micro_batch_size: so}}]\n"
    (found,) = observations(importer, ["| qwen-7b | 1 | 17GiB | - |"], MAPPING + rule)
    assert found["inferences"] == {"micro_batch_size": "so"}


def test_words_say_what_a_mark_means(importer: Importer) -> None:
    words = "{figure: {metric: peak_memory}, words: {x: {outcome: error, outcome_detail: crash}}}"
    mapping = MAPPING.replace("{figure: {metric: peak_memory}}", words)
    (found,) = observations(importer, ["| qwen-7b | 1 | x | - |"], mapping)
    assert (found["outcome"], found["outcome_detail"]) == ("error", "crash")


def test_figures_of_cards_between_separators_are_per_card(importer: Importer) -> None:
    mapping = MAPPING.replace("peak_memory}}", "peak_memory}, cards_separator: +}")
    mapping = mapping.replace("n_gpus: 1", "n_gpus: 2")
    (found,) = observations(importer, ["| qwen-7b | 1 | 17GiB+18GiB | - |"], mapping)
    cards = [(card["device_index"], card["value"]) for card in found["measurements"]]
    assert cards == [(0, 17 * 2**30), (1, 18 * 2**30)]


RATES = (
    MAPPING.replace("step_time", "samples_per_second")
    .replace("memory: {figure: {metric: peak_memory}}", "memory: {figure: {metric: total_time}}")
    .replace("n_gpus: 1", "n_gpus: 1, n_samples: 100, n_epochs: 2")
)


@pytest.mark.parametrize(
    ("rate", "flags"),
    [("2.00 sample/s", None), ("1.96 sample/s", ["figures_disagree"]), ("0.5 s/sample", None)],
)
def test_figures_that_contradict_each_other_are_kept_and_flagged(
    importer: Importer, rate: str, flags: list[str] | None
) -> None:
    (found,) = observations(importer, [f"| qwen-7b | 1 | 100.0s | {rate} |"], RATES)
    assert found.get("flags") == flags
    assert len(found["measurements"]) == 2


def test_glued_runs_that_cannot_be_split_one_way_are_a_problem(importer: Importer) -> None:
    glued = "    glued_runs: [{when: {model: qwen-7b}, runs: 2, columns: {memory: '[0-9]+'}}]\n"
    document = "| model | batch | memory | speed |\n|---|---|---|---|\n| qwen-7b | 1 | 123 | - |"
    (problem,) = importer(document, MAPPING + glued).problems
    assert problem == (
        "doc.md, table 1, row 1, column 'memory': found '123', expected one way to split it into "
        "2 glued figures, each [0-9]+, not 1 + 23; 12 + 3"
    )


BY_BATCH = """
source: {source_id: mine}
defaults: {model_id: qwen-7b, gpu_id: rtx-4090, n_gpus: 1}
tables:
  - match: {}
    columns: {m: {values: {LoRA: {method: lora}}}}
    pivot:
      - {columns: mem at (.+), to: micro_batch_size, cell: {figure: {metric: peak_memory}}}
      - {columns: time at (.+), to: micro_batch_size, cell: {figure: {metric: total_time}}}
"""


UPRIGHT = """\
|m|mem at 4|time at 4|mem at 8|time at 8|
|---|---|---|---|---|
|LoRA|20 GB|3h|22 GB|4h|
"""
ON_ITS_SIDE = """\
|m|LoRA|
|---|---|
|mem at 4|20 GB|
|time at 4|3h|
|mem at 8|22 GB|
|time at 8|4h|
"""


@pytest.mark.parametrize(
    ("document", "key", "places"),
    [
        (UPRIGHT, "", ["table 1, row 1, column 4", "table 1, row 1, column 8"]),
        (
            ON_ITS_SIDE,
            "\n    transposed: true",
            ["table 1, column LoRA, row 4", "table 1, column LoRA, row 8"],
        ),
    ],
)
def test_columns_of_one_label_are_one_place(
    importer: Importer, catalogue: Catalogue, document: str, key: str, places: list[str]
) -> None:
    result = importer(document, BY_BATCH.replace("match: {}", f"match: {{}}{key}"))
    assert result.problems == ()
    found = result.submission["observations"]
    citations = [observation["citations"] for observation in found]
    assert [[c["locator"] for c in of_one] for of_one in citations] == [[p] for p in places]
    assert citations[0][0]["cells"].keys() == {"m", "mem at 4", "time at 4"}
    assert [len(observation["measurements"]) for observation in found] == [2, 2]
    assert prepare_submission(result.submission, catalogue, origin="x").document
