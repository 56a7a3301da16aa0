"""Spec of ``sum_of_variances``: groups vote for the bucket of a sum of variances."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import combinations, product
from typing import Any

from dpverify.privacy import Source, SourceStatus, states

from .kth_largest_variance import DEPARTURES as _SHARED
from .theory import group_votes, groups
from .theory.laws import TranscriptLaw
from .theory.obligations import Departure, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    *_SHARED,
    Departure(
        "DJYZZ24, Appendix A.4, SumVar",
        "a group needs as many pairs for a sum as for a single variance, whatever the dimension",
        "Chernoff's bound for one chi-square variable holds for every weighted mean of them",
    ),
)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the votes: the number of groups that a record changes."""
    return {"votes": groups.moved(parameters["adjacency"])}


def coordinates(parameters: Parameters) -> tuple[int, ...]:
    """Return the named coordinates; by default all."""
    over = parameters["over"]
    return tuple(range(parameters["d"])) if over is None else tuple(over)


@states(Source("DJYZZ24", "Appendix A.4, SumVar", SourceStatus.CHANGED_CONSTANTS))
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the thresholded histogram of the groups' buckets."""
    return group_votes.law_of(parameters, records, groups.sum_over(coordinates(parameters)))


def obligation_sum_over(
    claimed: Callable[[Sequence[int]], Callable[[list[Fraction]], Fraction]] = groups.sum_over,
) -> int:
    """Check that the sum over a subset and that over the others add up to the whole, and that one
    coordinate is itself.
    """
    cases = 0
    for values in product(map(Fraction, (0, 1, 5)), repeat=3):
        for size in range(4):
            for some in combinations(range(3), size):
                others = [i for i in range(3) if i not in some]
                sums = [claimed(part)(list(values)) for part in (some, others)]
                require(sum(sums) == sum(values), f"{values}, {some}: {sums}")
                single = size != 1 or sums[0] == values[some[0]]
                require(single, f"{values}, {some}: {sums}")
                cases += 1
    return cases


@states(Source("DJYZZ24", "Lemma 4.6, SumVar within a factor 4", SourceStatus.CHANGED_CONSTANTS))
def error_bound(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that the estimate, from n normal records of any
    covariance, is not within a factor 4 of the sum of variances (``group_votes.failure``).
    """
    return group_votes.failure(parameters, n, group_votes.off_by_two)


allowed = group_votes.allowed
lower_bound = group_votes.lower_bound
