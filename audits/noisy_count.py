"""Attacks on ``noisy_count``."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, GaussianDP, NoisyCount, PureDP
from dpverify.audit import Configuration, SmallInstance, added, replaced
from dpverify.rates import Curve, Empirical, Exponent, Instance, Metric, RateClaim

_TALL = (180.0, 1e308)
_ALTERNATING = [190.0, 150.0] * 10

CONFIGURATIONS = (
    Configuration(
        name="all",
        mechanism=NoisyCount.for_budget(PureDP(1), adjacency=Adjacency.ADD_REMOVE),
        pairs=(
            added("nobody against somebody", [], 170.0),
            added("one more of the same", [170.0] * 7, 170.0),
            added("an extreme record", [170.0] * 7, -1e308, at=3),
        ),
    ),
    Configuration(
        name="within",
        mechanism=NoisyCount.for_budget(
            PureDP("0.5"), adjacency=Adjacency.ADD_REMOVE, within=_TALL
        ),
        pairs=(
            added("one more inside", [170.0] * 7, 190.0),
            added("exactly on the bound", [170.0] * 7, 180.0, at=7),
            added("everything shifts by a place", _ALTERNATING, 190.0),
            added("everything shifts, the other way", _ALTERNATING, 150.0),
            added("nobody against somebody", [], 190.0),
        ),
    ),
    Configuration(
        name="within",
        mechanism=NoisyCount.for_budget(PureDP(2), adjacency=Adjacency.REPLACE, within=_TALL),
        pairs=(
            replaced("one comes in", [170.0] * 7, 190.0),
            replaced("by the smallest step", [170.0] * 6 + [179.99999999999997], 180.0, at=6),
        ),
    ),
    Configuration(
        name="gaussian",
        mechanism=NoisyCount.for_budget(
            GaussianDP(1), adjacency=Adjacency.ADD_REMOVE, noise="gaussian"
        ),
        pairs=(
            added("nobody against somebody", [], 170.0),
            added("an extreme record", [170.0] * 7, -1e308, at=3),
        ),
    ),
)


def _small(scale: Fraction, **how: Any) -> NoisyCount:
    own: dict[str, Any] = {"within": (0.0, 1.0), **how}
    return NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=scale, **own)


SMALL = (
    SmallInstance(
        name="scale 1",
        mechanism=_small(Fraction(1)),
        data=(0.5, -0.0, 2.0),
        max_choices=20,
    ),
    SmallInstance(
        name="scale 3/2",
        mechanism=_small(Fraction(3, 2)),
        data=(),
        max_choices=20,
    ),
    SmallInstance(
        name="scale 4/3",
        mechanism=_small(Fraction(4, 3)),
        data=(1.0, 5e-324),
        max_choices=20,
    ),
    SmallInstance(
        name="scale 3, Gaussian noise",
        mechanism=_small(Fraction(3), noise="gaussian"),
        data=(0.5, 7.0),
    ),
)


def _count(setting: Mapping[str, Any]) -> NoisyCount:
    multiplier = 1 / Fraction(setting["epsilon"])
    return NoisyCount(adjacency=Adjacency.ADD_REMOVE, noise_multiplier=multiplier)


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    return RateClaim(
        name=name,
        mechanism=_count,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 170.0, "deviation": 10.0}),
        target=Empirical(lambda mechanism, data: len(data)),
        error=lambda estimate, truth: abs(estimate.value - truth),
        **claimed,
    )


_EPSILONS = tuple(map(Fraction, ("1/100", "1/30", "1/10", "3/10")))
_DEVIATION = Curve(function="expected_error", arguments=("parameters",))
_LEAST = Curve(function="lower_bound", arguments=("epsilon",))

RATES = (
    _rate(
        "error-against-n",
        "n",
        (10, 100, 1000, 10_000),
        setting={"epsilon": Fraction(1, 10)},
        exponent=Exponent(value=0, tolerance=0.05),
        curve=_DEVIATION,
        lower=_LEAST,
        repeats=7000,
        source="GRS09: the noise does not know the count",
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        _EPSILONS,
        setting={"n": 100},
        exponent=Exponent(value=-1, tolerance=0.05),
        curve=_DEVIATION,
        lower=_LEAST,
        repeats=7000,
        source="GRS09, geometric mechanism; HT10 for the lower bound",
    ),
    _rate(
        "tail-against-epsilon",
        "epsilon",
        _EPSILONS[:3],
        setting={"n": 100, "beta": Fraction(1, 20)},
        metric=Metric("quantile", 0.95),
        exponent=Exponent(value=-1, tolerance=0.1),
        upper=Curve(function="error_bound", arguments=("parameters", "beta")),
        repeats=12_000,
        source="GRS09, geometric mechanism: the tail of the noise",
    ),
)
