"""Distance of the maximum likelihood estimate of truncated records from the truth, without privacy
and with it: ZZ25's Lemma 3.6 and Theorem 3.1.

Records are kept where |T - c| <= r, and F(theta) = A(theta) - <theta, Tbar> is the empirical
negative log-likelihood of the truncated family, Tbar the mean of T, A the truncated log
partition. Its gradient is A'(theta) - Tbar, that of the population A'(theta) - A'(theta*):
their difference A'(theta*) - Tbar is the same for all theta. So uniform convergence is
convergence of one mean. With noise, Tbar + Z takes its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .caches import lru_cache
from .joint import normal_length
from .laws import real
from .obligations import require

_UNIFORM = Source(
    "ZZ25",
    "Lemma 3.6, uniform convergence of the likelihood",
    SourceStatus.CHANGED_CONSTANTS,
    note="the gradients' difference is constant; "
    "n from r^2 (1 + sqrt(2 ln(1 / beta)))^2 / (l alpha)^2 on",
)
_RATE = Source(
    "ZZ25",
    "Theorem 3.1, exponential families by truncation",
    SourceStatus.CHANGED_CONSTANTS,
    note="by one release",
)
Law = Mapping[Any, Fraction]
"""Masses by value: an integer, or two."""


def mean_deviation(radius: Any, n: int, beta: Any) -> Any:
    """Compute the length r (1 + sqrt(2 ln(1 / beta))) / sqrt(n) that |Tbar - E T| exceeds with
    probability at most beta, for n records with |T - c| <= r = ``radius``.

    Its mean is at most sqrt(tr Cov / n) <= r / sqrt(n), and one record moves it by 2 r / n
    (McDiarmid). The dimension does not enter but by r.
    """
    return radius * (1 + mp.sqrt(2 * mp.log(1 / mp.mpf(beta)))) / mp.sqrt(n)


@states(_UNIFORM)
def records_for_sampling(radius: Any, curvature: Any, alpha: Any, beta: Any) -> int:
    """Compute the number n of truncated records from which on the minimizer of F is within alpha
    of theta*, except with probability beta.

    F is ``curvature``-strongly convex on a convex set that contains both, so curvature
    |theta^ - theta*| <= |F'(theta*)| = |A'(theta*) - Tbar|. The radius is of the order
    sqrt(p L), which is linear in p, as ZZ25's n.
    """
    return int(mp.ceil(mean_deviation(radius, 1, beta) ** 2 / (curvature * mp.mpf(alpha)) ** 2))


@states(_RATE)
def records_needed(p: int, radius: Any, curvature: Any, mu: Any, alpha: Any, beta: Fraction) -> int:
    """Compute the number n of truncated records from which on one mu-GDP release of their sum
    gives an estimate within alpha of theta*, except with probability beta.

    theta^ minimizes A(theta) - <theta, Tbar + Z> over a convex set with theta*, where A'' >=
    curvature: (curvature) |theta^ - theta*| <= |Tbar - A'(theta*)| + |Z| (strong monotonicity
    against the optimality of theta^). Half of curvature alpha is for either: the first by
    ``mean_deviation`` at beta / 2; the second is normal of deviation 2 r / (n mu) in p columns,
    and at most that times ``normal_length`` except with probability beta / 2. So n is the
    larger of 4 r^2 (1 + sqrt(2 ln(2 / beta)))^2 / (l alpha)^2 and 4 r (sqrt(p) +
    sqrt(2 ln(2 / beta))) / (l alpha mu): linear in p and log(1 / beta), in 1 / alpha^2 and
    1 / (alpha mu), for r of the order sqrt(p). (The number of records in the set is taken as
    known: replace.)
    """
    half = curvature * mp.mpf(alpha) / 2
    sampling = (mean_deviation(radius, 1, real(beta) / 2) / half) ** 2
    noise = 2 * radius * normal_length(p, beta / 2) / (mu * half)
    return int(mp.ceil(max(sampling, noise)))


# --- obligations --------------------------------------------------------------------------------


def tilted(base: Law, ratio: Fraction) -> dict[Any, Fraction]:
    """Compute the member of the family with e^theta = ratio (in every coordinate), exactly."""
    weights = {t: mass * ratio ** (t if isinstance(t, int) else sum(t)) for t, mass in base.items()}
    total = sum(weights.values())
    return {t: weight / total for t, weight in weights.items()}


def _plus(a: Any, b: Any) -> Any:
    return a + b if isinstance(a, int) else tuple(x + y for x, y in zip(a, b, strict=True))


def _sums(law: Law, n: int) -> dict[Any, Any]:
    """Compute the law of the sum of n records."""
    sum_law: dict[Any, Any] = {}
    masses = {t: real(mass) for t, mass in law.items()}
    for _ in range(n):
        before, sum_law = sum_law or {None: mp.mpf(1)}, {}
        for total, mass in before.items():
            for t, one in masses.items():
                to = t if total is None else _plus(total, t)
                sum_law[to] = sum_law.get(to, mp.mpf(0)) + mass * one
    return sum_law


def _mean(law: Law) -> tuple[Fraction, ...]:
    first = next(iter(law))
    width = 1 if isinstance(first, int) else len(first)
    return tuple(
        sum((mass * Fraction(_part(t, j)) for t, mass in law.items()), Fraction(0))
        for j in range(width)
    )


def _part(t: Any, j: int) -> Any:
    return t if isinstance(t, int) else t[j]


def _off(total: Any, n: int, mean: tuple[Fraction, ...]) -> Any:
    return mp.sqrt(
        mp.fsum((mp.mpf(_part(total, j)) / n - real(m)) ** 2 for j, m in enumerate(mean))
    )


_LINE: Law = {t: Fraction(1, math.factorial(t)) for t in range(5)}
"""A Poisson law, up to 4."""
_PLANE: Law = {
    (i, j): Fraction(1, math.factorial(i) * math.factorial(j))
    for i, j in product(range(4), repeat=2)
    if (i - 1) ** 2 + (j - 1) ** 2 <= 2
}
"""Two of them, within sqrt(2) of (1, 1)."""
_TWO: Law = {0: Fraction(1), 4: Fraction(1)}
_WORLDS: tuple[tuple[str, Law, Any], ...] = (
    ("line", _LINE, 2),
    ("plane", _PLANE, mp.sqrt(2)),
    ("two points", _TWO, 2),
)
_RATIOS = (Fraction(1, 2), Fraction(1), Fraction(2))


@states(_UNIFORM)
def obligation_gradients(claimed: Callable[..., Any] = mean_deviation) -> int:
    """Check exactly, for three truncated families, that at every theta the empirical gradient and
    that of the population differ by the same vector.

    For 5 to 40 records that vector is longer than ``claimed`` with probability at most beta, by
    the exact law of the sum; for some, half of the bound would hold for no beta.
    """
    cases, nearest = 0, mp.mpf(0)
    for (name, base, radius), ratio, n in product(_WORLDS, _RATIOS, (5, 20, 40)):
        if name == "plane" and n > 5:
            continue
        truth = tilted(base, ratio)
        mean, some = _mean(truth), next(iter(base))
        gradients = set()
        for other in _RATIOS:
            own = _mean(tilted(base, other))
            ours = [a - Fraction(_part(some, j)) for j, a in enumerate(own)]
            theirs = [a - m for a, m in zip(own, mean, strict=True)]
            gradients.add(tuple(a - b for a, b in zip(ours, theirs, strict=True)))
        require(len(gradients) == 1, f"{name}, {ratio}: {gradients}")
        lengths = [(_off(total, n, mean), mass) for total, mass in _sums(truth, n).items()]
        for beta in (Fraction(1, 2), Fraction(1, 20), Fraction(1, 1000)):
            most = claimed(radius, n, real(beta))
            beyond = mp.fsum(mass for length, mass in lengths if length > most)
            case = f"{name}, {ratio}, {n}, {beta}: beyond {most} with {beyond}"
            require(beyond <= real(beta), case)
            half = mp.fsum(mass for length, mass in lengths if length > most / 2)
            nearest, cases = max(nearest, half / real(beta)), cases + 1
    require(nearest > 1, f"half of the bound would do: {nearest}")
    return cases


@lru_cache(maxsize=64)
def _line_moments(theta: float) -> tuple[float, float]:
    """Compute mean and variance of the truncated Poisson law."""
    weights = [math.exp(theta * t) * float(mass) for t, mass in _LINE.items()]
    total = math.fsum(weights)
    mean = math.fsum(w * t for w, t in zip(weights, _LINE, strict=True)) / total
    square = math.fsum(w * (t - mean) ** 2 for w, t in zip(weights, _LINE, strict=True))
    return mean, square / total


@states(_RATE)
def obligation_records_needed(claimed: Callable[..., int] = records_needed) -> int:
    """Check for counts up to 4 of a Poisson law that with the claimed number of records the
    estimate is off by more than 1 with probability at most beta.

    The probability is by the law of the sum (in floats, to 1e-12) and normal tails: the
    estimate is beyond theta* + 1 where the released mean is beyond that of the law there. With
    a 200th of the records it is off more often for some settings, where sampling decides, and
    with a twentieth where noise does.
    """
    cases, alpha = 0, 1.0
    curvature = min(_line_moments(-1 + 2.25 * k / 64)[1] for k in range(65))
    for mu, part in ((1.0, 200), (1 / 30, 20)):
        short = 0.0
        for beta, ratio in product((Fraction(1, 10), Fraction(1, 100)), _NEAR):
            n = claimed(1, 2, curvature, mp.mpf(mu), alpha, beta)
            require(n > 0, f"{mu}, {beta}: {n} records")
            own = _missed(n, mu, alpha, ratio)
            case = f"mu = {mu}, rate {ratio}, n = {n}: {own}, not {beta}"
            require(own <= beta, case)
            short = max(short, _missed(max(1, n // part), mu, alpha, ratio) / float(beta))
            cases += 1
        require(short > 1, f"mu = {mu}: one of {part} would do: {short}")
    return cases


_NEAR = (Fraction(1), Fraction(5, 4))


def _missed(n: int, mu: float, alpha: float, ratio: Fraction) -> float:
    """Compute P(|theta^ - theta*| > alpha)."""
    theta, scale = math.log(ratio), 4 / (n * mu)
    low, high = (_line_moments(theta + side * alpha)[0] for side in (-1, 1))

    def below(x: float) -> float:
        return math.erfc(-x / scale / math.sqrt(2)) / 2

    sums = _powers(ratio, n)
    return math.fsum(
        mass * (below(low - total / n) + below(total / n - high)) for total, mass in sums.items()
    )


@lru_cache(maxsize=64)
def _powers(ratio: Fraction, n: int) -> dict[int, float]:
    """Compute the law of the sum of n records, by squaring."""
    sum_law: dict[int, float] = {0: 1.0}
    square = {int(t): float(mass) for t, mass in tilted(_LINE, ratio).items()}
    while n:
        if n & 1:
            sum_law = _convolved(sum_law, square)
        square, n = _convolved(square, square) if n > 1 else square, n >> 1
    return sum_law


def _convolved(one: dict[int, float], other: dict[int, float]) -> dict[int, float]:
    sum_law: dict[int, float] = {}
    kept = [(b, q) for b, q in other.items() if q > 1e-18]
    for a, p in one.items():
        if p > 1e-18:
            for b, q in kept:
                sum_law[a + b] = sum_law.get(a + b, 0.0) + p * q
    return sum_law
