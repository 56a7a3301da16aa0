"""Means weighted by friends: a record counts as often as it has friends beyond half of all
records.

Friends are given by any symmetric predicate that looks at two records only; every record is its
own friend, and friends are within one radius of each other. The weight of a record is 2 deg -
n, or 0. A filter (filters.py) keeps records at random; here they count with what was their
probability: no set is drawn, so nothing of its noise is left, and one noisy number bounds the
move of the mean.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from . import embeddings, graphs
from .embeddings import Sides, Weight

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
WEIGHTS = Source(
    "BHS23",
    "the stable mean: weights in place of a core",
    SourceStatus.CHANGED_CONSTANTS,
    "the idea alone; these weights, the agreement and the constants are derived here",
)
STABILITY = Source(
    "OURS", "a mean weighted by friends beyond half moves by 17/16 radii / agreement"
)

REACH: Mapping[Adjacency, Fraction] = {ADD_REMOVE: Fraction(17, 16), REPLACE: Fraction(17, 8)}
"""Largest move of the mean, in radii over the agreement less ``SLACK``."""
MOVES: Mapping[Adjacency, int] = {ADD_REMOVE: 5, REPLACE: 6}
"""Largest move of the agreement, rounded down or not."""
LEAST: Mapping[Adjacency, int] = {ADD_REMOVE: 1, REPLACE: 3}
"""Agreement of both neighbors from which on the bound on the mean's move holds."""
SLACK: Mapping[Adjacency, int] = {ADD_REMOVE: 0, REPLACE: 2}

Statistic = Callable[[int, int], Fraction]
"""The agreement, from the sum of all weights and the number of records."""


def weight(degree: int, n: int) -> int:
    """Return max(0, 2 deg - n): 0 for a record with half of the records as friends, n for one with
    all of them.
    """
    return max(0, 2 * degree - n)


def weights(degrees: Sequence[int]) -> tuple[int, ...]:
    """Return the weight of each record, by ``weight``; a degree counts the record itself."""
    return tuple(weight(degree, len(degrees)) for degree in degrees)


def exact_agreement(total: int, n: int) -> Fraction:
    """Return 2 K / n - n for n records of total weight K, and 0 for n = 0.

    It is n (1 - 4 p) if a share p of pairs, few at every record, are no friends.
    """
    return Fraction(2 * total, n) - n if n else Fraction(0)


def agreement(degrees: Sequence[int]) -> int:
    """Return ``exact_agreement`` rounded down."""
    return exact_agreement(sum(weights(degrees)), len(degrees)).__floor__()


@states(WEIGHTS)
def weighted_mean(
    rows: Sequence[Sequence[int | Fraction]], degrees: Sequence[int]
) -> tuple[Fraction, ...]:
    """Return the exact weighted mean of the rows. Some weight must be positive."""
    own = weights(degrees)
    columns = zip(*rows, strict=True)
    return tuple(
        sum((w * Fraction(x) for w, x in zip(own, column, strict=True)), Fraction(0)) / sum(own)
        for column in columns
    )


@states(STABILITY)
def moved_agreement(adjacency: Adjacency) -> int:
    """Return the largest move of the agreement, rounded down or not: 5 (add-remove) or
    6 (replace).

    Proof. Add-remove: by 2 G - 1 with -2 < G < 2 (step 3 below), so by less than 5. Replace: n
    stays, two weights k_j are in 0, ..., n and the others move by at most 2 each: K moves by at
    most 3 n - 2, the agreement by less than 6. Numbers less than 5 apart, rounded down, are at
    most 5 apart. QED. Both are attained by a clique and one record without friends.
    """
    return MOVES[adjacency]


@states(STABILITY)
def reach(adjacency: Adjacency, least: Fraction) -> Fraction:
    """Return a bound on the distance of the means of neighbors, in radii: 17/16 / S (add-remove),
    17/8 / (S - 2) (replace).

    Here S = ``least`` is the smaller of the two agreements, and at least ``LEAST``.

    17/16 is attained in the limit, by n - 1 friends and a record that n / 8 of them do not
    know.

    Proof, add-remove. Record j of n goes; a prime marks the smaller side. Among the others F
    and N are friends of j and strangers to it. u_i counts i's strangers, k_i =
    max(0, n - 2 u_i), w_i = k_i / n, W = sum w_i, m the mean, S = 2 W - n; w'_i = k'_i / n',
    h_i = 1 - w'_i, H' = sum h_i, S' = W' - H'. P = {i in F: k_i > 0}, Q = {i in N: k'_i > 0},
    e = H' / W' < 1, o = 1 / W', R = n / (2 W') = (1 + e + o) / 2; R <= 1 since S' >= 1.

    1. On P u'_i = u_i, k_i = k'_i + 1; on Q u'_i = u_i - 1, k_i = k'_i - 1; elsewhere but at j
    both are 0. So W (m - m') = w_j (x_j - m') + sum_P p_i (x_i - m') - sum_Q d_i (x_i - m'),
    p_i = h_i / n, d_i = (1 + w'_i) / n: multiply by n, add sum w'_i (x_i - m') = 0, and it is
    sum k_i (x_i - m') - sum k'_i (x_i - m').

    2. Any two records with k > 0 or k' > 0 have a common friend: u_a + u_b < n if k_a, k_b > 0,
    likewise with primes, and 2 u_a < n, 2 u_b <= n if k_a, k'_b > 0. So they are within 2,
    friends within 1. With T the cost at these prices of moving the masses of 1. to each other,
    and to or from m', which is spread over all in proportion to w': |m - m'| <= T / W. Several
    transports in a row add up.

    3. G = W - W' = w_j + E - X where E = sum p_i, X = sum d_i < 2, and S - S' = 2 G - 1.
    W / min(S, S') is at least (W' + 1/2) / S': for G >= 1/2 the minimum is S'; below,
    (W' + G) / (S' + 2 G - 1) falls in G. It is left to show T <= 17/16 (1 + o / 2) / (1 - e).
    (*)

    4. To spread the masses of P costs E + z, z = sum_P p_i sum_{k no friend of i} w'_k / W' <=
    e / 4. For u'_i = n' h_i / 2 where k'_i > 0, and on P. So z <= sum h_i^2 / (2 W'); and,
    summing over i first with h_i <= 1, z <= sum h_k w'_k / (2 W'). The average of both is
    H' / (4 W').

    5. Let v = |Q|, t = 2 v / n, h = sum_Q h_i, a = h / n, c = h / W', b = sum_Q w'_i / W' =
    (v - h) / W'. Then X = t - a, b <= X R, c = 2 R a, E + a <= q = H' / n <= e / (1 + e), q
    R = e / 2, w_j <= max(0, 1 - t). To spread x_j costs 1 + b. The mass that Q lacks is served
    by x_j at 2, by the w' of all at 1, plus 1 for strangers: these add at most sum_Q d_i
    u'_i / W' <= c, as d_i u'_i <= h_i.

    6. w_j >= X >= E: P serves Q in proportion to d, at E + min(E, a / X) by the same sum; x_j
    serves the rest and spreads the remainder. The minimum is at most (E + a) / (1 + X).
    T <= w_j (1 + b) + X (1 - b) + E b + q / (1 + X) <= 1 + b (1 - 2 X + q) - a - 2 a b +
    q / (1 + X). If the bracket is negative T <= 1 + e. Else T <= 1 + X R (1 - 2 X) + X e / 2 +
    e / (1 + X) = 1 + X (1 - 2 X) (1 + o) / 2 + e (X - X^2 + 1 / (1 + X)), so T <= 17/16 +
    o / 16 + e, by X (1 - 2 X) <= 1/8 and (X - X^2) (1 + X) <= X. (*) holds.

    7. w_j >= X, E > X: x_j serves Q. T <= w_j (1 + b) + X (1 - b) + E + z <= 1 + b - a + q - a
    + e / 4, and b <= X R <= q R: T <= 1 + 3 e / 4 + e / (1 + e). (*) holds as 1 - 11 e + 32 e^2
    + 12 e^3 > 0.

    8. w_j < X, t <= 1: x_j and w' serve Q, P spreads. T <= w_j + X + c + E + z <= 1 - a + c +
    q - a + e / 4, and c - 2 a = (2 R - 2) a <= 0: T <= 1 + 5 e / 4. (*) holds as 1 - 4 e +
    20 e^2 > 0.

    9. t > 1: w_j = 0 and m' serves Q, which holds b of it itself. If n X <= 2 W', every
    d_i >= X w'_i / W' and X (1 - b) is left at 2; b = t R - c >= t (1 + e) / 2 - c and X <= t,
    so 2 X (1 - b) <= (1 + c)^2 / (1 + e), the largest over t; with E <= q - a <=
    (e - c) / (1 + e) and c <= e, T <= 1 + 5 e / 4: convex in c, so largest at 0 or e. If n
    X > 2 W', d_i - X w'_i / W' <= h_i / n, at most a is left: T <= 2 a + E + z <= 2 q + e / 4,
    and T <= 1 + e / 4 since q <= 1/2. QED

    Replace: by way of the smaller dataset, twice add-remove. Its agreement is above S - 3 >= 0,
    so W' > n' / 2, E <= H' / n < 1/2, G < 3/2: it is at least S - 2 >= 1. QED
    """
    return REACH[adjacency] / (least - SLACK[adjacency])


# --- obligations --------------------------------------------------------------------------------

_SEED = 20261121


def small(adjacency: Adjacency, most: int = 5) -> Iterator[Sides]:
    """Yield every graph of at most so many records, the last one removed or replaced."""
    for n in range(1, most + 1):
        yield from map(embeddings.sides_of, graphs.pairs(adjacency, n, loops=(-1,)))


def larger(adjacency: Adjacency, count: int = 60) -> Iterator[Sides]:
    """Yield a clique and one record that knows all, some or none of it; and random block graphs of
    3 or 4 blocks.
    """
    for n in (20, 41, 200, 2000):
        for strangers in (0, n // 8, n // 4):
            yield embeddings.strangers_of_one(adjacency, n, strangers)
        for blocks in (3, 4):
            yield from embeddings.random_blocks(adjacency, _SEED + n, n, blocks, count)
        yield lonely(adjacency, n)


def lonely(adjacency: Adjacency, n: int) -> Sides:
    """Return a clique, and a record without friends that is removed, or replaces one of the
    clique.
    """
    if adjacency is ADD_REMOVE:
        return Sides((1, 2), (n - 1, 1), (n - 1, 0))
    return Sides((3, 3, 4), (n - 1, 1, 0), (n - 1, 0, 1))


def agreements(
    sides: Sides, own: Weight = weight, statistic: Statistic = exact_agreement
) -> tuple[Fraction, Fraction]:
    """Return the agreements of the two sides."""
    totals = (
        sum(w * m for w, m in zip(sides.weights(sizes, own), sizes, strict=True))
        for sizes in (sides.left, sides.right)
    )
    left, right = (
        statistic(total, sum(sizes))
        for total, sizes in zip(totals, (sides.left, sides.right), strict=True)
    )
    return left, right
