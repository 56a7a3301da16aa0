"""Sums about released points in which records outside a ball are drawn in to it, and those far
outside are left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.image_view import Images
from dpverify.grid.linear import WORD, Integers, largest, squared_distances
from dpverify.grid.masks import Counted, different, each_once, near_balls, sums_in_balls
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcript_queries import (
    FEW,
    MovingSum,
    in_own_unit,
    placed,
    root_above,
    weight_of,
)
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import UNIT
from dpverify.grid.vectors import clip_to_ball
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity, Source
from dpverify.privacy.numbers import root_up

_BLOCK = 1 << 22


@dataclass(frozen=True, slots=True)
class DrawnInSum(MovingSum):
    """Sum as in ``MovingSum``, with records up to two radii from the point drawn in to the
    ball, as ``clip_to_ball`` does.

    Their number counts all within two radii. An estimate that masks records at a radius leans
    toward the bulk of skewed ones by about the radius times their share outside; records that
    are drawn in lose only what is beyond the radius. Outliers count nowhere.
    """

    def totals(
        self, images: Images, points: Integers, radii: Integers, before: Transcripts
    ) -> tuple[Integers, Integers]:
        """Return the sums and the numbers exactly."""
        few = len(points) < FEW
        data = each_once(images.images) if few else images.distinct
        return drawn_in_sums(data, points, radii)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity of a ``MovingSum``: drawn in, a record is within the radius."""
        return in_own_unit(
            self,
            "DrawnInSum",
            "the sum of records drawn in to a ball and the number within twice its radius, in "
            "2^-40 of {} of its bound",
            adjacency,
            domain,
            obligation="theory/transcript_sums.py:obligation_drawn_in_sum",
            source=Source("OURS", "a sum about a released point, drawn in to a ball"),
        )


@dataclass(frozen=True, slots=True)
class TwoBallSum(MovingSum):
    """Sum and number as in ``DrawnInSum`` for an inner ball, and beside them what an outer ball
    adds, both under one noise.

    inner: the inner radius over the outer one, in (0, 1). With R the outer radius, r the inner
    one, a and c a record's vector drawn in to either, the value is the sum of a, the weighted
    number, and g times the sum of B = 2 r c - (R + r) a, g = 1 / sqrt(R^2 - r^2). A record
    inside the inner ball has |B| <= r (R - r), and so has one that is drawn in to the outer one:
    B changes its sign between. So a record that fills both sums moves them by no more than one
    at the inner rim, and the sum of c = (B + (R + r) a) / (2 r) has the noise of a
    ``DrawnInSum`` of the outer ball, while the inner ball is known better.
    """

    inner: Fraction

    @property
    def width(self) -> int:
        """Number of released integers: those of the inner sum, the number, the tilted rest."""
        return 2 * self.nearness.width + 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return both sums and the number as exact integers, each rounded once."""
        points, radii = placed(self.place, self.nearness, before)
        images, few = view.images(self.nearness), len(points) < FEW
        data = each_once(images.images) if few else images.distinct
        unique, which = different(radii)
        balls = [(self.inside(int(radius)), int(radius)) for radius in unique]
        small = np.array([ball[0] for ball in balls], np.int64)[which]
        inner, numbers = drawn_in_sums(data, points, small, 2 * radii)
        outer, _ = drawn_in_sums(data, points, radii)
        units = [UNIT / self.unit(radius) for _, radius in balls]
        lengths = [tilt(*ball) * unit for ball, unit in zip(balls, units, strict=True)]
        heavy = max((weight_of(radius) for radius, _ in balls), default=0)
        # no entry of either part exceeds this
        most = max(
            4 * largest(radii) * max(largest(inner), largest(outer)), heavy * largest(numbers)
        )
        kind = np.int64 if most < WORD else object
        inner, outer, within, around = (
            part.astype(kind) for part in (inner, outer, small[:, np.newaxis], radii[:, np.newaxis])
        )
        rest = 2 * within * outer - (within + around) * inner
        weights = np.array([weight_of(radius) for radius, _ in balls], kind)[which]
        first = np.column_stack([inner, weights * numbers.astype(kind)])
        parts = (rounded_multiples(first, units, which), rounded_multiples(rest, lengths, which))
        return np.column_stack(parts)

    def inside(self, radius: int) -> int:
        """Return the inner radius, in cells, for this outer one."""
        return max(1, int(self.inner * radius))

    def unit(self, radius: int) -> Fraction:
        """Return the standard deviation of the noise, in cells of the inner sum."""
        small = self.inside(radius)
        rest = (tilt(small, radius) * tilted_reach(small, radius, self.nearness.width)) ** 2
        square = small**2 + weight_of(small) ** 2 + rest
        if self.adjacency is Adjacency.REPLACE:
            square = 4 * (small**2 + rest)
        return self.spread * root_up(square, 20)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity of a ``MovingSum``, in the unit of both sums together."""
        return in_own_unit(
            self,
            "TwoBallSum",
            "the sums of records drawn in to two balls and the number within twice the outer "
            "one's radius, in 2^-40 of {} of their bound",
            adjacency,
            domain,
            obligation="theory/two_balls.py:obligation_two_ball_sum",
            source=Source("OURS", "two sums about a released point, under one noise"),
        )


def tilt(small: int, radius: int) -> Fraction:
    """Return g = 1 / sqrt(R^2 - r^2), the root rounded up; 1 for equal radii."""
    return 1 / root_above(max(1, radius**2 - small**2))


def tilted_reach(small: int, radius: int, width: int) -> int:
    """Return a bound on |B| for one record: r (R - r), and 2 sqrt(d) (3 r + R) for rounding to
    cells, which moves both drawn-in vectors by less than two cells a coordinate.
    """
    if small == radius:
        return 0
    return small * (radius - small) + int(root_up(4 * width * (3 * small + radius) ** 2, 0))


def drawn_in_sums(
    data: Counted, centers: Integers, radii: Integers, limits: Integers | None = None
) -> tuple[Integers, Integers]:
    """Return (sum of vector - center, drawn in to the radius, number) over the vectors within
    the limits, by default two radii, of each center.

    The sums are those of ``sums_in_balls`` plus those of the vectors between the radius and the
    limit.
    """
    limits = 2 * radii if limits is None else limits
    sums, numbers = sums_in_balls(data, centers, radii)
    vectors, counts, about = near_balls(data, centers, limits)
    step = max(1, _BLOCK // max(1, len(vectors)))
    for start in range(0, len(centers) if len(vectors) else 0, step):
        rows = slice(start, start + step)
        here = centers[rows] - about
        squares = squared_distances(here, vectors)
        near, far = (ends[rows, np.newaxis].astype(squares.dtype) ** 2 for ends in (radii, limits))
        ring = np.asarray((squares > near) & (squares <= far), np.bool_)
        draws, members = np.nonzero(ring)
        some = max(1, _BLOCK // vectors.shape[1])
        for first in range(0, len(draws), some):
            draw, vector = draws[first : first + some], members[first : first + some]
            moved = vectors[vector] - here[draw]
            for radius in np.unique(radii[rows][draw]).tolist():
                own = radii[rows][draw] == radius
                drawn = clip_to_ball(moved[own], radius).astype(sums.dtype)
                often = counts[vector[own]]
                np.add.at(sums, start + draw[own], drawn * often[:, np.newaxis].astype(sums.dtype))
                np.add.at(numbers, start + draw[own], often)
    return sums, numbers
