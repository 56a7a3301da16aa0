"""Columns of cells, read from any container of a table. Only public facts decide an exception.

The type of the container, the names of its columns and, for an array, its dimensions are public.
How a column is stored is not: one record can decide it. So every way of storing a cell gives the
same number in the end (see ``cells``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpverify.tables.cells import Cells
from dpverify.tables.reading_frames import frame_cells, frame_columns, is_column, is_frame, names_of


def columns_of(
    data: Any, wanted: tuple[str, ...], names: Sequence[str] | None = None
) -> dict[str, Cells]:
    """Return the cells of each wanted column, all of the same length. Raises TypeError or
    ValueError, from public facts alone.
    """
    order = _order(names, wanted)
    if is_frame(data) or isinstance(data, Mapping):
        if names is not None:
            raise ValueError("names: the columns of these data have names already; leave it out.")
        if is_frame(data):
            return frame_columns(data, _there(wanted, names_of(data)))
        columns = {name: cells_of(data[name], name) for name in _there(wanted, data)}
        if len({len(cells) for cells in columns.values()}) > 1:
            raise ValueError(
                "The columns have different lengths, so they are no rows; give columns of one "
                "length."
            )
        return columns
    if isinstance(data, np.ndarray):
        return _of_array(data, wanted, order)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        return _of_rows(list(data), wanted, order)
    library = type(data).__module__.partition(".")[0]
    kind = f"{library} {type(data).__name__}".removeprefix("builtins ")
    raise TypeError(
        f"A {kind} is no table; give a data frame that is in memory, a mapping from names to "
        "columns, an array or a list of rows, or a file by Table.read_csv or Table.read_parquet."
    )


def cells_of(column: Any, name: str) -> Cells:
    """Return the cells of a single column. Raises TypeError for what is no column."""
    if is_column(column):
        return frame_cells(column)
    if isinstance(column, np.ndarray):
        _refuse_masks(column)
        if column.ndim != 1:
            raise ValueError(f"Column {name!r} has {column.ndim} dimensions; give one of them.")
        return _of_numpy(column)
    if isinstance(column, Sequence) and not isinstance(column, (str, bytes)):
        return list(column)
    raise TypeError(f"Column {name!r} is a {type(column).__name__}; give a list or an array.")


def _order(names: Sequence[str] | None, wanted: tuple[str, ...]) -> tuple[str, ...]:
    order = wanted if names is None else tuple(names)
    if len(set(order)) < len(order):
        raise ValueError(f"names = {list(order)}: give each name once.")
    _there(wanted, order)
    return order


def _there(wanted: tuple[str, ...], given: Iterable[Any]) -> tuple[str, ...]:
    """Return the wanted columns, each of which must be there once. Raises ValueError, whose text
    does not list the names there: names read from a file without a line of names are a record.
    """
    names = list(given)
    for name in wanted:
        if names.count(name) != 1:
            how = "twice or more" if name in names else "not there"
            raise ValueError(
                f"Column {name!r} is {how}: declare columns by the names that the data have."
            )
    return wanted


def _refuse_masks(array: Any) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise TypeError(
            "The data are a masked array, whose hidden values would count; give a plain one, for "
            "example data.filled(np.nan)."
        )


def _of_numpy(column: Any) -> Cells:
    """Return the cells of an array of one dimension: a fresh array of floats where it holds real
    numbers, else a list.
    """
    return column.astype(np.float64) if column.dtype.kind in "biuf" else list(column)


def _of_array(data: Any, wanted: tuple[str, ...], order: tuple[str, ...]) -> dict[str, Cells]:
    _refuse_masks(data)
    data = np.asarray(data)  # a matrix has no columns of one dimension
    if data.dtype.names is not None:
        for name in _there(wanted, data.dtype.names):
            if data.dtype[name].shape:
                raise ValueError(f"Column {name!r} is an array in every record; give one cell.")
        return {name: _of_numpy(data[name].ravel()) for name in wanted}
    if data.dtype == object and data.ndim == 1:
        return _of_rows(list(data), wanted, order)
    flat = data.ndim == 1 and (len(order) == 1 or not data.size)  # an empty table is a table too
    rows = data.reshape(-1, len(order)) if flat else data
    if rows.ndim != 2 or rows.shape[1] != len(order):
        shape = f"{rows.shape[1]} columns" if rows.ndim == 2 else f"{rows.ndim} dimensions"
        raise ValueError(
            f"The array has {shape}, and there are {len(order)} names; give names=[...] for all of "
            "its columns, in order."
        )
    return {name: _of_numpy(rows[:, order.index(name)]) for name in wanted}


def _of_rows(rows: list[Any], wanted: tuple[str, ...], order: tuple[str, ...]) -> dict[str, Cells]:
    """Return the cells of a list of rows, each of which is looked at alone."""
    places = [order.index(name) for name in wanted]
    values: list[list[Any]] = [_row(row, wanted, places, len(order)) for row in rows]
    return {name: [row[i] for row in values] for i, name in enumerate(wanted)}


def _row(row: Any, wanted: tuple[str, ...], places: list[int], width: int) -> list[Any]:
    """Return the wanted cells of one row; all are missing where it is no row of that width."""
    try:
        kind = type(row)
        if issubclass(kind, Mapping):
            return [row.get(name) for name in wanted]
        if issubclass(kind, (list, tuple)) or kind is np.ndarray:
            return [row[i] for i in places] if len(row) == width else [None] * len(wanted)
        return [row] if width == 1 else [None] * len(wanted)
    except Exception:  # a row may run its own code and raise anything
        return [None] * len(wanted)
