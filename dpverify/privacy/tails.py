"""Upper tails of the integer noises, as balls."""

from __future__ import annotations

from enum import Enum
from fractions import Fraction

from flint import arb

from dpverify.privacy.balls import ball


class Tail(Enum):
    """The law of a symmetric integer noise Z, with P(Z >= t) in closed form. NONE: Z = 0."""

    NONE = "no"
    DISCRETE_LAPLACE = "discrete Laplace"
    ROUNDED_GAUSSIAN = "rounded Gaussian"

    def __str__(self) -> str:
        return self.value

    def at_least(self, t: int, scale: Fraction) -> arb:
        """Return P(Z >= t) for noise of this scale, for every integer t.

        The scale of a Gaussian is its standard deviation. Laplace, with q = e^(-1 / scale):
        q^t / (1 + q) from t = 1 on, and below that 1 less the other tail. Gaussian:
        round(scale N) >= t if scale N > t - 1/2.
        """
        if self is Tail.NONE:
            return arb(t <= 0)
        if self is Tail.DISCRETE_LAPLACE:
            beyond = ball(-max(t, 1 - t) / scale).exp() / (1 + ball(-1 / scale).exp())
            return beyond if t >= 1 else 1 - beyond
        return (ball((t - Fraction(1, 2)) / scale) / arb(2).sqrt()).erfc() / 2
