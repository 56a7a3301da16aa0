"""Soft core: a record counts fully from a public share of friends on, and not at all with at most
half of them.

As in weights.py, friends are given by any symmetric predicate, and are within one radius. The
weight rises from 0 at (n + 1) / 2 friends to 1 at ``full`` n more than half of a friend beyond:
where a share gamma of the records are outliers and full <= 1 - gamma, inliers count in full, so
little is lost. For replace alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from math import ceil

from dpverify.privacy import Adjacency, Source, SourceStatus, states

from . import embeddings, graphs
from .caches import cache
from .embeddings import Sides, Weight
from .obligations import require

REPLACE = Adjacency.REPLACE
SOFT = Source(
    "TCKMS22",
    "FriendlyCore: records without a majority of friends do not count",
    SourceStatus.CHANGED_CONSTANTS,
    "the idea alone; the weights, the agreement and the constants are derived here",
)
STABILITY = Source(
    "OURS", "a soft core's mean moves by (1 + (3/2 - b)^2 / 4) / (b - 1/2) radii / S"
)
FULL = tuple(map(Fraction, ("1", "9/10", "5/6", "3/4", "2/3", "3/5")))
"""Shares of friends from which on a record counts in full that obligations look at."""


def weight(full: Fraction) -> Weight:
    """Return the map from a degree (including the record itself) and n to clip(q
    (2 degree - n - 1), 0, (2 p - q) n), full = p / q.
    """
    p, q = full.numerator, full.denominator
    return lambda degree, n: min(max(0, q * (2 * degree - n - 1)), (2 * p - q) * n)


def weights(degrees: Sequence[int], full: Fraction) -> tuple[int, ...]:
    """Return the integer weight of each record, by ``weight``."""
    own = weight(full)
    return tuple(own(degree, len(degrees)) for degree in degrees)


def number(total: int, n: int, full: Fraction) -> Fraction:
    """Return N, the sum of weights where a record that counts in full has 1; 0 for an empty
    dataset.
    """
    return Fraction(total, (2 * full.numerator - full.denominator) * n) if n else Fraction(0)


def exact_agreement(total: int, n: int, full: Fraction) -> Fraction:
    """Return S = 2 N - n: n where all count in full, n (1 - 2 gamma) where a share gamma does not
    count.
    """
    return 2 * number(total, n, full) - n


def agreement(degrees: Sequence[int], full: Fraction) -> int:
    """Return ``exact_agreement`` rounded down."""
    return exact_agreement(sum(weights(degrees, full)), len(degrees), full).__floor__()


@states(STABILITY)
def moves(full: Fraction) -> int:
    """Return the largest move of the agreement, rounded down or not, when a record is replaced.

    Two weights move by at most 1 in total, and n - 1 weights by 2 / ((2 b - 1) n) each: S moves
    by less than 2 + 4 / (2 b - 1). Numbers less than M apart, rounded down, are at most ceil(M)
    apart.
    """
    return ceil(2 + 4 / (2 * full - 1))


@states(STABILITY)
def reach(full: Fraction, least: Fraction) -> Fraction:
    """Return a bound on the distance of the means of neighbors, in radii: (1 +
    (3/2 - b)^2 / 4) / (b - 1/2) / least for b = ``full``, 1/2 < b <= 1.

    Here ``least`` > 0 is the smaller agreement.

    Proof. k is replaced by k'; I are the n - 1 others; a prime marks the side of smaller N, so
    N' <= N and S' = ``least``. A = (n + 1) / 2, D = (b - 1/2) n, B = A + D: w = (c - A) / D
    between 0 and 1, c the degree. h_i = 1 - w'_i, H = n - N' = sum h_i < n / 2. m' is the mean
    there, distances are in radii.

    1. N (m - m') = sum_I (w_i - w'_i) (x_i - m') + w_k (x_k - m') - w'_k' (x_k' - m'), as N'
    (m' - m') = 0. On I w_i - w'_i is in [0, 1 / D] if i knows k only, in [-1 / D, 0] if it
    knows k' only, else 0.

    2. Two records with weight, each on either side, have a common friend: c > A each, so at
    least c - 1 > (n - 1) / 2 friends of each are in I. So they are within 2, friends within 1.

    3. The norm of 1. is convex in each w_i - w'_i; take each to an end of its interval. U are
    those at 1 / D, V those at -1 / D, u and v their numbers, H_U and H_V their sums of h. Over
    U, sum (x_i - x_j) over i, j in U being 0, N' sum_U (x_i - m') = sum_(i in U, j not in U)
    w'_j (x_i - x_j) - sum_(i, j in U) h_j (x_i - x_j). The weights add up to u
    (N' - u + 2 H_U); strangers add 1 once more, at most n - c'_i for each i. That is n - B + D
    h_i where w'_i > 0, and 1/2 more at most where w'_i = 0 < w_i. So U costs (in 1 / (D N')) u
    (N' - u + n - B + 2 H_U) + (D + 1/2) H_U, and V likewise.

    4. k' has f' = n - c'_k' strangers in I, all of U among them, and |x_k' - m'| <= 1 +
    f' / N'; k has f >= v in I, and k' may be one more: 1 + (f + 1) / N'. w'_k' =
    (n - A - f') / D between 0 and 1. N' > n / 2 > n - A, so w'_k' (N' + f') rises up to
    f' = n - B and falls beyond: it is at most its value at max(u, n - B).

    5. For u <= n - A: N' times D times U and k' together is at most N' (n - A) +
    (q + 2 H_U)^2 / 8 + (D + 1/2) H_U, q = 2 n - A - B = n - 1 - D. For u >= n - B it is N'
    (n - A) + u (q + 2 H_U) - 2 u^2 + (D + 1/2) H_U; below, it rises in u.

    6. u, v <= n - A: N' N D |m - m'| <= 2 N' (n - A) + ((q + 2 H_U)^2 + (q + 2 H_V)^2) / 8 +
    (D + 1/2) H + D, and with H_U + H_V <= H at most n^2 + (n - D)^2 / 4 - (n - D - H)
    (1 + H / 2), where the last term is not negative.

    7. u > n - A: then w'_k' = 0, and v < n - A as u + v <= n - 1. U costs at most
    (N' + n - B + 2 H_U)^2 / 4 + (D + 1/2) H_U. In units of n and with y = H / n, N' / n = 1 -
    y, the sum with 5. for V is convex in H_U, so largest at 0 or H; up to terms of order 1 / n
    it is at most (2 - b + y)^2 / 4 + (1 - y) / 2 + (3/2 - b)^2 / 8 + (b - 1/2) y at H (at 0 it
    is less by y (5/4 - b / 2 - y / 2)). From 1 + (3/2 - b)^2 / 4 it is away by at least -7/32 +
    5 b / 8 - b^2 / 8 - b y / 2 - y^2 / 4, and (*) adds y^2 / (1 - 2 y) >= y^2: in all at least
    -7/32 + 5 b / 8 - 5 b^2 / 24 >= 1/24. The terms of order 1 / n are -u / 2 - N' / 2 + H / 2 +
    D + (less than 0), at most (b - 3/4) n + 1/4, less than that times n^2 for n >= 2.
    (n = 1 has no weight.)

    8. So N' N |m - m'| <= (1 + (3/2 - b)^2 / 4) / (b - 1/2) N'^2 / S', as N'^2 / S' = n +
    H^2 / S' >= n,    (*) and N' <= N. QED
    """
    return (1 + (Fraction(3, 2) - full) ** 2 / 4) / (full - Fraction(1, 2)) / least


# --- the proof, step by step --------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """Numbers of a pair, as in the proof, for one of k and k': movers, the sum of their h, and
    strangers.
    """

    movers: int
    lost: Fraction
    strangers: int
    own: Fraction
    extra: int


def terms(sides: Sides, full: Fraction) -> tuple[int, Fraction, tuple[Terms, Terms]]:
    """Return n, N' and the terms of k' and of k; vertices are blocks, the last two are k and k' in
    either order.
    """
    own, n = weight(full), sum(sides.left)
    both = [sides.weights(sizes, own) for sizes in (sides.left, sides.right)]
    totals = [
        number(sum(w * m for w, m in zip(ws, sizes, strict=True)), n, full)
        for ws, sizes in zip(both, (sides.left, sides.right), strict=True)
    ]
    small = int(totals[1] <= totals[0])
    before, after = both[1 - small], both[small]
    sizes = (sides.left, sides.right)[small]
    k, new = (sides.others, sides.others + 1) if small else (sides.others + 1, sides.others)
    top = (2 * full.numerator - full.denominator) * n

    def part(vertex: int, other: int, ws: Sequence[int], extra: int) -> Terms:
        only = [
            i
            for i in range(sides.others)
            if sides.rows[i] >> other & 1
            and not sides.rows[i] >> vertex & 1
            and before[i] != after[i]
        ]
        strangers = sum(sizes[i] for i in range(sides.others) if not sides.rows[i] >> vertex & 1)
        lost = sum((sizes[i] * (1 - Fraction(after[i], top)) for i in only), Fraction(0))
        movers = sum(sizes[i] for i in only)
        return Terms(
            movers=movers,
            lost=lost,
            strangers=strangers,
            own=Fraction(ws[vertex], top),
            extra=extra,
        )

    return n, totals[small], (part(new, k, after, 0), part(k, new, before, 1))


def cost(n: int, least: Fraction, one: Terms, full: Fraction) -> Fraction:
    """Return N' D times the cost of U and k', or of V and k, by steps 3 and 4."""
    rise = (full - Fraction(1, 2)) * n
    beyond = Fraction(n - 1, 2) - rise
    moved = (
        one.movers * (least - one.movers + beyond + 2 * one.lost)
        + (rise + Fraction(1, 2)) * one.lost
    )
    return moved + rise * one.own * (least + one.strangers + one.extra)


# --- obligations --------------------------------------------------------------------------------

_SEED = 20261122


def small(most: int = 4) -> Iterator[Sides]:
    """Yield every graph of at most so many records and one more, with every replacement."""
    for n in range(1, most + 1):
        yield from map(embeddings.sides_of, graphs.pairs(REPLACE, n, loops=(-1,)))


def larger(full: Fraction, count: int = 25) -> Iterator[Sides]:
    """Yield crafted graphs near the bound, cliques that lose a record, and random blocks."""
    for n in (20, 41, 200, 2000):
        yield from crafted(n, full)
        for blocks in (3, 4):
            yield from embeddings.random_blocks(REPLACE, _SEED + n, n, blocks, count)


def crafted(n: int, full: Fraction) -> Iterator[Sides]:
    """Yield two blocks that do not know each other, of which one knows k and the other k', and a
    rest that knows all.
    """
    for s in sorted({n // 8, ceil((1 - full) * n), n // 4}):
        rest = n - 1 - 2 * s
        if s and rest > 0:
            rows = (0b11111, 0b01011, 0b10101, 0b01011, 0b10101)
            yield Sides(rows, (rest, s, s, 1, 0), (rest, s, s, 0, 1))


def parties(n: int, full: Fraction) -> Sides:
    """Return groups whose members know all records but each other, so large that no record counts
    quite in full; one who knows all is replaced by one who knows nobody.
    """
    groups = max(2, (n - 1) // (n - ceil(full * n) + 2))
    sizes = [(n - 1) // groups + (i < (n - 1) % groups) for i in range(groups)]
    others, k = (1 << groups) - 1, 1 << groups
    rows = [others & ~(1 << i) | k for i in range(groups)]
    return Sides((*rows, others | k, k << 1), (*sizes, 1, 0), (*sizes, 0, 1))


def agreements(
    sides: Sides, full: Fraction, weigh: Callable[[Fraction], Weight] = weight
) -> tuple[Fraction, Fraction]:
    """Return the agreements of the two sides, not rounded."""
    own, n = weigh(full), sum(sides.left)
    left, right = (
        exact_agreement(
            sum(w * m for w, m in zip(sides.weights(sizes, own), sizes, strict=True)), n, full
        )
        for sizes in (sides.left, sides.right)
    )
    return left, right


def climbed(full: Fraction, n: int, steps: int, seed: int) -> Iterator[Sides]:
    """Yield blocks whose friends and sizes change at random, kept where the mean moves further
    relative to its reach.
    """
    rng = random.Random(seed)
    best, sides = Fraction(-1), next(embeddings.random_blocks(REPLACE, seed, n, 4, 1))
    for _ in range(steps):
        tried = mutated(rng, sides)
        least = min(agreements(tried, full))
        if least <= 0:
            continue
        yield tried
        share = embeddings.mean_moves(tried, weight(full)) / reach(full, least)
        if share >= best:
            best, sides = share, tried


def mutated(rng: random.Random, sides: Sides) -> Sides:
    """Return the sides after one pair of blocks changes friendship, or one block gives records to
    another.
    """
    rows, sizes, others = list(sides.rows), list(sides.left[: sides.others]), sides.others
    if rng.random() < 0.5:
        i, j = rng.randrange(len(rows)), rng.randrange(others)
        rows[i] ^= 1 << j
        if i != j:
            rows[j] ^= 1 << i
    else:
        i, j = rng.sample(range(others), 2)
        given = rng.randint(0, sizes[i] - 1)
        sizes[i], sizes[j] = sizes[i] - given, sizes[j] + given
    return Sides(tuple(rows), (*sizes, *sides.left[others:]), (*sizes, *sides.right[others:]))


@states(STABILITY)
def obligation_steps(
    claimed: Callable[[int, Fraction, Terms, Fraction], Fraction] = cost,
) -> int:
    """Check on graphs that N' N D |m - m'|, exactly the largest possible, is at most the costs of
    both sides (steps 1 to 4), and that these are at most the theorem's bound (steps 5 to 8).
    Both are near for some.
    """
    cases, nearest = 0, Fraction(0)
    for full in FULL:
        for sides in (*small(3), *larger(full, 10)):
            left = agreements(sides, full)
            if min(left) <= 0:
                continue
            n, least, both = terms(sides, full)
            stated = sum((claimed(n, least, one, full) for one in both), Fraction(0))
            more = max(left) / 2 + Fraction(n, 2)
            rise = (full - Fraction(1, 2)) * n
            move = embeddings.mean_moves(sides, weight(full)) * least * more * rise
            bound = reach(full, min(left)) * least**2 * rise
            case = f"{sides}, full = {full}: {[float(x) for x in (move, stated, bound)]}"
            require(move <= stated <= bound, case)
            nearest = max(nearest, move / stated if stated else nearest)
            cases += 1
    require(nearest >= Fraction(9, 10), f"at most {float(nearest)} of the costs")
    return cases


@states(STABILITY)
def obligation_target(claimed: Callable[[Fraction, Fraction], Fraction] = reach) -> int:
    """Check for n <= 16 that all costs are at most the theorem's bound, and near it for some
    (steps 5 to 8).

    All numbers of movers and strangers, and all amounts that are lost among the movers, are
    tried.
    """
    cases, worst = 0, cache(_worst)
    for full in FULL:
        nearest = Fraction(0)
        for n, part in product((2, 3, 5, 9, 16), (0, 1, 3, 7)):
            gone, rise = Fraction(part * n, 16), (full - Fraction(1, 2)) * n
            most = claimed(full, n - 2 * gone) * (n - gone) ** 2 * rise
            for sides in _sides(n, gone):
                costs = (worst(n, n - gone, *side, full) for side in sides)
                total = sum(costs, Fraction(0))
                require(total <= most, f"n = {n}, full = {full}, {sides}: {total} > {most}")
                nearest = max(nearest, total / most)
                cases += 1
        attained = full < Fraction(5, 6) or nearest >= Fraction(9, 10)
        require(attained, f"full = {full}: at most {float(nearest)}")
    return cases


def _sides(n: int, gone: Fraction) -> Iterator[tuple[tuple[int, Fraction, int], ...]]:
    """Yield movers, what is lost among them, and extra records, of the left and the right side."""
    for u in range(n):
        for v in {0, (n - u) // 4, (n - u) // 2, n - 1 - u} & set(range(n - u)):
            for mine in (Fraction(0), min(gone, Fraction(u))):
                yield (u, mine, 0), (v, min(gone - mine, Fraction(v)), 1)


def _worst(
    n: int, least: Fraction, movers: int, lost: Fraction, extra: int, full: Fraction
) -> Fraction:
    """Return the largest ``cost`` over the number of strangers, which is at least that of the
    movers.
    """
    rise = (full - Fraction(1, 2)) * n

    def one(strangers: int) -> Fraction:
        own = min(max((Fraction(n - 1, 2) - strangers) / rise, Fraction(0)), Fraction(1))
        given = Terms(movers=movers, lost=lost, strangers=strangers, own=own, extra=extra)
        return cost(n, least, given, full)

    return max(one(strangers) for strangers in range(movers, n))
