"""The guarantees' privacy profiles and trade-off curves again, by other means, at mpmath's
precision.

Where the kernel has a closed form, here is a sum, an integral or a search; the tests compare
the two.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real


@states(Source("KOV15", "Section 3, the dominating mechanism"))
def profile(epsilon0: Fraction, delta0: Fraction, epsilon: Fraction) -> Any:
    """Return the largest delta at ``epsilon`` that an (epsilon0, delta0)-DP mechanism can have.

    The dominating pair puts delta0 where the other law has nothing, and shares the rest as
    randomized response does: (1 - delta0) (e^epsilon0 - e^epsilon) / (1 + e^epsilon0).
    """
    if epsilon >= epsilon0:
        return real(delta0)
    top, here = mp.exp(real(epsilon0)), mp.exp(real(epsilon))
    return real(delta0) + (1 - real(delta0)) * (top - here) / (1 + top)


@states(Source("BW18", "Theorem 8, the exact profile of Gaussian noise"))
def gaussian_profile(mu_squared: Fraction, epsilon: Fraction) -> Any:
    """Return P(L > epsilon) - e^epsilon Q(L > epsilon) for N(mu, 1) against N(0, 1).

    The loss is above epsilon where x > epsilon / mu + mu / 2. Needs a working precision of at
    least the bits that the two nearly equal terms share.
    """
    mu = mp.sqrt(real(mu_squared))
    corner = real(epsilon) / mu + mu / 2
    p = mp.erfc((corner - mu) / mp.sqrt(2)) / 2
    return p - mp.exp(real(epsilon)) * mp.erfc(corner / mp.sqrt(2)) / 2


@states(Source("DRS22", "Gaussian differential privacy: definition, profile, group privacy"))
def gaussian_tradeoff(mu_squared: Fraction, alpha: Fraction) -> Any:
    """Return Phi(Phi^-1(1 - alpha) - mu), the quantile by a search."""
    mu, a = mp.sqrt(real(mu_squared)), real(alpha)
    low, high = mp.mpf(-60), mp.mpf(60)
    for _ in range(int(mp.mp.prec) + 10):
        middle = (low + high) / 2
        low, high = (middle, high) if mp.erfc(middle / mp.sqrt(2)) / 2 > a else (low, middle)
    return mp.erfc((mu - low) / mp.sqrt(2)) / 2


@states(Source("CKS20", "Proposition 12, from zCDP to (epsilon, delta)"))
def zcdp_profile(rho: Fraction, epsilon: Fraction) -> Any:
    """Return inf over orders a > 1 of e^((a - 1)(a rho - epsilon)) / (a - 1) (1 - 1/a)^a.

    It uses golden section search in ln(a - 1): the derivative of the exponent changes sign
    once.
    """
    r, e = real(rho), real(epsilon)

    def exponent(x: Any) -> Any:
        t = mp.exp(x)
        return t * ((1 + t) * r - e) + t * mp.log(t) - (1 + t) * mp.log(1 + t)

    low, high, golden = mp.mpf(-2000), mp.mpf(2000), (mp.sqrt(5) - 1) / 2
    left, right = high - golden * (high - low), low + golden * (high - low)
    at_left, at_right = exponent(left), exponent(right)
    for _ in range(int(mp.mp.prec)):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - golden * (high - low)
            at_left = exponent(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + golden * (high - low)
            at_right = exponent(right)
    return mp.exp(exponent((low + high) / 2))


@states(Source("DDR20", "Section 3, bounded range and its worst pair"))
def bounded_range_profile(epsilon0: Fraction, epsilon: Fraction) -> Any:
    """Return the largest delta of the pairs whose losses are t and t - epsilon0, over a fine grid
    of t.

    It is a lower bound that the closed form must meet within the grid's error.
    """
    if epsilon >= epsilon0:
        return mp.mpf(0)
    e0, e, steps = real(epsilon0), real(epsilon), 4000
    most, all_ = mp.exp(e0), mp.expm1(e0)

    def at(i: int) -> Any:
        t = e + (e0 - e) * i / steps
        mass = (most - mp.exp(t)) / all_  # mass of the loss t under P
        return mass * -mp.expm1(e - t)

    return max(at(i) for i in range(steps + 1))


@states(Source("DMNS06", "Section 3, noise calibrated to L1 sensitivity", note="for one integer"))
def discrete_laplace_profile(shift: int, scale: Fraction, epsilon: Fraction) -> Any:
    """Return the sum over z of (P(z) - e^epsilon Q(z))^+, P centered at 0 and Q at ``shift``,
    tails lumped.
    """
    q, factor = mp.exp(-1 / real(scale)), mp.exp(real(epsilon))
    unit = (1 - q) / (1 + q)
    tail = 1 / (1 + q)  # P(Z <= 0)
    gaps = [unit * (q**z - factor * q ** (shift - z)) for z in range(1, shift)]
    gaps += [tail * (1 - factor * q**shift), tail * (q**shift - factor)]
    return sum(gap for gap in gaps if gap > 0)


@states(Source("OURS", "approximate GDP: composition and profile"))
def approximate_gaussian_profile(
    mu_squared: Fraction, delta: Fraction, tv: Fraction, epsilon: Fraction
) -> Any:
    """Return the least of delta_mu(e) + delta + (1 + e^e) tv over a fine grid of e in
    [0, epsilon], <= 1.

    Proof that each is an upper bound: P(S) <= P0(S) + delta + tv <= e^e Q0(S) + delta_mu(e) +
    delta + tv <= e^e (Q(S) + tv) + delta_mu(e) + delta + tv, and what holds at e holds at
    epsilon >= e. QED.
    """
    steps = 400 if tv else 0
    points = [epsilon * i / steps for i in range(steps)] + [epsilon]
    sums = (
        gaussian_profile(mu_squared, e) + real(delta) + (1 + mp.exp(real(e))) * real(tv)
        for e in points
    )
    return min(mp.mpf(1), *sums)


@states(Source("DRS22", "the trade-off curve is the conjugate of the profile"))
def tradeoff(profile_at: Callable[[Fraction], Any], alpha: Fraction, top: Fraction) -> Any:
    """Return the best of the lines 1 - delta(e) - e^e alpha, and their mirror images, over a grid
    of e.

    It is a lower bound that the closed forms must meet within the grid's error.
    """
    best, steps = mp.mpf(0), 2000
    for i in range(steps + 1):
        epsilon = top * i / steps
        delta, factor = profile_at(epsilon), mp.exp(real(epsilon))
        best = max(best, 1 - delta - factor * real(alpha), (1 - delta - real(alpha)) / factor)
    return best
