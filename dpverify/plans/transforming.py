"""Map from the records to a list of records, in a plan: the plan on the list has its claim for
lists.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

from dpverify.grid.records import Records
from dpverify.privacy import Adjacency, Derivation, Domain, PrivacyClaim


class Transformation:
    """Map that makes a list of the records, in a random order. Neither list nor order is
    released, only what a plan does with it.

    Its parameters are public, or follow from what was released before.
    """

    __slots__ = ()

    within: ClassVar[Adjacency]
    """Adjacency of the lists of neighbors, if their orders are drawn together."""

    @abstractmethod
    def listed(self, records: Records) -> Records:
        """Return the list before it is shuffled, records of the same domain: a function of the
        records alone.
        """

    @abstractmethod
    def carry(
        self, inner: Derivation[PrivacyClaim], adjacency: Adjacency, domain: Domain
    ) -> Derivation[PrivacyClaim]:
        """Derive the claim of map and inner plan together, from the inner one for lists that
        differ as ``within`` says.
        """
