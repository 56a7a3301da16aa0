"""Means of normal records of unit covariance that count in a ball cut by a public set with an
axis.

Lengths are in deviations, the ball is about the origin. A set is between planes across the
axis, in a ball about a point of the axis, or outside of one. Records are N(m, I), m given along
the axis and across it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import mpmath as mp
from mpmath.calculus.quadrature import GaussLegendre

from dpverify.privacy import Source, states

from . import clipped_response
from .caches import lru_cache
from .chi_square import below
from .obligations import require

_OURS = Source("OURS", "the mean of normal records that were kept in a set with an axis")
_REMARK = Source("ZZ25", "Remark 3.2, existing truncation", note="cut with the estimator's ball")


class Cut(NamedTuple):
    """Ball of ``radius``, cut by planes, or by a ball about ``about`` of radius ``bound``, or by
    the outside of one.
    """

    d: int
    radius: Any
    low: Any = -mp.inf
    high: Any = mp.inf
    about: Any = mp.mpf(0)
    bound: Any = mp.inf
    outside: bool = False


class Limited(NamedTuple):
    """Moments of the records that count: their share; the mean along and across; the covariance of
    these, and the variance in every other direction.
    """

    inside: Any
    along: Any
    across: Any
    covariance: tuple[Any, Any, Any]
    beside: Any


def moment(cut: Cut, along: Any, across: Any) -> Limited:
    """Return the moments as integrals along the axis of the part inside across it.

    y = (t, z), t ~ N(along, 1) and z ~ N((across, 0, ...), I) of d - 1 dimensions are
    independent, and whether y counts depends on t and |z| alone: at t, on whether |z|^2 is
    between two numbers. With F_k(h) = P(|z|^2 <= h) for k more degrees, E z 1(|z|^2 <= h) =
    (across, 0, ...) F_2 and E z z^T 1 = F_2 I + across^2 F_4 in the first entry
    (``clipped_response.moment`` has the proof, by transforms). The derivative of the mean by m
    is the covariance of what counts, as in every exponential family. QED
    """
    a, b = mp.mpf(along), mp.mpf(across)
    places = [node for low, high in pairwise(_pieces(cut, a)) for node in _nodes(low, high)]
    zero, two, four = (
        [w * mp.npdf(t - a) * _section(cut, t, b, more) for t, w in places] for more in (0, 2, 4)
    )
    at = [t for t, _ in places]
    inside = mp.fsum(zero)
    first = mp.fdot(at, zero) / inside
    square = mp.fsum(t * t * v for t, v in zip(at, zero, strict=True)) / inside - first**2
    if cut.d == 1:
        return Limited(inside, first, mp.mpf(0), (square, mp.mpf(0), mp.mpf(1)), mp.mpf(1))
    beside, mixed = mp.fsum(two) / inside, b * mp.fdot(at, two) / inside
    second = b * beside
    own = beside + b**2 * mp.fsum(four) / inside - second**2
    return Limited(inside, first, second, (square, mixed - first * second, own), beside)


def _pieces(cut: Cut, middle: Any) -> list[Any]:
    """Return the places where the part inside changes its form, within 9 deviations of the mean:
    beyond are below 1e-18 of the records.
    """
    low, high = max(-cut.radius, cut.low, middle - 9), min(cut.radius, cut.high, middle + 9)
    inner = []
    if cut.bound < mp.inf:
        inner = [cut.about - cut.bound, cut.about + cut.bound]
        if cut.about:
            inner.append((cut.radius**2 - cut.bound**2 + cut.about**2) / (2 * cut.about))
    return [low, *sorted(p for p in inner if low < p < high), high] if low < high else []


def _nodes(low: Any, high: Any) -> list[tuple[Any, Any]]:
    """Return places and weights by t = middle - half cos(angle), for roots at the ends; Gauss's
    rule in the angle.
    """
    middle, half = (low + high) / 2, (high - low) / 2
    return [
        (middle - half * mp.cos(v), half * mp.sin(v) * w * mp.pi / 2)
        for v, w in (((x + 1) * mp.pi / 2, w) for x, w in _gauss())
    ]


@lru_cache(maxsize=1)
def _gauss() -> list[tuple[Any, Any]]:
    """Return Gauss's rule of 48 places in (-1, 1), to 20 digits: the integrands are known to
    fewer.
    """
    with mp.workdps(20):
        return list(GaussLegendre(mp.mp).calc_nodes(5, mp.mp.prec))


def _section(cut: Cut, t: Any, across: Any, more: int) -> Any:
    """Return the probability, for so many more degrees, that |z|^2 is in the part that counts at
    t.
    """
    own, other = cut.radius**2 - t**2, cut.bound**2 - (t - cut.about) ** 2
    degrees = cut.d - 1 + more
    if cut.bound == mp.inf:
        return _within(degrees, own, across)
    if not cut.outside:
        return _within(degrees, min(own, other), across)
    inside = _within(degrees, own, across)
    return max(inside - _within(degrees, other, across), mp.mpf(0)) if inside else inside


@lru_cache(maxsize=1 << 15)
def _within(degrees: int, square: Any, across: Any) -> Any:
    """Return P(noncentral chi-square <= square): chi-square of ``degrees`` + 2 k for Poisson k,
    the largest k first; of no degrees, the number 0. All terms are positive.
    """
    if square < 0:
        return mp.mpf(0)
    if degrees == 0:
        return mp.mpf(1)
    weights, half = clipped_response.poisson(float(across) ** 2 / 2), float(square) / 2
    if len(weights) == 1 or not half:
        return below(degrees, square)
    shape = degrees / 2 + len(weights) - 1
    size = shape * math.log(half) - half - math.lgamma(shape + 1)
    number = float if size > _LEAST else mp.mpf  # a float that is 0 would stay 0
    share, step = number(below(degrees + 2 * len(weights) - 2, square)), number(mp.exp(size))
    total = number(0)
    for weight in reversed(weights):  # to one less the share grows by half^shape e^-half / shape!
        total += weight * share
        step, shape = step * shape / half, shape - 1
        share += step
    return mp.mpf(total)


_LEAST = -600  # logarithm of the least step that is counted in floats


# --- obligations --------------------------------------------------------------------------------

_WORLDS = (
    Cut(1, mp.mpf(2), high=mp.mpf("0.4")),
    Cut(2, mp.mpf("1.5"), high=mp.mpf(0)),
    Cut(4, mp.mpf(2), about=mp.mpf("0.9"), bound=mp.mpf("1.7")),
    Cut(4, mp.mpf(3), about=mp.mpf(1), bound=mp.mpf("1.2"), outside=True),
)


def _line(low: Any, high: Any, m: Any) -> tuple[Any, Any, Any]:
    """Return mass, mean and variance of N(m, 1) between two ends."""
    mass = mp.ncdf(high - m) - mp.ncdf(low - m)
    a, b = mp.npdf(low - m), mp.npdf(high - m)
    mean = m + (a - b) / mass
    square = 1 + ((low - m) * a - (high - m) * b) / mass - ((a - b) / mass) ** 2
    return mass, mean, square


def _near(value: Any, wanted: Any, case: str, digits: int = 9) -> None:
    off = abs(value - wanted)
    require(off < mp.mpf(10) ** -digits * (1 + abs(wanted)), f"{case}: {value}, not {wanted}")


@states(_OURS, _REMARK)
def obligation_kept_moment(claimed: Callable[..., Limited] = moment) -> int:
    """Check the moments in special cases: on a line against a truncated normal law, for a wide
    ball cut by a plane against that law along the axis and nothing across, and for an uncut
    ball against the masked mean.

    The parts inside a ball and outside of it make up the whole, in mass, first and second
    moments.
    """
    with mp.workdps(15):
        return _closed_forms(claimed) + _parts(claimed)


def _closed_forms(claimed: Callable[..., Limited]) -> int:
    cases = 0
    for low, high, m in (("-2", "0.4", "0.3"), ("-0.5", "1.5", "-1"), ("-2", "2", "1")):
        ends, m = (mp.mpf(low), mp.mpf(high)), mp.mpf(m)
        own = claimed(Cut(1, mp.mpf(2), *ends), m, mp.mpf(0))
        for value, wanted in zip(
            (own.inside, own.along, own.covariance[0]), _line(*ends, m), strict=True
        ):
            _near(value, wanted, f"a line, {ends}, {m}")
        wide = claimed(Cut(3, mp.mpf(11), mp.mpf(-11), ends[1]), m, mp.mpf("0.7"))
        mass, mean, square = _line(mp.mpf(-11), ends[1], m)
        case = f"a wide ball, {ends}, {m}"
        for value, wanted in (
            (wide.inside, mass),
            (wide.along, mean),
            (wide.covariance[0], square),
            (wide.across, mp.mpf("0.7")),
            (wide.covariance[1], 0),
            (wide.covariance[2], 1),
            (wide.beside, 1),
        ):
            _near(value, wanted, case)
        cases += 2
    return cases


def _parts(claimed: Callable[..., Limited]) -> int:
    cases = 0
    for d in (1, 2, 5):
        a, b = mp.mpf("0.6"), mp.mpf("0.8" if d > 1 else "0")
        size = mp.sqrt(a * a + b * b)
        whole, plain = claimed(Cut(d, mp.mpf(2)), a, b), clipped_response.moment(d, 2, size, "mask")
        _near(whole.inside, plain.inside, f"a ball, {d}")
        _near(whole.along, a * plain.ratio, f"a ball, {d}")
        _near(whole.across, b * plain.ratio, f"a ball, {d}")
        near = claimed(Cut(d, mp.mpf(2), about=mp.mpf(1), bound=mp.mpf("1.4")), a, b)
        far = claimed(Cut(d, mp.mpf(2), about=mp.mpf(1), bound=mp.mpf("1.4"), outside=True), a, b)
        for part in (_masses, _firsts, _squares):
            for one, two, three in zip(part(near), part(far), part(whole), strict=True):
                _near(one + two, three, f"in and out, {d}, {part.__name__}")
        cases += 2
    return cases


def _masses(at: Limited) -> list[Any]:
    return [at.inside]


def _firsts(at: Limited) -> list[Any]:
    return [at.inside * at.along, at.inside * at.across]


def _squares(at: Limited) -> list[Any]:
    own = (at.along**2, at.along * at.across, at.across**2)
    return [at.inside * (c + m) for c, m in zip(at.covariance, own, strict=True)]


@states(_OURS, _REMARK)
def obligation_way_back(claimed: Callable[..., Limited] = moment) -> int:
    """Check by difference quotients that the derivative of the mean by m is the stated covariance,
    and that it is positive definite.

    So no two means of records lead to one mean of the records that count: along the segment
    between them it would have grown.
    """
    with mp.workdps(15):
        return sum(_derivatives(claimed, cut) for cut in _WORLDS)


def _derivatives(claimed: Callable[..., Limited], cut: Cut) -> int:
    a, b, h = mp.mpf("-0.4"), mp.mpf("0.9") * (cut.d > 1), mp.mpf(10) ** -5
    at = claimed(cut, a, b)
    right, left = claimed(cut, a + h, b), claimed(cut, a - h, b)
    _near((right.along - left.along) / (2 * h), at.covariance[0], f"{cut}", 7)
    if cut.d > 1:
        up, down = claimed(cut, a, b + h), claimed(cut, a, b - h)
        _near((right.across - left.across) / (2 * h), at.covariance[1], f"{cut}", 7)
        _near((up.along - down.along) / (2 * h), at.covariance[1], f"{cut}", 7)
        _near((up.across - down.across) / (2 * h), at.covariance[2], f"{cut}", 7)
        _near(at.across, b * at.beside, f"{cut}")
    one, mixed, two = at.covariance
    require(one > 0 and two > 0 and one * two > mixed**2, f"{cut}: {at.covariance}")
    return 1
