"""Attacks on ``bounded_sum``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, BoundedSum, GaussianDP, PureDP
from dpverify.audit import Configuration, SmallInstance, added, replaced
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_WAGE: dict[str, Any] = {"lower": 10.0, "upper": 60.0}

CONFIGURATIONS = (
    Configuration(
        name="wages",
        mechanism=BoundedSum.for_budget(PureDP(1), adjacency=_ADD, **_WAGE),
        pairs=(
            added("nobody against somebody", [], 60.0),
            added("the largest wage enters", [10.0] * 8, 1e308),
            added("a wage enters in front of others", [60.0, 10.0] * 4, 10.0, at=0),
        ),
    ),
    Configuration(
        name="wages",
        mechanism=BoundedSum.for_budget(PureDP(1), adjacency=_REPLACE, **_WAGE),
        pairs=(
            replaced("from bound to bound", [10.0] * 8, 60.0),
            replaced("from one end of the floats to the other", [-1e308] + [10.0] * 7, 1e308),
        ),
    ),
    Configuration(
        name="gains-gaussian",
        mechanism=BoundedSum.for_budget(
            GaussianDP(1), adjacency=_ADD, lower=-3.0, upper=1.0, noise="gaussian"
        ),
        pairs=(
            added("a loss enters", [1.0] * 8, -7.0, at=3),
            added("nobody against somebody", [], -3.0),
        ),
    ),
)


def _small(multiplier: str, adjacency: Adjacency, **how: Any) -> BoundedSum:
    own: dict[str, Any] = {"lower": -1.0, "upper": 2.0, "cell": 1, **how}
    return BoundedSum(adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own)


SMALL = (
    SmallInstance(
        name="two records, add-remove",
        mechanism=_small("1/2", _ADD),
        data=(1.5, 7.0),
        max_choices=20,
    ),
    SmallInstance(
        name="no record, add-remove", mechanism=_small("2/3", _ADD), data=(), max_choices=20
    ),
    SmallInstance(
        name="one record, replace", mechanism=_small("1/3", _REPLACE), data=(-3.0,), max_choices=20
    ),
    SmallInstance(
        name="two records, Gaussian noise",
        mechanism=_small("2", _ADD, noise="gaussian"),
        data=(1.5, -0.25),
    ),
)


def _wages(setting: Mapping[str, Any]) -> BoundedSum:
    return BoundedSum(adjacency=_ADD, noise_multiplier=1 / Fraction(setting["epsilon"]), **_WAGE)


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    return RateClaim(
        name=name,
        mechanism=_wages,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 30.0, "deviation": 5.0}),
        target=Empirical(lambda mechanism, data: float(data.clip(10.0, 60.0).sum())),
        error=lambda estimate, truth: abs(estimate.value - truth),
        curve=Curve(function="expected_error", arguments=("parameters",)),
        lower=Curve(function="lower_bound", arguments=("parameters", "epsilon")),
        repeats=2000,
        source="DMNS06, Section 3: noise of the sensitivity over epsilon, whatever n is; HT10 "
        "for the lower bound",
        **claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (30, 300, 3000),
        setting={"epsilon": Fraction(1, 5)},
        exponent=Exponent(value=0, tolerance=0.05),
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/20", "1/5", "1"))),
        setting={"n": 300},
        exponent=Exponent(value=-1, tolerance=0.05),
    ),
)
