"""Degree weights: each record counts by how many friends it has beyond half of all records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.image_view import Images
from dpverify.grid.linear import WORD, largest
from dpverify.grid.masks import different
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.rounding import rounded_quotients
from dpverify.grid.transcripts import NOTHING, Handle, Transcripts
from dpverify.grid.vector_queries import UNIT, unit_sensitivity
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Compared, Passed, Quantity, Relation, Side
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.sources import states
from dpverify.randomness.bits import IntArray

_SPEC = "degree_weights.py"
_SOURCE = Source(
    "OURS", "the mean by degree weights", note="the random filter's expectation in its place"
)
AGREEMENT = Handle("agreement")
"""Stage that releases the agreement, which the mean reads."""
LEAST = 10
"""Least released agreement with which a mean is released."""


def moves(adjacency: Adjacency) -> int:
    """Return the maximum change in the agreement between neighbors."""
    return 5 if adjacency is Adjacency.ADD_REMOVE else 6


def slack(adjacency: Adjacency) -> int:
    """Return how far below both agreements the released one must be: a replacement is two steps."""
    return 0 if adjacency is Adjacency.ADD_REMOVE else 2


def reach(adjacency: Adjacency) -> Fraction:
    """Return the maximum change in the mean between neighbors.

    It is in radii over the released agreement.
    """
    return Fraction(17, 16) if adjacency is Adjacency.ADD_REMOVE else Fraction(17, 8)


@states(_SOURCE)
@dataclass(frozen=True, slots=True)
class Agreement(Query):
    """Query for floor(2 K / n) - n, less a public ``shift``; K is the sum of max(0, 2 degree - n).

    Without the shift it is n where all records are friends; n (1 - 4 p) where a share p of the
    pairs is not; below 0 for records that have no majority; 0 for n = 0.
    """

    nearness: Nearness
    shift: int

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        """Return the agreement minus the shift, shape (1,)."""
        return np.array([agreement_of(view.images(self.nearness)) - self.shift], np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return a sensitivity of 5, or 6 under replace.

        Raises ValueError under any other adjacency.
        """
        if not isinstance(adjacency, Adjacency):
            raise ValueError(
                f"the agreement moves under {adjacency}; it has a bound for inputs only."
            )
        return sensitivity_lemma(
            Quantity.of(
                f"the agreement (friends by {self.nearness.predicate})",
                "Agreement",
                predicate=self.nearness.predicate,
                shift=self.shift,
            ),
            norm=Norm.L1,
            value=moves(adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_agreement",
            source=_SOURCE,
        )


@states(_SOURCE)
@dataclass(frozen=True, slots=True)
class WeightedMean(Query):
    """Query for the mean by degree weights in units of 2^-40 of its noise.

    It is round(2^40 m / (a R s / r)), ties to even. r: the released agreement
    (of the stage "agreement"), R the radius, s = ``spread``, a the reach of this adjacency; the
    noise, of standard deviation a R s / r cells, is then 2^40 in this unit.
    """

    nearness: Nearness
    spread: Fraction
    adjacency: Adjacency

    @property
    def width(self) -> int:
        """Number of released integers: the width of the images."""
        return self.nearness.width

    def noise(self, released: int) -> Fraction:
        """Return the standard deviation of the noise, in cells."""
        return self.reach() * self.nearness.radius * self.spread / max(1, released)

    def reach(self) -> Fraction:
        """Maximum change in the mean, in radii over the released agreement."""
        return reach(self.adjacency)

    @property
    def below(self) -> Compared:
        """Hypothesis that the released agreement is at most the smaller neighbor's, less
        ``slack``.
        """
        words = f"the agreement (friends by {self.nearness.predicate})"
        agreement = Quantity.of(words, "Agreement", predicate=self.nearness.predicate)
        return Compared(AGREEMENT, Relation.AT_MOST, Side.SMALLER, agreement, slack(self.adjacency))

    def weighted_sum(self, images: Images) -> tuple[list[int], int]:
        """Return the sum of the weighted images, and of the weights."""
        return images.weighted_sum

    @property
    def reads(self) -> tuple[str, ...]:
        """Name of the stage that is read: the agreement."""
        return (AGREEMENT,)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        """Return the scaled mean, shape (size, width); 0 without weights.

        It is exact: one rounding of a rational.
        """
        column = before[AGREEMENT][:, 0]
        sums, total = self.weighted_sum(view.images(self.nearness))
        if not total:
            return np.zeros((len(before), self.width), np.int64)
        seen, which = different(column)
        noise = self.noise(1)
        most = [max(1, released) for released in seen.tolist()]
        above = np.multiply.outer(np.array(most, object), np.array(sums, object))
        above *= int(UNIT) * noise.denominator
        below = np.full(above.shape, total * noise.numerator, object)
        means = rounded_quotients(above, below)
        return (means.astype(np.int64) if largest(means) < WORD else means)[which]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return (2^40 / s + sqrt(width))^2.

        It holds if the released agreement is at least 1 and ``below`` holds.
        """
        if adjacency is not self.adjacency:
            raise ValueError(f"the mean is in units for {self.adjacency}, not {adjacency}.")
        return sensitivity_lemma(
            Quantity.of(
                f"the mean by degree weights, in 2^-40 of {render(self.spread)} of its reach "
                f"(friends by {self.nearness.predicate})",
                "WeightedMean",
                predicate=self.nearness.predicate,
                reach=self.reach(),
                spread=self.spread,
                width=self.width,
            ),
            norm=Norm.SQUARED_L2,
            value=unit_sensitivity(self.spread, self.width),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_reach",
            source=_SOURCE,
            hypotheses=(Passed(AGREEMENT, 1), self.below),
        )


def agreement_of(images: Images) -> int:
    """Return floor(2 K / n) - n; 0 for an empty dataset."""
    n = len(images.degrees)
    return 2 * images.weighted_sum[1] // n - n if n else 0
