"""Laws of stages on a list in a random order that is never released, where the order matters."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import permutations
from typing import Any

from .laws import Exponential, IntegerLaw, Outcome, StageLaw, TranscriptLaw
from .obligations import require

Prefix = tuple[Outcome, ...]
Listed = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ListedLaw:
    """Stages about all records, then independent stages about a list in a random order.

    first_stages: the stages released before. listed: the list in its records' order, given those
    outcomes. ordered: the stages for a list in an order. example: a prefix that reaches the
    last stage, one outcome short of a whole transcript.
    """

    first_stages: tuple[tuple[str, StageLaw], ...]
    listed: Callable[[Prefix], Listed]
    ordered: Callable[[Listed], Sequence[tuple[str, IntegerLaw]]]
    example: Prefix

    def probability(self, transcript: Prefix, e: Exponential) -> Any:
        """Return the mass of one whole transcript: the average over all orders of the list."""
        first = len(self.first_stages)
        before, after = transcript[:first], transcript[first:]
        if len(before) < first:
            return Fraction(0)
        mass: Any = Fraction(1)
        for i, (_, stage) in enumerate(self.first_stages):
            law = stage(before[:i])
            if law is None:
                return Fraction(0)
            mass = mass * law.probability(before[i], e)
        orders = Counter(permutations(self.listed(before)))
        total: Any = Fraction(0)
        for listed, times in orders.items():
            laws = self.ordered(listed)
            if len(laws) != len(after):
                return Fraction(0)
            one: Any = Fraction(times, orders.total())
            for (_, law), value in zip(laws, after, strict=True):
                one = one * law.probability(value, e)
            total = total + one
        return mass * total

    def stage_laws(self) -> list[tuple[str, IntegerLaw]]:
        """Return each stage's law after the example prefix, the list in its records' order."""
        return self.in_order(self.listed(self.example[: len(self.first_stages)])).stage_laws()

    @property
    def stages(self) -> tuple[tuple[str, StageLaw], ...]:
        """Stages for the list in its records' order."""
        return self.in_order(self.listed(self.example[: len(self.first_stages)])).stages

    def in_order(self, listed: Listed) -> TranscriptLaw:
        """Return the law for this list, which is not shuffled; earlier outcomes decide the rest as
        in the example.
        """
        rest = [(name, lambda prefix, law=law: law) for name, law in self.ordered(listed)]
        return TranscriptLaw((*self.first_stages, *rest), self.example)

    def aligned(self, other: ListedLaw) -> tuple[TranscriptLaw, TranscriptLaw]:
        """Return both laws after this one's example, for lists in orders that are drawn together:
        equal except in the last place, if there.

        Every order of one list goes with one of the other, and the laws of lists are averages
        over them. Hockey-stick divergences are jointly convex, and exchanging places exchanges
        stages of equal laws, if a stage is only noise about sums: so the divergence of the
        whole is at most that of this one pair, except for how sums are rounded. Lists of
        several sizes have no such orders, and of two places that differ some orders put both in
        one stage: ObligationFailed is raised, for then nothing is shown.
        """
        before = self.example[: len(self.first_stages)]
        ours, theirs = self.listed(before), other.listed(before)
        common = Counter(ours) & Counter(theirs)
        same = tuple(common.elements())
        rest = [tuple((Counter(one) - common).elements()) for one in (ours, theirs)]
        sizes = f"lists of {len(ours)} and {len(theirs)} records differ in {rest}"
        require(len(ours) == len(theirs) and len(rest[0]) <= 1, sizes)
        left, right = ((*same, *one) for one in rest)
        return self.in_order(left), other.in_order(right)
