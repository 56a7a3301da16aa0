"""Groups of records: the spec's members, votes and buckets, whatever the data."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dpverify import Adjacency
from dpverify.grid import View, hashes, ingest
from dpverify.grid import groups as shipped
from dpverify.grid.groups import GroupBuckets, KthLargest, SumOver
from dpverify.privacy import Domain, Norm
from spec.theory import group_votes, groups

steady = settings(derandomize=True, deadline=None, max_examples=80)
NUMBERS = st.sampled_from([0.0, 0.25, -0.25, 1.0, 3.5, 5e-324, 1e308, -1e308, 7e5])


def _rows(d: int) -> st.SearchStrategy[list[tuple[float, ...]]]:
    return st.lists(st.tuples(*[NUMBERS] * d), max_size=12)


def _exactly(rows: Any, cell: Fraction) -> list[tuple[int, ...]]:
    return [group_votes.cells_of([Fraction(float(x)) for x in row], cell) for row in rows]


@steady
@given(_rows(2), st.integers(1, 6), st.sampled_from([0, 1, 2**63 - 1]), st.sampled_from([-3, 0, 5]))
def test_members_and_votes_are_the_spec_s(
    rows: list[Any], count: int, key: int, exponent: int
) -> None:
    records = ingest(np.array(rows).reshape(-1, 2), Domain(2))
    cells = _exactly(rows, Fraction(2) ** exponent)
    expected = groups.members(cells, groups.Hash(count, key))
    statistics: list[tuple[Any, Any]] = [
        (KthLargest(1), groups.kth_largest(1)),
        (KthLargest(2), groups.kth_largest(2)),
        (SumOver((1,)), groups.sum_over((1,))),
        (SumOver((0, 1)), groups.sum_over((0, 1))),
    ]
    for statistic, own in statistics:
        query = GroupBuckets(statistic, 2, count, exponent, key)
        member_cells = [[cells[i] for i in members] for members in query.members(records)]
        assert member_cells == expected
        assert query.buckets(View(records)) == groups.votes(expected, 2, own)
        table = query.evaluate(View(records))
        assert table[:, 1].sum() == count
        assert (np.diff(table[:, 0]) > 0).all()


@steady
@given(_rows(2), st.sampled_from([(0, 0), (1, -1), (1, 1)]), st.randoms(use_true_random=False))
def test_members_are_the_same_in_every_order_even_where_records_collide(
    rows: list[Any], factors: tuple[int, int], rng: Any
) -> None:
    """Permute records: with these multipliers different records have one fingerprint; a cell is
    1/4."""
    query = GroupBuckets(KthLargest(1), 2, 3, -2)
    expected = groups.members(_exactly(rows, Fraction(1, 4)), groups.Hash(3, 0, factors))
    with pytest.MonkeyPatch.context() as patch:
        words = np.array([factor % 2**64 for factor in factors], np.uint64)
        patch.setattr(hashes, "multipliers", lambda columns, key: words)
        for _ in range(3):
            rng.shuffle(rows)
            cells = _exactly(rows, Fraction(1, 4))
            members = query.members(ingest(np.array(rows).reshape(-1, 2), Domain(2)))
            assert [[cells[i] for i in group] for group in members] == expected


@steady
@given(_rows(1), NUMBERS, NUMBERS, st.integers(0, 12))
def test_no_neighbors_are_found_beyond_the_sensitivities(
    rest: list[Any], record: float, other: float, at: int
) -> None:
    query = GroupBuckets(SumOver((0,)), 1, 4, -2)
    more = [*rest[:at], (record,), *rest[at:]]
    pairs = {Adjacency.ADD_REMOVE: rest, Adjacency.REPLACE: [*rest[:at], (other,), *rest[at:]]}
    for adjacency, changed in pairs.items():
        one, two = (
            query.buckets(View(ingest(np.array(side).reshape(-1, 1), Domain(1))))
            for side in (more, changed)
        )
        most = query.sensitivity(adjacency, Domain(1)).conclusion
        assert most.norm is Norm.MOVED
        assert most.value == groups.moved(adjacency)
        assert sum(a != b for a, b in zip(one, two, strict=True)) <= most.value


def test_differences_as_large_as_there_are_are_squared_exactly() -> None:
    rng, first = np.random.default_rng(1), np.zeros(1, np.intp)
    for top in (3, 1 << 20, (1 << 41) - 1):
        rows = np.concatenate([rng.integers(-top, top, (50, 3)), [[top] * 3, [-top] * 3]])
        expected = [sum(int(x) ** 2 for x in column) for column in rows.T]
        assert shipped.sums_of_squares(rows, first)[0].tolist() == expected
    many = np.full((1 << 20, 1), -(1 << 41))
    assert shipped.sums_of_squares(many, first).tolist() == [[1 << 102]]
    far = np.where(rng.random((40, 1)) < 0.5, 1e308, -1e308)
    assert set(GroupBuckets(KthLargest(1), 1, 2, 0).buckets(View(far))) <= {39, 40}


def test_a_bucket_begins_at_a_power_of_four() -> None:
    """Half the mean square of one pair: 2 x^2 / 4 for a difference of x."""
    for x, bucket in (
        (1, -1),
        (2, 0),
        (3, 1),
        (math.isqrt(2**31), 14),
        (2**16, 15),
        (0, groups.ZERO),
    ):
        assert GroupBuckets(KthLargest(1), 1, 1, 0).buckets(View(np.array([[0.0], [x]]))) == [
            bucket
        ]


def test_equal_records_are_spread_over_the_groups() -> None:
    """8000 slots in 40 groups. A chi-square with 39 degrees of freedom exceeds 88 with
    probability 1.2e-5; the hash is fixed, so this holds or not once and for all. Different
    records are spread likewise."""
    for rows in (np.ones((8000, 2)), np.arange(16000.0).reshape(-1, 2)):
        sizes = [len(m) for m in GroupBuckets(KthLargest(1), 2, 40, 0).members(rows)]
        assert sum((size - 200) ** 2 / 200 for size in sizes) < 88


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ({"columns": 0}, "at least one number"),
        ({"groups": 0}, r"from 1 to 2\^20"),
        ({"groups": (1 << 20) + 1}, r"from 1 to 2\^20"),
        ({"key": -1}, r"outside 0..2\^63 - 1"),
        ({"exponent": 5000}, "no float64 is of the size"),
        ({"statistic": KthLargest(0)}, r"k = 0 is outside 1..2"),
        ({"statistic": KthLargest(3)}, r"k = 3 is outside 1..2"),
        ({"statistic": SumOver(())}, r"at least one of 0..1, each once"),
        ({"statistic": SumOver((1, 1))}, "each once"),
        ({"statistic": SumOver((2,))}, "each once"),
    ],
)
def test_bad_parameters_are_refused(given_: dict[str, Any], message: str) -> None:
    base: dict[str, Any] = {"statistic": KthLargest(1), "columns": 2, "groups": 3, "exponent": 0}
    with pytest.raises(ValueError, match=message):
        GroupBuckets(**base | given_)
