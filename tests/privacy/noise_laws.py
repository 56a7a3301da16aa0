"""Explicit laws at 60 digits, and what guarantees promise of them, put to the test by summation.

Where finite.py has a rational base, here is e itself. A law is a mapping from outcomes to masses;
outcomes may be lumped, for that is post-processing: it may hide a broken promise, never make one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from fractions import Fraction
from functools import cache
from itertools import accumulate, pairwise
from math import inf, isqrt
from operator import itemgetter
from typing import Any, NamedTuple

import mpmath as mp
from mpmath.libmp import to_rational

from dpverify.privacy import (
    Adjacency,
    BoundedRange,
    Derivation,
    DiscreteLaplaceShift,
    GaussianDP,
    Guarantee,
    PerfectPrivacy,
    PrivacyClaim,
    PureDP,
    Source,
    ZeroConcentratedDP,
    rules,
)
from dpverify.privacy.derivation import EventBound
from dpverify.privacy.hypotheses import Absent, Seen
from dpverify.privacy.numbers import Exact
from spec.theory.laws import real

from .makers import COLUMN, OBLIGATION, conjectured

DIGITS = 60
ROUNDING = Fraction(1, 10**45)
"""More than sums at 60 digits can lose, far less than any twin is wrong by."""

RealLaw = Mapping[Any, Any]
RealPair = tuple[RealLaw, RealLaw]
Rule = Callable[..., Guarantee]
Tail = Callable[[int], Any]
"""m to P(Z >= m), for integer noise Z that is symmetric around 0."""

# --- laws ---------------------------------------------------------------------------------------


def laplace_tail(scale: Fraction) -> Tail:
    """Mass proportional to e^(-|z| / scale) on the integers, summed as geometric series."""

    def tail(m: int) -> Any:
        q = mp.exp(-1 / real(scale))
        return q**m / (1 + q) if m > 0 else 1 - q ** (1 - m) / (1 + q)

    return tail


def rounded_gaussian_tail(sigma: Fraction) -> Tail:
    """round(sigma N(0, 1)) >= m exactly where sigma N(0, 1) >= m - 1/2."""
    return lambda m: mp.erfc(real(m - Fraction(1, 2)) / real(sigma) / mp.sqrt(2)) / 2


def binned(tail: Tail, center: int, cuts: Sequence[int]) -> RealLaw:
    """center + Z, told only as how many of the (rising) cuts it is at or above."""

    def beyond(m: float) -> Any:
        return (1 if m < 0 else 0) if abs(m) == inf else tail(int(m))

    def mass(low: float, high: float) -> Any:  # low <= Z < high, without cancellation
        return beyond(low) - beyond(high) if low > 0 else beyond(1 - high) - beyond(1 - low)

    with mp.workdps(DIGITS):
        ends = [-inf, *(cut - center for cut in cuts), inf]
        return {i: mp.mpf(mass(*bounds)) for i, bounds in enumerate(pairwise(ends))}


def weighted(exponents: Mapping[Any, Fraction] | Mapping[Any, int]) -> RealLaw:
    """Masses proportional to e^exponent."""
    with mp.workdps(DIGITS):
        weights = {outcome: mp.exp(real(Fraction(x))) for outcome, x in exponents.items()}
        total = sum(weights.values())
        return {outcome: weight / total for outcome, weight in weights.items()}


def joint(pairs: Sequence[RealPair]) -> RealPair:
    """Independent outputs, side by side."""

    def side(laws: Iterable[RealLaw]) -> RealLaw:
        together: dict[tuple[Hashable, ...], Any] = {(): mp.mpf(1)}
        for law in laws:
            together = {(*o, i): m * x for o, m in together.items() for i, x in law.items()}
        return together

    with mp.workdps(DIGITS):
        return side(p for p, _ in pairs), side(q for _, q in pairs)


# --- what is measured ---------------------------------------------------------------------------


class Case(NamedTuple):
    """The facts that a rule is given of a pair of laws, and their distances, in the worse
    direction.

    sticks: the hockey-stick divergence at some epsilons. renyi: by order. losses: the largest
    privacy loss minus the smallest, None where it was not asked for.
    """

    facts: tuple[Any, ...]
    sticks: dict[Fraction, Any]
    renyi: dict[Fraction, Any]
    losses: Any


def measure(
    facts: tuple[Any, ...],
    pair: RealPair,
    epsilons: Iterable[Fraction],
    orders: Iterable[Fraction] = (),
    *,
    losses: bool = False,
) -> Case:
    """Sum over all outcomes, both ways."""
    p, q = pair
    with mp.workdps(DIGITS):
        sticks = hockey_sticks(pair, epsilons)
        renyi = {order: max(_renyi(p, q, order), _renyi(q, p, order)) for order in orders}
        ratios = [mp.log(p[o] / q[o]) for o in p] if losses else []
        return Case(facts, sticks, renyi, max(ratios) - min(ratios) if losses else None)


def hockey_sticks(pair: RealPair, epsilons: Iterable[Fraction]) -> dict[Fraction, Any]:
    """Return by epsilon the larger of both ways' hockey-stick divergences, as
    ``spec.theory.rules.hockey_stick`` sums it at one epsilon and one way.

    Outcomes are put in the order of their likelihood ratios once: the best event at any epsilon
    is all of them from some ratio on, or up to one.
    """
    p, q = pair
    with mp.workdps(DIGITS):
        zero, infinite = mp.mpf(0), mp.inf
        masses = [(p.get(o, zero), q.get(o, zero)) for o in {**p, **q}]
        rows = sorted(((a / b if b else infinite, a, b) for a, b in masses), key=itemgetter(0))
        ratios = [ratio for ratio, _, _ in rows]
        # sums from either end, not differences: a factor may be e^100,000
        low, high = (
            [list(accumulate((row[i] for row in some), initial=zero)) for i in (1, 2)]
            for some in (rows, rows[::-1])
        )

        def reached(epsilon: Fraction) -> Any:
            factor = mp.exp(real(epsilon))
            beyond = len(rows) - bisect_right(ratios, factor)
            below = bisect_left(ratios, 1 / factor)
            return max(
                high[0][beyond] - factor * high[1][beyond], low[1][below] - factor * low[0][below]
            )

        return {epsilon: reached(epsilon) for epsilon in epsilons}


def _renyi(p: RealLaw, q: RealLaw, order: Fraction) -> Any:
    moment = sum((p[o] / q[o]) ** real(order) * q[o] for o in p)
    return mp.log(moment) / (real(order) - 1)


def around(epsilon: Fraction) -> list[Fraction]:
    """Epsilons from 0 to well above this one."""
    return [epsilon * i / 8 for i in (0, 1, 3, 4, 5, 7, 8, 9, 16)]


def keeps(guarantee: Guarantee, case: Case) -> bool:
    """Return whether the pair has what the guarantee promises: profile, Renyi divergences, range
    of loss."""
    rho, at = guarantee.concentrated, guarantee.delta_at
    with mp.workdps(DIGITS):
        promises = [(stick, at(e).upper + ROUNDING) for e, stick in case.sticks.items()]
        if rho is not None:
            promises += [(measured, a * rho * (1 + ROUNDING)) for a, measured in case.renyi.items()]
        if isinstance(guarantee, BoundedRange) and case.losses is not None:
            promises.append((case.losses, guarantee.epsilon + ROUNDING))
        return all(measured <= real(most) for measured, most in promises)


def attains(guarantee: Guarantee, case: Case, within: str = "1e-12") -> bool:
    """Return whether the guarantee's profile is attained, at any epsilon measured."""
    share = 1 - Fraction(within)
    with mp.workdps(DIGITS):
        return all(
            stick >= real(guarantee.delta_at(epsilon).upper * share - ROUNDING)
            for epsilon, stick in case.sticks.items()
        )


def holds(rule: Rule, cases: Iterable[Case]) -> bool:
    """Return whether every pair satisfies what the rule claims of it."""
    return all(keeps(rule(*case.facts), case) for case in cases)


def spares_nothing(rule: Rule, cases: Iterable[Case]) -> bool:
    """Return whether the rule's claim is attained at every epsilon measured."""
    return all(attains(rule(*case.facts), case) for case in cases)


# --- Gaussian noise -----------------------------------------------------------------------------

ORDERS = [Fraction(text) for text in ("1.01", "3/2", "2", "7/2", "5")]
Shift = tuple[int, ...]


def squared(shift: Shift) -> Fraction:
    """Return the squared L2 distance."""
    return Fraction(sum(x * x for x in shift))


def _discrete_pair(shift: Shift, sigma: Fraction) -> RealPair:
    """Sum in windows that leave out e^-140 = 1e-60, also where an order of 5 moves the center."""
    reach, pairs = isqrt(int(280 * sigma**2)) + 1, []
    for moved in shift:
        window = range(-reach - 4 * abs(moved), reach + 5 * abs(moved) + 1)
        laws = [weighted({z: -((z - c) ** 2) / (2 * sigma**2) for z in window}) for c in (0, moved)]
        pairs.append((laws[0], laws[1]))
    return joint(pairs)


@cache
def discrete_gaussian_cases() -> list[Case]:
    """Facts: shift, sigma."""
    cases = []
    for sigma in (Fraction(1, 2**10), Fraction(2, 5), Fraction(1)):
        for shift in ((1,), (3,), (1, 1), (2, -1)):
            orders = ORDERS if len(shift) == 1 else [Fraction(2), Fraction(5)]
            epsilons = around(squared(shift) / sigma**2)
            pair = _discrete_pair(shift, sigma)
            cases.append(measure((shift, sigma), pair, epsilons, orders))
    return cases


def _rounded_pair(shift: Shift, sigma: Fraction) -> RealPair:
    reach, tail = int(6 * sigma) + 5, rounded_gaussian_tail(sigma)
    cuts = range(-reach, reach + 1)
    return joint([(binned(tail, 0, cuts), binned(tail, moved, cuts)) for moved in shift])


@cache
def threshold_cases() -> list[Case]:
    """Epsilons at which the best test is x >= k - 1/2, where rounding loses nothing."""
    cases = []
    for sigma, moved in ((Fraction(1, 2), 1), (Fraction(3, 2), 3), (Fraction(20), 1)):
        corners = [moved * Fraction(2 * k - 1 - moved, 2) / sigma**2 for k in (2, 3, 4, 7)]
        epsilons = [corner for corner in corners if corner >= 0]
        pair = _rounded_pair((moved,), sigma)
        cases.append(measure(((moved,), sigma), pair, epsilons, ORDERS))
    return cases


@cache
def rounded_gaussian_cases() -> list[Case]:
    """Facts: shift, sigma."""
    cases, sigma = list(threshold_cases()), Fraction(3, 2)
    for shift in ((1, 1), (2, -1)):
        pair, epsilons = _rounded_pair(shift, sigma), around(squared(shift) / sigma**2)
        cases.append(measure((shift, sigma), pair, epsilons))
    return cases


# --- every kind of mechanism --------------------------------------------------------------------


def mechanisms() -> list[tuple[Guarantee, RealPair]]:
    """None of them far from what its guarantee allows: the Gaussian attains it at 0, 1 and 2."""
    rounded, laplace, cuts = rounded_gaussian_tail(Fraction(7)), laplace_tail(Fraction(1)), range(4)
    gaussian = binned(rounded, 0, range(-10, 19, 7)), binned(rounded, 7, range(-10, 19, 7))
    first, second = weighted(dict.fromkeys(cuts, 0)), weighted({0: 1, 1: 1, 2: 0, 3: 0})
    return [
        (PerfectPrivacy(), (second, second)),
        (PureDP(1), (first, second)),
        (BoundedRange(1), (first, second)),
        (DiscreteLaplaceShift(2, 1), (binned(laplace, 0, cuts), binned(laplace, 2, cuts))),
        (GaussianDP(1), gaussian),
        (ZeroConcentratedDP(Fraction(1, 2)), gaussian),
    ]


def reveal(pair: RealPair) -> tuple[RealPair, Fraction]:
    """The least telling outcome now tells the neighbors apart; and its probability."""
    p, q = ({**law} for law in pair)
    outcome = min({*p} & {*q}, key=lambda o: (abs(mp.log(p[o] / q[o])), o))
    chance = max(as_fraction(p[outcome]), as_fraction(q[outcome]))
    p[outcome, "left"], q[outcome, "right"] = p.pop(outcome), q.pop(outcome)
    return (p, q), chance


def as_fraction(mass: Any) -> Fraction:
    """Exactly the number of mpmath."""
    return Fraction(*to_rational(mass._mpf_))


# --- premises -----------------------------------------------------------------------------------


OVERFLOW = Absent("an overflow", Seen.OUTPUT)
HIDDEN = Absent("an overflow", Seen.COINS)


def assuming(guarantee: Guarantee, hypothesis: Absent = OVERFLOW) -> Derivation[PrivacyClaim]:
    """Return a claim on somebody's word that rests on the event's absence."""
    return conjectured(guarantee, hypotheses=(hypothesis,))


def event(probability: Exact, *, in_output: bool = True, **changed: Any) -> Derivation[EventBound]:
    """Return a bound on the probability of an event, with everything but what matters filled in."""
    given = {"adjacency": Adjacency.ADD_REMOVE, "domain": COLUMN, "obligation": OBLIGATION}
    return rules.event_lemma(
        OVERFLOW if in_output else HIDDEN,
        probability=probability,
        source=Source("OURS", "a test's premise"),
        **{**given, **changed},
    )
