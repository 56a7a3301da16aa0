"""Second moments of a ball's records within a few released directions.

A record counts by its inner products with the directions, and by one constant beside them: so the
moments also tell where the records' mean is. What counts is no longer than a public length, which
is much shorter than a ball's radius in many columns; so is the noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.linear import WORD, Integers, largest
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.region_queries import (
    DIRECTION_BITS,
    OFF_DIAGONAL,
    Along,
    fits,
    in_balls,
    products,
    shortened,
)
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcript_queries import Place, in_own_unit, placed, root_above
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import UNIT
from dpverify.grid.vectors import clip_to_ball
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity, Source


@dataclass(frozen=True, slots=True)
class InnerMoments(Query):
    """The sum of z z^T over the records in a ball, z their places along released directions, in
    2^-40 of a noise.

    y: a record from the ball's center. z: the inner products of y with ``count`` directions, over
    2^12 and rounded down, then ``constant_of(reach)``; drawn in to the length ``reach``, in cells.
    Entries are in the order and with the weights of ``MovingMoments``. With D = R^2 (add-remove) or
    sqrt(2) R^2 (replace), R the reach, rounded up, the value is round(2^40 entries / (spread D)).
    """

    nearness: Nearness
    spread: Fraction
    adjacency: Adjacency
    place: Place
    along: Along
    count: int
    reach: int

    @property
    def width(self) -> int:
        """Width (count + 1) (count + 2) / 2."""
        return (self.count + 1) * (self.count + 2) // 2

    def unit(self) -> Fraction:
        """Return the standard deviation of the noise, in squared cells."""
        moves = 1 + (self.adjacency is Adjacency.REPLACE)
        return self.spread * root_above(moves * self.reach**4)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls and the directions follow from."""
        return (*self.place.reads, *self.along.reads)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the moments as exact integers, rounded once."""
        points, radii = placed(self.place, self.nearness, before)
        along = self.along(before)
        declared = len(before), self.count, self.nearness.width
        if along.shape != declared:
            raise ValueError(f"directions of shape {along.shape} were released for {declared}.")
        images, size = view.images(self.nearness), self.count + 1
        sums: list[Integers] = [np.zeros((0, size, size), np.int64)]
        for rows, moved, often in in_balls(images, points, radii, before):
            inner = self._inner(moved, along[rows])
            kept = inner if fits(self.reach**2, often) else inner.astype(object)
            sums.append(products((kept * often[..., np.newaxis]).transpose(0, 2, 1), kept))
        exact = shortened(np.concatenate(sums))
        factor, which = UNIT / self.unit(), np.zeros(len(points), np.int64)
        above = np.triu_indices(size, 1)
        return np.column_stack(
            [
                rounded_multiples(exact[:, range(size), range(size)], [factor], which),
                rounded_multiples(exact[:, *above], [factor * OFF_DIAGONAL], which),
            ]
        )

    def _inner(self, moved: Integers, along: Integers) -> Integers:
        """Return what each record counts by, shape (rows, m, count + 1)."""
        wide = largest(moved) * largest(along) * moved.shape[2] >= WORD
        turned = along.transpose(0, 2, 1)
        places = (moved.astype(object) if wide else moved) @ turned >> DIRECTION_BITS
        constant = np.full((*places.shape[:2], 1), constant_of(self.reach), np.int64)
        flat = np.concatenate([places, constant], axis=2).reshape(-1, self.count + 1)
        return clip_to_ball(flat, self.reach).reshape(*places.shape[:2], self.count + 1)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity (2^40 / spread + sqrt(width))^2, wherever the ball lies
        and whatever the directions are.
        """
        return in_own_unit(
            self,
            "InnerMoments",
            "the second moments of a ball's records along released directions, in 2^-40 of {} of "
            "their bound",
            adjacency,
            domain,
            obligation="theory/regions.py:obligation_inner_moments",
            source=Source("OURS", "queries about a released region"),
        )


def constant_of(reach: int) -> int:
    """Return what every record counts by beside its places: a quarter of the reach, at least 1."""
    return max(1, reach // 4)
