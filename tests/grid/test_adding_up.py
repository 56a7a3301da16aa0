"""Queries that say that they add up do: random splits of records of all magnitudes, and a twin
that does not."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import grid
from dpverify.grid import (
    Answers,
    ClampedSum,
    Count,
    IntegerMap,
    MaskedSum,
    OneUnit,
    Query,
    Records,
    Released,
    ReleasedSum,
    Stacked,
    VectorSum,
    View,
)
from dpverify.grid.bin_counts import BinCounts
from dpverify.grid.box_moments import BoxMoments
from dpverify.grid.clipped_scalars import ClippedMoments
from dpverify.grid.coordinates import (
    BoxSum,
    NormCounts,
    ScaledMaskedSum,
    ScaledSum,
    SideCounts,
    Stretch,
)
from dpverify.grid.farthest_columns import FarthestColumns
from dpverify.grid.joint import WithCount
from dpverify.grid.nearness import Nearness
from dpverify.grid.orthants import BitSums
from dpverify.grid.outer_products import FirstMoments, LengthSides, SecondMoments
from dpverify.grid.pairs import ClampedSquares
from dpverify.grid.record_maps import OfImages, RecordMap
from dpverify.grid.region_queries import MovingHistogram
from dpverify.grid.slice_sums import SignedCount
from dpverify.grid.step_moments import StepMoments
from dpverify.grid.steps import StepSums
from dpverify.grid.strategies import Circulant, Levels
from dpverify.grid.transcript_queries import MovingSum
from dpverify.privacy import Adjacency, Norm

BOX = 1 << 40
NEAR = Nearness(1 << 12, -4, scales=(1.0, 1.0))


def always(value: Any) -> Released[Any]:
    return Released((), lambda before: value)


STRETCH = Stretch((3, -1), (-6, -7), (32, 40))
MAP = RecordMap((1, -2), (-5, -5), ((3, 1), (-1, 4)), 1, 5)
PLACE = always((np.array([[5, -3]]), np.array([1 << 14])))
EDGES_OF: dict[str, Any] = {"low": (-40, 3), "high": (99, 70), "exponents": (-3, 4)}
IMAGES: dict[str, Any] = {"center": (3, -4), "exponent": -6, "rows": 2}
ONE_MAP = always((np.array([[5, 1, -2, 7]]), np.array([0])))
EDGES = always((np.array([[-2.0, 0.0, 0.5, 1e9]]), np.array([0])))
SUMS: list[Query] = [
    Count(),
    Count((-1e308, 0.5)),
    BinCounts(((-5.0, 0.0, 0.5), 2), (Levels(2, (1, 3)), Levels(2, (1,))), other=4),
    BinCounts(
        ((-3.0, 0.0, 5e-324, 1e308), (-9.0, 9.0, 99.0)),
        (Circulant((9, 1, 0)), Levels(2, (1,))),
        Norm.SQUARED_L2,
    ),
    ClampedSum(-5, 2, 2, -3),
    ClampedSum(-BOX, BOX, BOX, -1074),
    ClampedSum(-5, 2, 2, -3, clipped=False),
    VectorSum((3, -4), 1 << 30, -20, ((5, 1), (-2, 7))),
    VectorSum((3, -4), 9, -2, clipped=False),
    MaskedSum((3, -4), 1 << 14, -6, 1 << 42),
    ReleasedSum(2, 2, 1 << 20, always([IntegerMap((3, -4), -6, ((5, 1), (-2, 7)))])),
    WithCount(VectorSum((3, -4), 1 << 30, -20), 77),
    WithCount(ScaledSum(STRETCH, 1 << 30), 1 << 42),
    BoxMoments(**EDGES_OF, side=1 << 16, radius=1 << 15, constant=9, diagonal=5, above=7),
    BoxMoments(**EDGES_OF, side=99, radius=999, constant=9, clipped=False),
    BoxMoments(**EDGES_OF, side=99, radius=999, constant=9, targets=1),
    SideCounts((0.5, -1.0)),
    SideCounts((0.5, 1e9), (-1.0, -5e-324)),
    NormCounts(STRETCH, (5, 1 << 12, 1 << 30)),
    ScaledSum(STRETCH, 1 << 20),
    ScaledMaskedSum(STRETCH, 1 << 20, 7),
    BoxSum(STRETCH, 1 << 20),
    BoxSum(STRETCH, 1 << 20, clipped=False),
    ClippedMoments(-4, 0, 3, 500, 2, 1, 9, 4, always(np.array([[7, 40]]))),
    ClampedSquares(-BOX, BOX, -3, always(np.array([[-BOX]]))),
    SecondMoments(**IMAGES, radius=1 << 17, maps=ONE_MAP, weight=3),
    SecondMoments(**IMAGES, radius=1 << 17, maps=ONE_MAP, how="mask", clipped=False),
    FirstMoments(**IMAGES, radius=1 << 17, maps=ONE_MAP, how="clip"),
    LengthSides(**IMAGES, maps=always((np.array([[5, 1, -2, 7, 99]]), np.array([0])))),
    BitSums(
        columns=2,
        radius=9,
        adjacency=Adjacency.REPLACE,
        weights=always((np.array([[5, -7]]), np.array([0]))),
        weight=4,
    ),
    StepSums(cells=4, edges=EDGES, weight=3),
    StepMoments(cells=2, turn=1, linear=3, square=5, offset=2, edges=EDGES, outside="mask"),
    MovingHistogram(NEAR, 4, 1, PLACE, always(np.array([[[64, 3]]]))),
    FarthestColumns(NEAR, PLACE),
    SignedCount(NEAR, PLACE, always((np.array([[64, 3]]), np.array([[-9, 0, 50]])))),
    OfImages(ScaledSum(STRETCH, 1 << 20), MAP),
    OfImages(OneUnit(ScaledMaskedSum(STRETCH, 1 << 20, 7), Fraction(35, 3)), MAP),
    OneUnit(WithCount(ScaledSum(STRETCH, 1 << 20), 5), Fraction(7, 1 << 30)),
    Stacked((Count(), ClampedSum(-5, 2, 2, -3))),
]
NO_SUMS: list[Query] = [
    Answers(3),
    MovingSum(NEAR, Fraction(1), Adjacency.REPLACE, PLACE),
]
FAR = (0.0, 0.5, -3.0, 5e-324, 2.2e-308, 1e9, -1.7976931348623157e308, 1.7976931348623157e308)


def drawn(rng: np.random.Generator) -> Records:
    n = int(rng.integers(0, 12))
    return np.where(rng.random((n, 2)) < 0.7, rng.choice(FAR, (n, 2)), rng.normal(0, 90, (n, 2)))


def total(values: list[Any]) -> list[int]:
    return [sum(column) for column in zip(*(np.ravel(v).tolist() for v in values), strict=True)]


def adds_up(query: Query, seed: int, splits: int = 20) -> bool:
    """Return whether the whole's value is the sum of the values of up to four parts, some empty."""
    rng = np.random.default_rng(seed)
    for _ in range(splits):
        records = drawn(rng)
        owner = rng.integers(0, 4, len(records))
        parts = [query.evaluate(View(records[owner == k])) for k in range(4)]
        if total(parts) != np.ravel(query.evaluate(View(records))).tolist():
            return False
    return True


def addends(query: Query) -> tuple[Query, ...]:
    terms = query.addends
    assert terms is not None
    return terms


@pytest.mark.parametrize("query", SUMS, ids=lambda q: type(q).__name__)
def test_what_says_that_it_adds_up_does_for_random_splits(query: Query) -> None:
    for one in addends(query):
        assert adds_up(one, 7)


def test_what_is_rounded_after_the_sum_does_not_add_up_and_does_not_say_so() -> None:
    twin = OneUnit(SideCounts((0.0, 0.0)), Fraction(3, 2) * (1 << 40))
    assert not twin.adds_up
    assert not adds_up(twin, 7, 200)
    assert addends(twin) == (twin.query,)


@pytest.mark.parametrize("query", NO_SUMS, ids=lambda q: type(q).__name__)
def test_other_queries_have_no_addends(query: Query) -> None:
    assert query.addends is None
    assert not query.adds_up


def test_every_query_of_the_grid_that_says_so_is_tried() -> None:
    def below(kind: Any) -> Iterator[Any]:
        yield kind
        for one in kind.__subclasses__():
            yield from below(one)

    # by name: a class with slots is made twice
    own = {k for k in below(Query) if k.__module__.startswith(f"{grid.__name__}.")}
    saying = {kind.__name__ for kind in own if kind.adds_up and not inspect.isabstract(kind)}
    tried = {type(one).__name__ for query in SUMS for one in (query, *addends(query))}
    assert {name for name in saying if not name.startswith("_")} - tried == set()
    assert len(saying) >= 18
