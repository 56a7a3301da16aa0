"""Enclosures: intervals of rationals, tails of chi-square laws, and the largest second moment on a
rare event.

Ends are computed in interval arithmetic at mpmath's working precision, so a number that is said
to be a bound is on its side of the truth. This trusts mpmath's own rounding, and its erfc to 30
bits less than it is computed with.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import cache
from .laws import real
from .obligations import require

_STEPS = 500
_GUARD = 30
"""Bits of working precision with which erfc is computed in excess, and not trusted."""


def interval(value: Fraction | int) -> Any:
    """Return a rational as an interval of the working precision."""
    mp.iv.prec = mp.mp.prec
    return mp.iv.mpf(Fraction(value).numerator) / Fraction(value).denominator


def point(value: Any) -> Any:
    """Return an mpmath number as an interval of width 0."""
    mp.iv.prec = mp.mp.prec
    return mp.iv.mpf(value)


def lower(value: Any) -> Any:
    """Return the lower end of an interval."""
    return mp.mpf(value.a)


def upper(value: Any) -> Any:
    """Return the upper end of an interval."""
    return mp.mpf(value.b)


@states(Source("OURS", "tails of chi-square laws as finite sums"))
def tail(d: int, q: Any) -> Any:
    """Return an interval that contains P(chi2_d > q), for an interval q > 0.

    With x = q / 2: e^-x times the sum of x^j / j!, j < d / 2, for even d; for odd d
    erfc(sqrt x) plus e^-x times the sum of x^(j - 1/2) / Gamma(j + 1/2), 1 <= j <= (d - 1) / 2.
    By parts, two degrees of freedom at a time.
    """
    x = q / 2
    if d % 2:
        start, term, steps, half = _erfc(mp.iv.sqrt(x)), 2 * mp.iv.sqrt(x / mp.iv.pi), d // 2, 0.5
    else:
        start, term, steps, half = point(0), point(1), d // 2, 0.0
    total = point(0)
    for j in range(1, steps + 1):
        total += term
        term *= x / (j + half)
    return start + mp.iv.exp(-x) * total


_MOST = 2000
"""Largest x for which ``below`` adds its series up."""


def below(degrees: Any, x: Any) -> Any:
    """Return P(chi2_degrees <= x) to the working precision, which is no enclosure.

    With h = x / 2 and a = degrees / 2 it is e^-h h^a / Gamma(a + 1) times the sum of x^n /
    ((degrees + 2) ... (degrees + 2 n)), by parts. Its terms are positive, and are added up as
    integers over a power of two, in half of the time of an incomplete gamma function.
    """
    x, whole = mp.mpf(x), int(degrees)
    if whole != degrees or not 0 < x < _MOST:
        return mp.gammainc(mp.mpf(degrees) / 2, 0, x / 2, regularized=True)
    bits = mp.mp.prec + _GUARD
    by = int(mp.ldexp(x, bits))
    term = total = 1 << bits
    while term:
        whole += 2
        term = (term * by >> bits) // whole
        total += term
    with mp.extraprec(_GUARD):
        half, n = x / 2, int(degrees)
        front = mp.exp(-half) * half ** (n // 2) / _factorial(n, mp.mp.prec)
        result = front * (mp.sqrt(half) if n % 2 else 1) * mp.ldexp(total, -bits)
    return +result


@cache
def _factorial(degrees: int, precision: int) -> Any:
    return mp.gamma(mp.mpf(degrees) / 2 + 1)


def _erfc(x: Any) -> Any:
    """Return an enclosure of erfc, a decreasing function, at an interval."""
    with mp.workprec(mp.mp.prec + _GUARD):
        low, high = mp.erfc(mp.mpf(x.b)), mp.erfc(mp.mpf(x.a))
        slack = mp.ldexp(1, -mp.mp.prec + _GUARD // 2)
        ends = low * (1 - slack), high * (1 + slack)
    return mp.iv.mpf(ends)


def quantile_below(d: int, delta: Fraction) -> Any:
    """Return a number q, as near as the precision allows, with P(chi2_d > q) >= delta for certain;
    delta < 1.

    It takes Newton's steps for the logarithm of the tail, none below a half of q or above twice
    q.
    """
    half, goal, q = mp.mpf(d) / 2, mp.log(real(delta)), mp.mpf(d)
    for _ in range(_STEPS):
        above = mp.gammainc(half, q / 2, mp.inf, regularized=True)
        hazard = density(d, q) / above
        step = (mp.log(above) - goal) / hazard
        q = min(max(q + step, q / 2), 2 * q)
        if abs(step) < mp.ldexp(q, -mp.mp.prec + 12):
            break
    back = mp.ldexp(1, -mp.mp.prec + 12)
    while lower(tail(d, point(q))) < real(delta):
        q, back = q * (1 - back), min(2 * back, mp.mpf(1) / 2)
    return q


def density(d: int, x: Any) -> Any:
    """Return the density of chi2_d."""
    half = mp.mpf(d) / 2
    return mp.exp((half - 1) * mp.log(x / 2) - x / 2 - mp.loggamma(half)) / 2


@cache
def _top_mass(d: int, delta: Fraction, precision: int) -> Any:
    return upper(d * tail(d + 2, point(quantile_below(d, delta))))


@states(Source("OURS", "what a rare event can hold of a Gaussian vector's squared length"))
def top_mass(d: int, delta: Fraction) -> Any:
    """Return an upper bound on E[|g|^2; S], g standard normal in R^d, over events S of probability
    <= delta.

    The largest is that of the longest vectors, {|g|^2 > q}: any other event of that probability
    swaps longer vectors for shorter ones. x times the density of chi2_d is d times that of
    chi2_{d + 2}, so it is d P(chi2_{d + 2} > q). It grows as q falls, and q is taken on that
    side.
    S may depend on other coins besides: then it is a density between 0 and 1, and the same
    holds.
    """
    if delta <= 0:
        return mp.mpf(0)
    if delta >= 1:
        return mp.mpf(d)
    return _top_mass(d, Fraction(delta), mp.mp.prec)


# --- obligations --------------------------------------------------------------------------------

_SMALL = tuple(
    (d, Fraction(delta)) for d in (1, 2, 3, 6) for delta in ("1e-6", "1/100", "1/3", "9/10")
)


@states(Source("OURS", "tails of chi-square laws as finite sums"))
def obligation_tail(claimed: Callable[[int, Any], Any] = tail) -> int:
    """Check that the enclosed tail contains mpmath's incomplete gamma function, and is nearly no
    wider.
    """
    cases, near = 0, mp.ldexp(1, -mp.mp.prec + 20)
    for d in (*range(1, 12), 400, 999, 1000):
        for share in (Fraction(1, 10), Fraction(1), Fraction(6, 5), Fraction(40, d)):
            x = share * d
            enclosure = claimed(d, interval(x))
            known = mp.gammainc(mp.mpf(d) / 2, real(x) / 2, mp.inf, regularized=True)
            least, most = lower(enclosure), upper(enclosure)
            case = f"P(chi2_{d} > {x}) = {known}, said to be in [{least}, {most}]"
            require(least <= known * (1 + near) and known * (1 - near) <= most, case)
            require(most - least <= known * near * d, case)
            cases += 1
    return cases


@states(Source("OURS", "what a rare event can hold of a Gaussian vector's squared length"))
def obligation_top_mass(claimed: Callable[[int, Fraction], Any] = top_mass) -> int:
    """Check by quadrature that it is the integral of x over chi2_d's upper tail of mass delta;
    that it is more than both ends of mass delta / 2 contain together; and that it is d at
    delta = 1.
    """
    cases, near = 0, mp.mpf("1e-9")
    with mp.workdps(15):
        for d, delta in _SMALL:
            most = claimed(d, delta)
            held = _integral(d, _bisected(d, delta), mp.inf)
            require(abs(held - most) <= near * held, f"d = {d}, {delta}: {held}, not {most}")
            shortest = _integral(d, mp.mpf(0), _bisected(d, 1 - delta / 2))
            ends = _integral(d, _bisected(d, delta / 2), mp.inf) + shortest
            require(ends < most, f"d = {d}, {delta}: both ends hold {ends}, beyond {most}")
            require(most < claimed(d, Fraction(1)) == d, f"d = {d}: {most} of {d}")
            cases += 1
    return cases


def _bisected(d: int, mass: Fraction) -> Any:
    """Return the upper quantile again, by halving alone."""
    low, high = mp.mpf(0), mp.mpf(4 * d + 200)
    for _ in range(60):
        middle = (low + high) / 2
        above = mp.gammainc(mp.mpf(d) / 2, middle / 2, mp.inf, regularized=True)
        low, high = (middle, high) if above > real(mass) else (low, middle)
    return low


def _integral(d: int, low: Any, high: Any) -> Any:
    """Return the integral of x over part of chi2_d's law."""
    ends = [low, low + 2 * mp.sqrt(d) + 8, low + 200 + 4 * d] if high == mp.inf else [low, high]

    def of_root(r: Any) -> Any:  # x = r^2 takes the pole of d = 1 away
        return 2 * r * r**2 * density(d, r**2)

    return mp.quad(of_root, [mp.sqrt(end) for end in ends])
