"""Spec of ``kth_largest_variance``: groups vote for the bucket of the k-th largest variance."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import group_votes, groups
from .theory.laws import TranscriptLaw, real
from .theory.obligations import Departure, require
from .theory.profiles import gaussian_profile

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "DJYZZ24, Algorithm 2",
        "a record's group is a public hash of the record and of which of its equals it is",
        "with groups by index one record less moves all later records to other groups: the "
        "algorithm is private under replace only; by the hash one record more or less changes "
        "one group",
    ),
    Departure(
        "DJYZZ24, Algorithm 5",
        "buckets are powers of 4, and the value is the middle of the fullest; noise is for two "
        "counts by group that changes, four under replace",
        "groups that are within a factor 2 then meet two buckets, not three: a third of the "
        "groups are enough, for the same factor 4; noise for one count (a record of a "
        "histogram) would lose twice the epsilon",
    ),
)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the votes: the number of groups that a record changes."""
    return {"votes": groups.moved(parameters["adjacency"])}


@states(Source("DJYZZ24", "Algorithm 5, KthLargest", SourceStatus.CHANGED_CONSTANTS))
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the thresholded histogram of the groups' buckets."""
    return group_votes.law_of(parameters, records, groups.kth_largest(parameters["k"]))


def obligation_kth_largest(
    claimed: Callable[[int], Callable[[list[Fraction]], Fraction]] = groups.kth_largest,
) -> int:
    """Check exactly that at least k values are as large as the k-th largest, and fewer than k are
    larger.
    """
    cases = 0
    for values in product(map(Fraction, range(4)), repeat=4):
        for k in range(1, 5):
            kth = claimed(k)(list(values))
            enough = sum(value >= kth for value in values) >= k
            require(enough and sum(value > kth for value in values) < k, f"{values}, {k}: {kth}")
            cases += 1
    return cases


def obligation_delta(claimed: Callable[[Parameters], int] = group_votes.threshold_of) -> int:
    """Check that with the threshold ``claimed`` no votes of neighbors have more than delta at
    epsilon = 1, and some have all of ``group_votes.surfaces`` in the limit of large epsilon;
    with a threshold lower by one, some have more than delta.
    """
    cases = 0
    for adjacency, delta in product(Adjacency, ("1/20", "1/4", "1e-6")):
        parameters = group_votes.base(adjacency, "laplace", delta)
        threshold = claimed(parameters)
        case = f"{adjacency}, delta {delta}, threshold {threshold}"
        pairs = group_votes.moved_pairs(parameters, threshold)
        require(max(p.profile(q, Fraction(1)) for p, q in pairs) <= real(parameters["delta"]), case)
        alone = max(p.profile(q, Fraction(99)) for p, q in pairs)
        require(abs(alone - group_votes.surfaces(parameters, threshold)) < mp.mpf(10) ** -20, case)
        least = threshold == groups.moved(adjacency) + 1
        require(
            least or group_votes.surfaces(parameters, threshold - 1) > real(parameters["delta"]),
            case,
        )
        cases += len(pairs)
    return cases


def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check that votes of neighbors whose buckets are all large have the loss
    ``claimed`` / multiplier at most, and some have it; with Gaussian noise the profile is that
    of mu = claimed / multiplier, and some have most of it.
    """
    cases = 0
    for adjacency in Adjacency:
        t = groups.moved(adjacency)
        laplace, gaussian = (
            group_votes.base(adjacency, noise, "1e-6") for noise in ("laplace", "gaussian")
        )
        gaussian |= {"noise_multiplier": Fraction(4)}
        sides = [((0, 60 + shift), (1, 60 - shift)) for shift in (0, t)]
        losses = [
            group_votes.model(laplace, sides[i], 20).largest_loss(
                group_votes.model(laplace, sides[1 - i], 20)
            )
            for i in (0, 1)
        ]
        require(abs(max(losses) - real(claimed)) < mp.mpf(10) ** -5, f"{adjacency}: {losses}")
        for epsilon in map(Fraction, ("0", "1/4", "1/2")):
            own, other = (group_votes.model(gaussian, side, 9) for side in sides)
            most, delta = gaussian_profile(claimed**2 / 16, epsilon), own.profile(other, epsilon)
            require(
                most * mp.mpf("0.95") < delta <= most * (1 + mp.mpf(10) ** -5),
                f"{adjacency}: {delta}",
            )
            cases += 1
    return cases


@states(
    Source("DJYZZ24", "Lemma 4.5, KthLargest within a factor 4", SourceStatus.CHANGED_CONSTANTS)
)
def error_bound(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that the estimate, from n normal records of any
    covariance, is not within a factor 4 of the k-th largest variance (``group_votes.failure``).
    """
    k, d = parameters["k"], parameters["d"]
    return group_votes.failure(parameters, n, lambda pairs: group_votes.exactly_off(k, d, pairs))


allowed = group_votes.allowed
lower_bound = group_votes.lower_bound


def obligation_lower_bound_is_below_error() -> int:
    """Check that the number of groups that the rule takes is above the bound and at most 40 times
    it.
    """
    cases = 0
    for epsilon, delta in product(map(Fraction, ("1/10", "1", "3")), ("1e-3", "1e-9")):
        given = group_votes.base(Adjacency.ADD_REMOVE, "laplace", delta)
        taken = group_votes.groups_of(given | {"noise_multiplier": 1 / epsilon})
        least = lower_bound(epsilon, Fraction(delta), Fraction(1, 100))
        require(least <= taken <= 40 * least, f"{epsilon}, {delta}: {least}, {taken}")
        cases += 1
    return cases
