"""False twins of the obligations about lower bounds by scores, for covariances and for
exponential families."""

from __future__ import annotations

from typing import Any

import mpmath as mp

from spec.theory import covariance_tracing as tracing
from spec.theory import interval_scores

TWINS: dict[str, dict[str, Any]] = {
    "theory.covariance_tracing:obligation_scores": {
        "not halved on the diagonal": lambda x, v: 2 * tracing.score(x, v),
        "not centered": lambda x, v: x**2 / (2 * v**2),
    },
    "theory.covariance_tracing:obligation_by_parts": {
        "without the two": lambda moment, power: moment(power + 1),
        "of the function alone": lambda moment, power: 2 * moment(power),
    },
    "theory.covariance_tracing:obligation_chi_square": {
        "first order": lambda mu: mu**2,
        "of the halved distance": lambda mu: mp.expm1(mu**2 / 4),
    },
    "theory.interval_scores:obligation_scores_add_up": {
        "all, not two thirds": lambda reaches, error: (
            interval_scores._least_scores(reaches, error) + mp.mpf(len(reaches)) / 3
        ),
        "half of the loss": lambda reaches, error: interval_scores._least_scores(
            reaches, error / 2
        ),
    },
    "theory.interval_scores:obligation_beside_waves": {
        "twice": lambda *given: 2 * interval_scores.least_error(*given),
        "half": lambda *given: interval_scores.least_error(*given) / 2,
        "of one parameter": lambda n, leaked, reaches: interval_scores.least_error(
            n, leaked, reaches[:1]
        ),
        "no privacy": lambda n, leaked, reaches: interval_scores.least_error(n, 0, reaches),
    },
    "theory.interval_scores:obligation_bits": {
        "one percent more": lambda *given: 1.01 * interval_scores.least_error_of_bits(*given),
        "without the probabilities": lambda d, n, epsilon, delta: (
            interval_scores.least_error_of_bits(1, n, epsilon, delta)
        ),
        "delta forgotten": lambda d, n, epsilon, delta: interval_scores.least_error_of_bits(
            d, n, epsilon, 0
        ),
    },
    "theory.interval_scores:obligation_leak": {
        "half": lambda spread, **claim: interval_scores.leak(spread, **claim) / 2,
        "delta forgotten": lambda spread, delta=0, **claim: interval_scores.leak(spread, **claim),
        "ten times": lambda spread, **claim: 10 * interval_scores.leak(spread, **claim),
    },
}


def _times(factor: Any) -> Any:
    def plant(patch: Any) -> None:
        right = tracing._least
        patch.setattr(tracing, "_least", lambda *given: factor * right(*given))

    return plant


FAULTS: dict[str, list[Any]] = {
    "theory.covariance_tracing:obligation_bound_is_below_a_mechanism": [
        _times(100),
        _times(mp.mpf(1) / 100),
    ],
}
