"""Rates of ``rescaled_mean``: noise and error against every parameter of Theorem 3.1, for
weights and for the filter that draws coins."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np
import scipy

from dpverify import Adjacency, ApproxDP, RescaledMean
from dpverify.rates import Curve, Empirical, Exponent, Instance, Metric, Population, RateClaim

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Setting = Mapping[str, Any]
_SOURCE = "DJYZZ24, Theorem 3.1, with the constants of this project"


def _made(setting: Setting, covariance: list[float], **own: Any) -> RescaledMean:
    """Build the mechanism with M the covariance and ``n_max`` the number of records."""
    delta = Fraction(1, 10 ** setting.get("digits", 6))
    return RescaledMean.for_budget(
        ApproxDP(setting["epsilon"], delta),
        adjacency=setting["adjacency"],
        covariance=covariance,
        n_max=setting["n"],
        **own,
    )


def _for_decaying(setting: Setting) -> RescaledMean:
    """Build the mechanism for M = diag(1 / i^2)."""
    return _made(setting, [1.0 / (i + 1) ** 2 for i in range(setting["d"])])


def _by_coins(setting: Setting) -> RescaledMean:
    """Build the mechanism for M = diag(1 / i^2), with the filter of Algorithm 1."""
    return _made(setting, [1.0 / (i + 1) ** 2 for i in range(setting["d"])], filter="basic")


def _for_round(setting: Setting) -> RescaledMean:
    """Build the mechanism for M = I."""
    return _made(setting, [1.0] * setting["d"])


def _for_few(setting: Setting) -> RescaledMean:
    """Build the mechanism for ``count`` variances of 1 and all others 1 / d^2."""
    d, count = setting["d"], setting["count"]
    return _made(setting, [1.0 if i < count else 1.0 / d**2 for i in range(d)])


def _distance(estimate: Any, truth: Any) -> float:
    return float(np.linalg.norm(estimate.value - truth))


def _sampling(setting: Setting) -> float:
    """Return the root mean squared error of the mean without noise: sqrt(tr S / n)."""
    trace = sum(1.0 / (i + 1) ** 2 for i in range(setting["d"]))
    return float(np.sqrt(trace / setting["n"]))


def _sampling_quantile(setting: Setting) -> float:
    """Return what the error of the mean without noise exceeds with probability
    exp(-log_inverse_beta), for S = I."""
    level = 2 * float(
        scipy.special.gammaincinv(setting["d"] / 2, 1 - np.exp(-setting["log_inverse_beta"]))
    )
    return float(np.sqrt(level / setting["n"]))


_NOISE = Empirical(lambda mechanism, data: data.mean(axis=0))
_EXPECTED = Curve(function="expected_error", arguments=("parameters", "n"))
_ARGUMENTS = ("parameters", "n", "log_inverse_beta")
_DECAYING = Instance(kind="decaying", parameters={"mean": 3.0, "power": 1.0})
_NORMAL = Instance(kind="gaussian", parameters={"mean": 3.0, "deviation": 1.0})
_FEW = Instance(kind="few_large", parameters={"mean": 3.0, "deviation": 1.0, "count": "count"})
_QUANTILE = Metric("quantile", tail="log_inverse_beta")


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the noise for decaying variances and weights; ``claimed`` overrides any of these."""
    own: dict[str, Any] = {
        "mechanism": _for_decaying,
        "instance": _DECAYING,
        "target": _NOISE,
        "curve": _EXPECTED,
        "error": _distance,
        "source": _SOURCE,
    }
    return RateClaim(name=name, variable=variable, values=values, **own | claimed)


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (3000, 12_000, 48_000),
        setting={"d": 20, "epsilon": 1, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.12),
        repeats=1500,
    ),
    _rate(
        "noise-against-epsilon",
        "epsilon",
        (1, 2, 4),
        setting={"d": 20, "n": 4000, "adjacency": REPLACE},
        repeats=600,
    ),
    # sqrt(ln(1 / delta)) in the limit; here .64 of Gaussian noise itself, and the shift besides
    _rate(
        "noise-against-log-of-delta",
        "digits",
        (4, 8, 16),
        setting={"d": 20, "n": 3000, "epsilon": 2, "adjacency": ADD},
        exponent=Exponent(value=0.71, tolerance=0.1),
        repeats=400,
    ),
    # tr M^(1/2) is this number, and at most 1 more; the pairs' logarithm makes it less than 1
    _rate(
        "noise-against-the-trace-of-the-root",
        "count",
        (4, 16, 64),
        mechanism=_for_few,
        instance=_FEW,
        setting={"d": 80, "n": 4000, "epsilon": 2, "adjacency": ADD},
        exponent=Exponent(value=0.73, tolerance=0.12),
        repeats=400,
    ),
    _rate(
        "noise-against-log-of-its-probability",
        "log_inverse_beta",
        (Fraction(3, 2), Fraction(5, 2), Fraction(4)),
        mechanism=_for_round,
        instance=_NORMAL,
        setting={"d": 2, "n": 2000, "epsilon": 2, "adjacency": REPLACE},
        metric=_QUANTILE,
        curve=Curve(function="noise_quantile", arguments=_ARGUMENTS, margin=1.14),
        upper=Curve(function="tail_bound", arguments=_ARGUMENTS, margin=1),
        repeats=2000,
    ),
    _rate(
        "error-against-n",
        "n",
        (200, 400),
        setting={"d": 20, "epsilon": 4, "adjacency": ADD},
        target=Population(lambda mechanism, setting: np.full(setting["d"], 3.0)),
        facts=lambda setting, data, truth: {"sampling": _sampling(setting)},
        curve=Curve(function="expected_error", arguments=("parameters", "n"), beside="sampling"),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=500,
    ),
    _rate(  # pairs that are no friends in it, and the records' own error
        "error-for-all-laws",
        "log_inverse_beta",
        (3,),
        mechanism=_for_round,
        instance=_NORMAL,
        setting={"d": 3, "n": 500, "epsilon": 1, "adjacency": ADD},
        target=Population(lambda mechanism, setting: np.full(setting["d"], 3.0)),
        facts=lambda setting, data, truth: {"sampling": _sampling_quantile(setting)},
        metric=_QUANTILE,
        curve=Curve(
            function="noise_quantile", arguments=_ARGUMENTS, beside="sampling", margin=1.14
        ),
        upper=Curve(function="law_bound", arguments=_ARGUMENTS, margin=1),
        repeats=1000,
    ),
    _rate(
        "tail",  # long vectors vary little, so that their bound is close
        "epsilon",
        (2,),
        mechanism=_for_round,
        instance=_NORMAL,
        # the bound fails with probability 2 beta
        setting={"n": 1000, "d": 200, "beta": Fraction(1, 40), "adjacency": REPLACE},
        metric=Metric("quantile", 0.95),
        curve=None,
        upper=Curve(function="error_bound", arguments=("parameters", "n", "beta"), margin=1),
        repeats=600,
    ),
    _rate(
        "coins-against-n",
        "n",
        (1000, 2000, 4000),
        mechanism=_by_coins,
        setting={"d": 20, "epsilon": 4, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.15),
        repeats=300,
    ),
    _rate(
        "coins-against-epsilon",
        "epsilon",
        (2, 4, 8),
        mechanism=_by_coins,
        setting={"d": 20, "n": 2000, "adjacency": REPLACE},
        repeats=300,
    ),
)
