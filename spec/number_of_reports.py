"""Spec of ``number_of_reports``: groups vote for the number of columns that are worth a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

from dpverify.privacy import Source, SourceStatus, states

from .kth_largest_variance import DEPARTURES as _SHARED
from .theory import group_votes, groups
from .theory.laws import TranscriptLaw
from .theory.laws import real_exponential as e
from .theory.obligations import Departure, require

Parameters = Mapping[str, Any]
_REMARK = Source("DJYZZ24", "Remark 2, the choice of k", SourceStatus.CHANGED_CONSTANTS)

DEPARTURES = (
    *_SHARED,
    Departure(
        "DJYZZ24, Remark 2",
        "each group votes for the number that suits its own variances; there the columns are "
        "counted by dyadic buckets of their variances, which takes a release for every bucket",
        "one record moves one vote, so one histogram is enough; a histogram of columns moves by d",
    ),
)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of the votes: the number of groups that a record changes."""
    return {"votes": groups.moved(parameters["adjacency"])}


@states(_REMARK)
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the law of the thresholded histogram of the groups' numbers, by their logarithms to
    the base 2.

    Roots are exact here, and rounded down to 2^-20 in the shipped code.
    """
    return group_votes.law_of(parameters, records, groups.reports_worth)


def _values() -> Iterator[list[Fraction]]:
    """Yield small lists of variances, and geometric ones of up to 64 columns."""
    yield from (
        list(map(Fraction, v)) for d in (1, 2, 3, 5) for v in product((0, 1, 4, 50), repeat=d)
    )
    yield from ([Fraction(1, b**i) for i in range(d)] for b in (1, 2, 4, 16) for d in (7, 8, 64))


def obligation_reports_worth(
    claimed: Callable[[list[Fraction]], Fraction] = groups.reports_worth,
) -> int:
    """Check that the number named is a power of 2 and costs at most 9/8 of the best power of 2,
    and that no smaller one does.
    """
    cases = 0
    for values in _values():
        named = claimed(values)
        powers = [2**j for j in range(len(values).bit_length())]
        costs = {k: groups.reports_cost(values, k) for k in powers}
        good = [k for k in powers if 8 * costs[k] <= 9 * min(costs.values())]
        require(named == min(good) ** 2, f"{values}: {named}, not {min(good)} squared")
        cases += 1
    return cases


@states(_REMARK)
def error_bound(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that no number surfaces, whatever the records are.

    m groups vote for one of J = floor(log2 d) + 1 numbers, so one of these has m / J votes at
    least; it surfaces unless its noise is below threshold - ceil(m / J).
    """
    votes = ceil(Fraction(group_votes.groups_of(parameters), parameters["d"].bit_length()))
    law_ = group_votes.model(parameters, (), group_votes.threshold_of(parameters))
    return law_.below(law_.threshold - votes, e)


allowed = group_votes.allowed
lower_bound = group_votes.lower_bound
