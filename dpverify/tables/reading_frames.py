"""Columns of data frames of pandas and polars and of tables of pyarrow, without importing any of
these libraries.

How a column is stored decides no exception: dates, lists and whatever else holds no numbers, texts
or truth values is missing in every row.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpverify.tables.cells import Cells

_FRAMES = {"pandas": ("DataFrame",), "polars": ("DataFrame",), "pyarrow": ("Table", "RecordBatch")}
_COLUMNS = {
    "pandas": ("Series", "Index"),
    "polars": ("Series",),
    "pyarrow": ("ChunkedArray", "Array"),
}


def is_frame(data: Any) -> bool:
    """Tell whether this is a frame of one of the libraries: several columns with names."""
    return bool(_library_of(data, _FRAMES))


def is_column(data: Any) -> bool:
    """Tell whether this is a single column of one of the libraries."""
    return bool(_library_of(data, _COLUMNS))


def _library_of(data: Any, classes: dict[str, tuple[str, ...]]) -> str:
    """Name the library that has this object's class; an empty text stands for none."""
    for library, names in classes.items():
        module = sys.modules.get(library)  # a library whose frames exist has been imported
        if module is not None and isinstance(data, tuple(getattr(module, n) for n in names)):
            return library
    return ""


def names_of(frame: Any) -> list[Any]:
    """List the names of a frame's columns."""
    return list(frame.schema.names if _library_of(frame, _FRAMES) == "pyarrow" else frame.columns)


def frame_columns(frame: Any, names: Sequence[str]) -> dict[str, Cells]:
    """Return the cells of a frame's columns, each of which the frame has once."""
    if _library_of(frame, _FRAMES) == "pyarrow":
        there = frame.schema.names
        return {name: _of_arrow(frame.column(there.index(name))) for name in names}
    return {name: frame_cells(frame[name]) for name in names}


def frame_cells(column: Any) -> Cells:
    """Return the cells of a column of one of these libraries."""
    library = _library_of(column, _COLUMNS)
    if library == "pyarrow":
        return _of_arrow(column)
    return _of_polars(column) if library == "polars" else _of_pandas(column)


def _nothing(column: Any) -> Cells:
    """Return as many missing cells as the column has."""
    return np.full(len(column), np.nan)


def _of_pandas(column: Any) -> Cells:
    dtype = column.dtype
    if hasattr(dtype, "pyarrow_dtype") or getattr(dtype, "storage", "") == "pyarrow":
        return _of_arrow(column.array.__arrow_array__())
    kind = dtype.kind
    if kind in "mM":
        return _nothing(column)
    if kind not in "biuf":
        return list(column.to_numpy(dtype=object))
    if isinstance(dtype, np.dtype):
        return np.array(column.to_numpy(), dtype=np.float64)
    return np.array(column.to_numpy(dtype=np.float64, na_value=np.nan))


def _of_polars(column: Any) -> Cells:
    polars = sys.modules["polars"]
    dtype = column.dtype
    if dtype.is_integer() or dtype.is_float() or dtype == polars.Boolean:
        return np.array(column.cast(polars.Float64).to_numpy())
    listed = (
        polars.String,
        polars.Categorical,
        polars.Enum,
        polars.Binary,
        polars.Decimal,
        polars.Object,
    )
    return column.to_list() if dtype in listed else _nothing(column)


def _of_arrow(column: Any) -> Cells:
    """Return the cells of an array of Arrow. Texts are taken as bytes, since Arrow allows texts
    that are no UTF-8.
    """
    arrow = sys.modules["pyarrow"]
    if column.type == arrow.float64():
        return np.asarray(column.to_numpy(**_copied(column)))
    types = arrow.types
    if types.is_dictionary(column.type):
        if types.is_nested(column.type.value_type):
            return _nothing(column)
        column = column.cast(column.type.value_type)
    kind = column.type
    if types.is_boolean(kind) or types.is_integer(kind) or types.is_floating(kind):
        column = column.cast(arrow.float64(), safe=False)
        return np.asarray(column.to_numpy(**_copied(column)))
    if types.is_string_view(kind):
        column = column.cast(arrow.binary_view())
    elif types.is_string(kind) or types.is_large_string(kind):
        column = column.cast(arrow.large_binary())
    listed = (
        types.is_binary,
        types.is_large_binary,
        types.is_binary_view,
        types.is_fixed_size_binary,
        types.is_decimal,
    )
    return column.to_pylist() if any(is_one(column.type) for is_one in listed) else _nothing(column)


def _copied(column: Any) -> dict[str, bool]:
    """Return the option by which an array that is not chunked becomes one of numpy, also with
    missing cells.
    """
    return {} if hasattr(column, "chunks") else {"zero_copy_only": False}
