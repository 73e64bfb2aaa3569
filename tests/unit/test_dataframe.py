"""Data frames that analysts like: nullable dtypes, categories, units."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pandas as pd
import pyarrow as pa

from registry.contract import vocabulary
from registry.dataframe import to_dataframe

if TYPE_CHECKING:
    from pathlib import Path

TABLE = pa.table(
    {
        "model_id": pa.array(["a", "b", None]),
        "outcome": pa.array(["ok", "oom", "ok"]),
        "model_reported": pa.array(["A", None, "B"]),
        "seq_len": pa.array([2**53 + 1, None, 3], pa.int64()),
        "trains_embeddings": pa.array([True, None, False]),
        "seconds_per_step": pa.array([1.5, None, 2.5]),
        "observed_at": pa.array([datetime(2024, 5, 1, tzinfo=UTC), None, None]).cast(
            pa.timestamp("us", tz="UTC")
        ),
        "my_count": pa.array([1, 2, 3], pa.int32()),
    }
)


def test_types_are_nullable_and_integers_stay_exact() -> None:
    frame = to_dataframe(TABLE)
    assert str(frame["seq_len"].dtype) == "Int64"
    assert frame["seq_len"][0] == 2**53 + 1
    assert frame["seq_len"].isna().tolist() == [False, True, False]
    assert str(frame["trains_embeddings"].dtype) == "boolean"
    assert str(frame["seconds_per_step"].dtype) == "Float64"
    assert str(frame["my_count"].dtype) == "Int32"


def test_vocabularies_are_categories_and_other_text_is_text() -> None:
    frame = to_dataframe(TABLE)
    assert frame["outcome"].cat.categories.tolist() == [*vocabulary("outcome")]
    for name in ("model_id", "model_reported"):
        assert isinstance(frame[name].dtype, pd.StringDtype)
    assert frame["model_id"].isna().tolist() == [False, False, True]
    assert frame["model_reported"].isna().tolist() == [False, True, False]


def test_new_values_can_be_assigned_and_rows_put_together() -> None:
    frame = to_dataframe(TABLE)
    frame.loc[0, "outcome"] = "error"  # a word of the vocabulary that no row has
    frame.loc[0, "model_id"] = "new"
    both = pd.concat([frame, to_dataframe(TABLE.slice(0, 1))])
    assert both["outcome"].tolist() == ["error", "oom", "ok", "ok"]
    assert both["model_id"].tolist()[0] == "new"
    assert both.dtypes.equals(frame.dtypes)


def test_a_word_that_the_vocabulary_lacks_is_kept() -> None:
    frame = to_dataframe(pa.table({"outcome": ["ok", "melted", None]}))
    assert frame["outcome"].tolist()[:2] == ["ok", "melted"]
    assert frame["outcome"].isna().tolist() == [False, False, True]


def test_units_survive_what_analysts_do_and_a_parquet_file(tmp_path: Path) -> None:
    frame = to_dataframe(TABLE)
    units = frame.attrs["units"]
    worked = frame[frame["seq_len"] > 0].sort_values("seq_len").assign(more=1).reset_index()
    assert worked.attrs["units"] == units
    frame.to_parquet(tmp_path / "a.parquet")
    assert pd.read_parquet(tmp_path / "a.parquet").attrs["units"] == units
    assert pd.concat([frame, frame]).attrs["units"] == units


def test_times_are_in_utc() -> None:
    frame = to_dataframe(TABLE)
    assert frame["observed_at"][0] == pd.Timestamp("2024-05-01", tz="UTC")
    assert frame["observed_at"].isna().sum() == 2


def test_units_and_meanings_of_known_columns_stand_in_attrs() -> None:
    frame = to_dataframe(TABLE)
    assert frame.attrs["units"] == {"seq_len": "token", "seconds_per_step": "second"}
    assert frame.attrs["meanings"]["seconds_per_step"].startswith("Time per optimizer step ")
    assert "my_count" not in frame.attrs["meanings"]


def test_an_empty_table_keeps_its_types() -> None:
    frame = to_dataframe(TABLE.slice(0, 0))
    assert len(frame) == 0
    assert str(frame["seq_len"].dtype) == "Int64"
