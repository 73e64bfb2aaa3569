"""The spread of several figures is no amount, and is read as what it is or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from registry.tables.guess import guess_column

if TYPE_CHECKING:
    from typing import Protocol

    from registry.tables import ImportResult

    class Importer(Protocol):
        def __call__(self, document: str, mapping: str, *, suffix: str = ".md") -> ImportResult: ...


MAPPING = """
source: {{source_id: a}}
defaults: {{model_id: qwen-7b, method: lora, n_gpus: 1}}
tables:
  - match: {{}}
    columns:
      tokens/s std: {{figure: {{metric: tokens_per_second, unit: token/s{statistic}}}}}
"""


@pytest.mark.parametrize(
    ("name", "meaning"),
    [
        ("Step time std (ms)", "step_time, unit ms, std"),
        ("tokens_per_sec_std", "tokens_per_second, unit token/s, std"),
        ("peak_mem_std_gb", "peak_memory, unit GB, std"),
        ("s/it (std)", "step_time, unit s/step, std"),
        ("Speicher, Standardabweichung (GB)", "peak_memory, unit GB, std"),
        ("显存标准差 (GB)", "peak_memory, unit GB, std"),
    ],
)
def test_a_deviation_is_drafted_as_one(name: str, meaning: str) -> None:
    assert str(guess_column(name, ["0.12", "0.15"])) == meaning


@pytest.mark.parametrize("name", ["Loss Std", "Std", "Accuracy (std)"])
def test_a_deviation_is_no_time_in_hours(name: str) -> None:
    assert guess_column(name, ["1.56", "2.37"]).metric is None


@pytest.mark.parametrize("name", ["Trainingszeit (Std.)", "Dauer (Std)", "Training (Std)"])
def test_hours_are_abbreviated_alike_in_german(name: str) -> None:
    assert str(guess_column(name, ["3"])) == "total_time, unit h"


def test_a_mean_beside_its_deviation_is_a_figure() -> None:
    assert guess_column("Step time (mean \u00b1 std, s)", ["1.2"]).statistic == "mean"


def test_a_deviation_is_not_imported_as_an_amount(importer: Importer) -> None:
    document = "tokens/s std\n12\n"
    (problem,) = importer(document, MAPPING.format(statistic=""), suffix=".csv").problems
    assert "found 'std' in the header, the spread of several figures" in problem
    read = importer(document, MAPPING.format(statistic=", statistic: std"), suffix=".csv")
    assert not read.problems
