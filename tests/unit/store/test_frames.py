"""Data frames become submissions: each value in the type that its column has."""

from __future__ import annotations

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
