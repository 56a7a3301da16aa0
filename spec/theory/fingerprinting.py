"""Fingerprinting: the identities by which scores add up (tracing_bound.py), checked exactly, and
the isotropic bound with its constant.

An accurate estimate tells about its records; the bounds are in the literature's form.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .chi_square import interval, lower, point
from .laws import real
from .obligations import require
from .tracing_bound import BOUND, leak

ISOTROPIC = Source(
    "KLSU19",
    "Theorem 6.5, lower bound for means of isotropic vectors",
    SourceStatus.CHANGED_CONSTANTS,
    "the constant 12 for every epsilon, with our own condition on delta",
)


@states(ISOTROPIC)
def records_needed_in_box(
    *, epsilon: Fraction, delta: Fraction, d: int, reach: Fraction, alpha: Fraction
) -> Any:
    """Return the records of N(p, I) needed for the root mean squared error alpha over p uniform on
    [-R, R]^d.

    With Z_i = sum_j (R^2 - p_j^2) (M_j - p_j) (X_ij - p_j) and E[(R^2 - p^2) g'(p)] = 2 E[p g]:
    E sum_i Z_i + E|M - p|^2 = 2 E<p, M> + E|M - p|^2 = E|M|^2 + E|p|^2 >= d R^2 / 3, and E
    Z_i <= R^2 alpha ``leak`` by (b) and (c) of tracing_bound.py. Rounded down.
    """
    square = interval(reach) ** 2
    told = d * square / 3 - interval(alpha) ** 2
    return lower(told / (square * interval(alpha) * point(leak(epsilon, delta, d))))


@states(ISOTROPIC)
def records_needed_plainly(epsilon: Fraction, d: int, alpha: Fraction) -> Fraction:
    """Return d / (12 alpha epsilon), for alpha^2 <= d R^2 / 6 and a small delta.

    Delta is so small that n records lose at most d / 12 to it: n alpha (``leak`` - ``drift``)
    <= d / 12.

    Then alpha takes d R^2 / 6 of d R^2 / 3 and delta takes d R^2 / 12 of the rest, and d
    R^2 / 12 remains against drift R^2 alpha n. And drift <= epsilon: E_P N <= sqrt(2 KL(P|Q))
    (Donsker and Varadhan), and as x ln x is below its chord over [e^-epsilon, e^epsilon], in
    which dP/dQ is, KL(P|Q) <= epsilon tanh(epsilon / 2) <= epsilon^2 / 2.
    """
    return d / (12 * alpha * epsilon)


# --- obligations: scores add up -----------------------------------------------------------------

Polynomial = Mapping[tuple[int, int], Fraction]
"""Polynomial in p and in g, where sigma g / sqrt(n) is the records' mean less p."""


def _times(a: Polynomial, b: Polynomial) -> Polynomial:
    made: dict[tuple[int, int], Fraction] = defaultdict(Fraction)
    for ((i, j), x), ((k, m), y) in product(a.items(), b.items()):
        made[i + k, j + m] += x * y
    return made


def _plus(a: Polynomial, b: Polynomial, factor: int = 1) -> Polynomial:
    return {key: a.get(key, Fraction(0)) + factor * b.get(key, Fraction(0)) for key in {*a, *b}}


def _of_mean(coefficients: Sequence[Fraction], sigma: Fraction) -> Polynomial:
    """Return sum_k c_k (p + sigma g)^k as a polynomial."""
    return {
        (k - m, m): c * comb(k, m) * sigma**m
        for k, c in enumerate(coefficients)
        for m in range(k + 1)
    }


def _normal_moment(k: int, square: Fraction) -> Fraction:
    """Return the k-th moment of N(0, square)."""
    if k % 2:
        return Fraction(0)
    result = Fraction(1)
    for odd in range(1, k, 2):
        result *= odd * square
    return result


def _box_moment(k: int, square: Fraction) -> Fraction:
    """Return the k-th moment of the uniform law on [-R, R], R^2 = square."""
    return Fraction(0) if k % 2 else square ** (k // 2) / (k + 1)


Moment = Callable[[int, Fraction], Fraction]
_P: Polynomial = {(1, 0): Fraction(1)}
_G: Polynomial = {(0, 1): Fraction(1)}
_ESTIMATES: dict[str, tuple[Fraction, ...]] = {
    name: tuple(map(Fraction, coefficients.split()))
    for name, coefficients in {
        "zero": "0",
        "a constant": "1",
        "the mean": "0 1",
        "half the mean": "0 1/2",
        "nearly the mean": "1/10 99/100",
        "more than the mean": "0 6/5",
        "a cubic": "0 1 0 -1/10",
        "a quintic": "1/3 1/2 -1/7 0 0 1/50",
    }.items()
}


def _facts(
    moment: Moment,
    weight: Callable[[Fraction], Polynomial],
    square: Fraction,
    n: int,
    sigmas: Sequence[Fraction],
    coefficients: Sequence[Fraction],
) -> tuple[Fraction, Fraction]:
    """Return (E sum_i Z_i, E|M - p|^2) exactly: sum_i xi_i is n times the mean g of them, g ~
    N(0, 1 / n).
    """

    def expected(polynomial: Polynomial) -> Fraction:
        each = (
            c * moment(i, square) * _normal_moment(j, Fraction(1, n))
            for (i, j), c in polynomial.items()
        )
        return sum(each, Fraction(0))

    scores, error = Fraction(0), Fraction(0)
    for sigma in sigmas:
        off = _plus(_of_mean(coefficients, sigma), _P, -1)
        scores += n * expected(_times(weight(square), _times(off, _G)))
        error += expected(_times(off, off))
    return scores, error


def _least_scores(roots: Fraction, total: Fraction, alpha: Any, spread: Any) -> Any:
    return real(roots) - alpha * mp.sqrt(real(total)) / spread


def _least_scores_in_box(roots: Fraction, total: Fraction, alpha: Any, reach: Any) -> Any:
    return 2 * real(roots) / 3 - 2 * alpha * mp.sqrt(real(total) / 3) / reach


Least = Callable[[Fraction, Fraction, Any, Any], Any]


def _scores_add_up(claimed: Least, moment: Moment, weight: Callable[[Fraction], Polynomial]) -> int:
    cases, near = 0, mp.mpf("1e-12")
    sizes = product((1, 3, 1000), (Fraction(1, 4), Fraction(9)), ("1", "1 1", "3 1 1/2"))
    for n, square, texts in sizes:
        sigmas = tuple(map(Fraction, texts.split()))
        roots, total = sum(sigmas, Fraction(0)), sum((s**2 for s in sigmas), Fraction(0))
        for name, coefficients in _ESTIMATES.items():
            scores, error = _facts(moment, weight, square, n, sigmas, coefficients)
            least = claimed(roots, total, mp.sqrt(real(error)), mp.sqrt(real(square)))
            case = f"{name}, n = {n}, tau^2 or R^2 = {square}, sigma = {texts}: {scores} < {least}"
            require(real(scores) + near * max(1, abs(least)) >= least, case)
            cases += 1
    return cases


@states(BOUND)
def obligation_scores_add_up(claimed: Least = _least_scores) -> int:
    """Check that E sum_i Z_i is at least what (a) says, for polynomials of the records' mean under
    normal means, by exact moments; for 0, a constant and the mean of many records it is nearly
    equal.
    """
    return _scores_add_up(claimed, _normal_moment, lambda square: {(0, 0): Fraction(1)})


@states(BOUND)
def obligation_scores_add_up_in_box(claimed: Least = _least_scores_in_box) -> int:
    """Check that scores add up as claimed for uniform means and scores weighted by 1 -
    p^2 / R^2.
    """
    return _scores_add_up(
        claimed, _box_moment, lambda square: {(0, 0): Fraction(1), (2, 0): -1 / square}
    )


_FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "sine": lambda p: mp.sin(2 * p + 1),
    "exponential": mp.exp,
    "hyperbolic tangent": lambda p: mp.tanh(3 * p),
    "rational": lambda p: 1 / (1 + p**2) + p,
    "normal": lambda p: mp.ncdf(p - 1),
    "quintic": lambda p: p**5 - p**2,
}


@states(Source("KLSU19", "fingerprinting lemma, for uniform means"))
def obligation_identity(
    claimed: Callable[[Any, Any], Any] = lambda reach, p: reach**2 - p**2,
) -> int:
    """Check that E[(R^2 - p^2) g'(p)] = 2 E[p g(p)], p uniform on [-R, R], by quadrature, for
    several g.
    """
    cases = 0
    for (name, g), reach in product(_FUNCTIONS.items(), (mp.mpf(1) / 2, mp.mpf(2))):
        ends = [-reach, 0, reach]
        left = mp.quad(lambda p, g=g, reach=reach: claimed(reach, p) * mp.diff(g, p), ends)
        right = mp.quad(lambda p, g=g: 2 * p * g(p), ends)
        case = f"{name}, R = {reach}: {left} is not {right}"
        require(abs(left - right) <= mp.mpf("1e-9") * (1 + abs(right)), case)
        cases += 1
    return cases


# --- obligations: constants ---------------------------------------------------------------------


@states(ISOTROPIC)
def obligation_isotropic(
    claimed: Callable[[Fraction, int, Fraction], Fraction] = records_needed_plainly,
    largest: Fraction = Fraction(10),
) -> int:
    """Check that d / (12 alpha epsilon) is below the bound with all its terms wherever its
    conditions hold, at their edges too: the largest alpha, and nearly the largest delta for as
    many records.
    """
    cases = 0
    epsilons = (Fraction(1, 100), Fraction(1), Fraction(5, 2), largest)
    for d, reach, epsilon in product((1, 6, 96), (Fraction(1), Fraction(10)), epsilons):
        alpha = reach * Fraction(int(mp.floor(mp.sqrt(mp.mpf(d) / 6) * 10**6)), 10**6)
        for smaller in (1, 50):
            said = claimed(epsilon, d, alpha / smaller)
            delta = _largest_delta(epsilon, d, said * alpha / smaller)
            given: dict[str, Any] = {"epsilon": epsilon, "d": d, "alpha": alpha / smaller}
            full = records_needed_in_box(delta=delta, reach=reach, **given)
            require(real(said) <= full, f"{given}, delta = {delta}: {said} beyond {full}")
            cases += 1
    return cases


def _largest_delta(epsilon: Fraction, d: int, product_: Fraction) -> Fraction:
    """Return the largest delta, within 2%, with n alpha (leak - drift) <= d / 12, n alpha being
    given.
    """

    def small(step: int) -> bool:
        rare = leak(epsilon, _delta(step), d) - leak(epsilon, Fraction(0), d)
        return bool(real(product_) * rare <= mp.mpf(d) / 12)

    low, high = 0, 64 * 120  # delta falls; the last one is small
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if small(middle) else (middle + 1, high)
    return _delta(low)


def _delta(step: int) -> Fraction:
    """Return the deltas 1, 127/128, ..., 65/128, 1/2, 127/256, ... by index."""
    halvings, part = divmod(step, 64)
    return Fraction(128 - part, 128) * Fraction(1, 2**halvings)
