"""A rate of ``rescaled_mean`` in the Mahalanobis norm of a known covariance."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RescaledMean
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

_DELTA = Fraction(1, 10**6)


def _deviations(d: int) -> list[float]:
    """List the standard deviations of the instance's columns, 1 / j."""
    return [1.0 / j for j in range(1, d + 1)]


def _made(setting: Mapping[str, Any]) -> RescaledMean:
    """Build the mechanism for the instance's covariance and the Mahalanobis metric."""
    return RescaledMean.for_budget(
        ApproxDP(setting["epsilon"], setting["delta"]),
        adjacency=setting["adjacency"],
        covariance=[s**2 for s in _deviations(setting["d"])],
        n_max=setting["n"],
        metric="mahalanobis",
    )


def _length(estimate: Any, truth: Any) -> float:
    """Measure the error in the Mahalanobis norm."""
    return float(np.linalg.norm((estimate.value - truth) / _deviations(len(truth))))


def _others(function: str) -> Curve:
    return Curve(function=function, arguments=("n", "d", "epsilon", "delta"))


RATES = (
    RateClaim(
        name="mahalanobis-noise-against-n",
        mechanism=_made,
        variable="n",
        values=(3000, 6000, 12_000),
        setting={"d": 20, "epsilon": 1, "delta": _DELTA, "adjacency": Adjacency.ADD_REMOVE},
        instance=Instance(kind="decaying", parameters={"mean": 3.0, "power": 1.0}),
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        error=_length,
        exponent=Exponent(value=-1, tolerance=0.12),
        curve=Curve(function="mahalanobis_error", arguments=("parameters", "n")),
        lines={
            "BHS23, unknown covariance, its constants": _others("stable_mean_noise"),
            "KDH23, unknown covariance, rate with constant 1": _others("adaptive_mean_rate"),
        },
        source="DJYZZ24, footnote 4: M = Sigma^2 for the Mahalanobis norm of Sigma",
        repeats=800,
    ),
)
