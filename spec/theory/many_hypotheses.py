"""Lower bounds from many hypotheses: how often a private estimate can be right about all of them.

Hypotheses v, one dataset X_v of n records for each, and answers that are right for one
hypothesis at most; s is the success, on average over v. What privacy allows is a function g,
increasing and concave: an event of probability q has probability g(q) at most after n records
are changed. Two ways to use it:

- replace: P(right for v | X_v) <= g(P(right for v | X_u)), on average over u != v at most
  g((1 - s) / (count - 1)) by concavity. So s <= g((1 - s) / (count - 1)).
- add-remove: compare with the empty dataset, where the successes add up to 1 at most: s <=
  g(1 / count).

Records may be random: some dataset of a law is at least as good as the average one. If the laws
themselves are close, datasets that are drawn from them differ in fewer records (``drawn``).
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import pairwise, product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .group_events import (
    BUDGETS,
    PACKING,
    RECURSION,
    Group,
    changed,
    changed_concentrated,
    changed_gaussian,
)
from .laws import real
from .obligations import require

LOCATION = Source("KV18", "lower bound for means of unknown location, ln(1 / delta) / epsilon",
                  note="from any number of hypotheses, with constants")  # fmt: skip
SAMPLED = Source("ASZ21", "coupled samples of close laws", note="the coupling's law, not its mean")
_NEVER = 1 << 62
_STEP, _SHORT, _LEFT = mp.mpf(10) ** -9, mp.mpf(10) ** -6, mp.mpf(10) ** -9
_BLOCKS = 32
_NEAR = mp.mpf(10) ** -7


@states(LOCATION, PACKING)
def most_success(group: Group, count: int | None, adjacency: Adjacency) -> Any:
    """Bound the success over ``count`` hypotheses from above; None: over any number of them, g(0).

    Under replace it is the largest s with s <= g((1 - s) / (count - 1)). The excess of s over
    that is convex and rises, so a line through two places where it is positive is 0 between the
    solution and these: from above, to 1e-9.
    """
    if count is None:
        return group(mp.mpf(0))
    if adjacency is Adjacency.ADD_REMOVE:
        return group(mp.mpf(1) / count)

    def over(s: Any) -> Any:
        return s - group((1 - s) / (count - 1))

    high, own = mp.mpf(1), over(mp.mpf(1))
    while True:
        left = over(high - _STEP)
        if left <= 0:
            return high
        step = own * _STEP / (own - left) * (1 - _SHORT)
        nearer = over(high - step)
        if step < _STEP or nearer < 0:
            return high
        high, own = high - step, nearer


@states(LOCATION, PACKING)
def records_needed(
    groups: Callable[[int], Group], count: int | None, adjacency: Adjacency, beta: Fraction
) -> int:
    """Compute the least number of records for which failure with probability beta at every
    hypothesis is not excluded; 2^62 where more are needed.

    ``groups`` gives g for a number of records.
    """

    def enough(n: int) -> bool:
        return bool(most_success(groups(n), count, adjacency) >= 1 - real(beta))

    low, high = 0, 1
    while not enough(high):
        low, high = high, 2 * high
        if high > _NEVER:
            return _NEVER
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


@states(SAMPLED)
def drawn(success: Callable[[int], Any], n: int, apart: Any) -> Any:
    """Bound the success where records are drawn from (1 - t) C + t B_v, C common to all
    hypotheses: the average of ``success`` of m, binomial (n, t); t = ``apart``.

    Given which m records are drawn from B_v, datasets of any two hypotheses are m records
    apart; under add-remove the common part is m records from each. The rest of the sum counts
    as 1; m is rounded up to a 32nd of n t.
    """
    t = _number(apart)
    if t == 1:
        return success(n)
    mass, chance, left, m = (1 - t) ** n, mp.mpf(0), mp.mpf(1), 0
    block = max(1, int(n * t) // _BLOCKS)
    while m <= n and left > _LEFT:
        chance, left = chance + mass * success(-(-m // block) * block), left - mass
        mass, m = mass * (n - m) / (m + 1) * t / (1 - t), m + 1
    return min(mp.mpf(1), chance + max(left, mp.mpf(0)))


def _number(value: Any) -> Any:
    return real(Fraction(value)) if isinstance(value, (int, Fraction)) else mp.mpf(value)


@states(Source("OURS", "no mechanism shows a key much earlier"))
def least_records(epsilon: Fraction, delta: Fraction, beta: Fraction) -> int:
    """Compute the least number of records (or groups) that must hold a key for it to be named.

    With fewer, any (epsilon, delta)-DP mechanism that never names a key nobody holds withholds
    it with probability above beta.

    With c records it is named with probability g(0) at most: about
    ln(1 / (delta beta)) / epsilon.
    """
    return records_needed(lambda n: changed(epsilon, delta, n), None, Adjacency.ADD_REMOVE, beta)


@states(LOCATION)
def least_misses(epsilon: Fraction, delta: Fraction, n: int) -> Any:
    """Bound from below the probability, for some mean, that an estimate of a mean of unknown
    location is further off than any stated distance: 1 - g(0).

    It falls as delta (e^(n epsilon) - 1) / (e^epsilon - 1) rises, so
    ln(1 / (delta beta)) / epsilon records are needed, whatever Sigma and the distance are.
    """
    return 1 - changed(epsilon, delta, n)(mp.mpf(0))


@states(PACKING)
def means_in_box(d: int, reach: Fraction, alpha: Fraction) -> int:
    """Count means in [-R, R]^d on a grid whose neighbors are more than 2 alpha apart, so that
    balls of radius alpha do not meet, in whichever l_p norm: ceil(R / alpha)^d.
    """
    each: int = -(-Fraction(reach) // Fraction(alpha))
    count: int = each**d
    return count


# --- obligations --------------------------------------------------------------------------------


@states(RECURSION, LOCATION)
def obligation_success(claimed: Callable[..., Any] = most_success) -> int:
    """Check that the bound is attained for one record, by k-ary randomized response with delta
    (replace) and by an even guess that a record improves (add-remove), and that for more
    hypotheses it falls to that of any number.
    """
    cases, near = 0, mp.mpf(10) ** -12
    for (epsilon, delta), count in product(BUDGETS, (2, 3, 10)):
        e, d = mp.exp(real(epsilon)), real(delta)
        one = changed(epsilon, delta, 1)
        response = (e + (count - 1) * d) / (e + count - 1)
        even = mp.mpf(1) / count
        guess = min(mp.mpf(1), e * even + d, 1 - (1 - even - d) / e)
        for adjacency, best in (
            (Adjacency.REPLACE, response),
            (Adjacency.ADD_REMOVE, guess),
        ):
            most = claimed(one, count, adjacency)
            case = f"{adjacency}, {epsilon}, {delta}, {count}: {most}, not {best}"
            require(abs(most - best) <= _NEAR, case)
            group = changed(epsilon, delta, 5)
            chances = [claimed(group, k, adjacency) for k in (2, 30, 10**40, None)]
            falls = all(a >= b - near for a, b in pairwise(chances))
            require(falls and abs(chances[2] - chances[3]) <= _NEAR, f"{case}; {chances}")
            cases += 1
    return cases


@states(PACKING)
def obligation_gaussian(claimed: Callable[[Any, int], Group] = changed_gaussian) -> int:
    """Check the bound against Gaussian noise: for two hypotheses noise on a sum succeeds exactly
    as often, for many never more often, and with 1.5 times the records as often.

    With many hypotheses each has an orthogonal sum, and the answer is the largest noisy one
    (by quadrature). The bound for zCDP of mu^2 / 2 is larger, and at most 1.6 times as far.
    """
    cases, near = 0, mp.mpf("1e-9")
    for mu, n in product((mp.mpf(1) / 10, mp.mpf(1)), (1, 4, 20)):
        two = most_success(claimed(mu, n), 2, Adjacency.REPLACE)
        require(abs(two - mp.ncdf(n * mu / 2)) < near, f"{mu}, {n}: {two}")
        for count in (10, 1000):
            bound = most_success(claimed(mu, n), count, Adjacency.REPLACE)
            exact, more = (_largest(mu * k / mp.sqrt(2), count) for k in (n, n * mp.mpf(3) / 2))
            case = f"mu = {mu}, n = {n}, {count}: {exact}, bound {bound}, with more {more}"
            require(exact <= bound + near and (more >= bound - near or mu * n < 2), case)
            wider = most_success(changed_concentrated(mu**2 / 2, n), count, Adjacency.REPLACE)
            far = most_success(claimed(mu * mp.mpf("1.6"), n), count, Adjacency.REPLACE)
            require(bound - near <= wider and (wider <= far or mu * n < 2), f"{case}; {wider}")
            cases += 1
    return cases


def _largest(far: Any, count: int) -> Any:
    """Compute P(one normal number of mean ``far`` exceeds count - 1 of mean 0)."""
    places = [mp.mpf(k) / 8 for k in range(-64, 8 * int(far) + 72)]
    return mp.fsum(mp.npdf(x - far) * mp.ncdf(x) ** (count - 1) for x in places) / 8


@states(SAMPLED)
def obligation_drawn(claimed: Callable[..., Any] = drawn) -> int:
    """Check that randomized response and the likelier side, with records drawn from two laws on a
    pair of values, is never right more often than the bound, exactly; for one record it is
    exactly as often.
    """
    cases, near = 0, mp.mpf("1e-12")
    for text, n, apart in product(("1/4", "1", "3"), (1, 2, 5), (Fraction(1, 10), Fraction(4, 5))):
        epsilon, t = Fraction(text), real(apart)

        def success(m: int, epsilon: Fraction = epsilon) -> Any:
            return most_success(changed(epsilon, 0, m), 2, Adjacency.REPLACE)

        told = 1 / (1 + mp.exp(-real(epsilon)))
        yes = (1 - t) / 2 + t * told  # a record of the law that prefers this side
        sides = [comb(n, k) * yes**k * (1 - yes) ** (n - k) for k in range(n + 1)]
        best = sum(max(a, b) for a, b in zip(sides, reversed(sides), strict=True)) / 2
        most = claimed(success, n, apart)
        case = f"epsilon {text}, n = {n}, apart {apart}: {best}, bound {most}"
        require(best <= most + near and (n > 1 or best >= most - near), case)
        cases += 1
    return cases


@states(LOCATION)
def obligation_records(claimed: Callable[..., int] = records_needed) -> int:
    """Check the number of records for means of unknown location: it is between ln((1 - beta)
    (e^epsilon - 1) / delta) / epsilon, which the first kind of step alone needs, and 3 +
    (ln(1 / (2 delta)) + ln(1 / beta)) / epsilon.

    With one record fewer some mean is missed more often. For a box of half-length R the smaller
    of this and ln(R / alpha) / epsilon is needed.
    """
    cases, anywhere = 0, None
    for text, delta, beta in product(
        ("1/50", "2"), map(Fraction, ("1e-12", "1e-5")), map(Fraction, ("1/3", "1/1000"))
    ):
        epsilon = Fraction(text)

        def groups(n: int, epsilon: Fraction = epsilon, delta: Fraction = delta) -> Group:
            return changed(epsilon, delta, n)

        n = claimed(groups, anywhere, Adjacency.REPLACE, beta)
        e = real(epsilon)
        low = mp.log1p(real(1 - beta) * mp.expm1(e) / real(delta)) / e
        high = 3 + (mp.log(1 / (2 * real(delta))) + mp.log(1 / real(beta))) / e
        case = f"epsilon {text}, delta {delta}, beta {beta}: {n}, from {low} to {high}"
        require(low <= n <= high, case)
        misses = [least_misses(epsilon, delta, k) for k in (n - 1, n)]
        require(misses[1] <= real(beta) < misses[0], f"{case}; {misses}")
        count = means_in_box(1, Fraction(10**3), Fraction(1))
        box = claimed(groups, count, Adjacency.REPLACE, beta)
        pure = claimed(lambda k, e=epsilon: changed(e, 0, k), count, Adjacency.REPLACE, beta)
        require(box <= min(n, pure) and 2 * box >= min(n, pure), f"{case}; {box}, {pure}")
        cases += 1
    return cases
