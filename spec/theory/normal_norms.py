"""Lengths of normal vectors in norms other than Euclid's: the length of spherical noise in l_1 and
in l_infinity.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .obligations import require
from .quadrature import integral

NORMS = Source("OURS", "root mean square l_p norms of normal vectors, p = 1, 2, infinity")


@states(NORMS)
def root_mean_square(d: int, power: float) -> Any:
    """Compute the root mean square l_p norm of d standard normal numbers: sqrt(d + 2 d
    (d - 1) / pi) for p = 1, sqrt(d) for 2, and for infinity the root of the integral of 2 t
    P(some |x_j| > t).
    """
    if power == 1:
        return mp.sqrt(d + 2 * mp.mpf(d) * (d - 1) / mp.pi)
    if power == 2:
        return mp.sqrt(d)
    if power != mp.inf:
        raise ValueError(f"power = {power}; there are 1, 2 and infinity.")
    with mp.workdps(20):
        square = integral(
            lambda t: 2 * t * (1 - mp.erf(t / mp.sqrt(2)) ** d), mp.linspace(0, 12, 13)
        )
        return mp.sqrt(square)


@states(NORMS)
def obligation_norms(claimed: Callable[[int, float], Any] = root_mean_square) -> int:
    """Check the norms of one number, where all are equal, and of two, by sums over a plane; for
    more numbers they are in order, l_infinity between the roots of 2 ln d - ln ln d - 3 and of
    2 ln d + 4.
    """
    cases = 0
    places = [mp.mpf(k) / 8 for k in range(-64, 65)]
    masses = [mp.npdf(x) / 8 for x in places]
    norms = {1: lambda x, y: abs(x) + abs(y), 2: mp.hypot, mp.inf: lambda x, y: max(abs(x), abs(y))}
    for power, norm in norms.items():
        require(abs(claimed(1, power) - 1) < mp.mpf("1e-9"), f"l_{power} of one number")
        square = mp.fsum(
            p * q * norm(x, y) ** 2
            for x, p in zip(places, masses, strict=True)
            for y, q in zip(places, masses, strict=True)
        )
        average = claimed(2, power) ** 2
        require(abs(average / square - 1) < mp.mpf("0.01"), f"l_{power}: {average}, not {square}")
        cases += 2
    for d in (10, 1000):
        one, two, most = (claimed(d, power) for power in (1, 2, mp.inf))
        require(most < two < one <= mp.sqrt(d) * two, f"d = {d}: {one}, {two}, {most}")
        low, high = 2 * mp.log(d) - mp.log(mp.log(d)) - 3, 2 * mp.log(d) + 4
        require(low < most**2 < high, f"d = {d}: {most}")
        cases += 1
    return cases
