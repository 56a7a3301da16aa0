"""Gaussian differential privacy, and its approximate form."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from math import isqrt

from flint import arb

from dpverify.privacy.balls import Enclosure, ball, enclose
from dpverify.privacy.guarantees.base import (
    FAR,
    GaussianPart,
    Guarantee,
    group_size,
    positive,
    probability,
    tradeoff_argument,
)
from dpverify.privacy.guarantees.curves import gaussian_delta, gaussian_tradeoff, lies_below
from dpverify.privacy.guarantees.group import Group
from dpverify.privacy.numbers import Exact, render, settle
from dpverify.privacy.sources import Source, states


@states(
    Source("DRS22", "Gaussian differential privacy: definition, profile, group privacy"),
    Source("BW18", "Theorem 8, the exact profile of Gaussian noise"),
)
@dataclass(frozen=True, slots=True, init=False)
class GaussianDP(Guarantee):
    """mu-GDP: as private as N(0, 1) against N(mu, 1). Source: Dong, Roth, Su 2022.

    ``mu_squared`` is kept exactly, since squares add up in composition; ``GaussianDP.of_square``
    takes it directly.
    """

    mu_squared: Fraction

    def __init__(self, mu: Exact) -> None:
        settle(self, mu_squared=positive(mu, "mu") ** 2)

    @classmethod
    def of_square(cls, mu_squared: Exact) -> GaussianDP:
        """Return the guarantee of mu = sqrt(mu_squared)."""
        made = object.__new__(cls)
        settle(made, mu_squared=positive(mu_squared, "mu_squared"))
        return made

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return Phi(-epsilon / mu + mu / 2) - e^epsilon Phi(-epsilon / mu - mu / 2)."""
        return gaussian_delta(ball(self.mu_squared), ball(epsilon))

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return Phi(Phi^-1(1 - alpha) - mu)."""
        return gaussian_tradeoff(ball(self.mu_squared), ball(alpha))

    def for_group(self, size: int) -> GaussianDP:
        """Return the guarantee of size * mu."""
        return GaussianDP.of_square(group_size(size) ** 2 * self.mu_squared)

    @property
    def concentrated(self) -> Fraction:
        """Implied rho of zCDP: mu^2 / 2, from the Renyi divergence of two Gaussians."""
        return self.mu_squared / 2

    @property
    def gaussian(self) -> GaussianPart:
        """The guarantee itself."""
        return GaussianPart(self.mu_squared)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether the guarantee shown has a smaller mu, or a profile below this one's."""
        part = shown.gaussian
        if part is not None and not (part.delta or part.tv) and part.mu_squared <= self.mu_squared:
            return True
        return lies_below(shown, self.mu_squared, Fraction(0))

    def __str__(self) -> str:
        return f"gaussian({_root(self.mu_squared)})"


@states(
    Source(
        "OURS", "approximate GDP: composition and profile", note="see spec/theory/rules.py, proof"
    )
)
@dataclass(frozen=True, slots=True, init=False)
class ApproximateGaussianDP(Guarantee):
    """mu-GDP up to an event of the output (``delta``) and a change of the law (``tv``).

    There are measures P0, Q0 of mass at most 1 with P(S) - P0(S) <= delta + tv, P0(S) -
    P(S) <= tv and the same for Q, and with P0(S) - e^e Q0(S) <= delta_mu(e) and the same with
    the two exchanged, for every event S and every real e. So delta is for what may be cut off,
    tv for what may be moved. All three parameters add up under adaptive composition
    (mu by squares); delta comes without a factor e^epsilon, tv with 1 + e^epsilon.
    """

    mu_squared: Fraction
    delta: Fraction
    tv: Fraction

    def __init__(self, mu: Exact, delta: Exact = 0, tv: Exact = 0) -> None:
        self._set(positive(mu, "mu") ** 2, delta, tv)

    @classmethod
    def of_square(cls, mu_squared: Exact, delta: Exact = 0, tv: Exact = 0) -> ApproximateGaussianDP:
        """Return the guarantee of mu = sqrt(mu_squared)."""
        made = object.__new__(cls)
        made._set(positive(mu_squared, "mu_squared"), delta, tv)
        return made

    def _set(self, mu_squared: Fraction, delta: Exact, tv: Exact) -> None:
        settle(self, mu_squared=mu_squared)
        settle(self, delta=probability(delta, "delta"))
        settle(self, tv=probability(tv, "tv"))

    def delta_ball(self, epsilon: Fraction) -> arb:
        """Return the least of delta_mu(e) + delta + (1 + e^e) tv over e in [0, epsilon], at most 1.

        Without tv that is at e = epsilon. With it, the sum is convex in e^e and least where
        Phi(-e / mu - mu / 2) = tv.
        """
        square, at = ball(self.mu_squared), ball(epsilon)
        if not self.tv:
            return (gaussian_delta(square, at) + ball(self.delta)).min(arb(1))
        tv, mu = ball(self.tv), square.sqrt()
        turn = mu * (arb(2).sqrt() * (2 * tv).erfcinv() - mu / 2)
        best = turn.mid() if turn < at else at
        best = best if best > 0 else arb(0)
        total = gaussian_delta(square, best) + ball(self.delta) + (1 + best.exp()) * tv
        # The tangent at ``best`` bounds the minimum from below; its slope there is nearly zero.
        slope = tv - ((best / mu + mu / 2) / arb(2).sqrt()).erfc() / 2
        slack = abs(slope) * best.exp() if best < at and best > 0 else arb(0)
        return total.union(total - slack).min(arb(1))

    def tradeoff_ball(self, alpha: Fraction) -> arb:
        """Return the best of the lines 1 - delta(epsilon) - e^epsilon alpha and their mirrors.

        With G the curve of mu-GDP and x* = Phi(-mu / 2) its fixed point, the lines of
        epsilon >= 0 give G(alpha + tv) - delta - tv up to x* and its tangent beyond; the mirror
        images give G(alpha + delta + tv) - tv from x* on and the same tangent before.
        """
        square = ball(self.mu_squared)
        fixed = (square.sqrt() / arb(8).sqrt()).erfc() / 2
        near, far = alpha + self.tv, alpha + self.delta + self.tv
        tangent = 2 * fixed - ball(far + self.tv)
        value = tangent.max(arb(0))
        if ball(near) < fixed:
            value = value.max(gaussian_tradeoff(square, ball(near)) - ball(self.delta + self.tv))
        if far < 1 and ball(far) > fixed:
            value = value.max(gaussian_tradeoff(square, ball(far)) - ball(self.tv))
        return value

    def tradeoff_at(self, alpha: Exact) -> Enclosure:
        """Return the trade-off curve; with tv, the best line at alpha = 0 has a finite slope."""
        at = tradeoff_argument(alpha)
        if at == 0 and self.tv:
            return enclose(lambda: self.tradeoff_ball(at))
        return Guarantee.tradeoff_at(self, at)

    def for_group(self, size: int) -> Guarantee:
        """Return the group's own guarantee: see ``Group``."""
        return Group(self, size) if group_size(size) > 1 else self

    @property
    def delta_floor(self) -> Fraction:
        """Floor of the profile: delta; with tv, the least of the sum."""
        return self.delta_at(FAR).upper if self.tv else self.delta

    @property
    def concentrated(self) -> Fraction | None:
        """Implied rho of zCDP; only without the additive terms."""
        return None if self.delta or self.tv else self.mu_squared / 2

    @property
    def gaussian(self) -> GaussianPart:
        """The guarantee itself."""
        return GaussianPart(self.mu_squared, self.delta, self.tv)

    def follows_from(self, shown: Guarantee) -> bool:
        """Return whether no parameter shown is larger, or the profile shown is below this one's.

        This one's profile is then taken without its tv.
        """
        part = shown.gaussian
        if part is not None and (
            part.mu_squared <= self.mu_squared and part.delta <= self.delta and part.tv <= self.tv
        ):
            return True
        return lies_below(shown, self.mu_squared, self.delta)

    def __str__(self) -> str:
        return f"agaussian({_root(self.mu_squared)}, {render(self.delta)}, {render(self.tv)})"


def _root(square: Fraction) -> str:
    """Return sqrt(square), as a rational if it is one."""
    over, under = isqrt(square.numerator), isqrt(square.denominator)
    if Fraction(over, under) ** 2 == square:
        return render(Fraction(over, under))
    return f"sqrt({render(square)})"
