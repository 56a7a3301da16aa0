"""Neighbors: the linear-time check against the definition, tried out in full."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest

from dpverify.privacy import Adjacency, Domain

_REPLACE, _ADD = Adjacency.REPLACE, Adjacency.ADD_REMOVE
_NAN = math.nan


def _array(rows: Any, kind: type = np.float64) -> Any:
    """Typed as anything: the signature asks for a sequence, which an array is not to mypy."""
    return np.array(rows, dtype=kind)


Check = Callable[[Sequence[Any], Sequence[Any]], bool]


def _same_row(x: Any, y: Any) -> bool:
    if isinstance(x, tuple) or isinstance(y, tuple):
        return type(x) is type(y) and len(x) == len(y) and all(map(_same_row, x, y))
    return bool(x == y or (x != x and y != y))


def _same(a: Sequence[Any], b: Sequence[Any]) -> bool:
    return len(a) == len(b) and all(map(_same_row, a, b))


def _without(rows: Sequence[Any], i: int) -> list[Any]:
    return [*rows[:i], *rows[i + 1 :]]


def _replaced(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Check the definition: equal lengths, and equal once some one position is struck from both."""
    if len(a) != len(b):
        return False
    return _same(a, b) or any(_same(_without(a, i), _without(b, i)) for i in range(len(a)))


def _added(a: Sequence[Any], b: Sequence[Any]) -> bool:
    """Check the definition: one is the other with one row deleted, at any position."""
    return any(_same(_without(a, i), b) for i in range(len(a))) or any(
        _same(a, _without(b, i)) for i in range(len(b))
    )


_DEFINITIONS: dict[Adjacency, Check] = {_REPLACE: _replaced, _ADD: _added}


def _agrees_everywhere(check: Check, definition: Check) -> bool:
    """Compare on every ordered pair of sequences of at most 4 records out of 3."""
    sequences = [list(rows) for n in range(5) for rows in product((0, 1, 2), repeat=n)]
    return all(check(a, b) == definition(a, b) for a, b in product(sequences, repeat=2))


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_check_is_the_definition_on_every_short_pair(adjacency: Adjacency) -> None:
    assert _agrees_everywhere(adjacency.are_neighbors, _DEFINITIONS[adjacency])


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_comparison_catches_false_checks(adjacency: Adjacency) -> None:
    def last_only(a: Sequence[Any], b: Sequence[Any]) -> bool:
        return list(a[:-1]) == list(b) or list(b[:-1]) == list(a)

    def same_multiset_size(a: Sequence[Any], b: Sequence[Any]) -> bool:
        return len(set(a) ^ set(b)) <= 1

    other = _ADD if adjacency is _REPLACE else _REPLACE
    for twin in (last_only, same_multiset_size, other.are_neighbors):
        assert not _agrees_everywhere(twin, _DEFINITIONS[adjacency])


_ENTRIES = (0.0, -0.0, 1.0, -1.0, _NAN, math.inf, 2)


def _row(rng: random.Random) -> Any:
    columns = rng.randrange(3)
    return tuple(rng.choices(_ENTRIES, k=2)) if columns == 2 else rng.choice(_ENTRIES)


def _pair(rng: random.Random) -> tuple[list[Any], list[Any]]:
    """Return two sequences a few edits apart, so that neighbors and near misses are common."""
    left = [_row(rng) for _ in range(rng.randrange(8))]
    right = list(left)
    for _ in range(rng.randrange(3)):
        i = rng.randint(0, len(right))
        edit = rng.choice(("insert", "delete", "replace"))
        kept = right[i:] if edit == "insert" else right[i + 1 :]
        new = [] if edit == "delete" else [_row(rng)]
        right = right[:i] + new + kept
    return (left, right) if rng.random() < 0.5 else (right, left)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_check_is_the_definition_on_records_with_nan(adjacency: Adjacency) -> None:
    rng, outcomes = random.Random(20261127), Counter[bool]()
    for _ in range(1000):
        left, right = _pair(rng)
        expected = _DEFINITIONS[adjacency](left, right)
        case = f"{left}, {right}"
        assert expected == adjacency.are_neighbors(left, right), case
        assert expected == adjacency.are_neighbors(right, left), f"one way only: {case}"
        assert expected == (adjacency.why_not_neighbors(left, right) is None), case
        outcomes[expected] += 1
    assert min(outcomes[True], outcomes[False]) > 200


def test_equal_datasets_are_neighbors_under_replace_only() -> None:
    assert _REPLACE.are_neighbors([1, 2], [1, 2])
    assert not _ADD.are_neighbors([1, 2], [1, 2])
    assert _REPLACE.are_neighbors([], [])
    assert not _ADD.are_neighbors([], [])
    assert _ADD.are_neighbors([], [5])


@pytest.mark.parametrize(
    ("row", "same"),
    [
        (-0.0, 0.0),
        ((1.0, -0.0), (1.0, 0.0)),
        ([1.0, -0.0], (1.0, 0.0)),
        (_NAN, -_NAN),
        (np.float64("nan"), _NAN),
        (np.float32("nan"), np.float32("nan")),
        ((1.0, _NAN), (1.0, np.float64("nan"))),
        (1, 1.0),
    ],
)
def test_rows_that_count_as_equal(row: Any, same: Any) -> None:
    # With one honest difference already there, a second one would break the relation.
    assert _REPLACE.are_neighbors([7.0, row], [8.0, same])
    assert _ADD.are_neighbors([7.0, row], [same])


@pytest.mark.parametrize(
    ("row", "other"),
    [
        (_NAN, 0.0),
        (_NAN, math.inf),
        (_NAN, "nan"),
        (5e-324, 0.0),
        ((1.0, 2.0), (2.0, 1.0)),
        (math.inf, -math.inf),
    ],
)
def test_rows_that_count_as_different(row: Any, other: Any) -> None:
    assert not _REPLACE.are_neighbors([7.0, row], [8.0, other])
    assert not _ADD.are_neighbors([7.0, row], [other])


def test_arrays_of_one_dimension_are_columns() -> None:
    a = _array([1.0, 2.0, 3.0])
    assert _REPLACE.are_neighbors(a, _array([1.0, 9.0, 3.0]))
    assert not _REPLACE.are_neighbors(a, _array([9.0, 9.0, 3.0]))
    assert _ADD.are_neighbors(a, _array([1.0, 3.0]))
    assert not _ADD.are_neighbors(a, _array([3.0, 1.0]))
    assert _ADD.are_neighbors(a, [1.0, 3.0]), "an array and a list of the same rows are one dataset"
    assert _REPLACE.are_neighbors(
        _array([_NAN, -0.0, 1], np.float32), _array([_NAN, 0.0, 2], np.float32)
    )


def test_matrices_are_compared_as_their_rows_are() -> None:
    """The quick comparison of matrices and of lists of floats gives the reason that tuples give."""
    rng, entries = random.Random(20261127), (0.0, -0.0, 1.0, math.nan, -math.nan, math.inf, 5e-324)

    def drawn() -> list[tuple[float, ...]]:
        return [tuple(rng.choices(entries, k=2)) for _ in range(rng.randint(1, 5))]

    for case in range(400):
        rows, other = drawn(), drawn()
        if case % 2:
            other = [*rows[:1], *other[:1], *rows[1:]]
        _compare(rows, other)


def _compare(rows: list[tuple[float, ...]], other: list[tuple[float, ...]]) -> None:
    for adjacency in Adjacency:
        matrices = np.array(rows, dtype=np.float64), np.array(other, dtype=np.float64)
        reason = adjacency.why_not_neighbors(tuple(rows), tuple(other))  # no short way
        assert adjacency.why_not_neighbors(*matrices) == reason
        assert adjacency.why_not_neighbors(rows, [*map(list, other)]) == reason


def test_a_difference_in_two_columns_of_one_row_is_one_difference() -> None:
    a = _array([[1.0, 2.0], [_NAN, 4.0], [5.0, 6.0]])
    b = _array([[9.0, 9.0], [_NAN, 4.0], [5.0, 6.0]])
    assert _REPLACE.are_neighbors(a, b)
    assert not _REPLACE.are_neighbors(a, b + 1)
    assert _ADD.are_neighbors(a, np.delete(a, 1, axis=0))
    assert not _ADD.are_neighbors(a, np.delete(b, 1, axis=0))


def test_a_list_of_array_rows_is_compared_row_by_row() -> None:
    a = [np.array([1.0, 2.0]), np.array([3.0, 4.0])]
    assert _REPLACE.are_neighbors(a, [np.array([1.0, 2.0]), np.array([3.0, 9.0])])
    assert not _REPLACE.are_neighbors(a, [np.array([9.0, 2.0]), np.array([3.0, 9.0])])
    assert _ADD.are_neighbors(a, a[1:])


class _Frame:
    """Like a data frame: iterating gives the names of the columns, not the rows."""

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def __iter__(self) -> Iterator[str]:
        return iter(["height", "weight"])

    def to_numpy(self) -> Any:
        return _array(self.rows)


def test_a_data_frame_is_compared_by_its_rows() -> None:
    left: Any = _Frame([[1, 2], [3, 4], [5, 6]])
    right: Any = _Frame([[9, 2], [3, 4], [5, 9]])
    assert not _REPLACE.are_neighbors(left, right)
    assert _REPLACE.are_neighbors(left, _array([[1, 2], [3, 4], [5, 9]]))
    assert _ADD.are_neighbors(left, [(1, 2), (5, 6)])


@pytest.mark.parametrize("bad", ["abc", b"abc", {1: 2, 3: 4}, {1, 2}, 5.0, None, np.float64(5)])
def test_what_is_no_sequence_of_records_is_refused(bad: Any) -> None:
    message = f"A dataset is a sequence of records or an array of rows, not a {type(bad).__name__}"
    for adjacency in Adjacency:
        with pytest.raises(TypeError, match=message):
            adjacency.are_neighbors(bad, [1.0, 2.0])
        with pytest.raises(TypeError, match=message):
            adjacency.are_neighbors([1.0, 2.0], bad)


def test_large_datasets_are_compared_in_linear_time() -> None:
    # 200,000 records: a quadratic check takes hours, so finishing is the assertion.
    rows = [float(i % 2) for i in range(200_000)]
    shifted = [*rows[:100], 0.5, *rows[100:]]
    assert _ADD.are_neighbors(rows, shifted)
    assert not _ADD.are_neighbors(rows, [*shifted[:-1], 0.5])
    assert _REPLACE.are_neighbors(rows, [*rows[:-1], 0.5])
    assert _ADD.are_neighbors(_array([1.0] * 200_000), _array([1.0] * 199_999))


@pytest.mark.parametrize(
    ("adjacency", "left", "right", "reason"),
    [
        (_REPLACE, [0, 1, 2, 3], [0, 9, 2, 9], "records 1 and 3 both differ"),
        (_REPLACE, [0, 1], [0, 1, 2], "2 against 3 records"),
        (_ADD, [0, 1, 2], [0, 1, 2], "3 against 3 records"),
        (_ADD, [0, 1, 2, 3], [0, 2, 9], "after record 1 is deleted"),
        (_ADD, [0, 2, 9], [0, 1, 2, 3], "record 2 still differs"),
    ],
)
def test_the_reason_names_the_record(
    adjacency: Adjacency, left: list[int], right: list[int], reason: str
) -> None:
    said = adjacency.why_not_neighbors(left, right)
    assert said is not None
    assert reason in said
    assert str(adjacency) in said


def test_adjacencies_print_as_the_ledger_spells_them() -> None:
    assert [str(adjacency) for adjacency in Adjacency] == ["replace", "add-remove"]


@pytest.mark.parametrize(
    ("arguments", "kind", "message"),
    [
        ({"columns": 0}, ValueError, "columns = 0; a record has at least one column"),
        ({"columns": -3}, ValueError, "columns = -3"),
        ({"columns": 1.5}, (TypeError, ValueError), "columns"),
        ({"columns": 1, "nonfinite": "drop"}, ValueError, "nonfinite = 'drop'; write 'refuse'"),
        ({"columns": 1, "replacement": _NAN}, ValueError, "replacement = nan is not finite"),
        ({"columns": 1, "replacement": math.inf}, ValueError, "replacement = inf is not finite"),
        ({"columns": 1, "replacement": True}, TypeError, "replacement = True is a truth value"),
        ({"columns": 1, "replacement": None}, TypeError, "replacement is a NoneType"),
    ],
)
def test_domains_that_make_no_sense_are_refused(
    arguments: dict[str, Any], kind: Any, message: str
) -> None:
    with pytest.raises(kind, match=message):
        Domain(**arguments)


def test_domains_print_what_they_hold() -> None:
    assert str(Domain(1)) == "finite float64 records of 1 column"
    assert str(Domain(3)) == "finite float64 records of 3 columns"
    assert str(Domain(2, "replace", 160.0)) == "float64 records of 2 columns, finite or not"


def test_domains_are_equal_when_they_cover_the_same_datasets() -> None:
    # What a non-finite record counts as is the mechanism's business: the datasets are the same.
    assert Domain(1, "refuse", 0.0) == Domain(1, "refuse", 160.0)
    assert Domain(1, "replace", 0.0) == Domain(1, "replace", 160.0)
    different = [Domain(1), Domain(2), Domain(1, "replace"), Domain(2, "replace")]
    assert len(set(different)) == len({str(domain) for domain in different}) == 4
