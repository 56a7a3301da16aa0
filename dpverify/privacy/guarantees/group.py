"""Guarantees for datasets that differ in several records."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from flint import arb

from dpverify.privacy.balls import Enclosure, ball, enclose, hull
from dpverify.privacy.guarantees.base import (
    Guarantee,
    group_size,
    profile_argument,
    tradeoff_argument,
)
from dpverify.privacy.numbers import Exact
from dpverify.privacy.sources import Source, states

_MOST_STEPS = 1000
_SHORT = Fraction(1, 1 << 2000)


@states(
    Source("DRS22", "group privacy of a trade-off curve"),
    Source("OURS", "group privacy of a profile, in equal steps"),
)
@dataclass(frozen=True, slots=True)
class Group(Guarantee):
    """A guarantee under which ``base`` holds for each of ``size`` steps between two datasets.

    For guarantees whose groups have no guarantee of the same kind: approximate GDP and
    profiles.
    """

    base: Guarantee
    size: int

    def __post_init__(self) -> None:
        if isinstance(self.base, Group):
            raise TypeError("A group of groups is one group; use base.for_group(size).")
        if group_size(self.size) < 2:
            raise ValueError("size = 1; a single record has the guarantee itself.")

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """Return the least of (1 + e^s + ... + e^((size - 1) s)) delta(s) over s <= epsilon / size.

        At most 1. Each step from one dataset to the next costs s: P_0(S) <= e^s P_1(S) +
        delta(s) <= e^(2 s) P_2(S) + (1 + e^s) delta(s) <= ...
        """
        step = profile_argument(epsilon) / self.size
        best = _best_step(self)
        return self.at_step(min(step, best))

    def at_step(self, step: Fraction) -> Enclosure:
        """Return the sum at this very step, which need not be the best one."""
        one, steps = self.base.delta_at(step), self._growth(step)
        most = Fraction(1)
        return Enclosure(min(steps.lower * one.lower, most), min(steps.upper * one.upper, most))

    def rough_delta(self, epsilon: Fraction) -> Fraction:
        """Return the sum at the step epsilon / size, roughly."""
        step = epsilon / self.size
        return self._growth(step).upper * self.base.rough_delta(step)

    def _growth(self, step: Fraction) -> Enclosure:
        """Return 1 + e^s + ... + e^((size - 1) s)."""
        if not step:
            return Enclosure(Fraction(self.size), Fraction(self.size))
        return enclose(lambda: ball(self.size * step).expm1() / ball(step).expm1())

    def tradeoff_at(self, alpha: Exact) -> Enclosure:
        """Return 1 - f applied ``size`` times to alpha: so the power of a test grows, step by step.

        Beyond a thousand steps nothing is said.
        """
        low = high = tradeoff_argument(alpha)
        if self.size > _MOST_STEPS:
            return Enclosure(Fraction(0), 1 - low)
        for _ in range(self.size):
            low = _short(1 - self.base.tradeoff_at(low).upper)
            high = min(_short(1 - self.base.tradeoff_at(high).lower) + _SHORT, Fraction(1))
        return Enclosure(1 - high, 1 - low)

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return ``delta_at`` as a ball."""
        return hull(self.delta_at(epsilon))

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return ``tradeoff_at`` as a ball."""
        return hull(self.tradeoff_at(alpha))

    def for_group(self, size: int) -> Group:
        """Return a larger group."""
        return Group(self.base, self.size * group_size(size))

    @property
    def largest_loss(self) -> Fraction | None:
        """Largest privacy loss: size times that of the base."""
        loss = self.base.largest_loss
        return None if loss is None else self.size * loss

    @property
    def delta_floor(self) -> Fraction:
        """Value of the profile at the best step; 0 without additive terms."""
        if not self.base.delta_floor:
            return Fraction(0)
        return self.at_step(_best_step(self)).upper

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown is the base, or a smaller group.

        The base's profile and curve are better.
        """
        if isinstance(shown, Group):
            return shown.size <= self.size and shown.base.implies(self.base)
        return shown.implies(self.base)

    def __str__(self) -> str:
        return f"group({self.size}, {self.base})"


def _short(value: Fraction) -> Fraction:
    """Return a multiple of 2^-2000 at or below the value."""
    return value // _SHORT * _SHORT


@lru_cache(maxsize=256)
def _best_step(group: Group) -> Fraction:
    """Return a step near which the sum is least, at most 2^14 / size; any would be sound.

    With an additive term the sum falls and then rises.
    """
    low, high = Fraction(0), Fraction(1 << 14, group.size)
    if not group.base.delta_floor:
        return high
    for _ in range(50):
        third = (high - low) / 3
        left, right = (group.size * step for step in (low + third, high - third))
        if group.rough_delta(left) < group.rough_delta(right):
            high = _rounded(high - third)
        else:
            low = _rounded(low + third)
    return high


def _rounded(step: Fraction) -> Fraction:
    return Fraction(round(step * (1 << 64)), 1 << 64)
