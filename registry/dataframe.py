"""Arrow results as data frames that analysts like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd
import pyarrow as pa

from registry.contract import vocabulary
from registry.contract.descriptions import describe_result_column

if TYPE_CHECKING:
    from collections.abc import Callable

_NULLABLE: dict[pa.DataType, Callable[[], object]] = {
    pa.int64(): pd.Int64Dtype,
    pa.int32(): pd.Int32Dtype,
    pa.bool_(): pd.BooleanDtype,
    pa.float64(): pd.Float64Dtype,
}


def to_dataframe(table: pa.Table) -> pd.DataFrame:
    """Return an Arrow table as a DataFrame with nullable dtypes, categories, units and meanings."""
    frame: pd.DataFrame = table.to_pandas(types_mapper=nullable)
    for field in table.schema:
        if pa.types.is_string(field.type):
            frame[field.name] = _as_text(frame[field.name], field.name)
    descriptions = {name: describe_result_column(name) for name in table.column_names}
    known = {name: entry for name, entry in descriptions.items() if entry is not None}
    frame.attrs["units"] = {name: entry.unit for name, entry in known.items() if entry.unit}
    frame.attrs["meanings"] = {name: entry.meaning for name, entry in known.items()}
    return frame


def nullable(arrow_type: pa.DataType) -> object | None:
    """Return the pandas type that keeps nulls of an Arrow type apart; None where pandas has one."""
    dtype = _NULLABLE.get(arrow_type)
    return dtype() if dtype is not None else None


def _as_text(series: pd.Series[Any], name: str) -> pd.Series[Any]:
    """Return a column of text: a category where the values are words of a vocabulary.

    All of its words are categories, so that each can be assigned. Ids are text: new ones come, and
    frames of different rows are put together.
    """
    description = describe_result_column(name)
    if description is None or description.vocabulary is None:
        return series.astype(pd.StringDtype())
    words = [*vocabulary(description.vocabulary), *series.dropna().unique()]
    return series.astype(pd.CategoricalDtype(list(dict.fromkeys(words))))
