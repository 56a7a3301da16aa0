"""Clopper-Pearson ends against exact binomial tails; certificates at the edges of their counts."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
import pytest
from flint import arb, ctx

from dpverify import ApproxDP, PerfectPrivacy, PureDP
from dpverify.audit.certificates import Certificate, at_least, at_most, certified_epsilon, excess

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


def test_no_hits_on_one_side_is_informative() -> None:
    lower, upper = at_least(1000, 10_000, 1e-6), at_most(0, 10_000, 1e-6)
    assert 0 < upper < 0.002
    assert float(certified_epsilon(lower, upper, 0.0)) > 3.9
    assert float(certified_epsilon(at_least(0, 10_000, 1e-6), upper, 0.0)) == -math.inf


def _certificate(hits: int, other: int, delta: float = 0.0) -> Certificate:
    return Certificate(
        "p", "left over right", "e", hits, 10_000, other, 10_000, delta, 0.0, 0.0, 1e-6
    )


def test_refutes_exactly_what_the_counts_exclude() -> None:
    strong = _certificate(5000, 500)  # a ratio of 10, about 2.3
    assert strong.refutes(PureDP(1))
    assert strong.refutes(PureDP(2))
    assert not strong.refutes(PureDP("2.4"))
    assert strong.refutes(PerfectPrivacy())
    assert not strong.refutes(ApproxDP(1, "0.5"))
    assert strong.refutes(ApproxDP(1, "0.1"))
    assert not _certificate(500, 500).refutes(PureDP("1e-9"))


def test_refutation_and_certified_epsilon_agree() -> None:
    rng = np.random.default_rng(0)
    for hits, other in rng.integers(0, 10_001, size=(300, 2)):
        lower, upper = at_least(hits, 10_000, 5e-7), at_most(other, 10_000, 5e-7)
        epsilon = float(certified_epsilon(lower, upper, 0.0))
        if epsilon > 1e-6:
            certificate = _certificate(int(hits), int(other))
            assert certificate.refutes(PureDP(epsilon * (1 - 1e-6)))
            assert not certificate.refutes(PureDP(epsilon * (1 + 1e-6)))


def test_a_huge_epsilon_is_never_refuted() -> None:
    assert not _certificate(10_000, 0).refutes(PureDP("1e308"))
    assert float(excess((1e4, 0.0), 1.0, 0.5)) == -math.inf
