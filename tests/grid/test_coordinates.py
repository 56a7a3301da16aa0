"""Coordinates in units of their own: the spec's values on random records, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.grid import View
from dpverify.grid.coordinates import (
    NormCounts,
    ScaledMaskedSum,
    ScaledSum,
    SideCounts,
    Stretch,
)
from dpverify.grid.joint import WithCount
from dpverify.privacy import Adjacency, Domain
from spec.theory import coordinates as spec

EDGE = [0.0, 0.5, -0.5, 1.5, 5e-324, -5e-324, 1e308, -1e308, 3.0, -7.25]


def _records(n: int, seed: int) -> Any:
    return np.random.default_rng(seed).choice(EDGE, size=(n, 3))


def _exactly(records: Any) -> list[tuple[Fraction, ...]]:
    return [tuple(map(Fraction, row)) for row in records.tolist()]


STRETCH = Stretch((3, -1, 1 << 40), (-3, 1, 900), (33, 64, 1))
THEIRS = spec.Stretch(
    (3, -1, 1 << 40), (Fraction(1, 8), Fraction(2), Fraction(2) ** 900), (33, 64, 1)
)


@pytest.mark.parametrize("n", [0, 1, 2, 500])
def test_the_values_are_the_spec_s(n: int) -> None:
    for seed in range(5):
        records = _records(n, seed)
        exact = _exactly(records)
        highs, lows = (0.5, 5e-324, 1e308), (-0.5, 5e-324, 0.0)
        sides = [tuple(map(Fraction, ends)) for ends in (highs, lows)]
        assert tuple(SideCounts(highs).evaluate(View(records))) == spec.side_counts(exact, sides[0])
        values = SideCounts(highs, lows).evaluate(View(records))
        assert tuple(values) == spec.side_counts(exact, *sides)
        for edges in ((1 << 24,), (10, 500, 1 << 30), tuple(range(1, 400, 7))):
            values = NormCounts(STRETCH, edges).evaluate(View(records))
            assert tuple(values) == spec.norm_counts(exact, THEIRS, edges)
        for radius in (1, 1 << 20, 1 << 41):
            values = ScaledSum(STRETCH, radius).evaluate(View(records))
            assert tuple(values) == spec.scaled_sum(exact, THEIRS, radius)
            counted = WithCount(ScaledSum(STRETCH, radius), 7).evaluate(View(records))
            assert tuple(counted) == (*values, 7 * n)
            values = ScaledMaskedSum(STRETCH, radius, 5).evaluate(View(records))
            assert tuple(values) == spec.scaled_masked_sum(exact, THEIRS, radius, 5)


def test_blocks_and_order_change_nothing() -> None:
    """More numbers than are mapped at a time."""
    records = np.random.default_rng(0).normal(size=(400_000, 3))
    queries: list[Any] = [
        SideCounts((0.0, 1.0, -1.0)),
        NormCounts(Stretch((0, 0, 0), (-10,) * 3, (32, 40, 64)), (1000, 50_000, 100_000)),
        ScaledSum(Stretch((0, 0, 0), (-10,) * 3, (32, 40, 64)), 70_000),
        ScaledMaskedSum(Stretch((0, 0, 0), (-10,) * 3, (32, 40, 64)), 70_000, 9),
    ]
    for query in queries:
        whole = query.evaluate(View(records))
        parts = sum(query.evaluate(View(part)) for part in np.array_split(records[::-1], 7))
        assert whole.tolist() == parts.tolist()


BAD: list[tuple[Any, type[Exception], str]] = [
    (lambda: SideCounts(()), ValueError, "give one finite float for each"),
    (lambda: SideCounts((float("nan"),)), ValueError, "give one finite float"),
    (lambda: SideCounts((1.0,), (2.0,)), ValueError, "not above the high one"),
    (lambda: SideCounts((1.0,), (0.0, 0.0)), ValueError, "for 1 coordinates"),
    (lambda: Stretch((0,), (0, 1), (1,)), ValueError, "give one of each"),
    (lambda: Stretch((0,), (0,), (65,)), ValueError, "from 1 to 64"),
    (lambda: Stretch((0,), (0,), (0,)), ValueError, "from 1 to 64"),
    (lambda: Stretch((1 << 41,), (0,), (1,)), ValueError, "Subtract a public constant"),
    (lambda: NormCounts(STRETCH, ()), ValueError, "increasing order"),
    (lambda: NormCounts(STRETCH, (5, 5)), ValueError, "increasing order"),
    (lambda: NormCounts(STRETCH, (1 << 31,)), ValueError, "beyond the 2\\^30 cells"),
    (lambda: ScaledSum(STRETCH, 0), ValueError, "at least one cell"),
    (lambda: ScaledMaskedSum(STRETCH, 5, 0), ValueError, "at least 1"),
    (lambda: ScaledMaskedSum(STRETCH, 5, (1 << 42) + 1), ValueError, r"weight: .*beyond the 2\^42"),
    (
        lambda: ScaledMaskedSum(STRETCH, 5, 1, clipped=False).sensitivity(
            Adjacency.REPLACE, Domain(3)
        ),
        ValueError,
        "no bound",
    ),
    (lambda: SideCounts((0.0,)).evaluate(View(np.zeros((1, 2)))), ValueError, "2 columns"),
    (lambda: ScaledSum(STRETCH, 5).evaluate(View(np.zeros((1, 2)))), ValueError, "2 columns"),
    (
        lambda: ScaledSum(STRETCH, 5, clipped=False).sensitivity(Adjacency.REPLACE, Domain(3)),
        ValueError,
        "no bound",
    ),
    (
        lambda: SideCounts((0.0,)).sensitivity(Adjacency.REPLACE, Domain(2)),
        ValueError,
        "one coordinate a column",
    ),
]


@pytest.mark.parametrize(("made", "kind", "message"), BAD, ids=range(len(BAD)))
def test_what_makes_no_sense_is_refused(made: Any, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        made()


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_sensitivities_are_the_spec_s(adjacency: Adjacency) -> None:
    domain = Domain(3)
    pairs: list[tuple[Any, int]] = [
        (SideCounts((0.0,) * 3), spec.side_counts_sensitivity(3, adjacency)),
        (NormCounts(STRETCH, (1, 2)), spec.norm_counts_sensitivity(adjacency)),
        (ScaledSum(STRETCH, 9), spec.scaled_sum_sensitivity(9, adjacency)),
        *(
            (
                ScaledMaskedSum(STRETCH, 9, weight),
                spec.scaled_masked_sum_sensitivity(9, weight, adjacency),
            )
            for weight in (1, 15, 16)
        ),
    ]
    for query, expected in pairs:
        assert query.sensitivity(adjacency, domain).conclusion.value == expected
        assert len(query.evaluate(View(np.zeros((2, 3))))) == query.width
        assert max(map(abs, query.evaluate(View(np.zeros((2, 3)))).tolist())) <= query.largest(2)
