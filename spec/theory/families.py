"""Exponential families with one parameter, stated anew: their maps, and moments of limited
statistics by Gauss's rule.

Numbers are floats: they decide where records are clipped and how a released mean is read, which
privacy does not depend on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .caches import cache, lru_cache
from .obligations import require
from .quadrature import in_panels, integral

_OURS = Source("OURS", "clipped moments of exponential families")
_ZZ25 = Source(
    "ZZ25",
    "Proposition B.3, variance of a truncated law",
    SourceStatus.CHANGED_CONSTANTS,
    note="computed, beside a bound",
)
_PANELS, _LEVEL = 4, 4  # panels of a piece, of 24 nodes each
LARGEST = 1.7e308


class Limited(NamedTuple):
    """Moments of the statistic clipped to an interval, or inside it: mean, variance, d mean / d
    theta, P(inside).
    """

    mean: float
    variance: float
    slope: float
    inside: float


@dataclass(frozen=True)
class Known:
    """Family of densities: log(t, theta) is the logarithm of T's density, theta t + log h(t), up
    to a constant; records are record(t), increasing.
    """

    log: Callable[[float, float], float]
    support: tuple[float, float]
    record: Callable[[float], float]
    statistic: Callable[[float], float]
    natural: Callable[[float], float]
    coordinate: Callable[[float], float]
    back: Callable[[float], float]
    middle: Callable[[float], float]
    window: Callable[[float], tuple[float, float]]
    lattice: bool = False


def _tilted(t: float, theta: float) -> float:
    return theta * t


def _same(t: float) -> float:
    return t


def _capped_exp(t: float) -> float:
    return min(math.exp(min(t, 709.7)), LARGEST)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


@cache
def normal(s: float, *, logs: bool = False) -> Known:
    """Return the normal family of deviation s; or of numbers whose logarithms are normal."""

    def window(theta: float) -> tuple[float, float]:
        return theta * s * s - 9 * s, theta * s * s + 9 * s

    return Known(
        lambda t, theta: -(((t - theta * s * s) / s) ** 2) / 2,
        (-math.inf, math.inf),
        _capped_exp if logs else _same,
        _log if logs else _same,
        lambda m: m / s / s,
        lambda m: m / s,
        lambda v: v * s,
        lambda theta: theta * s * s,
        window,
    )


def _exponential(
    record: Callable[[float], float],
    statistic: Callable[[float], float],
    natural: Callable[[float], float],
    coordinate: Callable[[float], float],
    back: Callable[[float], float],
) -> Known:
    return Known(
        _tilted,
        (0.0, math.inf),
        record,
        statistic,
        natural,
        coordinate,
        back,
        lambda theta: math.log(2) / -theta,
        lambda theta: (0.0, 36 / -theta),
    )


@cache
def exponential() -> Known:
    """Return the family of exponential records, whose parameter is the scale."""
    return _exponential(_same, _same, lambda s: -1 / s, math.log, math.exp)


@cache
def poisson(*, lattice: bool) -> Known:
    """Return the family of counts, or the continuous law."""

    def window(theta: float) -> tuple[float, float]:
        rate = math.exp(theta)
        far = 9 * math.sqrt(rate) + 30
        return max(0.0, rate - far), rate + far

    def middle(theta: float) -> float:
        if lattice:
            return math.exp(theta) - 1 / 3
        mean = limited(poisson(lattice=False), theta, *window(theta), "clip").mean
        return mean - 0.3 * min(mean, 0.5)

    return Known(
        lambda t, theta: theta * t - math.lgamma(t + 1),
        (0.0, math.inf),
        _same,
        _same,
        math.log,
        lambda rate: 2 * math.sqrt(rate),
        lambda v: v * v / 4,
        middle,
        window,
        lattice,
    )


@cache
def bernoulli() -> Known:
    """Return the continuous Bernoulli family."""

    def middle(theta: float) -> float:
        """Return the median ln((1 + e^theta) / 2) / theta: e^(theta t) has half of its mass
        below.
        """
        if abs(theta) < 1e-3:
            return 0.5 + theta / 8
        return float(mp.log((1 + mp.exp(mp.mpf(theta))) / 2) / theta)

    return Known(
        _tilted,
        (0.0, 1.0),
        _same,
        _same,
        lambda p: math.log(p / (1 - p)),
        lambda p: math.log(p / (1 - p)),
        lambda v: 1 / (1 + math.exp(-v)),
        middle,
        lambda theta: (0.0, 1.0),
    )


@cache
def known(family: Any) -> Known:
    """Return the family of this name and shape."""
    name = type(family).__name__
    if name in ("Normal", "LogNormal"):
        return normal(family.deviation, logs=name == "LogNormal")
    if name in ("Poisson", "ContinuousPoisson"):
        return poisson(lattice=name == "Poisson")
    if name == "ContinuousBernoulli":
        return bernoulli()
    if name == "Weibull":
        k = family.power
        return _exponential(
            lambda t: math.copysign(abs(t) ** (1 / k), t),
            lambda x: math.exp(min(k * _log(x), 700.0)) if x >= 0 else -math.inf,
            lambda scale: -(scale**-k),
            lambda scale: k * math.log(scale),
            lambda v: math.exp(v / k),
        )
    assert name == "Pareto"
    least = family.least
    return _exponential(
        lambda t: least * _capped_exp(t),
        lambda x: _log(x / least),
        lambda exponent: -exponent,
        lambda exponent: -math.log(exponent),
        lambda v: math.exp(-v),
    )


@lru_cache(maxsize=1 << 12)
def limited(family: Known, theta: float, low: float, high: float, outside: str) -> Limited:
    """Return the limited moments by Gauss's rule on each side of the interval's ends and inside;
    on a lattice by sums.
    """
    first, last = family.window(theta)
    pieces: list[tuple[float, float]] = []  # t and its mass
    if family.lattice:
        pieces = [(float(k), 1.0) for k in range(math.ceil(first), math.floor(last) + 1)]
    else:
        ends = [first, *sorted(min(max(end, first), last) for end in (low, high)), last]
        for a, b in pairwise(ends):
            pieces += in_panels(a, b, _PANELS, _LEVEL)
    logs = [family.log(t, theta) for t, _ in pieces]
    top = max(logs)
    mass = [w * math.exp(log - top) for (_, w), log in zip(pieces, logs, strict=True)]
    total = math.fsum(mass)
    inside = [low <= t <= high for t, _ in pieces]
    if not family.lattice:
        third = len(pieces) // 3
        inside = [i // third == 1 for i in range(len(pieces))]
    share = math.fsum(m for m, kept in zip(mass, inside, strict=True) if kept) / total
    if outside == "mask":
        own = [(t, m) for (t, _), m, kept in zip(pieces, mass, inside, strict=True) if kept]
        whole = math.fsum(m for _, m in own)
        if not share > 1e-300:
            mean = math.fsum(t * m for (t, _), m in zip(pieces, mass, strict=True)) / total
            return Limited(low if mean < low else high, 0.0, 0.0, 0.0)
        mean = math.fsum(t * m for t, m in own) / whole
        variance = math.fsum((t - mean) ** 2 * m for t, m in own) / whole
        return Limited(mean, variance, variance, share)
    all_of = [
        (min(max(t, low), high), t, m / total) for (t, _), m in zip(pieces, mass, strict=True)
    ]
    mean = math.fsum(z * m for z, _, m in all_of)
    free = math.fsum(t * m for _, t, m in all_of)
    variance = math.fsum((z - mean) ** 2 * m for z, _, m in all_of)
    slope = math.fsum((z - mean) * (t - free) * m for z, t, m in all_of)
    return Limited(mean, variance, slope, share)


def whole(family: Known, theta: float) -> Limited:
    """Return the moments without limits."""
    return limited(family, theta, *family.window(theta), "clip")


# --- obligations --------------------------------------------------------------------------------


def _worlds() -> list[tuple[str, Known, Callable[[Any], Any], Any, tuple[float, ...]]]:
    """Return families with an independent density or mass of T (mpmath), theta's parameter, and
    ends of intervals.
    """

    def gamma(rate: Any) -> Callable[[Any], Any]:
        return lambda t: rate * mp.exp(-rate * t)

    return [
        ("normal", normal(2.0), lambda t: mp.npdf(t, 3, 2), 3.0, (-1.0, 2.5, 4.0)),
        ("exponential", exponential(), gamma(mp.mpf(1) / 5), 5.0, (0.0, 1.0, 12.0)),
        (
            "bernoulli",
            bernoulli(),
            lambda t: mp.mpf("0.9") ** t * mp.mpf("0.1") ** (1 - t),
            0.9,
            (0.0, 0.5, 0.8),
        ),
        (
            "poisson",
            poisson(lattice=True),
            lambda k: mp.mpf("3.3") ** k * mp.exp(mp.mpf("-3.3")) / mp.factorial(k),
            3.3,
            (0.0, 2.0, 5.0),
        ),
        (
            "continuous poisson",
            poisson(lattice=False),
            lambda t: 7**t / mp.gamma(t + 1),
            7.0,
            (0.5, 4.0, 9.0),
        ),
    ]


@states(_OURS, _ZZ25)
def obligation_limited(claimed: Callable[..., Limited] = limited) -> int:
    """Check to 8 digits that means, variances and shares are integrals (or sums) of textbook
    densities.

    Slopes are difference quotients, and positive: for clipped records they are Cov(clip T, T),
    for those inside the variance.
    """
    cases = 0
    for name, family, textbook, parameter, ends in _worlds():
        theta, density = family.natural(parameter), cache(textbook)
        for low, high in ((ends[0], ends[1]), (ends[0], ends[2]), (ends[1], ends[2])):
            for outside in ("clip", "mask"):
                law = claimed(family, theta, low, high, outside)
                mean, variance, share = _by_hand(family, density, theta, low, high, outside)
                h = 1e-5 / math.sqrt(whole(family, theta).variance)
                up, down = (claimed(family, theta + s * h, low, high, outside) for s in (1, -1))
                slope = (up.mean - down.mean) / (2 * h)
                wanted = f"{mean}, {variance}, {share}, {slope}"
                case = f"{name}, {low} to {high}, {outside}: {law}, not {wanted}"
                require(abs(law.mean - mean) < 1e-8 * (1 + abs(mean)), case)
                require(abs(law.variance - variance) < 1e-8 * (1 + variance), case)
                require(abs(law.inside - share) < 1e-8, case)
                require(law.slope > 0 and abs(law.slope - slope) < 1e-5 * law.slope, case)
                cases += 1
    return cases


def _by_hand(
    family: Known,
    density: Callable[[Any], Any],
    theta: float,
    low: float,
    high: float,
    outside: str,
) -> tuple[float, float, float]:
    first, last = family.window(theta)

    def over(f: Callable[[Any], Any], a: float, b: float) -> Any:
        if family.lattice:
            return mp.fsum(f(k) for k in range(math.ceil(a), math.floor(b) + 1))
        return integral(f, mp.linspace(a, b, 9)) if a < b else mp.mpf(0)

    total, share = over(density, first, last), over(density, low, high)

    def moment(g: Callable[[Any], Any]) -> Any:
        inner = over(lambda t: g(t) * density(t), low, high)
        if outside == "mask":
            return inner / share
        step = 1 if family.lattice else 0
        below, above = over(density, first, low - step), over(density, high + step, last)
        return (inner + g(mp.mpf(low)) * below + g(mp.mpf(high)) * above) / total

    mean = moment(lambda t: t)
    return float(mean), float(moment(lambda t: (t - mean) ** 2)), float(share / total)
