"""Perfect privacy, pure and approximate differential privacy."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from flint import arb

from dpverify.privacy.balls import Enclosure, ball, enclose, is_at_most, round_up
from dpverify.privacy.guarantees.base import (
    GaussianPart,
    Guarantee,
    group_size,
    positive,
    probability,
    profile_argument,
)
from dpverify.privacy.numbers import Exact, approximately, render, settle
from dpverify.privacy.sources import Source, states

_ZERO = Fraction(0)


@dataclass(frozen=True, slots=True)
class PerfectPrivacy(Guarantee):
    """A guarantee that the output has the same law on neighboring datasets.

    Such a mechanism reads public facts only.
    """

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return zero at every epsilon."""
        return arb(0)

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return 1 - alpha: no test beats guessing."""
        return ball(1 - alpha)

    def for_group(self, size: int) -> PerfectPrivacy:
        """Return the guarantee itself: groups have perfect privacy too."""
        group_size(size)
        return self

    @property
    def largest_loss(self) -> Fraction:
        """Largest privacy loss: 0."""
        return _ZERO

    @property
    def concentrated(self) -> Fraction:
        """Least rho of zCDP: 0."""
        return _ZERO

    @property
    def gaussian(self) -> GaussianPart:
        """Gaussian part without a shift."""
        return GaussianPart(_ZERO)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the profile shown is zero everywhere.

        Nothing else implies perfect privacy.
        """
        return shown.is_perfect()

    def __str__(self) -> str:
        return "perfect"


@states(
    Source("DMNS06", "Definition of epsilon-indistinguishability"),
    Source("BS16", "pure DP implies epsilon^2 / 2 zCDP"),
)
@dataclass(frozen=True, slots=True, init=False)
class PureDP(Guarantee):
    """epsilon-differential privacy: P(S) <= e^epsilon Q(S) for every event S.

    Source: Dwork, McSherry, Nissim, Smith 2006.
    """

    epsilon: Fraction

    def __init__(self, epsilon: Exact) -> None:
        settle(self, epsilon=positive(epsilon, "epsilon"))

    @property
    def delta(self) -> Fraction:
        """Failure probability: zero, for pure DP is approximate DP without one."""
        return _ZERO

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return (e^eps0 - e^epsilon) / (1 + e^eps0) below eps0, zero from eps0 on (tight)."""
        return _response(self.epsilon, epsilon)

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return max(0, 1 - e^epsilon alpha, e^-epsilon (1 - alpha))."""
        return _two_lines(self.epsilon, _ZERO, alpha)

    def for_group(self, size: int) -> PureDP:
        """Return the guarantee of size * epsilon."""
        return PureDP(group_size(size) * self.epsilon)

    @property
    def largest_loss(self) -> Fraction:
        """Largest privacy loss: epsilon."""
        return self.epsilon

    @property
    def concentrated(self) -> Fraction:
        """Implied rho of zCDP: epsilon^2 / 2 (Bun, Steinke 2016)."""
        return self.epsilon**2 / 2

    @property
    def gaussian(self) -> GaussianPart:
        """Least mu whose trade-off curve passes below the corner of this one's.

        The trade-off curve of pure DP is two lines that meet at alpha = beta = 1 /
        (1 + e^epsilon). A Gaussian curve is convex and ends at the same points, so it lies
        below both lines when it passes through the corner: Phi(-mu / 2) = 1 / (1 + e^epsilon).
        """
        return GaussianPart(enclose(lambda: _gaussian_square(self.epsilon)).upper)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the losses of the guarantee shown are no larger."""
        return shown.largest_loss is not None and shown.largest_loss <= self.epsilon

    def __str__(self) -> str:
        return f"pure({render(self.epsilon)})"


@states(Source("DKMMN06", "Definition of (epsilon, delta)-indistinguishability"))
@dataclass(frozen=True, slots=True, init=False)
class ApproxDP(Guarantee):
    """(epsilon, delta)-differential privacy: P(S) <= e^epsilon Q(S) + delta for every event S.

    Source: Dwork, Kenthapadi, McSherry, Mironov, Naor 2006.
    """

    epsilon: Fraction
    delta: Fraction

    def __init__(self, epsilon: Exact, delta: Exact) -> None:
        settle(self, epsilon=positive(epsilon, "epsilon"))
        settle(self, delta=probability(delta, "delta"))

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return delta + (1 - delta) (e^eps0 - e^epsilon) / (1 + e^eps0), and delta from eps0 on.

        Source: Kairouz, Oh, Viswanath 2015, Section 3 (the dominating pair of this guarantee).
        """
        return ball(self.delta) + ball(1 - self.delta) * _response(self.epsilon, epsilon)

    def delta_at(self, epsilon: Exact) -> Enclosure:
        """Return the profile as ``delta_ball`` does; exactly delta from eps0 on."""
        at = profile_argument(epsilon)
        if at >= self.epsilon:
            return Enclosure(self.delta, self.delta)
        share = enclose(lambda: _response(self.epsilon, at))
        above = 1 - self.delta
        upper = min(self.delta + above * share.upper, Fraction(1))
        return Enclosure(self.delta + above * share.lower, upper)

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return max(0, 1 - delta - e^epsilon alpha, e^-epsilon (1 - delta - alpha))."""
        return _two_lines(self.epsilon, self.delta, alpha)

    def for_group(self, size: int) -> ApproxDP:
        """Return (size * epsilon, delta (e^(size epsilon) - 1) / (e^epsilon - 1))-DP, delta
        rounded up.
        """
        count, epsilon = group_size(size), self.epsilon
        if count == 1:
            return self

        def grown() -> arb:
            return ball(self.delta) * ball(count * epsilon).expm1() / ball(epsilon).expm1()

        if not is_at_most(grown, Fraction(999, 1000)):
            raise ValueError(
                f"{self} says nothing of a group of {count}: delta would grow by a factor of "
                f"(e^{approximately(count * epsilon)} - 1) / (e^{approximately(epsilon)} - 1), "
                "to 1."
            )
        return ApproxDP(count * epsilon, round_up(enclose(grown).upper))

    @property
    def delta_floor(self) -> Fraction:
        """Floor of the profile: delta."""
        return self.delta

    @property
    def largest_loss(self) -> Fraction | None:
        """Largest privacy loss; only with delta = 0."""
        return None if self.delta else self.epsilon

    @property
    def concentrated(self) -> Fraction | None:
        """Implied rho of zCDP; only with delta = 0."""
        return None if self.delta else self.epsilon**2 / 2

    @property
    def gaussian(self) -> GaussianPart:
        """Gaussian part of PureDP, beside an event of probability delta
        (the decomposition of KOV15).
        """
        return GaussianPart(enclose(lambda: _gaussian_square(self.epsilon)).upper, self.delta)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the profile shown is at most delta at epsilon."""
        return shown.at_most(self.epsilon, self.delta)

    def __str__(self) -> str:
        return f"approx({render(self.epsilon)}, {render(self.delta)})"


def _response(claimed: Fraction, epsilon: Fraction) -> arb:
    """Return the profile of randomized response with odds e^claimed."""
    if epsilon >= claimed:
        return arb(0)
    # expm1 keeps the relative precision when the two epsilons are close.
    return -(ball(epsilon - claimed).expm1()) / (1 + ball(-claimed).exp())


def _two_lines(epsilon: Fraction, delta: Fraction, alpha: Fraction) -> arb:
    left = ball(1 - delta) - ball(epsilon).exp() * ball(alpha)
    right = ball(-epsilon).exp() * ball(1 - delta - alpha)
    return left.max(right).max(arb(0))


def _gaussian_square(epsilon: Fraction) -> arb:
    """Return mu^2 with Phi(-mu / 2) = 1 / (1 + e^epsilon)."""
    return 8 * (2 / (1 + ball(epsilon).exp())).erfcinv() ** 2
