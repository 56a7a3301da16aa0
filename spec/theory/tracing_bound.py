"""Lower bound by tracing for means of vectors: a private mean cannot be so accurate that its
records leave a trace.

The mean is p ~ N(0, tau^2 I), and the n records are X_i ~ N(p, Sigma), Sigma = diag(sigma_j^2)
(``spectrum`` for any other), xi_i = Sigma^(-1/2) (X_i - p). M is the estimate (where it
abstains, any fixed point), alpha^2 = E|M - p|^2, and the score of record i is Z_i = <M - p,
xi_i>.

(a) Scores add up. Integrating by parts in x and then in p gives E sum_i Z_i = sum_j sigma_j
E[dg_j / dp_j] = sum_j sigma_j E[p_j M_j] / tau^2, g(p) = E[M | p]; and E[p_j M_j] = tau^2 +
E[p_j (M_j - p_j)]. By Cauchy-Schwarz it is at least tr Sigma^(1/2) - alpha
sqrt(tr Sigma) / tau.
(b) One record's score is small if the record was not there. Z'_i, with the i-th record drawn
again before M is run, is R = |M - p| times a standard normal number that is independent of M
and p, and E R <= alpha.
(c) Privacy (replace): the laws of (M, p, xi_i) with and without the record in M are P, Q. nu =
(P - e^epsilon Q)^+ is part of P and has mass at most delta; likewise nu' of Q. For t >= 0 and
W = Z - t R: E_P W = E_P W^+ - E_P W^- <= e^epsilon E_Q W^+ - e^-epsilon E_Q W^- + integral of
W^+ d nu + e^-epsilon integral of W^- d nu'. R has the same law under both; so at t =
``threshold`` t E_P R and the terms in Q are at most alpha ``drift`` together (score_drift.py).
As |Z| <= R |xi_i|, by Cauchy-Schwarz the first integral is at most alpha k_d, k_d^2 =
``top_mass(d, delta)``; under Q, Z is R times a standard normal number, so the second is at most
alpha (k_1 + t sqrt(delta)).

(d) Gaussian privacy with a rare event: for every S, P(S) <= F(Q(S)) + delta, F(q) =
Phi(Phi^-1(q) + mu). P(Z > t) is at most F(Q(Z > t)) + min(delta, P(Z > t)), and P(Z < -t), by
the same bound for its complement, is at least f(Q(Z < -t)) - min(delta, Q(Z < -t)), f(q) = 1 -
F(1 - q) <= q. The integrals over t of both minima are at most alpha k_d and alpha k_1, as in
(c). Those of F and f are E Z under the law P* with P*(Z > t) = F(Q(Z > t)), whose density with
respect to Q is F' of Q's rank of Z, averaged where ranks are tied. Z is symmetric under Q, so
only the density's odd part counts, and E Z under P* is at most alpha times its root mean
square. F' is the density of N(mu, 1) over that of N(0, 1), e^(mu x - mu^2 / 2), x standard
normal; its odd part is e^(-mu^2 / 2) sinh(mu x), with the mean square sinh(mu^2).

(e) Privacy where records are replaced, once more: the runs with any two records are compared, and
not each with one that has neither. That nearly halves the leak (replaced_scores.py).

Together n alpha leak >= tr Sigma^(1/2) - alpha sqrt(tr Sigma) / tau, with the leak drift + k_d
+ e^-epsilon (k_1 + t sqrt(delta)) by (c), or sqrt(sinh(mu^2)) + k_d + k_1 by (d), or that of (e).

Add-remove: compare with the run without record i. (b) to (d) hold as they stand, with the error
of n - 1 records in the terms of Q, which are positive, and that of n in t E_P R. So the same
number bounds the larger of the errors at n - 1 and at n records. As tau -> infinity the bound
is on the largest error over all means. For fewer coordinates the errors of the others are
dropped. For a smaller Sigma' <= Sigma, its records turn into those of Sigma by independent
noise, one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .chi_square import interval, lower, point, top_mass, upper
from .laws import real
from .obligations import require
from .profiles import gaussian_profile
from .replaced_scores import replaced_leak
from .score_drift import drift, threshold

BOUND = Source("OURS", "lower bound for means of anisotropic vectors, by tracing", note="DJYZZ24's "
               "Theorem 5.3 without its factor log^2 d, with constants")  # fmt: skip
Variances = Sequence[Any]
"""The eigenvalues of Sigma, positive: rationals, or numbers of mpmath."""


@states(BOUND)
def leak(epsilon: Fraction, delta: Fraction, d: int) -> Any:
    """Return the largest mean score of one record, over alpha; rounded up."""
    rare = [mp.iv.sqrt(point(top_mass(width, delta))) for width in (d, 1)]
    part = interval(min(max(delta, Fraction(0)), Fraction(1)))
    unlikely = rare[1] + point(threshold(epsilon)) * mp.iv.sqrt(part)
    return upper(point(drift(epsilon)) + rare[0] + unlikely / mp.iv.exp(interval(epsilon)))


@states(BOUND, Source("DRS22", "Gaussian differential privacy: definition, profile, group privacy"))
def gaussian_leak(mu_squared: Any, delta: Fraction, d: int) -> Any:
    """Return ``leak`` for mechanisms whose profiles are at most that of mu-GDP plus ``delta``;
    rounded up.

    By (d), and for mu > 1 also by (c) at some points of the profile, since sinh(mu^2) soon is
    far too large.
    """
    rare = [mp.iv.sqrt(point(top_mass(width, delta))) for width in (d, 1)]
    leaks = [upper(_odd_part(mu_squared) + rare[0] + rare[1])]
    if mu_squared > 1:
        square = Fraction(int(mp.ceil(mp.ldexp(real(mu_squared), _BITS))), 2**_BITS)
        deltas = ((e, delta + _above(gaussian_profile(square, e))) for e in _EPSILONS)
        leaks += [leak(e, some, d) for e, some in deltas if some < 1]
    return min(leaks)


_EPSILONS, _BITS = tuple(map(Fraction, ("1/2", "1", "2", "4", "8"))), 40


def _above(value: Any) -> Fraction:
    """Return a rational number that is a little larger."""
    return Fraction(int(mp.ceil(mp.ldexp(value, _BITS))) + 1, 2**_BITS)


def _odd_part(mu_squared: Any) -> Any:
    """Return sqrt(sinh(mu^2)), enclosed."""
    e = mp.iv.exp(_interval(mu_squared))
    return mp.iv.sqrt((e - 1 / e) / 2)


@states(BOUND)
def records_needed(
    *, epsilon: Fraction, delta: Fraction, variances: Variances, alpha: Any, spread: Any = None
) -> Any:
    """Return a number of records below which no private mean has the root mean squared error
    alpha; rounded down, 0 at least.

    The error is on average over p ~ N(0, spread^2 I), or at every mean if ``spread`` is None.
    """
    needed = [mp.mpf(0)]
    for part in _leading(variances):
        roots, total = _sums(part)
        lost = 0 if spread is None else point(alpha) * mp.iv.sqrt(total) / _interval(spread)
        whole = point(alpha) * leak(epsilon, delta, len(part))
        needed.append(lower((roots - lost) / whole))
    return max(needed)


@states(
    Source("DJYZZ24", "Theorem 5.3, lower bound", SourceStatus.CHANGED_CONSTANTS, "no log^2 d"),
    BOUND,
)
def least_error(
    *,
    epsilon: Fraction,
    delta: Fraction,
    variances: Variances,
    n: int,
    spread: Any = None,
    adjacency: Adjacency = Adjacency.ADD_REMOVE,
) -> Any:
    """Return a lower bound on the root mean squared error of every (epsilon, delta)-DP mean of n
    records; rounded down.

    The error is on average over p ~ N(0, spread^2 I), or the largest over all means if
    ``spread`` is None. The bound is infinite where nothing can be learned of the mean at all.
    It is about privacy alone: ``sampling_error`` bounds the error as well. For add-remove it holds
    for replace, too; for replace it is also by (e).
    """
    kinds = [leak, replaced_leak] if adjacency is Adjacency.REPLACE else [leak]
    return _least(lambda d: min(one(epsilon, delta, d) for one in kinds), variances, n, spread)


@states(BOUND)
def least_gaussian_error(
    *, mu_squared: Any, variances: Variances, n: int, delta: Fraction = Fraction(0)
) -> Any:
    """Return a lower bound on the largest error over all means of approximately mu-GDP estimates,
    by ``gaussian_leak``.
    """
    return _least(lambda d: gaussian_leak(mu_squared, delta, d), variances, n, None)


def _least(leaked: Callable[[int], Any], variances: Variances, n: int, spread: Any) -> Any:
    """Return the best bound over the number of largest variances that are used."""
    bounds = [mp.mpf(0)]
    for part in _leading(variances):
        roots, total = _sums(part)
        lost = 0 if spread is None else mp.iv.sqrt(total) / _interval(spread)
        below = upper(n * point(leaked(len(part))) + lost)
        bounds.append(lower(roots / point(below)) if below else mp.inf)
    return max(bounds)


@states(BOUND)
def least_error_in_box(
    *, epsilon: Fraction, delta: Fraction, variances: Variances, n: int, reach: Fraction
) -> Any:
    """Return a lower bound on the error over means uniform on [-reach, reach]^d; no estimate is
    better at all of them.

    The score is sum_j h_j (M_j - p_j) xi_ij, h_j = 1 - p_j^2 / R^2, at most 1: (b) and (c) do
    not change. Integrating by parts, E[(R^2 - p^2) g'(p)] = 2 E[p g], so scores add up to
    (2 / R^2) sum_j sigma_j E[p_j M_j] >= (2 / 3) tr Sigma^(1/2) - 2 alpha
    sqrt(tr Sigma) / (sqrt(3) R).
    """
    bounds = [mp.mpf(0)]
    for part in _leading(variances):
        roots, total = _sums(part)
        lost = 2 * mp.iv.sqrt(total / 3) / interval(reach)
        below = n * point(leak(epsilon, delta, len(part))) + lost
        bounds.append(lower(2 * roots / 3 / below))
    return max(bounds)


@states(Source("OURS", "the least error of the mean of normal vectors without privacy"))
def sampling_error(variances: Variances, n: int) -> Any:
    """Return sqrt(tr Sigma / n), below which no estimate from n records is at every mean; rounded
    down.

    It is the limit of the posterior mean's error over p ~ N(0, tau^2 I).
    """
    return lower(mp.iv.sqrt(_sums(variances)[1] / n))


@states(BOUND)
def spectrum(matrix: Sequence[Sequence[Fraction]]) -> list[Any]:
    """Return the eigenvalues of a covariance matrix, each a little too small; those near 0 are
    left out.

    The rotated estimate Q^T M(Q x) has the privacy and the error of M. Half of mpmath's digits
    are trusted.
    """
    values = mp.eigsy(mp.matrix([[real(Fraction(v)) for v in row] for row in matrix]), True)
    slack = max(values) * mp.mpf(10) ** -(mp.mp.dps // 2)
    return [value - slack for value in values if value > 2 * slack]


def _leading(variances: Variances) -> Iterator[Variances]:
    """Yield the largest variances: all of them, a half, a quarter, ...: with fewer, less is lost
    to delta.
    """
    ordered = sorted(variances, reverse=True)
    size = len(ordered)
    while size:
        yield ordered[:size]
        size //= 2


def _sums(variances: Variances) -> tuple[Any, Any]:
    """Return tr Sigma^(1/2) and tr Sigma, enclosed."""
    each = [_interval(value) for value in variances]
    zero = point(0)
    return sum((mp.iv.sqrt(value) for value in each), zero), sum(each, zero)


def _interval(value: Any) -> Any:
    return interval(value) if isinstance(value, (int, Fraction)) else point(value)


# --- obligations --------------------------------------------------------------------------------


_SCORES = (-3, -1, 0, 1, 3)


def _most_with_gaussian_privacy(mu: Any, delta: Any, deviation: Any, reach: int) -> Any:
    """Return an upper bound on E_P Z, where Z is symmetric under Q, E_Q Z^2 = deviation^2 and
    |Z| <= reach.
    """
    return mp.sqrt(mp.sinh(mu**2)) * deviation + 2 * delta * reach


@states(BOUND)
def obligation_gaussian(
    claimed: Callable[[Any, Any, Any, int], Any] = _most_with_gaussian_privacy,
) -> int:
    """Check step (d) for laws P and Q of a bounded score: all P with masses in eighths, with the
    delta of the worst event, and P*, with delta 0.
    """
    cases, near = 0, mp.mpf("1e-12")
    for outer, inner in ((2, 4), (0, 2), (2, 0), (0, 8)):
        q = [mp.mpf(k) / 16 for k in (outer, inner, 16 - 2 * outer - 2 * inner, inner, outer)]
        deviation = mp.sqrt(mp.fsum(mass * z**2 for mass, z in zip(q, _SCORES, strict=True)))
        for mu in map(mp.mpf, ("0.1", "0.5", "1.5")):
            allowed = [_shifted_mass(mass, mu) for mass in _of_events(q)]
            for p in (*_eighths(), _shifted(q, mu)):
                delta = max(a - b for a, b in zip(_of_events(p), allowed, strict=True))
                mean = mp.fsum(mass * z for mass, z in zip(p, _SCORES, strict=True))
                most = claimed(mu, delta, deviation, 3)
                require(mean <= most + near, f"{p}, {q}, mu = {mu}: {mean} > {most}")
                cases += 1
    return cases


def _eighths() -> Iterator[tuple[Any, ...]]:
    for masses in product(range(0, 9, 2), repeat=4):
        if sum(masses) <= 8:
            yield tuple(mp.mpf(k) / 8 for k in (*masses, 8 - sum(masses)))


def _shifted_mass(mass: Any, mu: Any) -> Any:
    """Return F(mass) = Phi(Phi^-1(mass) + mu)."""
    if not 0 < mass < 1:
        return min(max(mass, mp.mpf(0)), mp.mpf(1))
    return mp.ncdf(mp.sqrt(2) * mp.erfinv(2 * mass - 1) + mu)


def _shifted(q: Sequence[Any], mu: Any) -> tuple[Any, ...]:
    """Return P*, under which each event {Z > t} has F of its mass under Q."""
    above = [_shifted_mass(mp.fsum(q[k:]), mu) for k in range(len(q) + 1)]
    return tuple(a - b for a, b in pairwise(above))


def _of_events(masses: Sequence[Any]) -> list[Any]:
    """Return the mass of every event, the empty one first."""
    sums = [mp.mpf(0)]
    for mass in masses:
        sums += [one + mass for one in sums]
    return sums


@states(BOUND)
def obligation_odd_part(claimed: Callable[[Any], Any] = mp.sinh) -> int:
    """Check by quadrature that the odd part of the density of N(mu, 1) over that of N(0, 1) has
    the mean square sinh(mu^2), and that the enclosure contains its root.
    """
    cases = 0
    for text in ("1/8", "1/2", "1", "2"):
        mu = real(Fraction(text))

        def square(x: Any, mu: Any = mu) -> Any:
            return mp.exp(-(mu**2)) * mp.sinh(mu * x) ** 2 * mp.npdf(x)

        average, said = 2 * mp.quad(square, [0, 2 * mu, 2 * mu + 12]), claimed(mu**2)
        require(abs(average / said - 1) < mp.mpf(10) ** -9, f"mu = {mu}: {average}, not {said}")
        root = _odd_part(Fraction(text) ** 2)
        require(lower(root) <= mp.sqrt(said) <= upper(root), f"mu = {mu}: {root}")
        cases += 1
    return cases


Error = Callable[..., Any]


@states(BOUND)
def obligation_limits(claimed: Error = least_error) -> int:
    """Check that the bound falls as n, epsilon and delta grow, rises with the spread to that of
    all means, agrees with ``records_needed``, and is proportional to Sigma^(1/2).
    """
    cases, near = 0, mp.mpf("1e-9")
    variances = [Fraction(1, i) for i in range(1, 6)]
    for text, n in product(("1/10", "1", "3"), (2, 50)):
        given: dict[str, Any] = {"epsilon": Fraction(text), "delta": Fraction(1, 1000)}
        every = {"variances": variances, "n": n}
        own = claimed(**given, **every)
        for other in ({"epsilon": Fraction(text) + 1}, {"delta": Fraction(1, 100)}, {"n": n + 1}):
            less = claimed(**{**given, **every, **other})
            require(0 < less < own, f"{given}, n = {n}, then {other}: {own} became {less}")
        spreads = [claimed(**given, **every, spread=Fraction(10) ** k) for k in (-1, 0, 2, 12)]
        require(sorted(spreads) == spreads and spreads[-1] <= own, f"{given}: {spreads}, {own}")
        require(own - spreads[-1] <= near * own, f"{given}: {spreads[-1]} is not near {own}")
        for spread in (None, Fraction(2)):
            error = claimed(**given, **every, spread=spread)
            back = records_needed(variances=variances, alpha=error, spread=spread, **given)
            require(abs(back - n) <= near * n, f"{given}, {spread}: {back} records, not {n}")
        wider = claimed(**given, n=n, variances=[9 * v for v in variances])
        require(abs(wider - 3 * own) <= near * own, f"{given}: {wider} is not three times {own}")
        cases += 1
    return cases


_TURN = ((Fraction(3, 5), Fraction(4, 5)), (Fraction(-4, 5), Fraction(3, 5)))


@states(BOUND)
def obligation_rotation(
    claimed: Callable[[Sequence[Sequence[Fraction]]], Variances] = spectrum,
) -> int:
    """Check that Q diag(sigma_j^2) Q^T, Q a rational rotation, has the bound of the diagonal, or a
    little less.
    """
    cases = 0
    budget: dict[str, Any] = {"epsilon": Fraction(1), "delta": Fraction(1, 10**6), "n": 10}
    for first, second in product((Fraction(1), Fraction(9), Fraction(1, 100)), repeat=2):
        diagonal = (first, second)
        turned = [
            [sum((_TURN[i][k] * diagonal[k] * _TURN[j][k] for k in range(2)), Fraction(0))
             for j in range(2)]
            for i in range(2)
        ]  # fmt: skip
        own = least_error(variances=diagonal, **budget)
        rotated = least_error(variances=claimed(turned), **budget)
        require(own * (1 - mp.mpf("1e-5")) < rotated <= own, f"{diagonal}: {rotated}, not {own}")
        cases += 1
    return cases
