"""A table: a snapshot of declared columns, read row by row."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from os import PathLike
from pathlib import Path
from types import MappingProxyType
from typing import Any, NoReturn, Self, cast

import numpy as np

from dpverify.plans import Chunks
from dpverify.plans.chunks import require_unchanged
from dpverify.privacy import TableDomain
from dpverify.privacy.calls import fitting
from dpverify.privacy.numbers import Floats
from dpverify.privacy.sealed import sealed
from dpverify.tables.reading_chunks import Encode, rows_of
from dpverify.tables.reading_files import (
    Encoding,
    csv_columns,
    parquet_chunks,
    parquet_files,
    parquet_table,
)
from dpverify.tables.selection import Selection
from dpverify.tables.types import DECLARED, ColumnType

_COLUMNS = "columns={'age': Number(0, 120)}"


@sealed
class Table:
    """Named columns of declared types: a snapshot, which nothing changes afterwards.

    data: a data frame of pandas or polars, a table of pyarrow, a mapping from names to columns, a
    numpy array (a structured one, or one of rows), or a list of rows, each a mapping or a
    sequence. For data larger than memory, ``Chunks`` or a Dask data frame: it is read chunk by
    chunk whenever a question is answered, by mechanisms whose queries add up, and must not
    change.
    columns: the declared type of each column to use; others are not read.
    names: the names of the columns of an array or of rows, in order; by default those of
    ``columns``.
    name: the table's name, by which claims about two tables are told apart.

    The values of a row decide no exception, no warning and no other row: a cell that is no value
    of its column's declared type is missing. The columns' names and types are public, all else is
    private: under add-remove the number of rows too, so a table has no ``len``. Raises TypeError
    or ValueError for what is no table and for columns that are not there.
    """

    __slots__ = ("_chunks", "_columns", "_domain", "_numbers", "_rows")
    _columns: Mapping[str, ColumnType]
    _domain: TableDomain
    _numbers: dict[str, Floats]
    _chunks: Chunks | None
    _rows: int | None

    def __init__(
        self,
        data: Any,
        *,
        columns: Mapping[str, ColumnType],
        names: Sequence[str] | None = None,
        name: str = "table",
    ) -> None:
        declared = declared_columns(columns)
        described = tuple((column, str(kind)) for column, kind in declared.items())
        if not isinstance(name, str) or not name:
            raise TypeError(f"name = {name!r}; give the table a name, a text.")
        self._domain = TableDomain(str(name), described)
        self._columns = MappingProxyType(declared)
        self._numbers, self._rows = {}, None
        if isinstance(names, (str, bytes)):
            raise TypeError(f"names = {names!r}; give a list of the columns' names, in order.")
        encode = Encode(tuple(declared.items()), None if names is None else tuple(names))
        self._chunks = encode.streamed(data)
        if self._chunks is None:
            for column, values in encode.numbers(data):
                # Bytes cannot be made writable again.
                self._numbers[column] = np.frombuffer(values.tobytes(), np.float64)

    @classmethod
    @fitting("Table.read_csv", lambda _: f"Table.read_csv('people.csv', {_COLUMNS})")
    def read_csv(
        cls,
        path: str | PathLike[str],
        *,
        columns: Mapping[str, ColumnType],
        names: Sequence[str] | None = None,
        delimiter: str = ",",
        encoding: Encoding = "utf-8",
        name: str | None = None,
    ) -> Self:
        """Read a CSV file: each line is a record, whatever it holds, so that no record can change
        how another one is read.

        A line is a record whose cells are all missing if it has a quotation mark that is not
        closed, another number of cells than there are columns, or bytes that are no text in the
        encoding. A quoted cell cannot contain a line break.
        names: names of all columns, in order, for a file whose first line does not have them.
        name: the table's name, by default the file's without its ending.
        Raises TypeError, ValueError or OSError.
        """
        declared = declared_columns(columns)
        cells = csv_columns(path, tuple(declared), names, delimiter, encoding)
        return cls(cells, columns=declared, name=Path(path).stem if name is None else name)

    @classmethod
    @fitting("Table.read_parquet", lambda _: f"Table.read_parquet('people.parquet', {_COLUMNS})")
    def read_parquet(
        cls,
        path: str | PathLike[str] | Sequence[str | PathLike[str]],
        *,
        columns: Mapping[str, ColumnType],
        name: str | None = None,
        in_memory: bool = True,
    ) -> Self:
        """Read a Parquet file, by pyarrow; with in_memory=False, read it chunk by chunk when a
        question is answered.

        Several files (a list of them, or a folder of files that end in .parquet) make one table
        of all their rows, with in_memory=False alone. Files that change after they were opened
        are refused.
        name: the table's name, by default the file's without its ending.
        Raises ImportError without pyarrow, TypeError, ValueError or OSError.
        """
        declared = declared_columns(columns)
        if not in_memory:
            files = parquet_files(path)
            if name is None and not isinstance(path, (str, PathLike)):
                raise ValueError("name: a table of several files has no name of its own; give one.")
            return cls(
                parquet_chunks(files, tuple(declared)),
                columns=declared,
                name=Path(cast(Any, path)).stem if name is None else name,
            )
        if not isinstance(path, (str, PathLike)) or Path(path).is_dir():
            raise ValueError("Several files are read chunk by chunk: give in_memory=False.")
        read = parquet_table(path, tuple(declared))
        return cls(read, columns=declared, name=Path(path).stem if name is None else name)

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._domain.name

    @property
    def columns(self) -> Mapping[str, ColumnType]:
        """Declared type of each column."""
        return self._columns

    @property
    def domain(self) -> TableDomain:
        """Datasets that claims about this table cover: all tables of its name, columns
        and types.
        """
        return self._domain

    @property
    def private_number_of_rows(self) -> int:
        """Number of rows: public under replace alone, and then only if no row was left out
        before.
        """
        if self._chunks is None:
            return len(next(iter(self._numbers.values())))
        if self._rows is None:
            self._rows = rows_of(self._chunks)
        return self._rows

    @property
    def fingerprint(self) -> str:
        """Digest of all values, as secret as the data: with it guesses can be tested. Never write
        or show it.
        """
        digest = hashlib.sha256(repr(self._domain).encode())
        self._refuse_chunks("fingerprint")
        for values in self._numbers.values():
            digest.update(values.tobytes())
        return digest.hexdigest()

    def numbers(self, column: str) -> Floats:
        """Return the numbers of a column, read only, as secret as the data: NaN where a missing
        cell leaves its record out.
        """
        self.type_of(column)
        self._refuse_chunks("numbers")
        return self._numbers[column]

    @property
    def chunks(self) -> Chunks | None:
        """Numbers of all columns in chunks, as secret as the data; None for a table in memory."""
        return self._chunks

    def require_unchanged(self) -> None:
        """Refuse files that are gone or have changed since they were opened, without reading
        them. Raises SourceFailed.
        """
        if self._chunks is not None:
            require_unchanged(self._chunks.source)

    def _refuse_chunks(self, what: str) -> None:
        if self._chunks is not None:
            raise TypeError(
                f"{what}: the table {self.name!r} is read chunk by chunk and is not in memory; "
                "read it with in_memory=True."
            )

    def type_of(self, column: str) -> ColumnType:
        """Return a column's declared type. Raises TypeError for what is no name, ValueError for a
        column that was not declared.
        """
        if not isinstance(column, str):
            raise TypeError(f"column = {column!r:.80}; give the name of one column, a text.")
        if column not in self._columns:
            raise ValueError(
                f"The table {self.name!r} has no column {column!r}; it was declared with "
                f"{', '.join(self._columns)}."
            )
        return self._columns[column]

    def select(self, *columns: str) -> Selection:
        """Select columns by name, in this order; without names, to count records. Raises
        ValueError for unknown or repeated names.
        """
        for column in columns:
            self.type_of(column)
        if len(set(columns)) < len(columns):
            raise ValueError(f"select{columns}: give each column once.")
        return Selection(self, columns)

    def __reduce__(self) -> NoReturn:
        raise TypeError("A table is as secret as its data: it is not copied or pickled.")

    def __repr__(self) -> str:
        columns = "".join(f"\n  {name}: {kind}" for name, kind in self._columns.items())
        return f"Table {self.name!r}, its rows private{columns}"


def declared_columns(columns: object) -> dict[str, ColumnType]:
    """Check a declaration of columns. Raises TypeError or ValueError, naming the column."""
    if not isinstance(columns, Mapping) or not columns:
        raise TypeError(
            "columns declares the type of each column to be used: write columns={'age': Number(0, "
            "120)}."
        )
    for name, kind in columns.items():
        if not isinstance(name, str) or not name:
            raise TypeError(f"{name!r} is no name of a column; give a text.")
        if type(kind) not in DECLARED:  # a foreign class may look at more than one cell
            raise TypeError(
                f"Column {name!r} is declared as {kind!r}; write Number(low, high), Integer(low, "
                "high), Category('a', 'b') or Boolean()."
            )
    return {str(name): kind for name, kind in columns.items()}
