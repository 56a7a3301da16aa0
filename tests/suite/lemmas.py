"""Lemmas of every query and filter, under every adjacency that each of them accepts."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from typing import Any

from dpverify.grid import (
    UNIT,
    Answers,
    ClampedSum,
    Count,
    MaskedSum,
    OneUnit,
    Query,
    Released,
    ReleasedSum,
    VectorSum,
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
from dpverify.grid.drawn_in import DrawnInSum, TwoBallSum
from dpverify.grid.farthest_columns import FarthestColumns
from dpverify.grid.groups import GroupBuckets, KthLargest
from dpverify.grid.inner_moments import InnerMoments
from dpverify.grid.joint import WithCount
from dpverify.grid.levels import LevelCounts
from dpverify.grid.nearness import Nearness
from dpverify.grid.orthants import BitSums
from dpverify.grid.outer_products import FirstMoments, LengthSides, SecondMoments
from dpverify.grid.pair_rungs import PairRungs
from dpverify.grid.pairs import ClampedSquares, PairOctaves
from dpverify.grid.public_sets import Slab
from dpverify.grid.quantile_blocks import BlockScores
from dpverify.grid.quartiles import QuartileBins
from dpverify.grid.record_maps import OfImages, RecordMap
from dpverify.grid.region_queries import MovingHistogram, MovingMoments, SlabSum
from dpverify.grid.retained import KeptCount, KeptMean
from dpverify.grid.slice_sums import SignedCount, SliceSum
from dpverify.grid.smooth import SmoothMedians
from dpverify.grid.stacked import Stacked
from dpverify.grid.step_moments import StepMoments
from dpverify.grid.steps import StepSums
from dpverify.grid.strategies import Circulant, Levels
from dpverify.grid.tables import ColumnScores, KeyedCounts, QuantileScores
from dpverify.grid.transcript_queries import MovingSum
from dpverify.privacy import Adjacency, ApproxDP, Derivation, Domain, Friendly, Norm
from dpverify.privacy.guarantees import ApproximateGaussianDP
from dpverify.privacy.rules import conjecture
from dpverify.transformations import BasicFilter, GaussianFilter, Truncation
from dpverify.transformations.degree_weights import Agreement, WeightedMean
from dpverify.transformations.gaussian_filter import margin
from dpverify.transformations.soft_core import SoftAgreement, SoftMean

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE, TWO, FEW = Domain(columns=1), Domain(columns=2), Domain(columns=1, most_rows=100)
SPREAD, FULL = Fraction(7, 3), Fraction(9, 10)
NEAR, PLANE = Nearness(20, 0, (1.0,)), Nearness(20, 0, (1.0, 1.0))
BOX: dict[str, Any] = {"low": (-4, 0), "high": (4, 3), "exponents": (0, -1)}
STRETCH = Stretch((0, 1), (0, 3), (2, 5))
MAP = RecordMap((0, 1), (0, 3), ((2, 0), (-1, 5)), 1, 2)
SUM, MASKED, SCALED = VectorSum((0, 3), 5, 0), MaskedSum((0, 0), 4, -2, 3), ScaledSum(STRETCH, 5)
CLAMPED, SCORED = ClampedSum(-5, 2, 2, 3), QuantileScores(-5, 20, -2, 1, 3)
GROUPS = GroupBuckets(KthLargest(1), 2, 6, 0)
FRIENDS = Friendly(NEAR.predicate)
EXCHANGED = Friendly(NEAR.predicate, exchange=True)

QUERIES: list[tuple[Query, Domain]] = [
    (Count(), ONE),
    (Count((0.0, 1.0)), ONE),
    (BinCounts(((0.0, 1.0, 2.5, 3.0),), (Levels(3, (1, 2, 1)),), other=2), ONE),
    (BinCounts((2, 3), (Levels(2, (1,)), Circulant((5, 1, 0))), Norm.SQUARED_L2), TWO),
    (CLAMPED, ONE),
    (ClampedSum(10, 20, 40, 0), ONE),
    (Answers(4), ONE),
    (SCORED, ONE),
    (ColumnScores(((0, SCORED), (1, QuantileScores(0, 9, 0, 9, 10)))), TWO),
    (BlockScores(0, 9, 0, 4, ((0, 9, 10),)), ONE),
    (BlockScores(0, 9, 0, 4, ((0, 1, 2), (1, 2, 3)), ("before",), 1), ONE),
    (KeyedCounts(3, 1, -2), ONE),
    (Stacked((Count(), Count((0.0, 1.0)))), ONE),
    (Stacked((Count(), CLAMPED)), ONE),
    (SUM, TWO),
    (MASKED, TWO),
    (SCALED, TWO),
    (ScaledMaskedSum(STRETCH, 5, 7), TWO),
    (ScaledMaskedSum(STRETCH, 5, 7, Slab((1, -1), None, 2)), TWO),
    (OfImages(SCALED, MAP), TWO),
    (OfImages(OneUnit(ScaledMaskedSum(STRETCH, 5, 7), Fraction(35, 3)), MAP), TWO),
    (SideCounts((0.0, 1.0)), TWO),
    (SideCounts((0.0, 1.0), (-1.0, 0.0)), TWO),
    (NormCounts(STRETCH, (1, 4)), TWO),
    (BoxSum(STRETCH, 5), TWO),
    (BoxSum(STRETCH, 5, Norm.L1), TWO),
    (BoxMoments(**BOX, side=5, radius=8, constant=3), TWO),
    (BoxMoments(**BOX, side=5, radius=8, constant=3, norm=Norm.L1), TWO),
    (BoxMoments(**BOX, side=5, radius=4, constant=3, diagonal=5, above=7, counted=False), TWO),
    (BoxMoments(**BOX, side=5, radius=8, constant=3, targets=1), TWO),
    (BoxMoments(**BOX, side=5, radius=8, constant=3, targets=1, norm=Norm.L1), TWO),
    (WithCount(SUM, 3), TWO),
    (WithCount(SCALED, 3), TWO),
    *((OneUnit(query, Fraction(35, 3)), TWO) for query in (SUM, MASKED, SCALED, WithCount(SUM, 2))),
    (OneUnit(SUM, Fraction(UNIT)), TWO),
    (GROUPS, TWO),
    (LevelCounts(GROUPS, (3, 1)), TWO),
    (SmoothMedians(((0, 8, 0),), Fraction(9, 10)), ONE),
    (QuartileBins(0, 8, 0, Fraction(2)), ONE),
    (Agreement(NEAR, 3), ONE),
    (SoftAgreement(NEAR, FULL, 3), ONE),
    (SoftMean(NEAR, SPREAD, REPLACE, FULL), ONE),
    (KeptCount(NEAR, 3), ONE),
    (KeptMean(NEAR, SPREAD, 3), ONE),
    (KeptMean(NEAR, Fraction(1), 3), ONE),  # its sensitivity is a whole number but for no rounding
]


def lemmas() -> Iterator[Derivation[Any]]:
    """Yield all of them; where one is refused there is none."""
    for query, domain in (*QUERIES, *_in_units()):
        for near in (ADD, REPLACE, FRIENDS, EXCHANGED, Friendly(NEAR.predicate, 2)):
            kept = isinstance(query, (KeptCount, KeptMean))
            if isinstance(near, Friendly) is not kept:
                continue
            with suppress(ValueError):
                yield query.sensitivity(near, domain)  # type: ignore[arg-type]
    for near in (ADD, REPLACE):
        for domain in (ONE, FEW):
            yield from gaussian(near, domain).lemmas
        on_lists = conjecture(ApproxDP("0.1", "1e-9"), adjacency=REPLACE, domain=ONE)
        listed = Truncation(low=(0.0,), high=(1.0,), size=5, pad=(0.0,))
        yield from listed.carry(on_lists, near, ONE).lemmas
        promised = conjecture(ApproxDP("0.1", "1e-9"), adjacency=FRIENDS, domain=ONE)
        yield from BasicFilter(NEAR).lift(promised, near, ONE).lemmas


def _in_units() -> Iterator[tuple[Query, Domain]]:
    """Queries that are in units for an adjacency. Where they look does not matter here."""

    def nowhere(batch: Any) -> Any:
        raise AssertionError("nothing is evaluated here")

    where: Released[Any] = Released(("before",), nowhere)
    yield ReleasedSum(2, 3, 5, where), TWO
    images: Any = {"center": (0, 0), "exponent": 0, "rows": 2, "maps": where}
    for how in ("sphere", "clip", "mask"):
        yield SecondMoments(**images, radius=5, how=how, weight=3), TWO
        yield FirstMoments(**images, radius=5, how=how), TWO
    yield LengthSides(**images), TWO
    for offset, weight in ((0, 0), (7, 3)):
        yield ClippedMoments(0, 0, 3, 5, 2, 1, offset, weight, where), ONE
    yield ClampedSquares(-3, 5, 0, where), ONE
    yield PairOctaves(0), ONE
    for outside in ("clip", "mask"):
        yield StepSums(cells=3, edges=where, outside=outside, weight=2), ONE
        shape: Any = {"turn": 2, "linear": 3, "square": 1, "offset": 4, "weight": 5}
        yield StepMoments(cells=3, edges=where, outside=outside, **shape), ONE
    for near in (ADD, REPLACE):
        yield BitSums(columns=2, radius=9, adjacency=near, weights=where, weight=4), TWO
    for near in (ADD, REPLACE):
        yield WeightedMean(NEAR, SPREAD, near), ONE
        yield MovingSum(PLANE, SPREAD, near, where), TWO
        yield DrawnInSum(PLANE, SPREAD, near, where), TWO
        yield TwoBallSum(PLANE, SPREAD, near, where, Fraction(1, 2)), TWO
        yield PairRungs(NEAR, 2, 3, near, 7), ONE
        yield MovingMoments(PLANE, SPREAD, near, where), TWO
        yield InnerMoments(PLANE, SPREAD, near, where, where, 1, 9), TWO
        yield SlabSum(PLANE, SPREAD, near, where, 4, where, where), TWO
        yield (
            SliceSum(PLANE, SPREAD, near, where, 4, where, where, across=where, lengths=where),
            TWO,
        )
    yield MovingHistogram(PLANE, 4, 3, where, where), TWO
    yield FarthestColumns(PLANE, where), TWO
    yield SignedCount(PLANE, where, where), TWO


def gaussian(near: Adjacency, domain: Domain = ONE, share: Fraction = Fraction(2, 5)) -> Any:
    """Return the claim of a Gaussian filter for at most 100 records."""
    filter_ = GaussianFilter(
        adjacency=near,
        nearness=NEAR,
        strangers_share=share,
        most_rows=100,
        sigma=Fraction(90),
        threshold=margin(share, near) + 1000,
        missed=Fraction(1, 10**6),
        budget=Fraction(4),
    )
    shown = ApproximateGaussianDP("0.5", "1e-7", 0)
    return filter_.lift(conjecture(shown, adjacency=filter_.friendly, domain=domain), near, domain)
