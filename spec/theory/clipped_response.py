"""Means of normal records of unit covariance that are clipped to a ball, or counted only where
they are inside.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import accumulate, pairwise, product
from typing import Any, NamedTuple

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .chi_square import below
from .obligations import require
from .quadrature import integral

_DIGITS = 20
_STEIN = Source("OURS", "the mean of clipped normal records", note="by Stein's identity")
_WAY_BACK = Source("OURS", "the mean of normal records from that of clipped ones")


class Moment(NamedTuple):
    """Moment for y ~ N(m, I) with |m| = offset: the mean of limited records along m over |m|, its
    derivative by |m|, and P(|y| <= r).
    """

    length: Any
    ratio: Any
    slope: Any
    inside: Any


def moment(d: int, radius: Any, offset: Any, outside: str) -> Moment:
    """Return the moment: clipped m E min(1, r / |y|), for d + 2 degrees; inside m
    P(|y| <= r; d + 2 degrees) / P(|y| <= r).

    For h = exp(-s |y|^2): E h = (1 + 2 s)^(-d/2) exp(-s m^2 / (1 + 2 s)), and E y h = m
    (1 + 2 s)^(-d/2 - 1) times the same exponential, which is m E h of d + 2 degrees; transforms
    determine both sides for every h. Noncentral of d degrees is chi-square of d + 2 k for k
    Poisson of mean m^2 / 2; so d E h / d(m^2) is half of E h of two more degrees minus E h, and
    d (m g) / dm = g + m^2 (g of two more degrees - g); of a ratio g of two likewise. QED

    All terms are positive: floats give 12 digits or more.
    """
    at, weights = float(radius), poisson(float(offset) ** 2 / 2)

    def mixed(term: Callable[[int, float], float], more: int) -> Any:
        return mp.mpf(math.fsum(w * term(d + 2 * (k + more), at) for k, w in enumerate(weights)))

    inside = mixed(_inside, 0)
    if outside == "mask":
        g, next_ = mixed(_inside, 1) / inside, mixed(_inside, 2) / inside
        return Moment(offset * g, g, g + offset**2 * (next_ - g**2), inside)
    g, next_ = mixed(_shrunk, 1), mixed(_shrunk, 2)
    return Moment(offset * g, g, g + offset**2 * (next_ - g), inside)


def poisson(mean: float) -> list[float]:
    """Return the probabilities of 0, 1, 2, ... under a Poisson law, up to 12 deviations and 40 more
    than its mean. They are computed from the likeliest on, for e^-mean may be no float.
    """
    if not mean:
        return [1.0]
    likeliest, most = int(mean), int(mean + 12 * math.sqrt(mean) + 40)
    down = list(accumulate(range(likeliest, 0, -1), lambda w, k: w * k / mean, initial=1.0))
    up = list(accumulate(range(likeliest + 1, most), lambda w, k: w * mean / k, initial=1.0))
    parts = [*reversed(down), *up[1:]]
    total = math.fsum(parts)
    return [part / total for part in parts]


@lru_cache(maxsize=1 << 14)
def _inside(degrees: int, radius: float) -> float:
    with mp.workdps(_DIGITS):
        return float(below(degrees, radius**2))


@lru_cache(maxsize=1 << 14)
def _shrunk(degrees: int, radius: float) -> float:
    """Return E min(1, r / |y|) for chi-square of these degrees, at least 2."""
    ratio = math.exp(math.lgamma((degrees - 1) / 2) - math.lgamma(degrees / 2)) / math.sqrt(2)
    return _inside(degrees, radius) + radius * ratio * (1 - _inside(degrees - 1, radius))


def farthest(d: int, outside: str) -> Any:
    """Return the largest distance from a center at which a mean can be told."""
    return (mp.sqrt(d) if outside == "clip" else min(mp.sqrt(d) / 2, mp.mpf(20))) + 2


def nearly_empty(d: int, radius: Any, outside: str) -> bool:
    """Return whether less than a thousandth of the records are inside, about their mean: then a
    mask tells nothing.
    """
    return bool(outside == "mask" and below(d, mp.mpf(radius) ** 2) < mp.mpf(1) / 1000)


@states(_WAY_BACK)
def offset_of(d: int, radius: Any, length: Any, outside: str) -> Any:
    """Return the offset with this length, by bisection to 2^-40 of the farthest.

    It is the farthest for every longer length, and 0 for a ball that is nearly empty.

    Lengths grow with offsets: the Jacobian of m -> E clip(N(m, I)) is E of that of clip, which
    is positive; inside a ball it is the covariance of the law truncated to it.
    """
    if nearly_empty(d, radius, outside):
        return mp.mpf(0)
    low, high = mp.mpf(0), farthest(d, outside)
    if moment(d, radius, high, outside).length <= length:
        return high
    for _ in range(40):
        middle = (low + high) / 2
        if moment(d, radius, middle, outside).length > length:
            high = middle
        else:
            low = middle
    return (low + high) / 2


@lru_cache(maxsize=256)
def best_masked_bound(d: int, n: Any, mu: Any, moves: int) -> Any:
    """Return the squared radius d 2^(k / 8), k from -24 to 47, with the least predicted error of a
    mean at the center, among balls that are not nearly empty.

    The mean of n P records inside has the variance a / (n P) in every direction, a =
    P_(d+2) / P, its noise s = 2 r / (n P mu) or half of it; and it follows the mean with the
    slope a, which is that variance.
    """

    def square(bound: Any) -> Any:
        at = moment(d, mp.sqrt(bound), mp.mpf(0), "mask")
        noise = (4 if moves == 2 else 1) * bound / (n * at.inside * mu) ** 2
        return (at.ratio / (n * at.inside) + noise) / at.ratio**2

    bounds = (d * mp.mpf(2) ** (mp.mpf(k) / 8) for k in range(-24, 48))
    return min((b for b in bounds if not nearly_empty(d, mp.sqrt(b), "mask")), key=square)


# --- obligations --------------------------------------------------------------------------------

_DIMENSIONS = (1, 2, 7)
_RADII = ("0.5", "1", "1.7")
_OFFSETS = ("0.1", "0.7", "2")


def _worlds() -> list[tuple[int, Any, Any, str]]:
    """Return dimensions, radii in sqrt(d), offsets and the treatment of records outside."""
    return [
        (d, mp.sqrt(d) * mp.mpf(r), mp.mpf(m), outside)
        for d, r, m, outside in product(_DIMENSIONS, _RADII, _OFFSETS, ("clip", "mask"))
    ]


@states(_STEIN)
def obligation_moment(claimed: Callable[..., Moment] = moment) -> int:
    """Check to 9 digits that lengths and shares are the integrals over |y| = t, and slopes
    difference quotients.

    The density of |y| is t (t / m)^(d/2 - 1) exp(-(t^2 + m^2) / 2) I_(d/2-1)(m t), and along m
    a direction at this length has the mean I_(d/2)(m t) / I_(d/2-1)(m t).
    """
    cases = 0
    for d, r, m, outside in _worlds():
        half = mp.mpf(d) / 2

        def density(t: Any, order: Any, d: int = d, m: Any = m) -> Any:
            own = mp.exp(-((t - m) ** 2) / 2) * mp.besseli(order, m * t) * mp.exp(-m * t)
            return t * (t / m) ** (mp.mpf(d) / 2 - 1) * own

        far = r + mp.sqrt(d) + m
        ends = [mp.mpf(0), r / 2, r, r + 2, (r + 6 + far) / 2, far + 4, far + 8, far + 12]
        parts = integral(lambda t: density(t, half - 1), ends[:3])  # noqa: B023
        along = integral(lambda t: t * density(t, half), ends[:3])  # noqa: B023
        if outside == "clip":
            along += r * integral(lambda t: density(t, half), ends[2:])  # noqa: B023
        else:
            along /= parts
        moments, h = claimed(d, r, m, outside), mp.mpf(10) ** -6
        ends_ = [claimed(d, r, m + side * h, outside).length for side in (-1, 1)]
        slope = (ends_[1] - ends_[0]) / (2 * h)
        case = f"{d}, {r}, {m}, {outside}: {moments}, not {along}, {parts}, {slope}"
        require(abs(moments.length / along - 1) < 1e-9, case)
        require(abs(moments.ratio * m / along - 1) < 1e-9, case)
        require(abs(moments.inside / parts - 1) < 1e-9, case)
        require(abs(moments.slope / slope - 1) < 1e-7, case)
        cases += 1
    return cases


@states(_WAY_BACK)
def obligation_offset(claimed: Callable[..., Any] = offset_of) -> int:
    """Check that the offset of a length is the one it came from, to 1e-9; slopes are positive and
    fall with the offset, up to the farthest.
    """
    cases = 0
    for d, r, m, outside in _worlds():
        if m < farthest(d, outside):
            offset = claimed(d, r, moment(d, r, m, outside).length, outside)
            require(abs(offset - m) < 1e-9, f"{d}, {r}, {outside}: {offset}, not {m}")
        end = farthest(d, outside)
        require(claimed(d, r, r, outside) == end, f"{d}, {r}, {outside}: beyond")
        slopes = [moment(d, r, end * k / 6, outside).slope for k in range(7)]
        falling = all(a > b > 0 for a, b in pairwise(slopes))
        require(falling, f"{d}, {r}, {outside}: {slopes}")
        cases += 1
    return cases
