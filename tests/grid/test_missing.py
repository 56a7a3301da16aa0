"""Under nonfinite="replace" no record decides an exception, a warning or another record."""

from __future__ import annotations

import functools
import itertools
import warnings
import weakref
from collections import deque
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pickle import PickleBuffer
from typing import Any

import numpy as np
import pytest

from dpverify.grid import ingest
from dpverify.privacy import Domain

Ingest = Callable[[Any, Domain], Any]

PLACE = -7.5
"""Cell that a missing record counts as."""


class Arrayed:
    """An object that says itself what array it is, as columns of data frames do."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        if isinstance(self._array, Exception):
            raise self._array
        return self._array


class Framed(Arrayed):
    """One that has ``to_numpy``, too."""

    def to_numpy(self) -> Any:
        return self._array


class Raising(float):
    """A number that is none when it is asked, and one that warns."""

    def __float__(self) -> float:
        raise RuntimeError("a record")


class Warning_(float):
    def __float__(self) -> float:
        warnings.warn("a record", stacklevel=2)
        return 4.0


class Unsized:
    def __len__(self) -> int:
        raise RuntimeError("a record")


def unknown(_: Any) -> Any:
    """Raise an error, as a weak reference to a dead object does, even when asked for its class."""
    raise RuntimeError("a record")


Classless = type("Classless", (), {"__class__": property(unknown)})


class Unlisted(list[float]):
    def __iter__(self) -> Any:
        raise RuntimeError("a record")


class Warning_Length:
    def __len__(self) -> int:
        warnings.warn("a record", stacklevel=2)
        return 1


class Unhashed(type):
    def __hash__(cls) -> int:
        raise RuntimeError("a record")


class OfUnhashed(metaclass=Unhashed):
    pass


class NotAvailable:
    """A value like pandas' NA: no truth value, no number, nothing that is equal to it."""

    def __bool__(self) -> bool:
        raise TypeError("ambiguous")

    def __eq__(self, other: object) -> Any:
        return self

    def __hash__(self) -> int:
        return 0


def masked(values: list[Any], mask: list[bool]) -> Any:
    return np.ma.array(values, mask=mask)


def itself() -> list[Any]:
    circle: list[Any] = []
    circle.append(circle)
    return circle


NUMBERS: dict[str, tuple[Any, float]] = {
    "decimal": (Decimal("0.1"), 0.1),
    "fraction": (Fraction(1, 3), 1 / 3),
    "bool": (np.bool_(True), 1.0),
    "int8": (np.int8(-3), -3.0),
    "uint64": (np.uint64(2**64 - 1), 2.0**64),
    "longdouble": (np.longdouble(0.25), 0.25),
    "a row": ([2.5], 2.5),
    "a row of objects": (np.array([Decimal(2)], object), 2.0),
    "no dimensions": (np.array(4.0), 4.0),
    "arrayed": (Arrayed(np.array([3.0])), 3.0),
    "a number that warns": (Warning_(), 4.0),
    "subnormal": (5e-324, 5e-324),
    "underflow": (np.longdouble("1e-4000"), 0.0),
    "tiny fraction": (Fraction(1, 10**400), 0.0),
}
NS = np.datetime64("2020-01-01", "ns")


def objects(entries: list[Any]) -> Any:
    """Return an array of dtype object that holds just these."""
    array = np.empty(len(entries), object)
    for i, entry in enumerate(entries):
        array[i] = entry
    return array


MISSING: dict[str, Any] = {
    "None": None,
    "NA": NotAvailable(),
    "nan": float("nan"),
    "infinity": float("inf"),
    "NaT": np.datetime64("NaT"),
    "a date": np.datetime64("2020-01-01"),
    "a time difference": np.timedelta64(3, "s"),
    "a bare time difference": np.timedelta64(3),
    # numpy makes integers of these where it lists an array, and dates of Python of others
    "a date in ns": NS,
    "a far day": np.datetime64(10**9, "D"),
    "a time difference in ns": np.array(np.timedelta64(1, "ns")),
    "a row with a date in ns": (NS,),
    "a row of dates": np.array([NS]),
    "a row of time differences": np.array([3], "m8[ns]"),
    "an object's date": objects([NS]),
    "dates behind": Arrayed(np.array([NS])),
    "masked date": masked([NS], [False]),
    "masked hidden date": masked([NS], [True]),
    "masked time difference": masked([np.timedelta64(1, "ns")], [False]),
    "decimal nan": Decimal("NaN"),
    "signaling nan": Decimal("sNaN"),
    "huge decimal": Decimal("1e400"),
    "huge fraction": Fraction(10**400, 3),
    "huge int": -(10**400),
    "wide float": np.longdouble("1e4000"),
    "complex": 2j,
    "real complex": np.complex128(2.0),
    "text": "1.0",
    "bytes": b"1",
    "numpy text": np.str_("1.0"),
    "masked": np.ma.masked,
    "masked row": masked([3.0], [True]),
    "masked integer": masked([3], [True]),
    "masked behind": Arrayed(masked([3.0], [True])),
    "empty row": [],
    "long row": [1.0, 2.0],
    "row of None": [None],
    "nested": [[1.0]],
    "endless": range(10**12),
    "circle": itself(),
    "matrix": np.zeros((1, 1)),
    "objects without dimensions": np.array(None, object),
    "raises": Arrayed(ValueError("a record")),
    "no number": Raising(),
    "unsized": Unsized(),
    "arrayed row": Arrayed(np.array([1.0, 2.0, 3.0])),
    "buffer": PickleBuffer(b"ab"),
    "classless": Classless(),
    "gone": weakref.proxy(Unsized()),
    "unlisted": Unlisted([1.0]),
    "a length that warns": Warning_Length(),
    "class without a hash": OfUnhashed(),
    "mapping": {0: 1.0},
    "set": {1.0},
    "type": float,
    "structured": np.zeros(1, [("a", float)])[0],
}


CONTAINERS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "deque": deque,
    "objects": objects,
    "frame": lambda entries: Framed(objects(entries)),
    "arrayed": lambda entries: Arrayed(objects(entries)),
    "frame of one column": lambda entries: Framed(objects(entries).reshape(-1, 1)),
}
OTHERS: list[list[Any]] = [
    [],
    [1.0],
    [True, False],
    [1, 2.5, 10**17],
    [None, 0.5],
    [np.float32(0.1)],
]
"""Records beside the odd one: n = 1 with it in all, n = 2, and others of any type."""


def shown(ingesting: Ingest, data: Any, columns: int = 1) -> tuple[str, list[str], list[Any]]:
    """Return all that is visible, an exception's type or nothing and warnings, and the records."""
    domain = Domain(columns=columns, nonfinite="replace", replacement=PLACE)
    with warnings.catch_warnings(record=True) as caught, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            records, refusal = ingesting(data, domain).tolist(), ""
        except Exception as error:
            records, refusal = [], f"{type(error).__name__}: {error}"
    return refusal, [str(warning.message) for warning in caught], records


def wrong(
    ingesting: Ingest, contain: Callable[[list[Any]], Any], odd: Any, value: float
) -> list[str]:
    """List how data with an odd record differ from data without it, except in that record."""
    differences: list[str] = []
    for others in OTHERS:
        _, _, rest = shown(ingesting, [0.0 if x is None else x for x in others])
        rest = [[PLACE] if x is None else row for x, row in zip(others, rest, strict=True)]
        plain = shown(ingesting, contain(others))
        for place in {0, len(others)}:
            refusal, warned, records = shown(
                ingesting, contain([*others[:place], odd, *others[place:]])
            )
            if refusal != plain[0] or warned != plain[1]:
                differences.append(f"{refusal} {warned} against {plain[0]} {plain[1]}")
            elif records != [*rest[:place], [value], *rest[place:]]:
                differences.append(f"records {records} of {others}")
    return differences


@pytest.mark.parametrize("container", CONTAINERS)
def test_an_odd_record_is_missing_and_nothing_else_happens(container: str) -> None:
    for name, odd in MISSING.items():
        assert wrong(ingest, CONTAINERS[container], odd, PLACE) == [], name


@pytest.mark.parametrize("container", CONTAINERS)
def test_any_real_number_is_the_nearest_float_and_nothing_else_happens(container: str) -> None:
    rows = ("a row", "a row of objects") if container == "frame of one column" else ()
    for name, (odd, value) in NUMBERS.items():
        if name in rows:  # a row within a row is none
            value = PLACE
        assert wrong(ingest, CONTAINERS[container], odd, value) == [], name


@pytest.mark.parametrize(
    "contain", [list, tuple, objects, lambda rows: [np.array(r) for r in rows]]
)
def test_a_row_that_is_none_is_missing_as_a_whole(contain: Callable[[list[Any]], Any]) -> None:
    rows: list[Any] = [[1.0, 2.0], [3, 4]]
    odd: list[Any] = [[1.0, entry] for entry in MISSING.values()]
    odd += [
        7.0,
        [],
        [1.0],
        [1.0, 2.0, 3.0],
        "12",
        b"12",
        (None, None),
        masked([1.0, 2.0], [False, True]),
    ]
    for row in odd:
        for data in (rows, [], [None]):
            expected = [
                [PLACE, PLACE] if None in x else x for x in ([y] if y is None else y for y in data)
            ]
            given: Any = [*data, row]
            refusal, warned, records = shown(
                ingest, contain(given) if contain in (list, tuple, objects) else given, 2
            )
            assert (refusal, warned, records) == ("", [], [*expected, [PLACE, PLACE]]), row


def at_once(data: Any, domain: Domain) -> Any:
    """Planted: one array is made of all records, whose dtype follows the oddest of them."""
    data = data.to_numpy() if hasattr(data, "to_numpy") else data
    array = np.asarray(data)
    if array.dtype.kind not in "biuf":
        raise TypeError("not real numbers")
    records = array.reshape(len(array), -1).astype(float)
    if records.shape[1:] != (domain.columns,) and len(records):
        raise ValueError("columns")
    records = records.reshape(-1, domain.columns)
    records[~np.isfinite(records).all(axis=1)] = domain.replacement
    return records


def one_by_one(data: Any, domain: Domain) -> Any:
    """Planted: each record by itself, and what its conversion raises is passed on."""
    data = data.to_numpy() if hasattr(data, "to_numpy") else data
    return ingest([float(entry) for entry in np.asarray(data, object).ravel()], domain)


def uncovered(data: Any, domain: Domain) -> Any:
    """Planted: masks are lost on the way."""
    return ingest([e.data if isinstance(e, np.ma.MaskedArray) else e for e in data], domain)


def listed(data: Any, domain: Domain) -> Any:
    """Planted: what numpy lists is what an array holds."""
    made = [np.asanyarray(e).tolist() if hasattr(e, "dtype") else e for e in data]
    return ingest(made, domain)


PLANTED: list[tuple[Ingest, list[str]]] = [
    (at_once, ["None", "NA", "NaT", "a date", "signaling nan", "complex", "text", "bytes",
        "long row",
               "huge int", "wide float", "masked integer", "raises", "huge decimal", "mapping"]),
    (one_by_one, ["None", "NA", "signaling nan", "complex", "text", "masked", "huge int",
        "no number"]),
    (uncovered, ["masked row", "masked integer"]),
    (listed, ["a date in ns", "a far day", "a time difference in ns", "a row of dates",
        "a row of time differences", "masked date"]),
]  # fmt: skip


@pytest.mark.parametrize(("planted", "names"), PLANTED)
def test_planted_conversions_are_told_apart(planted: Ingest, names: list[str]) -> None:
    for name in names:
        assert wrong(planted, list, MISSING[name], PLACE), name


def test_complex_arrays_lose_what_is_not_real_alone() -> None:
    """One complex number among real ones makes pandas call all of them complex."""
    refusal, warned, records = shown(ingest, np.array([1.0, 2j, -0.0, complex(1, float("nan"))]))
    assert (refusal, warned) == ("", [])
    assert records == [[1.0], [PLACE], [0.0], [PLACE]]
    assert not np.signbit(records[2][0])


@pytest.mark.parametrize("data", [Arrayed(masked([1.0], [True])), Arrayed(masked([1.0], [False]))])
def test_masked_containers_are_refused_by_type_alone(data: Any) -> None:
    refusal, warned, _ = shown(ingest, data)
    assert refusal.startswith("TypeError: The data are a masked array")
    assert warned == []


def test_a_container_that_raises_is_refused_without_what_it_said() -> None:
    refusal, _, _ = shown(ingest, Arrayed(ValueError("a record")))
    assert refusal == "TypeError: A Arrayed does not become an array; give a float64 array."


class Stopped(BaseException):
    """An exception such as a time limit raises."""


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, Stopped])
@pytest.mark.parametrize("nonfinite", ["replace", "refuse"])
def test_what_stops_the_program_passes_through(stop: type[BaseException], nonfinite: Any) -> None:
    """Your own interrupt comes from whatever code is running, which may be a record's."""

    class Number(Raising):
        def __float__(self) -> float:
            raise stop

    with pytest.raises(stop):
        ingest([1.0, Number()], Domain(columns=1, nonfinite=nonfinite, replacement=PLACE))


@pytest.mark.parametrize(("odd", "held"), [(NS, "dates"), (np.timedelta64(1), "time differences")])
def test_dates_are_refused_as_such(odd: Any, held: str) -> None:
    entries: list[Any] = [odd, (odd,), np.array([odd])]
    for entry in entries:
        with pytest.raises(TypeError, match=f"Record 1 holds {held}, not real numbers"):
            ingest([1.0, entry], Domain(columns=1))


@pytest.mark.parametrize("name", MISSING)
def test_where_missing_records_are_refused_the_first_is_named(name: str) -> None:
    with pytest.raises((TypeError, ValueError)) as refusal:
        ingest([1.0, MISSING[name]], Domain(columns=1))
    assert refusal.value.__cause__ is None
    assert any(text in str(refusal.value) for text in ("Record 1 ", "ragged"))


def pandas_columns(pandas: Any) -> list[Callable[[list[Any]], Any]]:
    dtypes: list[Any] = [None, object, "category", "boolean", "Int64", "Float64", "float64"]
    columns = [functools.partial(pandas.Series, dtype=dtype) for dtype in dtypes]
    return [*columns, lambda entries: pandas.DataFrame({"a": entries})]


def polars_columns(polars: Any) -> list[Callable[[list[Any]], Any]]:
    return [polars.Series, lambda entries: polars.DataFrame({"a": entries}, strict=False)]


def arrow_columns(pyarrow: Any) -> list[Callable[[list[Any]], Any]]:
    return [pyarrow.array, lambda entries: pyarrow.chunked_array([pyarrow.array(entries)])]


@pytest.mark.parametrize(
    ("library", "columns"),
    [("pandas", pandas_columns), ("polars", polars_columns), ("pyarrow", arrow_columns)],
)
def test_columns_of_data_frames(library: str, columns: Any) -> None:
    """Read what these libraries, where present, make a column of, for each odd record they take."""
    module = pytest.importorskip(library)
    names = ["None", "nan", "infinity", "NaT", "complex", "decimal nan", "wide float", "masked"]
    odd = {name: MISSING[name] for name in names}
    if library == "pandas":
        del odd["NaT"]  # of numpy, of which pandas makes a large negative number
        odd |= {"NA": module.NA, "a pandas NaT": module.NaT, "text": "x", "huge int": 10**400}
    taken = 0
    several: list[list[Any]] = [[1.0, 2.0], [True] * 3, [1, 2]]
    for contain, others in itertools.product(columns(module), several):
        for name, entry in odd.items():
            try:
                data = contain([*others, entry])
            except BaseException:  # polars panics
                continue
            taken += 1
            refusal, warned, records = shown(ingest, data)
            assert (refusal, warned) == ("", []), (name, data)
            assert records == [*([float(x)] for x in others), [PLACE]], (name, data)
    assert taken >= 6
