"""Rates of ``clipped_mean`` for heavy-tailed data with a known second moment."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, ApproxDP, ClippedMean
from dpverify.rates import Curve, Exponent, Instance, Population, RateClaim

_BUDGET = ApproxDP(1, Fraction(1, 10**6))


def _made(setting: Mapping[str, Any]) -> ClippedMean:
    """Choose the radius from the second moment about zero."""
    return ClippedMean.for_budget(
        _BUDGET,
        adjacency=Adjacency.REPLACE,
        center=(0.0,),
        second_moment=setting["second_moment"],
        n_max=setting["n"],
    )


def _off(estimate: Any, truth: float) -> float:
    return abs(float(estimate.value[0]) - truth)


def _rate(law: str, second_moment: Fraction, mean: float, instance: Instance) -> RateClaim:
    """Claim the error for this law, and the bound that its second moment gives."""
    return RateClaim(
        name=f"{law}-against-n",
        mechanism=_made,
        variable="n",
        values=(400, 1600, 6400),
        setting={"law": law, "second_moment": second_moment},
        instance=instance,
        target=Population(lambda mechanism, setting: mean),
        error=_off,
        exponent=Exponent(value=-0.5, tolerance=0.06, drift=0.4),
        curve=Curve(function="heavy_tailed_error", arguments=("parameters", "n", "law")),
        upper=Curve(
            function="second_moment_bound",
            arguments=("parameters", "n", "second_moment"),
            margin=1,
        ),
        source="KSU20, means under a bounded second moment: 1 / sqrt(n) with and without privacy",
        repeats=1500,
    )


_T3 = Instance(
    kind="student", parameters={"freedom": 3.0, "center": 0.0, "scale": 1.0, "within": math.inf}
)
RATES = (
    _rate("student", Fraction(3), 0.0, _T3),
    _rate(
        "lognormal",
        Fraction(739, 100),  # e^2, rounded up
        math.exp(0.5),
        Instance(kind="lognormal", parameters={"deviation": 1.0}),
    ),
)
