"""Spec of ``degree_weights``: records weighted by their number of friends beyond half of all
records.

The theorems are in theory/weights.py, step by step in theory/weight_steps.py, and the cost of a
release in theory/weighted_releases.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import chain
from typing import Any

from dpverify.privacy import (
    Adjacency,
    Assumed,
    AssumedPassed,
    Norm,
    Relation,
    Sensitivity,
    Side,
    of_query,
    shows,
    states,
)

from .theory import embeddings, weights
from .theory.embeddings import Weight
from .theory.filters import degrees
from .theory.obligations import require
from .theory.transcript_sums import apart_in_unit, stated_in_unit, unit_sensitivity
from .theory.weights import (
    LEAST,
    SLACK,
    STABILITY,
    WEIGHTS,
    Statistic,
    agreements,
    exact_agreement,
    larger,
    moved_agreement,
    reach,
    small,
    weight,
)


@states(WEIGHTS)
def law(
    records: Sequence[Any], are_friends: Callable[[Any, Any], bool]
) -> tuple[int, tuple[int, ...]]:
    """Return (the agreement, the weight of each record): there are no coins."""
    counts = degrees(records, are_friends)
    return weights.agreement(counts), weights.weights(counts)


@states(STABILITY)
@shows("Agreement", Norm.L1, value=of_query(moved_agreement))
def obligation_agreement(claimed: Callable[[Adjacency], int] = moved_agreement) -> int:
    """Check on every graph of at most 5 records, and on larger ones, that the agreement moves by
    at most ``claimed``, rounded down or not; and by exactly that for some, rounded down.
    """
    cases = 0
    for adjacency in reversed(Adjacency):  # first the one with fewer graphs
        largest = 0
        for sides in chain(small(adjacency), larger(adjacency)):
            left, right = agreements(sides)
            rounded = abs(left.__floor__() - right.__floor__())
            most = max(abs(left - right), Fraction(rounded))
            case = f"{sides}: agreements {left} and {right}, claimed {claimed(adjacency)}"
            require(most <= claimed(adjacency), case)
            largest = max(largest, rounded)
            cases += 1
        require(largest == claimed(adjacency), f"{adjacency}: at most {largest}")
    return cases


_SPREAD = Fraction(10**6 + 1, 3)


def _stated_mean(statement: Sensitivity) -> int | None:
    """Return the sensitivity if the unit's reach is at least that of the adjacency, else None."""
    near: Any = statement.adjacency
    own: Any = statement.query["reach"]
    return stated_in_unit(statement) if own >= reach(near, Fraction(1 + SLACK[near])) else None


def _under(statement: Sensitivity) -> tuple[Assumed | AssumedPassed, ...]:
    """Return the assumption that the released number is at least 1, and below both agreements by
    the stated amount.
    """
    near: Any = statement.adjacency
    known = (Relation.AT_MOST, Side.SMALLER, "Agreement")
    return AssumedPassed(1), Assumed(
        *known, slack=SLACK[near], same=("predicate",), stage="agreement"
    )


@states(STABILITY)
@shows("WeightedMean", Norm.SQUARED_L2, value=_stated_mean, under=_under)
def obligation_reach(
    claimed: Callable[[Adjacency, Fraction], Fraction] = reach,
    own: Weight = weight,
    statistic: Statistic = exact_agreement,
) -> int:
    """Check on the graphs of ``obligation_agreement`` that no records make the mean move by more
    than ``claimed``, wherever they are; nor, in 2^-40 of the noise that the largest released
    number gives, by more than ``unit_sensitivity``.

    A released number of r, so much below the agreement, gives a noise of spread times the
    claimed reach at r and that much: the mean moves by at most 1 / spread of it, and both
    values are rounded. Under add-remove a clique of 1999, 250 of which the record that goes
    does not know, comes within 1/1000 of it; under replace one of a clique that goes from one
    side of it to the other, within 6%.
    """
    cases = 0
    for adjacency in reversed(Adjacency):  # first the one with fewer graphs
        nearest = Fraction(0)
        for sides in chain(larger(adjacency), small(adjacency)):
            least = min(agreements(sides, own, statistic))
            if least < LEAST[adjacency]:
                continue
            moved, most = embeddings.mean_moves(sides, own), claimed(adjacency, least)
            require(moved <= most, f"{sides}: {float(moved)} radii, claimed {float(most)}")
            deviation = _SPREAD * claimed(adjacency, Fraction(least.__floor__()))
            unit, stated = apart_in_unit(moved, deviation), unit_sensitivity(_SPREAD, 1)
            require(unit <= stated, f"{sides}: {unit} units, stated {stated}")
            nearest = max(nearest, moved / most)
            cases += 1
        attained = Fraction(999, 1000) if adjacency is Adjacency.ADD_REMOVE else Fraction(94, 100)
        require(nearest >= attained, f"{adjacency}: at most {float(nearest)} of what is claimed")
    return cases
