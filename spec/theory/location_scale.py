"""Location-scale families, stated anew: their maps, and moments of s and s^2 in an interval by
Gauss's rule.

Numbers are floats: they decide where records are clipped and what released moments say, which
privacy does not depend on.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import chain, pairwise, product
from operator import mul
from typing import Any, NamedTuple

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .obligations import require
from .quadrature import DIGITS, in_panels, nodes

_OURS = Source("OURS", "clipped and truncated moments of location-scale families")
_GALE = Source(
    "OURS", "at most one normal law has two clipped moments", note="Gale and Nikaido; enclosed"
)
_LEVEL, _WIDEST = 3, 2.0  # nodes, and width at most, of a panel; poles are pi away or more
LARGEST = 1.7e308
Pair = tuple[float, float]


@dataclass(frozen=True)
class Known:
    """Family of densities: log is the logarithm of the standard density, up to a constant; records
    are record(t), increasing.
    """

    log: Callable[[float], float]
    window: Pair
    record: Callable[[float], float]
    statistic: Callable[[float], float]
    standard: Callable[[float, float], Pair]


class Constants(NamedTuple):
    """Constants of the standard law: mean, deviation, median, median distance from that."""

    mean: float
    deviation: float
    median: float
    distance: float


class Interval(NamedTuple):
    """Interval to which t is clipped or masked, with the point at which the first moment turns."""

    low: float
    high: float
    turn: float
    outside: str


class Moments(NamedTuple):
    """Moments E clip(s, +-turn) and E s^2, clipped or inside; their variances and covariance;
    P(inside).
    """

    first: float
    second: float
    variances: tuple[float, float, float]
    inside: float


def _same(t: float) -> float:
    return t


def _capped_exp(t: float) -> float:
    return min(math.exp(min(t, 709.7)), LARGEST)


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf


def _straight(first: float, second: float) -> Pair:
    return first, second


def _log_and_inverse(first: float, second: float) -> Pair:
    return math.log(first), 1 / second


def _logistic(y: float) -> float:
    return -abs(y) - 2 * math.log1p(math.exp(-abs(y)))


_NORMAL = Known(lambda y: -y * y / 2, (-9.0, 9.0), _same, _same, _straight)
_BY_NAME = {
    "NormalFamily": _NORMAL,
    "LogNormalFamily": Known(_NORMAL.log, _NORMAL.window, _capped_exp, _log, _straight),
    "LogisticFamily": Known(_logistic, (-36.0, 36.0), _same, _same, _straight),
    "LogLogisticFamily": Known(_logistic, (-36.0, 36.0), _capped_exp, _log, _log_and_inverse),
    "WeibullFamily": Known(
        lambda y: y - math.exp(y), (-36.0, math.log(36.0)), _capped_exp, _log, _log_and_inverse
    ),
}


def known(family: Any) -> Known:
    """Return the family with the class's name."""
    return _BY_NAME[type(family).__name__]


def _pieces(family: Known, cuts: list[float]) -> list[list[Pair]]:
    """Return places and masses of y, up to a constant, by Gauss's rule between neighboring cuts."""
    first, last = family.window
    ends = [first, *(min(max(cut, first), last) for cut in sorted(cuts)), last]
    return [_piece(family, a, b) for a, b in pairwise(ends)]


def _piece(family: Known, a: float, b: float) -> list[Pair]:
    places = in_panels(a, b, math.ceil((b - a) / _WIDEST), _LEVEL)
    return [(y, w * math.exp(family.log(y))) for y, w in places]


@lru_cache(maxsize=16)
def constants(family: Known) -> Constants:
    """Return the constants to the nearest 2^-10; the median and the distance by bisection."""
    pieces = [one for part in _pieces(family, [k / 4 for k in range(-16, 17)]) for one in part]
    total = math.fsum(m for _, m in pieces)
    mean = math.fsum(y * m for y, m in pieces) / total
    variance = math.fsum((y - mean) ** 2 * m for y, m in pieces) / total

    def between(low: float, high: float) -> float:
        parts = _pieces(family, [low, high])
        return math.fsum(m for _, m in parts[1]) / math.fsum(m for part in parts for _, m in part)

    median = _root(lambda y: between(family.window[0], y) - 0.5, *family.window)
    far = family.window[1] - family.window[0]
    distance = _root(lambda h: between(median - h, median + h) - 0.5, 0.0, far)
    values = mean, math.sqrt(variance), median, distance
    return Constants(*(round(1024 * one) / 1024 for one in values))


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    for _ in range(60):
        half = (low + high) / 2
        low, high = (half, high) if rising(half) < 0 else (low, half)
    return (low + high) / 2


@lru_cache(maxsize=1 << 14)
def moments(family: Known, location: float, scale: float, where: Interval) -> Moments:
    """Return the moments by Gauss's rule between the bends of s clipped."""
    firsts, seconds, shares, inside = _weighed(family, location, scale, where)
    first, second = (math.fsum(map(mul, one, shares)) for one in (firsts, seconds))
    across, along = [a - first for a in firsts], [b - second for b in seconds]
    variances = [
        math.fsum([a * b * m for a, b, m in zip(one, other, shares, strict=True)])
        for one, other in ((across, across), (along, along), (across, along))
    ]
    return Moments(first, second, (variances[0], variances[1], variances[2]), inside)


@lru_cache(maxsize=1 << 14)
def means(family: Known, location: float, scale: float, where: Interval) -> Pair:
    """Return both moments alone, as ``moments`` does."""
    firsts, seconds, shares, _ = _weighed(family, location, scale, where)
    return math.fsum(map(mul, firsts, shares)), math.fsum(map(mul, seconds, shares))


def _weighed(
    family: Known, location: float, scale: float, where: Interval
) -> tuple[list[float], list[float], list[float], float]:
    """Return s clipped to +-turn, s^2 and the share of the mass at each place; and P(inside)."""
    middle, half = (where.low + where.high) / 2, (where.high - where.low) / 2
    bends = [where.low, middle - half * where.turn, middle + half * where.turn, where.high]
    parts = _pieces(family, [(t - location) / scale for t in bends])
    masses = [[m for _, m in part] for part in parts]
    total = math.fsum(chain.from_iterable(masses))
    share = math.fsum(chain.from_iterable(masses[1:4])) / total
    if where.outside == "mask":
        parts, total = parts[1:4], share * total
        if not share > 1e-300:
            return [], [], [], 0.0
    every = list(chain.from_iterable(parts))
    images = [min(max((location + scale * y - middle) / half, -1.0), 1.0) for y, _ in every]
    firsts = [min(max(s, -where.turn), where.turn) for s in images]
    return firsts, [s * s for s in images], [m / total for _, m in every], share


def slopes(
    family: Known, location: float, scale: float, where: Interval, h: float = 1e-4
) -> tuple[Pair, Pair]:
    """Return differences of both moments by the location, in scales, and by the logarithm of the
    scale.
    """
    across = [means(family, location + s * h * scale, scale, where) for s in (1, -1)]
    along = [means(family, location, scale * math.exp(s * h), where) for s in (1, -1)]
    rows = [[(up[j] - down[j]) / (2 * h) for up, down in (across, along)] for j in (0, 1)]
    return (rows[0][0], rows[0][1]), (rows[1][0], rows[1][1])


def solved(matrix: tuple[Pair, Pair], right: Pair) -> Pair | None:
    """Return the solution by Cramer's rule; None where the determinant is below 1e-12."""
    (a, b), (c, d) = matrix
    det = a * d - b * c
    if not abs(det) > 1e-12:
        return None
    return (d * right[0] - b * right[1]) / det, (a * right[1] - c * right[0]) / det


def fitted(
    family: Known, wanted: Pair, where: Interval, near: Pair, box: Pair
) -> tuple[float, float] | None:
    """Return the law with these moments, by Newton's method from ``near``; None where that finds
    none.

    Steps are at most 1/2, halved until the moments come nearer, in the box of so many scales
    and such a factor.
    """
    place, log = near[0], math.log(near[1])
    for _ in range(60):
        at = means(family, place, math.exp(log), where)
        off = wanted[0] - at[0], wanted[1] - at[1]
        step = solved(slopes(family, place, math.exp(log), where), off)
        if step is None:
            return None
        size = max(map(abs, step))
        if size < 1e-7:
            return place, math.exp(log)
        share = min(1.0, 0.5 / size)
        for _ in range(12):
            later = place + share * step[0] * math.exp(log), log + share * step[1]
            reach, most = box[0] * near[1], math.log(box[1])
            later = (
                min(max(later[0], near[0] - reach), near[0] + reach),
                min(max(later[1], math.log(near[1]) - most), math.log(near[1]) + most),
            )
            moved = means(family, later[0], math.exp(later[1]), where)
            if math.hypot(wanted[0] - moved[0], wanted[1] - moved[1]) < math.hypot(*off):
                break
            share /= 2
        else:
            return None
        if later == (place, log):
            return None
        place, log = later
    return None


# --- obligations --------------------------------------------------------------------------------


def _textbook() -> list[tuple[str, Callable[[Any], Any]]]:
    """Return standard densities as textbooks print them."""
    return [
        ("NormalFamily", mp.npdf),
        ("LogisticFamily", lambda y: mp.sech(y / 2) ** 2 / 4),
        ("WeibullFamily", lambda y: mp.exp(y - mp.exp(y))),
    ]


_LAWS = ((0.0, 1.0), (0.7, 0.6), (-0.9, 1.8))
_WHERE = (
    Interval(-2.0, 2.0, 0.625, "clip"),
    Interval(-1.5, 2.5, 1.0, "mask"),
    Interval(-3.0, 0.5, 1.0, "mask"),
)


@states(_OURS)
def obligation_moments(claimed: Callable[..., Moments] = moments) -> int:
    """Check to 7 digits that moments, variances and shares are integrals of textbook densities."""
    cases = 0
    with mp.workdps(DIGITS):
        for (name, density), (m, s), where in product(_textbook(), _LAWS, _WHERE):
            averages = claimed(_BY_NAME[name], m, s, where)
            *expected, spread = _by_hand(_BY_NAME[name], density, (m, s), where)
            case = f"{name}, {m}, {s}, {where}: {averages}, {expected}"
            pairs = zip((averages.first, averages.second, averages.inside), expected, strict=True)
            require(all(abs(a - b) < mp.mpf(10) ** -7 for a, b in pairs), case)
            require(abs(averages.variances[1] - spread) < mp.mpf(10) ** -7, case)
            cases += 1
    return cases


def _by_hand(
    family: Known, density: Callable[[Any], Any], law: Pair, where: Interval
) -> tuple[Any, Any, Any, Any]:
    """Return both moments, the share inside, and the variance of the second moment."""
    (m, s), middle, half = law, (where.low + where.high) / 2, (where.high - where.low) / 2
    bends = [where.low, middle - half * where.turn, middle + half * where.turn, where.high]
    first, last = (m + s * y for y in family.window)
    parts = [
        [(t, w * density((t - m) / s) / s) for t, w in nodes(mp.linspace(a, b, 5)) if a < b]
        for a, b in pairwise([first, *bends, last])
    ]
    inside = [one for part in parts[1:4] for one in part]
    counted = inside if where.outside == "mask" else [one for part in parts for one in part]

    def over(f: Callable[[Any], Any]) -> Any:
        return mp.fsum(mass * f(min(max((t - middle) / half, -1), 1)) for t, mass in counted)

    total = over(lambda step: 1)
    lead = over(lambda step: min(max(step, -where.turn), where.turn)) / total
    square, fourth = over(lambda step: step**2) / total, over(lambda step: step**4) / total
    return lead, square, mp.fsum(mass for _, mass in inside), fourth - square**2


def principal_minors(m: float, s: float, length: float, turn: float) -> tuple[float, float, float]:
    """Return d E clip(t, +-turn length) / dm, d E min(t^2, length^2) / d ln s, and the determinant
    of all four slopes by m and ln s.

    The law is normal of mean m and deviation s, clipped at +-length.

    By parts E f(t) moves by E f'(t) and by E (t - m) f'(t); with a and b the ends in
    deviations, E 1 = P, E (t - m) over an interval is s (phi(a) - phi(b)), and E t (t - m) is
    that times m plus s^2 (P + a phi(a) - b phi(b)).
    """

    def parts(end: float) -> tuple[float, float, float]:
        a, b = (-end - m) / s, (end - m) / s
        inside = (math.erf(b / math.sqrt(2)) - math.erf(a / math.sqrt(2))) / 2
        low, high = (math.exp(-x * x / 2) / math.sqrt(2 * math.pi) for x in (a, b))
        return inside, s * (low - high), s * s * (inside + a * low - b * high)

    one, off, _ = parts(turn * length)
    inner, shift, spread = parts(length)
    by_log = 2 * (m * shift + spread)
    return one, by_log, one * by_log - off * 2 * (m * inner + shift)


def steepness(m: float, low: float, high: float) -> tuple[Pair, Pair]:
    """Return bounds on how fast d E min(t^2, length^2) / d ln s and the determinant move by m and
    by ln s.

    They hold for |mean| <= m and deviations from ``low`` to ``high``, whatever the lengths.

    The slopes are E 1, E s y, E 2 t and E 2 t s y over intervals, t = m + s y. E h(t) moves by
    m by E h y / s (y / s is the normal law's score), and where h has s y = t - m, by - E h'
    more; by ln s by E h (y^2 - 1), and h's own part. Bound |t| by m + s |y| and use E|y| < 4/5,
    E|y^2 - 1| < 1, E|y|^3 < 8/5, E|y^3 - y| <= 12/5, E y^4 = 3: t - m = s y stays a function of
    t and m alone, so ln s moves only the law.
    """
    by_a = (4 / 5 / low, 1.0)
    b, by_b = high * 4 / 5, (2.0, high * 12 / 5)
    c, by_c = 2 * (m + high * 4 / 5), (2 * (m / low * 4 / 5 + 1), 2 * (m + high * 12 / 5))
    d = 2 * (m * high * 4 / 5 + high**2)
    by_d = (2 * (m + high * 8 / 5) + c, 2 * (m * high * 12 / 5 + 4 * high**2))
    det = [by_d[k] + by_a[k] * d + by_b[k] * c + b * by_c[k] for k in (0, 1)]
    return by_d, (det[0], det[1])


@states(_GALE)
def obligation_one_law(claimed: Pair = (1.0, 2.0)) -> int:
    """Check, for half lengths of 2 to 8 deviations, that the slopes of a normal law's clipped
    moments have positive principal minors over the whole box of means and factors: so at most
    one law there has given moments (Gale and Nikaido, 1965).

    Enclosed: squares of the box are cut in four until the minors at their middle are above what
    they can move by in it.
    """
    far, most = claimed[0], math.log(claimed[1])
    cases = 0
    for k, turn in product(range(4, 13), (0.625, 0.75)):
        open_ = [(0.0, far, 0.0, most)]
        while open_:
            m, wide, log, tall = open_.pop()
            own = principal_minors(m, math.exp(log), 2.0 ** (k / 4), turn)
            case = f"length 2^({k}/4), turn {turn}, at {m}, {math.exp(log)}: {own}"
            require(min(own) > 0 and wide > 1e-5, case)
            cases += 1
            ends = (math.exp(log - tall), math.exp(log + tall))
            moves = steepness(abs(m) + wide, *ends)
            if all(x > by[0] * wide + by[1] * tall for x, by in zip(own[1:], moves, strict=True)):
                continue
            quarters = product((m - wide / 2, m + wide / 2), (log - tall / 2, log + tall / 2))
            open_ += [(x, wide / 2, y, tall / 2) for x, y in quarters]
    return cases
