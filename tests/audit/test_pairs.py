"""Neighbors: datasets and query vectors, compared exactly, and what is refused."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpverify import Adjacency
from dpverify.audit.neighbors.pairs import (
    Neighboring,
    NeighboringPair,
    QueryMoves,
    added,
    moved,
    replaced,
    stepped,
)

NAN = float("nan")


def test_both_relations_are_neighboring() -> None:
    assert isinstance(Adjacency.REPLACE, Neighboring)
    assert isinstance(QueryMoves(), Neighboring)
    assert not isinstance("replace", Neighboring)


NEIGHBORS: list[tuple[QueryMoves, Any, Any]] = [
    (QueryMoves(), [0.0, 5.0], [1.0, 4.0]),
    (QueryMoves(), [0, 0], [0, 0]),
    (QueryMoves(at_once=1), [0.0, 5.0], [0.0, 4.0]),
    (QueryMoves("0.5"), np.array([0.0, 1.0]), [0.5, 0.5]),
    (QueryMoves(Fraction(1, 3)), [0], [Fraction(1, 3)]),
    (QueryMoves(), [NAN, 1.0], [NAN, 2.0]),
    (QueryMoves(), [math.inf], [math.inf]),
    (QueryMoves(), [-0.0], [0.0]),
    (QueryMoves(), [Decimal("1.5")], [2.5]),
    (QueryMoves(), [], []),
    (QueryMoves(), [1e308], [1e308]),
    (QueryMoves(), [2**60], [2**60 + 1]),
]


@pytest.mark.parametrize(("relation", "left", "right"), NEIGHBORS)
def test_neighbors(relation: QueryMoves, left: Any, right: Any) -> None:
    assert relation.why_not_neighbors(left, right) is None
    assert relation.why_not_neighbors(right, left) is None


STRANGERS: list[tuple[QueryMoves, Any, Any, str]] = [
    (QueryMoves(), [0.0, 5.0], [0.0, 6.5], "answer 1 moves from 5 to 6.5, by more than 1"),
    (QueryMoves(), [0.0], [math.nextafter(1.0, 2.0)], "answer 0 moves from 0 to"),
    (QueryMoves(), [0.1], [1.1], "answer 0 moves"),  # as floats they are 1 + 2^-55 apart
    (QueryMoves(at_once=1), [0, 0, 0], [1, 0, 1], "answers 0, 2 all move; at most 1 may"),
    (QueryMoves(), [0.0], [0.0, 0.0], "1 against 2 answers"),
    (QueryMoves(), [NAN], [0.0], "from nan to 0"),
    (QueryMoves(), [NAN], [math.inf], "from nan to inf"),
    (QueryMoves(), [math.inf], [-math.inf], "from inf to -inf"),
    (QueryMoves(), [2**60], [2**60 + 2], "by more than 1"),
]


@pytest.mark.parametrize(("relation", "left", "right", "reason"), STRANGERS)
def test_strangers(relation: QueryMoves, left: Any, right: Any, reason: str) -> None:
    problem = relation.why_not_neighbors(left, right)
    assert problem is not None
    assert reason in problem
    assert relation.why_not_neighbors(right, left) is not None
    with pytest.raises(ValueError, match=r"is not .* move by at most"):
        NeighboringPair(name="p", left=left, right=right, adjacency=relation)


@given(
    st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=4),
    st.lists(st.floats(-1, 1), min_size=4, max_size=4),
)
def test_a_step_is_never_too_long(answers: list[float], moves: list[float]) -> None:
    pair = moved("p", answers, moves[: len(answers)])
    for start, end, move in zip(pair.left, pair.right, moves, strict=False):
        assert abs(Fraction(end) - Fraction(start)) <= abs(Fraction(move))
        missing = abs(Fraction(start) + Fraction(move) - Fraction(end))
        assert missing <= Fraction(math.ulp(max(abs(start), abs(end))))


def test_a_step_is_rounded_towards_its_start() -> None:
    assert 0.1 + 1.0 == 1.1
    assert Fraction(1.1) - Fraction(0.1) > 1
    assert stepped(0.1, 1.0) == math.nextafter(1.1, 0.0)
    assert stepped(1e300, 1.0) == 1e300


def test_helpers() -> None:
    assert added("p", [1.0], 2.0, at=1).left == [1.0, 2.0]
    assert replaced("p", [1.0], 2.0).right == [2.0]
    pair = moved("p", [0.0, 2.0], [1.0, -1.0], QueryMoves(at_once=2))
    assert (pair.right, str(pair.adjacency)) == ([1.0, 1.0], "at most 2 answers move by at most 1")
    assert str(QueryMoves("0.5")) == "all answers move by at most 0.5"
    assert QueryMoves("0.5") == QueryMoves(Fraction(1, 2)) != QueryMoves()


class Frame:
    """A table whose rows are not its entries, as a data frame's."""

    def to_numpy(self) -> Any:
        return np.array([[1.0, 2.0], [3.0, 4.0]])

    def __len__(self) -> int:
        return 2

    def __getitem__(self, i: Any) -> Any:
        raise KeyError(i)


@pytest.mark.parametrize("base", [Frame().to_numpy(), Frame()])
def test_arrays_stay_arrays(base: Any) -> None:
    pair, other = added("p", base, [5.0, 6.0], at=1), replaced("p", base, (5.0, 6.0), at=1)
    made: list[Any] = [pair.left, pair.right, other.left, other.right]
    assert all(type(one) is np.ndarray for one in made)
    old = [[1.0, 2.0], [3.0, 4.0]]
    assert made[0].tolist() == [[1.0, 2.0], [5.0, 6.0], [3.0, 4.0]]
    assert made[1].tolist() == made[2].tolist() == old
    assert made[3].tolist() == [[1.0, 2.0], [5.0, 6.0]]
    made[1][0], made[2][0] = 9.0, 9.0
    assert base.to_numpy().tolist() == old if isinstance(base, Frame) else base.tolist() == old


def test_a_record_is_never_cut_to_fit_an_array() -> None:
    assert list(added("p", np.array([1, 2]), 0.5).left) == [0.5, 1.0, 2.0]
    assert list(added("p", np.array(["a"]), "long").left) == ["long", "a"]
    table = np.array([(1, 2.0)], dtype=[("n", int), ("x", float)])
    assert added("p", table, (3, 4.0)).left[0].item() == (3, 4.0)
    boxes = np.empty(1, dtype=object)
    assert added("p", boxes, (1, "a")).left[0] == (1, "a")


REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: QueryMoves(0), ValueError, "needs no noise"),
    (lambda: QueryMoves(-1), ValueError, "needs no noise"),
    (lambda: QueryMoves(math.inf), ValueError, "not finite"),
    (lambda: QueryMoves(at_once=0), ValueError, "at least one answer"),
    (lambda: QueryMoves(at_once=1.0), TypeError, "give an integer"),  # type: ignore[arg-type]
    (lambda: moved("p", [0.0], [1.0, 1.0]), ValueError, "2 moves for 1 answers"),
    (lambda: added("p", np.zeros((2, 2)), [1.0]), ValueError, r"has shape \(1,\), but a row"),
    (lambda: replaced("p", np.zeros(2), [1.0]), ValueError, r"has shape \(1,\), but a row"),
    (lambda: moved("p", [0.0], [2.0]), ValueError, "answer 0 moves from 0 to 2"),
    (lambda: QueryMoves().why_not_neighbors([[0.0]], [[1.0]]), TypeError, "Answer 0 is"),
    (lambda: QueryMoves().why_not_neighbors(["a"], ["a"]), TypeError, "Answer 0 is 'a'"),
    (lambda: QueryMoves().why_not_neighbors([None], [0]), TypeError, "Answer 0 is None"),
    (lambda: QueryMoves().why_not_neighbors({0: 1}, [0]), TypeError, "not a dict"),  # type: ignore[arg-type]
    (
        lambda: NeighboringPair(name="p", left=[0], right=[0], adjacency=QueryMoves),  # type: ignore[arg-type]
        TypeError,
        r"QueryMoves\(\) for vectors",
    ),
]


@pytest.mark.parametrize(("call", "error", "message"), REFUSED)
def test_refusals(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call()


@pytest.mark.parametrize(
    "base", [[1.0, 2.0, 3.0], np.array([[1.0], [2.0], [3.0]])], ids=["list", "array"]
)
def test_a_place_counts_from_the_end_too(base: Any) -> None:
    pair = replaced("the last", base, [9.0] if isinstance(base, np.ndarray) else 9.0, at=-1)
    assert np.ravel(pair.right).tolist() == [1.0, 2.0, 9.0]
    for at in (3, -4):
        with pytest.raises(ValueError, match="there are 3 records"):
            replaced("nobody", base, 9.0, at=at)
    for at in (4, -4):
        with pytest.raises(ValueError, match="give a place from 0 to 3"):
            added("nowhere", base, base[0], at=at)


@pytest.mark.parametrize(
    ("base", "record"),
    [([1.0, 2.0], 1.0), (np.array([[1.0, 2.0]]), [1.0, 2.0]), ([(1, "a")], (1, "a"))],
)
def test_a_record_is_not_replaced_by_itself(base: Any, record: Any) -> None:
    with pytest.raises(ValueError, match=r"Record 0 of base is .* both datasets are equal"):
        replaced("nothing happens", base, record)


@pytest.mark.parametrize(
    ("base", "record"), [([0.0], -0.0), ([1], 1.0), (np.array([0.0]), -0.0), (np.array([1]), 1.0)]
)
def test_a_record_is_replaced_by_an_equal_one_that_can_be_told_apart(
    base: Any, record: Any
) -> None:
    assert len(replaced("the sign, or the type", base, record).right) == 1
