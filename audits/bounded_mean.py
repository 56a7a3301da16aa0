"""Attacks on ``bounded_mean``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

from dpverify import Adjacency, ApproxDP, BoundedMean, PureDP
from dpverify.audit import Configuration, NeighboringPair, SmallInstance, added, replaced
from dpverify.rates import Curve, Empirical, Exponent, Instance, Metric, RateClaim


def _pairs_added(low: float, high: float, least: int) -> tuple[NeighboringPair, ...]:
    """List pairs: a bound enters, which moves the sum most; around ``least``, the gate; a shift
    of the order."""
    middle, alternating = [(low + high) / 2] * 40, [high, low] * 20
    return (
        added("the upper bound enters", middle, high),
        added("the lower bound enters", middle, low),
        added("a far outlier enters", middle, 1e308, at=20),
        added("everything shifts by a place", alternating, low),
        added("everything shifts, the other way", alternating, high),
        added("nobody against somebody", [], high),
        added("around the least count", [low] * (least - 1), low),
        added("a subnormal enters", middle, 5e-324),
    )


def _pairs_replaced(low: float, high: float) -> tuple[NeighboringPair, ...]:
    return (
        replaced("from bound to bound", [low] * 20, high),
        replaced("the only record", [high], low),
        replaced("by a far outlier", [low] * 20, 1e308, at=19),
    )


def _mean(budget: PureDP | ApproxDP, adjacency: Adjacency, **parameters: Any) -> BoundedMean:
    return BoundedMean.for_budget(budget, adjacency=adjacency, **parameters)


_HEIGHT: dict[str, Any] = {"lower": 120.0, "upper": 200.0}
_BMI: dict[str, Any] = {"lower": 15.0, "upper": 45.0}
_NAN = float("nan")

CONFIGURATIONS: Sequence[Configuration] = (
    Configuration(
        name="height",
        mechanism=_mean(PureDP(1), Adjacency.ADD_REMOVE, **_HEIGHT),
        pairs=_pairs_added(120.0, 200.0, 1),
    ),
    Configuration(
        name="height",
        mechanism=_mean(PureDP(1), Adjacency.REPLACE, **_HEIGHT),
        pairs=_pairs_replaced(120.0, 200.0),
    ),
    Configuration(
        name="diabetes-bmi",
        mechanism=_mean(ApproxDP(1, "1e-6"), Adjacency.ADD_REMOVE, at_least=20, **_BMI),
        pairs=_pairs_added(15.0, 45.0, 20),
    ),
    Configuration(
        name="with-missing",
        mechanism=_mean(
            PureDP(1), Adjacency.ADD_REMOVE, count_share="1/2", nonfinite="replace", **_HEIGHT
        ),
        pairs=(*_pairs_added(120.0, 200.0, 1), added("a NaN enters", [200.0] * 40, _NAN)),
    ),
)

_SMALL: dict[str, Any] = {"lower": -1.0, "upper": 2.0, "cell": Fraction(1), "count_share": "1/2"}

SMALL = (
    SmallInstance(
        name="two records, add-remove",
        mechanism=BoundedMean(
            adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1, 2), **_SMALL
        ),
        data=(1.5, 7.0),
        max_choices=22,
    ),
    SmallInstance(
        name="no record, add-remove",
        mechanism=BoundedMean(
            adjacency=Adjacency.ADD_REMOVE, noise_multiplier=Fraction(1, 4), **_SMALL
        ),
        data=(),
        max_choices=22,
    ),
    SmallInstance(
        name="one record, replace",
        mechanism=BoundedMean(
            adjacency=Adjacency.REPLACE, noise_multiplier=Fraction(1, 2), **_SMALL
        ),
        data=(-3.0,),
        max_choices=22,
    ),
)


def _heights(setting: Mapping[str, Any]) -> BoundedMean:
    multiplier = 1 / Fraction(setting["epsilon"])
    return BoundedMean(adjacency=setting["adjacency"], noise_multiplier=multiplier, **_HEIGHT)


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error about the mean of the data, for heavy tails within the bounds."""
    tails = {"freedom": 2.0, "center": 170.0, "scale": 8.0, "within": 30.0}
    own: dict[str, Any] = {
        "exponent": Exponent(value=-1, tolerance=0.05),
        "curve": Curve(function="expected_error", arguments=("parameters", "n", "mean")),
        "repeats": 7000,
    }
    return RateClaim(
        name=name,
        mechanism=_heights,
        variable=variable,
        values=values,
        instance=Instance(kind="student", parameters=tails),
        target=Empirical(lambda mechanism, data: float(data.mean())),
        error=lambda estimate, truth: abs(estimate.value - truth),
        facts=lambda setting, data, truth: {"mean": truth},
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (300, 1000, 3000, 10_000),
        # to replace a record is two steps, so the bound is that of replacing for 2 epsilon
        setting={"epsilon": 1, "twice": Fraction(2), "adjacency": Adjacency.ADD_REMOVE},
        lower=Curve(function="lower_bound", arguments=("parameters", "twice", "n")),
        source="K19, An example: O(1 / (n epsilon)) beside the sampling error",
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/20", "1/5", "1"))),
        setting={"n": 2000, "adjacency": Adjacency.REPLACE},
        lower=Curve(function="lower_bound", arguments=("parameters", "epsilon", "n")),
        source="K19, An example; HT10 for the lower bound",
    ),
    _rate(
        "tail",  # the bound is ln 400 where the quantile is ln 200
        "epsilon",
        (Fraction(1, 5),),
        setting={"n": 2000, "beta": Fraction(1, 200), "adjacency": Adjacency.REPLACE},
        metric=Metric("quantile", 0.995),
        curve=None,
        exponent=None,
        upper=Curve(function="error_bound", arguments=("parameters", "n", "beta"), margin=1),
        source="K19, An example: the tail of the noise",
        repeats=40_000,
    ),
)
