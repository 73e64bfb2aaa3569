"""Adding: all or none, flat memory, frames as documents."""

from __future__ import annotations

import gc
import weakref
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest

from registry.api import open_registry
from registry.errors import SubmissionError
from registry.store.add import add_submissions
from registry.store.export import export_folder
from registry.store.exported import read_exported
from registry.store.journal import list_entries
from registry.submission.prepare import Prepared
from tests.unit.store.registries import (
    add_numbers,
    build_document,
    count_runs,
    make_registry,
    read_content,
    runs,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from registry.api import Registry


def test_many_are_added_or_none(db: Registry) -> None:
    good = [build_document(number) for number in range(5)]
    bad = [build_document(7, outcome="banana"), build_document(8, failed_step=-1)]
    with pytest.raises(SubmissionError) as caught:
        db.add_many([*good[:3], *bad, *good[3:]])
    places = [problem.split(":")[0] for problem in caught.value.problems]
    assert places == ["submission 4", "submission 5"]
    assert list(db.location.own.journal.iterdir()) == []
    added = db.add_many(good)
    assert [one.is_new for one in added] == [True] * 5
    assert count_runs(db.location) == runs(*range(5))
    assert not any(one.is_new for one in db.add_many(good))


@pytest.mark.parametrize("name", ["qlora", "QDoRA"])
def test_a_name_that_stands_for_a_method_and_bits_is_refused_of_a_run_too(
    db: Registry, name: str
) -> None:
    document = build_document(1)
    document["observations"][0]["configuration"]["method"] = name
    with pytest.raises(SubmissionError, match=f"with quant_bits 4, which is what {name} stands"):
        db.add(document)


def test_the_same_twice_in_one_call_is_new_once(db: Registry) -> None:
    added = db.add_many([build_document(1), build_document(1)])
    assert [one.is_new for one in added] == [True, False]


def test_a_dry_run_says_what_would_be_recorded_and_writes_nothing(db: Registry) -> None:
    (added,) = add_submissions(db.location, [("a.json", build_document(1))], dry_run=True)
    assert (added.is_new, added.origin) == (True, "a.json")
    assert list_entries(db.location.own) == []


class Document(dict[str, Any]):
    """A document that can be counted as long as it lives."""


def test_memory_does_not_grow_with_the_number_of_documents(
    db: Registry,
) -> None:
    alive: weakref.WeakSet[Document] = weakref.WeakSet()
    most = []

    def documents() -> Iterator[Document]:
        for number in range(40):
            document = Document(build_document(number))
            document.__class__.__hash__ = object.__hash__  # type: ignore[assignment]
            alive.add(document)
            yield document
            del document
            gc.collect()
            most.append(len(alive) + _count_prepared())

    gc.freeze()  # what is there before is neither searched nor counted
    try:
        db.add_many(documents())
    finally:
        gc.unfreeze()
    assert max(most[5:]) <= max(most[:5])


def _count_prepared() -> int:
    return sum(isinstance(one, Prepared) for one in gc.get_objects())


def test_a_model_described_by_a_pending_submission_is_known(db: Registry) -> None:
    add_numbers(db, 0)
    document = build_document(1)
    del document["models"], document["gpus"]
    assert db.add(document).is_new


@pytest.mark.parametrize(
    ("part", "key", "figure"),
    [("models", "model_id", "n_params"), ("gpus", "gpu_id", "memory_bytes")],
)
def test_a_description_that_contradicts_a_pending_one_is_refused(
    db: Registry, part: str, key: str, figure: str
) -> None:
    first, second = build_document(0), build_document(1)
    configuration = second["observations"][0]["configuration"]
    configuration["model_id"], configuration["gpu_id"] = "llama-2-7b", "rtx-3090"
    del second["models"], second["gpus"]
    second["source"]["kind"] = "person"  # of a run, the description would be left out
    first[part] = [*first.get(part, ()), {key: "described-twice", figure: 2_000_000_000}]
    second[part] = [{key: "described-twice", figure: 1_000_000_000}]
    db.add(first)
    with pytest.raises(SubmissionError, match="'described-twice' is known already"):
        db.add(second)
    second[part][0][figure] = 2_000_000_000
    assert db.add(second).is_new


def test_a_label_alone_tells_no_run_from_another(db: Registry) -> None:
    document = build_document(0)
    observation = document["observations"][0]
    observation["provenance"] = {"label": "main"}
    del observation["run_id"]
    observation.pop("observed_at", None)
    with pytest.raises(SubmissionError, match="found the label 'main' and neither run_id nor"):
        db.add(document)
    assert db.add({**document, "observations": [{**observation, "run_id": "c1-1"}]}).is_new
    at = {"observed_at": "2026-05-01T10:00:00Z"}
    assert db.add({**document, "observations": [{**observation, **at}]}).is_new


def test_each_label_without_a_run_is_named_with_its_row(db: Registry) -> None:
    document = build_document(0)
    row = {**document["observations"][0], "provenance": {"label": "main"}}
    row.pop("run_id")
    row.pop("observed_at", None)
    rows = [{**row, "citations": [{"locator": f"table 1, row {n}"}]} for n in (4, 5)]
    with pytest.raises(SubmissionError) as error:
        db.add({**document, "observations": [document["observations"][0], *rows]})
    assert "observations[1] (table 1, row 4): found the label 'main'" in str(error.value)
    assert "observations[2] (table 1, row 5): found the label 'main'" in str(error.value)


FRAMES = ("sources", "configurations", "environments", "observations", "measurements")
OWNED = ("citations", "samples", "models", "gpus")


def load_frames(db: Registry) -> dict[str, pd.DataFrame]:
    frames = {name: db.load(name) for name in (*FRAMES, *OWNED)}
    frames["models"] = frames["models"][frames["models"]["model_id"] == "tiny"]
    frames["gpus"] = frames["gpus"][frames["gpus"]["gpu_id"] == "gpu-a"]
    return frames


def test_frames_of_one_registry_give_the_same_ids_and_results_in_another(
    db: Registry, tmp_path: Path
) -> None:
    add_numbers(db, 0, 1)
    db.fold()
    add_numbers(db, 2, outcome="oom", measurements=[])
    other = make_registry(tmp_path / "other")
    other.add_frames(load_frames(db))
    expected, content = read_content(db.location), read_content(other.location)
    for name in ("results", *FRAMES, *OWNED):
        assert content[name] == expected[name], name


def test_everything_that_is_wrong_with_frames_comes_at_once(db: Registry) -> None:
    frames = {
        "observation": pd.DataFrame(),
        "configurations": pd.DataFrame(
            {"configuration_id": ["0" * 32], "model_id": ["tiny"], "method": ["lora"]}
        ).assign(seq_len=-1, colour="red"),
        "samples": pd.DataFrame({"observation_id": ["0" * 32], "step": [-1]}),
    }
    with pytest.raises(SubmissionError) as caught:
        db.add_frames(frames)
    first, unknown, too_short, step, *rest = caught.value.problems
    assert first == (
        "observation: no such table; did you mean 'observations'?; expected some of models, gpus, "
        "sources, environments, configurations, observations, measurements, citations, samples"
    )
    assert unknown.startswith("configurations: unknown column 'colour'; expected columns of ")
    assert too_short.endswith("found seq_len = -1; expected at least 1")
    assert step.endswith("found step = -1; expected at least 0")
    assert rest == []
    assert list_entries(db.location.own) == []


def test_a_reference_to_a_row_that_no_frame_has_is_named(db: Registry) -> None:
    frame = pd.DataFrame({"observation_id": ["0f" * 16], "step": [1]})
    with pytest.raises(SubmissionError) as caught:
        db.add_frames({"samples": frame})
    assert caught.value.problems == [
        f"samples.observation_id: found '{'0f' * 16}'; expected a row of observations"
    ]


def _retracting(identity: str, *, erased: bool, **more: Any) -> dict[str, Any]:
    row = {"observation_id": identity, "reason": "x", "retracted_at": "2024-01-01T00:00:00Z"}
    return {"retractions": [row | ({"erased": True} if erased else {})], **more}


def test_a_document_that_is_added_erases_nothing(db: Registry) -> None:
    (mine,) = db.add(build_document(1)).observation_ids
    with pytest.raises(SubmissionError, match=f"found an erasure of {mine[:12]}"):
        db.add(_retracting(mine, erased=True, **build_document(2)))
    alone = db.add(_retracting(mine, erased=True))
    assert (alone.is_new, alone.is_left_out) == (False, True)
    assert count_runs(db.location) == runs(1)
    assert db.add(_retracting(mine, erased=False)).withdrawn == (mine,)
    assert len(db.query("from results")) == 0


def test_an_export_of_what_was_erased_is_added_without_the_erasure(
    db: Registry, tmp_path: Path
) -> None:
    mine, _ = (one.observation_ids[0] for one in db.add_many(map(build_document, (1, 2))))
    db.retract(mine, reason="private", erase=True)
    export_folder(db.location, tmp_path / "exported")
    other = make_registry(tmp_path / "other")
    add_submissions(other.location, read_exported(tmp_path / "exported"))
    assert count_runs(other.location) == runs(2)


@pytest.mark.parametrize("bound", [{"high": 1e30}, {"low": -1.0}])
def test_a_bound_has_the_limits_of_its_figure(db: Registry, bound: dict[str, float]) -> None:
    document = build_document(1)
    document["observations"][0]["measurements"][0] |= bound
    with pytest.raises(SubmissionError, match=rf"measurements\[0\]\.{next(iter(bound))}: found"):
        db.add(document)


def test_a_registry_stays_where_it_was_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_registry(tmp_path / "own")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    opened = open_registry("own")
    monkeypatch.chdir("elsewhere")
    opened.add(build_document(1))
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert count_runs(opened.location) == runs(1)


def test_a_later_document_may_describe_what_an_earlier_one_is_of(db: Registry) -> None:
    described = build_document(2)
    described.setdefault("models", []).append(
        {"model_id": "of-a-later-one", "n_params": 1_000_000_000}
    )
    needing = build_document(1)
    needing["observations"][0]["configuration"]["model_id"] = "of-a-later-one"
    first, second = db.add_many([needing, described])
    assert (first.is_new, second.is_new) == (True, True)
    assert count_runs(db.location) == runs(1, 2)


def test_a_data_frame_is_sent_to_the_method_for_frames(db: Registry) -> None:
    with pytest.raises(SubmissionError) as caught:
        db.add(pd.DataFrame({"model_id": ["tiny"]}))
    assert str(caught.value) == (
        "submission: found a DataFrame; expected a mapping; for tables there is "
        "add_frames({'observations': …, 'configurations': …, 'measurements': …})"
    )


def test_frames_with_names_of_their_own_are_recorded(db: Registry) -> None:
    rows = {"observation_id": ["a", "b"], "configuration_id": ["c", "c"], "outcome": ["ok", "oom"]}
    chosen = {"configuration_id": ["c"], "model_id": ["tiny"], "method": ["lora"]}
    figures = {"observation_id": ["a"], "metric": ["step_time"], "value": [0.5]}
    (added,) = db.add_frames(
        {
            "observations": pd.DataFrame(rows).assign(source_id="my-runs"),
            "configurations": pd.DataFrame(chosen),
            "measurements": pd.DataFrame(figures),
            "models": pd.DataFrame({"model_id": ["tiny"]}),
        }
    )
    found = db.query("select observation_id, outcome, seconds_per_step from results").rows()
    assert {row["observation_id"] for row in found} == {*added.observation_ids}
    assert {(row["outcome"], row["seconds_per_step"]) for row in found} == {
        ("ok", 0.5),
        ("oom", None),
    }
