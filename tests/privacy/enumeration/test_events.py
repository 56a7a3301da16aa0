"""Rare events and thresholded histograms: whole mechanisms on small graphs of datasets."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest
from flint import arb

from dpverify.privacy import Adjacency, ApproxDP, Norm
from dpverify.privacy.balls import ball

from . import laws, premises
from .graph import ROUNDING, Law, Mechanism, edges, grid, judge, moved

ADD_REMOVE, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
PAIRS = edges(ADD_REMOVE, (0, 1), 3)
NODES = sorted({node for pair in PAIRS for node in pair})
ONE, TWO = Fraction(1), Fraction(2)
TOLD = Fraction(1, 20)


def ones(data: Sequence[int]) -> tuple[int]:
    """Count the ones."""
    return (sum(data),)


# --- events of the output -----------------------------------------------------------------------


def _noisy(kind: str, number: int) -> Law:
    if kind == "Gaussian":
        return laws.rounded_gaussian(number, TWO)
    return laws.laplace(number, ONE, 0, 3)


def _telling(kind: str, *, shown: bool) -> Mechanism:
    """Release the count with noise; one time in twenty tell it, or say that it would be told."""

    @cache
    def of(number: int) -> Law:
        masses = {o: m * ball(1 - TOLD) for o, m in _noisy(kind, number).items()}
        return masses | {("told", number if shown else None): ball(TOLD)}

    return lambda data: of(sum(data))


def _told(law: Law) -> arb:
    return sum((m for o, m in law.items() if isinstance(o, tuple)), arb(0))


@pytest.mark.parametrize("kind", ["Laplace", "shift", "Gaussian"])
def test_add_delta_event(kind: str) -> None:
    """Judge the claim with the event's outputs hidden, the conclusion with them shown."""
    if kind == "Gaussian":
        moves = moved(ones, PAIRS, Norm.SQUARED_L2)
        inner = premises.rounded_gaussian(moves, TWO, ADD_REMOVE)
    else:
        moves = moved(ones, PAIRS, Norm.L1)
        inner = premises.discrete_laplace(moves, ONE, ADD_REMOVE, exact=kind == "shift")
    hidden, shown = (_telling(kind, shown=told) for told in (False, True))
    assert judge(hidden, PAIRS, inner, grid(1)).holds
    most = max(float((_told(shown(node)) - ball(TOLD)).upper()) for node in NODES)
    assert most < ROUNDING
    claim = premises.add_delta_event(inner, ADD_REMOVE, TOLD)
    verdict = judge(shown, PAIRS, claim, grid(1, 4))
    assert verdict.holds
    assert verdict.share > 1 - 1e-12


@cache
def _turned(truth: bool, chance: Fraction) -> Law:
    """Say whether there is a one, e times as likely truly; some lies turned into truths by
    hidden coins."""
    law = laws.coin(ONE, truth, not truth)
    part = ball(chance)
    return {truth: law[truth] + part, (not truth): law[not truth] - part}


def _answer(chance: Fraction) -> Mechanism:
    return lambda data: _turned(1 in data, chance)


def test_add_delta_event_twin_hidden_in_the_coins() -> None:
    """Catch an event that no output decides, priced as one of the output."""
    pure = premises.randomized_response(1, ONE, ADD_REMOVE)
    assert judge(_answer(Fraction(0)), PAIRS, pure, grid(1)).holds
    claim = premises.add_delta_event(pure, ADD_REMOVE, TOLD)
    assert judge(_answer(TOLD), PAIRS, claim, grid(1)).surely > 0.13


def test_add_total_variation_event() -> None:
    """Enumerate the same answers: both laws of a pair move away from each other."""
    pure = premises.randomized_response(1, ONE, ADD_REMOVE)
    claim = premises.add_total_variation_event(pure, ADD_REMOVE, TOLD)
    verdict = judge(_answer(TOLD), PAIRS, claim, grid(1, 4))
    assert verdict.holds
    assert verdict.share > 1 - 1e-12


def test_add_total_variation_event_twin_half_of_the_nodes() -> None:
    """Catch a probability that holds of datasets without a one only."""

    def law(data: Sequence[int]) -> Law:
        return _turned(1 in data, 4 * TOLD if 1 in data else TOLD)

    pure = premises.randomized_response(1, ONE, ADD_REMOVE)
    claim = premises.add_total_variation_event(pure, ADD_REMOVE, TOLD)
    assert judge(law, PAIRS, claim, grid(1)).surely > 0.1


# --- histograms ---------------------------------------------------------------------------------

Counts = tuple[int, ...]


def _laplace_key(count: int, threshold: int) -> Law:
    """Release a noisy count that reaches the threshold; what is below is one outcome, hidden."""
    if not count:
        return laws.point(threshold - 1)
    return laws.laplace(count, ONE, threshold - 1, threshold + 2)


def _gaussian_key(count: int, threshold: int) -> Law:
    return laws.shown_gaussian(count, ONE, threshold) if count else laws.point(threshold - 1)


def _histogram(key: Any, counts_of: Any, threshold: int) -> Mechanism:
    @cache
    def of(counts: Counts) -> Law:
        return laws.together([key(count, threshold) for count in counts])

    return lambda data: of(counts_of(data))


def _counted(width: int) -> Any:
    """Count the records that have each key."""
    return lambda data: tuple(sum(column) for column in zip((0,) * width, *data, strict=True))


def _records(width: int, most: int) -> tuple[Counts, ...]:
    """List records of one to ``most`` keys, each once."""
    every = product((0, 1), repeat=width)
    return tuple(record for record in every if 1 <= sum(record) <= most)


def _keys(width: int, universe: tuple[Counts, ...]) -> int:
    """Count the keys that a record touches, each by one count at most."""
    pairs = edges(ADD_REMOVE, universe, 2)
    assert moved(_counted(width), pairs, Norm.L_INFINITY) == 1
    return moved(_counted(width), pairs, Norm.L1)


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("most", [1, 2])
def test_stability_histogram(most: int, adjacency: Adjacency) -> None:
    """Enumerate three keys and at most three records; a threshold that every count may reach."""
    universe = _records(3, most)
    pairs = edges(adjacency, universe, 3)
    keys = _keys(3, universe)
    assert keys == most
    claim = premises.stability_histogram(keys, Norm.KEYS, adjacency, scale=ONE, threshold=2)
    law = _histogram(_laplace_key, _counted(3), 2)
    verdict = judge(law, pairs, claim, grid(keys, 2 * keys, 9))
    assert verdict.holds
    assert verdict.share > 1 - 1e-12


@pytest.mark.parametrize("adjacency", Adjacency)
@pytest.mark.parametrize("most", [1, 2])
def test_gaussian_stability_histogram(most: int, adjacency: Adjacency) -> None:
    """Enumerate two keys, too few for two lonely ones and a replacement elsewhere, and three
    records."""
    universe = _records(2, most)
    pairs = edges(adjacency, universe, 3)
    keys = _keys(2, universe)
    assert keys == most
    claim = premises.gaussian_stability_histogram(
        keys, Norm.KEYS, adjacency, sigma=ONE, threshold=3
    )
    law = _histogram(_gaussian_key, _counted(2), 3)
    verdict = judge(law, pairs, claim, grid(2, 20))
    assert verdict.holds
    assert verdict.share > (0.5 if (most, adjacency) == (2, REPLACE) else 0.99)


VOTES: tuple[tuple[int, int], ...] = tuple((a, b) for a in range(3) for b in range(3))
"""A record votes for two of three keys, or twice for one."""


def _votes(data: Sequence[tuple[int, int]]) -> Counts:
    return tuple(sum(vote == key for row in data for vote in row) for key in range(3))


def _moving_votes() -> tuple[Any, int]:
    """List all pairs of two records, four votes, and count the votes that go to other keys."""
    pairs = [pair for pair in edges(REPLACE, VOTES, 2) if len(pair[0]) == 2]
    assert {sum(_votes(data)) for pair in pairs for data in pair} == {4}
    return pairs, moved(_votes, pairs, Norm.L1) // 2


def test_histograms_of_moving_votes() -> None:
    """Enumerate a public number of votes: two of them may meet at a key that is new."""
    pairs, moves = _moving_votes()
    assert moves == 2
    claim = premises.stability_histogram(moves, Norm.MOVED, REPLACE, scale=ONE, threshold=4)
    verdict = judge(_histogram(_laplace_key, _votes, 4), pairs, claim, grid(4, 9))
    assert verdict.holds
    assert verdict.share > 1 - 1e-12
    normal = premises.gaussian_stability_histogram(
        moves, Norm.MOVED, REPLACE, sigma=ONE, threshold=4
    )
    two = [pair for pair in pairs if all(2 not in row for data in pair for row in data)]
    law = _histogram(_gaussian_key, lambda data: _votes(data)[:2], 4)
    verdict = judge(law, two, normal, grid(4, 30))
    assert verdict.holds
    assert verdict.share > 0.9


def test_stability_histogram_twins() -> None:
    """Catch a record that counts twice at one key; votes that meet, priced as keys that cannot."""
    twice = edges(ADD_REMOVE, ((2, 0, 0), (0, 1, 0)), 2)
    claim = premises.stability_histogram(1, Norm.KEYS, ADD_REMOVE, scale=ONE, threshold=2)
    law = _histogram(_laplace_key, _counted(3), 2)
    assert judge(law, twice, claim, grid(1)).surely > 0.4
    pairs, moves = _moving_votes()
    keys = premises.stability_histogram(moves, Norm.KEYS, REPLACE, scale=ONE, threshold=4)
    assert judge(_histogram(_laplace_key, _votes, 4), pairs, keys, grid(4, 9)).surely > 0.02


def test_gaussian_stability_histogram_twins() -> None:
    """Catch the same two, and half of the delta of a key that nobody else holds."""
    law = _histogram(_gaussian_key, _counted(2), 3)
    twice = edges(ADD_REMOVE, ((2, 0), (0, 1)), 2)
    claim = premises.gaussian_stability_histogram(1, Norm.KEYS, ADD_REMOVE, sigma=ONE, threshold=3)
    assert judge(law, twice, claim, grid(4)).surely > 0.1
    part = claim.gaussian
    assert part is not None
    pure = ApproxDP(20, part.delta / 2)
    once = edges(ADD_REMOVE, _records(2, 1), 2)
    assert judge(law, once, pure, [Fraction(20)]).surely > 0.03
    pairs, moves = _moving_votes()
    keys = premises.gaussian_stability_histogram(moves, Norm.KEYS, REPLACE, sigma=ONE, threshold=4)
    two = [pair for pair in pairs if all(2 not in row for data in pair for row in data)]
    votes = _histogram(_gaussian_key, lambda data: _votes(data)[:2], 4)
    assert judge(votes, two, keys, grid(4, 20)).surely > 0.05
