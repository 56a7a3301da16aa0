"""Odds that a pure claim holds: fitted as what rises no further than it allows."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from dpverify.audit.witnesses.calibrating import fitted_odds
from dpverify.audit.witnesses.promises import Task
from dpverify.audit.witnesses.thresholds import best_thresholds, curve_of, moved
from dpverify.privacy.numbers import Floats

DRAWS, LEFT, EPSILON = 16_667, 60_000, 0.1
RANKS = (np.arange(100_000) + 0.5) / 100_000


def densities(width: float) -> tuple[Floats, Floats]:
    """Return both densities along the ranks of a score: the logarithm of their ratio rises from
    -EPSILON to EPSILON within so much of them on either side of the median."""
    odds = np.clip(EPSILON * (RANKS - 0.5) / width, -EPSILON, EPSILON)
    both = np.stack([1 / (1 + np.exp(-odds)), 1 / (1 + np.exp(odds))])
    own, other = both / both.mean(axis=1, keepdims=True)
    return own, other


def scores(width: float, seed: int) -> tuple[Floats, Floats]:
    """Draw normal scores of both sides, in order."""
    rng = np.random.default_rng(seed)
    drawn = (
        np.interp(rng.random(DRAWS), np.cumsum(side) / len(RANKS), RANKS)
        for side in densities(width)
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
    """Average over 40 fixed seeds: .95 to .98 of the best threshold's bound; along a line alone .71
    to .87, of events as rare as .04."""
    best = max(bound(width, at, alpha) for at in np.linspace(-1, 2, 61))
    task, shown = Task([(EPSILON, 0.0)], alpha, LEFT), []
    for seed in range(40):
        own, other = scores(width, seed)
        chosen, _ = best_thresholds(own, other, task)
        there, _ = moved(chosen, own, other, task, curve_of(own, other, task))
        shown.append(bound(width, there.threshold, alpha) / best)
    assert float(np.mean(shown)) > 0.93


def test_a_curve_is_held_where_that_is_likelier() -> None:
    """Fixed seeds: odds at the claim are held in most of 20 samples, and nowhere larger than it;
    those of normal scores, which rise to far more, in none."""
    held = [fitted_odds(*scores(0.1, seed), most=EPSILON) for seed in range(20)]
    curves = [curve.held for curve in held if curve is not None and curve.held is not None]
    assert len(curves) >= 15
    for curve in curves:
        assert (curve.hits <= math.exp(EPSILON) * curve.other_hits * (1 + 1e-9)).all()
        assert (curve.low_hits <= curve.hits * (1 + 1e-9)).all()
    for seed in range(20):
        rng = np.random.default_rng(seed)
        far = fitted_odds(rng.normal(0.3, 1, DRAWS), rng.normal(0, 1, DRAWS), most=EPSILON)
        assert far is None or far.held is None


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


def test_a_loose_claim_changes_nothing() -> None:
    """Exact: under a claim of 1e300 the curve is the line itself."""
    own, other = scores(0.5, 1)
    line, curve = fitted_odds(own, other), fitted_odds(own, other, most=1e300)
    assert line is not None
    assert curve is not None
    assert np.array_equal(line.hits, curve.hits)
    assert curve.held is None or np.allclose(curve.held.hits, line.hits, rtol=1e-6)


@pytest.mark.parametrize("most", [5e-324, 1e-300, 1e-12, 1.0, 1e308])
@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_the_fit_is_finite_for_all_claims_and_scores(most: float, scale: float) -> None:
    """Warnings are errors here."""
    rng = np.random.default_rng(0)
    own, other = scale * rng.normal(0.3, 1, 3000), scale * rng.normal(0, 1, 3000)
    own[::3] = 0.0  # a score of many draws, with odds of its own
    for sides in ((own, other), (own[1::3], other[1::3])):
        curve = fitted_odds(*sides, most=most)
        for one in (curve, curve and curve.held):
            if one is not None:
                assert np.isfinite([one.hits, one.other_hits, one.low_hits]).all()
