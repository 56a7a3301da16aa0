"""False twins and planted faults of the obligations about means of unknown covariance."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import pytest

from spec import large_variances
from spec import unknown_covariance_mean as unknown
from spec.theory import rough_covariance

Plant = Callable[[pytest.MonkeyPatch], None]


def _without_a_floor(parameters: Any, prefix: Any) -> dict[str, Any]:
    """The others' entries follow their sum, however small or large that is."""
    own = unknown.mean_part(parameters, prefix)
    others = large_variances.top_of(prefix[-1])
    last = own["matrix"][-1] * 4.0 ** (-80 if others == 0 else 0)
    return {**own, "matrix": (*own["matrix"][:-1], last)}


TWINS: dict[str, dict[str, Any]] = {
    "theory.rough_covariance:obligation_radius": {
        "half": lambda *given: rough_covariance.radius_squared(*given) / 2,
        "three times": lambda *given: 3 * rough_covariance.radius_squared(*given),
        "whatever n": lambda levels, below, others, d, n_max: rough_covariance.radius_squared(
            levels, below, others, d, 2
        ),
    },
    "theory.rough_covariance:obligation_one_mean": {
        "half": Fraction(1, 2),
        "a little more": Fraction(101, 100),
    },
    "theory.rough_covariance:obligation_most_lost": {
        "half": lambda d, k: rough_covariance.most_lost(d, k) / 2,
        "twice": lambda d, k: 2 * rough_covariance.most_lost(d, k),
        "as for all": lambda d, k: 1,
    },
    "unknown_covariance_mean:obligation_exponent": {
        "at most 64 reports": lambda parameters: min(64, unknown.reports_by_rule(parameters)),
    },
    "unknown_covariance_mean:obligation_shares": {
        "twice": lambda parameters: 2 * unknown.mu_squared(parameters),
        "of one report": lambda parameters: unknown.mu_squared({**parameters, "reports": 1}) / 2,
    },
    "unknown_covariance_mean:obligation_any_transcript": {"without a floor": _without_a_floor},
    "unknown_covariance_mean:obligation_typical": {
        "no reports": lambda parameters, variances: (
            unknown.typical(parameters, variances)[0],
            *((10**6,) for _ in range(parameters["reports"])),
            unknown.typical(parameters, variances)[-1],
        ),
        "no sum": lambda parameters, variances: (
            *unknown.typical(parameters, variances)[:-1],
            (0, 100),
        ),
    },
    "unknown_covariance_mean:obligation_lower_bound_is_below_error": {"within ten": 10},
}


def _patched(where: Any, name: str, wrong: Callable[..., Any]) -> Plant:
    def plant(patch: pytest.MonkeyPatch) -> None:
        right = getattr(where, name)
        patch.setattr(where, name, lambda *given: wrong(right, *given))

    return plant


FAULTS: dict[str, list[Plant]] = {
    "unknown_covariance_mean:obligation_shares": [
        _patched(unknown, "root_down", lambda right, square: right(square) / 2),
    ],
    "unknown_covariance_mean:obligation_lower_bound_is_below_error": [
        _patched(unknown, "lower_bound", lambda right, *given: 200 * right(*given)),
        _patched(unknown, "lower_bound", lambda right, *given: right(*given) / 100),
    ],
}
