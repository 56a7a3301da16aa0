"""Maps of the records with coins of their own, and mechanisms on what they give: whole
mechanisms on small graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest

from dpverify.privacy import Adjacency, BoundedRange, Guarantee, Norm
from dpverify.privacy.balls import ball
from spec import truncation
from spec.theory.couplings import uncoupled

from . import laws, premises
from .graph import Law, Mechanism, Pairs, edges, grid, judge, moved, span, steps

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
ONE, HALF = Fraction(1), Fraction(1, 2)
SIGNS, LETTERS = (-1, 1), (-1, 1, 5)
Data = tuple[int, ...]
Map = Callable[[Data], dict[Data, Fraction]]


def listed(data: Data) -> dict[Data, Fraction]:
    """List two of the records but for 5, or a 1 for each that is missing, in a random order."""
    return truncation.law(data, lambda x: x != 5, 2, 1)


def in_order(data: Data) -> dict[Data, Fraction]:
    """The same without shuffling."""
    return {truncation.of_public_size(data, lambda x: x != 5, 2, 1): ONE}


def rarely_shuffled(data: Data) -> dict[Data, Fraction]:
    """The same, shuffled one time out of ten."""
    masses = {one: mass / 10 for one, mass in listed(data).items()}
    (plain,) = in_order(data)
    return masses | {plain: masses[plain] + Fraction(9, 10)}


def dropped(data: Data) -> dict[Data, Fraction]:
    """Drop each record half of the time."""
    masses: dict[Data, Fraction] = {}
    for kept in product((False, True), repeat=len(data)):
        one = tuple(x for x, keep in zip(data, kept, strict=True) if keep)
        masses[one] = masses.get(one, Fraction(0)) + HALF ** len(data)
    return masses


def all_or_none(data: Data) -> dict[Data, Fraction]:
    """Keep all records; of those whose sum is odd none half of the time. of them if their sum is
    odd: half of the time each."""
    if sum(data) % 2 == 0:
        return {data: ONE}
    return {data: HALF, (): HALF}


def doubled(data: Data) -> dict[Data, Fraction]:
    """List each record twice."""
    return {data + data: ONE}


def _behind(given: Map, inner: Callable[[Data], Law]) -> Mechanism:
    """Run the inner mechanism on what the map gives."""

    @cache
    def of(data: Data) -> Law:
        return laws.mixed((ball(mass), inner(one)) for one, mass in given(data).items())

    return of


def places(data: Data) -> Law:
    """Release a noisy difference of two records, which moves by more when both change."""
    return laws.laplace(data[0] - data[1], 2 * ONE, -4, 4)


def total(data: Data) -> Law:
    """Release a noisy sum."""
    return laws.laplace(sum(data), 2 * ONE, -4, 4)


def _claims(within: Adjacency, universe: Sequence[int], inner: Any, most: int) -> Guarantee:
    """Claim of the inner mechanism what the rules give it, and judge it."""
    pairs = [p for p in edges(within, tuple(universe), most) if inner is total or len(p[0]) == most]
    query = (lambda d: (sum(d),)) if inner is total else (lambda d: (d[0] - d[1],))
    move = moved(query, pairs, Norm.L1)
    made = premises.discrete_laplace(move, 2 * ONE, within)
    assert judge(inner, pairs, made, grid(move)).holds
    return made


def _farther(given: Map, pairs: Pairs, within: Adjacency, apart: int) -> Fraction:
    """Return the most of a mass that cannot be coupled so that at most so many steps lead
    between."""
    most = max(len(one) for pair in pairs for data in pair for one in given(data))
    near = edges(within, SIGNS, most)
    close = {pair for k in range(1, apart + 1) for pair in steps(near, k)}
    return max(
        uncoupled(given(a), given(b), lambda x, y: x == y or (x, y) in close) for a, b in pairs
    )


_WORLDS: list[tuple[Map, Any, Adjacency, Adjacency, int, float]] = [
    (listed, places, REPLACE, ADD_REMOVE, 1, 0.4),
    (listed, places, REPLACE, REPLACE, 1, 0.5),
    (dropped, total, ADD_REMOVE, ADD_REMOVE, 1, 0.3),
    (doubled, total, ADD_REMOVE, ADD_REMOVE, 2, 0.8),
]


@pytest.mark.parametrize(("given", "inner", "within", "about", "apart", "share"), _WORLDS)
def test_coupled_map(
    given: Map, inner: Any, within: Adjacency, about: Adjacency, apart: int, share: float
) -> None:
    """Enumerate maps of at most three records whose results are coupled in one step, or in two."""
    universe = LETTERS if inner is places else SIGNS
    pairs = edges(about, universe, 3 if given is not doubled else 2)
    assert _farther(given, pairs, within, apart) == 0
    claim = premises.coupled_map(_claims(within, SIGNS, inner, 2), apart, within, about)
    verdict = judge(_behind(given, inner), pairs, claim, grid(2))
    assert verdict.holds
    assert verdict.share > share


_FALSE: list[tuple[Map, Any, Adjacency, Adjacency, float]] = [
    (in_order, places, REPLACE, ADD_REMOVE, 0.02),
    (rarely_shuffled, places, REPLACE, ADD_REMOVE, 0.0),
    (all_or_none, total, ADD_REMOVE, ADD_REMOVE, 0.05),
    (doubled, total, ADD_REMOVE, ADD_REMOVE, 0.1),
]


@pytest.mark.parametrize(("given", "inner", "within", "about", "excess"), _FALSE)
def test_coupled_map_twins(
    given: Map, inner: Any, within: Adjacency, about: Adjacency, excess: float
) -> None:
    """Catch couplings that hold but for a part of the mass, or in one step more: the claim of
    one step does not hold."""
    pairs = edges(about, LETTERS if inner is places else SIGNS, 3 if given is not doubled else 2)
    assert _farther(given, pairs, within, 1) > 0
    claim = premises.coupled_map(_claims(within, SIGNS, inner, 2), 1, within, about)
    assert judge(_behind(given, inner), pairs, claim, grid(2)).surely > excess


def test_coupled_map_twin_range() -> None:
    """A mixture of laws with a range has losses farther apart: the rule gives the profile."""

    def choice(data: Data) -> Law:
        return laws.weighted(tuple(Fraction(sum(x == one for x in data)) for one in SIGNS))

    inner = BoundedRange(2)
    pairs = [p for p in edges(REPLACE, SIGNS, 2) if len(p[0]) == 2]
    assert span(choice, pairs) <= 2 + 1e-9
    made = premises.coupled_map(inner, 1, REPLACE, ADD_REMOVE)
    assert not isinstance(made, BoundedRange)
    assert judge(_behind(listed, choice), edges(ADD_REMOVE, LETTERS, 3), made, grid(2)).holds
