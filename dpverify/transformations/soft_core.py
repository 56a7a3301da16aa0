"""The soft core: a record counts in full from a public share of friends on.

It does not count up to half of them. Where a share gamma of the records are outliers, inliers
count in full if that share is at most 1 - gamma. Then the agreement loses what the outliers
have, where ``degree_weights`` loses three times as much. For replace alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.image_view import Images
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import unit_sensitivity
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Compared, Passed, Quantity, Relation, Side
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.sources import states
from dpverify.randomness.bits import IntArray
from dpverify.transformations.degree_weights import AGREEMENT, WeightedMean

_SPEC = "soft_core.py"
_SOURCE = Source(
    "OURS",
    "the mean by a soft core",
    note="weights that rise from half of all to a public share; the idea of a core from TCKMS22",
)
_FINEST = 100  # so that a record's weight fits a word whatever n


def checked_full(full: Fraction) -> Fraction:
    """Return a share of friends from which on a record may count in full.

    Raises ValueError for any other.
    """
    if not Fraction(1, 2) < full <= 1 or full.denominator > _FINEST:
        raise ValueError(
            f"full = {full}; give a rational above 1/2 and at most 1 of denominator at most "
            f"{_FINEST}, say 9/10."
        )
    return full


def moves(full: Fraction) -> int:
    """Return the maximum change in the agreement under replace."""
    return math.ceil(2 + 4 / (2 * full - 1))


def reach(full: Fraction) -> Fraction:
    """Return the maximum change in the mean under replace, in radii over the released agreement."""
    return (1 + (Fraction(3, 2) - full) ** 2 / 4) / (full - Fraction(1, 2))


@states(_SOURCE)
@dataclass(frozen=True, slots=True)
class SoftAgreement(Query):
    """Query for floor(2 N) - n, less a public ``shift``; N is the sum of weights.

    A record that counts in full has weight 1. Without the shift it is n where all do; n
    (1 - 2 gamma) where a share gamma has no weight; 0 for an empty dataset.
    """

    nearness: Nearness
    full: Fraction
    shift: int

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        """Return the agreement minus the shift, shape (1,)."""
        value = agreement_of(view.images(self.nearness), self.full) - self.shift
        return np.array([value], np.int64)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return ceil(2 + 4 / (2 full - 1)). Raises ValueError under any adjacency but replace."""
        _require_replace(adjacency)
        return sensitivity_lemma(
            Quantity.of(
                f"the agreement from {self.full} of all on (friends by {self.nearness.predicate})",
                "SoftAgreement",
                predicate=self.nearness.predicate,
                full=self.full,
                shift=self.shift,
            ),
            norm=Norm.L1,
            value=moves(self.full),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_agreement",
            source=_SOURCE,
        )


@states(_SOURCE)
@dataclass(frozen=True, slots=True)
class SoftMean(WeightedMean):
    """The ``WeightedMean`` by the soft core's weights, with its reach."""

    full: Fraction

    def reach(self) -> Fraction:
        """Maximum change in the mean, in radii over the released agreement."""
        return reach(self.full)

    @property
    def below(self) -> Compared:
        """Hypothesis that the released agreement is at most the smaller neighbor's."""
        words = f"the agreement from {self.full} of all on (friends by {self.nearness.predicate})"
        agreement = Quantity.of(
            words, "SoftAgreement", predicate=self.nearness.predicate, full=self.full
        )
        return Compared(AGREEMENT, Relation.AT_MOST, Side.SMALLER, agreement)

    def weighted_sum(self, images: Images) -> tuple[list[int], int]:
        """Return the sum weighted by the soft core's integers, and the sum of these."""
        return images.soft_sum(self.full)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return (2^40 / s + sqrt(width))^2.

        It holds if the released agreement is at least 1 and ``below`` holds. Raises ValueError
        under any adjacency but replace.
        """
        _require_replace(adjacency)
        return sensitivity_lemma(
            Quantity.of(
                f"the mean by a soft core from {self.full} of all on, in 2^-40 of "
                f"{render(self.spread)} of its reach (friends by {self.nearness.predicate})",
                "SoftMean",
                predicate=self.nearness.predicate,
                full=self.full,
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


def agreement_of(images: Images, full: Fraction) -> int:
    """Return floor(2 N) - n; 0 for an empty dataset."""
    n = len(images.degrees)
    top = (2 * full.numerator - full.denominator) * n
    return 2 * images.soft_sum(full)[1] // top - n if n else 0


def _require_replace(adjacency: Adjacency) -> None:
    if adjacency is not Adjacency.REPLACE:
        raise ValueError(
            f"a soft core moves under {adjacency}; it has bounds for replace only. Take "
            "filter='weights'."
        )
