"""Laws for planted faults: what was declared is not kept."""

from __future__ import annotations

from dpverify.plans.law import Law
from dpverify.plans.plan import Adaptive, Built, Plan
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.hypotheses import Compared


class FaultyLaw(Law):
    """The law of a plan whose adaptive stages need not keep what they declared."""

    def _check(
        self, plan: Plan, element: Adaptive, built: Built, adjacency: AnyAdjacency
    ) -> tuple[Compared, ...]:
        """Return nothing to check: a faulty stage may have no claim at all."""
        return ()

    def _assumed(self, stage: Built, adjacency: AnyAdjacency) -> tuple[Compared, ...]:
        """Return nothing: a faulty stage is not compared with what it assumes."""
        return ()
