"""The joint confidence region: its coverage by enumeration, its corners, what is read off it."""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpverify.audit.confidence_regions import (
    PARTS,
    ConfidenceRegion,
    Counted,
    _ceilings,
    _floors,
    at_least,
    at_most,
    best_share,
    confidence_region,
    share_of,
)
from dpverify.privacy import GaussianDP, ZeroConcentratedDP

CASES = list(product((10, 1000, 50_000), (0, 1, 0.5, 1.0), (0.05, 1e-6, 1e-12)))


def _upper_tail(hits: int, draws: int, p: float) -> float:
    """P(Binomial(draws, p) >= hits), by the incomplete beta function in ball arithmetic."""
    if hits == 0 or hits > draws:
        return float(hits == 0)
    with ctx.workprec(400):
        return float(arb(p).beta_lower(hits, draws - hits + 1, regularized=True).mid())


def _hits(draws: int, share: float) -> int:
    return int(share) if share in (0, 1) and isinstance(share, int) else int(draws * share)


@pytest.mark.parametrize(("draws", "share", "alpha"), CASES)
def test_lower_end_is_a_confidence_end(draws: int, share: float, alpha: float) -> None:
    hits = _hits(draws, share)
    end = float(at_least(hits, draws, alpha))
    tail = _upper_tail(hits, draws, end)
    # at the end itself the tail is at most alpha, and not by much: not loose either
    assert tail <= alpha or hits == 0
    assert hits == 0 or tail >= alpha * (1 - 1e-4)


@pytest.mark.parametrize(("draws", "share", "alpha"), CASES)
def test_upper_end_is_a_confidence_end(draws: int, share: float, alpha: float) -> None:
    hits = _hits(draws, share)
    end = float(at_most(hits, draws, alpha))
    tail = _upper_tail(draws - hits, draws, 1 - end)  # P(at most hits) by symmetry
    assert tail <= alpha or hits == draws
    assert hits == draws or tail >= alpha * (1 - 1e-4)


@pytest.mark.parametrize(("hits", "draws"), [(1, 10), (3, 77_000), (50_000, 77_000)])
def test_ends_by_scores_below_zero_are_ends(hits: int, draws: int) -> None:
    """The chance of fewer hits at a floor is at least the tail of its score, and that of more hits
    at a ceiling, tails of 1e-15 and less among them; but for roundings of the end itself, of 1e-10,
    no more than that."""
    scores = np.array([-1.0, -8.0, -20.0])
    floors, ceilings = _floors(hits, draws, scores), _ceilings(hits, draws, scores)
    for z, floor, ceiling in zip(scores, floors, ceilings, strict=True):
        fewer = _upper_tail(draws - hits + 1, draws, 1 - floor)
        more = _upper_tail(hits + 1, draws, ceiling)
        assert min(fewer, more) >= ndtr(z)
        nearly = _upper_tail(draws - hits + 1, draws, 1 - floor / (1 - 2e-10))
        assert nearly < ndtr(z)
        assert more <= ndtr(z) * (1 + 1e-5)


def test_a_swapped_alpha_would_be_seen() -> None:
    # the false twin: an end at alpha instead of alpha / 2 fails the check above
    end = float(at_least(500, 1000, 0.1))
    assert _upper_tail(500, 1000, end) > 0.05


def test_ends_are_never_nan_and_stay_in_the_unit_interval() -> None:
    for draws in (1, 2, 50, 10**6):
        hits = np.unique(np.linspace(0, draws, 60).astype(np.int64))
        for alpha in (0.5, 1e-3, 1e-15):
            low, high = at_least(hits, draws, alpha), at_most(hits, draws, alpha)
            assert np.all((low >= 0) & (low <= high) & (high <= 1))


def _misses(bounds: ConfidenceRegion, p: float, q: float) -> bool:
    return not bool(np.any((bounds.lower <= p) & (q <= bounds.upper)))


Make = Callable[[Counted, float, float], ConfidenceRegion]
TRUTHS = [(0.5, 0.5), (0.5, 0.18), (0.9, 0.33), (0.05, 0.05), (0.99, 0.9), (1.0, 0.2), (0.3, 0.0)]


def _worst_noncoverage(draws: int, other: int, share: float, alpha: float, make: Make) -> float:
    """Return the largest probability, over the truths, that the region misses the truth: exact."""
    bounds = [
        [make(Counted(x, draws, y, other), share, alpha) for y in range(other + 1)]
        for x in range(draws + 1)
    ]
    worst = 0.0
    for p, q in TRUTHS:
        missed = np.array([[_misses(one, p, q) for one in row] for row in bounds], dtype=np.float64)
        own_mass = binom.pmf(np.arange(draws + 1), draws, p)
        other_mass = binom.pmf(np.arange(other + 1), other, q)
        worst = max(worst, float(own_mass @ missed @ other_mass))
    return worst


@pytest.mark.parametrize(
    ("draws", "other", "share"),
    [(14, 14, 32), (25, 6, 10), (6, 25, 60), (20, 20, 63.9), (14, 14, 64)],
)
def test_coverage_by_enumeration_of_all_counts(draws: int, other: int, share: float) -> None:
    assert _worst_noncoverage(draws, other, share, 0.1, confidence_region) <= 0.1


def test_the_enumeration_sees_a_region_that_spends_too_much() -> None:
    # the false twin: a region of level 1 - 2.5 alpha
    def greedy(counted: Counted, share: float, alpha: float) -> ConfidenceRegion:
        return confidence_region(counted, share, 2.5 * alpha)

    assert _worst_noncoverage(20, 20, 32, 0.1, greedy) > 0.1
    assert _worst_noncoverage(20, 20, PARTS, 0.1, greedy) > 0.1


@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-8])
@pytest.mark.parametrize("share", [10, 32, 52, 63.75])
def test_nothing_outside_the_boxes_passes_the_three_tests(share: float, alpha: float) -> None:
    """The cover is a cover: pairs just outside fail one of the tests, in ball arithmetic."""
    counted = Counted(70, 150, 26, 150)
    bounds, guard = confidence_region(counted, share, alpha), 0.01 * alpha
    bar = -float(ndtri(alpha - 2 * guard))
    own, other = math.sqrt((PARTS - share) / PARTS), math.sqrt(share / PARTS)
    for i in range(0, len(bounds.lower) - 1, 16):
        p, q = bounds.lower[i + 1] * (1 - 1e-6), bounds.upper[i] * (1 + 1e-9)
        a, b = _upper_tail(70, 150, p), _upper_tail(150 - 26, 150, 1 - q)
        rest = _upper_tail(150 - 70 + 1, 150, 1 - p)  # of A: where that is nearly 1, ndtri(rest)
        own_score = float(ndtri(rest)) if a > 0.5 else -float(ndtri(a))
        combined = own * own_score - other * float(ndtri(b))
        assert combined >= bar * (1 - 1e-9) or a <= guard or b <= guard
    assert _upper_tail(150 - 26, 150, 1 - bounds.upper[-1]) <= guard


@pytest.mark.parametrize(("hits", "other"), [(54_000, 1), (17_000, 0), (600, 0)])
@pytest.mark.parametrize("alpha", [0.05, 1e-6])
def test_where_one_side_is_known_far_better_the_other_has_nearly_all_of_alpha(
    hits: int, other: int, alpha: float
) -> None:
    """Exact. Of 77,000 draws a side; a box at 98% of alpha for the other side is nearly reached,
    where weights of at most 63 / 64 lose .2 to .6 of epsilon."""
    counted = Counted(hits, 77_000, other, 77_000)
    box = math.log(
        float(at_least(hits, 77_000, 0.01 * alpha)) / float(at_most(other, 77_000, 0.98 * alpha))
    )
    shares = (PARTS - 1 / 64, PARTS)
    assert (
        max(confidence_region(counted, share, alpha).epsilon_at(0.0) for share in shares)
        > box - 1e-6
    )
    if hits > 600:
        assert confidence_region(counted, 63, alpha).epsilon_at(0.0) < box - 0.15


def test_the_joint_bound_is_near_the_normal_one_and_beats_the_box() -> None:
    draws, alpha = 9000, 0.05
    p, q = 0.5, 0.5 / math.e
    counted = Counted(round(draws * p), draws, round(draws * q), draws)
    spread = math.sqrt((1 - p) / p), math.sqrt((1 - q) / q)
    joint = confidence_region(counted, share_of(*spread), alpha).epsilon_at(0.0)
    ideal = 1 + float(ndtri(alpha)) * math.hypot(*spread) / math.sqrt(draws)
    box = math.log(
        float(at_least(counted.hits, draws, alpha / 2))
        / float(at_most(counted.other_hits, draws, alpha / 2))
    )
    assert ideal - 0.002 < joint < ideal
    assert joint > box + 0.02


def test_no_hits_on_one_side_is_informative() -> None:
    bounds = confidence_region(Counted(1000, 10_000, 0, 10_000), PARTS - 1, 1e-6)
    assert bounds.epsilon_at(0.0) > 3.9
    assert bounds.excess(3.0, 0.0) > 0.05
    nothing = confidence_region(Counted(0, 10_000, 0, 10_000), 32, 1e-6)
    assert nothing.epsilon_at(0.0) == -math.inf
    assert nothing.mu() == nothing.rho() == 0.0


def test_bounds_are_never_nan() -> None:
    for draws, other in ((1, 1), (3, 1000), (10**6, 5)):
        for hits, other_hits in product((0, 1, draws), (0, 1, other)):
            for share, alpha in product((1 / 64, 32, 63.98, 64), (0.4, 1e-9)):
                bounds = confidence_region(
                    Counted(hits, draws, min(other_hits, other), other), share, alpha
                )
                values = [bounds.epsilon_at(0.1), bounds.excess(700, 0), bounds.excess(1e4, 0.5)]
                assert not any(math.isnan(v) for v in [*values, bounds.mu(), bounds.rho()])


def _point(p: float, q: float) -> ConfidenceRegion:
    return ConfidenceRegion(np.array([p]), np.array([q]))


@pytest.mark.parametrize("mu", [0.1, 1.0, 3.0])
def test_mu_is_that_of_the_gaussian_pair(mu: float) -> None:
    for cut in (-1.0, 0.0, 2.0):
        p, q = float(normal_tail(cut - mu)), float(normal_tail(cut))
        assert _point(p, q).mu() == pytest.approx(mu, abs=1e-8)
        # and what the kernel promises is consistent with it: the profile at every epsilon
        for epsilon in (0.0, 0.5, 2.0):
            assert _point(p, q).excess(epsilon, 0.0) <= GaussianDP(mu).delta_at(epsilon).upper


def normal_tail(cut: float) -> float:
    """P(N(0, 1) >= cut)."""
    return 0.5 * math.erfc(cut / math.sqrt(2))


def test_rho_is_a_lower_bound_that_no_true_rho_breaks() -> None:
    # of Gaussian noise with rho = 1/2 every event shows at most 1/2, and good ones much of it
    shown = [_point(normal_tail(t - 1), normal_tail(t)).rho() for t in np.arange(-2, 4, 0.25)]
    assert max(shown) <= 0.5
    assert max(shown) > 0.3
    # of randomized response at epsilon the exact divergence of any order
    p = math.e / (1 + math.e)
    exact = max(
        math.log(p**a * (1 - p) ** (1 - a) + (1 - p) ** a * p ** (1 - a)) / (a - 1) / a
        for a in np.linspace(1.0005, 3, 2000)
    )
    assert exact - 1e-3 < _point(p, 1 - p).rho() <= exact + 1e-9
    assert ZeroConcentratedDP(0.5).delta_at(1).upper > 0


def test_shares_stay_inside() -> None:
    assert share_of(1.0, 0.0) == 1 / PARTS
    assert share_of(0.0, 1.0) == PARTS - 1 / PARTS
    assert share_of(0.1, 3.0) == round(64 * 64 * 9 / 9.01) / 64
    assert share_of(1.0, 1.0) == PARTS // 2
    assert share_of(math.inf, 1.0) == share_of(0.0, 0.0) == share_of(math.nan, 1.0) == PARTS // 2


@pytest.mark.parametrize("others", [0, 1, 3, 40, 5000])
@pytest.mark.parametrize("hits", [1, 7, 90, 2500, 5000])
def test_the_best_share_is_the_first_with_the_largest_bound(hits: int, others: int) -> None:
    """Compare with the whole region of every share; without a bound, all are equal."""
    counted, shares = Counted(hits, 5000, others, 5000), (16.0, 32.0, 54.0, 63.0, 64.0, 2.5)
    for alpha, delta in product((0.05, 1e-6), (0.0, 0.01)):
        bounds = [confidence_region(counted, share, alpha).epsilon_at(delta) for share in shares]
        assert best_share(counted, shares, alpha, delta) == shares[int(np.argmax(bounds))]
