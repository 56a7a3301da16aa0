"""Spec of ``sparse_vector``: the first queries that reach a threshold, with a round of noise for
each report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from .theory import queries
from .theory.above_threshold import AboveThresholdLaw, moves_of_counts
from .theory.laws import (
    DiscreteLaplaceLaw,
    Outcome,
    TranscriptLaw,
    least_tail,
    real,
    real_exponential,
)
from .theory.obligations import Departure, require

Parameters = Mapping[str, Any]

DEPARTURES = (
    Departure(
        "DR14, Section 3.6 (Sparse)",
        "each round has AboveThreshold's own noise, of scales 2 and 4 over its epsilon, and "
        "rounds are composed through their profiles; there a round's noise is 2 c and 4 c over "
        "epsilon, or sqrt(32 c ln(1 / delta)) / epsilon and twice that",
        "a round is as private as a move by 2 under the threshold's noise, which composes "
        "better than the sum of epsilons and than the advanced composition theorem",
    ),
    Departure(
        "DR14, Section 3.6 (Sparse)",
        "for counts under add-remove the noise on queries has the threshold's scale",
        "all of them move one way, so a report costs one move of a query and not two; under "
        "replace some rise while others fall, and this noise would lose 1.5 times as much",
    ),
    Departure(
        "DR14, Section 3.6 (AboveThreshold)",
        "integer queries, an integer threshold and discrete Laplace noise",
        "what is compared are integers, exactly; real noise in floats decides close calls by "
        "its low bits",
    ),
)


def scales(parameters: Parameters) -> tuple[Fraction, Fraction]:
    """Return the scales of the threshold's noise and of the queries'."""
    moved, one_way = moves(parameters)
    scale = 2 * parameters["noise_multiplier"] * max(moved, 1)
    return scale, scale if one_way else 2 * scale


def asked(parameters: Parameters, reports: Sequence[int]) -> tuple[Any, ...]:
    """Return the queries that are asked if exactly these are reported."""
    given = parameters["queries"]
    if isinstance(given, tuple):
        return given
    answers = [i in reports for i in range(given.most)]
    return tuple(given.after(tuple(answers[:i])) for i in range(given.most))


def moves(parameters: Parameters) -> tuple[int, bool]:
    """Return the largest move of a query, and whether all move in one direction."""
    adjacency, query_moves, counts = parameters["adjacency"], [], True
    for query in asked(parameters, ()):
        if hasattr(query, "within"):
            query_moves.append(queries.count_sensitivity(query.within, adjacency))
        else:
            counts = False
            where = query.lower, query.upper, query.center
            query_moves.append(queries.clamped_sum_sensitivity(*where, adjacency))
    return max(query_moves), counts and moves_of_counts(adjacency)[1]


def answer(query: Any, records: Sequence[Fraction]) -> int:
    """Return the answer to a count, or to a clamped sum."""
    if hasattr(query, "within"):
        if query.within is None:
            return queries.count(records, None)
        low, high = map(Fraction, query.within)
        return queries.count(records, (low, high))
    where = query.lower, query.upper, query.center
    return queries.clamped_sum(records, *where, Fraction(2) ** query.exponent)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage."""
    return {f"report {i + 1}": moves(parameters)[0] for i in range(parameters["reports"])}


@states(
    Source("DR14", "Theorem 3.23, AboveThreshold"),
    Source("DR14", "Theorem 3.25, Sparse", note="with other constants"),
)
def law(parameters: Parameters, records: Sequence[Fraction]) -> TranscriptLaw:
    """Return the law of each report from the one before it on; after a round without a report
    there is nothing left.
    """

    def stage(prefix: tuple[Outcome, ...]) -> AboveThresholdLaw:
        reports = [place for (place,) in prefix]
        here = asked(parameters, reports)
        start = min(reports[-1] + 1, len(here)) if reports else 0
        answers = tuple(answer(query, records) for query in here)
        noise = scales(parameters)
        return AboveThresholdLaw(
            answers, parameters["threshold"], *noise, start, parameters["by_range"]
        )

    rounds = parameters["reports"]
    names = [f"report {i + 1}" for i in range(rounds)]
    return TranscriptLaw(tuple((name, stage) for name in names), ((0,),) * (rounds - 1))


@states(Source("DR14", "Theorem 3.24, accuracy of AboveThreshold", note="all rounds together"))
def error_bound(parameters: Parameters, beta: Fraction) -> int:
    """Return t such that any comparison is off by t or more with probability at most beta.

    Until it stops, a reported query is above threshold - t, and another one below threshold +
    t. An answer is wrong by t only if |Y| + |Z| >= t for its noises. Each |Z| is below t1
    except with probability beta / (2 reports), each |Y| below t2 except with
    beta / (2 queries); t = t1 + t2 - 1.
    """
    scale, own = scales(parameters)
    number = len(asked(parameters, ()))
    common = least_tail(DiscreteLaplaceLaw(0, scale), beta / (2 * parameters["reports"]))
    return common + least_tail(DiscreteLaplaceLaw(0, own), beta / (2 * number)) - 1


def expected_error(parameters: Parameters, records: Sequence[Fraction]) -> Any:
    """Return the root mean square, exactly, of the distance of the first query reported from the
    threshold; if all queries are below, that of the largest.
    """
    ((_, first), *_) = law(parameters, records).stage_laws()
    assert isinstance(first, AboveThresholdLaw)
    answers = (*first.answers, max(first.answers))
    masses = first.masses(real_exponential)
    squares = ((a - first.threshold) ** 2 * mass for a, mass in zip(answers, masses, strict=True))
    return mp.sqrt(mp.fsum(squares))


@states(Source("HT10", "packing argument", note="of one query that stands out"))
def lower_bound(adjacency: Adjacency, epsilon: Fraction, number: int, beta: Fraction) -> Any:
    """Return a number of records below which no epsilon-DP mechanism names, with probability 1 -
    beta, the one of ``number`` counts that has all of them while the others have none.

    Two such datasets of h records are h replacements apart, or 2 h removals and additions. The
    names exclude each other, so (number - 1) e^(-steps h epsilon) (1 - beta) <= beta.
    """
    steps = 1 if adjacency is Adjacency.REPLACE else 2
    return mp.log((number - 1) * real((1 - beta) / beta)) / (steps * real(epsilon))


class _Asked:
    """Count query with the attributes that an error bound uses."""

    within = (Fraction(0), Fraction(1))


def _model(adjacency: Adjacency, number: int, multiplier: Fraction, reports: int) -> Parameters:
    return {
        "adjacency": adjacency,
        "noise_multiplier": multiplier,
        "queries": (_Asked(),) * number,
        "threshold": 0,
        "reports": reports,
        "by_range": False,
    }


def obligation_lower_bound_is_below_error() -> int:
    """Check that twice the error bound suffices to name that count (a threshold in the middle),
    and is above the lower bound and at most 30 times it.
    """
    cases, beta = 0, Fraction(1, 20)
    for adjacency, number, epsilon in product(
        Adjacency, (2, 50, 1000), map(Fraction, ("1/10", "1"))
    ):
        parameters = _model(adjacency, number, 1 / epsilon, 1)
        bound = lower_bound(adjacency, epsilon, number, beta)
        enough = 2 * error_bound(parameters, beta)
        case = f"{adjacency}, {number}, {epsilon}: {bound}, {enough}"
        require(0 < bound <= enough <= 30 * bound, case)
        cases += 1
    return cases


def obligation_error(factor: Fraction = Fraction(1)) -> int:
    """Check that where every query is ``factor`` times the error bound away from the threshold,
    all answers are right with probability 1 - beta or more; at a sixth of it, below.
    """
    cases = 0
    for adjacency, number in product(Adjacency, (1, 4, 9)):
        for beta in (Fraction(1, 20), Fraction(1, 4)):
            parameters = _model(adjacency, number, Fraction(3, 2), 1)
            far = int(factor * error_bound(parameters, beta))
            for away, enough in ((far, True), (far // 6, False)):
                answers = (-away,) * (number - 1) + (away,)
                one = AboveThresholdLaw(answers, 0, *scales(parameters), 0, False)
                right = one.probability((number - 1,), real_exponential)
                case = f"{adjacency}, {number}, {away}: {mp.nstr(right, 8)}"
                require((right >= real(1 - beta)) == enough, case)
                cases += 1
    return cases


def obligation_transcripts() -> int:
    """Check that the masses of all transcripts add up to 1, for reports that go on where the last
    one was.
    """
    parameters = _model(Adjacency.ADD_REMOVE, 3, Fraction(1, 4), 2)
    made, cases, total = law(parameters, (Fraction(1, 2),)), 0, Fraction(0)
    for first, second in product(range(4), repeat=2):
        mass = made.probability(((first,), (second,)), _formal)
        require(
            (mass > 0) == (first < second or first == second == 3), f"{first}, {second}: {mass}"
        )
        total, cases = total + mass, cases + 1
    require(total == 1, f"{total}")
    return cases


def _formal(exponent: Fraction) -> Fraction:
    """Return a stand-in for e^-exponent, for halves."""
    return Fraction(1, 3) ** int(exponent * 2)
