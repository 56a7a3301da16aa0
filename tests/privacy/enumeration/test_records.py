"""Mechanisms behind a function of each record alone, which may leave records out: whole mechanisms
on small graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from typing import Any

import pytest

from dpverify.privacy import Adjacency, Guarantee, Norm, PureDP

from . import laws, premises
from .graph import Law, Mechanism, edges, grid, judge, moved

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
CELLS = (-1, 1, 5, "x")
"""Values that a table's cell may hold; the mechanisms take -1 and 1."""
SIGNS, SCALE, SIGMA = (-1, 1), Fraction(3, 2), Fraction(3)
Data = tuple[Any, ...]
Map = Callable[[Data], Data]


def clamped(data: Data) -> Data:
    """Read each cell as a number of -1 and 1: beyond is the bound, a word is -1."""
    return tuple(-1 if cell == "x" else min(1, cell) for cell in data)


def numeric(data: Data) -> Data:
    """Leave out what is no number."""
    return clamped(tuple(cell for cell in data if cell != "x"))


def centered(data: Data) -> Data:
    """False: each cell is compared with all of them."""
    return tuple(
        1 if 2 * x > min(clamped(data)) + max(clamped(data)) else -1 for x in clamped(data)
    )


def alternating(data: Data) -> Data:
    """False under add-remove: what a cell counts as depends on its place."""
    return tuple((-1) ** i * x for i, x in enumerate(clamped(data)))


def only_without_a_word(data: Data) -> Data:
    """False: all records are left out if there is a word among them."""
    return () if "x" in data else clamped(data)


def laplace(data: Data) -> Law:
    """Release the sum with discrete Laplace noise."""
    return laws.laplace(sum(data), SCALE, -4, 4)


def gaussian(data: Data) -> Law:
    """Release the sum with rounded Gaussian noise."""
    return laws.rounded_gaussian(sum(data), SIGMA)


def sized(data: Data) -> Law:
    """Release the number of records, and the sum with noise: private where the number is public."""
    noisy = laws.laplace(sum(data), SCALE, -4, 4)
    return laws.mapped(noisy, lambda value: laws.point((len(data), value)))


def _claim(inner: Mechanism, adjacency: Adjacency) -> Guarantee:
    """Claim of the mechanism on its own records what the rules give it, and judge it."""
    pairs = edges(adjacency, SIGNS, 3)

    def total(data: Sequence[int]) -> tuple[int]:
        return (sum(data),)

    if inner is gaussian:
        square = moved(total, pairs, Norm.SQUARED_L2)
        made = premises.rounded_gaussian(square, SIGMA, adjacency)
    else:
        once = moved(total, pairs, Norm.L1)
        made = premises.discrete_laplace(once, SCALE, adjacency, exact=True)
    assert judge(inner, pairs, made, grid(2)).holds
    return made


def _behind(given: Map, inner: Mechanism) -> Mechanism:
    """Run the inner mechanism on what the map gives."""
    of = cache(inner)
    return lambda data: of(given(data))


@pytest.mark.parametrize("inner", [laplace, gaussian])
@pytest.mark.parametrize("about", [ADD_REMOVE, REPLACE])
def test_of_each_record(inner: Mechanism, about: Adjacency) -> None:
    """Enumerate tables of at most three cells, each of them read alone: nothing is lost."""
    claim = premises.of_each_record(_claim(inner, about), about)
    verdict = judge(_behind(clamped, inner), edges(about, CELLS, 3), claim, grid(2))
    assert verdict.holds
    assert verdict.share > (1 - 1e-12 if inner is laplace else 0.95)


def test_of_each_record_with_a_public_number() -> None:
    """Enumerate a mechanism that says how many records there are: under replace that is public."""
    claim = premises.of_each_record(_claim(sized, REPLACE), REPLACE)
    assert judge(_behind(clamped, sized), edges(REPLACE, CELLS, 3), claim, grid(2)).holds
    assert judge(_behind(clamped, sized), edges(ADD_REMOVE, CELLS, 3), claim, grid(2)).surely > 0.9


@pytest.mark.parametrize(
    ("given", "about", "excess"),
    [(centered, ADD_REMOVE, 0.05), (centered, REPLACE, 0.05), (alternating, ADD_REMOVE, 0.05)],
)
def test_of_each_record_twins(given: Map, about: Adjacency, excess: float) -> None:
    """Catch a function that looks at the other records, and one that looks at a record's place."""
    claim = premises.of_each_record(_claim(laplace, about), about)
    verdict = judge(_behind(given, laplace), edges(about, CELLS, 3), claim, grid(2))
    assert verdict.surely > excess


@pytest.mark.parametrize("inner", [laplace, gaussian])
@pytest.mark.parametrize("about", [ADD_REMOVE, REPLACE])
def test_of_kept_records(inner: Mechanism, about: Adjacency) -> None:
    """Enumerate tables some cells of which are left out: one step under add-remove, two under
    replace."""
    claim = premises.of_kept_records(_claim(inner, ADD_REMOVE), about)
    verdict = judge(_behind(numeric, inner), edges(about, CELLS, 3), claim, grid(2))
    assert verdict.holds
    assert verdict.share > (1 - 1e-12 if inner is laplace else 0.95)


def test_of_kept_records_twin_public_number() -> None:
    """Catch a claim under replace, which takes the number of records to be public, on those that
    are left."""
    own = _claim(sized, REPLACE)
    with pytest.raises(ValueError, match="takes the number of records to be public"):
        premises.of_kept_records(own, REPLACE, within=REPLACE)
    pairs = edges(REPLACE, CELLS, 3)
    assert judge(_behind(clamped, sized), pairs, own, grid(2)).holds
    assert judge(_behind(numeric, sized), pairs, own, grid(2)).surely > 0.8
    assert judge(_behind(numeric, sized), pairs, PureDP(50), [Fraction(50)]).surely > 0.9


def test_of_kept_records_twin_one_step() -> None:
    """Catch the guarantee of one step for a replacement."""
    own = _claim(laplace, ADD_REMOVE)
    pairs = edges(REPLACE, CELLS, 3)
    assert judge(_behind(numeric, laplace), pairs, own, grid(2)).surely > 0.1


def test_of_kept_records_twin_looks_at_others() -> None:
    """Catch a record that is left out because of another one."""
    claim = premises.of_kept_records(_claim(laplace, ADD_REMOVE), ADD_REMOVE)
    pairs = edges(ADD_REMOVE, CELLS, 3)
    assert judge(_behind(only_without_a_word, laplace), pairs, claim, grid(2)).surely > 0.05
