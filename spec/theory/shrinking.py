"""Balls that contain the mean of subgaussian vectors, and the distance of a record from their
centers.

The model, in units of the deviation: x_i = m + z_i with independent z_i, E z_i = 0 and
E exp<u, z_i> <= exp(|u|^2 / 2) for every u. It matters for accuracy alone.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from math import ceil, isqrt
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .laws import real
from .obligations import require

_STEP = Source("BDKU20", "MVM, one step: clip, noise, the next ball")


@states(_STEP, Source("OURS", "tail of a shifted subgaussian vector", note="by Chernoff"))
def clip_radius(radius: Any, d: int, beta: Fraction) -> Any:
    """Return a length that |z + v| exceeds with probability at most beta, for every fixed
    |v| <= r.

    R^2 = d + r^2 + 2 sqrt((d + 2 r^2) L) + 2 L, L = ln(1 / beta). Proof: for 0 < s < 1/2 and a
    standard normal g, exp(s |y|^2) = E_g exp(sqrt(2 s) <g, y>). So E exp(s |z + v|^2) is at
    most E_g exp(s |g|^2 + sqrt(2 s) <g, v>) = (1 - 2s)^(-d/2) exp(s |v|^2 / (1 - 2s)). Less s
    (d + |v|^2), its logarithm is at most (d + 2 |v|^2) s^2 / (1 - 2s), for -(d/2) ln(1 - 2s) -
    s d <= d s^2 / (1 - 2s) and s / (1 - 2s) - s = 2 s^2 / (1 - 2s). From here on as in
    joint.normal_length, with d + 2 |v|^2 for the d of the roots; and R grows with |v|. QED
    """
    level = mp.log(1 / real(beta))
    cross = 2 * mp.sqrt((d + 2 * mp.mpf(radius) ** 2) * level)
    return mp.sqrt(d + mp.mpf(radius) ** 2 + cross + 2 * level)


@states(_STEP, Source("OURS", "the next ball, with a noisy count"))
def next_radius(number: Any, noise: Any, wrong: Any, radius: Any, d: int, beta: Fraction) -> Any:
    """Return a bound on the distance of center + (sum + noise g) / number from m that fails with
    probability at most 2 beta, if no record was clipped.

    ``sum`` is over n records minus the center, |center - m| <= ``radius``; g is standard
    normal; and number - n is normal of deviation ``wrong``, 0 where n is public
    (then the failure is beta). Proof: except with probability beta, |number - n| <= wrong
    sqrt(2 L) = q number. The difference is (sum of z_i + noise g) / number + (n / number - 1)
    (m - center). Given the number, the first part is subgaussian of proxy (n / number^2 +
    noise^2 / number^2) <= (1 + q) / number + (noise / number)^2, so that clip_radius(0) times
    its root bounds it, except with probability beta; the second is at most q radius. QED

    In later steps center and records depend on each other. Where nothing was clipped the center
    is m plus a times the sum of the z_i, noise and rounding, with 0 <= a <= 1 / number up to
    second order. So record i less the center is (1 - a) z_i, plus what does not depend on z_i,
    plus the rounding; hence clip_radius holds at every step if the rounding is added to it.
    (That a center moves by at most 2 clip radii does not matter then: it moves by at most
    radius + next radius, and the next is smaller.) A union bound over n records and the
    steps shows: nothing is clipped and every ball contains m, except with probability
    steps (2n + 2) beta.
    """
    level = mp.log(1 / real(beta))
    q = mp.mpf(wrong) * mp.sqrt(2 * level) / number
    proxy = (1 + q) / number + (mp.mpf(noise) / number) ** 2
    return clip_radius(0, d, beta) * mp.sqrt(proxy) + q * radius


def rung_above(radius: Any) -> Fraction:
    """Return the least m 2^e with 8 <= m <= 15 that is at least the radius > 0: few radii, so few
    balls.
    """
    exponent = int(mp.floor(mp.log(radius, 2))) - 3
    while radius > 15 * mp.mpf(2) ** exponent:
        exponent += 1
    while radius <= 15 * mp.mpf(2) ** (exponent - 1):
        exponent -= 1
    unit = Fraction(2) ** exponent
    return max(8, int(mp.ceil(radius / real(unit)))) * unit


def root_up(value: Fraction) -> Fraction:
    """Return the least multiple of 2^-40 whose square is at least ``value`` > 0."""
    return Fraction(isqrt(ceil(value * 4**40) - 1) + 1, 2**40)


def solve(matrix: tuple[tuple[int, ...], ...], right: tuple[Fraction, ...]) -> tuple[Fraction, ...]:
    """Return the y with C y = right, exactly, by elimination."""
    d = len(right)
    rows = [[Fraction(e) for e in row] + [b] for row, b in zip(matrix, right, strict=True)]
    for j in range(d):
        pivot = next(i for i in range(j, d) if rows[i][j])
        rows[j], rows[pivot] = rows[pivot], rows[j]
        rows[j] = [e / rows[j][j] for e in rows[j]]
        for i in range(d):
            if i != j:
                rows[i] = [a - rows[i][j] * b for a, b in zip(rows[i], rows[j], strict=True)]
    return tuple(row[d] for row in rows)


# --- obligations --------------------------------------------------------------------------------

_CUT = mp.mpf(10) ** -11
_BETAS = tuple(map(Fraction, ("1/10", "1/100", "1/1000000")))


def shifted_tail(length: Any, shift: Any, d: int) -> Any:
    """Return P(|g + v| > length), |v| = shift: chi-square of d + 2 j degrees, j Poisson of mean
    shift^2 / 2.
    """
    mean, half = mp.mpf(shift) ** 2 / 2, mp.mpf(length) ** 2 / 2
    upper = mp.gammainc(mp.mpf(d) / 2, half, mp.inf, regularized=True)
    term = half ** (mp.mpf(d) / 2) * mp.exp(-half) / mp.gamma(mp.mpf(d) / 2 + 1)
    weight, total, left = mp.exp(-mean), mp.mpf(0), mp.mpf(1)
    first, j = mp.mpf(d) / 2 + 1, 0
    while left > _CUT and j < 10_000:
        total, left = total + weight * upper, left - weight
        upper, term = upper + term, term * half / (first + j)
        j += 1
        weight *= mean / j
    return total + left


@states(_STEP)
def obligation_clip_radius(claimed: Callable[..., Any] = clip_radius) -> int:
    """Check for normal vectors that the tail beyond the radius is at most beta, and above beta at
    half of it; for signs, which are subgaussian too, it is at most beta (all 2^d of them,
    shifts along an axis and a diagonal).
    """
    cases = 0
    for d, shift, beta in product((1, 2, 10, 100), (0, 1, 20), _BETAS):
        length = claimed(shift, d, beta)
        tails = [shifted_tail(share * length, shift, d) for share in (1, mp.mpf(1) / 2)]
        case = f"d = {d}, shift {shift}, beta {beta}: {tails}"
        require(tails[0] <= real(beta) + 2 * _CUT and real(beta) < tails[1], case)
        cases += 1
    for d, shift, beta in product((1, 4, 8), (0, 1, 10), _BETAS):
        for v in ((shift, *[0] * (d - 1)), (shift / mp.sqrt(d),) * d):
            square = claimed(shift, d, beta) ** 2
            far = sum(
                sum((s + c) ** 2 for s, c in zip(signs, v, strict=True)) > square
                for signs in product((-1, 1), repeat=d)
            )
            require(far <= real(beta) * 2**d, f"{far} of 2^{d} signs, shift {v}, beta {beta}")
            cases += 1
    return cases


@states(_STEP)
def obligation_next_radius(claimed: Callable[..., Any] = next_radius) -> int:
    """Check for normal records that the error exceeds the radius with probability at most 2 beta
    (beta where the number is public), and 3/10 of it with more: by quadrature over the number's
    noise.
    """
    cases = 0
    settings = product((1, 20), ((20, 3, 1), (1000, 100, 10), (500, 50, 0)), (1, 20))
    for (d, (n, noise, wrong), radius), beta in product(settings, _BETAS[:2]):
        missed = [_missed(claimed, (d, n, noise, wrong, radius, beta), share) for share in (1, 0.3)]
        allowed = real(beta) * (2 if wrong else 1)
        case = f"d = {d}, n = {n}, noise {noise}, {wrong}, radius {radius}, {beta}: {missed}"
        require(missed[0] <= allowed < missed[1], case)
        cases += 1
    return cases


def _missed(claimed: Callable[..., Any], setting: tuple[Any, ...], share: Any) -> Any:
    """Return the probability that the error exceeds ``share`` of the claimed radius: over
    21 numbers within 6 deviations.
    """
    d, n, noise, wrong, radius, beta = setting
    total = weights = mp.mpf(0)
    for i in range(-10, 11) if wrong else (0,):
        x = mp.mpf(6 * i) / 10
        number = n + wrong * x
        if number >= 1:
            most = share * claimed(number, noise, wrong, radius, d, beta)
            width = mp.sqrt(n + mp.mpf(noise) ** 2) / number
            shift = abs(n / number - 1) * radius / width
            total += mp.exp(-(x**2) / 2) * shifted_tail(most / width, shift, d)
        weights += mp.exp(-(x**2) / 2)
    return total / weights
