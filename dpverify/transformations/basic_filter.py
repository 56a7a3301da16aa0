"""The basic filter: keep a record with a probability that grows with its number of friends."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid.nearness import Nearness
from dpverify.plans.filtering import Filter
from dpverify.privacy import Adjacency, ApproxDP, Derivation, Domain, Norm, PrivacyClaim, Source
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.balls import round_up
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.rules import convert, friendly_lift, sensitivity_lemma
from dpverify.privacy.sources import SourceStatus, states
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray

_STABILITY = Source(
    "TCKMS22", "Algorithm 4.3, BasicFilter, with alpha = 0",
    SourceStatus.CHANGED_CONSTANTS, "keep-probabilities move by 2 in all, by 3 under replace",
)  # fmt: skip


@states(_STABILITY)
@dataclass(frozen=True, slots=True)
class BasicFilter(Filter):
    """A filter that keeps each of n records with probability clip(2 degree / n - 1, 0, 1).

    Records are kept independently. The degree is the number of a record's friends, itself
    included. The coin is of exactly this probability. Any two records
    that can be kept have a common friend.

    epsilon: claim the (epsilon, delta)-DP that the lift gives there, which composes; else its
    profile.
    """

    nearness: Nearness
    epsilon: Fraction | None = None

    @property
    def friendly(self) -> Friendly:
        """Adjacency of the kept records, any two of which have a common friend."""
        return Friendly(self.nearness.predicate)

    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """Keep records by their coins, which are drawn only where the outcome is open."""
        n = len(degrees)
        chances = np.clip(2 * degrees - n, 0, n)
        kept = np.zeros((size, n), dtype=np.bool_)
        kept[:, chances == n] = True
        open_ = np.flatnonzero((chances > 0) & (chances < n))
        if len(open_):
            coins = bits.bernoulli_rows(chances[open_], n, size)
            stretch = slice(int(open_[0]), int(open_[-1]) + 1)  # of records one after the other
            where = stretch if stretch.stop - stretch.start == len(open_) else open_
            kept[:, where] = coins
        return kept

    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Lift the inner claim by the rule of the friendly lift.

        It rests on the lemma that keep-probabilities move by at most 2 (replace: 3).
        """
        stability = sensitivity_lemma(
            Quantity.of("the keep-probabilities of the basic filter", "KeepProbabilities"),
            norm=Norm.KEEP,
            value=2 if adjacency is Adjacency.ADD_REMOVE else 3,
            adjacency=adjacency,
            domain=domain,
            obligation="basic_filter.py:obligation_stability",
            source=_STABILITY,
            keeps=self.friendly,
        )
        lifted = friendly_lift(inner, stability)
        if self.epsilon is None:
            return lifted
        delta = lifted.conclusion.guarantee.delta_at(self.epsilon).upper
        return convert(lifted, ApproxDP(self.epsilon, round_up(delta)))
