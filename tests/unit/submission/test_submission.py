"""The pydantic model: the way to write a submission in Python."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from pydantic import ValidationError

from registry.submission import Configuration, Measurement, Observation, Source, Submission


def test_a_submission_is_written_in_python_as_in_json() -> None:
    submission = Submission(
        source=Source(source_id="my-runs"),
        observations=[
            Observation(
                outcome="ok",
                configuration=Configuration(model_id="llama-2-7b", method="lora"),
                measurements=[Measurement(metric="step_time", value=2.5)],
            )
        ],
    )
    text = submission.model_dump_json(exclude_none=True)
    assert Submission.model_validate_json(text) == submission


def test_times_are_kept_in_utc() -> None:
    observation = Observation.model_validate(
        {
            "outcome": "ok",
            "configuration": {"model_id": "m", "method": "lora"},
            "observed_at": "2024-05-01T12:00:00+02:00",
        }
    )
    assert observation.observed_at == datetime(2024, 5, 1, 10, tzinfo=UTC)


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Source.model_validate({"source_id": "a", "colour": "red"})


def test_parts_are_frozen() -> None:
    source = Source(source_id="a")
    with pytest.raises(ValidationError, match="Instance is frozen"):
        source.title = "b"
