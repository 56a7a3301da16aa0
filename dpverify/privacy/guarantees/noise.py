"""Guarantees of being as private as a certain noise, finer than the (epsilon, delta) they imply."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.balls import ball
from dpverify.privacy.guarantees.approximate import PureDP
from dpverify.privacy.guarantees.base import GaussianPart, Guarantee, group_size, positive
from dpverify.privacy.numbers import Exact, render, settle, whole
from dpverify.privacy.sources import Source, states


@states(Source("DDR20", "Section 3, bounded range and its worst pair"))
@dataclass(frozen=True, slots=True, init=False)
class BoundedRange(Guarantee):
    """A guarantee that all privacy losses of a pair lie in an interval of length epsilon.

    The exponential mechanism has it. It implies epsilon-DP and epsilon^2 / 8-zCDP. Source:
    Durfee, Rogers 2019; Dong, Durfee, Rogers 2020.
    """

    epsilon: Fraction

    def __init__(self, epsilon: Exact) -> None:
        settle(self, epsilon=positive(epsilon, "epsilon"))

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return (1 - e^(-(eps0 - epsilon) / 2))^2 / (1 - e^-eps0) below eps0, zero from there on.

        The worst pair has the two losses t and t - eps0; t = (eps0 + epsilon) / 2 is the worst
        t.
        """
        if epsilon >= self.epsilon:
            return arb(0)
        gap = (ball(epsilon - self.epsilon) / 2).expm1()
        return -(gap**2) / ball(-self.epsilon).expm1()

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return 1 - c + c^2 / (c + e^eps0 alpha), c = 1 / (1 - e^-eps0).

        This is the largest of the lines 1 - delta - e^epsilon alpha, which are a parabola in
        e^(epsilon/2).
        """
        c = -1 / ball(-self.epsilon).expm1()
        return 1 - c + c**2 / (c + ball(self.epsilon).exp() * ball(alpha))

    def for_group(self, size: int) -> BoundedRange:
        """Return the guarantee of size * epsilon: the intervals add up."""
        return BoundedRange(group_size(size) * self.epsilon)

    @property
    def largest_loss(self) -> Fraction:
        """Largest privacy loss: epsilon, for an interval of losses contains 0."""
        return self.epsilon

    @property
    def concentrated(self) -> Fraction:
        """Implied rho of zCDP: epsilon^2 / 8 (Cesar, Rogers 2021; Hoeffding's lemma)."""
        return self.epsilon**2 / 8

    @property
    def gaussian(self) -> GaussianPart:
        """Gaussian part of pure DP of half the length.

        That pair is the worst of all (proof in spec/theory/quantiles.py).
        """
        return PureDP(self.epsilon / 2).gaussian

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown has a shorter interval, or is pure DP of half the
        length.

        The losses of the latter are in [-e, e].
        """
        if isinstance(shown, BoundedRange):
            return shown.epsilon <= self.epsilon
        return shown.largest_loss is not None and 2 * shown.largest_loss <= self.epsilon

    def __str__(self) -> str:
        return f"range({render(self.epsilon)})"


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity", note="for one integer"))
@dataclass(frozen=True, slots=True, init=False)
class DiscreteLaplaceShift(Guarantee):
    """A guarantee: as private as one integer moved by ``shift`` under discrete Laplace noise.

    The noise has this ``scale``. It is finer than (shift / scale)-DP, which it implies. It
    holds as well for several integers that move by ``shift`` in all, for one after another is a
    chain of smaller shifts.
    """

    shift: int
    scale: Fraction

    def __init__(self, shift: int, scale: Exact) -> None:
        settle(self, shift=whole(shift, "shift"))
        if shift < 1:
            raise ValueError(f"shift = {shift}; a query that moves at all moves by at least 1.")
        settle(self, scale=positive(scale, "scale"))

    @property
    def epsilon(self) -> Fraction:
        """Largest privacy loss: shift / scale."""
        return self.shift / self.scale

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return P(Z <= m) - e^epsilon P(Z <= m - shift).

        m is the largest integer whose loss is above epsilon. The loss of z is
        (|z - shift| - |z|) / scale: decreasing from shift / scale at 0 to its negative at
        shift.
        """
        if epsilon >= self.epsilon:
            return arb(0)
        below = (self.shift - epsilon * self.scale) / 2
        m = -(-below.numerator // below.denominator) - 1
        q = ball(-1 / self.scale).exp()
        tail, other = self._power(m + 1), ball(epsilon).exp() * self._power(self.shift - m)
        return 1 - (tail + other) / (1 + q)

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return the least type II error of tests that reject where z is large.

        Between two such tests, it is a straight line. The curve is the largest of the lines 1 -
        delta(epsilon) - e^epsilon alpha at the losses (shift - 2 z) / scale, of both signs;
        they rise, then fall, in z.
        """
        low, high = 0, self.shift
        while high - low > 1:  # the first z after which the lines fall
            middle = (low + high) // 2
            rises = self._line(middle + 1, alpha).mid() > self._line(middle, alpha).mid()
            low, high = (middle, high) if rises else (low, middle)
        ends = range(max(0, low - 1), min(self.shift, high + 1) + 1)
        best = arb(0)
        for z in ends:
            best = best.max(self._line(z, alpha))
        return best

    def _line(self, z: int, alpha: Fraction) -> arb:
        epsilon = (self.shift - 2 * z) / self.scale
        if epsilon >= 0:
            return 1 - self.delta_ball(epsilon) - ball(epsilon).exp() * ball(alpha)
        return ball(epsilon).exp() * (1 - self.delta_ball(-epsilon) - ball(alpha))

    def _power(self, exponent: int) -> arb:
        return ball(-exponent / self.scale).exp()

    def masses(self) -> dict[int, arb]:
        """Return P's mass of each loss, in units of 1 / scale."""
        q = ball(-1 / self.scale).exp()
        inner = (1 - q) / (1 + q)
        masses = {self.shift - 2 * z: inner * self._power(z) for z in range(1, self.shift)}
        return masses | {self.shift: 1 / (1 + q), -self.shift: self._power(self.shift) / (1 + q)}

    def for_group(self, size: int) -> DiscreteLaplaceShift:
        """Return the guarantee of size * shift: the power of threshold tests composes along the
        shifts.
        """
        return DiscreteLaplaceShift(group_size(size) * self.shift, self.scale)

    @property
    def largest_loss(self) -> Fraction:
        """Largest privacy loss: shift / scale."""
        return self.epsilon

    @property
    def concentrated(self) -> Fraction:
        """Implied rho of zCDP: that of pure DP."""
        return self.epsilon**2 / 2

    @property
    def gaussian(self) -> GaussianPart:
        """Gaussian part of pure DP."""
        return PureDP(self.epsilon).gaussian

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown has a smaller shift under the same noise."""
        same = isinstance(shown, DiscreteLaplaceShift) and shown.scale == self.scale
        return shown.is_perfect() or (
            same and isinstance(shown, DiscreteLaplaceShift) and shown.shift <= self.shift
        )

    def __str__(self) -> str:
        return f"laplace-shift({self.shift}, {render(self.scale)})"
