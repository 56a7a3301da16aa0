"""Second moments of clipped or masked normal records, and how they depend on the covariance.

y is normal of covariance diag(lambda), r^2 = |y|^2. Clipped, a record is z = y min(1,
sqrt(bound) / |y|); masked, it counts where r^2 <= bound. phi(s) = E exp(-s r^2) is prod_j
(1 + 2 lambda_j s)^(-1/2). All have 14 digits for up to 1023 columns, and shares have them where
they are tiny.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import lru_cache
from .obligations import require
from .quadrature import integral

DIGITS = 22
_TRUNCATED = Source("OURS", "moments of clipped and masked normal records")
_WAY_BACK = Source("OURS", "covariances from clipped moments")
Spectrum = Sequence[Any]


def size_biased(spectrum: Spectrum, s: Any, *extra: int) -> Any:
    """Return phi(s) over 1 + 2 lambda_i s for each i of ``extra``.

    It is the transform of E(y_i^2 ...; r^2 in dx) / (lambda_i ...), for a normal y_i weighted
    by y_i^2 / lambda_i has a chi-square of 3 degrees. Different i only: the same one twice
    stands for y_i^4 / (3 lambda_i^2).
    """
    root = mp.fprod(mp.sqrt(1 + 2 * one * s) ** n for one, n in Counter(spectrum).items())
    return 1 / (root * mp.fprod(1 + 2 * spectrum[i] * s for i in extra))


def _vertex(spectrum: Spectrum, bound: Any) -> Any:
    """Return the v > 0 where bound = 3 / v + sum_j lambda_j / (1 + 2 lambda_j v), to a hundredth.

    It is where exp(s bound) phi(s) / s^3 is least on the positive numbers. No value of real part
    v is larger, since phi is a Laplace transform.
    """

    def low(v: Any) -> bool:
        return bool(bound < 3 / v + mp.fsum(one / (1 + 2 * one * v) for one in spectrum))

    v = mp.mpf(1) / bound
    while low(2 * v):
        v *= 2
    for k in range(1, 8):
        v *= 1 + mp.mpf(low(v * (1 + mp.mpf(2) ** -k))) / 2**k
    return v


def _along(
    vertex: Any, spectrum: Spectrum, transform: Callable[[Any], Any], factor: Callable[[Any], Any]
) -> Any:
    """Return the integral of Re factor(s) transform(s) ds / (i du) over u > 0, along the parabola
    s = (v + e) (1 + i u)^2 - e from ``vertex`` v through the upper half of the plane.

    The focus -e is the singularity of phi that is nearest to 0, or nearer to 0. With a focus at 0
    the path of d columns would come to where the integrand is as large as exp(d).
    """
    edge = min(1 / (2 * max(spectrum)), vertex**2 * mp.fsum(spectrum))
    start = vertex + edge

    def term(u: Any) -> Any:
        root = mp.mpc(1, u)
        s = start * root**2 - edge
        return mp.re(factor(s) * transform(s) * 2 * start * root)

    end, peak = mp.mpf(1), abs(term(mp.mpf("0.01")))
    while max(abs(term(end)), abs(term(end * 1.1))) > peak * mp.mpf(10) ** -DIGITS:
        end *= 1.2
    forms = [one / (1 + 2 * one * vertex) for one in spectrum]
    curved = mp.sqrt(3 / vertex**2 + 2 * mp.fdot(forms, forms))
    places = [mp.mpf(0), min(1 / (start * curved), end / 2)]  # a width of the integrand
    while places[-1] < end:
        places.append(min(2 * places[-1], places[-1] + mp.mpf("0.8"), end))
    return integral(term, places)


def inside(spectrum: Spectrum, bound: Any, *extra: int) -> Any:
    """Return P(Q <= bound) = (1 / 2 pi i) int exp(s bound) size_biased(s) / s ds, on a parabola
    about the negative numbers.
    """

    def transform(s: Any) -> Any:
        return size_biased(spectrum, s, *extra)

    v = _vertex(spectrum, bound)
    return _along(v, spectrum, transform, lambda s: mp.exp(s * bound) / s) / mp.pi


def clipped(spectrum: Spectrum, bound: Any, *extra: int) -> Any:
    """Return E min(1, bound / Q) for the Q of that transform.

    It is int_0^1 P(Q <= bound / t) dt = (1 / 2 pi i) int exp(s bound) / s^2 Phi(s) ds with
    Phi(s) = int_0^s phi. By parts, with -bound E_2(-s bound) / (s bound) for an integral of
    exp(s bound) / s^2: from v > 0 on, bound int_0^v phi ds + (1 / pi) Im int E_2(-s bound)
    phi(s) / s ds, up and to the left.
    """

    def transform(s: Any) -> Any:
        return size_biased(spectrum, s, *extra)

    def factor(s: Any) -> Any:
        return (mp.exp(s * bound) + s * bound * mp.e1(-s * bound)) / s

    v = _vertex(spectrum, bound)
    places = [v]  # a quarter each, until phi hardly varies from there to 0
    while places[-1] * mp.fsum(spectrum) > mp.mpf(1) / 20:
        places.append(places[-1] / 4)
    real = integral(transform, (0, *reversed(places)))
    return bound * real + _along(v, spectrum, transform, factor) / mp.pi


def clipped_spectrum(spectrum: Spectrum, bound: Any) -> list[Any]:
    """Return E z_i^2 = E y_i^2 min(1, bound / r^2) for each i."""
    parts = {
        one: one * clipped(spectrum, bound, spectrum.index(one)) for one in dict.fromkeys(spectrum)
    }
    return [parts[one] for one in spectrum]


def masked_spectrum(spectrum: Spectrum, bound: Any) -> list[Any]:
    """Return P(r^2 <= bound), then E y_i^2 of records inside, times that."""
    parts = {
        one: one * inside(spectrum, bound, spectrum.index(one)) for one in dict.fromkeys(spectrum)
    }
    return [inside(spectrum, bound), *(parts[one] for one in spectrum)]


def off_diagonal(spectrum: Spectrum, bound: Any, i: int, j: int) -> Any:
    """Return d E z_i z_j / d Sigma_ij at diag(lambda): E(z_i z_j y_i y_j) / (lambda_i lambda_j),
    as the score is y_i y_j / (lambda_i lambda_j).

    It is (m_i - m_j) / (lambda_i - lambda_j) where these differ, since m_i / lambda_i and
    m_j / lambda_j are integrals of phi / (1 + 2 lambda_i s) and phi / (1 + 2 lambda_j s).
    """
    return clipped(spectrum, bound, i, j)


def potential(spectrum: Spectrum, bound: Any) -> Any:
    """Return E G(r^2), G(x) = x up to the bound and bound (1 + log(x / bound)) beyond, for lambda
    of pairs, each given once.

    Its derivative by log lambda_i is E G'(r^2) y_i^2 = m_i (of a pair: twice). As a function of
    log lambda it is convex: log r^2 is a logarithm of a sum of exponentials, G(exp(u)) is
    convex and increasing. So the lambda with given m are where potential - sum m_i log lambda_i
    is least, there is at most one such, and there is one if m_i > 0 and the sum of all m_i is
    below the bound, for G(exp(u)) grows at the rate of the bound.
    Sums of pairs have tails of exponentials, and E G(r^2) = int P(r^2 > x) G'(x) dx.
    """
    total = mp.mpf(0)
    for one in spectrum:
        share = mp.fprod(one / (one - other) for other in spectrum if other != one)
        mean = 2 * one
        total += share * (mean * -mp.expm1(-bound / mean) + bound * mp.e1(bound / mean))
    return total


# --- obligations --------------------------------------------------------------------------------

_EQUAL = ((1, "0.5"), (1, 2), (2, 1), (7, "0.5"), (7, 2), (30, 1))
_MANY = ((299, "0.9"), (500, "0.3"), (1023, 1))
_TWO_VALUES = ((1, 1, 100, "0.3"), (2, 1, "1e-5", 2), (3, 4, 30, 1))
_PAIRS = ((1, "1e-3"), (1, 2, 500))


def near(claimed: Any, value: Any, case: str, digits: int = 12) -> None:
    """Raise unless both agree to so many digits."""
    require(abs(claimed / value - 1) < mp.mpf(10) ** -digits, f"{case}: {claimed}, not {value}")


def _radial(d: Any, bound: Any, how: str) -> Any:
    """Return E R^2 min(1, bound / R^2), or E R^2 of those inside, for R^2 chi-square of d
    degrees.
    """
    own = d * mp.gammainc(d / 2 + 1, 0, bound / 2, regularized=True)
    return own + (how == "clip") * bound * mp.gammainc(d / 2, bound / 2, mp.inf, regularized=True)


def _by_directions(p: int, q: int, ratio: Any, bound: Any, how: str) -> list[Any]:
    """Return the moments of one of p coordinates of variance 1 and of one of q of variance
    ``ratio``.

    Directions and lengths of the normal vector before scaling are independent, and the first p
    coordinates have sin^2 t of the squared length, t of density proportional to sin^(p - 1)
    cos^(q - 1).
    """
    d = mp.mpf(p + q)
    radial = lru_cache(maxsize=None)(lambda form: _radial(d, bound / form, how))

    def of(power: int) -> Any:
        def term(t: Any) -> Any:
            first, other = mp.sin(t) ** 2, mp.cos(t) ** 2
            shape = mp.sin(t) ** (p - 1) * mp.cos(t) ** (q - 1)
            part = first / p if power == 0 else ratio * other / q
            form = first + ratio * other
            return 2 * shape * part * radial(form)

        small = mp.atan(mp.sqrt(ratio))
        return mp.quad(term, [0, small, mp.pi / 2], maxdegree=5) / mp.beta(
            mp.mpf(p) / 2, mp.mpf(q) / 2
        )

    return [of(0), of(1)]


def _two_valued(claimed: Callable[..., list[Any]], how: str, skipped: int) -> int:
    cases = 0
    for p, q, numbers, share in _TWO_VALUES:
        ratio = mp.mpf(numbers)
        bound = (p + q * ratio) * mp.mpf(share)
        values = claimed([mp.mpf(1)] * p + [ratio] * q, bound)[skipped:]
        wanted = _by_directions(p, q, ratio, bound, how)
        for one, value in zip((values[0], values[-1]), wanted, strict=True):
            near(one, value, f"{p} of 1 and {q} of {ratio}, bound {bound}")
            cases += 1
    return cases


@states(_TRUNCATED)
def obligation_clipped_spectrum(claimed: Callable[..., list[Any]] = clipped_spectrum) -> int:
    """Check to 12 digits closed forms for equal variances, an integral over directions for two
    values, derivatives of the potential for pairs, and that moments of a scaled law in a scaled
    ball are scaled.
    """
    with mp.workdps(DIGITS):
        cases = _two_valued(claimed, "clip", 0)
        for d, share in (*_EQUAL, *_MANY):
            bound = d * mp.mpf(share)
            moments = claimed([mp.mpf(3)] * d, 3 * bound)
            near(moments[-1], 3 * _radial(mp.mpf(d), bound, "clip") / d, f"{d} equal, {bound}")
            cases += 1
        for pairs in _PAIRS:
            spectrum = [mp.mpf(one) for one in pairs]
            bound = 2 * mp.fsum(spectrum) / 3
            moments = claimed([one for one in spectrum for _ in range(2)], bound)
            for i, wanted in enumerate(_slopes(potential, spectrum, bound)):
                near(moments[2 * i], wanted / 2, f"pairs of {pairs}, {i}")
                cases += 1
    return cases


@states(_TRUNCATED)
def obligation_masked_spectrum(claimed: Callable[..., list[Any]] = masked_spectrum) -> int:
    """Check to 12 digits closed forms for equal variances, an integral over directions for two
    values, and exponential tails of sums of pairs for the probability.
    """
    with mp.workdps(DIGITS):
        cases = _two_valued(claimed, "mask", 1)
        for d, share in (*_EQUAL, *_MANY):
            bound = d * mp.mpf(share)
            moments = claimed([mp.mpf(3)] * d, 3 * bound)
            mass = mp.gammainc(mp.mpf(d) / 2, 0, bound / 2, regularized=True)
            near(moments[0], mass, f"{d} equal, {bound}: probability")
            near(moments[-1], 3 * _radial(mp.mpf(d), bound, "mask") / d, f"{d} equal, {bound}")
            cases += 1
        for pairs in _PAIRS:
            spectrum = [mp.mpf(one) for one in pairs]
            bound = 2 * mp.fsum(spectrum) / 3
            shares = [mp.fprod(a / (a - b) for b in spectrum if a != b) for a in spectrum]
            tails = [-mp.expm1(-bound / (2 * one)) for one in spectrum]
            moments = claimed([one for one in spectrum for _ in range(2)], bound)
            near(moments[0], mp.fdot(shares, tails), f"pairs of {pairs}")
            cases += 1
    return cases


def _slopes(function: Callable[..., Any], spectrum: Spectrum, bound: Any) -> list[Any]:
    """Return derivatives by the logarithms of the spectrum."""
    step = mp.mpf(10) ** -7

    def moved(i: int, by: Any) -> Any:
        return function(
            [one * mp.exp(by) if k == i else one for k, one in enumerate(spectrum)], bound
        )

    with mp.workdps(2 * DIGITS):
        return [(moved(i, step) - moved(i, -step)) / (2 * step) for i in range(len(spectrum))]


@states(_WAY_BACK)
def obligation_off_diagonal(claimed: Callable[..., Any] = off_diagonal) -> int:
    """Check to 10 digits that it is the divided difference of the moments, and E min(r^2, bound)
    r^2 / (d (d + 2)) where all variances are equal.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for numbers, share in product(((1, 4), (1, "1e-4", 2)), ("0.4", 3)):
            spectrum = [mp.mpf(one) for one in numbers]
            bound = mp.fsum(spectrum) * mp.mpf(share)
            moments = clipped_spectrum(spectrum, bound)
            wanted = (moments[0] - moments[1]) / (spectrum[0] - spectrum[1])
            near(claimed(spectrum, bound, 0, 1), wanted, f"{numbers}, bound {bound}", 10)
            cases += 1
        for d, bound in product((2, 6), (1, 9)):
            half = mp.mpf(d) / 2
            low = d * (d + 2) * mp.gammainc(half + 2, 0, mp.mpf(bound) / 2, regularized=True)
            high = bound * d * mp.gammainc(half + 1, mp.mpf(bound) / 2, mp.inf, regularized=True)
            moment = claimed([mp.mpf(1)] * d, mp.mpf(bound), 0, 1)
            near(moment, (low + high) / (d * (d + 2)), f"{d} equal, bound {bound}", 10)
            cases += 1
    return cases


@states(_WAY_BACK)
def obligation_potential(claimed: Callable[..., Any] = potential) -> int:
    """Check that its derivatives are the moments, to 10 digits; that it is convex in log lambda,
    by second differences along 20 directions; and that far out it grows at the rate of the
    bound, in every direction with 1 as its largest component.
    """
    cases = 0
    with mp.workdps(DIGITS):
        for pairs in _PAIRS:
            spectrum = [mp.mpf(one) for one in pairs]
            for share in ("0.1", 2):
                bound = 2 * mp.fsum(spectrum) * mp.mpf(share)
                moments = clipped_spectrum([one for one in spectrum for _ in range(2)], bound)
                for i, slope in enumerate(_slopes(claimed, spectrum, bound)):
                    near(slope, 2 * moments[2 * i], f"pairs of {pairs}, {i}, bound {bound}", 10)
                cases += _convex(claimed, spectrum, bound)
                far = [[one * mp.mpf(10) ** k for one in spectrum] for k in (12, 13)]
                rate = (claimed(far[1], bound) - claimed(far[0], bound)) / mp.log(10)
                near(rate, bound, f"pairs of {pairs}: far out", 6)
    return cases


def _convex(claimed: Callable[..., Any], spectrum: Spectrum, bound: Any) -> int:
    moves = [mp.mpf(k) / 10 for k in (-7, 0, 7)]
    middle = claimed(spectrum, bound)
    directions = [way for way in product(moves, repeat=len(spectrum)) if any(way)]
    for way in directions:
        ends = [
            claimed([a * mp.exp(sign * b) for a, b in zip(spectrum, way, strict=True)], bound)
            for sign in (1, -1)
        ]
        case = f"{spectrum}, bound {bound}, along {way}: {ends}, {middle}"
        require(ends[0] + ends[1] > 2 * middle, case)
    return len(directions)
