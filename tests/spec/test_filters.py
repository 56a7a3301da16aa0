"""Filters that keep friendly records: known numbers, wrong filters that the checks catch, and the
spec's sums against other ones."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations, product
from typing import Any

import mpmath as mp
import numpy as np
import pytest
from scipy.stats import norm

from dpverify.privacy import Adjacency
from spec import basic_filter, gaussian_filter
from spec.theory import filtered_means, filters, graphs, rare_events
from spec.theory.filtered_means import Release
from spec.theory.obligations import ObligationFailed
from tests.privacy import friendly

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_ALL_THEIR_OWN = (-1,)


def _all_moves(n: int, rule: graphs.Rule = graphs.basic_rule) -> list[graphs.Moves]:
    pairs = graphs.pairs(ADD_REMOVE, n, _ALL_THEIR_OWN)
    return [graphs.moves(pair, rule) for pair in pairs]


def _mirrored(moves: graphs.Moves) -> graphs.Moves:
    return tuple((q, p) for p, q in moves)


# --- the basic filter in numbers ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("n", "distance", "removed", "added"),
    [
        (2, "1", "2", "2"),
        (3, "5/3", "32/9", "72/25"),
        (4, "3/2", "27/8", "200/81"),
        (5, "9/5", "2592/625", "20000/6561"),
    ],
)
def test_the_largest_moves_and_ratios_on_small_graphs(
    n: int, distance: str, removed: str, added: str
) -> None:
    move_sets = _all_moves(n)
    assert len(move_sets) == 2 ** (n * (n - 1) // 2)
    assert max(map(graphs.distance, move_sets)) == Fraction(distance) <= 2 - Fraction(1, n)
    for sides, ratio in ((move_sets, removed), (map(_mirrored, move_sets), added)):
        assert max(graphs.worst_ratio(moves, Fraction(2)) for moves in sides) == Fraction(ratio)
    assert Fraction(ratio) < Fraction("7.389")  # e^(2 a), a = 1


@pytest.mark.parametrize(("n", "unfriendly"), [(2, 0), (3, 8), (4, 0), (5, 1968)])
def test_records_of_both_sides_of_a_replacement_may_be_unfriendly_together(
    n: int, unfriendly: int
) -> None:
    """Show why hybrids are ordered. Under add-remove they need not be."""
    pairs = 2 ** (n * (n - 1) // 2 + n - 1)
    assert basic_filter.unfriendly_unions(REPLACE, n) == (unfriendly, pairs)
    assert basic_filter.unfriendly_unions(ADD_REMOVE, n) == (0, 2 ** (n * (n - 1) // 2))


@pytest.mark.parametrize(
    ("factor", "removed", "added"),
    [("exp 0.1", ".21023", ".19024"), ("3/2", ".99925", ".66644"), ("e", "3.43190", "1.26401")],
)
def test_a_lonely_record_next_to_a_clique_of_two_thousand(
    factor: str, removed: str, added: str
) -> None:
    """Nearly 2 a one way, much less the other."""
    number = {"exp 0.1": mp.exp(0.1), "3/2": mp.mpf(1.5), "e": mp.e}[factor]
    n = 2000
    chance = filters.basic_probability(n - 1, n)
    moves = [(mp.mpf(chance.numerator) / chance.denominator, mp.mpf(1))] * (n - 1)
    log_growths = [mp.log(graphs.growth(m, number)) for m in (moves, [(q, p) for p, q in moves])]
    assert [float(x) for x in log_growths] == pytest.approx(
        [float(removed), float(added)], abs=6e-6
    )
    assert log_growths[0] <= 2 * (number - 1)


def _clipped(z: Fraction, width: Fraction) -> Fraction:
    return min(max(z / width, Fraction(0)), Fraction(1))


_HALF = Fraction(1, 2)
_MUTANTS: dict[str, tuple[graphs.Rule, dict[int, tuple[str, float, int]]]] = {
    # the largest move, the largest ratio at e^epsilon = 2, and unfriendly unions, for n = 4 and 5
    "n / 2 of the larger dataset": (
        lambda degree, n, larger: _clipped(degree - larger * _HALF, larger * _HALF),
        {4: ("5/2", 6.0, 0), 5: ("13/5", 6.32, 0)},
    ),
    "kept or not": (
        lambda degree, n, larger: Fraction(2 * degree > n),
        {4: ("2", 4.0, 0), 5: ("5", 32.0, 0)},
    ),
    "half is enough": (
        lambda degree, n, larger: (
            Fraction(1) if 2 * degree == n else graphs.basic_rule(degree, n, larger)
        ),
        {4: ("4", 16.0, 15), 5: ("21/5", 21.0, 243)},
    ),
    "a third is enough": (
        lambda degree, n, larger: _clipped(degree - Fraction(n, 3), Fraction(2 * n, 3)),
        {4: ("7/4", 3.91, 15), 5: ("8/5", 3.15, 475)},
    ),
    "alpha = 1/10": (
        lambda degree, n, larger: _clipped(degree - n * _HALF, n * Fraction(2, 5)),
        {4: ("17/12", 2.94, 0), 5: ("2", 4.88, 0)},
    ),
    "alpha = 1/4": (
        lambda degree, n, larger: _clipped(degree - n * _HALF, n * Fraction(1, 4)),
        {4: ("2", 3.6, 0), 5: ("13/5", 7.68, 0)},
    ),
}


@pytest.mark.parametrize("name", _MUTANTS)
def test_wrong_filters_are_caught_by_moves_and_friendliness_together(name: str) -> None:
    rule, numbers = _MUTANTS[name]
    caught = False
    for n, (distance, ratio, unfriendly) in numbers.items():
        move_sets = _all_moves(n, rule)
        largest = max(map(graphs.distance, move_sets))
        assert largest == Fraction(distance)
        assert max(
            float(graphs.growth(moves, Fraction(2))) for moves in move_sets
        ) == pytest.approx(ratio, abs=6e-3)
        assert basic_filter.unfriendly_unions(ADD_REMOVE, n, rule)[0] == unfriendly
        caught |= largest > basic_filter.moved(ADD_REMOVE, n) or unfriendly > 0
    assert caught
    with pytest.raises(ObligationFailed):
        basic_filter.obligation_stability(rule=rule)


def test_a_predicate_that_is_not_symmetric_moves_too_much() -> None:
    """All but one know each other and not that one; it knows all, so it was kept for certain."""
    n = 5
    others = 2 ** (n - 1) - 1
    pair = graphs.pair_of((*[others] * (n - 1), 2**n - 1), ADD_REMOVE)
    assert graphs.distance(graphs.moves(pair)) == 3 - Fraction(2, n)
    assert 3 - Fraction(2, n) > basic_filter.moved(ADD_REMOVE, n)


def test_a_radius_that_depends_on_the_number_of_records_moves_nearly_all() -> None:
    """Two equal groups, all friends for n = 1000; for n = 999 the radius is a little smaller, and
    friends are those of one's own group."""
    before = filters.basic_probabilities([0, 1] * 500, lambda x, y: True)
    after = filters.basic_probabilities([0, 1] * 499 + [0], lambda x, y: x == y)
    moves = tuple(zip(before, (*after, Fraction(0)), strict=True))
    assert graphs.distance(moves) == 1000 - Fraction(500, 999)


@pytest.mark.parametrize("factor", [Fraction(3, 2), Fraction(27, 10)])
@pytest.mark.parametrize(("d", "x"), [("0", "1/100"), ("1/10000", "1/1000"), ("1/1000", "1/100")])
def test_no_friendly_mechanism_does_worse_than_the_lift_s_product(
    factor: Fraction, d: str, x: str
) -> None:
    """The best of all tests, by linear programming, is R x + d (R - 1) / a, to its precision."""
    small, chance = Fraction(d), Fraction(x)
    distinct = {
        tuple(sorted(move for move in moves if any(move)))
        for n in (2, 3, 4)
        for moves in _all_moves(n)
    }
    assert len(distinct) >= 15
    for moves in distinct:
        grown = graphs.growth(moves, factor)
        bound = min(grown * chance + small * (grown - 1) / (factor - 1), Fraction(1))
        numbers = float(factor), float(small), float(chance)
        (best,) = friendly.most_likely([(moves, *numbers)], mixed=False)
        assert best == pytest.approx(float(bound), abs=1e-7)


# --- sums ---------------------------------------------------------------------------------------


def test_records_need_no_graph() -> None:
    records = (0, 1, 1, 2, 9)
    probabilities = filters.basic_probabilities(records, lambda x, y: abs(x - y) <= 1)
    fifth = Fraction(1, 5)
    assert filters.degrees(records, lambda x, y: abs(x - y) <= 1) == (3, 4, 4, 3, 1)
    assert list(probabilities) == [fifth, 3 * fifth, 3 * fifth, fifth, 0 * fifth]
    kept = dict(filters.kept_sets(probabilities))
    assert len(kept) == 2**4
    assert kept[1, 2] == (4 * 3 * 3 * 4) * fifth**4
    assert basic_filter.law(records, lambda x, y: abs(x - y) <= 1) == kept
    assert basic_filter.law((), lambda x, y: True) == {(): 1}


@pytest.mark.parametrize("scale", [Fraction(1, 3), Fraction(2), Fraction(355, 113)])
def test_shifts_and_tails_are_those_of_rounded_normal_noise(scale: Fraction) -> None:
    for rare in (Fraction(1, 3), Fraction(1, 100), Fraction(1, 10**12)):
        quantile = float(scale) * norm.isf(float(rare))
        assert filters.least_shift(rare, scale) == int(np.ceil(quantile))
    for margin, threshold in product((-3, 0, 4), (1, 5)):
        probability = float(filters.gaussian_probability(margin, scale, threshold))
        expected = norm.sf((threshold - margin + 0.5) / float(scale))
        assert probability == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_gaussian_law_is_the_product_of_its_probabilities(adjacency: Adjacency) -> None:
    records, near = (0, 0, 1, 1, 5), (lambda x, y: abs(x - y) <= 1)
    law = gaussian_filter.law(
        records, near, adjacency=adjacency, size=5, mu=Fraction(4), rare=Fraction(1, 20)
    )
    scale = {ADD_REMOVE: 5**0.5 / 4, REPLACE: 2 * 4**0.5 / 4}[adjacency]
    shift = np.ceil(scale * norm.isf(0.05 / {ADD_REMOVE: 6, REPLACE: 5}[adjacency]))
    least = shift + {ADD_REMOVE: 1, REPLACE: 2}[adjacency]
    chances = norm.sf((least + 0.5 - np.array([3, 3, 3, 3, -3])) / scale)
    for kept in (kept for size in range(6) for kept in combinations(range(5), size)):
        chosen = np.isin(np.arange(5), kept)
        expected = np.prod(np.where(chosen, chances, 1 - chances))
        assert float(law[kept]) == pytest.approx(expected, rel=1e-6)


def test_stand_ins_and_other_weights_are_followed() -> None:
    """Scores p friends - (q - p) strangers, and noise that is -1, 0 or 1."""

    class Formal:
        def __call__(self, exponent: Fraction) -> Fraction:
            raise AssertionError

        def rounded_gaussian(self, z: int, scale: Fraction) -> Fraction:
            return {-1: Fraction(1, 4), 0: Fraction(1, 2), 1: Fraction(1, 4)}.get(z, Fraction(0))

    records = (0, 1, 1, 2, 9)  # scores for (2, 5): 0, 5, 5, 0, -10
    probabilities = filters.gaussian_probabilities(
        records,
        lambda x, y: abs(x - y) <= 1,
        scale=Fraction(1),
        threshold=-1,
        weights=(2, 5),
        e=Formal(),
    )
    assert list(probabilities) == [Fraction(3, 4), 1, 1, Fraction(3, 4), 0]


# --- the Gaussian filter: planted faults --------------------------------------------------------


def test_a_size_without_its_shift_is_caught() -> None:
    with pytest.raises(ObligationFailed, match="size of n - 1"):
        rare_events.obligation_bad_events(shift_of=lambda rare, scale: 0)


def test_a_shift_too_small_by_one_is_caught() -> None:
    with pytest.raises(ObligationFailed, match="beyond"):
        rare_events.obligation_bad_events(
            shift_of=lambda rare, scale: filters.least_shift(rare, scale) - 1
        )


def test_a_released_number_as_large_as_the_true_one_is_too_much_where_strangers_are_known() -> None:
    """Two strangers, N = 2 released: a is 3/2, but one is two radii from the mean of the others."""
    with pytest.raises(ObligationFailed, match="strangers 1"):
        filters.obligation_kept_mean(below=0)


def test_noise_for_fewer_records_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """A scale from half of the size, in the law and in what its margins need."""
    right = filters.noise_scale
    for where in (gaussian_filter, filtered_means):
        monkeypatch.setattr(where, "noise_scale", lambda a, size, mu: right(a, size // 4, mu))
    with pytest.raises(ObligationFailed):
        gaussian_filter.obligation_margins()
    filtered_means.laws.cache_clear()
    try:
        with pytest.raises(ObligationFailed):
            filtered_means.obligation_composition(lambda r: r.mu_filter**2 * Fraction(1, 8) + 2)
    finally:
        filtered_means.laws.cache_clear()


def _density(points: Any, chances: Any, release: Release, number: int, y: Any) -> Any:
    """Compute the density of (number, mean) at one number, on a fine grid of means, over all
    kept sets."""
    total = np.zeros_like(y)
    for kept in product((0, 1), repeat=len(points)):
        share = np.prod([p if k else 1 - p for k, p in zip(kept, chances, strict=True)])
        size = sum(kept)
        if size:
            z = number - size + 1 + release.shift
            mu = float(release.mu_count)
            mass = norm.cdf((z + 0.5) * mu) - norm.cdf((z - 0.5) * mu)
            mean = np.dot(kept, points) / size
            total += share * mass * norm.pdf(y, mean, float(release.multiplier) / number)
    return total


@pytest.mark.parametrize("epsilon", [0.0, 1.0, 3.0])
def test_what_is_seen_has_the_hockey_stick_of_its_densities(epsilon: float) -> None:
    """Bound it by that of the unrounded mean, and within 4% of it; under replace, every kept set
    apart."""
    release = Release(
        adjacency=REPLACE,
        mu_count=Fraction(1),
        mu_filter=Fraction(6),
        multiplier=Fraction(1, 4),
        rare=Fraction(1, 10),
    )
    half = Fraction(1, 2)
    left, right = ((Fraction(0), 1), (half, 5)), ((half, 5), (Fraction(1), 1))
    p, q = filtered_means.laws(release, left, right)
    delta = filtered_means.hockey_stick(p, q, epsilon)
    scale = filters.noise_scale(REPLACE, 6, release.mu_filter)
    least = filters.threshold(REPLACE, 6, scale, release.rare)
    chances = [float(filters.gaussian_probability(6, scale, least))] * 6
    y = np.linspace(-3, 4, 14001)
    true = 0.0
    for number in range(1, 14):
        sides = [
            _density(np.array([0.5] * 5 + [end]), chances, release, number, y) for end in (0, 1)
        ]
        gaps = np.maximum(sides[0] - np.exp(epsilon) * sides[1], 0)
        true += float(gaps.sum() * (y[1] - y[0]))
    assert true > 1e-3
    assert 0.96 * true <= delta <= true * (1 + 1e-5)
    for law in (p, q):
        assert sum(law.values()) == pytest.approx(1, abs=1e-12)


def test_the_composition_holds_whatever_is_called_rare() -> None:
    assert filtered_means.obligation_composition(rare=Fraction(1, 20)) > 100
