"""The first stage of a plan, attacked by itself: where no pair of the whole shows its missing
noise.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import ArrayLike

from dpverify.grid import ingest
from dpverify.plans import Law, Mechanism, Plan, Stage
from dpverify.plans.plan import derive
from dpverify.privacy import Adjacency, Domain, PrivacyClaim


@dataclass(frozen=True, slots=True)
class FirstStage:
    """First stage of a mechanism's plan, under the claim of that stage alone.

    A composition's bound is met by no pair where different pairs move different stages most.
    The whole then hides a missing share of a cheap stage's noise, but that stage's own claim
    reveals it.

    Raises ValueError for a plan that begins with anything but a stage.
    """

    mechanism: Mechanism[Any]

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism.fixed_plan[0], Stage):
            raise ValueError("The plan does not begin with a stage; there is nothing to attack.")

    @property
    def fixed_plan(self) -> Plan:
        """Plan of the first stage alone."""
        return self.mechanism.fixed_plan[:1]

    @property
    def claim(self) -> PrivacyClaim:
        """Claim of that stage."""
        return derive(self.fixed_plan, self.adjacency, self.domain).conclusion

    @property
    def adjacency(self) -> Adjacency:
        """Adjacency of the mechanism."""
        return self.mechanism.adjacency

    @property
    def domain(self) -> Domain:
        """Domain of the mechanism."""
        return self.mechanism.domain

    def columns(self) -> int:
        """Return the mechanism's number of columns."""
        return self.mechanism.columns()

    def law(self, data: ArrayLike) -> Law:
        """Return the law of the first stage."""
        return Law(self.fixed_plan, ingest(data, self.domain), self.adjacency, self.domain)
