"""Queries about a public point that the transcript decides: of one sensitivity wherever it lies."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify.grid.image_view import Images
from dpverify.grid.linear import WORD, Integers
from dpverify.grid.masks import different, each_once, sums_in_balls
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import UNIT, unit_sensitivity
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import render, root_up
from dpverify.privacy.rules import sensitivity_lemma

FEW = 8  # up to so many balls are not worth a sort of the records


Place = Released[tuple[Integers, Integers]]
"""Released points, in integer cells, shape (size, d), and radii, shape (size,)."""


def placed(place: Place, nearness: Nearness, before: Transcripts) -> tuple[Integers, Integers]:
    """Return where each draw's ball lies. Raises ValueError for what is not of integers, one
    point and radius a draw.
    """
    points, radii = place(before)
    size = len(before)
    whole = points.dtype.kind in "iuO" and radii.dtype.kind in "iuO"
    if not whole or points.shape != (size, nearness.width) or radii.shape != (size,):
        raise ValueError(
            f"balls of points {points.dtype}{points.shape} and radii {radii.dtype}{radii.shape} "
            f"were released for {size} draws of {nearness.width} coordinates; give integers, a "
            "point and a radius for each."
        )
    return points, radii


@dataclass(frozen=True, slots=True)
class MovingSum(Query):
    """The sum about a point of the records in a ball around it, and their number, in 2^-40 of a
    noise.

    place: the points and radii of the balls, from what was released. With R the radius (or
    ``reach``), w = R // 8 the weight of the number, and D the L2 sensitivity of (sum, w number):
    sqrt(R^2 + w^2) for add-remove, 2 R for replace, the value is round(2^40 (sum, w number) /
    (spread D)), D rounded up: noise of standard deviation spread D is then 2^40.
    """

    nearness: Nearness
    spread: Fraction
    adjacency: Adjacency
    place: Place

    @property
    def width(self) -> int:
        """Number of released integers: the sum's, and one for the number of records."""
        return self.nearness.width + 1

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls follow from."""
        return self.place.reads

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the sum and the number as exact integers, rounded once."""
        points, radii = placed(self.place, self.nearness, before)
        images = view.images(self.nearness)
        sums, numbers = self.totals(images, points, radii, before)
        return self.in_units(sums, numbers, radii, len(view))

    def in_units(self, sums: Integers, numbers: Integers, radii: Integers, most: int) -> Integers:
        """Return sums and weighted numbers in 2^-40 of the noise for each ball's radius; most: the
        number of records."""
        unique, which = different(radii)
        of_number = [weight_of(self.reach(int(radius))) for radius in unique]
        weights = np.array(of_number, np.int64)[which]
        wide = int(weights.max()) * most >= WORD
        counted = weights * (numbers.astype(object) if wide else numbers)
        factors = [UNIT / self.unit(int(radius)) for radius in unique]
        return rounded_multiples(np.column_stack([sums, counted]), factors, which)

    def totals(
        self, images: Images, points: Integers, radii: Integers, before: Transcripts
    ) -> tuple[Integers, Integers]:
        """Return the sums about the points, shape (size, width - 1), and the numbers, shape
        (size,).
        """
        few = len(points) < FEW
        return sums_in_balls(each_once(images.images) if few else images.distinct, points, radii)

    def reach(self, radius: int) -> int:
        """Give the length that no summed record exceeds, for a ball of this radius."""
        return radius

    def unit(self, radius: int) -> Fraction:
        """Return the standard deviation of the noise, in cells."""
        most = self.reach(radius)
        square = most**2 + weight_of(most) ** 2
        if self.adjacency is Adjacency.REPLACE:
            square = 4 * most**2
        return self.spread * root_above(square)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity (2^40 / spread + sqrt(width))^2, wherever the ball
        lies.
        """
        return in_own_unit(
            self,
            "MovingSum",
            "the sum and number of records in a ball, in 2^-40 of {} of its bound",
            adjacency,
            domain,
            obligation="theory/transcript_sums.py:obligation_transcript_sum",
            source=Source("OURS", "a masked sum about a released point"),
        )


def in_own_unit(
    query: Any,
    kind: str,
    words: str,
    adjacency: Adjacency,
    domain: Domain,
    *,
    obligation: str,
    source: Source,
) -> Derivation[Sensitivity]:
    """State the squared sensitivity (2^40 / spread + sqrt(width))^2 of a query that is in units
    of its own noise.

    words: for people, with the spread in place of "{}". Raises ValueError for another adjacency
    than the unit's.
    """
    if adjacency is not query.adjacency:
        raise ValueError(
            f"{type(query).__name__} is in units for {query.adjacency}, not {adjacency}; make it "
            "for that one."
        )
    spread, width = query.spread, query.width
    text = words.format(render(spread))
    return sensitivity_lemma(
        Quantity.of(text, kind, spread=spread, width=width, unit=str(query.adjacency)),
        norm=Norm.SQUARED_L2,
        value=unit_sensitivity(spread, width),
        adjacency=adjacency,
        domain=domain,
        obligation=obligation,
        source=source,
    )


def weight_of(radius: int) -> int:
    """Return the weight of one record in the released number, in cells: an eighth of the
    radius, for less than 1% noise.
    """
    return max(1, radius // 8)


def root_above(square: int) -> Fraction:
    """Return sqrt(square), rounded up to 2^-20."""
    return root_up(square, 20)
