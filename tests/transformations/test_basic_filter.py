"""The basic filter: its coins enumerated and counted, and the claim that its lift makes."""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpverify.grid.nearness import Nearness
from dpverify.privacy import Adjacency, ApproxDP, Domain, GaussianDP, PureDP, rules
from dpverify.privacy.adjacency import Friendly
from dpverify.privacy.guarantees import Lifted
from dpverify.privacy.guarantees.profile import Profile
from dpverify.randomness import Bits, SeededBits, enumerate_law
from dpverify.transformations import BasicFilter
from spec.theory.filters import basic_probability
from tests.randomness.helpers import NoBits

NEAR = Nearness(1, 0, (1.0,))
FILTER = BasicFilter(NEAR)
DOMAIN = Domain(columns=1)
CASES = [[], [1], [1, 1], [2, 2], [2, 2, 1], [3, 3, 3], [3, 2, 2], [4, 3, 3, 2], [5, 4, 4, 3, 3, 1]]


def enumerated(degrees: list[int], size: int = 1) -> dict[Any, Fraction]:
    def run(bits: Bits) -> Any:
        kept = FILTER.keep(bits, np.array(degrees, np.int64), size)
        assert kept.shape == (size, len(degrees))
        return tuple(map(tuple, kept.tolist()))

    enumeration = enumerate_law(run, max_choices=40)
    assert enumeration.undecided == 0
    return enumeration.masses


def product_law(chances: list[Fraction]) -> dict[Any, Fraction]:
    masses = {}
    for kept in product((False, True), repeat=len(chances)):
        mass = Fraction(1)
        for chosen, chance in zip(kept, chances, strict=True):
            mass *= chance if chosen else 1 - chance
        if mass:
            masses[kept] = mass
    return masses


@pytest.mark.parametrize("degrees", CASES, ids=str)
def test_records_are_kept_with_the_spec_s_probabilities_independently(degrees: list[int]) -> None:
    law = product_law([basic_probability(degree, len(degrees)) for degree in degrees])
    assert {kept[0]: mass for kept, mass in enumerated(degrees).items()} == law


def test_rows_of_a_batch_are_independent() -> None:
    law = product_law([Fraction(1, 3), Fraction(1), Fraction(1, 3)])
    pairs = {(a, b): p * q for (a, p), (b, q) in product(law.items(), repeat=2)}
    assert enumerated([2, 3, 2], size=2) == pairs


def test_false_twins_have_another_law() -> None:
    """Planted: probabilities deg / n, and 2 deg / (n + 1) - 1."""
    twins: list[Callable[[int], Fraction]] = [
        lambda degree: Fraction(degree, 4),
        lambda degree: max(Fraction(0), Fraction(2 * degree, 5) - 1),
    ]
    masses = {kept[0]: mass for kept, mass in enumerated([4, 3, 3, 2]).items()}
    for twin in twins:
        assert masses != product_law([twin(degree) for degree in (4, 3, 3, 2)])


def test_large_batches_keep_records_as_often_as_they_should() -> None:
    """False alarm below 1e-6: of 20 records and 10 pairs each count leaves its binomial's central
    interval with probability 1e-8 at most."""
    degrees = np.arange(1, 21)
    kept = FILTER.keep(SeededBits(11), degrees, 20_000)
    chances = np.clip(2 * degrees / 20 - 1, 0, 1)
    counts = [*kept.sum(axis=0), *(kept[:, 9:19] & kept[:, 10:20]).sum(axis=0)]
    expected = [*chances, *(chances[9:19] * chances[10:20])]
    for count, chance in zip(counts, expected, strict=True):
        low, high = (stats.binom.ppf(q, 20_000, chance) for q in (5e-9, 1 - 5e-9))
        assert low <= count <= high
    assert kept[:, 19].all()  # a friend of all
    assert not kept[:, :10].any()  # no more than half


def test_where_nothing_is_open_no_bit_is_drawn() -> None:
    for degrees, expected in (([3, 3, 3], True), ([1, 1, 1], False), ([], False)):
        kept = FILTER.keep(NoBits(), np.array(degrees, np.int64), 4)
        assert kept.tolist() == [[expected] * len(degrees)] * 4


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_claim_is_the_lift_of_a_move_by_two_or_three(adjacency: Adjacency) -> None:
    moved = {Adjacency.ADD_REMOVE: 2, Adjacency.REPLACE: 3}[adjacency]
    inner = rules.conjecture(GaussianDP("0.1"), adjacency=FILTER.friendly, domain=DOMAIN)
    derivation = FILTER.lift(inner, adjacency, DOMAIN)
    assert derivation.conclusion.guarantee == Lifted(GaussianDP("0.1"), Fraction(moved))
    assert derivation.conclusion.adjacency is adjacency
    assert {leaf.obligation for leaf in derivation.lemmas} == {
        "basic_filter.py:obligation_stability"
    }
    point = BasicFilter(NEAR, Fraction(1)).lift(inner, adjacency, DOMAIN).conclusion.guarantee
    assert isinstance(point, ApproxDP)
    assert point.epsilon == 1
    exact = Lifted(GaussianDP("0.1"), Fraction(moved)).delta_at(1).upper
    assert exact <= point.delta <= exact * (1 + Fraction(1, 10**13))


def test_another_predicate_is_refused_even_of_the_same_radius() -> None:
    for other in (Nearness(1, 0, (0.5,)), Nearness(2, 0, (1.0,)), Nearness(1, 1, (1.0,))):
        about = BasicFilter(other).friendly
        inner = rules.conjecture(PureDP(1), adjacency=about, domain=DOMAIN)
        with pytest.raises(ValueError, match="prove both for the same neighbors"):
            FILTER.lift(inner, Adjacency.ADD_REMOVE, DOMAIN)


def test_a_claim_for_all_neighbors_needs_no_filter_and_a_hopeless_point_is_refused() -> None:
    ordinary = rules.conjecture(PureDP(1), adjacency=Adjacency.ADD_REMOVE, domain=DOMAIN)
    with pytest.raises(ValueError, match="an ordinary claim needs no lift"):
        FILTER.lift(ordinary, Adjacency.ADD_REMOVE, DOMAIN)
    wild: Any = Profile([GaussianDP(9)], delta=Fraction(1, 10))
    inner = rules.conjecture(wild, adjacency=FILTER.friendly, domain=DOMAIN)
    with pytest.raises(ValueError, match=re.escape("outside [0, 1)")):
        BasicFilter(NEAR, Fraction(1)).lift(inner, Adjacency.ADD_REMOVE, DOMAIN)
    assert FILTER.friendly == Friendly(NEAR.predicate)
