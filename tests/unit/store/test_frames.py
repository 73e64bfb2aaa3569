"""Data frames become submissions: each value in the type that its column has."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from registry.errors import SubmissionError
from registry.store.frames import compose_frames

ID = "0f" * 16
OTHER = "1f" * 16


def build_frames() -> dict[str, pd.DataFrame]:
    """Return the frames of one observation."""
    return {
        "sources": pd.DataFrame({"source_id": ["src-a"], "kind": ["run"], "title": [np.nan]}),
        "configurations": pd.DataFrame(
            {
                "configuration_id": [ID],
                "model_id": ["tiny"],
                "method": ["lora"],
                "lora_rank": [8.0],
                "lora_alpha": [16],
                "gradient_checkpointing": [1],
                "lora_target_modules": [["q_proj", "v_proj"]],
                "seq_len": [None],
            }
        ).astype({"gradient_checkpointing": bool}),
        "observations": pd.DataFrame(
            {
                "observation_id": [ID],
                "source_id": ["src-a"],
                "configuration_id": [ID],
                "environment_id": [OTHER],
                "outcome": ["ok"],
                "evidence": ["measured"],
                "observed_at": [pd.Timestamp("2024-05-01T10:00:00Z")],
            }
        ),
    }


def refusal(frames: dict[str, pd.DataFrame]) -> list[str]:
    with pytest.raises(SubmissionError) as caught:
        list(compose_frames(frames))
    assert caught.value.origin == "frames"
    return caught.value.problems


def test_each_value_has_the_type_of_its_column() -> None:
    (document,) = compose_frames(build_frames())
    (observation,) = document["observations"]
    configuration = observation["configuration"]
    assert configuration == {
        "model_id": "tiny",
        "method": "lora",
        "lora_rank": 8,
        "lora_alpha": 16.0,
        "gradient_checkpointing": True,
        "lora_target_modules": ["q_proj", "v_proj"],
    }
    types = {name: type(value) for name, value in configuration.items()}
    assert (types["lora_rank"], types["lora_alpha"]) == (int, float)
    assert types["gradient_checkpointing"] is bool
    assert observation["observed_at"] == "2024-05-01T10:00:00Z"
    assert document["source"] == {"source_id": "src-a", "kind": "run"}


def test_a_reference_that_is_missing_is_named_with_its_table() -> None:
    frames = build_frames()
    assert len(list(compose_frames(frames))) == 1
    frames["environments"] = pd.DataFrame({"environment_id": [ID]})
    assert refusal(frames) == [
        f"observations.environment_id: found '{OTHER}'; expected a row of environments"
    ]
    frames["environments"] = pd.DataFrame({"environment_id": [OTHER]})
    assert len(list(compose_frames(frames))) == 1
    del frames["configurations"]
    assert refusal(frames) == [
        f"observations.configuration_id: found '{ID}'; expected a row of configurations"
    ]


def test_tables_that_the_registry_makes_are_not_handed_in() -> None:
    for name in ("submissions", "retractions"):
        (problem,) = refusal({name: pd.DataFrame()})
        assert problem.startswith(f"{name}: no such table")


@pytest.mark.parametrize(
    ("frame", "problem"),
    [
        (
            pd.concat([pd.DataFrame({"configuration_id": [ID]})] * 2, axis=1),
            "configurations: found the column 'configuration_id' twice; expected each column once",
        ),
        (
            pd.DataFrame([[ID]], columns=pd.MultiIndex.from_tuples([("a", "b")])),
            "configurations: found columns of 2 levels; expected one name each",
        ),
        ([{"configuration_id": ID}], "configurations: found list; expected a pandas DataFrame"),
        (None, "configurations: found NoneType; expected a pandas DataFrame"),
    ],
)
def test_what_is_no_table_with_each_column_once_is_refused(frame: Any, problem: str) -> None:
    assert refusal({**build_frames(), "configurations": frame}) == [problem]


def test_a_time_without_a_zone_is_refused_beside_one_with_a_zone() -> None:
    frames = build_frames()
    more = frames["observations"].assign(observation_id=OTHER)
    both = pd.concat([frames["observations"], more], ignore_index=True)
    times = [pd.Timestamp("2024-05-01T10:00:00Z"), pd.Timestamp("2024-05-01T10:00:00")]
    both["observed_at"] = pd.Series(times, dtype=object)
    (problem,) = refusal({**frames, "observations": both})
    assert problem.startswith("observations.observed_at: found ")
    assert "expected the dtype datetime64[us, UTC]" in problem


def test_any_text_is_an_id_and_what_json_may_leave_out_rows_may_too() -> None:
    frames = build_frames()
    frames["observations"] = frames["observations"].assign(
        observation_id="first run", configuration_id="small"
    )
    del frames["observations"]["environment_id"], frames["observations"]["evidence"]
    frames["configurations"] = frames["configurations"].assign(configuration_id="small")
    figures = {"observation_id": ["first run"], "metric": ["step_time"], "value": [2.0]}
    frames["measurements"] = pd.DataFrame(figures)
    (document,) = compose_frames(frames)
    (observation,) = document["observations"]
    assert observation["configuration"]["lora_rank"] == 8
    assert observation["measurements"] == [{"metric": "step_time", "value": 2.0}]
    assert "environment" not in observation


def test_an_id_that_is_no_text_or_missing_is_refused() -> None:
    frames = build_frames()
    frames["configurations"] = frames["configurations"].assign(configuration_id=7)
    assert refusal(frames) == [
        "configurations, row 0 (configuration_id = 7): found configuration_id = 7; expected text"
    ]
    frames["configurations"] = frames["configurations"].assign(configuration_id=None)
    (problem,) = refusal(frames)
    assert problem.endswith("found configuration_id = null; expected a value")
