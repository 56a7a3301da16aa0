"""``robust_mean`` with a fifth of outliers and more: how many it takes, what it refuses, how far
off it is."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, RobustMean
from dpverify import RobustMeanEstimate as Estimate
from dpverify.estimation.contamination import FULL, check_gamma, chosen_full, sure_share
from dpverify.grid import ingest
from dpverify.grid.image_view import Images
from dpverify.transformations import degree_weights, soft_core
from spec import robust_mean as spec
from spec.theory import outliers
from tests.mechanisms.helpers import estimates, fails_at_most

REPLACE = Adjacency.REPLACE
BUDGET = ApproxDP(1, "1e-6")
EVERY = (None, *FULL, Fraction(51, 100))
CELLS = 4.0  # radii of friends of which is made what is compared
Floats = NDArray[np.float64]


# --- how many -----------------------------------------------------------------------------------


@pytest.mark.parametrize("full", EVERY, ids=str)
def test_gamma_is_allowed_as_far_as_the_theorem_goes(full: Fraction | None) -> None:
    limit = float(outliers.most_outliers(full))
    check_gamma(Fraction(limit) * (1 - Fraction(1, 10**12)), full)
    check_gamma(Fraction(0), full)
    for wrong in (Fraction(limit) * (1 + Fraction(1, 10**12)), Fraction(1, 2), Fraction(3)):
        with pytest.raises(ValueError, match=rf"from 0 to {math.floor(limit * 1e4) / 1e4}\. "):
            check_gamma(wrong, full)


def test_a_refusal_says_what_would_do() -> None:
    given: dict[str, Any] = {"deviations": (1.0,) * 10, "n_max": 10**4}
    wider = r"gamma = 0\.2: with degree weights .*; under replace full = 5/6 allows up to 0\.2712\."
    with pytest.raises(ValueError, match=wider):
        RobustMean.for_budget(BUDGET, adjacency=Adjacency.ADD_REMOVE, gamma="0.2", **given)
    with pytest.raises(ValueError, match=r"gamma = 0\.2500001: with full = 9/10 .* full = 3/4 "):
        RobustMean.for_budget(BUDGET, adjacency=REPLACE, gamma="0.2500001", full="9/10", **given)
    with pytest.raises(ValueError, match=r"from 0 to 0\.4145\. .*nothing is proved .*center\.$"):
        RobustMean.for_budget(BUDGET, adjacency=REPLACE, gamma="0.45", **given)


def test_a_core_is_chosen_for_every_share_of_outliers() -> None:
    """The least noise: of reach / sure agreement."""
    shares = [chosen_full(REPLACE, Fraction(k, 20)) for k in range(10)]
    nine, five, three, two, last = FULL
    assert shares == [None, None, nine, five, five, three, two, last, last, last]
    made = RobustMean.for_budget(
        BUDGET, adjacency=REPLACE, deviations=(1.0,) * 10, n_max=10**4, gamma="0.35"
    )
    assert made.full == last
    assert made.claim.guarantee == BUDGET


@pytest.mark.parametrize(
    ("adjacency", "n_max"),
    [(Adjacency.ADD_REMOVE, 1000), (REPLACE, 2**59), (Adjacency.ADD_REMOVE, 2**60)],
)
def test_where_no_number_of_records_is_enough_a_budget_is_asked_for(
    adjacency: Adjacency, n_max: int
) -> None:
    """Refuse: with so many outliers 10^-15 of the records are sure to agree, and n_max is at
    most 2^60."""
    given: dict[str, Any] = {"deviations": (1.0,), "n_max": n_max, "full": None}
    with pytest.raises(ValueError, match=f"n_max = {n_max} records; give a larger budget") as told:
        RobustMean.for_budget(
            ApproxDP("1e-7", "1e-9"), adjacency=adjacency, gamma="0.1909830056250525", **given
        )
    assert "at least" not in str(told.value)
    with pytest.raises(ValueError, match="leaves nothing for a center; give a larger budget"):
        RobustMean.for_budget(ApproxDP("1e-200", "1e-280"), adjacency=adjacency, **given)


# --- what is sure -------------------------------------------------------------------------------


def _mechanism(full: Fraction | None, gamma: Fraction, **own: Any) -> RobustMean:
    given: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": Fraction(1, 16),
        "deviations": (1.0, 1.0),
        "radius": CELLS,
        "record_radius": 8,
        "n_max": 600,
        "tail": Fraction(1, 10**7),
        "directions": 0,
        "shares": (Fraction(1, 2),) * 2,
        **own,
    }
    return RobustMean(full=full, gamma=gamma, **given)


def _attacked(n: int, k: int, rng: np.random.Generator) -> Floats:
    """Inliers in a disc of diameter 4, the radius of friends; k others in clumps: at its rim,
    just within or beyond reach of some of it, or far away."""
    angles, lengths = rng.uniform(0, 2 * np.pi, n), 1.999 * rng.choice([0.1, 0.7, 1], n)
    points: Floats = lengths[:, np.newaxis] * np.column_stack([np.cos(angles), np.sin(angles)])
    clumps = rng.normal(size=(3, 2))
    clumps *= (rng.choice([2, 4, 5.9, 6.1, 1e6], 3) / np.linalg.norm(clumps, axis=1))[:, np.newaxis]
    points[:k] = clumps[rng.integers(0, 3, k)]
    return points


@pytest.mark.parametrize("full", EVERY, ids=str)
def test_agreement_and_center_are_as_sure_as_stated_at_the_limit(full: Fraction | None) -> None:
    """Check without chance: 150 datasets, whatever their outliers; some meet the bound, lonely
    ones do."""
    gamma, least = Fraction(float(outliers.most_outliers(full))) * Fraction(99, 100), math.inf
    made, rng = _mechanism(full, gamma), np.random.default_rng(1)
    for n in rng.integers(30, 150, 150).tolist():
        k = math.floor(gamma * n)
        data = _attacked(n, k, rng)
        mapped = Images(ingest(data, made.domain), made.core().nearness)
        if full is None:
            agreement, (sums, total) = degree_weights.agreement_of(mapped), mapped.weighted_sum
        else:
            agreement, (sums, total) = soft_core.agreement_of(mapped, full), mapped.soft_sum(full)
        sure = outliers.sure_agreement(n, n - k, full)
        rounding = 0 if full is None else 2 / (2 * full - 1)
        assert agreement >= sure >= math.floor(n * sure_share(gamma, full) - rounding)
        least = min(least, agreement - sure)
        if outliers.sure_weight(n, n - k, full):
            center = np.array([float(Fraction(one, total)) for one in sums]) * made.radius / 2**20
            spread, radius = Fraction(4), Fraction(CELLS)  # of a disc's mean, at most its diameter
            most = float(outliers.center_bias(n, n - k, spread, radius, full))
            assert np.linalg.norm(center - data[k:].mean(axis=0)) <= most + 1e-5
    assert least <= 1


# --- accuracy -----------------------------------------------------------------------------------


@pytest.mark.parametrize("at", [1e9, 9.0, 6.0])
@pytest.mark.parametrize(("full", "gamma"), [("5/6", "1/5"), ("3/4", "1/4"), ("3/5", "2/5")])
def test_the_error_bound_holds_with_more_outliers(at: float, full: str, gamma: str) -> None:
    """Outliers far, just outside, or within reach: false alarm below 1e-6."""
    made = _mechanism(Fraction(full), Fraction(gamma), radius=6)
    outside = math.floor(Fraction(gamma) * 600)
    inliers = np.random.default_rng(2).uniform(-2, 2, size=(600 - outside, 2))
    data = np.concatenate([inliers, np.full((outside, 2), at) * (1.0, 0.0)])
    beta = Fraction(1, 20)
    bound = float(spec.error_bound(made.parameters, 600, beta, Fraction(3)))
    releases = estimates(made, data, 3, 400)
    assert all(isinstance(one, Estimate) for one in releases)
    errors = [float(np.linalg.norm(one.value - inliers.mean(axis=0))) for one in releases]
    assert fails_at_most(errors, bound, float(beta))


def test_a_fifth_of_outliers_is_cut_off() -> None:
    """10^4 normal records in ten dimensions at (1, 1e-6), a fifth far away, or near in one
    direction, of which the mean is 6e4 and 0.6 off: the estimate is within 0.3, and within its
    certificate. Fixed seeds."""
    made = RobustMean.for_budget(
        BUDGET, adjacency=REPLACE, deviations=(1.0,) * 10, n_max=10**4, gamma="0.2"
    )
    rng = np.random.default_rng(4)
    for offset, most in ((np.full(10, 1e5), 0.3), (np.eye(10)[0] * 3.0, 0.3)):
        data = 5 + rng.normal(size=(10_000, 10))
        data[:2000] += offset
        inliers = data[2000:].mean(axis=0)
        assert np.linalg.norm(data.mean(axis=0) - inliers) > 0.55
        for one in estimates(made, data, 5, 20):
            assert isinstance(one, Estimate)
            assert one.certificate is not None
            off = np.linalg.norm(one.value - inliers)
            assert off < min(most, one.certificate)
