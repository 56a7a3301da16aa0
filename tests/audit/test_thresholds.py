"""Thresholds where odds follow a curve of the score, and where they follow none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import ndtr

from dpverify.audit.confidence_regions import OF_ODDS, Counted, confidence_region
from dpverify.audit.witnesses.promises import Task
from dpverify.audit.witnesses.thresholds import best_thresholds, curve_of, moved
from dpverify.privacy.numbers import Floats

DRAWS, LEFT = 16_667, 77_000


def normals(seed: int, apart: float) -> tuple[Floats, Floats]:
    """Return sorted scores of both sides: normal, so far apart."""
    rng = np.random.default_rng(seed)
    return np.sort(rng.normal(apart, 1, DRAWS)), np.sort(rng.normal(0, 1, DRAWS))


def expected(threshold: float, apart: float, alpha: float) -> float:
    """Return the bound that the true shares of such an event certify."""
    hits = [round(LEFT * float(ndtr(shift - threshold))) for shift in (apart, 0.0)]
    counted = Counted(hits[0], LEFT, hits[1], LEFT)
    return max(
        confidence_region(counted, share, alpha).epsilon_at(0.0) for share in (OF_ODDS, 32, 48)
    )


@pytest.mark.parametrize("alpha", [0.045, 9e-7])
def test_without_a_curve_the_largest_expected_bound_is_taken(alpha: float) -> None:
    """Average over 40 seeds: 93% of the best threshold's bound, and more than the event of what is
    promised with caution, which is too common."""
    task, apart = Task([(3.0, 0.0)], alpha, LEFT), 1.0
    best = max(expected(t, apart, alpha) for t in np.linspace(0, 3.5, 71))
    shown: list[list[float]] = [[], []]
    for seed in range(40):
        own, other = normals(seed, apart)
        chosen, _ = best_thresholds(own, other, task)
        there, _ = moved(chosen, own, other, task, None)
        for kept, threshold in zip(shown, (chosen.threshold, there.threshold), strict=True):
            kept.append(expected(threshold, apart, alpha) / best)
    before, now = (float(np.mean(kept)) for kept in shown)
    assert now > max(0.93, before + 0.01)


def test_where_a_refutation_may_be_expected_an_event_stays() -> None:
    """Exact: of a claim that is refuted by far, and of one of which that is promised half of the
    times."""
    promised = []
    for claim in (0.8, 2.0):
        task = Task([(claim, 0.0)], 1e-6, LEFT)
        for seed in range(10):
            own, other = normals(seed, 1.0)
            chosen, _ = best_thresholds(own, other, task)
            there, _ = moved(chosen, own, other, task, None)
            assert there.threshold == chosen.threshold
            promised.append(chosen.promise > 0)
    assert all(promised[:10])
    assert 3 <= sum(promised[10:]) <= 7


def test_small_bounds_move_by_small_gains() -> None:
    """Average over 40 seeds: of a bound of about .1 a gain of a hundredth of it is enough, not .01
    in epsilon, a tenth of it."""
    task, apart, alpha = Task([(0.2, 0.0)], 9e-7, LEFT), 0.08, 9e-7
    best = max(expected(t, apart, alpha) for t in np.linspace(-1, 2.5, 71))
    shown = []
    for seed in range(40):
        own, other = normals(seed, apart)
        chosen, _ = best_thresholds(own, other, task)
        there, _ = moved(chosen, own, other, task, curve_of(own, other, task))
        shown.append(expected(there.threshold, apart, alpha) / best)
    assert float(np.mean(shown)) > 0.95
