"""Files: of a CSV file a line is a record, and none changes how another one is read; Parquet by its
columns."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from dpverify import Category, Number, Table

COLUMNS = {"x": Number(0, 100), "word": Category("a", "b, c", 'say "d"')}
LINES = [b"1.5,a,left", b'2,"b, c",out', b'"3","say ""d""",here']
READ = [[1.5, 0.0], [2.0, 1.0], [3.0, 2.0]]
ODD: dict[str, tuple[bytes, list[float]]] = {
    "a quotation mark that is not closed": (b'4,"a,there', [np.nan, np.nan]),
    "a quotation mark in a cell": (b'4,a"a,there', [4.0, np.nan]),
    "a quotation mark alone": (b'"', [np.nan, np.nan]),
    "text after a quoted cell": (b'4,"a"b,there', [np.nan, np.nan]),
    "too few cells": (b"4,a", [np.nan, np.nan]),
    "too many cells": (b"4,a,b,c", [np.nan, np.nan]),
    "nothing": (b"", [np.nan, np.nan]),
    "blanks": (b"   ", [np.nan, np.nan]),
    "delimiters": (b",,", [np.nan, np.nan]),
    "another delimiter": (b"4;a;there", [np.nan, np.nan]),
    "no UTF-8": (b"4,a,\xff", [np.nan, np.nan]),
    "a byte order mark": (b"\xef\xbb\xbf4,a,there", [np.nan, 0.0]),
    "NUL": (b"4,\x00,\x00", [4.0, np.nan]),
    "a carriage return": (b"4,a,th\rere", [4.0, 0.0]),
    "a quoted carriage return": (b'4,a,"th\rere"', [4.0, 0.0]),
    "a line of another system": (b"4,a,there\r", [4.0, 0.0]),
    "a line separator of Unicode": ("4,a,th\u2028ere".encode(), [4.0, 0.0]),
    "a vertical tab": (b"4,a,th\x0bere", [4.0, 0.0]),
    "a comment": (b"# 4,a,there", [np.nan, 0.0]),
    "a header again": (b"x,word,other", [np.nan, np.nan]),
    "a long cell": (b"4,a," + b"9" * 200_000, [4.0, 0.0]),
    "a long quoted cell": (b'4,a,"' + b"9" * 200_000 + b'"', [np.nan, np.nan]),
    "an escaped quotation mark": (b'4,a,"\\"', [4.0, 0.0]),
    "an end of file of another system": (b"4,a,\x1a", [4.0, 0.0]),
}


def written(path: Path, lines: list[bytes], end: bytes = b"\n") -> Path:
    path.write_bytes(b"x,word,other\n" + b"\n".join(lines) + (end if lines else b""))
    return path


def numbers(path: Path, **options: Any) -> Any:
    table = Table.read_csv(path, columns=COLUMNS, **options)
    return np.array([table.numbers(name) for name in COLUMNS]).T


@pytest.mark.parametrize("name", ODD)
def test_an_odd_line_is_one_record_and_changes_no_other(name: str, tmp_path: Path) -> None:
    line, expected = ODD[name]
    for place in range(len(LINES) + 1):
        path = written(tmp_path / "people.csv", [*LINES[:place], line, *LINES[place:]])
        rows = [*READ[:place], expected, *READ[place:]]
        assert np.array_equal(numbers(path), rows, equal_nan=True), place


def by_csv(text: str) -> int:
    return len(list(csv.reader(io.StringIO(text))))


def by_pandas(text: str) -> int:
    return len(pd.read_csv(io.StringIO(text), header=None, on_bad_lines="skip"))


@pytest.mark.parametrize("planted", [by_csv, by_pandas])
def test_a_planted_reader_of_whole_files_swallows_neighbors(planted: Any) -> None:
    """Show what a parser does that knows of no lines: an open quotation mark takes in all
    records that follow."""
    lines = [line.decode() for line in LINES]
    odd = ['4,a,"there', *lines[:2], '5,a,"there', *lines]
    assert planted("\n".join(lines)) == 3
    assert planted("\n".join(odd)) < len(odd) - 1


def test_lines_end_as_they_do_anywhere(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    assert np.array_equal(numbers(written(path, LINES, b"")), READ)
    assert np.array_equal(numbers(written(path, [line + b"\r" for line in LINES])), READ)
    path.write_bytes(b"\xef\xbb\xbfx,word,other\r\n" + b"\r\n".join(LINES))
    assert np.array_equal(numbers(path), READ)
    assert numbers(written(path, [])).shape == (0, 2)
    path.write_bytes(b"x,word,other")
    assert numbers(path).shape == (0, 2)


def test_delimiters_encodings_and_names_are_public(tmp_path: Path) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes("4;é;1\n5;a;2".encode("latin-1"))
    columns = {"x": Number(), "word": Category("é", "a")}
    how: dict[str, Any] = {"names": ["x", "word", "other"], "delimiter": ";"}
    table = Table.read_csv(path, columns=columns, encoding="latin-1", **how)
    assert table.select("x", "word").records.tolist() == [[4.0, 0.0], [5.0, 1.0]]
    assert table.name == "people"
    assert Table.read_csv(path, columns=columns, name="others", **how).name == "others"
    same = Table.read_csv(path, columns=columns, **how)
    assert np.array_equal(same.numbers("word"), [np.nan, 1.0], equal_nan=True)
    assert np.array_equal(same.numbers("x"), [np.nan, 5.0], equal_nan=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "No column of the file is named 'x'.*divided at ','; delimiter= says otherwise"),
        ({"names": ["x", "x", "word"]}, "2 columns of the file are named 'x'"),
        ({"delimiter": '"'}, "delimiter = '\"'; write one of"),
        ({"delimiter": ""}, "delimiter = ''; write one of"),
        ({"delimiter": ",;"}, "delimiter = ',;'; write one of"),
        ({"encoding": "utf-16"}, "encoding = 'utf-16'; write one of utf-8, ascii"),
    ],
)
def test_bad_options_are_refused_and_no_line_is_shown(
    options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    path = tmp_path / "people.csv"
    path.write_bytes(b"4,private,1\n5,private,2\n")
    with pytest.raises(ValueError, match=message) as refusal:
        numbers(path, **options)
    assert "private" not in str(refusal.value)


def test_a_file_that_is_rewritten_changes_no_table(tmp_path: Path) -> None:
    path = written(tmp_path / "people.csv", LINES)
    table = Table.read_csv(path, columns=COLUMNS)
    digest = table.fingerprint
    written(path, LINES[1:])
    assert table.fingerprint == digest != Table.read_csv(path, columns=COLUMNS).fingerprint


def test_parquet(tmp_path: Path) -> None:
    path = tmp_path / "people.parquet"
    columns: dict[str, Any] = {
        "x": [1, 2, None],
        "word": pa.array(["a", None, "elsewhere"]).dictionary_encode(),
        "day": pa.array([0, 2**40, None]).cast(pa.timestamp("s")).cast(pa.timestamp("ms")),
        "list": [[1.0], None, []],
        "a.b": [1.0, 2.0, 3.0],
        "half": pa.array([0.5, None, 65504.0], pa.float16()),
        "money": pa.array([None, 1, 2], pa.decimal128(20, 2)),
        "not declared": ["x", "y", "z"],
    }
    parquet.write_table(pa.table(columns), path)
    kinds = dict.fromkeys((*columns,)[:-1], Number()) | {"word": COLUMNS["word"]}
    table = Table.read_parquet(path, columns=kinds)
    nothing = [np.nan] * 3
    expected = {
        "x": [1.0, 2.0, np.nan],
        "word": [0.0, np.nan, np.nan],
        "day": nothing,
        "list": nothing,
        "a.b": [1.0, 2.0, 3.0],
        "half": [0.5, np.nan, 65504.0],
        "money": [np.nan, 1.0, 2.0],
    }
    for name, cells in expected.items():
        assert np.array_equal(table.numbers(name), cells, equal_nan=True), name
    assert table.name == "people"
    with pytest.raises(ValueError, match="Column 'weight' is not there"):
        Table.read_parquet(path, columns={"weight": Number()})


def test_parquet_without_pyarrow_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"install dpverify\[tables\]"):
        Table.read_parquet(tmp_path / "x.parquet", columns={"x": Number()})
