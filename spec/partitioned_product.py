"""Spec of ``partitioned_product``: noisy sums of bits of disjoint blocks, each with weights that
earlier blocks decide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from functools import partial
from itertools import product
from typing import Any

import mpmath as mp

from dpverify.privacy import Adjacency, Source, states

from . import product_distribution
from .theory import orthants, shrinking, vectors
from .theory.caches import cache
from .theory.gaussian_laws import UNIT, RoundedGaussianLaw, one_unit
from .theory.laws import IntegerLaw, Outcome, PointLaw, TranscriptLaw, real
from .theory.obligations import Departure, neighbors, require

Parameters = Mapping[str, Any]
Record = Fraction | tuple[Fraction, ...]
RADIUS = 1 << 20
DEPARTURES = (
    Departure(
        "KLSU19, sensitivity of clipped means",
        "sqrt(2) radii in place of two",
        "after bits are turned so that ones are rare, all records are vectors of one orthant",
    ),
    Departure(
        "KLSU19, probabilities of at most 1/2",
        "a block of its own tells which bits are turned",
        "the estimator is for all product distributions; and then it is private at the price of "
        "one block",
    ),
)
_ROUNDS = Source("KLSU19", "private product distribution estimator", note="rounds on blocks")
_CHAINED = Source("M09", "parallel composition", note="each block after the earlier ones")


def rounds(parameters: Parameters) -> int:
    """Return log2(d / 2), rounded up; at least 1."""
    r = 1
    while 2 ** (r + 1) < parameters["d"]:
        r += 1
    return r


def blocks(parameters: Parameters) -> int:
    """Return the number of blocks: one to turn bits by, one a round, and the last."""
    return rounds(parameters) + 2


def block_of(parameters: Parameters, records: Sequence[Any], k: int) -> Sequence[Any]:
    """Return the records of block k: every so many from the k-th on."""
    return records[k :: blocks(parameters)]


def size(parameters: Parameters, k: int, n: int) -> int:
    """Return the number of records in block k."""
    return len(range(k, n, blocks(parameters)))


def scale(parameters: Parameters) -> Fraction:
    """Return the noise of a sum: sqrt(2) radii times the multiplier, the root rounded up to
    2^-40.
    """
    root = shrinking.root_up(Fraction(2))
    return Fraction(parameters["noise_multiplier"]) * root * RADIUS


def at_least(parameters: Parameters) -> int:
    """Return the least number of records: one a block; by default four times the noise of half a
    sum of signs in each.
    """
    count = blocks(parameters)
    if parameters["at_least"] is not None:
        return max(count, int(parameters["at_least"]))
    sign = orthants.sign_of(RADIUS, parameters["d"], Adjacency.REPLACE)
    return min(count * max(1, math.ceil(2 * scale(parameters) / sign)), 1 << 60)


def squared_radius(parameters: Parameters, k: int, left: int, records: int) -> Any:
    """Return B^2 in bits: for a round 6 s 2^-k ln(m rounds / beta), for the last block
    6 ln(m / beta); at least 1.
    """
    failure, r = real(Fraction(parameters["failure"])), rounds(parameters)
    if k <= r:
        return max(1, 6 * mp.mpf(left) / 2**k * mp.log(records * r / failure))
    return max(1, 6 * mp.log(records / failure))


def weight(parameters: Parameters, k: int, left: int, n: int) -> int:
    """Return the weight of a bit in block k, ``left`` bits being unsettled; 0 for a round that
    expects less than one bit.
    """
    if left == 0 or (k <= rounds(parameters) and left < 2**k):
        return 0
    square = squared_radius(parameters, k, left, size(parameters, k, n))
    return int(mp.floor(RADIUS / mp.sqrt(square)))


def threshold(k: int) -> Fraction:
    """Return the share of ones that settles a bit in round k."""
    return Fraction(3, 8 << k)


def shares(parameters: Parameters, outcome: Outcome, k: int, left: int, n: int) -> list[Fraction]:
    """Return the released share of each bit from block k."""
    per = scale(parameters) / UNIT / weight(parameters, k, left, n) / size(parameters, k, n)
    return [v * per for v in outcome]


def left_after(
    parameters: Parameters, outcomes: Sequence[Outcome], k: int, n: int
) -> tuple[bool, ...]:
    """Return which bits rounds 1..k have not settled; outcomes: of the blocks from 0 on."""
    left: tuple[bool, ...] = (True,) * int(parameters["d"])
    for r in range(1, k + 1):
        if weight(parameters, r, sum(left), n):
            seen = shares(parameters, outcomes[r], r, sum(left), n)
            left = tuple(a and q < threshold(r) for a, q in zip(left, seen, strict=True))
    return left


def weights_after(parameters: Parameters, outcomes: Sequence[Outcome], n: int) -> tuple[int, ...]:
    """Return the weights of the next block: negative for bits that are turned, 0 for settled
    ones.
    """
    k = len(outcomes)
    if k == 0:
        return (0,) * int(parameters["d"])
    left = left_after(parameters, outcomes, k - 1, n)
    w = weight(parameters, k, sum(left), n)
    return tuple((-w if v > 0 else w) if a else 0 for a, v in zip(left, outcomes[0], strict=True))


def rows_of(records: Sequence[Record]) -> list[tuple[Fraction, ...]]:
    """Return the records as tuples."""
    return [record if isinstance(record, tuple) else (record,) for record in records]


def noisy_sums(
    parameters: Parameters, weights: Sequence[int], records: Sequence[Record]
) -> RoundedGaussianLaw:
    """Return the law of a block's stage."""
    value = orthants.bit_sums(rows_of(records), weights, RADIUS, Adjacency.REPLACE)
    return RoundedGaussianLaw(one_unit(value, scale(parameters)), UNIT)


def sensitivities(parameters: Parameters) -> dict[str, int]:
    """Return the squared sensitivity of each stage, in one unit."""
    moved = orthants.moved_squared(RADIUS, 0, Adjacency.REPLACE)
    own = vectors.one_unit_sensitivity(moved, scale(parameters), parameters["d"], int(UNIT))
    return {"count": 0, **{f"blocks/{k}/sums": own for k in range(blocks(parameters))}}


@states(_ROUNDS, _CHAINED)
def law(parameters: Parameters, records: Sequence[Record]) -> TranscriptLaw:
    """Return the law of the public number, then of each block's sums with the weights that earlier
    ones lead to.
    """
    n, count = len(records), blocks(parameters)

    @cache
    def noisy(weights: tuple[int, ...], k: int) -> IntegerLaw:
        return noisy_sums(parameters, weights, block_of(parameters, records, k))

    def block(k: int) -> tuple[str, Callable[[tuple[Outcome, ...]], IntegerLaw]]:
        def after(prefix: tuple[Outcome, ...]) -> IntegerLaw:
            return noisy(weights_after(parameters, prefix[1:], n), k)

        return f"blocks/{k}/sums", after

    nothing: tuple[Outcome, ...] = ((0,) * parameters["d"],) * (count - 1)
    stages = (("count", lambda prefix: PointLaw((n,))), *map(block, range(count)))
    return TranscriptLaw(stages, ((n,), *nothing))


# --- error --------------------------------------------------------------------------------------


@states(_ROUNDS)
def noise_error(parameters: Parameters, n: int) -> Any:
    """Return the root mean square length of the noise where all bits are settled in the first
    round, as they are for shares near 1/2.
    """
    d = parameters["d"]
    square = squared_radius(parameters, 1, d, size(parameters, 1, n))
    return mp.sqrt(d * square) * real(scale(parameters)) / RADIUS / size(parameters, 1, n)


@states(_ROUNDS, Source("BDKU20", "tail of a normal length", note="shrinking.clip_radius"))
def error_bound(parameters: Parameters, n: int, beta: Fraction) -> Any:
    """Return a bound on the length of that noise; it fails with probability at most beta."""
    d = parameters["d"]
    length = shrinking.clip_radius(0, d, beta) + mp.sqrt(d) / real(UNIT)
    return noise_error(parameters, n) / mp.sqrt(d) * length


@states(Source("OURS", "lower bound for product distributions, by fingerprints, for GDP"))
def lower_bound(parameters: Parameters, n: int) -> Any:
    """Return the lower bound of ``product_distribution``: it is about every estimate of this
    guarantee.
    """
    return product_distribution.lower_bound(parameters, n)


# --- obligations --------------------------------------------------------------------------------

_BITS = tuple(tuple(map(Fraction, one)) for one in product((0, 1), repeat=2))


def _parameters(d: int = 2, **changes: Any) -> dict[str, Any]:
    own = {"d": d, "failure": Fraction(1, 10), "at_least": 1}
    return {"adjacency": Adjacency.REPLACE, "noise_multiplier": Fraction(3, 2), **own, **changes}


@states(_ROUNDS, _CHAINED)
def obligation_one_block_pays(claimed: Fraction = Fraction(1)) -> int:
    """Check on all neighbors of up to 4 records, whatever earlier blocks released, that the
    squares of the exact mu of all blocks sum to at most (claimed / multiplier)^2, up to the
    grid's 2^-16.

    For some pair the sum is within 1/100 of that, and only one block has a positive mu.
    """
    parameters, cases = _parameters(), 0
    square = (claimed / parameters["noise_multiplier"]) ** 2
    one = scale(parameters) / UNIT
    seen = [round(v * 10**6 / one) for v in (-3, 0, 4)]
    for n in (3, 4):
        reached = Fraction(0)
        # by places among the records there are, which are looked up faster than fractions
        pairs = list(neighbors(range(len(_BITS)), n, Adjacency.REPLACE))
        for first, second in product(product(seen, repeat=2), repeat=2):
            outcomes: tuple[Outcome, ...] = (first, second)
            rows = [weights_after(parameters, outcomes[:k], n) for k in range(3)]
            moved = cache(partial(_moved_squared, parameters, tuple(rows)))
            for pair in pairs[:: 5 if n == 3 else 97]:
                mus = [moved(k, *(block_of(parameters, one, k) for one in pair)) for k in range(3)]
                require(sum(m > 0 for m in mus) <= 1, f"{pair}: blocks move by {mus}")
                total = sum(mus, Fraction(0))
                require(total <= square * (1 + Fraction(1, 2**16)), f"{pair}: {float(total)}")
                reached, cases = max(reached, total), cases + 1
        case = f"n = {n}: only {float(reached)} of {float(square)}"
        require(reached * Fraction(101, 100) >= square, case)
    return cases


def _moved_squared(
    parameters: Parameters, weights: Sequence[tuple[int, ...]], k: int, *blocks: Sequence[int]
) -> Fraction:
    """Return the squared exact mu of block k's stage; its records are given by place, twice."""
    ours, theirs = (
        noisy_sums(parameters, weights[k], [_BITS[i] for i in records]) for records in blocks
    )
    return ours.mu_squared(theirs)


@states(_ROUNDS)
def obligation_rounds_settle(claimed: Callable[[int], Fraction] = threshold) -> int:
    """Check on exact sums that no ball cuts: after round k all unsettled bits have shares below
    ``claimed``, all bits settled in the round have at least that, and settled bits are never
    taken up again.
    """
    cases, d, n = 0, 8, 4000
    parameters = _parameters(d)
    grid = [Fraction(1, 2**j) * f for j in range(1, 7) for f in (1, Fraction(3, 4), Fraction(1, 2))]
    for start in range(len(grid) - d + 1):
        p = grid[start : start + d]
        outcomes: list[Outcome] = [(-1,) * d]
        left = (True,) * d
        for k in range(1, rounds(parameters) + 1):
            w = weight(parameters, k, sum(left), n)
            exact = [q * w * size(parameters, k, n) * UNIT / scale(parameters) for q in p]
            outcomes.append(tuple(math.ceil(v) for v in exact))
            later = left_after(parameters, outcomes, k, n)
            for q, was, now in zip(p, left, later, strict=True):
                require(was or not now, "taken up again")
                require(not w or not was or now == (q < claimed(k)), f"{q} in round {k}")
                cases += 1
            left = later
    return cases
