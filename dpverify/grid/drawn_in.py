"""Sums about released points in which records outside a ball are drawn in to it, and those far
outside are left out.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpverify.grid.image_view import Images
from dpverify.grid.linear import Integers, squared_distances
from dpverify.grid.masks import Counted, each_once, near_balls, sums_in_balls
from dpverify.grid.transcript_queries import FEW, MovingSum, in_own_unit
from dpverify.grid.transcripts import Transcripts
from dpverify.grid.vectors import clip_to_ball
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity, Source

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


def drawn_in_sums(data: Counted, centers: Integers, radii: Integers) -> tuple[Integers, Integers]:
    """Return (sum of vector - center, drawn in to the radius, number) over the vectors within
    two radii of each center.

    The sums are those of ``sums_in_balls`` plus those of the vectors between one radius and
    two.
    """
    sums, numbers = sums_in_balls(data, centers, radii)
    vectors, counts, about = near_balls(data, centers, 2 * radii)
    step = max(1, _BLOCK // max(1, len(vectors)))
    for start in range(0, len(centers) if len(vectors) else 0, step):
        rows = slice(start, start + step)
        here = centers[rows] - about
        squares = squared_distances(here, vectors)
        limits = radii[rows, np.newaxis].astype(squares.dtype) ** 2
        ring = np.asarray((squares > limits) & (squares <= 4 * limits), np.bool_)
        draw, vector = np.nonzero(ring)
        moved = vectors[vector] - here[draw]
        for radius in np.unique(radii[rows][draw]).tolist():
            some = radii[rows][draw] == radius
            drawn = clip_to_ball(moved[some], radius).astype(sums.dtype)
            often = counts[vector[some]]
            np.add.at(sums, start + draw[some], drawn * often[:, np.newaxis].astype(sums.dtype))
            np.add.at(numbers, start + draw[some], often)
    return sums, numbers
