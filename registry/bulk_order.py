"""Order of whole Arrow tables: whether rows are sorted, and which rows are alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt
    import pyarrow as pa


def compare_neighbours(
    table: pa.Table, columns: Sequence[str]
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Tell of each row but the first whether it is below the row before it, and whether alike.

    Rows are compared by ``columns`` in turn, nulls last. Both arrays are one shorter than the
    table.
    """
    size = max(table.num_rows - 1, 0)
    below = np.zeros(size, dtype=np.bool_)
    alike = np.ones(size, dtype=np.bool_)
    for name in columns:
        if size and alike.any():
            less, equal = _neighbours(table.column(name))
            below |= alike & less
            alike &= equal
    return below, alike


def _neighbours(
    column: pa.ChunkedArray,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    after, before = column.slice(1), column.slice(0, len(column) - 1)
    less = _truth(pc.less(after, before))
    equal = _truth(pc.equal(after, before))
    if column.null_count:
        after_null, before_null = _truth(pc.is_null(after)), _truth(pc.is_null(before))
        less |= before_null & ~after_null
        equal |= before_null & after_null
    return less, equal


def _truth(mask: pa.ChunkedArray) -> npt.NDArray[np.bool_]:
    """Return a mask as numpy; unknown counts as false."""
    filled = pc.fill_null(mask, False) if mask.null_count else mask  # noqa: FBT003 - Arrow's signature
    values: npt.NDArray[np.bool_] = filled.to_numpy(zero_copy_only=False)
    return values.astype(np.bool_, copy=True)


def is_sorted(table: pa.Table, columns: Sequence[str]) -> bool:
    """Tell whether the rows ascend by these columns, nulls last."""
    return not compare_neighbours(table, columns)[0].any()


def find_repeated(table: pa.Table, columns: Sequence[str]) -> npt.NDArray[np.int64]:
    """Return the positions of rows whose values in ``columns`` an earlier row has, ascending."""
    below, alike = compare_neighbours(table, columns)
    if not below.any():
        return np.flatnonzero(alike) + 1
    keys = [(name, "ascending") for name in columns]
    order = pc.sort_indices(table.select(list(columns)), sort_keys=keys).to_numpy()
    alike = compare_neighbours(table.select(list(columns)).take(order), columns)[1]
    return np.sort(order[1:][alike]).astype(np.int64)
