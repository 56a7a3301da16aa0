"""Means weighted by friends: known numbers, wrong weights that the checks catch, and searches for a
pair of datasets that moves further than is claimed."""

from __future__ import annotations

import random
from collections.abc import Iterator
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from scipy.optimize import linprog

from dpverify.privacy import Adjacency
from spec import degree_weights
from spec.theory import embeddings, filters, graphs, weight_steps, weighted_releases, weights
from spec.theory.embeddings import Sides
from spec.theory.obligations import ObligationFailed

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


# --- in numbers ---------------------------------------------------------------------------------


def test_weights_and_means_of_records_on_a_line() -> None:
    records = (0, 1, 1, 2, 9)
    degrees = filters.degrees(records, lambda x, y: abs(x - y) <= 1)
    assert degrees == (3, 4, 4, 3, 1)
    assert weights.weights(degrees) == (1, 3, 3, 1, 0)
    assert weights.agreement(degrees) == -2 == (2 * 8) // 5 - 5
    assert weights.weighted_mean([(x, -x) for x in records], degrees) == (Fraction(1), Fraction(-1))
    odd = weights.weighted_mean([(0, 1), (1, 1), (4, 1)], (3, 2, 2))
    assert odd == (Fraction(0 * 3 + 1 * 1 + 4 * 1, 5), Fraction(1))


def test_few_records_have_an_agreement_and_none_has_no_mean() -> None:
    assert [weights.agreement(d) for d in ((), (1,), (2, 2), (1, 1), (2, 3, 2))] == [0, 1, 2, -2, 0]
    with pytest.raises(ZeroDivisionError):
        weights.weighted_mean([(0,), (5,)], (1, 1))


def test_weights_are_n_times_the_filter_s_keep_probabilities() -> None:
    for n in range(1, 9):
        for degree in range(1, n + 1):
            chance = filters.basic_probability(degree, n)
            assert weights.weight(degree, n) == n * chance


@pytest.mark.parametrize(
    ("n", "least", "largest"),
    # the agreement's largest fall and rise when a record comes in, over all graphs
    [(2, "-3", "1"), (3, "-11/3", "7/3"), (4, "-4", "5/3"), (5, "-21/5", "13/5")],
)
def test_the_agreement_moves_by_less_than_five_down_and_three_up(
    n: int, least: str, largest: str
) -> None:
    pairs = graphs.pairs(ADD_REMOVE, n, loops=(-1,))
    moves = [
        left - right for left, right in map(weights.agreements, map(embeddings.sides_of, pairs))
    ]
    assert (min(moves), max(moves)) == (Fraction(least), Fraction(largest))
    assert -5 < min(moves) <= -5 + Fraction(4, n)
    assert max(moves) < 3


def test_a_clique_of_which_an_eighth_does_not_know_the_record_attains_the_reach() -> None:
    """17/16 in the limit."""
    for n, share in ((40, "0.988"), (200, "0.997"), (2000, "0.9997"), (10**6, "0.9999994")):
        sides = embeddings.strangers_of_one(ADD_REMOVE, n, n // 8)
        moved = embeddings.mean_moves(sides, weights.weight)
        most = weights.reach(ADD_REMOVE, min(weights.agreements(sides)))
        assert Fraction(share) < moved / most <= 1


# --- the farthest that a mean can move ----------------------------------------------------------


def _by_linear_programming(sides: Sides) -> float:
    k, after = (np.array(sides.weights(s, weights.weight)) for s in (sides.left, sides.right))
    masses = k * sides.left / (k @ sides.left) - after * sides.right / (after @ sides.right)
    vertices = len(sides.rows)
    friends = [
        (i, j) for i, j in product(range(vertices), repeat=2) if i != j and sides.rows[i] >> j & 1
    ]
    apart = np.zeros((len(friends), vertices))
    for row, (i, j) in zip(apart, friends, strict=True):
        row[i], row[j] = 1, -1
    optimum = linprog(
        -masses, apart, np.ones(len(friends)), bounds=[(0, 0)] + [(-9, 9)] * (vertices - 1)
    )
    assert optimum.fun is not None
    return -float(optimum.fun)


@pytest.mark.parametrize("adjacency", Adjacency)
def test_the_farthest_move_is_that_of_linear_programming(adjacency: Adjacency) -> None:
    """Compare on small graphs and block graphs above the gate, to its precision."""
    cases = 0
    random_ones = embeddings.random_blocks(adjacency, 7, 60, 4, 40)
    for sides in (*weights.small(adjacency, 4), *random_ones):
        if min(weights.agreements(sides)) >= weights.LEAST[adjacency]:
            exact = embeddings.mean_moves(sides, weights.weight)
            assert float(exact) == pytest.approx(_by_linear_programming(sides), abs=1e-9)
            cases += 1
    assert cases >= 20


def test_records_in_the_plane_move_no_further() -> None:
    """Random points, and duplicates, in three norms: the move itself, with a fixed seed."""
    rng, cases = np.random.default_rng(5), 0
    for order, n in product((1, 2, np.inf), (5, 12, 30)):
        for _ in range(60):
            points = rng.integers(-40, 41, size=(n, 2)) * rng.choice([1, 2, 3])
            points[rng.integers(n, size=n // 4)] = points[0]
            apart = np.linalg.norm(points[:, None] - points[None], ord=order, axis=2)
            degrees = [(apart[:m, :m] <= 100).sum(axis=1).tolist() for m in (n, n - 1)]
            least = min(weights.exact_agreement(sum(weights.weights(d)), len(d)) for d in degrees)
            if least < weights.LEAST[ADD_REMOVE]:
                continue
            means = [
                np.array(weights.weighted_mean(points[: len(d)].tolist(), d), dtype=float)
                for d in degrees
            ]
            moved = np.linalg.norm(means[0] - means[1], ord=order) / 100
            assert moved <= float(weights.reach(ADD_REMOVE, least)) + 1e-12
            cases += 1
    assert cases >= 100


# --- a search -----------------------------------------------------------------------------------


def _changed(sides: Sides, rng: random.Random) -> Sides:
    """Return another edge, or records that move from one block to another."""
    rows, left, right = list(sides.rows), list(sides.left), list(sides.right)
    i, k = rng.sample(range(len(rows)), 2)
    if rng.random() < 0.4:
        rows[i] ^= 1 << k
        rows[k] ^= 1 << i
    elif max(i, k) < sides.others:
        some = min(left[i] - 1, 1 + int(rng.expovariate(8 / sum(left))))
        for sizes in (left, right):
            sizes[i], sizes[k] = sizes[i] - some, sizes[k] + some
    return Sides(tuple(rows), tuple(left), tuple(right))


def _share(sides: Sides, own: embeddings.Weight = weights.weight) -> Fraction:
    """Return the move as a share of the claimed one; -1 below the gate."""
    adjacency = ADD_REMOVE if len(sides.rows) == sides.others + 1 else REPLACE
    least = min(weights.agreements(sides, own))
    if least < weights.LEAST[adjacency]:
        return Fraction(-1)
    return embeddings.mean_moves(sides, own) / weights.reach(adjacency, least)


def _climb(
    adjacency: Adjacency, n: int, steps: int, own: embeddings.Weight = weights.weight
) -> Iterator[Fraction]:
    rng = random.Random(n)
    for start in embeddings.random_blocks(adjacency, n, n, 3, 4):
        best, share = start, _share(start, own)
        for _ in range(steps):
            other = _changed(best, rng)
            other_share = _share(other, own)
            if other_share >= share:
                best, share = other, other_share
        yield share


@pytest.mark.parametrize(
    ("adjacency", "n", "share"),
    [(ADD_REMOVE, 41, "0.95"), (ADD_REMOVE, 200, "0.99"), (REPLACE, 100, "0.9")],
)
def test_climbing_comes_near_the_claim_and_never_beyond(
    adjacency: Adjacency, n: int, share: str
) -> None:
    """Exact ratios, a fixed seed."""
    shares = list(_climb(adjacency, n, 250 if adjacency is ADD_REMOVE else 100))
    assert Fraction(share) <= max(shares) <= 1


# --- planted faults -----------------------------------------------------------------------------

_MUTANTS: dict[str, embeddings.Weight] = {
    "hard": lambda degree, n: n if 2 * degree > n else 0,
    "a square root": lambda degree, n: int((n * max(0, 2 * degree - n)) ** 0.5),
    "in full from three quarters on": lambda degree, n: min(n, 2 * max(0, 2 * degree - n)),
}


@pytest.mark.parametrize("name", _MUTANTS)
def test_wrong_weights_move_the_mean_too_far(name: str) -> None:
    with pytest.raises(ObligationFailed, match="radii, claimed"):
        degree_weights.obligation_reach(own=_MUTANTS[name])


def test_wrong_weights_break_the_identity() -> None:
    for own in _MUTANTS.values():
        with pytest.raises(ObligationFailed):
            weight_steps.obligation_identity(own=own)


def test_the_sum_of_weights_alone_is_no_agreement() -> None:
    """Two halves with a bridge of few records: W is small, and the mean moves by more than
    2 / W."""
    with pytest.raises(ObligationFailed, match="radii, claimed"):
        degree_weights.obligation_reach(statistic=lambda total, n: Fraction(total, max(n, 1)))


def test_the_noisy_agreement_itself_is_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(weighted_releases, "taken_off", lambda release: 0)
    with pytest.raises(ObligationFailed):
        weighted_releases.obligation_composition(rare=Fraction(1, 10**6))
