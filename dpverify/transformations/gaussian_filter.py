"""The Gaussian filter: keep each record whose noisy number of friends is large enough."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.nearness import Nearness
from dpverify.grid.transcripts import Handle
from dpverify.plans import RoundedGaussian
from dpverify.plans.filtering import Filter
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, PrivacyClaim, Sensitivity, Source
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.hypotheses import Compared, Hypothesis, Quantity, Relation, Side
from dpverify.privacy.numbers import exact, settle, whole
from dpverify.privacy.rules import kept_by_noise, noisy_degree_lift, sensitivity_lemma
from dpverify.privacy.sources import SourceStatus, states
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray

_SPEC = "gaussian_filter.py"
ROWS = Handle("rows")
"""Stage that releases the number of rows, from which the filter's size is chosen."""
_SCORES = Source("OURS", "scores of friends and strangers, for records inside and outside")
_FILTER = Source(
    "TCKMS22", "Section 4, the zCDP filter",
    SourceStatus.CHANGED_CONSTANTS, "noise by a released number of records, any share of strangers",
)  # fmt: skip


@states(_FILTER)
@dataclass(frozen=True, slots=True, kw_only=True)
class GaussianFilter(Filter):
    """A filter that keeps a record where its score, with Gaussian noise, is above ``threshold``.

    score = p friends - (q - p) strangers, where a record is its own friend; strangers_share =
    p / q <= 1/2.

    most_rows: the claim assumes at most so many records.
    sigma: the standard deviation of the noise on a score.
    missed: the probability, over all records together, that one without a positive score is
    kept.
    budget: the mu^2 that filter and inner plan may spend together, which the claim states.
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
                f"strangers_share = {self.strangers_share} is outside (0, 1/2]; two records that "
                "are kept have a common friend only if each has more friends than strangers."
            )
        settle(self, strangers_share=share)
        whole(self.threshold, "threshold")
        if whole(self.most_rows, "most_rows") < 1:
            raise ValueError(f"most_rows = {self.most_rows}; give a number of records, at least 1.")

    @property
    def friendly(self) -> Friendly:
        """Adjacency of the kept records, any two of which have a common friend.

        Under add-remove each has few strangers; under replace the old record and the new one
        have a common friend too.
        """
        if self.adjacency is Adjacency.REPLACE:
            return Friendly(self.nearness.predicate, exchange=True)
        return Friendly(self.nearness.predicate, self.strangers)

    @property
    def strangers(self) -> int:
        """Largest number of strangers of a record of positive score, which has fewer than p
        n / q.
        """
        p, q = self._weights
        return (p * self.most_rows - 1) // q

    @property
    def _weights(self) -> tuple[int, int]:
        return self.strangers_share.numerator, self.strangers_share.denominator

    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """Keep records by rounded Gaussian noise on every score."""
        p, q = self._weights
        scores = q * degrees - (q - p) * len(degrees)
        noise = bits.noise(RoundedGaussian(self.sigma), size * len(degrees))
        kept: BoolArray = noise.reshape(size, len(degrees)) > self.threshold - scores
        return np.asarray(kept, dtype=np.bool_)

    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Lift the inner claim by the rule of the noisy degree lift.

        It holds if there are at most ``most_rows`` records. Raises ValueError for another
        adjacency, predicate or threshold.
        """
        if inner.conclusion.adjacency != self.friendly or adjacency is not self.adjacency:
            raise ValueError(f"{inner.conclusion} is not about {self.friendly}.")
        missed = kept_by_noise(
            self._score(domain),
            sigma=self.sigma,
            threshold=self.threshold,
            records=self.most_rows,
            probability=self.missed,
            under=self._few(domain),
        )
        inside = self._moved(True, domain, (missed.conclusion.fails,), self.friendly)
        outside = self._moved(False, domain, (), None)
        return noisy_degree_lift(inner, inside, outside, missed, budget=self.budget)

    def _few(self, domain: Domain) -> tuple[Compared, ...]:
        """Return the hypothesis that there are at most ``most_rows`` records, unless the domain
        says so.
        """
        if domain.most_rows is not None and domain.most_rows <= self.most_rows:
            return ()
        return (enough_rows(value=self.most_rows),)

    def _moved(
        self,
        inside: bool,
        domain: Domain,
        hypotheses: tuple[Hypothesis, ...],
        keeps: Friendly | None,
    ) -> Derivation[Sensitivity]:
        """Return the sensitivity of the scores of the other records.

        Add-remove: a friend's score falls by p, a stranger's rises by q - p; fewer than p n / q
        strangers inside. Replace: by q or not at all.
        """
        p, q = self._weights
        value = q * q * self.most_rows
        if self.adjacency is Adjacency.ADD_REMOVE:
            value = (p * (q - p) if inside else (q - p) ** 2) * self.most_rows
        where = "that may be kept" if inside else "that is not kept"
        words = (
            f"the scores of the others, for a record {where} and at most {self.most_rows} records"
        )
        return sensitivity_lemma(
            Quantity.of(words, "Scores", p=p, q=q, inside=inside, records=self.most_rows),
            norm=Norm.SQUARED_L2,
            value=value,
            adjacency=self.adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_scores",
            source=_SCORES,
            keeps=keeps,
            hypotheses=(*self._few(domain), *hypotheses),
        )

    def _score(self, domain: Domain) -> Derivation[Sensitivity]:
        """Bound the score of a record that has too few friends on one of the two sides.

        It is at most ``margin`` above 0, for it is at most 0 on the side with too few friends.
        """
        p, q = self._weights
        return sensitivity_lemma(
            Quantity.of("the score of a record that has too few friends", "FewFriends", p=p, q=q),
            norm=Norm.L_INFINITY,
            value=margin(self.strangers_share, self.adjacency),
            adjacency=self.adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_missed",
            source=_FILTER,
            keeps=Friendly(self.nearness.predicate, exchange=self.friendly.exchange),
        )


def enough_rows(*, slack: int = 0, value: int | None = None) -> Compared:
    """Return the hypothesis that the released number of rows is large enough.

    With ``slack``, it is at least the larger neighbor's.

    value: the number that a filter was built for, in place of the released one.
    """
    rows = Quantity.of("the count", "Count", some=False, within=None)
    return Compared(ROWS, Relation.AT_LEAST, Side.LARGER, rows, slack, value)


def margin(strangers_share: Fraction, adjacency: Adjacency) -> int:
    """Return the most by which a record's score may exceed 0 though on the other side it does not.

    The removal of a stranger adds q - p, a friend in place of a stranger q.
    """
    p, q = strangers_share.numerator, strangers_share.denominator
    return q - p if adjacency is Adjacency.ADD_REMOVE else q
