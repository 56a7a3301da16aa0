"""Laws for planted faults, in which declarations are not kept."""

from __future__ import annotations

from dpverify.plans.built_stages import BuiltStages
from dpverify.plans.law import Law
from dpverify.plans.plan import Adaptive, Built, Plan
from dpverify.privacy.adjacency import AnyAdjacency
from dpverify.privacy.hypotheses import Compared


class _Unchecked(BuiltStages):
    """Stages that are built as they come."""

    def _check(
        self, plan: Plan, element: Adaptive, built: Built, adjacency: AnyAdjacency
    ) -> tuple[Compared, ...]:
        """Return nothing to check: a faulty stage may have no claim at all."""
        return ()

    def _assumed(self, stage: Built, adjacency: AnyAdjacency) -> tuple[Compared, ...]:
        """Return nothing: a faulty stage is not compared with what it assumes."""
        return ()


class FaultyLaw(Law):
    """Law of a plan whose adaptive stages need not keep their declarations."""

    _checked_by = _Unchecked
