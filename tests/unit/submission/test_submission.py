"""The pydantic model: the way to write a submission in Python."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pytest
from pydantic import BaseModel, ValidationError

import registry.submission
from registry.contract.resources import read_yaml
from registry.submission import (
    PARTS,
    Configuration,
    Measurement,
    Observation,
    Retraction,
    Source,
    Submission,
)
from registry.submission.spec import part_spec


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


_RUN = {"outcome": "ok", "configuration": {"model_id": "m", "method": "lora"}}


@pytest.mark.parametrize(
    "written",
    [
        "2024-05-01T12:00:00+02:00",
        "2024-05-01T10:00:00Z",
        datetime(2024, 5, 1, 10, tzinfo=UTC),
        datetime(2024, 5, 1, 12, tzinfo=timezone(timedelta(hours=2))),
    ],
)
def test_times_are_kept_in_utc(written: object) -> None:
    observation = Observation.model_validate({**_RUN, "observed_at": written})
    assert observation.observed_at == datetime(2024, 5, 1, 10, tzinfo=UTC)
    assert observation.observed_at.tzinfo is UTC


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("yesterday", "expected an ISO 8601 timestamp"),
        (2024, "expected an ISO 8601 timestamp"),
        ("2024-05-01T12:00:00", "expected a time zone, such as a final Z"),
        (datetime(2024, 5, 1), "expected a time zone, such as a final Z"),  # noqa: DTZ001
        ("0001-01-01T00:00:00+02:00", "expected a year from 1 to 9999 in UTC"),
    ],
)
def test_what_is_no_time_is_refused(written: object, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        Observation.model_validate({**_RUN, "observed_at": written})
    assert [error["msg"] for error in caught.value.errors()] == [message]


def test_every_part_is_a_class_with_the_columns_of_the_contract() -> None:
    assert set(PARTS) == set(read_yaml("submission.yaml")["parts"])
    for name in PARTS:
        part = getattr(registry.submission, name)
        assert part.__name__ == name
        assert part.__module__ == "registry.submission"
        assert tuple(part.model_fields) == part_spec(name).names


def test_what_is_no_part_is_no_attribute() -> None:
    with pytest.raises(AttributeError) as caught:
        _ = registry.submission.Nothing
    assert str(caught.value) == "module 'registry.submission' has no attribute 'Nothing'"


def test_what_is_left_out_is_none_empty_or_the_default() -> None:
    submission = Submission()
    assert submission.schema_version == 1
    assert submission.source is None
    assert (submission.models, submission.gpus) == ([], [])
    assert (submission.observations, submission.retractions) == ([], [])
    observation = Observation.model_validate(_RUN)
    assert observation.evidence == "measured"
    assert observation.environment.model_dump(exclude_none=True) == {}
    assert (observation.measurements, observation.phase) == ([], None)
    figure = Measurement(metric="step_time", value=1.0)
    assert (figure.statistic, figure.scope, figure.origin) == ("value", "total", "reported")
    assert figure.kind is None


@pytest.mark.parametrize(
    ("part", "missing"),
    [
        (Observation, {"outcome", "configuration"}),
        (Configuration, {"model_id", "method"}),
        (Measurement, {"metric", "value"}),
        (Source, {"source_id"}),
        (Retraction, {"observation_id", "reason", "retracted_at"}),
    ],
)
def test_required_columns_are_asked_for(part: type[BaseModel], missing: set[str]) -> None:
    with pytest.raises(ValidationError) as caught:
        part.model_validate({})
    found = {(error["loc"][0], error["type"]) for error in caught.value.errors()}
    assert found == {(name, "missing") for name in missing}


@pytest.mark.parametrize("value", [2, 2.5, "36.6 GiB"])
def test_a_figure_is_a_number_or_a_text_with_its_unit(value: float | str) -> None:
    assert Measurement(metric="peak_memory", value=value).value == value


@pytest.mark.parametrize("value", [True, None, math.nan, math.inf, [1]])
def test_a_figure_is_nothing_else(value: object) -> None:
    with pytest.raises(ValidationError):
        Measurement.model_validate({"metric": "step_time", "value": value})


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("lora_rank", "8"),
        ("lora_rank", 8.0),
        ("lora_dropout", "0.1"),
        ("packing", 1),
        ("lora_target_modules", "q_proj"),
        ("peft_config", "{}"),
        ("model_id", 7),
    ],
)
def test_a_value_of_another_type_is_refused(column: str, value: object) -> None:
    stated = {"model_id": "m", "method": "lora", column: value}
    with pytest.raises(ValidationError) as caught:
        Configuration.model_validate(stated)
    assert {error["loc"][0] for error in caught.value.errors()} == {column}


def test_a_column_carries_its_meaning() -> None:
    assert Source.model_fields["source_id"].description == "Lower-case slug."
    column = part_spec("Configuration").columns["lora_rank"]
    assert Configuration.model_fields["lora_rank"].description == column.meaning


def test_unknown_columns_are_refused() -> None:
    with pytest.raises(ValidationError, match="Extra inputs are not permitted"):
        Source.model_validate({"source_id": "a", "colour": "red"})


def test_parts_are_frozen() -> None:
    source = Source(source_id="a")
    with pytest.raises(ValidationError, match="Instance is frozen"):
        source.title = "b"
