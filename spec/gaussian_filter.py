"""Spec of ``gaussian_filter``: a record is kept if 2 deg - n plus Gaussian noise is above a
threshold.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from itertools import product
from typing import Any

from dpverify.privacy import (
    Adjacency,
    Assumed,
    AssumedAbsent,
    Friendly,
    Norm,
    Relation,
    Seen,
    Sensitivity,
    Side,
    Source,
    shows,
    states,
)

from .theory import graphs
from .theory.filtered_means import THEOREM
from .theory.filters import (
    GAUSSIAN,
    Friends,
    Record,
    gaussian_probabilities,
    kept_sets,
    noise_scale,
    threshold,
)
from .theory.laws import Exponential, real_exponential
from .theory.obligations import Departure, require

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
DEPARTURES = (
    Departure(
        "TCKMS22, Section 4, the zCDP filter",
        "the noise is rounded, and the threshold is read off its tail at a given probability",
        "no float noise; 2 deg - n is an integer, and rounding only makes the bad events rarer",
    ),
    Departure(
        "TCKMS22, Section 4, the zCDP filter",
        "the claim is about the filter and the noisy number and mean after it, as approximate "
        "Gaussian DP; under add-remove the noise and the threshold come from a noisy number of "
        "records",
        "the number of records is private; one mu serves every epsilon, and unlikely kept "
        "records add their probability to delta once, without a factor e^epsilon",
    ),
)
SCORES = Source("OURS", "scores of friends and strangers, for records inside and outside")


@states(GAUSSIAN)
def law(
    records: Sequence[Record],
    are_friends: Friends[Record],
    *,
    adjacency: Adjacency,
    size: int,
    mu: Fraction,
    rare: Fraction,
    e: Exponential = real_exponential,
) -> dict[tuple[int, ...], Any]:
    """Return the probability of every set that may be kept, as increasing positions.

    ``size``: the released number of records, at least 1 (add-remove), or their number
    (replace).
    """
    scale = noise_scale(adjacency, size, mu)
    least = threshold(adjacency, size, scale, rare)
    chances = gaussian_probabilities(records, are_friends, scale=scale, threshold=least, e=e)
    return dict(kept_sets(chances))


# --- obligations --------------------------------------------------------------------------------

STEPS: Mapping[Adjacency, frozenset[int]] = {
    ADD_REMOVE: frozenset((-1, 1)),
    REPLACE: frozenset((-2, 0, 2)),
}
"""Moves of 2 deg - n for a record that both neighbors have."""


@states(THEOREM)
def obligation_margins(claimed: Mapping[Adjacency, frozenset[int]] = STEPS) -> int:
    """Check on every graph of at most 5 records that the margins move by these steps and no
    others, and that the noise scale is at least their L2 sensitivity over mu, and within 2^-30
    of it for some graph.
    """
    cases = 0
    for adjacency, n in product(reversed(Adjacency), range(2, 6)):
        all_steps, largest = set(), 0
        for pair in graphs.pairs(adjacency, n):
            before, after = (
                [graphs.margin(pair.rows, i, side) for i in graphs.members(pair.both)]
                for side in (pair.left, pair.right)
            )
            steps = [a - b for a, b in zip(after, before, strict=True)]
            all_steps |= {*steps}
            largest = max(largest, sum(step**2 for step in steps))
            cases += 1
        case = f"{adjacency}, n = {n}: steps {sorted(all_steps)}, squares {largest}"
        require(all_steps == claimed[adjacency], case)
        size = n - 1 if adjacency is ADD_REMOVE else n
        square = noise_scale(adjacency, size, Fraction(3, 7)) ** 2 * Fraction(9, 49)
        require(largest <= square <= largest * (1 + Fraction(1, 2**30)), case)
    return cases


@states(THEOREM)
def obligation_friendly(claimed: int = 2) -> int:
    """Check on every graph of at most 5 records that those with margin above 0 are friendly, and
    that two records that replace each other have a common friend among the others if both
    margins are at least ``claimed``.

    One of margin 1 each would not suffice: for odd n their friends can be two halves without a
    common one.
    """
    cases = 0
    for adjacency, n in product(Adjacency, range(1, 6)):
        for pair in graphs.pairs(adjacency, n):
            for side in (pair.left, pair.right):
                high = sum(
                    1 << i for i in graphs.members(side) if graphs.margin(pair.rows, i, side) > 0
                )
                require(graphs.are_friendly(pair.rows, high, side), f"{pair}: not friendly")
            if adjacency is REPLACE:
                both = [
                    (pair.rows[i], graphs.margin(pair.rows, i, side))
                    for i, side in graphs.replaced(pair)
                ]
                common = both[0][0] & both[1][0] & pair.both
                far = min(margin for _, margin in both) >= claimed and not common
                require(not far, f"{pair}: margins {[m for _, m in both]} without a common friend")
            cases += 1
    return cases


# --- scores for any share of strangers ----------------------------------------------------------

Weights = tuple[int, int]
"""Weights (p, q): a score is p friends - (q - p) strangers = q deg - (q - p) n, p / q <= 1/2; it
is positive for fewer than p n / q strangers. The margin 2 deg - n is that of (1, 2).
"""
_WEIGHTS: tuple[Weights, ...] = ((1, 2), (1, 3), (2, 5), (1, 5))


@states(SCORES)
def moved_scores(adjacency: Adjacency, inside: bool, n: int, weights: Weights) -> int:
    """Return the squared L2 distance by which the scores of the others move, n records on the
    larger side.

    Add-remove: a friend's falls by p, a stranger's rises by q - p >= p. ``inside``: the record
    that goes has a positive score, so fewer than p n / q strangers: at most
    (q - p) n / q p^2 + p n / q (q - p)^2 = p (q - p) n. Replace: each by q or not at all.
    """
    p, q = weights
    if adjacency is REPLACE:
        return q * q * n
    return (p if inside else q - p) * (q - p) * n


@states(SCORES)
def score_margin(adjacency: Adjacency, weights: Weights) -> int:
    """Return the largest score, on both sides, of a record that is not friendly on some side
    (add-remove: the larger score), or of a replaced record without a friend in common: q - p,
    or q.

    Two records with fewer than p n / q <= n / 2 strangers each have a common friend. A score of
    at most 0 on one side is at most q - p on the other: that much is added by a stranger that
    goes, and q by one that becomes a friend. Scores above q of the old and the new record are
    of more than n / 2 friends each among the n - 1 others: some of them are the same.
    """
    p, q = weights
    return q - p if adjacency is ADD_REMOVE else q


def _cases(adjacency: Adjacency) -> Iterator[tuple[graphs.Pair, int, Weights]]:
    """Yield small graphs with weights; five records with weights of fifths only, whose scores can
    be 0 there.
    """
    for n in range(1, 6):
        for pair in graphs.pairs(adjacency, n, loops=(-1,)):
            for weights in (w for w in _WEIGHTS if n < 5 or w[1] == 5):
                yield pair, n, weights


def _scores(pair: graphs.Pair, weights: Weights) -> list[dict[int, int]]:
    """Return the scores of all records, on each side."""
    p, q = weights
    return [
        {
            i: q * graphs.degree(pair.rows, i, side) - (q - p) * side.bit_count()
            for i in graphs.members(side)
        }
        for side in (pair.left, pair.right)
    ]


def _weights(statement: Sensitivity) -> Weights | None:
    """Return (p, q) of a statement; None if p / q is not in (0, 1/2]."""
    given: Any = statement.query
    p, q = given["p"], given["q"]
    return (p, q) if 0 < 2 * p <= q else None


def _stated_scores(statement: Sensitivity) -> int | None:
    given: Any = statement.query
    near: Any = statement.adjacency
    weights = _weights(statement)
    return weights and moved_scores(near, given["inside"], given["records"], weights)


def _stated_margin(statement: Sensitivity) -> int | None:
    near: Any = statement.adjacency
    weights = _weights(statement)
    return weights and score_margin(near, weights)


def _under(statement: Sensitivity) -> tuple[Assumed | AssumedAbsent, ...]:
    """Return the assumptions: so many records at most; for ``inside``, that no record with too few
    friends is kept.
    """
    known, all_of_them = (
        (Relation.AT_LEAST, Side.LARGER, "Count"),
        (("some", False), ("within", None)),
    )
    few = Assumed(*known, fixed=all_of_them, bounds="records")
    return (
        (few, AssumedAbsent(Seen.LATENT, ("p", "q", "records")))
        if statement.query["inside"]
        else (few,)
    )


def _friends(statement: Sensitivity) -> Friendly | None:
    """Return the friendly premise for records of positive score on both sides: friends, and under
    replace the old record and the new one too.
    """
    if not isinstance(statement.keeps, Friendly):
        return None
    exchange = statement.adjacency is REPLACE
    return Friendly(statement.keeps.predicate, exchange=exchange)


def _kept(statement: Sensitivity) -> Friendly | None:
    """Return ``_friends``, with fewer than p n / q strangers each under add-remove; for a record
    outside None.
    """
    given: Any = statement.query
    friends = _friends(statement)
    if friends is None or not given["inside"]:
        return None
    strangers = (given["p"] * given["records"] - 1) // given["q"]
    return friends if friends.exchange else Friendly(friends.predicate, strangers)


@states(SCORES)
@shows("Scores", Norm.SQUARED_L2, value=_stated_scores, under=_under, keeps=_kept)
def obligation_scores(
    claimed: Callable[[Adjacency, bool, int, Weights], int] = moved_scores,
) -> int:
    """Check on every graph of at most 5 records that the scores move by at most ``claimed``, and
    by (n - 1) / n of it for some (add-remove: outside); ``obligation_missed`` shows which of
    them are friends that may be kept.
    """
    cases = 0
    for adjacency in reversed(Adjacency):  # first the one with fewer graphs
        largest: dict[tuple[bool, int, Weights], int] = {}
        for pair, n, weights in _cases(adjacency):
            left, right = _scores(pair, weights)
            distance = sum((left[i] - right[i]) ** 2 for i in graphs.members(pair.both))
            inside = any(left[i] > 0 for i in graphs.members(pair.left & ~pair.both))
            key = inside, n, weights
            largest[key] = max(largest.get(key, 0), distance)
            cases += 1
        for (inside, n, weights), distance in largest.items():
            most = claimed(adjacency, inside, n, weights)
            case = f"{adjacency}, {inside}, {n}, {weights}: {distance}, claimed {most}"
            require(distance <= most, f"scores move too far: {case}")
            if not (adjacency is ADD_REMOVE and inside):
                require(distance * n == most * (n - 1), f"not (n - 1) / n of it: {case}")
    return cases + obligation_missed()


@states(SCORES)
@shows("FewFriends", Norm.L_INFINITY, value=_stated_margin, keeps=_friends)
def obligation_missed(
    claimed: Callable[[Adjacency, Weights], int] = score_margin,
) -> int:
    """Check on every graph of at most 5 records that those with scores above 0 are friendly and
    have fewer than p n / q strangers each.

    No other score on either side is above ``claimed``, and two records that replace each other
    with scores above it have a common friend. Some score is as large.
    """
    cases = 0
    for adjacency in reversed(Adjacency):  # first the one with fewer graphs
        largest: dict[Weights, int] = {}
        for pair, n, weights in _cases(adjacency):
            sides, most = _scores(pair, weights), claimed(adjacency, weights)
            for side, scores in zip((pair.left, pair.right), sides, strict=True):
                _require_friends(pair.rows, side, scores, weights)
            highest = _highest(pair, n, sides)
            if highest is not None:
                largest[weights] = max(highest, largest.get(weights, 0))
                require(highest <= most, f"{pair}, {weights}: {highest} > {most}, not friendly")
            if adjacency is REPLACE:
                old, new = (i for i, _ in graphs.replaced(pair))
                common = pair.rows[old] & pair.rows[new] & pair.both
                far = min(sides[0][old], sides[1][new]) > most and not common
                require(not far, f"{pair}, {weights}: replaced, without a common friend")
            cases += 1
        for weights, high in largest.items():
            most = claimed(adjacency, weights)
            require(high == most, f"{adjacency}, {weights}: at most {high}, claimed {most}")
    return cases


def _highest(pair: graphs.Pair, n: int, sides: Sequence[Mapping[int, int]]) -> int | None:
    """Return the highest score on either side of a record whose score is not above 0 on a side of n
    records.
    """
    low = [s for s, x in zip(sides, (pair.left, pair.right), strict=True) if x.bit_count() == n]
    scores = (
        max(scores[i] for scores in sides)
        for i in graphs.members(pair.both)
        if min(scores[i] for scores in low) <= 0
    )
    return max(scores, default=None)


def _require_friends(
    rows: graphs.Rows, side: int, scores: dict[int, int], weights: Weights
) -> None:
    high = [i for i, score in scores.items() if score > 0]
    kept = sum(1 << i for i in high)
    require(graphs.are_friendly(rows, kept, side), f"{rows}, {side}, {weights}: not friendly")
    n, (p, q) = side.bit_count(), weights
    for i in high:
        strangers = n - graphs.degree(rows, i, side)
        require(strangers <= (p * n - 1) // q, f"{rows}, {side}, {weights}: {strangers} strangers")
