"""Spec of ``kth_largest_variance``: groups vote for the bucket of the k-th largest variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import Source, SourceStatus, states

from .theory import group_votes, groups
from .theory.laws import TranscriptLaw
from .theory.obligations import Departure, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "DJYZZ24, Algorithm 2",
        "a record's group is a public hash of the record and of which of its equals it is",
        "with groups by index one record less moves all later records to other groups: the algorithm "
        "is private under replace only; by the hash one record more or less changes one group",
    ),
    Departure(
        "DJYZZ24, Algorithm 5",
        "buckets are powers of 4, and the value is the middle of the fullest; noise is for two counts "
        "by group that changes, four under replace",
        "groups that are within a factor 2 then meet two buckets, not three: a third of the groups are "
        "enough, for the same factor 4; noise for one count (a record of a histogram) would lose twice "
        "the epsilon",
    ),
)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """By stage: how many groups a record changes."""
    return {"votes": groups.moved(parameters["adjacency"])}


@states(Source("DJYZZ24", "Algorithm 5, KthLargest", SourceStatus.CHANGED_CONSTANTS))
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """The thresholded histogram of the groups' buckets."""
    return group_votes.law_of(parameters, records, groups.kth_largest(parameters["k"]))


def obligation_kth_largest(
    claimed: Callable[[int], Callable[[list[Fraction]], Fraction]] = groups.kth_largest,
) -> int:
    """Exactly: at least k values are as large as the k-th largest, and fewer than k are larger."""
    cases = 0
    for values in product(map(Fraction, range(4)), repeat=4):
        for k in range(1, 5):
            found = claimed(k)(list(values))
            enough = sum(value >= found for value in values) >= k
            require(
                enough and sum(value > found for value in values) < k, f"{values}, {k}: {found}"
            )
            cases += 1
    return cases


@states(Source("DJYZZ24", "Lemma on KthLargest, within a factor 4", SourceStatus.CHANGED_CONSTANTS))
def error_bound(parameters: Parameters, n: int) -> Any:
    """At most the probability that the estimate, from n normal records of any covariance, is not within a
    factor 4 of the k-th largest variance (``group_votes.failure``)."""
    k, d = parameters["k"], parameters["d"]
    return group_votes.failure(parameters, n, lambda pairs: group_votes.exactly_off(k, d, pairs))


expected_error = group_votes.expected_error
lower_bound = group_votes.lower_bound
