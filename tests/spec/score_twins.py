"""False twins of the obligations about lower bounds for covariances."""

from __future__ import annotations

from typing import Any

import mpmath as mp

from spec.theory import covariance_tracing as tracing

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
    "theory.covariance_tracing:obligation_bound_is_below_a_mechanism": {
        "tight": 2,
    },
}


def _times(factor: int) -> Any:
    def plant(patch: Any) -> None:
        right = tracing._least
        patch.setattr(tracing, "_least", lambda *given: factor * right(*given))

    return plant


FAULTS: dict[str, list[Any]] = {
    "theory.covariance_tracing:obligation_bound_is_below_a_mechanism": [_times(100)],
}
