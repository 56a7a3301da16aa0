"""The first stage of a plan, attacked by itself: where no pair of the whole shows its missing
noise.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpverify.audit.plan_part import PlanPart
from dpverify.plans import Plan, Stage
from dpverify.plans.plan import derive
from dpverify.privacy import Derivation, PrivacyClaim


@dataclass(frozen=True, slots=True)
class FirstStage(PlanPart):
    """First stage of a mechanism's plan, under the claim of that stage alone.

    A composition's bound is met by no pair where different pairs move different stages most.
    The whole then hides a missing share of a cheap stage's noise, but that stage's own claim
    reveals it.

    Raises ValueError for a plan that begins with anything but a stage.
    """

    def __post_init__(self) -> None:
        if not isinstance(self.mechanism.fixed_plan[0], Stage):
            raise ValueError("The plan does not begin with a stage; there is nothing to attack.")

    @property
    def fixed_plan(self) -> Plan:
        """Plan of the first stage alone."""
        return self.mechanism.fixed_plan[:1]

    @property
    def derivation(self) -> Derivation[PrivacyClaim]:
        """Derivation of that stage's claim."""
        return derive(self.fixed_plan, self.mechanism.adjacency, self.domain)
