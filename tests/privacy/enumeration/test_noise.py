"""Noise on a query and choices by score: whole mechanisms on small graphs of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dpverify.privacy import Adjacency, Norm, PerfectPrivacy

from . import laws, premises
from .graph import Law, Mechanism, Pairs, edges, grid, judge, left_out, moved, renyi, span

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Point = tuple[int, ...]
SCALE = Fraction(3, 2)
DIAGONAL: tuple[Point, ...] = ((0, 0), (1, 1), (1, -1))
"""Records that move both coordinates by 1: L1 and squared L2 are 2, L-infinity is 1."""


def total(data: Sequence[Point]) -> Point:
    """Add up the columns."""
    return tuple(sum(column) for column in zip((0, 0), *data, strict=True))


def _noisy(noise: Any) -> Mechanism:
    """Release the sums with independent noise."""

    @cache
    def of(value: Point) -> Law:
        return laws.together([noise(coordinate) for coordinate in value])

    return lambda data: of(total(data))


# --- public values ------------------------------------------------------------------------------


@pytest.mark.parametrize("adjacency", Adjacency)
def test_public_value(adjacency: Adjacency) -> None:
    """Enumerate a query that no edge moves, though it is not the same on all nodes."""

    def query(data: Any) -> Point:
        return (len(data) if adjacency is REPLACE else 7,)

    pairs = edges(adjacency, (0, 1, 2), 3)
    value = moved(query, pairs, Norm.L1)
    assert value == 0
    claim = premises.public_value(value, Norm.L1, adjacency)
    verdict = judge(lambda data: laws.point(query(data)), pairs, claim, grid(1))
    assert verdict.holds
    assert verdict.laws == 0
    assert len({query(a) for a, _ in pairs}) == (3 if adjacency is REPLACE else 1)


def test_public_value_twin_range() -> None:
    """Catch two counts that rise together: of range 0, they betray the number of records.

    Only a distance that is zero for equal values alone makes a value public.
    """
    pairs = edges(ADD_REMOVE, (0, 1), 3)

    def query(data: Any) -> Point:
        return (len(data), len(data))

    value = moved(query, pairs, Norm.RANGE)
    assert value == 0
    with pytest.raises(ValueError, match="a public value needs a sensitivity in"):
        premises.public_value(value, Norm.RANGE, ADD_REMOVE)
    verdict = judge(lambda data: laws.point(query(data)), pairs, PerfectPrivacy(), grid(1))
    assert verdict.surely == 1


# --- Laplace noise, randomized response ---------------------------------------------------------


def _laplace(low: int, high: int) -> Mechanism:
    return _noisy(lambda center: laws.laplace(center, SCALE, low, high))


def test_discrete_laplace() -> None:
    """Enumerate sums of two columns, of records that move one of them by 2 or both by 1."""
    pairs = edges(ADD_REMOVE, (*DIAGONAL, (2, 0)), 2)
    value = moved(total, pairs, Norm.L1)
    assert value == 2
    law = _laplace(-2, 4)
    for exact, share in ((False, 0.8), (True, 1 - 1e-12)):
        claim = premises.discrete_laplace(value, SCALE, ADD_REMOVE, exact=exact)
        verdict = judge(law, pairs, claim, grid(Fraction(value) / SCALE))
        assert verdict.holds
        assert verdict.share > share


def test_discrete_laplace_twin_norm() -> None:
    """Catch the largest coordinate in place of the sum of all."""
    pairs = edges(ADD_REMOVE, DIAGONAL, 2)
    value = moved(total, pairs, Norm.L_INFINITY)
    claim = premises.discrete_laplace(value, SCALE, ADD_REMOVE)
    assert judge(_laplace(-2, 4), pairs, claim, grid(Fraction(value) / SCALE)).surely > 0.2


def _response(categories: int, questions: int = 1) -> Mechanism:
    """Let each record answer each question."""

    @cache
    def answer(true: int) -> Law:
        chances = [Fraction(0) if i == true else -1 / SCALE for i in range(categories)]
        return laws.weighted(tuple(chances))

    @cache
    def of(data: tuple[int, ...]) -> Law:
        return laws.together([answer(true) for true in data for _ in range(questions)])

    return of


@pytest.mark.parametrize("categories", [2, 3])
def test_randomized_response(categories: int) -> None:
    """Enumerate one answer of each of at most three records."""
    pairs = edges(REPLACE, tuple(range(categories)), 3)
    value = moved(lambda data: data, pairs, Norm.HAMMING)
    assert value == 1
    claim = premises.randomized_response(value, SCALE, REPLACE)
    verdict = judge(_response(categories), pairs, claim, grid(1 / SCALE))
    assert verdict.holds
    assert verdict.share > (0.74 if categories == 3 else 1 - 1e-12)


def test_randomized_response_twin_two_answers() -> None:
    """Catch a record that answers twice, counted once."""
    pairs = edges(REPLACE, (0, 1), 2)
    value = moved(lambda data: data, pairs, Norm.HAMMING)
    claim = premises.randomized_response(value, SCALE, REPLACE)
    assert judge(_response(2, questions=2), pairs, claim, grid(1 / SCALE)).surely > 0.1


# --- Gaussian noise -----------------------------------------------------------------------------


def test_discrete_gaussian() -> None:
    """Enumerate sums of two columns; the Renyi divergence of order 2 is all that the claim
    allows."""
    pairs = edges(ADD_REMOVE, DIAGONAL, 2)
    value = moved(total, pairs, Norm.SQUARED_L2)
    assert value == 2
    law = _noisy(lambda center: laws.discrete_gaussian(center, SCALE))
    claim = premises.discrete_gaussian(value, SCALE, ADD_REMOVE)
    verdict = judge(law, pairs, claim, grid(2))
    assert verdict.holds
    assert verdict.share > 0.65
    rho = claim.concentrated
    assert rho is not None
    assert 1 - 1e-12 < renyi(law(()), law(((1, 1),))) / (2 * rho) < 1 + 1e-12


def test_discrete_gaussian_twin_norm() -> None:
    """Catch the largest squared coordinate in place of the sum of all."""
    pairs = edges(ADD_REMOVE, DIAGONAL, 1)
    value = moved(total, pairs, Norm.L_INFINITY) ** 2
    law = _noisy(lambda center: laws.discrete_gaussian(center, SCALE / 3))
    claim = premises.discrete_gaussian(value, SCALE / 3, ADD_REMOVE)
    assert judge(law, pairs, claim, grid(8)).surely > 0.01


def test_rounded_gaussian() -> None:
    """Enumerate sums of two columns, in the squared L2 norm, and of one column, in the L1 norm."""
    pairs = edges(ADD_REMOVE, DIAGONAL, 2)
    value = moved(total, pairs, Norm.SQUARED_L2)
    assert value == 2
    law = _noisy(lambda center: laws.rounded_gaussian(center, SCALE))
    claim = premises.rounded_gaussian(value, SCALE, ADD_REMOVE)
    verdict = judge(law, pairs, claim, grid(2))
    assert max(float(left_out(law(a)).upper()) for a, _ in pairs) < 1e-30
    assert verdict.holds
    assert verdict.share > 0.9
    column = edges(ADD_REMOVE, ((0, 0), (3, 0)), 2)
    value = moved(total, column, Norm.L1)
    claim = premises.rounded_gaussian(value, SCALE, ADD_REMOVE, Norm.L1)
    verdict = judge(law, column, claim, grid(4))
    assert verdict.holds
    assert verdict.share > 0.99


def test_rounded_gaussian_twin_norm() -> None:
    """Catch the largest squared coordinate in place of the sum of all."""
    pairs = edges(ADD_REMOVE, DIAGONAL, 1)
    value = moved(total, pairs, Norm.L_INFINITY) ** 2
    law = _noisy(lambda center: laws.rounded_gaussian(center, SCALE))
    claim = premises.rounded_gaussian(value, SCALE, ADD_REMOVE)
    assert judge(law, pairs, claim, grid(2)).surely > 0.05


# --- choices by score ---------------------------------------------------------------------------

VOTES: tuple[Point, ...] = ((1, 0, 0), (0, 1, 0), (1, 0, 1), (0, 1, 1))


def scores(data: Sequence[Point]) -> Point:
    """Count the votes of each candidate."""
    return tuple(sum(column) for column in zip((0, 0, 0), *data, strict=True))


def _choice(scale: Fraction) -> Mechanism:
    @cache
    def of(point: Point) -> Law:
        return laws.weighted(tuple(score / scale for score in point))

    return lambda data: of(scores(data))


@pytest.mark.parametrize(
    ("adjacency", "norm"), [(ADD_REMOVE, Norm.RANGE), (REPLACE, Norm.L_INFINITY)]
)
def test_exponential_mechanism(adjacency: Adjacency, norm: Norm) -> None:
    """Enumerate votes for several of three candidates: the profile, and the range of all losses."""
    pairs = edges(adjacency, VOTES, 4)
    value = moved(scores, pairs, norm)
    assert value == 1
    scale = Fraction(1)
    claim = premises.exponential_mechanism(value, scale, adjacency, norm)
    length = claim.largest_loss
    assert length == (1 if norm is Norm.RANGE else 2)
    verdict = judge(_choice(scale), pairs, claim, grid(length))
    assert verdict.holds
    assert verdict.share > 0.999
    assert 1 - 1e-12 < span(_choice(scale), pairs) / length < 1 + 1e-12


def test_exponential_mechanism_twin_norm() -> None:
    """Catch the largest move for the range: a replaced vote moves one count up, another down."""
    pairs = edges(REPLACE, VOTES, 2)
    value = moved(scores, pairs, Norm.L_INFINITY)
    scale = Fraction(1)
    claim = premises.exponential_mechanism(value, scale, REPLACE, Norm.RANGE)
    assert judge(_choice(scale), pairs, claim, grid(1)).surely > 0.1
    assert span(_choice(scale), pairs) > 1.9


# --- noise whose scale follows the data ---------------------------------------------------------

CELLS, GROWTH = (0, 1, 2, 3, 4), Fraction(2)


def median(data: Point) -> int:
    """Take the middle one of three records."""
    return sorted(data)[1]


@cache
def _local() -> dict[Point, int]:
    """Measure how far the median of three records moves when one of them is replaced."""
    sensitivity: dict[Point, int] = {}
    for a, b in _triples():
        sensitivity[a] = max(sensitivity.get(a, 0), abs(median(a) - median(b)))
    return sensitivity


def _triples() -> Pairs:
    return [pair for pair in edges(REPLACE, CELLS, 3) if len(pair[0]) == 3]


@cache
def smooth(data: Point) -> Fraction:
    """Take the largest local move, divided by 2 for every record that must be replaced to reach
    it."""
    return max(
        move / GROWTH ** sum(x != y for x, y in zip(data, other, strict=True))
        for other, move in _local().items()
    )


def _rounded(scale_of: Any, scale: Fraction) -> Mechanism:
    return lambda data: laws.rounded_laplace(median(data), scale * scale_of(data))


def test_smooth_laplace() -> None:
    """Enumerate medians of three records, each with its smooth scale, found on the whole graph."""
    pairs, scale = _triples(), Fraction(2)
    for a, b in pairs:
        assert abs(median(a) - median(b)) <= min(smooth(a), smooth(b))
        assert smooth(a) <= GROWTH * smooth(b)
    claim = premises.smooth_laplace(GROWTH, scale, REPLACE)
    verdict = judge(_rounded(smooth, scale), pairs, claim, grid(1, "3/2", "2", "3"))
    assert verdict.holds
    assert verdict.share > 0.999


def test_smooth_laplace_twin_local() -> None:
    """Catch the local move itself, at least 1/8: it changes by more than the claimed factor."""
    pairs, scale = _triples(), Fraction(2)

    def local(data: Point) -> Fraction:
        return max(Fraction(_local()[data]), Fraction(1, 8))

    assert all(abs(median(a) - median(b)) <= min(_local()[a], _local()[b]) for a, b in pairs)
    claim = premises.smooth_laplace(GROWTH, scale, REPLACE)
    assert judge(_rounded(local, scale), pairs, claim, grid(1, 3)).surely > 0.2
