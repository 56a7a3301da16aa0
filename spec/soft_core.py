"""Spec of ``soft_core``: a record counts in full from a public share of friends on.

The theorems are in theory/soft_weights.py; here are its weights for records, and obligations on
every small graph, on crafted and random larger ones, and on those that a search makes worse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain, product
from math import floor
from typing import Any

from dpverify.privacy import (
    Assumed,
    AssumedPassed,
    Norm,
    Relation,
    Sensitivity,
    Side,
    shows,
    states,
)

from .theory import embeddings, soft_weights
from .theory.core_means import Soft
from .theory.filters import degrees, gaussian_probability
from .theory.laws import real
from .theory.obligations import require
from .theory.soft_weights import (
    FULL,
    REPLACE,
    SOFT,
    STABILITY,
    agreements,
    climbed,
    larger,
    parties,
    small,
    weight,
)
from .theory.transcript_sums import apart_in_unit, stated_in_unit, unit_sensitivity

Reach = Callable[[Fraction, Fraction], Fraction]


@states(SOFT)
def law(
    records: Sequence[Any], are_friends: Callable[[Any, Any], bool], full: Fraction
) -> tuple[int, tuple[int, ...]]:
    """Return (the agreement, the weight of each record): there are no coins."""
    counts = degrees(records, are_friends)
    return soft_weights.agreement(counts, full), soft_weights.weights(counts, full)


def _is_covered(statement: Sensitivity) -> bool:
    """Replace alone, and a share above 1/2."""
    full: Any = statement.query["full"]
    return statement.adjacency is REPLACE and Fraction(1, 2) < full <= 1


def _stated_moves(statement: Sensitivity) -> int | None:
    full: Any = statement.query["full"]
    return soft_weights.moves(full) if _is_covered(statement) else None


def _stated_mean(statement: Sensitivity) -> int | None:
    """Return the sensitivity if the unit's reach is at least that of the share, else None."""
    given: Any = statement.query
    if not _is_covered(statement) or given["reach"] < soft_weights.reach(
        given["full"], Fraction(1)
    ):
        return None
    return stated_in_unit(statement)


def _under(statement: Sensitivity) -> tuple[Assumed | AssumedPassed, ...]:
    """Return the assumption that the released number is at least 1, and at most both agreements."""
    known = (Relation.AT_MOST, Side.SMALLER, "SoftAgreement")
    return AssumedPassed(1), Assumed(*known, same=("predicate", "full"), stage="agreement")


@states(STABILITY)
@shows("SoftAgreement", Norm.L1, value=_stated_moves)
def obligation_agreement(claimed: Callable[[Fraction], int] = soft_weights.moves) -> int:
    """Check on every graph of at most 5 records, and on larger ones, that the agreement moves by
    at most ``claimed``, rounded down or not; and by exactly that for some, rounded down, where
    full >= 3/4.
    """
    cases = 0
    for full in FULL:
        largest = 0
        groups = (parties(n, full) for n in (20, 41, 200, 2000))
        for sides in chain(small(), groups, larger(full)):
            left, right = agreements(sides, full)
            rounded = abs(floor(left) - floor(right))
            most = max(abs(left - right), Fraction(rounded))
            require(most <= claimed(full), f"{sides}, full = {full}: {left} and {right}")
            largest = max(largest, rounded)
            cases += 1
        attained = full < Fraction(3, 4) or largest == claimed(full)
        require(attained, f"full = {full}: at most {largest}, claimed {claimed(full)}")
    return cases


_SPREAD = Fraction(10**6 + 1, 3)


@states(STABILITY)
@shows("SoftMean", Norm.SQUARED_L2, value=_stated_mean, under=_under)
def obligation_reach(
    claimed: Reach = soft_weights.reach,
    weigh: Callable[[Fraction], embeddings.Weight] = weight,
) -> int:
    """Check on the graphs of ``obligation_agreement``, and on those that a search finds, that no
    records make the mean move by more than ``claimed``, wherever they are and whatever
    agreement above 0 remains; and by 17/20 of it for some.

    In 2^-40 of the noise that the largest released number gives, the mean moves by no more than
    ``unit_sensitivity``. A released number r, at most the agreement, gives a noise of spread
    times the claimed reach at r: the mean moves by at most 1 / spread of it, and both values
    are rounded.
    """
    cases = 0
    for full in FULL:
        nearest = Fraction(0)
        searches = (climbed(full, n, 60, 7 * n) for n in (9, 40))
        for sides in chain(larger(full), small(), *searches):
            least = min(agreements(sides, full, weigh))
            if least <= 0:
                continue
            moved, most = embeddings.mean_moves(sides, weigh(full)), claimed(full, least)
            require(moved <= most, f"{sides}: {float(moved)} radii, claimed {float(most)}")
            deviation = _SPREAD * claimed(full, Fraction(max(1, floor(least))))
            unit, stated = apart_in_unit(moved, deviation), unit_sensitivity(_SPREAD, 1)
            require(least < 1 or unit <= stated, f"{sides}: {unit} units, stated {stated}")
            nearest = max(nearest, moved / most)
            cases += 1
        least_share = Fraction(17, 20) if full >= Fraction(3, 4) else Fraction(4, 5)
        require(
            nearest >= least_share, f"full = {full}: at most {float(nearest)} of what is claimed"
        )
    return cases


# --- what is released ---------------------------------------------------------------------------


@states(STABILITY)
def taken_off(plan: Soft) -> int:
    """Return the number that is taken off the noisy agreement: moves + t with P(noise > t) <=
    tail.

    The smaller of two neighbors' exact agreements is S. Both, rounded down, are at most
    floor(S) + moves: so the remainder is above S under either with probability at most
    ``tail``, and where it is not, and at least 1, the means are at most reach / remainder
    apart. As in theory/weighted_releases.py the rest is a composition of two Gaussian releases;
    where nothing has weight S <= 0, and any remainder is above it.
    """
    return plan.shift


@states(STABILITY)
def obligation_bad_event(claimed: Callable[[Soft], int] = taken_off) -> int:
    """Check on crafted pairs that the remainder of the agreement is above the smaller exact one
    with probability at most ``tail``, and more than half of that for some.
    """
    cases, nearest = 0, real(0)
    for full, n in product(FULL, (20, 41, 200)):
        exact = agreements(parties(n, full), full)
        for multiplier, tail in ((1, 10), (4, 1000), (9, 10**6)):
            plan = Soft(REPLACE, Fraction(multiplier), n, Fraction(1, tail), 1, full)
            room = floor(min(exact)) + claimed(plan) - floor(max(exact))
            above = gaussian_probability(0, plan.scale, room)
            require(above <= real(plan.tail), f"n = {n}, {plan}: probability {above}")
            nearest = max(nearest, above * tail)
            cases += 1
    require(nearest >= real(Fraction(1, 2)), f"at most {nearest} of the probability")
    return cases
