"""False twins and planted faults of the obligations about vectors, quantiles and histograms."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import mpmath as mp
import pytest

from dpverify.privacy import Adjacency
from spec import _balls, clipped_mean, iterative_mean, private_quantile, stability_histogram
from spec.theory import quantiles, shrinking, tables
from tests.grid.test_vector_queries import FALSE

from . import (
    adaptive_twins,
    bin_twins,
    bound_twins,
    centered_twins,
    clipped_twins,
    covariance_twins,
    filter_twins,
    group_twins,
    heavy_twins,
    histogram_twins,
    hypothesis_twins,
    ladder_twins,
    level_twins,
    mahalanobis_twins,
    moment_twins,
    normal_twins,
    outlier_twins,
    preconditioning_twins,
    quantile_twins,
    quartile_twins,
    refined_twins,
    robust_twins,
    score_twins,
    shown_twins,
    sign_twins,
    smooth_twins,
    soft_twins,
    sparse_twins,
    step_twins,
    truncation_twins,
    univariate_twins,
    unknown_twins,
    weight_twins,
    winsorized_twins,
)

Plant = Callable[[pytest.MonkeyPatch], None]

TWINS: dict[str, dict[str, Any]] = {
    "theory.tables:obligation_quantile_scores": {
        "half": lambda p, q, adjacency: tables.score_sensitivity(p, q, adjacency) / 2,
        "always q": lambda p, q, adjacency: q,
        "adjacencies swapped": lambda p, q, adjacency: (
            q if adjacency is Adjacency.ADD_REMOVE else max(p, q - p)
        ),
    },
    "theory.tables:obligation_keyed_counts": {"none": 0, "two": 2},
    "private_quantile:obligation_range": {"half": Fraction(1, 2), "double": Fraction(2)},
    "private_quantile:obligation_inverse_sensitivity": {"half": Fraction(1, 2), "two": Fraction(2)},
    "private_quantile:obligation_loss": {"nine tenths": Fraction(9, 10), "double": Fraction(2)},
    "stability_histogram:obligation_delta": {
        "one lower": lambda parameters: stability_histogram.threshold_of(parameters) - 1,
        "one higher": lambda parameters: stability_histogram.threshold_of(parameters) + 1,
    },
    "stability_histogram:obligation_gaussian_delta": {
        "half": Fraction(1, 2),
        "triple": Fraction(3),
    },
    "theory.shrinking:obligation_clip_radius": {
        "seven tenths": lambda r, d, beta: shrinking.clip_radius(r, d, beta) * 0.7,
        "triple": lambda r, d, beta: shrinking.clip_radius(r, d, beta) * 3,
        "of the mean's distance alone": lambda r, d, beta: mp.sqrt(
            mp.mpf(r) ** 2 + shrinking.clip_radius(0, d, beta) ** 2
        ),
        "the tail of one coordinate": lambda r, d, beta: r + shrinking.clip_radius(0, 1, beta),
        "whatever beta": lambda r, d, beta: shrinking.clip_radius(r, d, Fraction(1, 100)),
    },
    "theory.shrinking:obligation_next_radius": {
        "without sampling": lambda n, noise, wrong, r, d, beta: shrinking.next_radius(
            n * mp.mpf(10) ** 9, noise * mp.mpf(10) ** 9, wrong * mp.mpf(10) ** 9, r, d, beta
        ),
        "without noise": lambda n, noise, *rest: shrinking.next_radius(n, 0, *rest),
        "the number is exact": lambda n, noise, wrong, *rest: shrinking.next_radius(
            n, noise, 0, *rest
        ),
        "quadruple": lambda *given: 4 * shrinking.next_radius(*given),
    },
    "iterative_mean:obligation_loss": {
        "a little less": Fraction(999, 1000),
        "a little more": Fraction(1001, 1000),
    },
    **{
        f"theory.vectors:obligation_{name}": {str(i): twin for i, twin in enumerate(twins)}
        for name, twins in FALSE.items()
    },
    **filter_twins.TWINS,
    **robust_twins.TWINS,
    **soft_twins.TWINS,
    **weight_twins.TWINS,
    **adaptive_twins.TWINS,
    **sparse_twins.TWINS,
    **quantile_twins.TWINS,
    **centered_twins.TWINS,
    **refined_twins.TWINS,
    **outlier_twins.TWINS,
    **bound_twins.TWINS,
    **group_twins.TWINS,
    **histogram_twins.TWINS,
    **hypothesis_twins.TWINS,
    **normal_twins.TWINS,
    **step_twins.TWINS,
    **moment_twins.TWINS,
    **ladder_twins.TWINS,
    **bin_twins.TWINS,
    **level_twins.TWINS,
    **unknown_twins.TWINS,
    **heavy_twins.TWINS,
    **mahalanobis_twins.TWINS,
    **quartile_twins.TWINS,
    **smooth_twins.TWINS,
    **winsorized_twins.TWINS,
    **covariance_twins.TWINS,
    **score_twins.TWINS,
    **sign_twins.TWINS,
    **preconditioning_twins.TWINS,
    **clipped_twins.TWINS,
    **truncation_twins.TWINS,
    **univariate_twins.TWINS,
}

ELSEWHERE = {
    "bernoulli_mean:obligation_loss",
    "bernoulli_mean:obligation_enough_records",
    "bernoulli_mean:obligation_lower_bound_is_below_error",
    "clipped_mean:obligation_loss",
    "clipped_mean:obligation_rounding",
    "clipped_mean:obligation_lower_bound_is_below_error",
    "theory.joint:obligation_with_count",
    "theory.joint:obligation_normal_length",
    "theory.joint:obligation_default_weight",
}
"""Seen to fail in tests/spec/test_joint.py."""


def _patched(where: Any, name: str, change: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: change(right, *given))

    return plant


def _costly_weight(right: Any, *given: Any) -> Any:
    weight = right(*given)
    return None if weight is None else 2 * weight


FAULTS: dict[str, list[Plant]] = {
    **moment_twins.FAULTS,
    **covariance_twins.FAULTS,
    **score_twins.FAULTS,
    **sign_twins.FAULTS,
    **preconditioning_twins.FAULTS,
    **univariate_twins.FAULTS,
    "iterative_mean:obligation_loss": [
        # every step as if it were the only one; then a sensitivity that forgets the number
        _patched(_balls, "multiplier", lambda right, p, t: p["noise_multiplier"]),
        _patched(_balls, "moves", lambda right, p, t: min(right(p, t), Fraction(16))),
    ],
    "iterative_mean:obligation_lower_bound_is_below_error": [
        _patched(iterative_mean, "lower_bound", lambda right, *given: 3 * right(*given)),
        _patched(iterative_mean, "lower_bound", lambda right, *given: right(*given) / 3),
        _patched(iterative_mean, "error_bound", lambda right, *given: right(*given) / 4),
    ],
    "clipped_mean:obligation_count_is_free": [_patched(clipped_mean, "weight", _costly_weight)],
    "private_quantile:obligation_support": [
        _patched(quantiles.QuantileLaw, "score", lambda right, law, t: right(law, t + 1))
    ],
    "private_quantile:obligation_error": [
        _patched(private_quantile, "error_bound", lambda right, *given: right(*given) / 3)
    ],
    "private_quantile:obligation_lower_bound_is_below_error": [
        _patched(private_quantile, "lower_bound", lambda right, *given: 30 * right(*given)),
        _patched(private_quantile, "lower_bound", lambda right, *given: right(*given) / 30),
    ],
    "stability_histogram:obligation_real_tail": [
        _patched(stability_histogram, "surfaces", lambda right, p, t: right(p, t + 1))
    ],
    "stability_histogram:obligation_mass": [
        _patched(
            tables.ThresholdedGaussianLaw, "below", lambda right, law, d, e: right(law, d + 1, e)
        )
    ],
    "stability_histogram:obligation_lower_bound_is_below_error": [
        _patched(stability_histogram, "lower_bound", lambda right, *given: 4 * right(*given)),
        _patched(stability_histogram, "lower_bound", lambda right, *given: right(*given) // 4),
    ],
    **centered_twins.FAULTS,
    **refined_twins.FAULTS,
    **group_twins.FAULTS,
    **histogram_twins.FAULTS,
    **step_twins.FAULTS,
    **ladder_twins.FAULTS,
    **level_twins.FAULTS,
    **unknown_twins.FAULTS,
    **outlier_twins.FAULTS,
    **sparse_twins.FAULTS,
    **quantile_twins.FAULTS,
    **quartile_twins.FAULTS,
    **smooth_twins.FAULTS,
    **winsorized_twins.FAULTS,
    **shown_twins.FAULTS,
}
