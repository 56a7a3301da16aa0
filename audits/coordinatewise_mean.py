"""Attacks on ``coordinatewise_mean``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, CoordinatewiseMean, GaussianDP
from dpverify.audit import SmallInstance
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from . import _median_centered as shared
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


_LINE = CoordinatewiseMean.for_budget(
    GaussianDP(2),
    adjacency=ADD,
    center=(0.0,),
    reach=4,
    deviations=(2.0,),
    search_share=Fraction(1, 2),
    extra_steps=1,
    nonfinite="replace",
)
_PLANE = CoordinatewiseMean.for_budget(
    ApproxDP(12, "1e-6"),
    adjacency=REPLACE,
    center=(1.0, -3.0),
    reach=8,
    deviations=(4.0, 8.0),
    search_share=Fraction(1, 2),
    extra_steps=0,
    nonfinite="replace",
)

_TRACED = CoordinatewiseMean.for_budget(
    ApproxDP(1, "1e-6"), adjacency=REPLACE, center=(0.0,) * 200, reach=10, deviations=(1.0,) * 200
)

CONFIGURATIONS = (
    shared.targeting(
        "column",
        _LINE,
        shared.line_added(),
        shared.exact_number,
        shared.exact_medians,
        shared.unpaid_weight,
        shared.unpaid_steps,
        quick_trials=40_000,
    ),
    traced(
        shared.targeting(
            "plane",
            _PLANE,
            shared.plane_replaced(),
            shared.exact_medians,
            shared.one_column,
            quick_trials=32_000,
        ),
        _TRACED,
        n=50,
        columns=200,
    ),
)


# --- small instances ----------------------------------------------------------------------------

# A step's scale is one record here, and two decide: by one unit of noise, which is all there is.
_SMALL: dict[str, Any] = {
    "center": (0.0,),
    "reach": 2,
    "deviations": (1.0,),
    "extra_steps": 1,
}

SMALL = (
    SmallInstance(
        name="two steps of one column, add-remove",
        mechanism=CoordinatewiseMean(
            adjacency=ADD, noise_multiplier=Fraction(1, 2), search_share=Fraction(1, 2), **_SMALL
        ),
        data=(1.5, 0.25, 3.0, -1.0),
    ),
    SmallInstance(
        name="two steps of one column, replace",
        mechanism=CoordinatewiseMean(
            adjacency=REPLACE,
            noise_multiplier=Fraction(1, 4),
            search_share=Fraction(1, 2),
            **_SMALL,
        ),
        data=(-1.5, -0.25, -3.0, 1e308),
    ),
    SmallInstance(
        name="one step of two columns, nobody",
        mechanism=CoordinatewiseMean(
            adjacency=ADD,
            noise_multiplier=Fraction(1),
            center=(0.0, 1.0),
            reach=2,
            deviations=(1.0, 2.0),
            extra_steps=0,
        ),
        data=(),
    ),
)


# --- rates --------------------------------------------------------------------------------------


def _alike(setting: Mapping[str, Any]) -> CoordinatewiseMean:
    d = int(setting["d"])
    return CoordinatewiseMean(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        center=(0.0,) * d,
        reach=4,
        deviations=(1.0,) * d,
        extra_steps=1,
    )


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the distance from the data's mean, for normal records of standard deviation 1 about
    1."""
    own: dict[str, Any] = {
        "target": Empirical(lambda mechanism, data: data.mean(axis=0)),
        "curve": Curve(function="expected_error", arguments=("parameters", "n")),
        "error": lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
    }
    return RateClaim(
        name=name,
        mechanism=_alike,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 1.0, "deviation": 1.0}),
        source="OURS, a range for every column, then one ball and spherical noise",
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (250, 500, 1000, 2000),
        setting={"d": 4, "noise_multiplier": 1, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=800,
    ),
    _rate(
        "error-against-d",
        "d",
        (4, 8, 16, 32),
        setting={"n": 1000, "noise_multiplier": 1, "adjacency": REPLACE},
        exponent=Exponent(value=0.78, tolerance=0.1),
        repeats=300,
    ),
    # Noise has the same law in every column, so that a few releases show its length; the radius's
    # logarithm makes the slope 0.98.
    _rate(
        "noise-against-d, many columns",
        "d",
        (1024, 4096, 16_384),
        setting={"n": 500, "noise_multiplier": "1/8", "adjacency": REPLACE},
        error=lambda estimate, truth: np.abs(estimate.value - truth) * math.sqrt(len(truth)),
        by_column=True,
        exponent=Exponent(value=1, tolerance=0.05, drift=0.15),
        repeats=8192,
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/4", "1/2", "1", "2"))),
        setting={"n": 2000, "d": 4, "adjacency": ADD},
        exponent=Exponent(value=1, tolerance=0.1),
        repeats=500,
    ),
    _rate(
        "population-error",
        "n",
        (1000,),
        setting={"d": 32, "noise_multiplier": 1, "adjacency": REPLACE},
        target=Population(lambda mechanism, setting: np.ones(setting["d"])),
        facts=lambda setting, data, truth: {"sampling": math.sqrt(setting["d"] / setting["n"])},
        curve=Curve(function="expected_error", arguments=("parameters", "n"), beside="sampling"),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=400,
    ),
)
