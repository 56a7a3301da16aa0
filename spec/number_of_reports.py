"""Spec of ``number_of_reports``: groups vote for the number of columns that are worth a report."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any

import mpmath as mp

from dpverify.privacy import Source, SourceStatus, states

from .kth_largest_variance import DEPARTURES as _SHARED
from .theory import group_votes, groups
from .theory.laws import TranscriptLaw, real
from .theory.laws import real_exponential as e
from .theory.obligations import Departure, require

Parameters = Mapping[str, Any]
_REMARK = Source("DJYZZ24", "Remark 2, the choice of k", SourceStatus.CHANGED_CONSTANTS)
_HALVINGS = 100  # of an interval that contains a quantile

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


@states(_REMARK)
def loss_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a factor by which the cost of a released number, by the true variances, exceeds that
    of the best power of 2, at most, except with probability ``beta``, for n normal records.

    Proof. A group's size is binomial with mean n / m, so by Chernoff it is below
    n / m - sqrt(2 (n / m) ln(2 m / beta)) with probability at most beta / (2 m). Else the group
    has p pairs at least, for the p below. In each column its variance is the true one times
    chi2_q / q, q >= p its pairs. That is below the quantile a or above the quantile b of its law
    with probability beta / (4 m d) each. So, except with probability beta, each group knows all
    variances between its a and its b times the truth. A cost is homogeneous and rises with every
    deviation, so the group knows it between sqrt(a) and sqrt(b) times the truth. It votes for a
    number of at most 9/8 of the least cost that it sees, which is at most (9/8) sqrt(b / a) of
    the true least one. b / a falls with q: gamma laws of larger shape are smaller in van Zwet's
    order by convex transforms, so ratios of their quantiles are. Only numbers that some group
    votes for are released. QED
    """
    m, each = group_votes.groups_of(parameters), mp.mpf(n) / group_votes.groups_of(parameters)
    few = each - mp.sqrt(2 * each * mp.log(2 * m / real(beta)))
    pairs, off = int(mp.floor(few / 2)), real(beta) / (4 * m * parameters["d"])
    if pairs < 1:
        return mp.inf
    low, high = (_quantile(pairs, share) for share in (off, 1 - off))
    return mp.mpf(9) / 8 * mp.sqrt(high / low)


def _quantile(pairs: int, share: Any) -> Any:
    """Return the number below which chi2 of so many degrees is with this probability, over 2."""
    low, high = mp.mpf(0), mp.mpf(1)
    while mp.gammainc(mp.mpf(pairs) / 2, 0, high, regularized=True) < share:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        below = mp.gammainc(mp.mpf(pairs) / 2, 0, middle, regularized=True) < share
        low, high = (middle, high) if below else (low, middle)
    return high


allowed = group_votes.allowed
lower_bound = group_votes.lower_bound
