"""Mean of normal records that are drawn in to a ball, and the largest eigenvalue of normal noise on
second moments: what the limits of a robust mean make of both.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .obligations import require

_UNSURE = mp.mpf(1) / 1000


@states(Source("OURS", "what drawing normal records in makes of their mean"))
def response(d: int, radius: Any, reach: Any, off: Any = 0) -> Any:
    """Return the mean of normal records N(m, I) within ``radius`` of 0, drawn in to ``reach``, over
    m, for |m| = ``off``.

    With h(|y|) = min(1, reach / |y|) inside and 0 outside, by Stein's identity E h(|y|) y = m E h
    for a noncentral squared length of d + 2 degrees; over the share inside. Noncentral is of 2 k
    degrees more for a Poisson number k of mean |m|^2 / 2.
    """
    radius, reach, mean = mp.mpf(radius), mp.mpf(reach), mp.mpf(off) ** 2 / 2

    def below(degrees: int, length: Any) -> Any:
        return mp.gammainc(mp.mpf(degrees) / 2, 0, length**2 / 2, regularized=True)

    whole, inside = mp.mpf(0), mp.mpf(0)
    for k in range(math.ceil(mean + 6 * (mp.sqrt(mean) + 3)) if mean else 1):
        weight = mp.exp(-mean) * mean**k / mp.factorial(k)
        more = d + 2 * k
        inverse = mp.gamma(mp.mpf(more + 1) / 2) / mp.gamma(mp.mpf(more + 2) / 2) / mp.sqrt(2)
        between = below(more + 1, radius) - below(more + 1, reach)
        whole += weight * (below(more + 2, reach) + reach * inverse * between)
        inside += weight * below(more, radius)
    return whole / inside


@states(Source("OURS", "the largest eigenvalue of symmetric normal noise"))
def noise_room(d: int) -> Any:
    """Return a number of standard deviations that the largest eigenvalue of the noise on second
    moments exceeds with probability at most 1 / 1000.

    It is sqrt(2 d) + sqrt(2 ln 1000), times 1.001 for the weight 239 / 169.

    With normal entries of variance 1 on the diagonal and 1/2 off it, u^T E u has increments of
    mean square 2 - 2 (u . v)^2 <= 2 |u - v|^2, those of sqrt(2) g . u; so the mean of the
    maximum is at most sqrt(2) E|g| <= sqrt(2 d) (Sudakov and Fernique). It is 1-Lipschitz in
    Frobenius' norm, so it is further above by t with probability at most exp(-t^2 / 2). Off the
    diagonal the variance is 1 / (239 / 169)^2, 1.00002 times 1/2; rounding to 2^-40 is less
    than what is left of 1.001.
    """
    return (mp.sqrt(2 * d) + mp.sqrt(-2 * mp.log(_UNSURE))) * mp.mpf("1.001")


@states(Source("OURS", "what drawing normal records in makes of their mean"))
def obligation_response(claimed: Callable[[int, Any, Any, Any], Any] = response) -> int:
    """Check that on a line and in a plane the mean of normal records that are drawn in, by
    quadrature of their density about a mean that is a thousandth or a deviation off, is that of all
    times the claimed response, up to a millionth.
    """
    cases, offs = 0, (mp.mpf(1) / 1000, mp.mpf(1))
    balls = (3, 1), (3, 3), (mp.mpf("1.5"), mp.mpf("0.5"))
    with mp.workdps(15):
        for d, (radius, reach), off in product((1, 2), balls, offs):

            def summed(
                power: int, d: int = d, radius: Any = radius, reach: Any = reach, off: Any = off
            ) -> Any:
                """Integrate, over the ball, 1 or h(|y|) times the record's first coordinate."""

                def at(r: Any) -> Any:
                    limited = min(mp.mpf(1), reach / r) if power else mp.mpf(1)
                    bulk = mp.exp(-(r**2 + off**2) / 2)
                    if d == 1:
                        turned = mp.sinh(r * off) if power else mp.cosh(r * off)
                        return 2 * (limited * r) ** power * bulk * turned / mp.sqrt(2 * mp.pi)
                    return (limited * r) ** power * r * bulk * mp.besseli(power, r * off)

                return mp.quad(at, [0, reach, radius])

            quotient, said = summed(1) / summed(0) / off, claimed(d, radius, reach, off)
            require(
                abs(quotient / said - 1) < mp.mpf(10) ** -6,
                f"d = {d}, {off} off, {reach} of {radius}: {quotient}, {said}",
            )
            cases += 1
    return cases
