"""Records that count in a ball cut by a public set: the spec's numbers, draws, and the way back,
where there is one."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from dpverify.estimation.clipped_response import moment, response_of
from dpverify.estimation.kept_response import Cut, back, cut_of, limited, solved
from dpverify.grid.public_sets import Round, Slab
from spec.theory import kept_response as spec

CUTS = [
    Cut(1, 2.0, ends=(-math.inf, 0.5)),
    Cut(1, 3.0, about=1.0, bound=0.5, outside=True),
    Cut(2, 2.0, ends=(-0.7, 0.3)),
    Cut(3, 2.5, about=1.0, bound=2.0),
    Cut(5, 3.0, about=1.0, bound=2.0, outside=True),
    Cut(20, 5.0, ends=(-0.5, math.inf)),
    Cut(4, 2.0, bound=1.0, outside=True),
]
WIDE = [*CUTS, Cut(400, 21.0, ends=(-math.inf, 0.1)), Cut(300, 30.0, about=3.0, bound=18.0)]


def _count(cut: Cut, rows: Any) -> Any:
    """Return which of these records count, by the definition."""
    center = np.zeros(cut.d)
    center[0] = cut.about
    near = ((rows - center) ** 2).sum(axis=1) <= cut.bound**2
    between = (rows[:, 0] >= cut.ends[0]) & (rows[:, 0] <= cut.ends[1])
    return ((rows**2).sum(axis=1) <= cut.radius**2) & between & (near ^ cut.outside)


@pytest.mark.parametrize("cut", CUTS, ids=range(len(CUTS)))
def test_what_counts_is_the_spec_s(cut: Cut) -> None:
    across = 0.8 * (cut.d > 1)
    own = limited(cut, -0.3, across)
    ends = {"low": cut.ends[0], "high": cut.ends[1]}
    theirs = spec.moment(
        spec.Cut(cut.d, cut.radius, **ends, about=cut.about, bound=cut.bound, outside=cut.outside),
        -0.3,
        across,
    )
    assert own is not None
    one, mixed, two = map(float, theirs.covariance)
    assert own.inside == pytest.approx(float(theirs.inside), rel=1e-10)
    assert own.mean == pytest.approx([float(theirs.along), float(theirs.across)], abs=1e-10)
    assert own.covariance.ravel() == pytest.approx([one, mixed, mixed, two], abs=1e-10)
    assert own.beside == pytest.approx(float(theirs.beside), abs=1e-10)


@pytest.mark.parametrize("cut", WIDE, ids=range(len(WIDE)))
def test_what_counts_is_what_drawn_records_have(cut: Cut) -> None:
    """Draw 40,000 records: the share and the mean are within 5 standard errors, which three or
    fewer numbers miss with probability below 2e-6."""
    own = limited(cut, 0.4, 0.7 * (cut.d > 1))
    assert own is not None
    n = 40_000
    rows = np.random.default_rng(3).normal(size=(n, cut.d))
    rows[:, 0] += 0.4
    rows[:, 1:2] += 0.7
    inside = rows[_count(cut, rows)]
    share = len(inside) / n
    assert abs(share - own.inside) < 5 * math.sqrt(own.inside * (1 - own.inside) / n)
    for column in range(min(cut.d, 2)):
        off = inside[:, column].mean() - own.mean[column]
        assert abs(off) < 5 * math.sqrt(own.covariance[column, column] / len(inside))


@pytest.mark.parametrize("cut", WIDE, ids=range(len(WIDE)))
def test_the_way_back_and_its_derivative(cut: Cut) -> None:
    """About an axis in general position: a mean whose records that count have the given one, for
    several; and difference quotients."""
    rng = np.random.default_rng(1)
    axis = rng.normal(size=cut.d)
    axis /= np.linalg.norm(axis)
    for size in (0.0, 0.6, 1.2):
        mean = size * axis + 0.3 * rng.normal(size=cut.d) / math.sqrt(cut.d)
        along, rest = float(axis @ mean), mean - float(axis @ mean) * axis
        there = limited(cut, along, float(np.linalg.norm(rest)))
        assert there is not None
        told = there.mean[0] * axis + there.beside * rest
        inverse = back(cut, axis, told)
        assert (inverse is not None) is (there.inside >= 0.05)
        if inverse is None:
            continue
        assert inverse[0] == pytest.approx(mean, abs=1e-7)
        direction = rng.normal(size=cut.d)
        ends = [back(cut, axis, told + side * 1e-5 * direction) for side in (-1, 1)]
        assert ends[0] is not None
        assert ends[1] is not None
        slope = (ends[1][0] - ends[0][0]) / 2e-5
        assert inverse[1].times(direction) == pytest.approx(slope, rel=1e-4, abs=1e-4)
        matrix = inverse[1].matrix()
        assert inverse[1].times(direction) == pytest.approx(matrix @ direction)
        assert inverse[1].rows() == pytest.approx(np.linalg.norm(matrix, axis=1))


def test_without_a_cut_it_is_the_masked_mean() -> None:
    for d, radius, offset in ((1, 1.5, 0.4), (5, 3.0, 1.1), (60, 8.0, 3.0)):
        at = moment(d, radius, offset, "mask")
        own = limited(Cut(d, radius), offset, 0.0)
        assert own is not None
        assert own.mean[0] == pytest.approx(at.length, rel=1e-9)
        assert own.covariance[0, 0] == pytest.approx(at.slope, rel=1e-8)
        place, inverse = response_of(d, radius, "mask").inverse(np.full(d, 0.1), 0.2)
        assert place.shape == inverse.rows().shape == (d,)


def test_where_there_is_no_way_back() -> None:
    """A mean that nothing inside has, one too far to be told, and a set that holds less than a
    20th."""
    cut = Cut(2, 2.0, ends=(-math.inf, 0.5))
    for target in (
        (0.5, 0.0),
        (0.6, 0.0),
        (0.0, 2.0),
        (0.0, 5.0),
        (-2.1, 0.0),
        (0.45, 0.1),
        (2.0**90, -(2.0**90)),
    ):
        assert solved(cut, np.array(target)) is None
    assert solved(cut, np.array([-0.3, 0.3])) is not None
    few = Cut(1, 3.0, ends=(2.0, 3.0))
    at = limited(few, 0.0, 0.0)
    assert at is not None
    assert at.inside < 0.05
    assert solved(few, at.mean) is None
    assert limited(Cut(2, 1.0, ends=(1.5, 2.0)), 0.0, 0.0) is None


@pytest.mark.parametrize("thin", [1e-17, 1e-12, 1e-9, 1e-8, 1e-7, 1e-5])
def test_of_next_to_nothing_there_is_no_way_back(thin: float) -> None:
    """A ball whose outermost part alone is in the set: variances there are below what floats tell,
    and steps of Newton's are zero."""
    sets: list[dict[str, Any]] = [
        {"ends": (-math.inf, thin - 2)},
        {"ends": (2 - thin, math.inf)},
        {"about": 5.0, "bound": 3 + thin},
        {"about": 1.0, "bound": 3 - thin, "outside": True},
    ]
    for d in (1, 3):
        for own in sets:
            for along in (-2 + thin / 2, 0.5, 2 - thin / 2):
                assert solved(Cut(d, 2.0, **own), np.array([along, 0.0])) is None


def test_public_sets_of_images_become_cuts() -> None:
    cut, axis = cut_of(Slab((3, -4), -50, None), 2.0, 10.0, 2)
    assert (cut.ends, axis.tolist()) == ((-1.0, math.inf), [0.6, -0.8])
    cut, axis = cut_of(Round((30, 40), 20, outside=True), 2.0, 10.0, 2)
    assert (cut.about, cut.bound, cut.outside, axis.tolist()) == (5.0, 2.0, True, [0.6, 0.8])
    cut, axis = cut_of(Round((0, 0), 10**400), 2.0, 10.0, 2)
    assert (cut.about, cut.bound, axis.tolist()) == (0.0, 1e100, [1.0, 0.0])
    whole, none = limited(cut, 0.3, 0.2), limited(dataclasses.replace(cut, outside=True), 0.3, 0.2)
    assert whole is not None
    assert whole.inside == pytest.approx(moment(2, 2.0, math.hypot(0.3, 0.2), "mask").inside)
    assert none is None
    assert cut_of(Slab((1, 0), None, 10**400), 2.0, 1.0, 2)[0].ends == (-math.inf, math.inf)
