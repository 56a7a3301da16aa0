"""Ways for data to enter: accepted and refused ones, and no others."""

from __future__ import annotations

import warnings
from decimal import Decimal
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify.grid import ingest
from dpverify.privacy import Domain

ONE = Domain(columns=1)
TWO = Domain(columns=2)
REPLACING = Domain(columns=1, nonfinite="replace", replacement=7.5)


class Frame:
    """A column as those of pandas and polars look from here."""

    def __init__(self, values: Any) -> None:
        self._values = values

    def to_numpy(self) -> Any:
        return self._values


def frame(values: Any) -> Any:
    return Frame(values)


ACCEPTED: dict[str, tuple[Any, list[float]]] = {
    "list of floats": ([1.5, 2.0], [1.5, 2.0]),
    "list of ints": ([1, -2, 0], [1.0, -2.0, 0.0]),
    "mixed list": ([1, 2.5, True], [1.0, 2.5, 1.0]),
    "tuple": ((3, 4), [3.0, 4.0]),
    "range": (range(3), [0.0, 1.0, 2.0]),
    "bools": ([True, False], [1.0, 0.0]),
    "bool array": (np.array([True, False]), [1.0, 0.0]),
    "float16": (np.array([0.5], dtype=np.float16), [0.5]),
    "float32": (np.array([0.1], dtype=np.float32), [float(np.float32(0.1))]),
    "longdouble": (np.array([0.25], dtype=np.longdouble), [0.25]),
    "int8": (np.array([-128], dtype=np.int8), [-128.0]),
    "uint64": (np.array([2**64 - 1], dtype=np.uint64), [2.0**64]),
    "big endian": (np.array([1.5, 2.5], dtype=">f8"), [1.5, 2.5]),
    "empty list": ([], []),
    "shape (0,)": (np.zeros(0), []),
    "shape (0, 1)": (np.zeros((0, 1)), []),
    "shape (n, 1)": ([[1.0], [2.0]], [1.0, 2.0]),
    "frame of one column": (frame(np.array([[1.0], [2.0]])), [1.0, 2.0]),
    "series": (frame(np.array([1, 2])), [1.0, 2.0]),
    "a slice": (np.arange(10.0)[::3], [0.0, 3.0, 6.0, 9.0]),
    "reversed": (np.arange(3.0)[::-1], [2.0, 1.0, 0.0]),
    "read-only": (np.frombuffer(np.array([1.0, 2.0]).tobytes()), [1.0, 2.0]),
    "beyond 64 bits": ([2**70, -(2**70), 1], [2.0**70, -(2.0**70), 1.0]),
    "beyond 64 bits, (n, 1)": ([[2**70], [3]], [2.0**70, 3.0]),
    "a huge int and a float": ([2**70, 0.5], [2.0**70, 0.5]),
    "rows of one number among numbers": ([1.0, [2.0], np.array([3.0])], [1.0, 2.0, 3.0]),
    "arrays without dimensions": ([np.array(1.0), [np.array(2)]], [1.0, 2.0]),
    "object array": (np.array([1.0, 2.0], dtype=object), [1.0, 2.0]),
    "object array of two dimensions": (np.array([[1], [2.5]], dtype=object), [1.0, 2.5]),
    "object array of huge ints": (np.array([2**70], dtype=object), [2.0**70]),
    "fractions and decimals": ([Fraction(1, 2), Decimal("0.1")], [0.5, 0.1]),
    "extremes": (
        [1e308, -1.7976931348623157e308, 5e-324],
        [1e308, -1.7976931348623157e308, 5e-324],
    ),
}


@pytest.mark.parametrize("name", ACCEPTED)
def test_real_columns_are_accepted(name: str) -> None:
    data, expected = ACCEPTED[name]
    records = ingest(data, ONE)
    assert records.dtype == np.float64
    assert records.shape == (len(expected), 1)
    assert records[:, 0].tolist() == expected


def test_two_columns_are_accepted_as_two_columns() -> None:
    assert ingest([[1, 2], [3, 4]], TWO).tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert ingest(frame(np.zeros((0, 2))), TWO).shape == (0, 2)


WRONG_KINDS: dict[str, Any] = {
    "ragged": [[1.0], [2.0, 3.0]],
    "ragged with scalars": [1.0, [2.0, 3.0]],
    "object array of strings": np.array([1.0, "2"], dtype=object),
    "frame of objects": frame(np.array([1, object()], dtype=object)),
    "complex array": np.array([1.0 + 0j]),
    "complex": [1.0 + 0j],
    "strings": ["1", "2"],
    "bytes": [b"1"],
    "a string": "12",
    "None": None,
    "a dict": {"a": 1.0},
    "a generator": (x for x in (1.0, 2.0)),
    "dates": np.array(["2020-01-01"], dtype="datetime64[D]"),
    "durations": np.array([1], dtype="timedelta64[s]"),
    "a structured array": np.zeros(2, dtype=[("a", float)]),
}


@pytest.mark.parametrize("name", WRONG_KINDS)
def test_other_kinds_are_refused_with_what_to_do(name: str) -> None:
    with pytest.raises(TypeError, match=r"a float64 array|a rectangular array"):
        ingest(WRONG_KINDS[name], ONE)


@pytest.mark.parametrize("mask", [[False, True, False], [False, False, False], False])
@pytest.mark.parametrize("framed", [False, True])
def test_masked_arrays_are_refused(mask: Any, framed: bool) -> None:
    """Refuse them: what is under a mask is hidden from the user; it must not come back as data."""
    masked: Any = np.ma.array([1.0, 2.0, 3.0], mask=mask)
    with pytest.raises(TypeError, match="float64 array"):
        ingest(frame(masked) if framed else masked, ONE)


WRONG_SHAPES: list[tuple[Any, Domain, str]] = [
    (1.0, ONE, "0 dimensions"),
    (np.float64(1.0), ONE, "0 dimensions"),
    (np.zeros((2, 1, 1)), ONE, "3 dimensions"),
    (np.zeros((2, 2)), ONE, "2 columns"),
    (np.zeros((2, 0)), ONE, "0 columns"),
    ([[]], ONE, "0 columns"),
    (np.zeros((2, 1)), TWO, "1 columns"),
    (np.zeros(2), TWO, "1 dimensions"),
    (np.zeros((1, 3)), TWO, "3 columns"),
]


@pytest.mark.parametrize(("data", "domain", "described"), WRONG_SHAPES)
def test_other_shapes_are_refused_with_what_to_do(
    data: Any, domain: Domain, described: str
) -> None:
    with pytest.raises(ValueError, match=described) as refusal:
        ingest(data, domain)
    message = str(refusal.value)
    assert f"(n, {domain.columns})" in message
    assert ("or (n,)" in message) == (domain.columns == 1)
    assert "Select the columns, or reshape" in message


NONFINITE = [np.nan, np.inf, -np.inf]


@pytest.mark.parametrize("bad", NONFINITE)
def test_nonfinite_records_are_refused_by_row_alone(bad: float) -> None:
    with pytest.raises(ValueError, match=r"^Record 2 is not finite\.") as refusal:
        ingest([41.25, 42.25, bad, 43.25, bad], ONE)
    assert "nonfinite='replace'" in str(refusal.value)
    assert not any(text in str(refusal.value) for text in ("nan", "inf ", "41", "42", "43"))


@pytest.mark.parametrize("bad", [*NONFINITE, 10**400, -(10**400)])
def test_nonfinite_records_are_replaced(bad: float) -> None:
    assert ingest([1.0, bad, 3.0], REPLACING)[:, 0].tolist() == [1.0, 7.5, 3.0]


def test_a_record_with_one_bad_entry_is_replaced_whole() -> None:
    domain = Domain(columns=2, nonfinite="replace", replacement=-1.0)
    records = ingest([[1.0, np.nan], [2.0, 3.0], [np.inf, -np.inf]], domain)
    assert records.tolist() == [[-1.0, -1.0], [2.0, 3.0], [-1.0, -1.0]]


def test_a_wider_float_beyond_the_largest_float_is_not_finite() -> None:
    wide = np.array([np.longdouble("1e4000"), np.longdouble(1)])
    assert ingest(wide, REPLACING)[:, 0].tolist() == [7.5, 1.0]
    with pytest.raises(ValueError, match="Record 0 is not finite"):
        ingest(wide, ONE)


@pytest.mark.parametrize("nonfinite", ["refuse", "replace"])
def test_minus_zero_becomes_zero(nonfinite: Literal["refuse", "replace"]) -> None:
    records = ingest([-0.0, 0.0, -5e-324], Domain(columns=1, nonfinite=nonfinite))
    assert np.signbit(records[:, 0]).tolist() == [False, False, True]


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.int64])
@pytest.mark.parametrize("shape", [(3,), (3, 1)])
def test_records_are_a_copy(dtype: type, shape: tuple[int, ...]) -> None:
    data: Any = np.array([1, 2, 3], dtype=dtype).reshape(shape)
    records = ingest(data, ONE)
    records[:] = 9.0
    assert data.reshape(-1).tolist() == [1, 2, 3]
    data[:] = 5
    assert records[:, 0].tolist() == [9.0] * 3


def test_replacing_leaves_the_data_as_they_were() -> None:
    data = np.array([1.0, np.nan, -0.0])
    ingest(data, REPLACING)
    assert np.isnan(data[1])
    assert np.signbit(data[2])
    frozen = data.copy()
    frozen.setflags(write=False)
    assert ingest(frozen, REPLACING)[:, 0].tolist() == [1.0, 7.5, 0.0]


def test_the_kind_of_a_list_does_not_depend_on_how_large_its_numbers_are() -> None:
    """A list of NumPy integers is accepted; one Python integer beyond 64 bits among them must not
    turn it into a refusal, which would show that the record is there."""
    small: list[Any] = [np.int64(3), np.float32(0.5), 2**60]
    large: list[Any] = [np.int64(3), np.float32(0.5), 2**70]
    assert ingest(small, ONE)[:, 0].tolist() == [3.0, 0.5, 2.0**60]
    assert ingest(large, ONE)[:, 0].tolist() == [3.0, 0.5, 2.0**70]


def test_a_refusal_of_strings_does_not_show_how_long_they_are() -> None:
    messages = set()
    for data in (["a", "b"], ["a", "x" * 37]):
        with pytest.raises(TypeError) as refusal:
            ingest(data, ONE)
        messages.add(str(refusal.value))
    assert len(messages) == 1


@pytest.mark.parametrize("value", ["5e-324", "1e-4000", "1e308", "1e4000", "nan"])
def test_nothing_depends_on_the_floating_point_environment(value: str) -> None:
    """A caller's np.seterr must not turn a record into an exception."""
    data = np.array([np.longdouble(value)])
    with np.errstate(all="ignore"):
        expected = ingest(data, REPLACING).tolist()
    with np.errstate(all="raise"):
        assert ingest(data, REPLACING).tolist() == expected


@settings(derandomize=True, deadline=None, max_examples=200)
@given(
    st.lists(
        st.one_of(st.floats(), st.integers(), st.booleans(), st.integers(-(2**2000), 2**2000)),
        max_size=6,
    )
)
def test_lists_of_numbers_enter_without_warning_or_error(data: list[float]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        records = ingest(data, REPLACING)
    assert records.shape == (len(data), 1)
    assert np.isfinite(records).all()
    for given_value, record in zip(data, records[:, 0].tolist(), strict=True):
        try:
            expected = float(given_value)
        except OverflowError:
            expected = np.inf
        assert record == (expected if np.isfinite(expected) else 7.5)
