"""``gaussian_filter``: keep each record whose noisy number of friends is large enough."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.nearness import Nearness
from dpverify.plans import RoundedGaussian
from dpverify.plans.filtering import Filter
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, PrivacyClaim, Sensitivity, Source
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.derivation import EventBound
from dpverify.privacy.numbers import exact, render, whole
from dpverify.privacy.rules import event_lemma, noisy_degree_lift, sensitivity_lemma
from dpverify.privacy.sources import SourceStatus, states
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray

_SPEC = "gaussian_filter.py"
_SCORES = Source("OURS", "scores of friends and strangers, for records inside and outside")
_FILTER = Source(
    "TCKMS22", "Section 4, the zCDP filter",
    SourceStatus.CHANGED_CONSTANTS, "noise by a released number of records, any share of strangers",
)  # fmt: skip


@states(_FILTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianFilter(Filter):
    """A record is kept where its score, with Gaussian noise, is above ``threshold``.

    score = p friends - (q - p) strangers, itself a friend; strangers_share = p / q <= 1/2. At most
    ``most_rows`` records are assumed by the claim. sigma: the standard deviation of the noise on a
    score. missed: the probability, over all records together, that one without a positive score is
    kept. budget: the mu^2 that filter and inner plan may spend together; what the claim says.
    """

    adjacency: Adjacency
    nearness: Nearness
    strangers_share: Fraction
    most_rows: int
    sigma: Fraction
    threshold: int
    missed: Fraction
    budget: Fraction

    def __post_init__(self) -> None:
        share = exact(self.strangers_share, "strangers_share")
        if not 0 < share <= Fraction(1, 2):
            raise ValueError(
                f"strangers_share = {self.strangers_share} is outside (0, 1/2]; two records that are "
                "kept have a common friend only if each has more friends than strangers."
            )
        object.__setattr__(self, "strangers_share", share)
        whole(self.threshold, "threshold")
        if whole(self.most_rows, "most_rows") < 1:
            raise ValueError(f"most_rows = {self.most_rows}; give a number of records, at least 1.")

    @property
    def friendly(self) -> Friendly:
        """Any two of them have a common friend. Under add-remove each has few strangers; under replace
        the old record and the new one have a common friend too."""
        if self.adjacency is Adjacency.REPLACE:
            return Friendly(self.nearness.predicate, exchange=True)
        return Friendly(self.nearness.predicate, self.strangers)

    @property
    def strangers(self) -> int:
        """Of a record of positive score, at most: it has fewer than p n / q."""
        p, q = self._weights
        return (p * self.most_rows - 1) // q

    @property
    def _weights(self) -> tuple[int, int]:
        return self.strangers_share.numerator, self.strangers_share.denominator

    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """Rounded Gaussian noise on every score."""
        p, q = self._weights
        scores = q * degrees - (q - p) * len(degrees)
        noise = bits.noise(RoundedGaussian(self.sigma), size * len(degrees))
        kept: BoolArray = noise.reshape(size, len(degrees)) > self.threshold - scores
        return np.asarray(kept, dtype=np.bool_)

    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Rule: noisy degree lift. Raises ValueError for another adjacency, predicate or threshold."""
        if inner.conclusion.adjacency != self.friendly or adjacency is not self.adjacency:
            raise ValueError(f"{inner.conclusion} is not about {self.friendly}.")
        return noisy_degree_lift(
            inner,
            self._moved(True, domain),
            self._moved(False, domain),
            self._missed(domain),
            sigma=self.sigma,
            budget=self.budget,
        )

    def _moved(self, inside: bool, domain: Domain) -> Derivation[Sensitivity]:
        """Add-remove: a friend's score falls by p, a stranger's rises by q - p; fewer than p n / q
        strangers inside. Replace: by q or not at all."""
        p, q = self._weights
        value = q * q * self.most_rows
        if self.adjacency is Adjacency.ADD_REMOVE:
            value = (p * (q - p) if inside else (q - p) ** 2) * self.most_rows
        where = "that may be kept" if inside else "that is not kept"
        return sensitivity_lemma(
            f"the scores of the others, for a record {where} and at most {self.most_rows} records",
            norm=Norm.SQUARED_L2,
            value=value,
            adjacency=self.adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_scores",
            source=_SCORES,
        )

    def _missed(self, domain: Domain) -> Derivation[EventBound]:
        """Kept with too few friends on one of the two sides: a score of at most 0 there is at most
        ``margin`` on the other."""
        least = self.threshold - margin(self.strangers_share, self.adjacency) + 1
        if not RoundedGaussian(self.sigma).falls_short(least, self.missed / self.most_rows):
            raise ValueError(
                f"threshold = {self.threshold} is passed by a record without friends more often than "
                f"{render(self.missed)} allows; raise it."
            )
        return event_lemma(
            f"one of at most {self.most_rows} records is kept that has too few friends",
            probability=self.missed,
            in_output=True,
            adjacency=self.adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_missed",
            source=_FILTER,
        )


def margin(strangers_share: Fraction, adjacency: Adjacency) -> int:
    """By how much a record's score may exceed 0 though on the other side it does not: the removal of
    a stranger adds q - p, a friend in place of a stranger q."""
    p, q = strangers_share.numerator, strangers_share.denominator
    return q - p if adjacency is Adjacency.ADD_REMOVE else q
