"""Columns of files. In a CSV file each line is a record, whatever it holds.

The rule for CSV files: the bytes are cut at each line feed, before anything else is looked at,
and each line is decoded and divided by itself. So no record can swallow, shift or spoil another
one. A quotation mark that is never closed, a line with too many or too few cells, bytes that are
no text, or a cell of any length make the cells of their own line missing, and nothing else. An
empty line is a record too. The price is that a quoted cell cannot contain a line feed: one
person's record that spans several lines becomes several records, all of them missing. Read such a
file by a library that joins these lines, and give its frame to ``Table``.
"""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator, Sequence
from functools import partial
from os import PathLike
from pathlib import Path
from typing import Any, Literal, get_args

from dpverify.plans.chunks import Chunks, LocalChunks

Encoding = Literal["utf-8", "ascii", "latin-1", "cp1252"]
"""Encodings in which a line feed, a comma and a quotation mark are the bytes that they are in
ASCII, and nothing else is."""
_DELIMITERS = ",;\t|:"
_NUMBERS = 1 << 19
"""Numbers that are read at a time, which are cut into smaller chunks."""


def csv_columns(
    path: str | PathLike[str],
    wanted: tuple[str, ...],
    names: Sequence[str] | None,
    delimiter: str,
    encoding: str,
) -> dict[str, list[str | None]]:
    """Return the cells of each wanted column of a CSV file. The first line has the names, unless
    they are given.

    Raises TypeError or ValueError for options and names, and OSError for the file.
    """
    if encoding not in get_args(Encoding):
        raise ValueError(f"encoding = {encoding!r}; write one of {', '.join(get_args(Encoding))}.")
    if not isinstance(delimiter, str) or delimiter not in tuple(_DELIMITERS):
        raise ValueError(f"delimiter = {delimiter!r}; write one of {list(_DELIMITERS)}.")
    if not isinstance(path, (str, PathLike)):
        raise TypeError(
            f"path = a {type(path).__name__}; give the path of a CSV file. Data that are in memory "
            "already become a table by Table(data, columns=...)."
        )
    if isinstance(names, (str, bytes)):
        raise TypeError(f"names = {names!r}; give a list of the columns' names, in order.")
    lines = Path(path).read_bytes().removeprefix(codecs.BOM_UTF8).split(b"\n")
    if not lines[-1]:
        lines.pop()  # the empty text after the last line feed is no line
    if names is None:
        header = _cells(lines.pop(0), delimiter, encoding) if lines else None
        names = [] if header is None else header
    for name in wanted:
        if list(names).count(name) != 1:
            several = list(names).count(name)
            raise ValueError(
                f"{f'{several} columns' if several else 'No column'} of the file "
                f"{'are' if several else 'is'} named {name!r}. The first "
                "line is taken for their names; for a file without such a line give names=[...], "
                f"in order. Cells are divided at {delimiter!r}; delimiter= says otherwise."
            )
    places = [list(names).index(name) for name in wanted]
    missing: list[Any] = [None] * len(names)
    rows = []
    for line in lines:
        cells = _cells(line, delimiter, encoding)
        rows.append(cells if cells is not None and len(cells) == len(names) else missing)
    return {name: [row[i] for row in rows] for name, i in zip(wanted, places, strict=True)}


def _cells(line: bytes, delimiter: str, encoding: str) -> list[str] | None:
    """Divide one line into cells; None where it is no row of cells."""
    try:
        text = line.removesuffix(b"\r").decode(encoding)
        if '"' not in text:
            return text.split(delimiter)
        return next(csv.reader([text], delimiter=delimiter, strict=True))
    except (UnicodeDecodeError, csv.Error):
        return None


def parquet_table(path: str | PathLike[str], wanted: tuple[str, ...]) -> Any:
    """Read the wanted columns of a Parquet file as a table of pyarrow. Columns that are not there
    are left out.

    Raises ImportError without pyarrow, and what pyarrow and the system raise for the file.
    """
    with _parquet().ParquetFile(path) as file:
        there = file.schema_arrow.names
        return file.read(columns=[name for name in wanted if name in there])


def parquet_files(path: str | PathLike[str] | Sequence[str | PathLike[str]]) -> list[Path]:
    """List the files: a single one, those of a list, or those of a folder that end in .parquet,
    by name. Raises ValueError for none, and for a file that is listed twice, whose rows would
    count twice.
    """
    paths = [path] if isinstance(path, (str, PathLike)) else list(path)
    files: list[Path] = []
    for one in map(Path, paths):
        files += sorted(one.glob("*.parquet")) if one.is_dir() else [one]
    if not files:
        raise ValueError(f"{path}: there is no Parquet file; give one that ends in .parquet.")
    if len({file.resolve() for file in files}) < len(files):
        raise ValueError(f"{path}: a file is there twice, and its rows would count twice.")
    return files


def parquet_chunks(files: Sequence[Path], wanted: tuple[str, ...]) -> Chunks:
    """Read the wanted columns of Parquet files chunk by chunk, whenever they are asked for.

    Raises ImportError without pyarrow, ValueError for a file without one of the columns, and what
    pyarrow and the system raise for a file.
    """
    parquet = _parquet()
    source = LocalChunks(partial(_batches, files, wanted), files=files, rows=partial(_rows, files))
    source.opened = source.stamp()
    for file in files:
        there = parquet.read_schema(file).names
        for name in wanted:
            if there.count(name) != 1:
                raise ValueError(
                    f"{file.name}: {there.count(name)} columns are named {name!r}; declare columns "
                    "by the names that all files have."
                )
    return Chunks(source)


def _batches(files: Sequence[Path], wanted: tuple[str, ...]) -> Iterator[Any]:
    for path in files:
        with _parquet().ParquetFile(path) as file:
            rows = max(1, _NUMBERS // len(wanted))
            yield from file.iter_batches(batch_size=rows, columns=list(wanted))


def _rows(files: Sequence[Path]) -> int:
    return sum(int(_parquet().read_metadata(file).num_rows) for file in files)


def _parquet() -> Any:
    try:
        from pyarrow import parquet
    except ImportError:
        raise ImportError(
            "Table.read_parquet needs pyarrow: install dpverify[tables], or give a data frame to "
            "Table."
        ) from None
    return parquet
