"""Odds that a pure claim holds: fitted as what rises no further than it allows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpverify.audit.witnesses.calibrating import fitted_odds
from dpverify.audit.witnesses.promises import Task, above_claimed
from dpverify.audit.witnesses.saturating import held_odds
from dpverify.audit.witnesses.thresholds import best_thresholds, curve_of, moved
from dpverify.privacy.numbers import Floats

DRAWS, LEFT, EPSILON = 16_667, 60_000, 0.1
RANKS = (np.arange(100_000) + 0.5) / 100_000


def densities(width: float, epsilon: float = EPSILON) -> tuple[Floats, Floats]:
    """Return both densities along the ranks of a score: the logarithm of their ratio rises from
    -epsilon to epsilon within so much of them on either side of the median."""
    odds = np.clip(epsilon * (RANKS - 0.5) / width, -epsilon, epsilon)
    both = np.stack([1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))])
    own, other = both / both.mean(axis=1, keepdims=True)
    return own, other


def scores(width: float, seed: int, epsilon: float = EPSILON) -> tuple[Floats, Floats]:
    """Draw normal scores of both sides, in order."""
    rng = np.random.default_rng(seed)
    drawn = (
        np.interp(rng.random(DRAWS), np.cumsum(side) / len(RANKS), RANKS)
        for side in densities(width, epsilon)
    )
    own, other = (np.sort(ndtri(one)) for one in drawn)
    return own, other


def bound(width: float, threshold: float, alpha: float) -> float:
    """Return the bound to be expected of an event of so many draws."""
    p, q = (float(side[ndtr(threshold) <= RANKS].sum()) / len(RANKS) for side in densities(width))
    error = math.sqrt(((1 - p) / p + (1 - q) / q) / LEFT)
    return max(0.0, math.log(p / q) + float(ndtri(alpha)) * error)


@pytest.mark.parametrize(("width", "alpha"), [(0.1, 0.045), (0.1, 9e-7), (0.3, 0.045), (0.3, 9e-7)])
def test_thresholds_of_odds_that_a_claim_holds_are_no_rarer_than_need_be(
    width: float, alpha: float
) -> None:
    """Average over 40 fixed seeds: .89 to .94 of the best threshold's bound; along a line alone .71
    to .87, of events as rare as .04."""
    best = max(bound(width, at, alpha) for at in np.linspace(-1, 2, 61))
    task, shown = Task([(EPSILON, 0.0)], alpha, LEFT), []
    for seed in range(40):
        own, other = scores(width, seed)
        chosen, _ = best_thresholds(own, other, task)
        there, _ = moved(chosen, own, other, task, curve_of(own, other, task))
        shown.append(bound(width, there.threshold, alpha) / best)
    assert float(np.mean(shown)) > 0.88


def test_a_curve_is_held_where_that_is_likelier() -> None:
    """Fixed seeds: odds at the claim are held in most of 20 samples, and nowhere larger than it;
    those of normal scores, which rise to far more, in none, nor under a loose claim."""
    held, fitted = [], 0
    for seed in range(20):
        curve = fitted_odds(*scores(0.1, seed), most=EPSILON)
        held += [] if curve is None or curve.held is None else [curve.held]
        rng = np.random.default_rng(seed)
        normal = rng.normal(0.3, 1, DRAWS), rng.normal(0, 1, DRAWS)
        for most in (EPSILON, 5.0):
            far = fitted_odds(*normal, most=most)
            fitted += far is not None
            assert far is None or far.held is None
    assert len(held) >= 15
    assert fitted >= 30
    for hits, others in held:
        assert (hits <= math.exp(EPSILON) * others * (1 + 1e-9)).all()


def test_sides_of_different_sizes_are_held_alike() -> None:
    """Odds at the claim, of half as many draws on the left: what is held is near the claim at the
    median, on average over ten fixed seeds."""
    held = []
    for seed in range(10):
        own, other = scores(0.1, seed)[0], scores(0.1, 100 + seed)[1]
        own = np.sort(np.random.default_rng(seed).choice(own, DRAWS // 2, replace=False))
        curve = fitted_odds(own, other, most=EPSILON)
        if curve is not None and curve.held is not None:
            middle = int(np.argmin(np.abs(curve.thresholds)))
            own_share, other_share = curve.held[0] / len(own), curve.held[1] / len(other)
            held.append(math.log(own_share[middle] / other_share[middle]))
    assert len(held) >= 5
    assert np.mean(held) == pytest.approx(EPSILON, rel=0.15)


def test_a_curve_that_is_held_makes_a_score_as_likely_as_it_does() -> None:
    """Exact: contenders are compared by the likelier of both curves; more than a line's."""
    gains = []
    for seed in range(5):
        own, other = scores(0.1, seed)
        line, curve = fitted_odds(own, other), fitted_odds(own, other, most=EPSILON)
        assert line is not None
        assert curve is not None
        assert curve.held is not None
        gains.append(curve.likely - line.likely)
    assert min(gains) >= 0
    assert max(gains) > 1


def test_odds_that_no_curve_follows_have_none() -> None:
    """A step, as high as the claim, and ten waves upon it: refused by far in all of 6 samples."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        ranks = rng.random(2 * DRAWS)
        odds = 0.3 * np.sin(20 * math.pi * ranks) + 0.8 * np.sign(ranks - 0.5)
        own = rng.random(2 * DRAWS) < 1 / (1 + np.exp(-odds))
        assert fitted_odds(ranks[own], ranks[~own], most=0.8) is None


def test_only_a_pure_claim_that_is_not_to_be_refuted_holds_odds() -> None:
    own, other = scores(0.1, 0)
    tasks = [
        Task([(EPSILON, 0.0)], 0.045, LEFT),
        Task([(EPSILON, 1e-6)], 0.045, LEFT),
        Task([(EPSILON, 0.0)], 0.045, LEFT, refute=True),
    ]
    curves = [curve_of(own, other, task) for task in tasks]
    assert [curve is not None and curve.held is not None for curve in curves] == [
        True,
        False,
        False,
    ]


@pytest.mark.parametrize(
    ("seed", "promise", "held"),
    [(3, -0.1, True), (3, 0.001, False), (0, -0.1, False)],
)
def test_no_odds_are_held_of_what_may_refute(seed: int, promise: float, held: bool) -> None:
    """Exact: a refutation is promised, or (seed 0) an event is 2.6 standard errors above the claim;
    of seed 3 none is 1.2. What is held is worth as much as counts are: one and a half standard
    errors less."""
    own, other = scores(0.1, seed)
    task = Task([(EPSILON, 0.0)], 0.045, LEFT)
    curve, line = curve_of(own, other, task), fitted_odds(own, other)
    assert curve is not None
    assert curve.held is not None
    chosen, _ = best_thresholds(own, other, task)
    rare = replace(chosen, threshold=2.0, promise=promise)
    best, worth = moved(rare, own, other, task, curve)
    assert (best.threshold == moved(rare, own, other, task, line)[0].threshold) is not held
    if held:
        at = int(np.flatnonzero(curve.thresholds == best.threshold)[0])
        counts = curve.held[0][at : at + 1], DRAWS, curve.held[1][at : at + 1], DRAWS
        assert worth == above_claimed(*counts, task, power=0.0, optimism=1.5)[0, 0]


@pytest.mark.parametrize("most", [5e-324, 1e-300, 1e-12, 1.0, 1e3, 1e308])
@pytest.mark.parametrize("apart", [False, True])
def test_the_fit_is_finite_for_all_claims(most: float, apart: bool) -> None:
    """Warnings are errors here. Some levels have few draws, of one side only; one has odds of its
    own, which are not held."""
    levels = np.linspace(-3, 3, 9)
    both = np.array([1.0, 30, 40, 1e5, 1e6, 1e5, 40, 30, 1])
    hits = np.array([0.0, 0, 10, 4e4, 5e5, 6e4, 40, 30, 1])
    alone = (np.arange(9) == 3).astype(np.float64)
    basis = np.column_stack([np.ones(9), levels, *([alone] if apart else [])])
    own = np.array([3] if apart else [], np.intp)
    even = 0.25
    odds, likely = held_odds(basis, np.zeros(basis.shape[1]), hits, both, own, most, even)
    assert np.isfinite(odds).all()
    assert math.isfinite(likely)
    others = np.delete(odds, own)
    assert (np.abs(others - even) <= most * (1 + 1e-12) + 1e-15).all()
    if apart:
        assert odds[3] == pytest.approx(math.log(4e4 / 6e4), abs=1e-3)
