"""Masked sums in public sets, and queries of mapped records: the spec's values, one record by
itself as in a batch, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify import HalfSpace, InsideBall, OutsideBall
from dpverify.estimation.kept_sets import Kept, in_cells
from dpverify.grid import View
from dpverify.grid.coordinates import ScaledMaskedSum, SideCounts, Stretch
from dpverify.grid.linear import WORD
from dpverify.grid.public_sets import Round, Slab, at_most
from dpverify.grid.record_maps import OfImages, RecordMap
from spec.theory import coordinates as spec
from spec.theory import public_sets as spec_sets
from spec.theory import record_maps as spec_record_maps

EDGE = [0.0, 0.5, -0.5, 1.5, 1.25, 5e-324, -5e-324, 1e308, -1e308, 3.0, -7.25, 2.0**-40]
STRETCH = Stretch((3, -1), (-3, -3), (33, 33))
THEIRS = spec.Stretch((3, -1), (Fraction(1, 8), Fraction(1, 8)), (33, 33))
UNIT = 33 * 8.0  # of records, in images
SETS: list[Kept] = [
    HalfSpace((1.0, 0.0), 1.25),
    HalfSpace((1.0, 1.0), 0.0),
    HalfSpace((-3.0, 0.1), 2.0),
    HalfSpace((1e300, -1e-300), 1e300),
    HalfSpace((5e-324, 0.0), 0.0),
    HalfSpace((1.0, 0.0), 1.7e308),
    HalfSpace((1.0, 0.0), -1.7e308),
    InsideBall(1.25),
    InsideBall(1e300),
    OutsideBall(1.25),
    OutsideBall(1e-300),
    OutsideBall(1e300),
]


def _exactly(records: Any) -> list[tuple[Fraction, ...]]:
    return [tuple(map(Fraction, row)) for row in records.tolist()]


@pytest.mark.parametrize("kept", SETS, ids=map(str, SETS))
def test_sums_in_public_sets_are_the_spec_s_and_each_record_by_itself(kept: Kept) -> None:
    """Compare on surfaces after rounding, beyond them, far away; with the center of the ball and
    of the set apart."""
    own = in_cells(kept, STRETCH, (4, 4), UNIT)
    theirs = spec_sets.in_cells(kept, THEIRS, (4, 4), UNIT)
    assert (type(own).__name__, own.holds(np.zeros((0, 2), np.int64)).shape) == (
        type(theirs).__name__,
        (0,),
    )
    for n, seed in ((0, 0), (1, 1), (2, 2), (300, 3)):
        records = np.random.default_rng(seed).choice(EDGE, size=(n, 2))
        for radius in (40, 500, 1 << 30, 1 << 41):
            query = ScaledMaskedSum(STRETCH, radius, 5, own)
            sums = query.evaluate(View(records))
            wanted = spec.scaled_masked_sum(_exactly(records), THEIRS, radius, 5, theirs)
            assert tuple(sums) == wanted
            singly = [query.evaluate(View(records[i : i + 1])) for i in range(n)]
            assert [sum(map(int, column)) for column in zip(*singly, strict=True)] == [
                *wanted[: 3 * (n > 0)]
            ]


def test_a_record_on_a_surface_counts_and_one_beyond_does_not() -> None:
    """Count on the grid, after rounding: cells are eighths."""
    for kept, inside, outside in (
        (HalfSpace((2.0, 0.0), 2.5), [(1.25, 0.0), (1.25 + 2.0**-9, 9.0)], [(1.375, 0.0)]),
        (InsideBall(1.25), [(0.75 + 0.5, 0.5), (0.5, -0.75)], [(1.25 + 0.625, 0.5)]),
        (OutsideBall(1.25), [(1.25 + 0.625, 0.5)], [(0.75 + 0.5, 0.5), (0.5, -0.75)]),
    ):
        query = ScaledMaskedSum(STRETCH, 1 << 20, 1, in_cells(kept, STRETCH, (4, 4), UNIT))
        for some, number in ((inside, len(inside)), (outside, 0)):
            assert query.evaluate(View(np.array(some)))[-1] == number
    line = Stretch((0,), (-3,), (33,))
    ends = (
        in_cells((-math.inf, 1.25), line, (0,), UNIT),
        in_cells((0.5, math.inf), line, (0,), UNIT),
    )
    for kept_cells, number in zip(ends, (3, 2), strict=True):
        rows = np.array([[-9.0], [0.25], [1.25], [2.0]])
        assert ScaledMaskedSum(line, 1 << 20, 1, kept_cells).evaluate(View(rows))[-1] == number


def test_bounds_beyond_words_are_compared_exactly() -> None:
    values = np.array([-(1 << 61), 0, 1 << 61])
    assert at_most(values, 10**40).tolist() == [True] * 3
    assert at_most(values, -(10**40)).tolist() == [False] * 3
    wide = np.array([-(10**30), 0, 10**30], object)
    assert at_most(wide, WORD).tolist() == [True, True, False]


BAD: list[tuple[Callable[[], Any], type[Exception], str]] = [
    (lambda: Slab((0, 0), None, 1), ValueError, "needs a direction"),
    (lambda: Slab((1.5, 0), None, 1), TypeError, "normal"),  # type: ignore[arg-type]
    (lambda: Slab((1 << 60, 0), None, 1), ValueError, r"beyond the 2\^48"),
    (lambda: Round((0, 0), -1), ValueError, "is negative"),
    (lambda: RecordMap((0,), (0,), ((1, 2),), 0, 0), ValueError, "rows of"),
    (lambda: RecordMap((0, 0), (0,), ((1, 2), (0, 1)), 0, 0), ValueError, "give one of each"),
    (lambda: RecordMap((0,), (0,), ((1,),), 61, 0), ValueError, "shift = 61"),
    (lambda: RecordMap((1 << 41,), (0,), ((1,),), 0, 0), ValueError, "center"),
    (
        lambda: OfImages(SideCounts((0.0,)), RecordMap((0,), (0,), ((1,),), 0, 0)).evaluate(
            View(np.zeros((2, 2)))
        ),
        ValueError,
        "records of 2 columns",
    ),
]


@pytest.mark.parametrize(("make", "kind", "message"), BAD, ids=range(len(BAD)))
def test_what_is_refused(make: Callable[[], Any], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        make()


@pytest.mark.parametrize("shift", [0, 1, 19])
def test_images_are_the_spec_s_and_each_record_by_itself(shift: int) -> None:
    """Compare images, also of matrices whose images leave words; images are multiples of 2^-20
    within the outer box."""
    matrix = ((1 << 22, -5, 3), (0, 1 << 21, 77), (-(1 << 22), 1, 1))
    own = RecordMap((3, -(1 << 39), 0), (-3, 0, -60), matrix, shift, 20)
    cells = (Fraction(1, 8), Fraction(1), Fraction(2) ** -60)
    theirs = spec_record_maps.RecordMap(own.center, cells, matrix, shift, Fraction(1, 2**20))
    records = np.random.default_rng(0).choice([*EDGE, -0.0, 1e12, -3e-19], size=(200, 3))
    images = own.images(records)
    assert [tuple(map(Fraction, row)) for row in images.tolist()] == spec_record_maps.images(
        theirs, _exactly(records)
    )
    assert np.abs(images).max() <= 2.0**20
    assert own.images(records[:0]).shape == (0, 3)
    for i in (0, 7, 199):
        assert own.images(records[i : i + 1]).tolist() == images[i : i + 1].tolist()
    query = SideCounts((0.0, 1.0, -2.0))
    mapped = OfImages(query, own).evaluate(View(records))
    assert mapped.tolist() == query.evaluate(View(images)).tolist()
