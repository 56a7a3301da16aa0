"""A random filter in a plan: which records it keeps is never released, only what comes after."""

from __future__ import annotations

from abc import abstractmethod

from dpverify.grid.nearness import Nearness
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim
from dpverify.privacy.adjacency import Friendly
from dpverify.randomness import Bits
from dpverify.randomness.bits import BoolArray, IntArray


class Filter:
    """Keeps each record with a probability of its own, which the number of its friends decides."""

    __slots__ = ()

    nearness: Nearness

    @property
    @abstractmethod
    def friendly(self) -> Friendly:
        """The neighbors that the claim of what runs on the kept records is about."""

    @abstractmethod
    def keep(self, bits: Bits, degrees: IntArray, size: int) -> BoolArray:
        """Draw ``size`` independent rows, shape (size, n): which records are kept. No more than
        2^26 at a time are asked for.
        """

    @abstractmethod
    def lift(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Derive the claim of filter and inner plan together, from the inner one for friendly
        neighbors.
        """
