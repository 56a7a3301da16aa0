"""Spec of ``large_variances``: rounds of AboveThreshold over a ladder of levels of the columns'
variances.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import product
from math import comb
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from .theory import group_votes, groups, levels
from .theory.above_threshold import AboveThresholdLaw
from .theory.caches import cache
from .theory.chi_square import interval, tail
from .theory.laws import (
    DiscreteLaplaceLaw,
    IntegerLaw,
    Outcome,
    TranscriptLaw,
    real,
    real_exponential,
)
from .theory.obligations import Departure, require
from .theory.queries import of_each

Parameters = Mapping[str, Any]
Prefix = tuple[Outcome, ...]

DEPARTURES = (
    Departure(
        "DJYZZ24, Algorithm 4 (FindLargeVariances)",
        "a ladder of levels, powers of 4, is asked from the top; there all columns are compared "
        "with one threshold R",
        "the level of a report is the column's variance up to a factor of 4, so the k single "
        "calls of SumVar and their advanced composition are not needed, nor the k-th largest "
        "variance",
    ),
    Departure(
        "DJYZZ24, Algorithm 2",
        "groups of about ten records and a threshold of two fifths of them; there groups of "
        "order log d, which are valid for all columns together, and a half",
        "an answer is about one column; ten records leave a margin of a thirtieth of n between "
        "a column above twice the level and one below half of it, groups of 50 a third of that",
    ),
    Departure(
        "DJYZZ24, Algorithm 3 (Sparse)",
        "each round has AboveThreshold's own noise, and rounds are composed through their profiles",
        "as for sparse_vector; answers of groups move both ways, so queries have twice the noise",
    ),
    Departure(
        "DJYZZ24, Algorithm 2",
        "not offered: the levels of all columns at once, under Gaussian noise of sqrt(2 d) a group",
        "in low dimension it would need less noise; for that there is variance_aware_mean, and "
        "here the noise of k reports is that of sqrt(k), whatever d",
    ),
)
_LADDER = Source("DJYZZ24", "Algorithm 4, FindLargeVariances", SourceStatus.CHANGED_CONSTANTS)
_UP, _DOWN = Fraction(13, 20), Fraction(3, 20)
_MOST_PAIRS = 25
HIGHEST = 40


# --- the law ------------------------------------------------------------------------------------


def group_count(parameters: Parameters) -> int:
    """Return the given number of groups, or a tenth of n_max."""
    if parameters["groups"] is not None:
        return int(parameters["groups"])
    return max(1, min(int(parameters["n_max"]) // 10, 2**20))


def depth_of(parameters: Parameters) -> int:
    """Return the given depth, or ceil(log2(d)) + 3."""
    if parameters["depth"] is not None:
        return int(parameters["depth"])
    k = 0
    while 2**k < parameters["d"]:
        k += 1
    return k + 3


def threshold_of(parameters: Parameters) -> int:
    """Return two fifths of the groups, rounded up."""
    return (2 * group_count(parameters) + 4) // 5


def scales(parameters: Parameters) -> tuple[Fraction, Fraction]:
    """Return the scales of the threshold's noise and of the queries': 2 and 4 multipliers for each
    group that changes.
    """
    scale = 2 * parameters["noise_multiplier"] * groups.moved(parameters["adjacency"])
    return scale, 2 * scale


def voting(parameters: Parameters) -> dict[str, Any]:
    """Return the parameters of ``group_votes`` for the largest variance."""
    own = {**parameters, "noise": "gaussian"}
    enough = max(10 * group_votes.threshold_of(own), 400)
    return {**own, "groups": max(1, min(enough, parameters["n_max"] // 2, 2**20))}


def top_of(votes: Outcome) -> int:
    """Return the bucket of most votes, of several the lowest, from 0 to 40; 0 if none surfaced."""
    best = min(zip((-c for c in votes[1::2]), votes[::2], strict=True), default=(0, 0))[1]
    return min(max(best, 0), HIGHEST)


def ladder_of(parameters: Parameters, prefix: Prefix) -> tuple[int, ...]:
    """Return the levels from the highest down: from the public bound's, or from one above the
    released bucket.
    """
    if parameters["largest"] is None:
        start = top_of(prefix[0]) + 1
    else:
        bound = groups.bucket(Fraction(parameters["largest"]) / Fraction(parameters["cell"]) ** 2)
        start = max(-HIGHEST, min(bound, HIGHEST))
    return tuple(start - j for j in range(depth_of(parameters)))


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the sensitivity of each stage: the number of groups that a record changes, which
    moves every answer by as much.
    """
    changed = groups.moved(parameters["adjacency"])
    by_stage = {} if parameters["delta"] is None else {"largest": changed}
    return by_stage | {f"report {i + 1}": changed for i in range(parameters["reports"])}


@states(_LADDER, Source("DR14", "Theorem 3.25, Sparse", note="with other constants"))
def law(parameters: Parameters, records: Sequence[Any]) -> TranscriptLaw:
    """Return the law of the votes, if the largest variance is released, and of report after
    report.
    """
    d = parameters["d"]
    size = Fraction(parameters["cell"])
    cells = of_each(lambda record: group_votes.cells_of(record, size), records)
    by = groups.Hash(group_count(parameters), parameters["key"])
    table = levels.table(groups.members(cells, by), d)
    skipped = 0 if parameters["delta"] is None else 1

    def stage(prefix: Prefix) -> IntegerLaw:
        here = ladder_of(parameters, prefix)
        places = [place for (place,) in prefix[skipped:]]
        hidden, _ = levels.identified(places, d, here)
        answers = levels.counts(table, d, here, tuple(hidden))
        start = min(places[-1] + 1, len(answers)) if places else 0
        threshold = threshold_of(parameters)
        return AboveThresholdLaw(answers, threshold, *scales(parameters), start, False)

    rounds = tuple((f"report {i + 1}", stage) for i in range(parameters["reports"]))
    example: Prefix = ((0,),) * (parameters["reports"] - 1)
    if not skipped:
        return TranscriptLaw(rounds, example)
    first = group_votes.law_of(voting(parameters), records, groups.kth_largest(1)).stages
    return TranscriptLaw((("largest", first[0][1]), *rounds), ((), *example))


# --- how good it is -----------------------------------------------------------------------------


@cache
def _tails(pairs: int) -> tuple[Any, Any]:
    """Return P(V >= s / 2) and P(V >= 2 s) for the estimate V of a variance s by so many normal
    pairs.
    """
    return tuple(
        mp.mpf(tail(pairs, interval(q)).mid) for q in (Fraction(pairs, 2), Fraction(2 * pairs))
    )


def shares(n: int, m: int) -> tuple[Any, Any]:
    """Return a lower bound on the probability that a group is above half of a variance, and an
    upper bound on the probability that it is above twice the variance.

    Both are by the number of the group's pairs, as the number of its records is binomial. More
    than 25 pairs are taken for 25, for the estimate is better the more pairs there are; without
    a pair a group is not above.
    """
    above, beyond, seen = mp.mpf(0), mp.mpf(0), mp.mpf(0)
    for pairs in range(_MOST_PAIRS + 1):
        share = sum(_binomial(n, m, size) for size in (2 * pairs, 2 * pairs + 1))
        share = 1 - seen if pairs == _MOST_PAIRS else share
        seen += share
        if pairs:
            above += share * _tails(pairs)[0]
            beyond += share * _tails(pairs)[1]
    return above, beyond


def _binomial(n: int, m: int, i: int) -> Any:
    return comb(n, i) * mp.power(mp.mpf(1) / m, i) * mp.power(1 - mp.mpf(1) / m, n - i)


def groups_missed(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that for some column fewer than 13/20 of the groups are
    above half of its variance, or more than 3/20 above twice it: Chernoff's bound for each.
    """
    m, missed = group_count(parameters), mp.mpf(0)
    above, beyond = shares(n, m)
    for bound, chance in ((_UP, above), (1 - _DOWN, 1 - beyond)):
        a = real(bound)
        if chance <= a:
            return mp.mpf(1)
        entropy = a * mp.log(a / chance) + (1 - a) * mp.log((1 - a) / (1 - chance))
        missed += parameters["d"] * mp.exp(-m * entropy)
    return min(missed, mp.mpf(1))


def noise_missed(parameters: Parameters) -> Any:
    """Return a bound on the probability that some |Y| + |Z| reaches m // 4 - 1: a third of it by Z
    in some round, or the rest by the Y of some answer.
    """
    margin = group_count(parameters) // 4 - 1
    if margin < 2:
        return mp.mpf(1)
    scale, own = (DiscreteLaplaceLaw(0, s) for s in scales(parameters))
    asked = parameters["d"] * depth_of(parameters)
    part = margin // 3
    missed = parameters["reports"] * scale.tail(part, real_exponential)
    return min(missed + asked * own.tail(margin - part, real_exponential), mp.mpf(1))


@states(_LADDER, Source("DR14", "Theorem 3.24, accuracy of AboveThreshold", note="all rounds"))
def error_bound(parameters: Parameters, n: int) -> Any:
    """Return a bound on the probability that, from n records of independent normal columns, a
    reported variance is not within a factor 4, or another one is not below twice ``below``.

    Proof, for a hash that is a uniform choice for each slot. Let q be the answer for a level b
    and a column of variance s, m the number of groups, T their two fifths. Unless the bound of
    ``groups_missed`` fails, s >= 2 4^b has q >= 13 m / 20 and s <= 4^b / 2 has q <= 3 m / 20,
    each m / 4 from T: groups are negatively associated, so Chernoff's bound holds. Unless
    ``noise_missed`` fails, the first are then reported where they are met, and the second are
    not. So a column reported at b has s > 4^b / 2; it was not reported at b + 1, or there is no
    such level: then s < 2 4^(b + 1): by the public bound if there is one, and else because the
    largest variance is below 2 4^(b + 1) for its released bucket b, within a factor of 4. The
    value is 2 4^b. A column that was answered at the lowest whole level b has s < 2 4^b. QED.
    """
    missed = noise_missed(parameters) + groups_missed(parameters, n)
    if parameters["delta"] is not None:
        off = group_votes.exactly_off
        missed += group_votes.failure(voting(parameters), n, lambda p: off(1, parameters["d"], p))
    return min(missed, mp.mpf(1))


allowed = group_votes.allowed


@states(Source("HT10", "packing argument", note="of one column that varies"))
def lower_bound(adjacency: Adjacency, epsilon: Fraction, d: int, beta: Fraction) -> Any:
    """Return a number of records below which no epsilon-DP mechanism names, with probability 1 -
    beta, the one of d columns that varies while the others are constant.

    Two such datasets are n replacements apart, or 2 n steps.
    """
    steps = 1 if adjacency is Adjacency.REPLACE else 2
    return mp.log((d - 1) * real((1 - beta) / beta)) / (steps * real(epsilon))


# --- obligations --------------------------------------------------------------------------------


def _model(adjacency: Adjacency, d: int, multiplier: Fraction, n_max: int) -> dict[str, Any]:
    given = {"adjacency": adjacency, "d": d, "noise_multiplier": multiplier, "n_max": n_max}
    other = {"groups": None, "depth": 2, "reports": 1, "largest": 1, "delta": None, "key": 0}
    return given | other | {"cell": Fraction(1, 2**20)}


def obligation_shares(claimed: tuple[Fraction, Fraction] = (_UP, _DOWN)) -> int:
    """Check that with at least ten records a group ``shares`` is better than ``claimed`` on either
    side, by a twelfth of each, and that both claimed shares are 1/4 away from the threshold of
    2/5.
    """
    up, down = claimed
    require(up - Fraction(2, 5) == Fraction(2, 5) - down == Fraction(1, 4), f"{claimed}")
    cases = 0
    for m, size in product((1, 7, 200), (10, 12, 30, 200)):
        if m * size < 60:  # one group has a fixed number of records
            continue
        above, beyond = shares(m * size, m)
        require(above >= real(up) * 13 / 12, f"{m}, {size}: {above}")
        require(beyond <= real(down) * mp.mpf(11) / 12, f"{m}, {size}: {beyond}")
        cases += 1
    return cases


def obligation_noise(claimed: Callable[[Parameters], Any] = noise_missed) -> int:
    """Check a case in which every answer is m // 4 - 1 from the threshold, and the last one above
    it: some answer is wrong with probability at most ``claimed``, which is at most 50 times too
    large.
    """
    cases = 0
    for adjacency, d, n_max in product(Adjacency, (1, 5), (600, 1200)):
        parameters = _model(adjacency, d, Fraction(4), n_max)
        m, asked = group_count(parameters), 2 * d
        away = m // 4 - 1
        answers = (-away,) * (asked - 1) + (away,)
        one = AboveThresholdLaw(answers, 0, *scales(parameters), 0, False)
        wrong = 1 - one.probability((asked - 1,), real_exponential)
        bound = claimed(parameters)
        case = f"{adjacency}, {d}, {n_max}: {mp.nstr(wrong, 5)}, {mp.nstr(bound, 5)}"
        require(wrong <= bound <= max(50 * wrong, mp.mpf(0)), case)
        cases += 1
    return cases


def obligation_start(claimed: Callable[[Outcome], int] = top_of) -> int:
    """Check that the levels begin above the fullest released bucket (the lowest of several), and
    always in 1..41.
    """
    cases, tables = 0, ((), (3, 50), (2, 9, 7, 30), (2, 30, 7, 30), (-1024, 70), (-5, 9, 60, 80))
    for votes, top in zip(tables, (0, 3, 7, 2, 0, 40), strict=True):
        require(claimed(votes) == top, f"{votes}: {claimed(votes)}, not {top}")
        cases += 1
    return cases


def obligation_transcripts() -> int:
    """Check that the masses of all transcripts add up to 1, and that after a report the reported
    column has public answers and the other one its data's.
    """
    parameters = _model(Adjacency.ADD_REMOVE, 2, Fraction(1, 4), 4) | {"reports": 2}
    records = ((Fraction(0), Fraction(0)), (Fraction(3), Fraction(0))) * 2
    made, cases, total = law(parameters, records), 0, Fraction(0)
    for first, second in product(range(5), repeat=2):
        mass = made.probability(((first,), (second,)), _formal)
        require(
            (mass > 0) == (first < second or first == second == 4), f"{first}, {second}: {mass}"
        )
        total, cases = total + mass, cases + 1
    require(total == 1, f"{total}")
    before: Any = made.stages[0][1](())
    for place in range(4):
        after: Any = made.stages[1][1](((place,),))
        for i, (old, new) in enumerate(zip(before.answers, after.answers, strict=True)):
            right = new == (-group_count(parameters) if i % 2 == place % 2 else old)
            require(right, f"after {place}, answer {i}: {new}")
    return cases


def _formal(exponent: Fraction) -> Fraction:
    """Return a stand-in for e^-exponent, for halves."""
    return Fraction(1, 3) ** int(exponent * 2)


def obligation_lower_bound_is_below_error() -> int:
    """Check that the number of records for which the error bound is at most beta is above the
    lower bound and at most 10^4 times it.
    """
    cases, beta = 0, Fraction(1, 20)
    for adjacency, d in product(Adjacency, (2, 100)):
        parameters = _model(adjacency, d, Fraction(1), 10**4 * (1 + groups.moved(adjacency)))
        n = 2 * parameters["n_max"]
        require(error_bound(parameters, n) <= real(beta), f"{adjacency}, {d}: {n} are too few")
        bound = lower_bound(adjacency, Fraction(1), d, beta)
        require(0 < bound <= n <= 10**5 * bound, f"{adjacency}, {d}: {bound}, {n}")
        cases += 1
    return cases
