"""The base of every guarantee: its profile, its trade-off curve, and what follows from it."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, Self

from flint import arb

from dpverify.privacy.balls import Enclosure, enclose
from dpverify.privacy.calibration import Unreachable, boundary
from dpverify.privacy.numbers import Exact, exact, render, whole
from dpverify.privacy.sealed import guard

FAR = Fraction(1 << 64)
"""Epsilon beyond which no profile changes."""


@dataclass(frozen=True, slots=True)
class GaussianPart:
    """Domination by Gaussian noise of shift^2 / variance ``mu_squared``, up to two kinds of events.

    ``delta`` and ``tv`` are the additive terms of ApproximateGaussianDP.
    """

    mu_squared: Fraction
    delta: Fraction = Fraction(0)
    tv: Fraction = Fraction(0)


class Guarantee(ABC):
    """A statement about the laws P, Q of neighboring datasets, in both directions.

    Its *privacy profile* delta(epsilon) bounds sup_S P(S) - e^epsilon Q(S); its *trade-off curve*
    f(alpha) bounds from below the type II error of every test of P against Q of type I error alpha.
    Every number is an enclosure; the safe ends are the upper one of delta and of epsilon and the
    lower one of f. ``a.implies(b)`` says that every mechanism with guarantee a has b.
    """

    __slots__ = ()

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        guard(cls, "__init__")  # once for each object: a claim may rest on it

    @abstractmethod
    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return the profile at ``epsilon`` >= 0 at the working precision.

        The precision is that of ``dpverify.privacy.balls``.
        """

    @abstractmethod
    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return the trade-off curve at ``alpha`` in (0, 1) at the working precision."""

    @abstractmethod
    def for_group(self, size: int) -> Guarantee:
        """Return the guarantee for datasets that differ in up to ``size`` records.

        Raises ValueError if none holds.
        """

    @abstractmethod
    def __str__(self) -> str:
        """Return the ledger's spelling; ``parse_guarantee`` reads it back."""

    @abstractmethod
    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether every mechanism with guarantee ``shown`` has this one; never wrongly
        yes.
        """

    @property
    def delta_floor(self) -> Fraction:
        """Lower bound of the profile over all epsilons, however large."""
        return Fraction(0)

    @property
    def largest_loss(self) -> Fraction | None:
        """An epsilon such that this implies epsilon-DP; None if there is none."""
        return None

    @property
    def concentrated(self) -> Fraction | None:
        """A rho such that this implies rho-zCDP; None if none is known."""
        return None

    @property
    def gaussian(self) -> GaussianPart | None:
        """Parameters of an ApproximateGaussianDP that this implies; None if none are known."""
        return None

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """Return the privacy profile at ``epsilon`` >= 0; the upper end is safe."""
        at = profile_argument(epsilon)
        delta = enclose(lambda: self.delta_ball(at))
        return Enclosure(max(delta.lower, Fraction(0)), min(delta.upper, Fraction(1)))

    def epsilon_at(self, delta: Exact) -> Enclosure:
        """Return the least epsilon whose delta is at most ``delta`` in [0, 1).

        The upper end is safe. Raises ValueError when no epsilon reaches it.
        """
        goal = exact(delta, "delta")
        if not 0 <= goal < 1:
            raise ValueError(f"delta = {delta} is outside [0, 1); give a probability, say '1e-6'.")
        if self.at_most(Fraction(0), goal):
            return Enclosure(Fraction(0), Fraction(0))
        try:
            if goal < self.delta_floor or (goal == 0 and self.largest_loss is None):
                raise Unreachable
            low, high = boundary(
                lambda epsilon: self.at_most(epsilon, goal),
                signed=None if goal == 0 else lambda epsilon: self._above(epsilon, goal),
            )
        except Unreachable:
            floor = self.delta_floor
            why = (
                f"its delta stays above {render(floor)}" if floor else "none that is tried suffices"
            )
            raise ValueError(
                f"{self} has no epsilon at delta = {render(goal)}: {why}. Give a larger delta."
            ) from None
        while low > 0 and self.delta_at(low).lower <= goal:  # an undecided point is no lower end
            low = max(low - 4 * (high - low), Fraction(0))
        return Enclosure(low, high)

    def _above(self, epsilon: Fraction, goal: Fraction) -> float:
        """Return about the logarithm of the profile over the goal, for guesses."""
        ratio = self.delta_at(epsilon).upper / goal
        return math.log(ratio.numerator) - math.log(ratio.denominator) if ratio else -math.inf

    def rough_delta(self, epsilon: Fraction) -> Fraction:
        """Return about the upper end of the profile, for searches that prove nothing."""
        return self.delta_at(epsilon).upper

    def at_most(self, epsilon: Fraction, delta: Fraction) -> bool:
        """Return whether the profile at ``epsilon`` is at most ``delta``; never wrongly yes."""
        return self.delta_at(epsilon).upper <= delta

    def tradeoff_at(self, alpha: Exact) -> Enclosure:
        """Return the least type II error at type I error ``alpha`` in [0, 1]; safe at the lower
        end.
        """
        at = tradeoff_argument(alpha)
        if at in (0, 1):  # the limits of the lines 1 - delta - e^epsilon alpha
            value = (1 - at) * (1 - self.delta_floor)
            return Enclosure(value, value)
        tradeoff = enclose(lambda: self.tradeoff_ball(at))
        return Enclosure(max(tradeoff.lower, Fraction(0)), min(tradeoff.upper, Fraction(1)))

    def implies(self, other: Guarantee) -> bool:
        """Return whether every mechanism with this guarantee has ``other`` too; never wrongly
        yes.
        """
        if not isinstance(other, Guarantee):
            raise TypeError(f"{other!r} is not a guarantee; write PureDP(1).")
        return self == other or other.follows_from(self)

    def __add__(self, other: Guarantee) -> Guarantee:
        """Compose two releases, the second chosen after seeing the first: ``a + b``."""
        from dpverify.privacy.guarantees.arithmetic import composed

        return composed(self, other)

    def __mul__(self, times: int) -> Guarantee:
        """Compose so many releases with this guarantee, each chosen after the earlier ones:
        ``3 * a``.
        """
        from dpverify.privacy.guarantees.arithmetic import multiplied

        return multiplied(self, times)

    __rmul__ = __mul__

    def __truediv__(self, parts: int) -> Self:
        """Return the guarantee so many of which compose to this one: ``a / 3``."""
        from dpverify.privacy.guarantees.arithmetic import divided

        return divided(self, parts)

    def is_perfect(self) -> bool:
        """Return whether the guarantee says that neighbors have the same law."""
        return self.delta_at(0).upper == 0


def profile_argument(epsilon: Exact) -> Fraction:
    """Return ``epsilon`` as an exact number, refused below 0."""
    value = exact(epsilon, "epsilon")
    if value < 0:
        raise ValueError(f"epsilon = {epsilon}; a privacy profile is asked for at epsilon >= 0.")
    return value


def tradeoff_argument(alpha: Exact) -> Fraction:
    """Return ``alpha`` as an exact number, refused outside [0, 1]."""
    value = exact(alpha, "alpha")
    if not 0 <= value <= 1:
        raise ValueError(f"alpha = {alpha} is outside [0, 1]; a type I error is a probability.")
    return value


def positive(value: Exact, name: str) -> Fraction:
    """Return an exact number above 0; ValueError otherwise."""
    number = exact(value, name)
    if number <= 0:
        raise ValueError(f"{name} = {value} is not positive; give a number above 0, say 1.")
    return number


def probability(value: Exact, name: str) -> Fraction:
    """Return an exact number in [0, 1); ValueError otherwise."""
    number = exact(value, name)
    if not 0 <= number < 1:
        raise ValueError(
            f"{name} = {value} is outside [0, 1); give a small probability, say '1e-6'."
        )
    return number


def group_size(size: object) -> int:
    """Return a number of records, at least 1."""
    count = whole(size, "size")
    if count < 1:
        raise ValueError(f"size = {count}; a group has at least 1 record.")
    return count
