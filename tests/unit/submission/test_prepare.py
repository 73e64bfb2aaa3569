"""What a submission as a whole must hold: its source, ranges, references, keys and rules."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

import pytest

from registry.catalogue import Catalogue
from registry.contract import load_metrics
from registry.errors import SubmissionError, UnitError
from registry.submission.prepare import prepare_submission, read_figure

CATALOGUE = Catalogue(
    models={"tiny": {"model_id": "tiny", "n_layers": 2}},
    gpus={"gpu-a": {"gpu_id": "gpu-a", "memory_bytes": 24 * 2**30}},
)
SOURCE = {"source": {"source_id": "s"}}
RETRACTION = {"observation_id": "0" * 32, "reason": "wrong", "retracted_at": "2024-05-01T00:00:00Z"}
NO_SOURCE = ["source: missing; expected a value; add it"]


def _observation(**parts: Any) -> dict[str, Any]:
    configuration = {"model_id": "tiny", "method": "lora", **parts.pop("configuration", {})}
    return {"outcome": "ok", "configuration": configuration, **parts}


def _figure(metric: str, value: Any, **rest: Any) -> dict[str, Any]:
    return {"metric": metric, "value": value, **rest}


STEP_TIME = [_figure("step_time", 2)]


def _problems(document: Any, *, is_new: bool = True) -> list[str]:
    try:
        prepare_submission(document, CATALOGUE, origin="doc", is_new=is_new)
    except SubmissionError as error:
        return [line.removeprefix("doc: ") for line in str(error).splitlines()]
    return []


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ({}, NO_SOURCE),
        ({"observations": [_observation(measurements=STEP_TIME)]}, NO_SOURCE),
        (
            {"observations": [_observation(measurements=STEP_TIME)], "retractions": [RETRACTION]},
            NO_SOURCE,
        ),
        ({"retractions": [RETRACTION]}, []),
        ({"models": [{"model_id": "mine"}]}, NO_SOURCE),
        (SOURCE, []),
        ({**SOURCE, "retractions": [RETRACTION]}, []),
        ({"retractions": []}, NO_SOURCE),
        ({"retractions": [RETRACTION], "observations": []}, []),
    ],
)
def test_only_a_document_of_retractions_needs_no_source(
    document: dict[str, Any], problems: list[str]
) -> None:
    assert _problems(document) == problems


@pytest.mark.parametrize(
    ("metric", "value", "expected"),
    [
        ("accuracy", 0, None),
        ("accuracy", 1, None),
        ("accuracy", -0.25, "expected at least 0 (1)"),
        ("accuracy", 1.25, "expected at most 1 (1)"),
        ("step_time", 0, None),
        ("step_time", 1e9, None),
        ("step_time", 2e9, "expected at most 1000000000 (second)"),
        ("step_time", "2000000000 s", "expected at most 1000000000 (second)"),
        ("train_loss", -1e300, None),
        ("train_loss", 1e300, None),
    ],
)
def test_a_figure_lies_within_the_range_of_its_metric(
    metric: str, value: float | str, expected: str | None
) -> None:
    found = "2000000000.0" if isinstance(value, str) else str(float(value))
    place = "observations[1].measurements[1].value"
    problems = [f"{place}: found {found}; {expected}"] if expected else []
    first = _observation(measurements=STEP_TIME)
    second = _observation(
        measurements=[_figure("load_time", 1), _figure(metric, value), _figure("eval_time", "3 s")]
    )
    assert _problems({**SOURCE, "observations": [first, second]}) == problems


@pytest.mark.parametrize(
    ("value", "meant"),
    [
        (14.9, '14.9 GiB = 15998753178; write it in bytes, or with its unit, "14.9 GiB"'),
        (640, '640 GiB = 687194767360; write it in bytes, or with its unit, "640 GiB"'),
        (20822, '20822 MiB = 21833449472; write it in bytes, or with its unit, "20822 MiB"'),
        (
            2**20 - 1,
            '1048575 MiB = 1099510579200; write it in bytes, or with its unit, "1048575 MiB"',
        ),
    ],
)
@pytest.mark.parametrize("metric", ["peak_memory", "memory"])
def test_a_figure_too_small_for_bytes_is_in_another_unit(
    metric: str, value: float, meant: str
) -> None:
    document = _memory(metric, value)
    unit = meant.split()[1]
    (problem,) = _problems(document)
    assert problem == (
        f"observations[0].measurements[0].value: found {float(value)}; expected bytes, at least "
        f"1048576; it looks like {unit}: {meant}"
    )
    assert _problems(document, is_new=False) == []  # what is recorded stays readable


@pytest.mark.parametrize(
    ("value", "rest"),
    [
        (0, {}),
        (2**20, {}),
        ("14.9 GiB", {}),
        (14.9, {"flags": ["memory_is_delta"]}),
        (14.9, {"statistic": "std"}),
    ],
)
def test_memory_may_be_small_where_it_is_nothing_a_difference_or_a_spread(
    value: float | str, rest: dict[str, Any]
) -> None:
    assert _problems(_memory("memory", value, **rest)) == []


def test_a_small_figure_with_its_unit_is_refused_without_a_guess() -> None:
    (problem,) = _problems(_memory("peak_memory", "14.9 KiB"))
    assert problem.endswith("found 15258.0; expected bytes, at least 1048576; check the unit")


def _memory(metric: str, value: float | str, **rest: Any) -> dict[str, Any]:
    statistic = {"statistic": rest.pop("statistic")} if "statistic" in rest else {}
    figure = _figure(metric, value, kind="device", **statistic)
    return {**SOURCE, "observations": [_observation(measurements=[figure], **rest)]}


def test_json_is_nested_less_deeply_than_what_readers_refuse() -> None:
    provenance: dict[str, Any] = {}
    for _ in range(100):
        provenance = {"a": provenance}
    document = {
        **SOURCE,
        "observations": [_observation(provenance=provenance, measurements=STEP_TIME)],
    }
    (problem,) = _problems(document)
    assert problem.startswith("observations[0].provenance: found {'a': ")
    assert problem.endswith("; expected at most 100 levels of nesting")
    assert _problems(document, is_new=False) == []  # what is recorded stays readable


def test_an_integer_of_thousands_of_digits_is_told_with_its_place() -> None:
    provenance = {"a": 10**5000}
    document = {
        **SOURCE,
        "observations": [_observation(provenance=provenance, measurements=STEP_TIME)],
    }
    (problem,) = _problems(document)
    found = "found an integer of thousands of digits; expected text, finite numbers, "
    assert problem.startswith(f"observations[0].provenance: {found}")


def test_what_cannot_be_read_is_told_and_the_next_figure_is_read() -> None:
    figures = [_figure("step_time", "soon"), _figure("load_time", -1)]
    problems = _problems({**SOURCE, "observations": [_observation(measurements=figures)]})
    assert len(problems) == 2
    assert problems[0].startswith("observations[0].measurements[0].value: found 'soon'")
    assert problems[0].endswith("; write it with its unit, or as a number (second)")
    assert problems[1] == (
        "observations[0].measurements[1].value: found -1.0; expected at least 0 (second)"
    )


@pytest.mark.parametrize("metric", load_metrics())
def test_no_metric_takes_a_text_without_a_figure(metric: str) -> None:
    with pytest.raises(UnitError) as caught:
        read_figure(metric, "soon", where="here")
    assert str(caught.value).startswith("here: found 'soon'")


@pytest.mark.parametrize(
    ("part", "row", "problem"),
    [
        (
            "models",
            {"model_id": "tiny", "n_layers": 3},
            (
                "models[1]: 'tiny' is known already, with n_layers = 2; found 3; leave the "
                "description out, or give it a different id"
            ),
        ),
        (
            "gpus",
            {"gpu_id": "gpu-a", "memory_bytes": 1},
            (
                "gpus[1]: 'gpu-a' is known already, with memory_bytes = 25769803776; found 1; "
                "leave the description out, or give it a different id"
            ),
        ),
    ],
)
def test_only_a_new_description_may_not_contradict_the_catalogue(
    part: str, row: dict[str, Any], problem: str
) -> None:
    key = "model_id" if part == "models" else "gpu_id"
    document = {**SOURCE, part: [{key: "mine"}, row]}
    assert _problems(document) == [problem]
    assert _problems(document, is_new=False) == []


LARGE = {"n_gpus": 1, "micro_batch_size": 10**8, "grad_accum_steps": 10**8}
TOO_LARGE = (
    "observations[0].configuration.global_batch_size: found 10000000000000000, which follows from "
    "the others; expected at most 100000000000"
)


@pytest.mark.parametrize(
    ("configuration", "problems"),
    [
        (LARGE, [TOO_LARGE]),
        ({**LARGE, "global_batch_size": 8}, []),
        ({**LARGE, "micro_batch_size": 1000}, []),
        ({"n_nodes": 100_000, "gpus_per_node": 10}, []),
        (
            {"n_nodes": 100_000, "gpus_per_node": 11},
            [
                (
                    "observations[0].configuration.n_gpus: found 1100000, which follows from the "
                    "others; expected at most 1000000"
                )
            ],
        ),
    ],
)
def test_a_count_that_follows_lies_within_its_range(
    configuration: dict[str, int], problems: list[str]
) -> None:
    observation = _observation(configuration=configuration, measurements=[_figure("load_time", 1)])
    assert _problems({**SOURCE, "observations": [observation]}) == problems


@pytest.mark.parametrize(
    ("sample_time", "problems"),
    [
        (1e-12, []),
        (
            1e-13,
            [
                (
                    "observations[0]: samples_per_second, derived as 1 / time per sample: "
                    "found 10000000000000.0; expected at most 1000000000000 (sample/second)"
                )
            ],
        ),
    ],
)
def test_a_rate_that_follows_lies_within_its_range(sample_time: float, problems: list[str]) -> None:
    observation = _observation(measurements=[_figure("sample_time", sample_time)])
    assert _problems({**SOURCE, "observations": [observation]}) == problems


def test_a_total_that_follows_lies_within_its_range() -> None:
    cards = [
        _figure("peak_memory", 6e16, scope="per_gpu", device_index=index, kind="device")
        for index in (0, 1)
    ]
    observation = _observation(configuration={"n_gpus": 2}, measurements=cards)
    assert _problems({**SOURCE, "observations": [observation]}) == [
        (
            "observations[0]: peak_memory, derived as sum over 2 cards: found 1.2e+17; "
            "expected at most 100000000000000000 (byte)"
        )
    ]


def test_a_broken_rule_shows_what_is_known_of_it_in_its_order() -> None:
    first = _observation(measurements=STEP_TIME)
    second = _observation(configuration={"method": "full", "lora_rank": 8}, outcome="oom")
    third = _observation(measurements=[_figure("step_time", 2)], outcome="oom", failed_step=1)
    assert _problems({**SOURCE, "observations": [first, second, third]}) == [
        (
            "observations[1]: found method = full, lora_rank = 8; expected that method full has no "
            "lora_rank; remove lora_rank, or state method lora"
        ),
        (
            "observations[2]: found outcome = oom, failed_step = 1, has_step_time = true, has_rate "
            "= false; expected that an observation with outcome oom has neither a step time nor a "
            "rate (unless failed_step says that steps were done); remove them, or state outcome ok "
            "(what says OOM may be about another run), or state failed_step"
        ),
    ]


@pytest.mark.parametrize(
    ("parts", "problem"),
    [
        (
            {"measurements": [*STEP_TIME, _figure("load_time", 1), _figure("step_time", 3)]},
            (
                "measurements[2]: the same as measurements[0] (step_time, value, total); expected "
                "each metric, statistic, scope, device_index, kind once; remove one"
            ),
        ),
        (
            {"citations": [{"locator": "p. 3"}, {"locator": "p. 4"}, {"locator": "p. 4"}]},
            "citations[2]: the same as citations[1] (p. 4); expected each locator once; remove one",
        ),
        (
            {"samples": [{"step": 0}, {"step": 1}, {"step": 0}]},
            "samples[2]: the same as samples[0] (0); expected each step once; remove one",
        ),
    ],
)
def test_what_may_stand_once_stands_once(parts: dict[str, Any], problem: str) -> None:
    observation = _observation(**{"measurements": STEP_TIME, **parts})
    problems = _problems({**SOURCE, "observations": [observation]})
    assert problems == [f"observations[0].{problem}"]


def test_a_third_that_is_the_same_is_compared_with_the_first() -> None:
    observation = _observation(measurements=STEP_TIME, samples=[{"step": 1}] * 3)
    assert _problems({**SOURCE, "observations": [observation]}) == [
        f"observations[0].samples[{index}]: the same as samples[0] (1); expected each step once; "
        "remove one"
        for index in (1, 2)
    ]


@pytest.mark.parametrize(
    ("n_problems", "last"),
    [
        (19, "observations[0].samples[18].step: found -1; expected at least 0"),
        (20, "observations[0].samples[19].step: found -1; expected at least 0"),
        (21, "and 1 more problems in this document"),
        (25, "and 5 more problems in this document"),
    ],
)
def test_twenty_problems_are_told_and_the_others_counted(n_problems: int, last: str) -> None:
    samples = [{"step": -1}] * n_problems
    problems = _problems({**SOURCE, "observations": [_observation(samples=samples)]})
    assert len(problems) == min(n_problems, 21)
    assert problems[-1] == last


@pytest.mark.parametrize(
    ("column", "place"),
    [
        ({"model_id": "tiney"}, "registry.catalogue.known.suggest_model"),
        ({"lora_rnak": 8}, "registry.submission.messages.did_you_mean"),
    ],
)
def test_hints_are_sought_for_the_problems_that_are_shown(
    monkeypatch: pytest.MonkeyPatch, column: dict[str, Any], place: str
) -> None:
    seek = Mock(return_value="")
    monkeypatch.setattr(place, seek)
    wrong = _observation(configuration=column, measurements=STEP_TIME)
    assert len(_problems({**SOURCE, "observations": [wrong] * 50})) == 21
    assert seek.call_count == 20


@pytest.mark.parametrize(
    ("document", "problems"),
    [
        ([], ["the document: found []; expected an object"]),
        (
            {**SOURCE, "observations": {}},
            ["observations: found {}; expected a list"],
        ),
        (
            {**SOURCE, "observations": [{}]},
            [
                "observations[0].outcome: missing; expected a value; add it",
                "observations[0].configuration: missing; expected a value; add it",
            ],
        ),
        (
            {**SOURCE, "sources": []},
            [
                (
                    "sources: unknown column; did you mean 'source'?; expected schema_version, "
                    "source, models, gpus, observations, retractions; rename or remove it"
                )
            ],
        ),
        (
            {"source": {"source_id": "s", "xyzzy": 1}},
            [
                (
                    "source.xyzzy: unknown column; expected a column that "
                    "`registry query --schema sources` lists; rename or remove it"
                )
            ],
        ),
        (
            {**SOURCE, "schema_version": 2},
            [
                (
                    "schema_version: found 2; expected version 1 of the submission format; a newer "
                    "one needs a newer peft-registry"
                )
            ],
        ),
        (
            {**SOURCE, "models": [{"model_id": "m"}] * 10_001},
            [
                "models: found "
                + repr([{"model_id": "m"}] * 9)[:59]
                + "…; expected at most 10000 items"
            ],
        ),
    ],
    ids=range(7),
)
def test_a_fault_of_structure_is_told_with_its_place(document: object, problems: list[str]) -> None:
    assert _problems(document) == problems


def test_a_document_keeps_what_is_stated_and_no_more() -> None:
    document = {
        "schema_version": 1,
        "source": {"source_id": "s", "title": None},
        "models": [],
        "observations": [
            _observation(
                configuration={
                    "kernels": [],
                    "lora_target_modules": ["v", "q", "v"],
                },
                environment={"framework": "trl", "packages": {}},
                measurements=STEP_TIME,
                observed_at="2024-05-01T12:00:00+02:00",
                citations=[],
            )
        ],
    }
    prepared = prepare_submission(document, CATALOGUE, origin="doc")
    assert prepared.document == {
        "schema_version": 1,
        "source": {"source_id": "s"},
        "observations": [
            {
                "outcome": "ok",
                "evidence": "measured",
                "observed_at": "2024-05-01T10:00:00Z",
                "configuration": {
                    "model_id": "tiny",
                    "method": "lora",
                    "lora_target_modules": ["q", "v"],
                },
                "environment": {"framework": "trl"},
                "measurements": [
                    {
                        "metric": "step_time",
                        "statistic": "value",
                        "scope": "total",
                        "value": 2.0,
                        "origin": "reported",
                    }
                ],
            }
        ],
    }
