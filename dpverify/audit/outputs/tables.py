"""Tables of pandas and polars: what they show beside their values."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

import numpy as np

_NUMBERS = "iufbc"


def held_by_table(value: Any) -> dict[str, Any] | None:
    """Return what a frame, a series, an index or an array of pandas or polars shows; None for
    anything else. Neither library is imported for it.
    """
    pandas, polars = sys.modules.get("pandas"), sys.modules.get("polars")
    if pandas is not None and hasattr(pandas, "DataFrame"):
        held = _of_pandas(value, pandas)
        if held is not None:
            return held
    if polars is None or not hasattr(polars, "DataFrame"):
        return None
    is_one = isinstance(value, (polars.DataFrame, polars.Series))
    return _of_polars(value, polars) if is_one else None


def _of_pandas(value: Any, pandas: Any) -> dict[str, Any] | None:
    if isinstance(value, pandas.DataFrame):
        dtypes = list(value.dtypes)
        if all(map(_is_plain, dtypes)) and len(set(dtypes)) == 1:
            values: dict[str, Any] = {"array": value.to_numpy()}
        else:
            values = {"values": [_values(value.iloc[:, j]) for j in range(len(dtypes))]}
        shown = {"dtypes": list(map(_dtype, dtypes)), "columns": _index(value.columns)}
        return {**values, **shown, **_named(value)}
    if isinstance(value, pandas.Series):
        shown = {"dtype": _dtype(value.dtype), "name": value.name}
        return {"array": _values(value), **shown, **_named(value)}
    if isinstance(value, pandas.Index):
        return _index(value)
    if isinstance(value, pandas.api.extensions.ExtensionArray):
        return {"array": _values(value), "dtype": _dtype(value.dtype), **_freq(value)}
    return {"dtype": _dtype(value)} if isinstance(value, pandas.CategoricalDtype) else None


def _named(value: Any) -> dict[str, Any]:
    """Return what a frame or a series shows beside its values."""
    return {
        "index": _index(value.index),
        "attrs": dict(value.attrs),
        "flags": value.flags.allows_duplicate_labels,
    }


def _index(index: Any) -> dict[str, Any]:
    """Return labels, names, dtype and frequency of an index, and all levels, used or not."""
    if hasattr(index, "step"):  # a range
        return {"kind": f"{range(index.start, index.stop, index.step)}", "name": index.name}
    levels = getattr(index, "levels", None)
    dtype = {"dtype": _dtype(index.dtype)} if levels is None else {}
    more = {} if levels is None else {"levels": [_index(level) for level in levels]}
    shown = {"kind": type(index).__name__, "labels": _values(index), "names": list(index.names)}
    return {**shown, **dtype, **more, **_freq(index)}


def _freq(value: Any) -> dict[str, Any]:
    freq = getattr(value, "freq", None)
    return {} if freq is None else {"freq": str(freq)}


def _is_plain(dtype: Any) -> bool:
    return isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS


def _values(column: Any) -> Any:
    """Return the values as numbers where they are plain ones, else one by one: what is missing
    stays apart from what is no number.
    """
    return column.to_numpy() if _is_plain(column.dtype) else list(column)


def _dtype(dtype: Any) -> Any:
    """Return the name of a dtype; of a categorical one all categories, used or not."""
    categories = getattr(dtype, "categories", None)
    if categories is None or not hasattr(dtype, "ordered"):
        return str(dtype) if isinstance(dtype, np.dtype) else repr(dtype)
    return {"categories": _index(categories), "ordered": dtype.ordered}


def _of_polars(value: Any, polars: Any) -> dict[str, Any]:
    """Return columns with their dtypes (of an Enum with all categories); null is None."""
    columns: Iterable[Any] = [value] if isinstance(value, polars.Series) else value.get_columns()
    return {
        "names": [column.name for column in columns],
        "dtypes": [str(column.dtype) for column in columns],
        "values": [_of_column(column) for column in columns],
    }


def _of_column(column: Any) -> Any:
    plain = column.dtype.is_numeric() and not column.dtype.is_decimal() and not column.null_count()
    return column.to_numpy() if plain else column.to_list()
