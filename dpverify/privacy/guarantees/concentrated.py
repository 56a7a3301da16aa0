"""Zero-concentrated differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.balls import ball, working_precision
from dpverify.privacy.guarantees.base import Guarantee, group_size, positive
from dpverify.privacy.numbers import Exact, render, settle
from dpverify.privacy.sources import Source, states

_FARTHEST = 1 << 20  # largest |log2(t)| of the orders 1 + t that are searched
_NEWTON_STEPS = 60
_CLOSE = arb(2) ** -40


@states(
    Source("BS16", "Definition of zero-concentrated differential privacy, group privacy"),
    Source("CKS20", "Proposition 12, from zCDP to (epsilon, delta)"),
)
@dataclass(frozen=True, slots=True, init=False)
class ZeroConcentratedDP(Guarantee):
    """rho-zCDP: the Renyi divergence of every order a > 1 is at most a rho, both ways.

    The profile and the trade-off curve are what conversion proves, best over all orders; a
    mechanism with this guarantee may do better. Source: Bun, Steinke 2016.
    """

    rho: Fraction

    def __init__(self, rho: Exact) -> None:
        settle(self, rho=positive(rho, "rho"))

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return the least of e^(t ((1 + t) rho - epsilon)) t^t / (1 + t)^(1 + t) over t > 0.

        The order is 1 + t. Source: Canonne, Kamath, Steinke 2020, Proposition 12. The exponent
        is convex in t, so the tangent at a point near the minimum bounds it from below between
        two points where the derivative has changed its sign; from above, any point does.
        """
        rho, at = ball(self.rho), ball(epsilon)
        t = _best_order(self.rho, epsilon)
        if t is None:  # the best order is 1 + 2^-2^20 or closer, where the exponent is nearly 0
            return arb(1).union(1 - arb(2) ** -(_FARTHEST // 2))
        near, far = t * (1 - _CLOSE), t * (1 + _CLOSE)
        exponent = t * ((1 + t) * rho - at) - t * (1 / t).log1p() - t.log1p()
        if not (_slope(near, rho, at) < 0 and _slope(far, rho, at) > 0):
            return arb("nan")  # more precision is needed
        slack = abs(_slope(t, rho, at)) * t * _CLOSE
        return exponent.union(exponent - slack).exp()

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return max(1 - F(alpha), the inverse of F at 1 - alpha).

        F(x) = e^-(sqrt(ln 1/x) - sqrt(rho))^2. P(S) <= (e^(a rho) Q(S))^((a - 1) / a) for every
        order a; F is the least such bound.
        """
        root = ball(self.rho).sqrt()
        inverse = (-(((-ball(1 - alpha).log()).sqrt() + root) ** 2)).exp()
        logarithm = -ball(alpha).log()
        if not logarithm > ball(self.rho):
            return inverse
        return inverse.max(-((-((logarithm.sqrt() - root) ** 2)).expm1()))

    def for_group(self, size: int) -> ZeroConcentratedDP:
        """Return the guarantee of size^2 rho."""
        return ZeroConcentratedDP(group_size(size) ** 2 * self.rho)

    @property
    def concentrated(self) -> Fraction:
        """The guarantee's own rho."""
        return self.rho

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown implies a rho that is no larger."""
        return shown.concentrated is not None and shown.concentrated <= self.rho

    def __str__(self) -> str:
        return f"zcdp({render(self.rho)})"


def _slope(t: arb, rho: arb, epsilon: arb) -> arb:
    """Return the derivative of the exponent; log1p keeps its precision for huge and for tiny t."""
    return (2 * t + 1) * rho - epsilon - (1 / t).log1p()


def _best_order(rho: Fraction, epsilon: Fraction) -> arb | None:
    """Return a point near the zero of the (increasing, concave) derivative; None below 2^-2^20.

    The arithmetic here decides only how near the point is, not whether the enclosure holds.
    """
    with working_precision(64):
        r, e = ball(rho), ball(epsilon)
        low, high = -_FARTHEST, _FARTHEST
        if not _slope(arb(2) ** low, r, e) < 0:
            return None
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if _slope(arb(2) ** middle, r, e) < 0 else (low, middle)
    r, e, t = ball(rho), ball(epsilon), arb(2) ** low
    # Newton's steps from the left stay on the left, for the derivative is concave.
    for _ in range(_NEWTON_STEPS):
        step = _slope(t, r, e).mid() / (2 * r + 1 / (t * (1 + t))).mid()
        t = (t - step).mid()
        if abs(step) < t * arb(2) ** -70:
            break
    return t
