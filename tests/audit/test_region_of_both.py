"""Boxes for two events, the second chosen on the draws that certify the first: the sum that they
stand on, by enumeration of all counts; and what they exclude."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from scipy.special import ndtri
from scipy.stats import binom

from dpverify.audit.confidence_regions import (
    BOTH,
    LOWEST,
    OF_ODDS,
    PARTS,
    ConfidenceRegion,
    Counted,
    confidence_region,
    region_of_both,
    share_of,
)
from dpverify.privacy.numbers import Floats

ALPHA, GUARD, DRAWS = 0.1, 0.01, 30
BAR = float(-ndtri(ALPHA * BOTH))
TRUTHS = [(0.5, 0.5), (0.5, 0.18), (0.9, 0.33), (0.05, 0.05), (0.99, 0.9), (1.0, 0.2), (0.3, 0.0)]
FAR = 1e9


def sums(p: float, q: float, share: float, draws: int = DRAWS) -> tuple[Floats, Floats]:
    """Return w z(A) + v z(B) at the truth for all counts, FAR where a guard breaks, and their
    probabilities; exact but for floats."""
    counts = np.arange(draws + 1)
    a, b = binom.sf(counts - 1, draws, p)[:, None], binom.cdf(counts, draws, q)[None, :]
    with np.errstate(invalid="ignore"):
        own, other = np.sqrt(1 - share / PARTS) * -ndtri(a), np.sqrt(share / PARTS) * -ndtri(b)
        total = np.where(share == PARTS, other, own + other)
        if share == OF_ODDS:
            total = -ndtri(conditional(p, q, draws))
    total = np.where(np.minimum(a, b) <= GUARD * ALPHA, FAR, total)
    mass = np.outer(binom.pmf(counts, draws, p), binom.pmf(counts, draws, q))
    there = mass > 0
    return np.nan_to_num(total[there], nan=-FAR, posinf=FAR, neginf=-FAR), mass[there]


def conditional(p: float, q: float, draws: int) -> Floats:
    """Return P(at least so many hits | sum of both) for all counts, 1 where it is 0 / 0."""
    counts = np.arange(draws + 1)
    mass = np.outer(binom.pmf(counts, draws, p), binom.pmf(counts, draws, q))
    tails = np.ones_like(mass)
    for i, j in product(counts, counts):
        own = counts[(counts <= i + j) & (i + j - counts <= draws)]
        given = mass[own, i + j - own]
        if given.sum() > 0:
            tails[i, j] = given[own >= i].sum() / given.sum()
    return np.minimum(tails, 1.0)


def noncoverage(
    weight: float, share: float, bar: float, light: float | None = None, draws: int = DRAWS
) -> float:
    """Return the largest probability that the sum reaches the bar at the truth, where after every
    outcome of the first block an adversary picks the second event that misses most.

    light: another weight, taken where the first block shows nothing: the false twin.
    """
    seconds = [sums(p, q, part, draws) for (p, q), part in product(TRUTHS, (share, PARTS / 2))]
    worst = 0.0
    for p, q in TRUTHS:
        first, mass = sums(p, q, share, draws)
        weights = np.where((first < 0) & (light is not None), light or 0.0, weight)
        needed = (bar - np.sqrt(weights) * np.maximum(first, LOWEST)) / np.sqrt(1 - weights)
        missed = np.zeros(len(first))
        for scores, chances in seconds:
            order = np.argsort(scores)
            tails = np.append(np.cumsum(chances[order][::-1])[::-1], 0.0)
            missed = np.maximum(missed, tails[np.searchsorted(scores[order], needed)])
        worst = max(worst, float(mass @ np.where(first >= FAR, 1.0, missed)))
    return worst


@pytest.mark.parametrize(
    ("weight", "share"), list(product((0.05, 0.2, 0.5), (0.0, 20.0, 32.0, 64.0)))
)
def test_the_sum_misses_no_more_often_than_stated(weight: float, share: float) -> None:
    """Exact, over all counts of 30 draws and every choice of the second event among seven."""
    assert noncoverage(weight, share, BAR) <= ALPHA


def test_the_enumeration_sees_what_overspends() -> None:
    """Exact: a bar of level 2 alpha; and a weight that the first block decides, where the same
    fixed one keeps the level."""
    assert noncoverage(0.2, 32, float(-ndtri(2 * ALPHA))) > ALPHA
    assert noncoverage(0.5, 32, BAR, draws=150) <= ALPHA
    assert noncoverage(0.5, 32, BAR, light=0.0, draws=150) > ALPHA


def excludes(region: ConfidenceRegion, p: float, q: float) -> bool:
    return not bool(np.any((region.lower <= p) & (q <= region.upper)))


def test_boxes_exclude_both_events_only_where_the_sum_reaches_the_bar() -> None:
    """Exact but for the 1e-10 by which ends are moved: boxes that exclude both pairs make the sum
    reach the bar, or a guard break, whatever counts."""
    rng, seen = np.random.default_rng(3), [0, 0]
    for _ in range(150):
        (p1, q1), (p2, q2) = rng.choice(np.array(TRUTHS[:5]), 2)
        weight, share, n, m = rng.uniform(0.05, 0.6), float(rng.choice([0, 20, 32, 64])), 60, 200
        counts = [
            Counted(int(rng.binomial(k, min(1.0, p * 1.2))), k, int(rng.binomial(k, q * 0.8)), k)
            for (p, q), k in (((p1, q1), n), ((p2, q2), m))
        ]
        region, scores = region_of_both(counts[0], share, counts[1], share, weight, ALPHA)
        reached = math.sqrt(weight) * scores[0] + math.sqrt(1 - weight) * scores[1]
        assert reached == pytest.approx(BAR, abs=1e-9)
        alone = scores[0] == LOWEST  # then the boxes are of the second event
        if excludes(region, p2, q2) and (alone or excludes(region, p1, q1)):
            seen[alone] += 1
            first = max(LOWEST, _score(counts[0], p1, q1, share))
            second = _score(counts[1], p2, q2, share)
            assert max(first, second) >= FAR or (
                math.sqrt(weight) * first + math.sqrt(1 - weight) * second >= BAR - 1e-6
            )
    assert min(seen) > 5


def _score(one: Counted, p: float, q: float, share: float) -> float:
    a = binom.sf(one.hits - 1, one.draws, p)
    b = binom.cdf(one.other_hits, one.other_draws, q)
    if min(a, b) <= GUARD * ALPHA:
        return FAR
    if share == OF_ODDS:
        sizes, total = (one.draws, one.other_draws), one.hits + one.other_hits
        own = np.arange(max(0, total - sizes[1]), min(sizes[0], total) + 1)
        given = binom.pmf(own, sizes[0], p) * binom.pmf(total - own, sizes[1], q)
        return -float(ndtri(given[own >= one.hits].sum() / given.sum()))
    weighed = 0.0 if share == PARTS else -math.sqrt(1 - share / PARTS) * float(ndtri(a))
    return weighed - math.sqrt(share / PARTS) * float(ndtri(b))


@pytest.mark.parametrize("alpha", [0.045, 1e-6])
def test_an_event_that_stays_the_same_gains_most_of_the_draws(alpha: float) -> None:
    """Exact: with half the weight, at least half of what counting all draws together would gain,
    where both sides have many hits."""
    first, second = Counted(480, 16_000, 64, 16_000), Counted(1800, 60_000, 240, 60_000)
    share = share_of(math.sqrt(0.97 / 0.03), math.sqrt(0.996 / 0.004))
    both, _ = region_of_both(first, share, second, share, 16 / 76 / 2, alpha)
    alone = confidence_region(second, share, alpha).epsilon_at(0.0)
    pooled = confidence_region(Counted(2280, 76_000, 304, 76_000), share, alpha).epsilon_at(0.0)
    assert alone < both.epsilon_at(0.0) < pooled
    assert both.epsilon_at(0.0) - alone > 0.5 * (pooled - alone)


def test_a_first_event_that_tells_nothing_costs_little() -> None:
    """Exact: after no hits at all the second event has to reach (z + 2 s) / t alone."""
    nothing, second = Counted(0, 16_000, 0, 16_000), Counted(1800, 60_000, 240, 60_000)
    region, scores = region_of_both(nothing, 32, second, 56, 0.05, ALPHA)
    bar = (BAR - LOWEST * math.sqrt(0.05)) / math.sqrt(0.95)
    assert scores[0] == LOWEST
    assert scores[1] == pytest.approx(bar)
    alone = confidence_region(second, 56, ALPHA).epsilon_at(0.0)
    assert 0.97 * alone < region.epsilon_at(0.0) < alone
