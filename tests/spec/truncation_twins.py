"""False twins of the obligations about truncated laws: survival sets, uniform convergence,
majorities, normal laws, histograms."""

from __future__ import annotations

from typing import Any

from spec.theory import (
    boosting,
    family_scores,
    noisy_histograms,
    survival_sets,
    truncated_normals,
    truncated_rates,
    uniform_convergence,
    warm_starts,
)
from spec.theory.preconditioning import certified


def _near(points: Any, alpha: int, times: int, enough: int) -> list[int]:
    """Points with ``enough`` points or more within so many alphas."""
    counts = [
        sum(boosting.squared(one, other) <= (times * alpha) ** 2 for other in points)
        for one in points
    ]
    return [i for i, count in enumerate(counts) if count >= enough]


def _limits(**factors: Any) -> Any:
    """Multiply one of the limits."""

    def claimed(share: Any) -> truncated_normals.Limits:
        at = truncated_normals.limits(share)
        return at._replace(**{name: by * getattr(at, name) for name, by in factors.items()})

    return claimed


TWINS: dict[str, dict[str, Any]] = {
    "theory.family_scores:obligation_scores_add_up": {
        "half": lambda reach: family_scores.information(reach) / 2,
        "of a uniform prior": lambda reach: 3 / reach**2,
    },
    "theory.survival_sets:obligation_survival": {
        "3% less": lambda *given: 0.97 * survival_sets.survival_radius(*given),
        "no room for the parameter": lambda p, most, far: survival_sets.survival_radius(p, most, 0),
        "one dimension": lambda p, most, far: survival_sets.survival_radius(1, most, far),
    },
    "theory.survival_sets:obligation_square_of_mass": {"a hundredth": 0.01},
    "theory.survival_sets:obligation_least_variance": {
        "a tenth more": lambda *given: 1.1 * survival_sets.least_variance(*given),
        "half": lambda *given: 0.5 * survival_sets.least_variance(*given),
        "without the square": lambda share, *given: share / 12,
    },
    "theory.survival_sets:obligation_curvature": {"nine tenths": 0.9, "all": 1.0},
    "theory.uniform_convergence:obligation_gradients": {
        "on average": lambda radius, n, beta: radius / n**0.5,
        "half": lambda *given: uniform_convergence.mean_deviation(*given) / 2,
        "four times": lambda *given: uniform_convergence.mean_deviation(*given) * 4,
    },
    "theory.uniform_convergence:obligation_records_needed": {
        "a 400th": lambda *given: uniform_convergence.records_needed(*given) // 400,
    },
    "theory.boosting:obligation_majority": {
        "a third is enough": lambda points, alpha: _near(points, alpha, 2, (len(points) + 2) // 3),
        "within alpha": lambda points, alpha: _near(points, alpha, 1, len(points) // 2 + 1),
        "within three": lambda points, alpha: _near(points, alpha, 3, len(points) // 2 + 1),
        "any of them": lambda points, alpha: list(range(len(points))),
    },
    "theory.boosting:obligation_failure": {
        "twice the exponent": lambda *given: boosting.failure(*given) ** 2,
        "nothing is said": lambda *given: 1.0,
    },
    "theory.truncated_normals:obligation_limits": {
        "a shorter shift": _limits(shift=0.99),
        "more of the variance": _limits(least=1.05),
        "as of log-concave laws": lambda share: truncated_normals.limits(share)._replace(
            least=share**2 / 12
        ),
        "a quarter of the moments": _limits(moments=0.25),
        "loose": _limits(moments=10),
    },
    "theory.truncated_normals:obligation_longest": {
        "half": lambda *given: truncated_normals.longest(*given) / 2,
        "twice": lambda *given: truncated_normals.longest(*given) * 2,
        "one record": lambda d, n, share, beta: truncated_normals.longest(d, 1, share, beta),
        "not truncated": lambda d, n, share, beta: truncated_normals.longest(d, n, 1, beta),
    },
    "theory.truncated_normals:obligation_moment_error": {
        "a tenth": lambda *given: truncated_normals.even_moment(*given) / 10,
        "ten times": lambda *given: truncated_normals.even_moment(*given) * 10,
    },
    "theory.truncated_normals:obligation_whitened": {
        "truncation is free": lambda least, share, eta, nu: (certified(least, eta, nu), 1),
        "twice": lambda *given: (
            2 * truncated_normals.whitened(*given)[0],
            truncated_normals.whitened(*given)[1],
        ),
        "half": lambda *given: (
            truncated_normals.whitened(*given)[0] / 2,
            truncated_normals.whitened(*given)[1],
        ),
    },
    "theory.truncated_rates:obligation_rates": {
        "half": (truncated_rates.MEAN_RATE // 2, truncated_rates.COVARIANCE_RATE),
        "twice": (truncated_rates.MEAN_RATE, truncated_rates.COVARIANCE_RATE * 2),
    },
    "theory.noisy_histograms:obligation_rarely_named": {
        "half": lambda *given: noisy_histograms.rarely_named(*given) / 2,
        "of one thing": lambda things, share: share,
        "four times": lambda *given: noisy_histograms.rarely_named(*given) * 4,
    },
    "theory.noisy_histograms:obligation_shares": {
        "a tenth": lambda *given: noisy_histograms.things_needed(*given) // 10,
        "no threshold": lambda eta, scale, threshold, beta: (
            noisy_histograms.things_needed(eta, scale / 8, -threshold, beta) // 3
        ),
    },
    "theory.warm_starts:obligation_step": {
        "no bias": lambda error, share, least, most: error / least,
        "a third": lambda *given: warm_starts.warm_distance(*given) / 3,
        "thrice": lambda *given: warm_starts.warm_distance(*given) * 3,
    },
    "theory.warm_starts:obligation_bin_width": {
        "half": lambda *given: warm_starts.bin_width(*given) / 2,
        "twice": lambda *given: warm_starts.bin_width(*given) * 2,
        "not truncated": lambda n, share, *given: warm_starts.bin_width(n, 1.0, *given),
    },
}
