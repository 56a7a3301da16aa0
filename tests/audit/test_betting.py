"""Bets: fair under the claim, right arithmetic, bounds that stop at the first claim not refuted."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpverify.audit.betting import (
    Bet,
    Tally,
    Wealth,
    bet_on,
    largest_parameter,
    log_growth,
    parameter_at,
    payoffs_of,
    stakes_for,
)
from dpverify.privacy import GaussianDP, ZeroConcentratedDP

POINTS = [(0.0, 0.0), (0.5, 0.1), (1.0, 0.0), (1.0, 1e-5), (5.0, 0.01), (40.0, 0.0)]


def _payoffs(epsilon: float, delta: float) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    return payoffs_of(np.array([epsilon]), np.array([delta]))


@pytest.mark.parametrize(("epsilon", "delta"), POINTS)
def test_no_bet_wins_on_average_under_the_claim(epsilon: float, delta: float) -> None:
    """Bound the mean growth by 1, for every event on the boundary of the claim and every stake."""
    payoffs = _payoffs(epsilon, delta)[:, 0]
    for q in (0.0, 1e-6, 0.1, 0.3, 0.9, 1.0):
        p = min(1.0, math.exp(epsilon) * q + delta)
        chances = np.array([p * q, p * (1 - q), (1 - p) * q, (1 - p) * (1 - q)])
        assert chances @ payoffs <= 1e-12
        # the twin that forgets delta, or e^epsilon, would win
        if 0 < p < 1:
            assert chances @ (payoffs + 0.01) > 0


@pytest.mark.parametrize(("epsilon", "delta"), POINTS)
def test_no_stake_can_lose_everything(epsilon: float, delta: float) -> None:
    payoffs = _payoffs(epsilon, delta)
    for p, q in ((1.0, 0.0), (0.9, 0.01), (0.5, 0.5), (0.0, 1.0), (0.008, 0.0)):
        stake = stakes_for(payoffs, p, q)
        assert 0 <= stake[0] < 1 / (math.exp(epsilon) + delta)
        assert np.all(1 + stake * payoffs > 0)
        wins = p > math.exp(epsilon) * q + delta
        assert (stake[0] > 0) == wins


def test_growth_is_the_product_rounded_down() -> None:
    tally = Tally(3, 40, 7, 200)
    payoffs = _payoffs(1.0, 0.01)
    stake = np.array([0.2])
    exact = sum(
        count * math.log1p(0.2 * payoff)
        for count, payoff in zip((3, 40, 7, 200), payoffs[:, 0], strict=True)
    )
    grown = float(log_growth(payoffs, stake, tally)[0])
    assert exact - 1e-9 < grown < exact
    bet = Bet("p", "left over right", "e", 1.0, 0.01, 0.2, tally)
    assert bet.log_growth == grown


def test_a_tally_pairs_draws_in_order() -> None:
    own = np.array([True, True, False, False, True])
    other = np.array([True, False, True, False, False])
    assert Tally.of(own, other) == Tally(1, 2, 1, 1)


def test_the_bound_stops_at_the_first_claim_that_stands() -> None:
    wealth = Wealth(
        np.array([0.0, 0.5, 1.0, 1.5]), 0.0, np.zeros(4), np.array([9.0, 9.0, 1.0, 9.0])
    )
    assert wealth.bound(0.05) == 0.5
    assert wealth.bound(1e-9) == -math.inf


def test_the_claim_itself_is_on_the_grid() -> None:
    for claimed in (0.0, 0.3, 1.0, 12.0):
        wealth = Wealth.on(claimed, 0.0)
        assert claimed in wealth.epsilons
        assert np.all(np.diff(wealth.epsilons) > 0)


def test_wealth_refutes_what_is_false_and_not_what_is_true() -> None:
    """A ratio of e^1.5 on 4000 pairs. The claim 1.5 is true: alarm at most 1e-3; seed fixed."""
    rng = np.random.default_rng(3)
    p, q = 0.5, 0.5 * math.exp(-1.5)
    wealth = Wealth.on(1.5, 0.0)
    hits, other_hits, seen = 5, 2, 20
    for _ in range(80):
        own, other = rng.random(50) < p, rng.random(50) < q
        bet_on([wealth], hits / seen, other_hits / seen, Tally.of(own, other))
        hits, other_hits = hits + int(own.sum()), other_hits + int(other.sum())
        seen += 50
    assert 1.1 < wealth.bound(1e-3) < 1.5


def test_bets_of_several_wealths_are_those_of_each() -> None:
    given = [(1.5, 0.0), (0.7, 0.01)]
    together, alone = ([Wealth.on(*one) for one in given] for _ in range(2))
    for tally in (Tally(3, 30, 4, 20), Tally(0, 9, 9, 40)):
        bet_on(together, 0.5, 0.1, tally)
        for wealth in alone:
            bet_on([wealth], 0.5, 0.1, tally)
    for one, other in zip(together, alone, strict=True):
        assert one.peak.any()
        assert np.array_equal(one.log_wealth, other.log_wealth)
        assert np.array_equal(one.peak, other.peak)


@pytest.mark.parametrize("kind", [GaussianDP, ZeroConcentratedDP])
def test_a_parameter_from_a_point_of_the_profile(kind: Any) -> None:
    for value in (0.2, 1.0, 4.0):
        for epsilon in (0.0, 0.5, 2.0):
            delta = float(kind(Fraction(value)).delta_at(Fraction(epsilon)).lower)
            assert value * 0.999 <= parameter_at(kind, epsilon, delta) <= value
    assert parameter_at(kind, 1.0, 0.0) == parameter_at(kind, -math.inf, 0.5) == 0.0
    points = [(0.5, 0.1), (1.0, 0.3), (0.0, 0.2), (1.0, 0.0)]
    largest = max(parameter_at(kind, *point) for point in points)
    assert largest == largest_parameter(kind, points) == largest_parameter(kind, points[::-1])
    assert largest_parameter(kind, points[3:]) == 0.0
