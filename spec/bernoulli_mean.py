"""Spec of ``bernoulli_mean``: ones minus zeros, and their number, under Gaussian noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import joint, vectors
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import PointLaw, TranscriptLaw, closed, real
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "K19, Bernoulli means",
        "Gaussian noise instead of Laplace",
        "one guarantee, Gaussian DP, for all means here; tighter under composition",
    ),
    Departure(
        "K19, Bernoulli means",
        "under add-remove the number of records shares the noise of the sum",
        "the slides divide by n as if it were public, which holds under replace only",
    ),
)
_GAUSSIAN = Source("DRS22", "Gaussian noise on a query of known L2 sensitivity is mu-GDP")
_K19 = Source(
    "K19",
    "a Bernoulli mean to alpha from O(1 / alpha^2 + 1 / (alpha epsilon)) records",
    SourceStatus.CHANGED_CONSTANTS,
    note="the slides state it for (epsilon^2 / 2)-zCDP; here mu in the place of epsilon, and the "
    "constants are 1/2 and 2",
)


def vote(record: Fraction) -> int:
    """Return -1 for a zero, 1 for a one, 0 for a number that rounds to one half; beyond [0, 1] the
    nearer end counts.
    """
    return min(max(round(2 * record), 0), 2) - 1


def moved(parameters: Parameters) -> int:
    """Return the squared sensitivity. replace: a vote turns, 2^2. add-remove: a vote and the
    number, 1 + 1.
    """
    return 4 if parameters["adjacency"] is Adjacency.REPLACE else 2


def scale(parameters: Parameters) -> Fraction:
    """Return multiplier times sensitivity, rounded down to 2^-40 votes."""
    root = Fraction(math.isqrt(moved(parameters) * 4**40), 2**40)
    return Fraction(parameters["noise_multiplier"]) * root


def released(parameters: Parameters) -> joint.Ratio:
    """Return the parameters of the released ratio, in votes."""
    weight = None if parameters["adjacency"] is Adjacency.REPLACE else 1
    return joint.Ratio(scale(parameters), 1, 1, weight)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    public = parameters["adjacency"] is Adjacency.REPLACE
    width = 1 if public else 2
    square = vectors.one_unit_sensitivity(moved(parameters), scale(parameters), width, int(UNIT))
    return {"count": 0, "sum": square} if public else {"sum and count": square}


@states(_K19, _GAUSSIAN)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law: votes and their number plus noise; or the public number, then the votes plus
    noise.
    """
    n, votes = len(records), sum(vote(record) for record in records)
    if parameters["adjacency"] is Adjacency.ADD_REMOVE:
        both = RoundedGaussianLaw(one_unit((votes, n), scale(parameters)), UNIT)
        return closed("sum and count", both)
    noisy = RoundedGaussianLaw(one_unit((votes,), scale(parameters)), UNIT)
    stages = (("count", lambda prefix: PointLaw((n,))), ("sum", lambda prefix: noisy))
    return TranscriptLaw(stages, ((n,),))


@states(Source("OURS", "error of a noisy sum over a noisy count, normal tails"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on |estimate - share| that fails with probability at most beta: half that of
    votes.
    """
    return joint.error_bound(released(parameters), n, beta, parameters["at_least"]) / 2


def expected_error(parameters: Parameters, n: int, share: Any) -> Any:
    """Return the root mean squared error of the noise to first order in 1/n.

    Under replace multiplier / n; under add-remove at most sqrt(2) multiplier max(p, 1 - p) / n.
    """
    return joint.expected_error(released(parameters), n, abs(2 * mp.mpf(share) - 1)) / 2


@states(Source("OURS", "Assouad's lemma with group privacy of Gaussian DP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return a lower bound on the root mean squared error, on some n answers, of every estimate of
    this privacy.

    Answers are means in a ball of radius 1/2; under add-remove, replacing costs 2 mu.
    """
    mu = 1 / real(Fraction(parameters["noise_multiplier"]))
    twice = 2 if parameters["adjacency"] is Adjacency.ADD_REMOVE else 1
    return joint.least_error(twice * mu, n, 1) / 2


@states(_K19)
def enough_records(alpha: Fraction, multiplier: Fraction) -> int:
    """Return a number of records with which the root mean squared error, sampling and noise, is at
    most alpha.

    It is

    1 / (2 alpha^2) + 2 multiplier / alpha: sampling then has variance at most 1 / (4 n) <=
    alpha^2 / 2, the noise a deviation of at most sqrt(2) multiplier / n <= alpha / sqrt(2).
    Their squares add up.
    """
    return math.ceil(1 / (2 * alpha**2) + 2 * multiplier / alpha)


# --- obligations --------------------------------------------------------------------------------

_ANSWERS = tuple(map(Fraction, ("0", "1", "1/2", "1/4", "3/4", "-5", "7", "1/1000000")))


def _parameters(adjacency: Adjacency, multiplier: Fraction) -> dict[str, Any]:
    return {"adjacency": adjacency, "noise_multiplier": multiplier, "at_least": 1}


@states(_GAUSSIAN, Source("OURS", "a sum and a count under one noise"))
def obligation_loss(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of at most 2 answers that the exact mu is at most
    claimed / multiplier up to 2^-37, and at most the code's sensitivity in one unit; for some
    pair it is within 2^-37.
    """
    cases, slack = 0, 1 + Fraction(1, 2**37)
    for adjacency in Adjacency:
        for multiplier in (Fraction(1, 3), Fraction(3, 2)):
            parameters, largest = _parameters(adjacency, multiplier), Fraction(0)
            for left, right in neighbors(_ANSWERS, 2, adjacency):
                pair = law(parameters, left), law(parameters, right)
                largest = max(largest, joint.mu_squared(*pair))
                cases += 1
            stated = max(sensitivities(parameters).values()) / UNIT**2
            square = (claimed / multiplier) ** 2
            case = f"{adjacency}: mu^2 = {float(largest)}, {float(stated)} in one unit"
            require(largest <= stated <= square * slack, case)
            require(largest * slack >= square, case)
    return cases


@states(_K19)
def obligation_enough_records(enough: Any = enough_records) -> int:
    """Check that with so many records the error is at most alpha, for every share and both
    adjacencies; with a fifth of them not for every share.
    """
    cases = 0
    for alpha in map(Fraction, ("1/4", "1/20", "1/1000")):
        for multiplier in map(Fraction, ("1/10", "1", "50")):
            n = enough(alpha, multiplier)
            require(_worst_error(n, multiplier) <= real(alpha), f"{alpha}, {multiplier}: {n}")
            fewer = max(1, n // 5)
            require(_worst_error(fewer, multiplier) > real(alpha), f"{alpha}: {fewer} do as well")
            cases += 1
    return cases


def _worst_error(n: int, multiplier: Fraction) -> Any:
    """Return the root mean square of sampling error and noise together, the largest over shares
    and adjacencies.
    """
    shares = [mp.mpf(i) / 20 for i in range(21)]
    return max(
        mp.sqrt(p * (1 - p) / n + expected_error(_parameters(adjacency, multiplier), n, p) ** 2)
        for adjacency in Adjacency
        for p in shares
    )


def obligation_lower_bound_is_below_error(within: int = 6) -> int:
    """Check that at the worst share the error is above the lower bound and at most 6 times it."""
    cases = 0
    for adjacency in Adjacency:
        for n, multiplier in ((10, Fraction(2)), (100, Fraction(1)), (10**4, Fraction(100))):
            parameters = _parameters(adjacency, multiplier)
            bound, error = lower_bound(parameters, n), expected_error(parameters, n, 1)
            require(bound <= error <= within * bound, f"{adjacency}, {n}: {bound}, {error}")
            cases += 1
    return cases
