"""The guarantee of Laplace noise whose scale follows the data: smooth sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.balls import ball
from dpverify.privacy.guarantees.base import Guarantee, group_size, positive
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.numbers import Exact, exact, render, settle, to_float
from dpverify.privacy.sources import Source, SourceStatus, states

_LINES = 96


@states(
    Source(
        "NRS07",
        "noise in proportion to a smooth bound on the local sensitivity",
        SourceStatus.CHANGED_CONSTANTS,
        "Laplace noise, with the exact profile of a shift and a dilation together",
    )
)
@dataclass(frozen=True, slots=True, init=False)
class SmoothLaplace(Guarantee):
    """A guarantee as private as a Laplace variable whose scale follows the data.

    The variable moves by up to ``shift`` times the smaller of its two scales, while its scale
    changes by a factor of up to ``growth``; shift > 0 and growth > 1. The profile is the exact
    supremum over such pairs from epsilon = shift + ln(growth) on, and a bound on it below
    (proof in spec/theory/smooth.py:profile). No epsilon has delta = 0, for the tails of the
    longer noise are heavier.
    """

    shift: Fraction
    growth: Fraction

    def __init__(self, shift: Exact, growth: Exact) -> None:
        settle(self, shift=positive(shift, "shift"))
        settle(self, growth=exact(growth, "growth"))
        if self.growth <= 1:
            raise ValueError(
                f"growth = {growth}; a scale that follows the data grows by a factor above 1."
            )

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return (1 - 1/g) e^(-(epsilon + ln(g))/(g - 1)) cosh(shift / (g - 1)) from
        epsilon = shift + ln(g) on.

        g is the growth. Below that epsilon, return the smaller of two bounds. One is what
        (epsilon, delta)-DP at shift + ln(g) implies. The other is the largest of the formula
        above (from shift - ln(g) on), of 1 - e^-((shift - epsilon) / 2) plus the second half of
        the formula, and of 1 - e^-max((shift + ln(g) - epsilon) / 2, ln(g) - epsilon).
        """
        at, logarithm, shift = ball(epsilon), ball(self.growth).log(), ball(self.shift)
        end = shift + logarithm
        near, far = self._halves(at)
        if end <= at:
            return near + far
        gap = logarithm - at
        bound = _one_minus_exp(((gap + shift) / 2).max(gap))
        bound = bound.max(_one_minus_exp((shift - at) / 2) + far)
        if not at + logarithm < shift:
            bound = bound.max(near + far)
        delta = sum(self._halves(end), arb(0))
        answers = ((end.exp() - at.exp()) / (1 + end.exp())).max(arb(0))
        return bound.min(delta + (1 - delta) * answers)

    def _halves(self, epsilon: arb) -> tuple[arb, arb]:
        """Return the mass of either tail beyond where the loss is epsilon, less e^epsilon times
        the other law's.
        """
        rise, shift = ball(self.growth - 1), ball(self.shift)
        half, start = rise / (2 * (1 + rise)), epsilon + ball(self.growth).log()
        return half * ((shift - start) / rise).exp(), half * (-(start + shift) / rise).exp()

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return the best of some of the lines 1 - delta - e^epsilon alpha and their mirror
        images.
        """
        top = to_float(self.shift) + 40 * math.log(to_float(self.growth))
        step = Fraction(max(min(top, 1e6), 1e-6) / _LINES)
        best = arb(0)
        for k in range(_LINES):
            epsilon = k * step
            left, growth = 1 - self.delta_ball(epsilon), ball(epsilon).exp()
            best = best.max(left - growth * ball(alpha)).max((left - ball(alpha)) / growth)
        return best

    def for_group(self, size: int) -> Guarantee:
        """Return the group's own guarantee: see ``Group``."""
        return Group(self, size) if group_size(size) > 1 else self

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown has a smaller shift and a smaller growth."""
        if isinstance(shown, SmoothLaplace):
            return shown.shift <= self.shift and shown.growth <= self.growth
        return shown.is_perfect()

    def __str__(self) -> str:
        return f"smooth-laplace({render(self.shift)}, {render(self.growth)})"


def _one_minus_exp(loss: arb) -> arb:
    """Return 1 - e^-loss, 0 for a negative one."""
    return -((-loss.max(arb(0))).expm1())
