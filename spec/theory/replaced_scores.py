"""Drift that (epsilon, delta) privacy allows in the mean of a score where records are replaced.

This is part (e) of tracing_bound.py. A record x and a fresh one x' are N(0, I), M is run with x
(law P) or with x' (law P'), both given the other records. R >= 0 is a number that M and they give,
N = Z / R the score of x, and N' that of x'; under P, N' is standard normal whatever x, M and R are,
and under P' it is N. (Z is R times the product of x with a unit vector.)

Among the laws of M for all x, each is at most e^epsilon times every other, so they differ by that
factor in all, not up and down from the law without x. For t >= 0 and b > 0 let m = E (N - t)^+ and
c = E min((t - N)^+, b), N standard normal. If e^epsilon m <= c, then E_P Z <= t E R + (b / c)
sqrt(d delta) alpha, with alpha^2 = E R^2:

Z <= R t + R (N - t)^+ - R min((t - N)^+, b). With u = (N - t)^+ and v' = min((t - N')^+, b), E_P[R
u] = E_P[R u v'] / c, as N' is independent of the rest under P. By the symmetry of x and x', E_P[R
min((t - N)^+, b)] = E_P'[R v'] = E_P'[R v' u] / m. On all but a part of mass delta, for each x and
x', P <= e^epsilon P'. There both cancel, as e^epsilon / c <= 1 / m. The part nu left over adds at
most (b / c) E_nu[R |x|], since u <= |x| and v' <= b; given x its mass is at most delta, so
E_nu[R | x] is at most sqrt(delta E[R^2 | x]), and E_nu[R |x|] at most sqrt(delta d) alpha.
QED.

At delta 0 and b infinite, t with e^epsilon m = c is attained: by the density that is in the
proportion e^epsilon to 1 above and below t. For a small epsilon it is half of what score_drift.py
gives.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import cache
from .chi_square import interval, lower, point, tail, upper
from .laws import real
from .obligations import require

_REPLACED = Source("OURS", "the most that laws within e^epsilon of each other move a score")
_CAPS = tuple(map(Fraction, ("1/2", "1", "3/2", "2", "5/2", "3", "4", "6", "12")))
_STEPS = 60


def _above(t: Any) -> Any:
    """Return E (N - t)^+ for an mpmath number t, enclosed."""
    density = mp.iv.exp(-(point(t) ** 2) / 2) / mp.iv.sqrt(2 * mp.iv.pi)
    if t == 0:
        return density
    beyond = tail(1, point(t) ** 2) / 2
    return density - point(t) * (beyond if t > 0 else 1 - beyond)


def _below(t: Any, cap: Any) -> Any:
    """Return E min((t - N)^+, b), enclosed: E (t - N)^+ less E (t - b - N)^+.

    t - b is rounded, and lies in an interval; E (N - t)^+ falls in t.
    """
    rest = point(t) - point(cap)
    beyond = mp.iv.mpf([lower(_above(upper(rest))), upper(_above(lower(rest)))])
    return _above(t) - beyond + point(cap)


def threshold(epsilon: Fraction, cap: Any) -> Any:
    """Return a t with e^epsilon m <= c, by bisection nearly the least."""
    e, low, high = mp.iv.exp(interval(epsilon)), mp.mpf(0), mp.sqrt(2 * real(epsilon)) + 2
    for _ in range(_STEPS):
        middle = (low + high) / 2
        fits = upper(e * _above(middle)) <= lower(_below(middle, cap))
        low, high = (low, middle) if fits else (middle, high)
    return high


@states(_REPLACED)
def replaced_leak(epsilon: Fraction, delta: Fraction, d: int) -> Any:
    """Return the largest E_P Z over alpha that is proved: t + (b / c) sqrt(d delta) for the best
    of a few b; rounded up.
    """
    rare = mp.iv.sqrt(d * interval(min(max(delta, Fraction(0)), Fraction(1))))
    return min(upper(point(t) + factor * rare) for t, factor in _fitting(epsilon, mp.mp.prec))


@cache
def _fitting(epsilon: Fraction, _precision: int) -> list[tuple[Any, Any]]:
    """Return t and b / c, enclosed, for a few b."""
    e, both = mp.iv.exp(interval(epsilon)), []
    for cap in map(real, _CAPS):
        t = threshold(epsilon, cap)
        require(upper(e * _above(t)) <= lower(_below(t, cap)), f"epsilon = {epsilon}: {t}")
        both.append((t, point(cap) / _below(t, cap)))
    return both


# --- obligations --------------------------------------------------------------------------------

_SCORES = (-2, -1, 1, 2)
_Law = tuple[Fraction, ...]


def most_when_replaced(epsilon: Fraction, delta: Any, q: _Law, cap: int) -> Any:
    """Return a bound on E Z, for Z of the law q on the scores, none of which is beyond 2, given M:
    the least over t = 0, 1/8, ..., 2.
    """
    return min(t + factor * delta * (2 - t) for t, factor in _thresholds(epsilon, q, cap))


@cache
def _thresholds(epsilon: Fraction, q: _Law, cap: int) -> list[tuple[Any, Any]]:
    """Return each t = 0, 1/8, ..., 2 with e^epsilon m <= c, and b / c."""
    fitting = []
    for t in (Fraction(step, 8) for step in range(17)):
        scores = list(zip(q, _SCORES, strict=True))
        m = sum(mass * max(z - t, Fraction(0)) for mass, z in scores)
        c = sum(mass * min(max(t - z, Fraction(0)), Fraction(cap)) for mass, z in scores)
        if mp.exp(real(epsilon)) * real(Fraction(m)) <= real(Fraction(c)):
            fitting.append((real(t), real(cap / Fraction(c))))
    return fitting


@states(_REPLACED)
def obligation_replaced(
    claimed: Callable[[Fraction, Any, _Law, int], Any] = most_when_replaced,
) -> int:
    """Check the bound for all mechanisms that tell one of two numbers, with probabilities in
    eighths for each of four records, and a score that changes its sign with the number (R = 1,
    the records' law symmetric). Some of them come within a tenth of it.
    """
    cases, near = 0, mp.mpf("1e-12")
    nearest = mp.mpf(0)
    for outer, epsilon, cap in product((1, 2, 3), map(Fraction, ("1/4", "1", "2")), (1, 4)):
        q = tuple(Fraction(k, 8) for k in (outer, 4 - outer, 4 - outer, outer))
        e = mp.exp(real(epsilon))
        for told in _kernels(e):
            low, high = min(told), max(told)
            delta = max(high - e * low, 1 - low - e * (1 - high), mp.mpf(0))
            mean = mp.fsum(
                real(mass) * z * (2 * p - 1) for mass, z, p in zip(q, _SCORES, told, strict=True)
            )
            most = claimed(epsilon, delta, q, cap)
            require(mean <= most + near, f"{told}, {q}, epsilon = {epsilon}: {mean} > {most}")
            nearest = max(nearest, mean / most if most else 0)
            cases += 1
    require(nearest >= mp.mpf("0.9"), f"no mechanism is beyond {nearest} of the bound")
    return cases


def _kernels(e: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the probabilities of the first number for each record, with those that epsilon just
    allows."""
    eighths = [mp.mpf(k) / 8 for k in range(0, 9, 2)]
    yield from product(eighths, repeat=4)
    for k in range(1, 4):
        low = 1 / (1 + e)
        yield (*(low,) * k, *(1 - low,) * (4 - k))


@states(_REPLACED)
def obligation_attained(
    claimed: Callable[[Fraction], Any] = lambda epsilon: replaced_leak(epsilon, Fraction(0), 1),
) -> int:
    """Check by quadrature that the law with a density in the proportion e^epsilon to 1 above and
    below the bound at delta 0 has that mean, but for the largest b; it is below the drift from
    the law without the record, and near half of it for a small epsilon.
    """
    cases = 0
    for text in ("1/100", "1/4", "1", "2", "5"):
        epsilon = Fraction(text)
        t, e = claimed(epsilon), mp.exp(real(epsilon))
        parts = (([-12, -4, t], 1), ([t, t + 2, t + 12], e))
        mass, mean = (
            mp.fsum(factor * mp.quad(f, ends) for ends, factor in parts)
            for f in (mp.npdf, lambda x: x * mp.npdf(x))
        )
        require(abs(mean / mass - t) < mp.mpf("1e-9"), f"epsilon = {text}: {mean / mass}, not {t}")
        require(t < real(epsilon) / 2, f"epsilon = {text}: {t}")
        cases += 1
    return cases


@states(_REPLACED)
def obligation_delta(
    claimed: Callable[[Fraction, Fraction, int], Any] = replaced_leak,
) -> int:
    """Check the bound with a delta against one mechanism in d dimensions: with probability delta it
    gives the record's direction, otherwise that of one coordinate's sign, by randomized response.

    Its scores are |x| and that coordinate's length times the sign it tells, with means a = E |x|
    and b = tanh(epsilon / 2) sqrt(2 / pi). R may differ between the two: with E R^2 = 1 the
    largest mean is sqrt(delta a^2 + (1 - delta) b^2). For a small delta it comes within a tenth.
    """
    cases, nearest = 0, mp.mpf(0)
    for epsilon, delta, d in product(
        map(Fraction, ("1/4", "1", "2")), map(Fraction, ("1e-12", "1e-6", "1/100", "1/10")),
        (1, 10, 100),
    ):  # fmt: skip
        a = mp.sqrt(2) * mp.gammaprod([mp.mpf(d + 1) / 2], [mp.mpf(d) / 2])
        b = mp.tanh(real(epsilon) / 2) * mp.sqrt(2 / mp.pi)
        mean, most = (
            mp.sqrt(real(delta) * a**2 + real(1 - delta) * b**2),
            claimed(epsilon, delta, d),
        )
        require(mean <= most, f"epsilon = {epsilon}, {delta}, d = {d}: {mean} > {most}")
        nearest, cases = max(nearest, mean / most), cases + 1
    require(nearest >= mp.mpf("0.9"), f"the mechanism is not beyond {nearest} of the bound")
    return cases
