"""The registry from Python."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import registry
from registry.errors import MissingRegistryError
from registry.store.folder import create_registry
from registry.submission import Configuration, Measurement, Observation, Source, Submission

if TYPE_CHECKING:
    from registry import Registry

RECORDS = Path(__file__).parents[2] / "records"


def build_submission(run_id: str = "1") -> Submission:
    return Submission(
        source=Source(source_id="my-runs"),
        observations=[
            Observation(
                outcome="ok",
                run_id=run_id,
                configuration=Configuration(model_id="llama-2-7b", method="lora"),
                measurements=[Measurement(metric="step_time", value=2.5)],
            )
        ],
    )


SUBMISSION = build_submission()


@pytest.fixture
def db(tmp_path: Path) -> Registry:
    return registry.open(create_registry(tmp_path / "registry", curated=False).path)


def test_rows_come_as_dictionaries_arrow_and_frame(db: Registry) -> None:
    result = db.query("select gpu_id, memory_bytes from gpus where gpu_id = $id", id="rtx-3090")
    assert result.rows() == [{"gpu_id": "rtx-3090", "memory_bytes": 24 * 2**30}]
    assert isinstance(result.arrow(), pa.Table)
    assert result.df().attrs["units"] == {"memory_bytes": "byte"}
    assert len(result) == 1


def test_rows_come_as_tuples_even_where_names_repeat(db: Registry) -> None:
    assert db.query("select ? as a, ? as b", ["x", 2]).fetchall() == [("x", 2)]
    assert db.query("select 1 as a, 'x' as a, null as b").fetchall() == [(1, "x", None)]
    assert db.query("select 1 as a where false").fetchall() == []


def test_columns_of_a_join_that_share_a_name_are_numbered(db: Registry) -> None:
    result = db.query("select 'ok' as outcome, 'oom' as outcome, 1 as n_params, 2 as n_params")
    row = {"outcome": "ok", "outcome_1": "oom", "n_params": 1, "n_params_1": 2}
    assert result.rows() == [row]
    frame = result.df()
    assert frame.to_dict("records") == [row]
    assert frame["outcome"].dtype == "category"


def test_units_and_meanings_come_with_arrow(db: Registry) -> None:
    schema = db.query("select memory_bytes, memory_bytes / 2 as half from gpus").arrow().schema
    metadata = schema.field("memory_bytes").metadata
    assert metadata[b"unit"] == b"byte"
    assert metadata[b"meaning"]
    assert schema.field("half").metadata is None


def test_a_notebook_shows_rows_with_units_and_takes_no_text_for_markup(db: Registry) -> None:
    html = db.query(
        "select $hostile as note, memory_bytes from gpus where gpu_id = 'rtx-3090'",
        hostile="<script>alert(1)</script>",
    )._repr_html_()
    assert "<script>" not in html
    assert "<td>&lt;script&gt;alert(1)&lt;/script&gt;</td>" in html
    assert "<br><small>byte</small></th>" in html
    head = db.query('select 1 as "<b>"')._repr_html_()
    assert "<th>&lt;b&gt;</th>" in head


def test_a_notebook_shows_the_first_rows_and_says_how_many_there_are(db: Registry) -> None:
    html = db.query("select unnest(range(120)) as n")._repr_html_()
    assert html.count("<tr>") == 51
    assert html.endswith("<p>… 70 more of 120 rows</p>")


def test_parameters_come_by_keyword_or_as_a_mapping(db: Registry) -> None:
    sql = "select $sql || $b as text"
    assert db.query(sql, {"sql": "a"}, b="b").rows() == [{"text": "ab"}]


def test_what_was_added_is_there_at_once_and_only_once(db: Registry) -> None:
    first = db.add(SUBMISSION)
    again = db.add(SUBMISSION.model_dump(exclude_none=True))
    assert first.is_new
    assert not again.is_new
    assert first.submission_id == again.submission_id
    rows = db.query("select observation_id, seconds_per_step as s from results").rows()
    assert rows == [{"observation_id": first.observation_ids[0], "s": 2.5}]
    db.fold()
    assert db.query("select observation_id, seconds_per_step as s from results").rows() == rows
    assert not db.add(SUBMISSION).is_new


def test_an_invalid_submission_writes_nothing(db: Registry) -> None:
    with pytest.raises(registry.SubmissionError, match="source: missing"):
        db.add({"observations": []})
    assert list((db.path / "journal").iterdir()) == []


def test_an_earlier_version_can_be_asked(db: Registry) -> None:
    for number in range(2):
        db.add(build_submission(str(number)))
        db.fold()
    assert len(registry.open(db.path, at=1).query("from observations")) == 1
    assert len(registry.open(db.path, at=2).query("from observations")) == 2


def test_an_unknown_relation_gets_the_nearest(db: Registry) -> None:
    with pytest.raises(registry.QueryError, match="resluts"):
        db.load("resluts")


def test_a_folder_that_is_no_registry_is_told(tmp_path: Path) -> None:
    with pytest.raises(MissingRegistryError) as caught:
        registry.open(tmp_path / "none")
    assert str(caught.value).startswith(f"{tmp_path / 'none'}: no such folder; expected a registry")


def test_load_gives_a_view_of_the_registry_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REGISTRY_PATH", str(RECORDS))
    frame = registry.load("quality")
    assert "qwen-finetune-profile" in set(frame["source_id"])
