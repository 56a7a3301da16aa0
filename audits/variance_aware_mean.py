"""Attacks on ``variance_aware_mean``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianDP, VarianceAwareMean
from dpverify.audit import SmallInstance
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from . import _median_centered as shared
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


_SHARES: dict[str, Any] = {"norm_share": Fraction(1, 4), "radii": (1, 4)}
# One step of either search: every stage has a quarter of mu^2.
_LINE = VarianceAwareMean.for_budget(
    GaussianDP(2),
    adjacency=ADD,
    center=(0.0,),
    reach=4,
    least_deviation=2,
    search_share=Fraction(1, 2),
    extra_steps=0,
    nonfinite="replace",
    **_SHARES,
)
_PLANE = VarianceAwareMean.for_budget(
    ApproxDP(12, "1e-6"),
    adjacency=REPLACE,
    center=(1.0, -3.0),
    reach=8,
    deviations=(4.0, 8.0),
    search_share=Fraction(1, 4),
    extra_steps=0,
    nonfinite="replace",
    **_SHARES,
)
_TRACED = VarianceAwareMean.for_budget(
    ApproxDP(1, "1e-6"), adjacency=REPLACE, center=(0.0,) * 200, reach=10, deviations=(1.0,) * 200
)

CONFIGURATIONS = (
    shared.targeting(
        "unknown",
        _LINE,
        shared.line_added(),
        shared.exact_number,
        shared.exact_medians,
        shared.unpaid_weight,
        shared.unpaid_steps,
        quick_trials=64_000,
    ),
    traced(
        shared.targeting(
            "plane",
            _PLANE,
            shared.plane_replaced(),
            shared.exact_medians,
            shared.one_column,
            quick_trials=16_000,
        ),
        _TRACED,
        n=50,
        columns=200,
    ),
)


# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, multiplier: str, **own: Any) -> VarianceAwareMean:
    """Build an instance in which a step's scale is one record and two records decide, by one
    unit of noise, which is all there is."""
    base: dict[str, Any] = {
        "center": (0.0,),
        "reach": 2,
        "deviations": (1.0,),
        "radii": (1,),
        "search_share": Fraction(1, 4),
        "norm_share": Fraction(1, 4),
    }
    return VarianceAwareMean(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **base | own
    )


SMALL = (
    SmallInstance(
        name="two steps of one column, add-remove",
        mechanism=_small(ADD, "1/2", extra_steps=1, search_share=Fraction(1, 2)),
        data=(1.5, 0.25, 3.0, -1.0),
    ),
    SmallInstance(
        name="one step of one column, two radii, replace",
        mechanism=_small(REPLACE, "1/4", extra_steps=0, radii=(1, 2)),
        data=(-1.5, -0.25, -3.0, 1e308),
    ),
    SmallInstance(
        name="unknown deviation, replace",
        mechanism=_small(REPLACE, "1/8", extra_steps=0, deviations=None, least_deviation=1),
        data=(0.5, 0.25, 3.0, -0.75),
    ),
    SmallInstance(name="nobody", mechanism=_small(ADD, "1/2", extra_steps=0), data=()),
)


# --- rates --------------------------------------------------------------------------------------

_MULTIPLE = 4  # the only radius of these: no record of theirs is beyond


def _decaying(setting: Mapping[str, Any]) -> VarianceAwareMean:
    d = int(setting["d"])
    return VarianceAwareMean(
        adjacency=REPLACE,
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        center=(0.0,) * d,
        reach=4,
        deviations=tuple(1 / (j + 1) for j in range(d)),
        radii=(_MULTIPLE,),
        extra_steps=1,
    )


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the distance from the data's mean, for normal records of standard deviations 1, 1/2,
    1/3, ... about 1."""
    own: dict[str, Any] = {
        "target": Empirical(lambda mechanism, data: data.mean(axis=0)),
        "curve": Curve(function="expected_error", arguments=("parameters", "n", "multiple")),
    }
    return RateClaim(
        name=name,
        mechanism=_decaying,
        variable=variable,
        values=values,
        instance=Instance(kind="decaying", parameters={"mean": 1.0, "power": 1.0}),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        facts=lambda setting, data, truth: {"multiple": float(_MULTIPLE)},
        source="ALNP23, Algorithm 1 (PLAN)",
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (250, 500, 1000),
        setting={"d": 4, "noise_multiplier": 1},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=700,
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/2", "1", "2"))),
        setting={"n": 1000, "d": 4},
        exponent=Exponent(value=1, tolerance=0.1),
        repeats=700,
    ),
    _rate(
        "population-error",
        "n",
        (2000,),
        setting={"d": 4, "noise_multiplier": 8},
        target=Population(lambda mechanism, setting: np.ones(setting["d"])),
        curve=Curve(function="population_error", arguments=("parameters", "n", "multiple")),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=800,
    ),
)
