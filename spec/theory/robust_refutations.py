"""Refutations, in closed form, of steps in the proof of a robust private mean, and the parts that
can be saved.

Populations stand for good samples: S is N(0, 1) itself, tails of it are L and E.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import combinations_with_replacement
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from . import robust_claims
from .laws import real
from .obligations import require

_GAMMAS = tuple(Fraction(x) for x in ("0.1", "0.05", "0.005", "0.0005"))
_BIASED = ((100, 34), (1000, 23), (10_000, 20))
_SLACK = mp.mpf(10) ** -12


def _tail(mass: Fraction) -> tuple[Any, Any]:
    """Return (t, E[z^2; |z| > t]) for a standard normal z with P(|z| > t) = mass."""
    t = mp.sqrt(2) * mp.erfinv(1 - real(mass))
    return t, real(mass) + 2 * t * mp.npdf(t)


def tail_moment(gamma: Fraction) -> Any:
    """Return the second moment of L, the two tails of N(0, 1) of mass 2 gamma together."""
    return _tail(2 * gamma)[1] / real(2 * gamma)


@states(
    Source(
        "DH20",
        "Appendix 9.2, the second moment of L is below ln(|S|/|L|) + gamma |S|/|L|",
        SourceStatus.REFUTED,
        note="the source has a constant that is lost here",
    )
)
def step_of_lost_part(gamma: Fraction) -> Any:
    """Return the proof's bound for |L| = 2 gamma |S|."""
    return mp.log(real(1 / (2 * gamma))) + mp.mpf(1) / 2


def obligation_lost_step(claimed: Callable[[Fraction], Any] = step_of_lost_part) -> int:
    """Check that the tails of a normal law have a larger second moment than the proof of Lemma 3.2
    allows.
    """
    for gamma in _GAMMAS:
        moment = tail_moment(gamma)
        require(moment > claimed(gamma), f"gamma = {gamma}: {moment} is within {claimed(gamma)}")
    return len(_GAMMAS)


@states(
    Source(
        "DH20",
        "Appendix 9.3, (|E|/|S'|) ||M_E|| is at most ||M_S' - I||",
        SourceStatus.REFUTED,
        note="the source adds O(gamma ln(1/gamma)), which is lost here",
    )
)
def step_of_outlier_part(gamma: Fraction) -> Any:
    """Return the right side where E is a copy of L: then S' = S, and M_S' = I."""
    return mp.mpf(0)


def outlier_moment(gamma: Fraction) -> Any:
    """Return the left side there: E is the two tails of N(0, 1) of mass gamma."""
    return _tail(gamma)[1]


def obligation_outlier_step(claimed: Callable[[Fraction], Any] = step_of_outlier_part) -> int:
    """Check that a copy of the tails, which is no corruption at all, has a second moment above the
    proof's bound.
    """
    for gamma in _GAMMAS:
        moment = outlier_moment(gamma)
        require(moment > claimed(gamma), f"gamma = {gamma}: {moment} is within {claimed(gamma)}")
    return len(_GAMMAS)


def obligation_lost_part(claimed: Callable[[Fraction], Any] = robust_claims.lost_part) -> int:
    """Check Lemma 3.2 on all sets of up to 6 integers in [-3, 3] of second moment 1 + gamma, for
    every gamma at which the largest k may be lost and no fewer.
    """
    cases = 0
    for values in _sets():
        n, total = len(values), sum(x * x for x in values)
        ranked = sorted(values, reverse=True)
        for k in range(1, (n - 1) // 2 + 1):
            gamma = Fraction(k, 2 * n)
            unit = mp.sqrt(real((1 + gamma) * n / Fraction(total)))
            moved = abs(sum(ranked[:k])) * unit / n / real(1 - 2 * gamma)
            case = f"S = {values}, gamma = {gamma}, {k} lost: {moved} > {claimed(gamma)}"
            require(moved <= claimed(gamma) * (1 + _SLACK), case)
            cases += 1
    return cases


def _sets() -> Iterator[tuple[int, ...]]:
    for n in range(3, 7):
        for values in combinations_with_replacement(range(-3, 4), n):
            if any(values):
                yield values


def obligation_outlier_part(
    claimed: Callable[[Fraction, Any], Any] = robust_claims.outlier_part,
    most: Fraction = robust_claims.LITERALLY,
) -> int:
    """Check Lemma 3.3 by its second proof: first the distance of a part of a set from the others,
    exactly, then that the constants suffice for all gamma in thousandths up to ``most``.
    """
    cases = 0
    for values in _sets():
        n, total = len(values), sum(values)
        spread = n * sum(x * x for x in values) - total**2  # n^2 times the variance
        for k in range(1, n):
            part = sum(sorted(values)[:k])
            apart = Fraction(part, k) - Fraction(total - part, n - k)
            require(k * (n - k) * apart**2 <= spread, f"E = the least {k} of {values}")
            cases += 1
    for gamma in (Fraction(i, 1000) for i in range(1, int(1000 * most) + 1)):
        a = real(2 * gamma / (1 - 2 * gamma))
        for top in (0, mp.mpf("1e-3"), 1, 4, 10**9):
            r = a / (1 - a)
            reached = mp.sqrt(r * top) + r * robust_claims.kappa(gamma)
            case = f"gamma = {gamma}, largest eigenvalue {top}: {reached} > {claimed(gamma, top)}"
            require(reached <= claimed(gamma, top), case)
            cases += 1
    return cases


@states(
    Source("DH20", "Corollary 3.4.1, the step lambda* <= C gamma ln(1/gamma)", SourceStatus.REFUTED)
)
def obligation_stopping(claimed: Fraction = robust_claims.FACTOR) -> int:
    """Check that the largest eigenvalue of I, 1, is above C gamma ln(1/gamma) for every gamma."""
    gammas = [Fraction(i, 200) for i in range(1, 200)]
    for gamma in gammas:
        limit = real(claimed * gamma) * mp.log(real(1 / gamma))
        require(limit < 1, f"gamma = {gamma}: a limit of {limit} can be met")
    return len(gammas)


def exceeding(n: int, d: int, error: Any) -> Any:
    """Return the probability that the mean of n draws of N(0, I), d columns, is further than
    ``error`` from 0.
    """
    return mp.gammainc(mp.mpf(d) / 2, n * error**2 / 2, regularized=True)


def obligation_dimension(claimed: Callable[[int], Any] = robust_claims.error_of_clean_data) -> int:
    """Check that from these dimensions on, and not before, the mean of a clean sample is worse
    than the bound of Corollary 3.4.2 at least every other time: the bound does not depend on
    the dimension, and the error does.
    """
    for n, d in _BIASED:
        likely, before = (exceeding(n, k, claimed(n)) for k in (d, d - 1))
        require(
            before < mp.mpf(1) / 2 < likely, f"n = {n}, d = {d}: probabilities {before}, {likely}"
        )
    return len(_BIASED)


@states(Source("DH20", "Definition 9.1, good multisets", note="condition 3 where gamma = 1/n"))
def good_mean(n: int, d: int) -> Any:
    """Return the probability that the mean of n draws of N(0, I) is within 1 / n of 0:
    P(chi2_d <= 1 / n).
    """
    return mp.gammainc(mp.mpf(d) / 2, 0, 1 / mp.mpf(2 * n), regularized=True)


def obligation_good_mean(claimed: Callable[[int, int], Any] = good_mean) -> int:
    """Check the probability against closed forms for 1, 2 and 4 columns, and that it is never more
    than the volume of a ball allows.
    """
    cases = 0
    for n in (100, 1000, 10_000):
        x = 1 / mp.mpf(2 * n)
        closed = {1: mp.erf(mp.sqrt(x)), 2: -mp.expm1(-x), 4: -mp.expm1(-x) - x * mp.exp(-x)}
        for d in (1, 2, 4, 10, 100):
            chance, ball = claimed(n, d), x ** (mp.mpf(d) / 2) / mp.gamma(mp.mpf(d) / 2 + 1)
            require(0 < chance <= ball, f"n = {n}, d = {d}: {chance} beyond the volume's {ball}")
            if d in closed:
                near = abs(chance / closed[d] - 1) < mp.mpf(10) ** -6
                require(near, f"n = {n}, d = {d}: {chance}, in closed form {closed[d]}")
            cases += 1
    return cases


@states(
    Source("DH20", "Theorem 4.1, Algorithms 1 and 2 are (epsilon, tau)-DP", SourceStatus.REFUTED)
)
def obligation_no_delta(claimed: Callable[[Any, Any, Fraction], Any] = robust_claims.delta) -> int:
    """Check that neither algorithm is (epsilon, delta)-DP for any epsilon and delta < 1.

    Some replacement on the way from X to X + c moves the estimate by |c| / n
    (robust_filters.py), and the noise has one scale. For c = n (20 + 2 epsilon) scales no delta
    below 1 - 10^-12 remains.
    """
    cases = 0
    for n in (100, 1000, 10_000):
        tau = Fraction(1, n)
        for epsilon in (Fraction(1, 10), Fraction(1), Fraction(30)):
            for scale in (
                robust_claims.noise_scale(Fraction(1, 10), tau, epsilon),
                robust_claims.clean_noise_scale(n, tau, epsilon),
            ):
                delta = claimed((20 + 2 * real(epsilon)) * scale, scale, epsilon)
                require(delta > 1 - _SLACK, f"n = {n}, epsilon = {epsilon}: only delta {delta}")
                cases += 1
    return cases
