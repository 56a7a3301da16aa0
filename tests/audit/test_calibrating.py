"""Odds exponential in a score: what is expected beyond each threshold, and when that is not
believed."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from dpverify.audit.outputs.laws import encode
from dpverify.audit.witnesses.calibrating import fitted_odds
from dpverify.audit.witnesses.choosing import choose
from dpverify.audit.witnesses.features import Candidate, number
from dpverify.audit.witnesses.promises import Task
from dpverify.privacy.numbers import Floats

SHIFT, DRAWS = 0.3, 20_000


def gaussians(seed: int) -> tuple[Floats, Floats]:
    """Return two samples whose log-odds are linear: SHIFT z and a constant."""
    rng = np.random.default_rng([20, seed])
    return rng.normal(SHIFT, 1, DRAWS), rng.normal(0, 1, DRAWS)


def test_the_expected_hits_are_those_of_the_laws() -> None:
    """Compare where 20 and more are expected. Two fitted numbers have errors of .007 and .01
    times the score, so of 3% at a score of 3; 6 such errors have probability 1e-8."""
    curve = fitted_odds(*gaussians(0))
    assert curve is not None
    for hits, shift in ((curve.hits, SHIFT), (curve.other_hits, 0.0)):
        exact = DRAWS * ndtr(shift - curve.thresholds)
        there = exact > 20
        assert there.sum() > 20
        # the pooled number beyond a threshold is not smoothed: its own error comes besides
        slack = 0.18 * exact + 6 * np.sqrt(exact)
        assert (np.abs(hits - exact) <= slack)[there].all()


def test_a_ratio_of_tails_is_much_better_known_than_by_counting() -> None:
    """Errors of the log-ratio where 100 hits are expected: by counting about .14 each, here
    below a third of that, over 20 samples; the mean square of 20 is within a factor of 3 but for
    1e-6."""
    threshold = 2.6
    exact = math.log(ndtr(SHIFT - threshold) / ndtr(-threshold))
    fitted, counted = [], []
    for seed in range(20):
        own, other = gaussians(seed)
        curve = fitted_odds(own, other)
        if curve is None:  # one in a hundred
            continue
        at = int(np.argmin(np.abs(curve.thresholds - threshold)))
        near = curve.thresholds[at]
        true = math.log(ndtr(SHIFT - near) / ndtr(-near))
        fitted.append(math.log(curve.hits[at] / curve.other_hits[at]) - true)
        hits = np.count_nonzero(own >= threshold), np.count_nonzero(other >= threshold)
        counted.append(math.log(hits[0] / hits[1]) - exact)
    assert len(fitted) >= 17
    assert np.mean(np.square(fitted)) < np.mean(np.square(counted)) / 9


def test_it_is_refused_hardly_more_often_than_it_says() -> None:
    """Allow at most the 99.9% binomial limit of 300 at 1%; chi-square is near enough with 60
    draws a level."""
    refused = sum(fitted_odds(*gaussians(seed)) is None for seed in range(1000, 1300))
    assert refused <= binom.ppf(0.999, 300, 0.01)


def test_odds_that_are_flat_up_to_a_kink_are_refused() -> None:
    """Odds of e^(1/2) below 0 and of 1 above: chi-square is 212 with 46 degrees of freedom."""
    rng = np.random.default_rng(7)
    own, other = rng.normal(0, 1, DRAWS), rng.normal(0, 1, 2 * DRAWS)
    keep = rng.random(2 * DRAWS) < np.where(other < 0, math.exp(-0.5), 1.0)
    assert fitted_odds(-own, -other[keep][:DRAWS]) is None


@pytest.mark.parametrize(
    ("own", "other"),
    [
        (np.zeros(1000), np.zeros(1000)),
        (np.array([np.inf] + [0.0] * 999), np.arange(1000.0)),
        (np.arange(1000.0), np.zeros(0)),
        (np.arange(30.0), np.arange(30.0)),
    ],
    ids=["one score", "an infinite score", "no draws", "too few"],
)
def test_where_there_is_no_curve(own: Floats, other: Floats) -> None:
    assert fitted_odds(own, other) is None


def test_the_chosen_threshold_is_nearly_the_best() -> None:
    """A Gaussian shift against a pure epsilon of .1: of 20 samples the bound that is to be
    expected of the chosen event is within .02 of the best threshold's but for one (by counting
    alone in two)."""
    later, spread = 100_000, 1.645
    grid = np.linspace(-1, 3.5, 1000)

    def bound(threshold: Floats) -> Floats:
        p, q = ndtr(SHIFT - threshold), ndtr(-threshold)
        bounds: Floats = np.log(p / q) - spread * np.sqrt((1 / p + 1 / q - 2) / later)
        return bounds

    near = 0
    for seed in range(20):
        sides = [encode(side) for side in gaussians(seed)]
        candidate = Candidate("number 0 >= {threshold}", number(0), True, fitted=False)
        task = Task([(0.1, 0.0)], 0.05, later)
        witness, _ = choose([sides[0]], [sides[1]], [candidate], task)
        near += bool(bound(np.array(witness.threshold)) > bound(grid).max() - 0.02)
    assert near >= 19


def test_of_a_profile_too_the_threshold_is_nearly_the_best() -> None:
    """A Gaussian shift against mu = .95 of it: of 20 samples the standard errors that the chosen
    event shows at the chosen point are, but for two, within 5% of the most that any shows (by
    counting alone in 4)."""
    mu, size, near = 0.95 * SHIFT, 20_000, 0
    points = [(x, float(ndtr(mu / 2 - x / mu) - math.exp(x) * ndtr(-mu / 2 - x / mu)))
              for x in np.linspace(0, 1.5, 61).tolist()]  # fmt: skip

    def shown(threshold: float | Floats, point: tuple[float, float]) -> Floats:
        p, q, factor = ndtr(SHIFT - threshold), ndtr(-np.asarray(threshold)), math.exp(point[0])
        score: Floats = (p - factor * q - point[1]) / np.sqrt(p * (1 - p) + factor**2 * q * (1 - q))
        return score

    most = max(float(shown(np.linspace(-1, 3.5, 1000), point).max()) for point in points)
    for seed in range(20):
        rng = np.random.default_rng([5, seed])
        sides = encode(rng.normal(SHIFT, 1, size)), encode(rng.normal(0, 1, size))
        candidate = Candidate("number 0 >= {threshold}", number(0), True, fitted=False)
        witness, _ = choose([sides[0]], [sides[1]], [candidate], Task(points, 0.05, 100_000))
        near += bool(shown(witness.threshold, witness.aim.point) > 0.95 * most)
    assert near >= 18


def test_scores_at_the_ends_of_the_floats_have_no_curve_and_raise_no_warning() -> None:
    """Their sums are infinite, or all 0; warnings are errors here."""
    rng = np.random.default_rng(8)
    for scale in (1e308, 1e200, 5e-324):
        own, other = (scale * np.rint(rng.normal(side, 1, 1000) / 4) for side in (1, 0))
        curve = fitted_odds(own, other)
        assert curve is None or np.isfinite(curve.hits).all()
    assert fitted_odds(np.full(500, 1e308) * rng.random(500), 1e308 * rng.random(500)) is None
