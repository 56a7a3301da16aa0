"""Tables that are read chunk by chunk: the same function of each row as for a table in memory."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.plans.chunks import (
    Chunks,
    chunks_in,
    is_dask,
    known_rows,
    tally,
)
from dpverify.plans.tallying import Reading, Unfit
from dpverify.privacy import Domain
from dpverify.privacy.numbers import Floats
from dpverify.tables.cells import Numbers, any_missing
from dpverify.tables.reading import columns_of
from dpverify.tables.reading_frames import is_frame, names_of
from dpverify.tables.types import ColumnType


@dataclass(frozen=True, slots=True)
class Encode:
    """The function that reads rows as numbers: each cell of each declared column by itself.

    names: names of all columns of an array, in order; None for the declared ones.
    """

    columns: tuple[tuple[str, ColumnType], ...]
    names: tuple[str, ...] | None = None

    def numbers(self, data: Any) -> Iterator[tuple[str, Floats]]:
        """Yield each column's numbers, with missing cells filled. Raises TypeError or ValueError,
        from public facts alone.
        """
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a warning would tell of one record
            cells = columns_of(data, tuple(name for name, _ in self.columns), self.names)
            for column, kind in self.columns:
                yield column, _fill(kind, kind.encode(cells.pop(column)))

    def _of_chunk(self, chunk: Any) -> Numbers:
        """Return the columns that ``numbers`` yields as the rows of one array."""
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            names = tuple(name for name, _ in self.columns)
            cells = columns_of(chunk, names, self.names)
            rows, complete = np.empty((len(names), len(chunk))), True
            for row, (name, kind) in zip(rows, self.columns, strict=True):
                _fill(kind, kind.encode(cells[name], out=row))
                complete = complete and not (kind.leaves_out and any_missing(row))
        return Numbers(names, rows, complete)

    def __call__(self, chunk: Any) -> Numbers:
        """Read one chunk, a data frame or an array of rows. Raises Unfit from public facts: a list
        may be a single row."""
        if is_frame(chunk):
            there = names_of(chunk)
            for name, _ in self.columns:
                if there.count(name) != 1:
                    raise Unfit(f"A chunk has {there.count(name)} columns named {name!r}, not one.")
        elif not isinstance(chunk, np.ndarray) or (chunk.ndim != 2 and chunk.dtype.names is None):
            raise Unfit(f"A chunk is a {type(chunk).__name__}; give data frames or arrays of rows.")
        return self._of_chunk(chunk)

    def streamed(self, data: Any) -> Chunks | None:
        """Return what is read chunk by chunk as numbers of columns; None for data in memory.

        The files that ``Chunks`` names must stay as they are from now on. Raises TypeError for an
        iterator, which could be read for one question only, TypeError or ValueError for a
        collection of Dask without the declared columns, and OSError for a named file that is not
        there.
        """
        chunks = chunks_in(data)
        if chunks is None:
            return None
        if is_dask(data):
            self._check_collection(data)
        if chunks.source.once:
            raise TypeError(
                f"A table is read again and again, and a {type(data).__name__} can be read once; "
                "give a list of rows, or Chunks of a function that returns a fresh iterator of "
                "chunks."
            )
        if chunks.source.opened is None:
            chunks.source.opened = chunks.source.stamp()
        return chunks.mapped(self)

    def _check_collection(self, data: Any) -> None:
        """Refuse a collection that is no table, by what Dask says of it, before anything is asked
        or spent.
        """
        named, flat = getattr(data, "columns", None), getattr(data, "ndim", 1) != 2
        expected = len(self.names or self.columns)
        if flat or (named is None and data.shape[1] != expected):
            raise TypeError(
                f"A {type(data).__name__} of Dask is no table of {expected} columns; give a data "
                "frame, or an array of rows with names=[...] for all of its columns, in order."
            )
        if named is None:
            return
        there = list(named)
        for name, _ in self.columns:
            if there.count(name) != 1:
                raise ValueError(
                    f"{there.count(name)} columns are named {name!r}; declare columns by the names "
                    "that the data have."
                )


def _fill(kind: ColumnType, values: Floats) -> Floats:
    """Fill the missing numbers of a column."""
    if any_missing(values):
        values[np.isnan(values)] = kind.fill
    return values


def rows_of(chunks: Chunks) -> int:
    """Count the rows of a table of chunks, by a pass over them unless its files tell the number.
    Raises SourceFailed.
    """
    known = known_rows(chunks.source)
    if known is not None:
        return known
    (sums,) = tally(chunks.source, [Reading((*chunks.then, _zeros), Domain(1), ())])
    return sums.rows


def _zeros(numbers: dict[str, Floats]) -> Floats:
    """Count each row as one record."""
    return np.zeros((len(next(iter(numbers.values()))), 1))
