"""Requests that are chosen after seeing answers: limits on sums of costs bound all of them
together, and other limits do not.

An analyst asks, sees the answer, and chooses the next request and its cost. Here are the rule
that allows a request, the claims that may enter it, and every analyst of a small menu, the best
of whom is compared with the promise.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Literal, NamedTuple

import mpmath as mp

from dpverify.privacy import Source, states

from .caches import cache
from .laws import real
from .obligations import require
from .profiles import gaussian_profile

Step = tuple[Literal["response", "reveal"], Fraction]
"""Step of an analyst: randomized response of this epsilon, or telling everything with this
probability.
"""
Taken = tuple[Step, ...]
Cost = tuple[Fraction, Fraction]
"""Cost of a step: mu^2 and delta."""

MENU: tuple[Step, ...] = (
    ("response", Fraction(1, 2)),
    ("response", Fraction(3, 5)),
    ("reveal", Fraction(382, 10**4)),
)
_UNIT = Fraction(1, 10)  # every epsilon of the menu is a multiple
_ROUNDS = 4
_COMPARED = (0, 5, 10, 15, 20, 30)  # epsilons, in units
_CLOSE = mp.mpf(10) ** -12


@states(
    Source("ST22", "fully adaptive composition of Gaussian differential privacy"),
    Source("KTH23", "a Gaussian privacy filter"),
    Source("RRUV16", "a filter for epsilon and delta", note="basic composition"),
)
def privacy_filter(limit: Sequence[Fraction], costs: Sequence[Sequence[Fraction]]) -> bool:
    """Return whether requests of these costs may be answered under these limits, each a sum by
    coordinates.

    Let V(b), for limits b, be a family of guarantees such that for all c <= b a mechanism that
    has V(c), followed by a mechanism that has V(b - c) after every one of its outputs, has V(b)
    together. This holds for approximate GDP, b = (mu^2, delta, tv) (rules.py,
    compose_approximate_gaussian), and with (epsilon, delta)-DP (rules.py, compose). Claim: an
    analyst who chooses each request and its cost after seeing the earlier answers, and may stop
    at any time, has V(b) as long as sums of costs stay within b on every path.

    Proof, by induction on the most requests k that the analyst makes. k = 0: the output is the
    same for all datasets. k > 0: the first request's cost c <= b is chosen before any answer,
    so it is a number. After each of its outputs comes an analyst of at most k - 1 requests
    whose sums stay within b - c, which is the same number for all outputs; so that analyst has
    V(b - c) by induction. By the property of V both together have V(b). QED. An analyst's own
    coins are drawn first: each value of them is an analyst without coins, and all laws for one
    dataset are mixed with the same weights.

    The proof uses twice that costs are sums against a limit that was fixed before: the
    remainder must not depend on the output. A limit on the delta at one epsilon of what was
    composed is no such sum (``at_one_epsilon``), and what was spent when the analyst stopped is
    no limit that was fixed (the twins of the enumeration).
    """
    return all(
        sum(each, Fraction(0)) <= most
        for each, most in zip(zip(*costs, strict=True), limit, strict=True)
    )


@states(Source("OURS", "a profile below a Gaussian one, up to delta, is approximate GDP"))
def gaussian_share(
    profile_at: Callable[[Fraction], Any], delta: Fraction, epsilon: Fraction
) -> Any:
    """Return the least mu^2 for which delta_mu + delta is at least the profile at this one
    epsilon, to many digits.

    Let H_g(P, Q) = sup_S P(S) - g Q(S) and H_g(Q, P) be at most delta_mu(g) + delta for all g =
    e^epsilon >= 1. Then there are measures P0 <= P and Q0 <= Q that lack at most delta, with
    H_g(P0, Q0) and H_g(Q0, P0) at most delta_mu(g) for all g > 0: the pair has approximate GDP
    (mu, delta), and composes as such. So the cost of a claim is the largest of these mu^2 over
    all epsilons.

    Proof. For g < 1 write H_g(P, Q) = 1 - g + g H_(1/g)(Q, P), and the same for delta_mu: so
    H_g(P, Q) <= U(g) = delta_mu(g) + min(1, g) delta for all g. H is convex in g, so it is at
    most V, the largest convex function that is at most U. U is convex on [0, 1] and on [1, oo),
    so V is U except on an interval (a, b) about 1, where it is straight; U(g) - 1 + g(1 -
    U(1/g)) = 0, so V has this symmetry, too, and b = 1 / a. Here a > 0: else b = oo, and V
    would be constant from 0 on, at U(0) = 1, while U tends to delta < 1. V falls from 1 and is
    at least max(0, 1 - g), as H is, so it is the profile of a pair (A, B), and as no event
    distinguishes P from Q better than A from B, P = K A and Q = K B for a map K with coins
    (Blackwell; DRS22, Theorem 2.10). V tends to delta: A has an event of mass delta that B
    never shows. V'(0) = U'(0) = delta - 1: B has one of mass delta that A never shows. Let A0,
    B0 be A and B without these, P0 = K A0, Q0 = K B0. Then P0 <= P lacks delta, and H_g(P0, Q0)
    <= H_g(A0, B0) = V(g) - delta <= U(g) - delta <= delta_mu(g); with the two exchanged
    likewise, by symmetry. QED.
    """
    goal = real(profile_at(epsilon)) - real(delta)
    if goal <= 0:
        return mp.mpf(0)
    low, high = mp.mpf(0), mp.mpf(1)
    while gaussian_profile(high, epsilon) < goal:
        high *= 2
    while high - low > high * mp.mpf(2) ** -60:
        middle = (low + high) / 2
        low, high = (low, middle) if gaussian_profile(middle, epsilon) >= goal else (middle, high)
    return high


# --- every analyst of a small menu --------------------------------------------------------------


@cache
def cost_of(step: Step) -> Cost:
    """Return (mu^2, delta): mu^2 of randomized response, rounded up (the Gaussian curve through
    its corner), or the delta of telling everything.
    """
    kind, size = step
    if kind == "reveal":
        return Fraction(0), size
    root = 2 * mp.sqrt(2) * mp.erfinv(mp.tanh(real(size) / 2))
    return Fraction(int(mp.ceil(root**2 * 10**15)), 10**15), Fraction(0)


def total_of(taken: Taken) -> Cost:
    """Return the sums over the steps taken."""
    squares, deltas = zip(*map(cost_of, taken), strict=True)
    return sum(squares, Fraction(0)), sum(deltas, Fraction(0))


LIMIT = total_of(MENU)


def best_analyst(allowed: Callable[[Taken], bool], units: int) -> Any:
    """Return sup over all analysts and events S of P(S) - e^(units / 10) Q(S), for requests from
    the menu that are allowed.

    A request is about the one bit that tells the two datasets apart. After an answer of loss l
    the factor is e^-l times what it was.
    """

    @cache
    def value(taken: Taken, at: int) -> Any:
        best = max(mp.mpf(0), 1 - mp.exp(real(at * _UNIT)))
        for step in MENU if len(taken) < _ROUNDS else ():
            more = tuple(sorted((*taken, step)))
            if allowed(more):
                best = max(best, _after(step, partial(value, more), at))
        return best

    return value((), units)


def _after(step: Step, rest: Callable[[int], Any], at: int) -> Any:
    kind, size = step
    if kind == "reveal":
        return real(size) + (1 - real(size)) * rest(at)
    loss = int(size / _UNIT)
    yes = 1 / (1 + mp.exp(-real(size)))
    return yes * rest(at - loss) + (1 - yes) * rest(at + loss)


def fixed(steps: Taken, units: int) -> Any:
    """Return sup over events of P(S) - e^(units / 10) Q(S) when these steps are taken whatever the
    answers.
    """
    if not steps:
        return max(mp.mpf(0), 1 - mp.exp(real(units * _UNIT)))
    return _after(steps[0], lambda left: fixed(steps[1:], left), units)


def within_the_limit(taken: Taken) -> bool:
    """Return whether the sums of mu^2 and of delta are within ``LIMIT``."""
    return privacy_filter(LIMIT, [cost_of(step) for step in taken])


def promised(units: int) -> Any:
    """Return delta_mu + delta of ``LIMIT``."""
    return gaussian_profile(LIMIT[0], units * _UNIT) + real(LIMIT[1])


def at_one_epsilon(taken: Taken) -> bool:
    """Return whether the steps, taken whatever the answers, have delta(1) of at most that of the
    two responses: no filter.

    For responses at 1/2, then 3/5, and for a response at 1/2, then telling everything with
    probability .0382, delta(1) is .0382. An analyst who asks for 3/5 after a high loss, and for
    the other after a low one, has delta(1) = .0527.
    """
    return bool(fixed(taken, 10) <= fixed(MENU[:2], 10))


class Filter(NamedTuple):
    """Requests that an analyst may have made, and the delta that is promised for all of them at an
    epsilon.
    """

    allowed: Callable[[Taken], bool]
    promise: Callable[[int], Any]


SUMS = Filter(within_the_limit, promised)


def obligation_filter(claimed: Filter = SUMS) -> int:
    """Check that no analyst whose requests are allowed exceeds what is promised, at any of several
    epsilons.
    """
    for units in _COMPARED:
        best, most = best_analyst(claimed.allowed, units), claimed.promise(units)
        case = f"at epsilon = {units}/10 an analyst has {best}, promised is {most}"
        require(best <= most + _CLOSE, case)
    return len(_COMPARED)
