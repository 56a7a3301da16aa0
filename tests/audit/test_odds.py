"""The test of the ratio of odds: by enumeration of all counts, beside scipy, and what it certifies
of rare events."""

from __future__ import annotations

import math
from functools import cache
from itertools import product

import mpmath as mp
import numpy as np
import pytest
from scipy.special import ndtr, ndtri
from scipy.stats import binom
from scipy.stats.contingency import odds_ratio

from dpverify.audit.certificates import Aim
from dpverify.audit.confidence_regions import (
    OF_ODDS,
    PARTS,
    ConfidenceRegion,
    Counted,
    _above_odds,
    confidence_region,
    score_of,
    share_of,
)
from dpverify.audit.odds import log_odds_at_least
from dpverify.audit.witnesses.promises import Task
from dpverify.audit.witnesses.thresholds import Chosen, with_share

SIZES = (13, 9)
TRUTHS = [(0.5, 0.5), (0.3, 0.1), (0.05, 0.05), (0.9, 0.2), (0.12, 0.1), (1.0, 0.2), (0.3, 0.0)]
TRUTHS.append((0.13, 0.75))  # where a guard too weak shows
ALPHA = 0.1


def probabilities(p: float, q: float) -> dict[tuple[int, int], float]:
    """Return the exact probability of each count of hits on the two sides."""
    own, other = (binom.pmf(np.arange(n + 1), n, x) for n, x in zip(SIZES, (p, q), strict=True))
    return {(i, j): own[i] * other[j] for i, j in product(*(range(n + 1) for n in SIZES))}


def missed(p: float, q: float, score: float) -> float:
    """Return how probable an end above the true ratio is."""
    truth = math.log(p * (1 - q)) - math.log(q * (1 - p)) if p < 1 and q > 0 else math.inf
    return sum(
        mass
        for (hits, others), mass in probabilities(p, q).items()
        if end_of(hits, others, score) > truth
    )


@cache  # whatever the truth
def end_of(hits: int, others: int, score: float) -> float:
    return log_odds_at_least(hits, SIZES[0], others, SIZES[1], score)


@pytest.mark.parametrize("score", [-5.0, -9.0, -20.0])
def test_ends_of_low_scores_are_those_of_the_complement(score: float) -> None:
    """Within 1e-6: of the other side's hits, by mpmath; 1 - Phi(score) has no digits there."""
    end = log_odds_at_least(15, 400, 40, 500, score)
    total, log = 55, mp.mpf(end)
    with mp.workdps(60):
        masses = [
            mp.binomial(400, k) * mp.binomial(500, total - k) * mp.exp(k * log)
            for k in range(total + 1)
        ]
        fewer = sum(masses[:15]) / sum(masses)
        assert float(mp.log(fewer)) == pytest.approx(float(mp.log(mp.ncdf(score))), abs=1e-6)


@pytest.mark.parametrize("score", [2.0, 0.8, -1.0])
def test_ends_are_above_the_truth_no_more_often_than_stated(score: float) -> None:
    """Exact, over all counts of 13 and 9 draws; for negative scores too, as blocks need them."""
    level = float(ndtr(-score))
    worst = [missed(p, q, score) for p, q in TRUTHS]
    assert max(worst) <= level
    assert max(worst) > level / 4


def test_the_enumeration_sees_an_end_of_twice_the_level() -> None:
    """Exact: the twin has the score of level 2 alpha."""
    assert max(missed(p, q, float(-ndtri(ALPHA))) for p, q in TRUTHS) <= ALPHA
    assert max(missed(p, q, float(-ndtri(2 * ALPHA))) for p, q in TRUTHS) > ALPHA


@pytest.mark.parametrize(
    ("hits", "others", "alpha"),
    [(30, 4, 0.05), (30, 0, 1e-6), (5, 5, 0.3), (12, 40, 0.01), (400, 399, 1e-3), (1, 0, 0.05)],
)
def test_ends_are_those_of_scipy(hits: int, others: int, alpha: float) -> None:
    """Within 1e-6: scipy's conditional interval, for other sizes on the two sides."""
    table = [[hits, others], [400 - hits, 500 - others]]
    interval = odds_ratio(table).confidence_interval(1 - alpha, alternative="greater")
    end = log_odds_at_least(hits, 400, others, 500, float(-ndtri(alpha)))
    assert end == pytest.approx(math.log(interval.low), abs=1e-6)


def test_no_hits_say_nothing() -> None:
    """Exact: nor do as many as all hits leave, at least."""
    assert log_odds_at_least(0, 20, 5, 20, 2.0) == -math.inf
    assert log_odds_at_least(3, 20, 20, 20, 2.0) == -math.inf


def noncoverage(p: float, q: float, alpha: float) -> float:
    """Return how probable a region without the truth is."""
    return sum(
        mass
        for (hits, others), mass in probabilities(p, q).items()
        if not np.any(
            (region_of(hits, others, alpha).lower <= p)
            & (q <= region_of(hits, others, alpha).upper)
        )
    )


@cache  # whatever the truth
def region_of(hits: int, others: int, alpha: float) -> ConfidenceRegion:
    return confidence_region(Counted(hits, SIZES[0], others, SIZES[1]), OF_ODDS, alpha)


def test_regions_leave_the_truth_out_no_more_often_than_stated() -> None:
    """Exact, over all counts; the twin is the region of level 1 - 2 alpha."""
    assert max(noncoverage(p, q, ALPHA) for p, q in TRUTHS) <= ALPHA
    assert max(noncoverage(p, q, 2 * ALPHA) for p, q in TRUTHS) > ALPHA


def test_boxes_cover_all_pairs_above_the_curve() -> None:
    """Exact: boxes one cell off leave a pair out."""
    counted, bar, guard = Counted(30, 400, 4, 500), score_of(ALPHA), 0.01 * ALPHA
    region = _above_odds(counted, bar, guard, 1)
    odds = math.exp(log_odds_at_least(30, 400, 4, 500, bar))
    least, most = float(region.lower.min()), float(region.upper.max())
    for q in np.geomspace(1e-6, most * (1 - 1e-9), 5000).tolist():
        p = max(odds * q / (1 - q + odds * q), least)
        assert np.any((region.lower <= p) & (q <= region.upper)), (p, q)


def test_boxes_follow_the_curve() -> None:
    """Within .002 in epsilon: the smallest ratio p / q of a region is that at its largest q."""
    counted = Counted(150, 77_000, 5, 77_000)
    for alpha in (0.045, 9e-7):
        region = confidence_region(counted, OF_ODDS, alpha)
        odds = math.exp(log_odds_at_least(150, 77_000, 5, 77_000, score_of(alpha)))
        most = float(region.upper[-1])
        exact = math.log(odds / (1 - most + odds * most))
        assert exact - 0.002 < region.epsilon_at(0.0) <= exact


@pytest.mark.parametrize("counts", [(150, 5), (150, 0), (400, 40), (1000, 200), (4000, 3500)])
@pytest.mark.parametrize("alpha", [0.045, 9e-7])
def test_rare_events_certify_more_than_by_the_spreads(
    counts: tuple[int, int], alpha: float
) -> None:
    """Exact: more than with the share of their spreads, and within 1% of the best of all shares,
    which is known only afterwards."""
    n = 77_000
    counted, (p, q) = Counted(counts[0], n, counts[1], n), (max(k, 0.5) / n for k in counts)
    share = share_of(math.sqrt((1 - p) / p), math.sqrt((1 - q) / q))
    shown = confidence_region(counted, OF_ODDS, alpha).epsilon_at(0.0)
    assert shown > confidence_region(counted, share, alpha).epsilon_at(0.0)
    best = max(
        confidence_region(counted, each, alpha).epsilon_at(0.0) for each in range(1, PARTS + 1)
    )
    assert shown > 0.99 * best


@pytest.mark.parametrize(
    ("own", "draws", "tests_odds"), [(300, 50_000, True), (700, 50_000, False), (300, 5e6, False)]
)
def test_odds_are_tested_of_rare_events_of_not_too_many_hits(
    own: int, draws: int, tests_odds: bool
) -> None:
    """Exact: up to a twentieth of the draws, and 10,000 hits."""
    scores, other = np.zeros(10_000), np.zeros(10_000)
    scores[:own], other[:50] = 1.0, 1.0
    task = Task([(1.0, 0.0)], 1e-6, int(draws))
    chosen = with_share(Chosen(1.0, Aim((1.0, 0.0), 40), 0.0), scores, other, task)
    assert (chosen.aim.share == OF_ODDS) == tests_odds


@pytest.mark.parametrize("counts", [(150, 0, 75), (150, 5, 60), (3000, 0, 2500), (400, 40, 200)])
def test_a_delta_that_explains_hits_leaves_odds_alone(counts: tuple[int, int, int]) -> None:
    """Exact: (hits, others, delta times draws). The ratio of odds that such a claim allows has no
    end, so that odds certify less than the spreads do."""
    n, alpha = 77_000, 9e-7
    hits, others, due = counts
    point, counted = (1.0, due / n), Counted(hits, n, others, n)
    own, other = (np.repeat([1.0, 0.0], [k, n - k]) for k in (hits, others))
    chosen = Chosen(1.0, Aim(point, 40), 0.0)
    share = with_share(chosen, own, other, Task([point], alpha, n)).aim.share
    shown = [confidence_region(counted, one, alpha).epsilon_at(point[1]) for one in (share, 0)]
    assert share != OF_ODDS
    assert shown[0] > 1.1 * shown[1]
    small = Task([(1.0, 1e-6)], alpha, n)
    assert with_share(chosen, own, other, small).aim.share == OF_ODDS
