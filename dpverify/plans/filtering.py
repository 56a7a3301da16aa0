"""Random filters in a plan: the kept records are never released, only results computed from
them.
"""

from __future__ import annotations

from abc import abstractmethod

from dpverify.grid.nearness import Nearness
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim
from dpverify.privacy.adjacency import Friendly
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray


class Filter:
    """Filter that keeps each record with a probability of its own, decided by the number of the
    record's friends.
    """

    __slots__ = ()

    nearness: Nearness

    @property
    @abstractmethod
    def friendly(self) -> Friendly:
        """Neighbors that the claim of the plan on the kept records is about."""

    @abstractmethod
    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """Draw ``size`` independent rows of kept records, shape (size, n). At most 2^26 are
        requested at a time.
        """

    @abstractmethod
    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Derive the claim of filter and inner plan together, from the inner one for friendly
        neighbors.
        """
