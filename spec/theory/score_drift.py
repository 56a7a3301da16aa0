"""Drift that (epsilon, delta) privacy allows in the mean of a score that is symmetric without the
record.

This is part (c) of tracing_bound.py. P and Q are laws of which, except for parts nu of P and
nu' of Q of mass at most delta, each is at most e^epsilon times the other; Z is the score.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .chi_square import interval, point, tail, upper
from .laws import real
from .obligations import require

_DRIFT = Source(
    "OURS", "the most that a likelihood ratio of e^+-epsilon and mass one moves a score"
)
_LARGE = 30  # from here on tanh rounds to 1
_Law = tuple[Any, ...]


def threshold(epsilon: Fraction) -> Any:
    """Return the t with P(N > t) = 1 / (1 + e^epsilon), N standard normal; approximately for a
    large epsilon.
    """
    e = real(epsilon)
    return mp.sqrt(2) * mp.erfinv(mp.tanh(e / 2)) if e < _LARGE else mp.sqrt(2 * e)


@states(_DRIFT)
def drift(epsilon: Fraction) -> Any:
    """Return the largest E_P N, N standard normal under Q and dP/dQ in [e^-epsilon, e^epsilon];
    rounded up.

    For every t, E_P N = t + E_P(N - t) <= t + e^epsilon E_Q(N - t)^+ - e^-epsilon E_Q(N - t)^-.
    At t = ``threshold`` that is (e^epsilon - e^-epsilon) times the density at t, and an
    equality: dP/dQ = e^epsilon above t and e^-epsilon below has mass 1. (With t = 0 it is
    sqrt(2 / pi) sinh(epsilon), for P of any mass.)

    For R N instead, R >= 0 any number that is independent of N under Q, it bounds E_P[R N] over
    the larger of E_P R and E_Q R, as the terms in Q are positive: t E_P R + (drift - t) E_Q R.
    """
    e, t = mp.iv.exp(interval(epsilon)), point(threshold(epsilon))
    above, density = tail(1, t * t) / 2, mp.iv.exp(-t * t / 2) / mp.iv.sqrt(2 * mp.iv.pi)
    without = density * (e - 1 / e) - t * (e * above + (1 - above) / e)
    return upper(t + max(upper(without), mp.mpf(0)))


# --- obligations --------------------------------------------------------------------------------

_SCORES = (-3, -1, 0, 1, 3)


def most_with_privacy(epsilon: Fraction, delta: Any, q: _Law, t: int) -> Any:
    """Return a bound on E_P Z, for Z of the law q on the scores, none of which is beyond 3."""
    e = mp.exp(real(epsilon))
    above = sum(mass * max(z - t, 0) for mass, z in zip(q, _SCORES, strict=True))
    below = sum(mass * max(t - z, 0) for mass, z in zip(q, _SCORES, strict=True))
    return t + e * above - below / e + delta * (3 - t) + delta * (3 + t) / e


@states(_DRIFT)
def obligation_two_sided(
    claimed: Callable[[Fraction, Any, _Law, int], Any] = most_with_privacy,
) -> int:
    """Check (c) for laws P and Q of a bounded score, R = 1, t = 0 and 1: all P with masses in
    eighths, with the delta that they have, and those that privacy just allows, where it is an
    equality.
    """
    cases, near, equal = 0, mp.mpf("1e-12"), set()
    eighths = [
        tuple(real(Fraction(k, 8)) for k in (*ks, 8 - sum(ks)))
        for ks in product(range(0, 9, 2), repeat=4)
        if sum(ks) <= 8
    ]
    for outer, inner, t in product((1, 2), (1, 3), (0, 1)):
        masses = (outer, inner, 16 - 2 * outer - 2 * inner, inner, outer)
        q = tuple(real(Fraction(k, 16)) for k in masses)
        for epsilon in (Fraction(0), Fraction(1, 4), Fraction(1)):
            allowed = tuple(_just_allowed(q, epsilon, _SCORES.index(t)))
            for p in (*eighths, *allowed):
                delta = max(_hockey_stick(p, q, epsilon), _hockey_stick(q, p, epsilon))
                mean = sum(mass * z for mass, z in zip(p, _SCORES, strict=True))
                most = claimed(epsilon, delta, q, t)
                require(mean <= most + near, f"{p}, {q}, epsilon = {epsilon}: {mean} > {most}")
                if p in allowed and epsilon:
                    require(mean >= most - near, f"{p}, {q}, epsilon = {epsilon}: {mean} < {most}")
                    equal.add(t)
                cases += 1
    require(equal == {0, 1}, f"equality for t in {equal} alone")
    return cases


def _just_allowed(q: _Law, epsilon: Fraction, at: int) -> Iterator[_Law]:
    """Yield laws with e^epsilon Q and a little more above a score, e^-epsilon Q and a little less
    below it.
    """
    e = mp.exp(real(epsilon))
    for delta in (mp.mpf(0), mp.mpf(1) / 32):
        low = [(q[0] - delta) / e, *(mass / e for mass in q[1:at])]
        high = [*(mass * e for mass in q[at + 1 : -1]), q[-1] * e + delta]
        rest = 1 - sum(low) - sum(high)
        if q[at] / e <= rest <= q[at] * e:
            yield (*low, rest, *high)


def _hockey_stick(p: _Law, q: _Law, epsilon: Fraction) -> Any:
    e = mp.exp(real(epsilon))
    return sum(max(mp.mpf(0), a - e * b) for a, b in zip(p, q, strict=True))


@states(_DRIFT)
def obligation_drift(claimed: Callable[[Fraction], Any] = drift) -> int:
    """Check by quadrature that the law whose density is e^epsilon times the normal one above
    ``threshold``, and e^-epsilon times it below, has mass 1 and this mean; it is above the
    threshold, and below sqrt(2 / pi) sinh(epsilon).
    """
    cases, near = 0, mp.mpf("1e-9")
    for text in ("1/100", "1/4", "1", "2", "5", "10"):
        e, t = mp.exp(real(Fraction(text))), threshold(Fraction(text))
        parts = (([t, t + 2, t + 12], e), ([-12, -4, t], 1 / e))
        mass, mean = (
            sum(factor * mp.quad(f, ends) for ends, factor in parts)
            for f in (mp.npdf, lambda x: x * mp.npdf(x))
        )
        most = claimed(Fraction(text))
        require(abs(mass - 1) < near, f"epsilon = {text}: mass {mass}")
        require(abs(mean - most) < near * (1 + most), f"epsilon = {text}: mean {mean}, not {most}")
        before = mp.sqrt(2 / mp.pi) * mp.sinh(real(Fraction(text)))
        require(t < most < before, f"epsilon = {text}: {most} is not between {t} and {before}")
        cases += 1
    return cases
