"""One record decides no exception, no warning and no other record, whatever library holds the table
and however it stores it."""

from __future__ import annotations

import copy
import functools
import warnings
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from dpverify import Boolean, Category, Integer, Number, Table
from dpverify.tables.cells import numbers
from tests.grid.test_missing import MISSING, NUMBERS, Arrayed, Classless, objects

NONE = float("nan")
Make = Callable[[list[Any]], Any]
COLUMNS = {
    "number": Number(-10, 10),
    "whole": Integer(-10, 10),
    "category": Category(2, "one", -3),
    "truth": Boolean(),
}
"""One column of cells, read by each type."""


class Loud(str):
    """A text that is none when it is asked."""

    def strip(self, *_: Any) -> Any:
        raise RuntimeError("a record")

    __hash__ = __eq__ = __len__ = lower = strip


class Unreal(complex):
    @property
    def imag(self) -> Any:
        raise RuntimeError("a record")


ODD: dict[str, tuple[Any, float, float]] = {
    **{name: (cell, NONE, NONE) for name, cell in MISSING.items()},
    **{name: (cell, min(10.0, value), NONE) for name, (cell, value) in NUMBERS.items()},
    "text": ("1.0", 1.0, 1.0),
    "bytes": (b"1", 1.0, 1.0),
    "numpy text": (np.str_(" 1.0"), 1.0, 1.0),
    "real complex": (np.complex128(2.0), 2.0, 2.0),
    "a word": ("n/a", NONE, NONE),
    "no UTF-8": (b"\xff\xfe", NONE, NONE),
    "digits of no ASCII": ("\u0661", NONE, NONE),
    "separated digits": ("1_000", NONE, NONE),
    "the word nan": ("nan", NONE, NONE),
    "the word inf": ("-Infinity", NONE, NONE),
    "a long number": ("9" * 500, NONE, NONE),
    "many digits and a letter": ("9" * 200_000 + "x", NONE, NONE),
    "many digits": ("0." + "3" * 5000, 1 / 3, NONE),
    "a true word": ("TRUE", 1.0, 1.0),
    "an object of a text": (Loud("3"), 3.0, 3.0),
    "a complex that raises": (Unreal(1.0), NONE, NONE),
    "large": (1e308, 10.0, 10.0),
    "a whole number beyond 2^63": (-(2**64), -10.0, -10.0),
    "smallest": (-5e-324, -5e-324, NONE),
}
"""A cell, the number of a ``Number`` that it is, and of an ``Integer``. Where the latter is NaN,
and the former is not, it follows from the former."""


def expected(number: float, whole: float) -> tuple[float, float]:
    return number, number if np.isnan(whole) and number == np.floor(number) else whole


def frame(library: Any, **options: Any) -> Make:
    return lambda cells: library.DataFrame({"x": library.Series(cells, **options)})


LISTS: dict[str, Make] = {
    "a mapping of lists": lambda cells: {"x": cells},
    "a mapping of arrays of objects": lambda cells: {"x": objects(cells)},
    "a mapping of tuples": lambda cells: {"x": tuple(cells), "z": None},
    "a list of mappings": lambda cells: [{"x": cell, "y": "left alone"} for cell in cells],
    "a list of rows": lambda cells: [[cell] for cell in cells],
    "an array of rows": lambda cells: objects([(cell,) for cell in cells]),
    "an array of objects": lambda cells: objects(cells).reshape(-1, 1),
    "a pandas frame of objects": frame(pd, dtype=object),
}
"""Containers that take any cell."""
INFERRED: dict[str, Make] = {
    "a pandas frame": frame(pd),
    "a pandas frame of categories": frame(pd, dtype="category"),
    "a pandas frame of nullable floats": frame(pd, dtype="Float64"),
    "a pandas frame of nullable integers": frame(pd, dtype="Int64"),
    "a pandas frame of strings": frame(pd, dtype="string"),
    "a pandas frame of Arrow": frame(pd, dtype=pd.ArrowDtype(pa.float64())),
    "a pandas frame of converted dtypes": lambda cells: frame(pd)(cells).convert_dtypes(),
    "a mapping of pandas columns": lambda cells: {"x": pd.Series(cells)},
    "a polars frame": frame(pl, strict=False),
    "a polars frame of objects": frame(pl, dtype=pl.Object),
    "a mapping of polars columns": lambda cells: {"x": pl.Series(cells, strict=False)},
    "an Arrow table": lambda cells: pa.table({"x": pa.array(cells)}),
    "an Arrow batch": lambda cells: pa.record_batch({"x": pa.array(cells)}),
    "an Arrow table of chunks": lambda cells: pa.table(
        {"x": pa.chunked_array([pa.array(cells[:1]), pa.array(cells[1:])])}
    ),
    "an Arrow table of a dictionary": lambda cells: pa.table(
        {"x": pa.array(cells).dictionary_encode()}
    ),
    "a mapping of Arrow columns": lambda cells: {"x": pa.array(cells)},
    "an array that numpy infers": lambda cells: np.array(cells).reshape(-1, 1),
}
"""Containers of which one cell decides how all cells are stored; not all take each cell."""


def seen(
    make: Callable[[], Any], kinds: dict[str, Any]
) -> tuple[str, list[str], dict[str, list[float]]]:
    """Collect what anybody sees, an exception or warnings, and the numbers."""
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            data, numbers, refusal = make(), {}, ""
            for name, kind in kinds.items():
                table = Table(data, columns={"x": kind})
                assert table.numbers("x").dtype == np.float64
                numbers[name] = table.numbers("x").tolist()
        except Exception as error:
            numbers, refusal = {}, f"{type(error).__name__}: {error}"
    return refusal, [str(warning.message) for warning in caught], numbers


OTHERS: list[list[Any]] = [[], [2.5, -3, True, None], [2.5, 1.0]]
PLAIN: list[list[Any]] = [[2.5, -3.0], [True, False, True], [2, -3, 0]]


def same(one: list[float], other: list[float]) -> bool:
    return len(one) == len(other) and np.array_equal(one, other, equal_nan=True)


def wrong(make: Make, cell: Any, number: float, whole: float, kinds: dict[str, Any]) -> list[str]:
    """List in what tables with an odd cell differ from those without it, but for the cell."""
    faults: list[str] = []
    whole = expected(number, whole)[1]
    for others in OTHERS:
        plain = seen(functools.partial(make, others), kinds)
        for place in {0, len(others)}:
            cells = [*others[:place], cell, *others[place:]]
            refusal, warned, numbers = seen(functools.partial(make, cells), kinds)
            if (refusal, warned) != plain[:2]:
                faults.append(f"{refusal} {warned} against {plain[0]} {plain[1]}")
                continue
            for name, odd in (("number", number), ("whole", whole)):
                if name in kinds and not same(numbers[name][place : place + 1], [odd]):
                    faults.append(f"{name}: {numbers[name]}, not {odd}")
            faults += [
                f"{name}: {numbers[name]} of {others}"
                for name in kinds
                if not same([x for i, x in enumerate(numbers[name]) if i != place], plain[2][name])
            ]
    return faults


@pytest.mark.parametrize("container", LISTS)
def test_an_odd_cell_is_what_it_is_and_nothing_else_happens(container: str) -> None:
    kinds = COLUMNS if container == "a list of rows" else {"number": COLUMNS["number"]}
    for name, (cell, number, whole) in ODD.items():
        assert wrong(LISTS[container], cell, number, whole, kinds) == [], name


STORED = [
    "None", "nan", "infinity", "a date", "decimal nan", "huge decimal", "huge int", "wide float",
    "complex", "real complex", "text", "bytes", "numpy text", "decimal", "fraction", "bool",
    "int8", "uint64", "longdouble", "subnormal", "a word", "the word nan", "a long number",
    "a true word", "large", "a whole number beyond 2^63", "a row", "long row", "mapping",
]  # fmt: skip
"""Cells that are no code of their own, with which the libraries' own code may crash."""


@pytest.mark.parametrize("container", INFERRED)
def test_how_a_column_is_stored_changes_no_other_cell(container: str) -> None:
    taken = 0
    for name in STORED:
        cell = ODD[name][0]
        for others in PLAIN:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    data = [INFERRED[container](list(cells)) for cells in (others, [*others, cell])]
            except BaseException:  # of the library's, before anything of ours; polars panics
                continue
            without, with_odd = (seen(functools.partial(copy.copy, one), COLUMNS) for one in data)
            assert with_odd[:2] == without[:2] == ("", []), (name, others)
            for kind in COLUMNS:
                assert same(with_odd[2][kind][:-1], without[2][kind]), (name, others, kind)
            taken += 1
    assert taken >= 8


ODD_ROWS: list[Any] = [
    None, 5.0, "12", b"12", (), (1.0,), (1.0, 2.0, 3.0), {}, {"a": 1.0}, {"c": 1.0}, {1: 2},
    [None, None], range(10**12), Arrayed(np.array([1.0, 2.0])), Classless(), np.array([[1.0,
    2.0]]), [[1.0, 2.0]], object(), float, np.array(1.0),
]  # fmt: skip


@pytest.mark.parametrize("place", range(len(ODD_ROWS)))
def test_an_odd_row_is_missing_where_it_is_no_row(place: int) -> None:
    row = ODD_ROWS[place]
    columns = {"a": Number(), "b": Number()}
    mappings: list[Any] = [{"a": 1, "b": 2}, {"b": 4, "a": 3}]
    for rows in (mappings, [(1, 2), [3, 4]], objects([(1, 2), [3, 4]])):
        for place in range(3):
            given = [*rows[:place], row, *rows[place:]]
            table = Table(
                objects(given) if isinstance(rows, np.ndarray) else given, columns=columns
            )
            numbers = np.array([table.numbers(name) for name in columns]).T
            assert np.delete(numbers, place, 0).tolist() == [[1, 2], [3, 4]]
            assert np.isnan(numbers[place]).sum() >= 1


def at_once(cells: Any, out: Any = None) -> Any:
    """Planted: a column is converted at once."""
    return np.array(cells, dtype=np.float64)


def by_dtype(cells: Any, out: Any = None) -> Any:
    """Planted: a column of which a cell is no number has no numbers."""
    try:
        return np.array(cells, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        return np.full(len(cells), np.nan)


def without_texts(cells: Any, out: Any = None) -> Any:
    """Planted: a text is no number, whatever it spells."""
    return numbers([None if isinstance(cell, str) else cell for cell in cells])


@pytest.mark.parametrize(
    ("planted", "container", "names"),
    [
        (at_once, "a mapping of lists", ["a word", "complex", "huge int", "a date", "mapping"]),
        (by_dtype, "a mapping of lists", ["a word", "complex", "huge int", "mapping"]),
        (without_texts, "an array that numpy infers", ["a word"]),
        (without_texts, "a polars frame", ["a word"]),
    ],
)
def test_planted_conversions_are_told_apart(
    monkeypatch: pytest.MonkeyPatch, planted: Any, container: str, names: list[str]
) -> None:
    make, kinds = {**LISTS, **INFERRED}[container], {"number": COLUMNS["number"]}
    for name in names:
        with monkeypatch.context() as patch:
            patch.setattr("dpverify.tables.types.numbers", planted)
            assert wrong(make, *ODD[name], kinds), name


EXTREMES: list[Any] = [
    [2**53 + 1, 2**63 - 1, -(2**63)],
    [0.1, 1 / 3, 1e308, 5e-324],
    [2**64 - 1, 0, 1],
    [Decimal("0.1"), Decimal(3)],
    ["0.1", "1e3", " 7 "],
]


@pytest.mark.parametrize("cells", EXTREMES, ids=str)
def test_a_number_is_the_nearest_float_however_it_is_stored(cells: list[Any]) -> None:
    numbers = [float(cell) for cell in cells]
    for name, make in {**LISTS, **INFERRED}.items():
        for odd in ([], [None], ["x"]):
            try:
                data = make([*cells, *odd])
            except BaseException:
                continue
            encoded = Table(data, columns={"x": Number()}).numbers("x")[: len(cells)]
            stored_whole = "integers" in name or "strings" in name or "nullable" in name
            assert same(encoded.tolist(), numbers) or stored_whole, name


ARROW: dict[str, Any] = {
    "a day beyond all calendars": pa.array([2**40, None], pa.int64()).cast(pa.timestamp("s")),
    "a time of day": pa.array([1, None], pa.time64("us")),
    "lists": pa.array([[1.0], None]),
    "structs": pa.array([{"x": 1.0}, None]),
    "maps": pa.array([[("x", 1.0)], None], pa.map_(pa.string(), pa.float64())),
    "nulls": pa.nulls(2),
    "days": pa.array([2**40, None], pa.int64()).cast(pa.timestamp("ms")).dictionary_encode(),
}


@pytest.mark.parametrize("name", ARROW)
def test_what_holds_no_numbers_is_missing_and_raises_nothing(name: str) -> None:
    column = ARROW[name]
    frames = [pa.table({"x": column}), {"x": column}]
    if name != "maps":
        frames.append(pd.DataFrame({"x": pd.Series(column, dtype=pd.ArrowDtype(column.type))}))
    if name not in ("maps", "days"):
        frames.append(pl.DataFrame(pa.table({"x": column})))
    for data in frames:
        refusal, warned, numbers = seen(functools.partial(copy.copy, data), COLUMNS)
        assert (refusal, warned) == ("", [])
        assert all(np.isnan(encoded).all() and len(encoded) == 2 for encoded in numbers.values())


def test_texts_of_arrow_that_are_no_text_are_missing() -> None:
    buffers = pa.array([b"2", b"\xff\xfe", b"one"], pa.binary()).buffers()
    text = pa.StringArray.from_buffers(3, buffers[1], buffers[2])
    for column in (text, text.dictionary_encode(), text.cast(pa.binary())):
        encoded = Table({"x": column}, columns={"x": COLUMNS["category"]}).numbers("x")
        assert same(encoded.tolist(), [0.0, NONE, 1.0])
    stored = pd.arrays.ArrowStringArray(
        pa.chunked_array([text.cast(pa.large_string(), safe=False)])
    )
    frame = Table(pd.DataFrame({"x": stored}), columns={"x": COLUMNS["category"]})
    assert same(frame.numbers("x").tolist(), [0.0, NONE, 1.0])


def test_a_dictionary_of_lists_is_missing() -> None:
    nested = pa.DictionaryArray.from_arrays(pa.array([0, 0]), pa.array([[1.0]]))
    assert Table({"x": nested}, columns={"x": Number(missing=7)}).numbers("x").tolist() == [7.0] * 2


def test_a_matrix_is_an_array_of_rows() -> None:
    matrix: Any = np.array([[1.0], [2.0]]).view(np.matrix)
    assert Table(matrix, columns={"x": Number()}).numbers("x").tolist() == [1.0, 2.0]


@pytest.mark.parametrize(
    ("data", "kind", "message"),
    [
        (pd.DataFrame([[1.0, 2.0]], columns=["x", "x"]), ValueError, "Column 'x' is twice or more"),
        (pd.DataFrame({"y": ["private"]}), ValueError, "Column 'x' is not there"),
        (
            pl.DataFrame({"y": [1.0]}).lazy(),
            TypeError,
            "A polars LazyFrame is no table; give a data frame that is in memory",
        ),
        ({"x": "private"}, TypeError, "Column 'x' is a str; give a list or an array"),
        ({"x": [1.0], "y": [1.0, 2.0]}, ValueError, "The columns have different lengths"),
        ({"x": np.zeros((2, 2))}, ValueError, "Column 'x' has 2 dimensions"),
        (np.ma.array([[1.0]], mask=[[True]]), TypeError, "a masked array"),
        (np.zeros((2, 3)), ValueError, "The array has 3 columns, and there are 1 names"),
        (np.zeros((2, 1, 1)), ValueError, "The array has 3 dimensions"),
        (np.zeros(2, [("x", float, (2,))]), ValueError, "Column 'x' is an array in every record"),
        ("private", TypeError, "A str is no table"),
        ({1.0}, TypeError, "A set is no table"),
    ],
)
def test_what_is_no_table_is_refused_without_a_value(data: Any, kind: Any, message: str) -> None:
    wanted = {"x": Number(), **({"y": Number()} if "lengths" in message else {})}
    with pytest.raises(kind, match=message) as refusal:
        Table(data, columns=wanted)
    assert "private" not in str(refusal.value)


def test_arrays_have_their_names_in_order() -> None:
    array = np.array([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    columns = {"b": Number(), "a": Number()}
    table = Table(array, columns=columns, names=["a", "c", "b"])
    assert table.select("a", "b").records.tolist() == [[1.0, 3.0], [4.0, 6.0]]
    rows = Table(array.tolist(), columns=columns, names=["a", "c", "b"])
    assert rows.select("a", "b").records.tolist() == [[1.0, 3.0], [4.0, 6.0]]
    assert Table(array[:, :2], columns=columns).select("a").records.tolist() == [[2.0], [5.0]]
    structured = np.array([(1.0, "2")], [("a", float), ("b", "U3")])
    assert Table(structured, columns=columns).select("a", "b").records.tolist() == [[1.0, 2.0]]
    assert Table(np.array([]), columns=columns).private_number_of_rows == 0
    for names, message in ((["a", "a", "b"], "each name once"), (["a", "c", "d"], "'b' is not")):
        with pytest.raises(ValueError, match=message):
            Table(array, columns=columns, names=names)
    with pytest.raises(ValueError, match="have names already"):
        Table({"a": [], "b": []}, columns=columns, names=["a", "b"])


@pytest.mark.parametrize(
    "cells",
    [
        [-0.0, 0.25, -1.0, 1.0],
        [0.25, np.nan, 1.0],
        [0.25, -np.inf],
        [np.inf, 0.5],
        [1.5, -7.0, 5e-324],
        [np.nan],
        [],
    ],
    ids=str,
)
@pytest.mark.parametrize("kind", [Number(-1, 1), Number(), Integer(-1, 1)], ids=str)
def test_a_column_of_floats_is_read_as_its_cells_are(kind: Number, cells: list[float]) -> None:
    """Compare also where all are between the bounds, so that nothing is to be moved; and -0.0 is
    0."""
    expected = [kind.encode([cell])[0] for cell in cells]
    given = np.array(cells, np.float64)
    out = np.full(len(cells), 7.0)
    assert kind.encode(given, out) is out
    for encoded in (out, kind.encode(given)):
        assert np.array_equal(encoded, expected, equal_nan=True)
        assert not np.signbit(encoded[encoded == 0]).any()
    assert np.array_equal(given, cells, equal_nan=True)
