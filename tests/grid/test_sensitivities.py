"""Sensitivities: the spec's numbers, and a search for neighbors that move a query further."""

from __future__ import annotations

import math
import random
import struct
import sys
from collections.abc import Callable
from fractions import Fraction

import pytest

from dpverify.grid import Answers, ClampedSum, Count, Query, View, ingest
from dpverify.privacy import Adjacency, Domain, Norm
from spec.theory import queries as spec

DOMAIN = Domain(columns=1)
BOX = 1 << 40
BOTH = (Adjacency.REPLACE, Adjacency.ADD_REMOVE)
SUMS = [
    ClampedSum(-1, 1, 0, 0),
    ClampedSum(0, 3, 1, -2),
    ClampedSum(-5, 2, 2, 3),
    ClampedSum(10, 20, 0, 0),
    ClampedSum(10, 20, 40, 0),
    ClampedSum(-BOX, BOX, BOX, -1074),
    ClampedSum(-BOX, BOX, -7, 900),
]
COUNTS = [Count(), Count((0.0, 1.0)), Count((-1e308, 5e-324))]
Pair = tuple[list[float], list[float]]
Bound = Callable[[Query, Adjacency], Fraction]


def claimed(query: Query, adjacency: Adjacency) -> Fraction:
    return query.sensitivity(adjacency, DOMAIN).conclusion.value


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("query", SUMS, ids=str)
def test_a_sum_has_the_sensitivity_of_the_spec(query: ClampedSum, adjacency: Adjacency) -> None:
    stated = spec.clamped_sum_sensitivity(query.lower, query.upper, query.center, adjacency)
    lemma = query.sensitivity(adjacency, DOMAIN)
    assert lemma.conclusion.value == stated
    assert lemma.conclusion.norm is Norm.L1
    assert lemma.obligation == "theory/queries.py:obligation_clamped_sum"


@pytest.mark.parametrize("adjacency", BOTH)
@pytest.mark.parametrize("query", COUNTS, ids=str)
def test_a_count_has_the_sensitivity_of_the_spec(query: Count, adjacency: Adjacency) -> None:
    ends = query.within
    within = None if ends is None else (Fraction(ends[0]), Fraction(ends[1]))
    stated = spec.count_sensitivity(within, adjacency)
    lemma = query.sensitivity(adjacency, DOMAIN)
    assert lemma.conclusion.value == stated
    assert lemma.conclusion.norm is Norm.L1
    assert lemma.obligation == "theory/queries.py:obligation_count"


def test_answers_change_in_one_place_under_replace_and_are_refused_under_add_remove() -> None:
    lemma = Answers(4).sensitivity(Adjacency.REPLACE, DOMAIN)
    assert lemma.conclusion.value == 1
    assert lemma.conclusion.norm is Norm.HAMMING
    with pytest.raises(ValueError, match=r"how many records.*Use Adjacency\.REPLACE"):
        Answers(4).sensitivity(Adjacency.ADD_REMOVE, DOMAIN)


@pytest.mark.parametrize("adjacency", BOTH)
def test_without_clipping_there_is_no_claim(adjacency: Adjacency) -> None:
    wild = ClampedSum(-1, 1, 0, 0).unclipped()
    assert wild is not None
    with pytest.raises(ValueError, match="no bound"):
        claimed(wild, adjacency)


def ends(query: Query) -> list[float]:
    """Return records at the ends of a query, where it moves most."""
    if isinstance(query, ClampedSum):
        marks = (query.lower, query.upper, query.center, query.lower - 1, query.upper + 1)
        try:
            return [math.ldexp(mark, query.exponent) for mark in marks]
        except OverflowError:
            return [1e308, -1e308]
    if isinstance(query, Count) and query.within is not None:
        low, high = query.within
        return [low, high, math.nextafter(low, -math.inf), math.nextafter(high, math.inf)]
    return [0.0]


def any_float(rng: random.Random) -> float:
    """Return a finite number: any pattern of bits, a small integer, or one near it."""
    kind = rng.randrange(3)
    if kind == 0:
        number: float = struct.unpack("d", struct.pack("Q", rng.getrandbits(64)))[0]
        return number if math.isfinite(number) else math.copysign(sys.float_info.max, number)
    whole = float(rng.randint(-50, 50))
    return whole if kind == 1 else math.nextafter(whole, rng.choice((-math.inf, math.inf)))


def neighbors(rng: random.Random, query: Query, adjacency: Adjacency) -> Pair:
    marks = [*ends(query), 1e308, -1e308, 5e-324, -0.0]

    def record() -> float:
        return any_float(rng) if rng.random() < 0.5 else rng.choice(marks)

    left = [record() for _ in range(rng.randrange(6))]
    at, new = rng.randrange(6), record()
    if adjacency is Adjacency.ADD_REMOVE:
        return left, [*left[:at], new, *left[at:]]
    return [*left[:at], record(), *left[at:]], [*left[:at], new, *left[at:]]


def move(query: Query, pair: Pair) -> int:
    """Return the distance of the two values in the norm of the query's sensitivity."""
    left, right = (query.evaluate(View(ingest(data, DOMAIN))).tolist() for data in pair)
    values = list(zip(left, right, strict=True))
    return sum(a != b if isinstance(query, Answers) else abs(a - b) for a, b in values)


def search(query: Query, adjacency: Adjacency, bound: Bound) -> None:
    """Fails with a pair of neighbors that moves the query beyond the bound, if one is found."""
    rng = random.Random(20261127)
    for _ in range(200):
        pair = neighbors(rng, query, adjacency)
        assert adjacency.are_neighbors(*pair)
        assert move(query, pair) <= bound(query, adjacency), pair


CASES: list[tuple[Query, Adjacency]] = [
    *((query, adjacency) for query in (*SUMS, *COUNTS) for adjacency in BOTH),
    (Answers(4), Adjacency.REPLACE),
]


@pytest.mark.parametrize(("query", "adjacency"), CASES, ids=str)
def test_no_neighbors_are_found_beyond_the_sensitivity(query: Query, adjacency: Adjacency) -> None:
    search(query, adjacency, claimed)


def half(query: Query, adjacency: Adjacency) -> Fraction:
    return claimed(query, adjacency) / 2


@pytest.mark.parametrize(
    ("query", "adjacency"), [case for case in CASES if claimed(*case) > 0], ids=str
)
def test_half_the_sensitivity_is_exceeded(query: Query, adjacency: Adjacency) -> None:
    with pytest.raises(AssertionError):
        search(query, adjacency, half)


@pytest.mark.parametrize("adjacency", BOTH)
def test_a_sum_without_clipping_is_caught(adjacency: Adjacency) -> None:
    clipped = ClampedSum(-1, 1, 0, 0)
    query = clipped.unclipped()
    assert query is not None
    with pytest.raises(AssertionError):
        search(query, adjacency, lambda _, world: claimed(clipped, world))


@pytest.mark.parametrize("query", [*SUMS, *COUNTS[1:]], ids=str)
@pytest.mark.parametrize("adjacency", BOTH)
def test_some_neighbors_reach_the_sensitivity(query: Query, adjacency: Adjacency) -> None:
    """The number is not too large either: noise is not wasted."""
    records = [*ends(query), 1e308, -1e308]
    if adjacency is Adjacency.ADD_REMOVE:
        pairs: list[Pair] = [([], [x]) for x in records]
    else:
        pairs = [([x], [y]) for x in records for y in records]
    assert max(move(query, pair) for pair in pairs) == claimed(query, adjacency)
