"""Largest change that n records can make to the probability of an event, under each kind of claim.

g(q) is the most that an event of probability q can have after n records are changed: increasing
and concave.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, states

from .chi_square import interval, point, upper
from .laws import real
from .obligations import require

Group = Callable[[Any], Any]
"""Function g: the most that an event of this probability can have after n records are changed."""
RECURSION = Source("OURS", "the best (epsilon, delta)-DP test between datasets n records apart",
                   note="attained for every n")  # fmt: skip
PACKING = Source("KLSU19", "lower bounds by packing, for zCDP", note="with constants, and for GDP")


@states(RECURSION)
def changed(epsilon: Any, delta: Any, n: int) -> Group:
    """Compute g for (epsilon, delta)-DP: the n-th iterate of p -> min(e^epsilon p + delta, 1 -
    e^-epsilon (1 - p - delta)), rounded up.

    With D = delta / (e^epsilon - 1), m steps of the first kind make p + D e^(m epsilon) times
    as large, and steps of the second kind shrink 1 - p + D by e^epsilon. The first is the
    smaller one until p exceeds (1 - delta) / (1 + e^epsilon). Any m is a bound; the best of
    three near that place is taken.
    """
    e, d = _interval(epsilon), _interval(delta)
    if upper(e) == 0:
        return lambda q: min(mp.mpf(1), upper(_interval(q) + n * d))
    odds = mp.iv.exp(e)
    rest = d / (odds - 1)

    def most(q: Any) -> Any:
        start = _interval(q) + rest
        if upper(start) == 0:
            return mp.mpf(0)
        turn = (1 - d) / (1 + odds) + rest
        near = int(mp.floor(mp.log(mp.mpf(turn.mid) / mp.mpf(start.mid)) / mp.mpf(e.mid))) + 1
        steps = {min(max(m, 0), n) for m in (near - 1, near, near + 1)}
        return min(mp.mpf(1), *(upper(_after(start, rest, e, m, n)) for m in steps))

    return most


def _after(start: Any, rest: Any, e: Any, first: int, n: int) -> Any:
    """Compute the bound by ``first`` steps of the first kind, then others up to n."""
    left = 1 + 2 * rest - mp.iv.exp(first * e) * start
    return 1 + rest - mp.iv.exp(-(n - first) * e) * left


def _interval(value: Any) -> Any:
    if isinstance(value, (int, Fraction)):
        return interval(value)
    return value if isinstance(value, mp.iv.mpf) else point(value)


@states(PACKING, Source("DRS22", "GDP of groups"))
def changed_gaussian(mu: Any, n: int) -> Group:
    """Compute g for mu-GDP, Phi(Phi^-1(q) + n mu): groups of n records have n mu."""

    def most(q: Any) -> Any:
        if not 0 < q < 1:
            return mp.mpf(q)
        return mp.ncdf(_normal_quantile(mp.mpf(q)) + n * mu)

    return most


def _normal_quantile(q: Any) -> Any:
    """Solve Phi(x) = q; for rare q by Newton's steps on the logarithm, from -sqrt(2 ln(1 / q))."""
    if q > mp.mpf(10) ** -8:
        return mp.sqrt(2) * mp.erfinv(2 * q - 1)
    x, aim = -mp.sqrt(-2 * mp.log(q)), mp.log(q)
    for _ in range(8):
        mass = mp.ncdf(x)
        x -= (mp.log(mass) - aim) * mass / mp.npdf(x)
    return x


@states(PACKING)
def changed_concentrated(rho: Any, n: int) -> Group:
    """Compute g for rho-zCDP: exp(-(sqrt(L) - sqrt(n^2 rho))^2), L = ln(1 / q) above n^2 rho.

    Groups have n^2 rho =: r. The order 1 + t says ln s <= t r - L t / (1 + t), which is least at
    (1 + t)^2 = L / r. As the least of powers of q it is concave.
    """

    def most(q: Any) -> Any:
        far = n * mp.sqrt(rho)
        if q <= 0:
            return mp.mpf(0)
        return mp.exp(-(max(mp.mpf(0), mp.sqrt(-mp.log(q)) - far) ** 2))

    return most


# --- obligations --------------------------------------------------------------------------------

BUDGETS = tuple(
    (Fraction(e), Fraction(d))
    for e, d in product(("0", "1/10", "1", "4"), ("0", "1e-9", "1/100", "2/5"))
)


def _iterated(epsilon: Fraction, delta: Fraction, n: int, q: Any) -> list[Any]:
    """Compute p_0 = q, ..., p_n step by step."""
    e, d, chances = mp.exp(real(epsilon)), real(delta), [mp.mpf(q)]
    for _ in range(n):
        p = chances[-1]
        chances.append(min(mp.mpf(1), e * p + d, 1 - (1 - p - d) / e))
    return chances


@states(RECURSION)
def obligation_changed(claimed: Callable[..., Group] = changed) -> int:
    """Check that g is the result of n steps, from three probabilities, and that a private
    mechanism takes these steps (it answers yes with probability p_c on c records), so no
    smaller g is a bound.
    """
    cases, near = 0, mp.mpf(10) ** -12
    for (epsilon, delta), q in product(BUDGETS, (mp.mpf(0), mp.mpf("0.001"), mp.mpf("0.7"))):
        e, d = mp.exp(real(epsilon)), real(delta)
        steps = _iterated(epsilon, delta, 60, q)
        for p, r in pairwise(steps):
            lost = max(r - e * p, (1 - p) - e * (1 - r), p - e * r, (1 - r) - e * (1 - p))
            require(lost <= d + near, f"{epsilon}, {delta}: from {p} to {r}")
        for n in (0, 1, 2, 7, 25, 60):
            most = claimed(epsilon, delta, n)(q)
            case = f"epsilon {epsilon}, delta {delta}, n = {n}, from {q}: {most}, not {steps[n]}"
            require(steps[n] - near <= most <= steps[n] + near, case)
            cases += 1
    return cases


@states(PACKING)
def obligation_concentrated(claimed: Callable[[Any, int], Group] = changed_concentrated) -> int:
    """Check that g is the least bound over 400 orders, and concave on a grid."""
    cases = 0
    for rho, n, q in product((mp.mpf("0.005"), mp.mpf(1) / 2), (1, 5), ("1e-30", "1e-4", "0.3")):
        r, far = rho * n**2, -mp.log(mp.mpf(q))
        orders = (mp.exp(mp.mpf(k) / 40) for k in range(-160, 240))
        least = min(mp.mpf(1), *(mp.exp(t * r - far * t / (1 + t)) for t in orders))
        own = claimed(rho, n)(mp.mpf(q))
        require(own <= least * (1 + mp.mpf("1e-12")), f"{rho}, {n}, {q}: {own} > {least}")
        require(least <= own * mp.mpf("1.01") or least == 1, f"{rho}, {n}, {q}: {own}, {least}")
        grid = [claimed(rho, n)(mp.mpf(k) / 50) for k in range(51)]
        bends = [grid[k] - (grid[k - 1] + grid[k + 1]) / 2 for k in range(1, 50)]
        require(min(bends) > -mp.mpf("1e-12"), f"{rho}, {n}: not concave")
        cases += 1
    return cases
