"""What a guarantee says of datasets that differ in several records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.balls import Enclosure, ball, enclose, hull, round_up
from dpverify.privacy.guarantees.base import (
    Guarantee,
    group_size,
    profile_argument,
    tradeoff_argument,
)
from dpverify.privacy.numbers import Exact
from dpverify.privacy.sources import Source, states


@states(
    Source("DRS22", "group privacy of a trade-off curve"),
    Source("OURS", "group privacy of a profile, in equal steps"),
)
@dataclass(frozen=True, slots=True)
class Group(Guarantee):
    """``base`` holds for each of ``size`` steps from one dataset to the other.

    For guarantees whose groups have no guarantee of the same kind: approximate GDP and profiles.
    """

    base: Guarantee
    size: int

    def __post_init__(self) -> None:
        if isinstance(self.base, Group):
            raise TypeError("A group of groups is one group; use base.for_group(size).")
        if group_size(self.size) < 2:
            raise ValueError("size = 1; a single record has the guarantee itself.")

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """(1 + e^s + ... + e^((size - 1) s)) delta(s) at the step s = epsilon / size, at most 1.

        P_0(S) <= e^s P_1(S) + delta(s) <= e^(2 s) P_2(S) + (1 + e^s) delta(s) <= ...
        """
        step = profile_argument(epsilon) / self.size
        one = self.base.delta_at(step)
        steps = enclose(lambda: sum(((i * ball(step)).exp() for i in range(self.size)), arb(0)))
        most = Fraction(1)
        return Enclosure(min(steps.lower * one.lower, most), min(steps.upper * one.upper, most))

    def tradeoff_at(self, alpha: Exact) -> Enclosure:
        """1 - f applied ``size`` times to alpha: so the power of a test grows, step by step."""
        low = high = tradeoff_argument(alpha)
        for _ in range(self.size):
            low = 1 - self.base.tradeoff_at(low).upper
            high = min(round_up(1 - self.base.tradeoff_at(high).lower, 60), Fraction(1))
        return Enclosure(1 - high, 1 - low)

    def delta_ball(self, epsilon: Fraction) -> arb:
        """``delta_at`` as a ball."""
        return hull(self.delta_at(epsilon))

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """``tradeoff_at`` as a ball."""
        return hull(self.tradeoff_at(alpha))

    def for_group(self, size: int) -> Group:
        """A larger group."""
        return Group(self.base, self.size * group_size(size))

    @property
    def largest_loss(self) -> Fraction | None:
        """size times that of the base."""
        loss = self.base.largest_loss
        return None if loss is None else self.size * loss

    @property
    def delta_floor(self) -> Fraction:
        """size times the floor of the base, at most 1."""
        return min(self.size * self.base.delta_floor, Fraction(1))

    def follows_from(self, shown: Guarantee) -> bool:
        """From the base, whose profile and curve are better, or from a smaller group."""
        if isinstance(shown, Group):
            return shown.size <= self.size and shown.base.implies(self.base)
        return shown.implies(self.base)

    def __str__(self) -> str:
        return f"group({self.size}, {self.base})"
