"""Parts of a mechanism's plan that are attacked by themselves: what all of these share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from dpverify.grid import ingest
from dpverify.plans import Law, Mechanism, Plan
from dpverify.privacy import Derivation, Domain, PrivacyClaim
from dpverify.privacy.adjacency import AnyAdjacency


@dataclass(frozen=True, slots=True)
class PlanPart(ABC):
    """Part of a mechanism's plan as the subject of an audit, under the claim of that part alone."""

    mechanism: Mechanism[Any]

    @property
    @abstractmethod
    def fixed_plan(self) -> Plan:
        """Plan of the part alone."""

    @property
    @abstractmethod
    def derivation(self) -> Derivation[PrivacyClaim]:
        """Derivation of the part's claim."""

    @property
    def claim(self) -> PrivacyClaim:
        """Claim of the part alone."""
        return self.derivation.conclusion

    @property
    def adjacency(self) -> AnyAdjacency:
        """Relation of neighbors that the part's claim is about."""
        return self.claim.adjacency

    @property
    def domain(self) -> Domain:
        """Domain of the mechanism."""
        return self.mechanism.domain

    def columns(self) -> int:
        """Return the mechanism's number of columns."""
        return self.mechanism.columns()

    def law(self, data: ArrayLike) -> Law:
        """Return the law of the part on all records."""
        return Law(self.fixed_plan, ingest(data, self.domain), self.adjacency, self.domain)
