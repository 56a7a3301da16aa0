"""Attacks on ``location_scale``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, LocationScale
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.location_scale_frames import Law
from dpverify.estimation.whitening import octave_of
from dpverify.families import (
    LogisticFamily,
    LogLogisticFamily,
    LogNormalFamily,
    NormalFamily,
    WeibullFamily,
)
from dpverify.families.fitting import Near, fitted
from dpverify.grid import OneUnit
from dpverify.grid.step_moments import StepMoments
from dpverify.plans import Stage
from dpverify.plans.walking import rescaled_stage
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

from ._stepped_faults import about_mean, changed, exact_number, own_edges, unpaid_steps

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Planted = Callable[[LocationScale], Fault]

# --- planted faults -----------------------------------------------------------------------------


def _asked(stage: Stage) -> StepMoments:
    assert isinstance(stage.query, OneUnit)
    assert isinstance(stage.query.query, StepMoments)
    return stage.query.query


def _asking(stage: Stage, query: StepMoments) -> Stage:
    assert isinstance(stage.query, OneUnit)
    return dataclasses.replace(stage, query=dataclasses.replace(stage.query, query=query))


def _one_moment(mechanism: LocationScale) -> Fault:
    """Give the last moments the noise that would suffice for the first of them."""

    def change(stage: Stage) -> Stage:
        asked = _asked(stage)
        alone = dataclasses.replace(asked, square=0, offset=0, weight=0)
        share = alone.moved(mechanism.adjacency) / asked.moved(mechanism.adjacency)
        return rescaled_stage(stage, Fraction(math.sqrt(share)))

    return plan_fault("pays for the first moment", mechanism, changed(mechanism, change, "moments"))


def _free_number(mechanism: LocationScale) -> Fault:
    """Double the weight of the number, for which the noise does not suffice."""

    def change(stage: Stage) -> Stage:
        asked = _asked(stage)
        return _asking(stage, dataclasses.replace(asked, weight=2 * asked.weight))

    return plan_fault(
        "does not pay for the number", mechanism, changed(mechanism, change, "moments")
    )


_own_edges = own_edges("moments", about_mean)

# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308
_EQUAL = [1.1] * 5000
_LOW, _HIGH = 0.4, 2.0  # of what is kept: the interval ends there


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs with a record beyond every interval, which moves all stages as far as any
    record can."""
    return (
        added("an outlier enters", _EQUAL, _FAR),
        added("around the least number", [1.1] * 4499, -_FAR, at=4499),
        NeighboringPair(
            name="nobody against somebody", left=[_FAR], right=np.zeros((0, 1)), adjacency=ADD
        ),
        added("a NaN enters", _EQUAL, _NAN),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs: one end by the other moves sides and first moments; an end by the middle moves
    distances and second moments."""
    return (
        replaced("one end for the other", [_FAR, *_EQUAL], -_FAR),
        replaced("an outlier by the middle", [_FAR, *_EQUAL], 1.1),
        replaced("a NaN by an outlier", [_NAN, *_EQUAL], _FAR),
        replaced("within a cell", [-0.0, *_EQUAL], 5e-324),
    )


def _kept() -> tuple[NeighboringPair, ...]:
    """List pairs at the ends of the kept interval, of which the lower counts and the upper does
    not."""
    return (
        replaced("the lower end by the middle", [_LOW, *_EQUAL], 1.2),
        replaced("just inside by just outside", [math.nextafter(_HIGH, 0), *_EQUAL], _HIGH),
    )


def _attacked(
    name: str,
    adjacency: Adjacency,
    pairs: Sequence[NeighboringPair],
    which: str,
    *faults: Planted,
    **parameters: Any,
) -> Configuration:
    """Attack one stage that has most of mu^2 (for a search's first step: with its other steps).

    Many equal records make the other stages nearly certain, so that few transcripts lead to
    different intervals.
    """
    order = ("side 1", "spread 1", "warm moments", "moments")
    own: dict[str, Any] = {"family": NormalFamily(), "ranges": ((0.9, 1.2), (0.5, 1.0))}
    mechanism = LocationScale(
        adjacency=adjacency,
        noise_multiplier=Fraction(1, 2),
        shares=tuple(Fraction(47 if one == which else 1, 50) for one in order),
        at_least=4500,
        nonfinite="replace",
        **own | parameters,
    )
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset({which}),
        quick_trials=12_000 if which == "spread 1" else 8_000,
    )


_INSIDE: Any = {"outside": "mask", "kept": (_LOW, _HIGH)}

CONFIGURATIONS = (
    _attacked("center", REPLACE, _replaced()[:1], "side 1", unpaid_steps),
    _attacked("unit", REPLACE, _replaced()[1:3], "spread 1", unpaid_steps),
    _attacked("clip", ADD, _added(), "moments", _one_moment, _own_edges, exact_number),
    _attacked("ends", REPLACE, (*_replaced()[1:2], *_replaced()[3:]), "moments", _one_moment),
    _attacked("masked", REPLACE, _kept(), "moments", _one_moment, _free_number, **_INSIDE),
    _attacked(
        "warm",
        ADD,
        (*_added()[:1], added("one at the lower end enters", _EQUAL, _LOW)),
        "warm moments",
        family=LogNormalFamily(),
        ranges=((0.0, 0.3), (0.5, 1.0)),
        **_INSIDE,
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(
    name: str, adjacency: Adjacency, multiplier: str, data: Any, **parameters: Any
) -> SmallInstance:
    own: dict[str, Any] = {"family": NormalFamily(), "ranges": ((-30.0, 30.0), (0.1, 30.0))}
    mechanism = LocationScale(
        adjacency=adjacency,
        noise_multiplier=Fraction(multiplier),
        at_least=1,
        **own | parameters,
    )
    return SmallInstance(name=f"{name}, followed", mechanism=mechanism, data=data, followed=6)


_LINE = [0.01 + 0.37 * (k * k % 17) for k in range(60)]
_POWERS: Any = {"ranges": ((0.01, 1e3), (0.2, 9.0))}

SMALL = (
    _small("a line", REPLACE, "1/10", [-1e308, *_LINE]),
    _small("a kept line", ADD, "1/10", _LINE, outside="mask", kept=(0.1, 4.5)),
    _small("logarithms", ADD, "1/5", [-1.0, 0.0, *_LINE], family=LogNormalFamily()),
    _small("powers", REPLACE, "1/5", _LINE, family=WeibullFamily(), outside="mask", **_POWERS),
    _small("odds", ADD, "1/5", [1e308, *_LINE], family=LogLogisticFamily(), **_POWERS),
    _small("logistic", REPLACE, "1/5", _LINE, family=LogisticFamily()),
    _small("nobody", ADD, "3/2", ()),
)

# --- rates --------------------------------------------------------------------------------------


def _made(setting: Mapping[str, Any]) -> LocationScale:
    return LocationScale(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        family=NormalFamily(),
        ranges=((-8.0, 8.0), (0.25, 4.0)),
        outside=setting["outside"],
    )


def _without_noise(mechanism: Any, data: Any) -> tuple[float, float]:
    """Fit location and scale to the exact moments in the interval that is best for the data's
    own mean and deviation."""
    near = Law(float(data.mean()), float(data.std()))
    where = mechanism._frames().best(near, octave_of(float(len(data))))
    s = where.steps(data[:, 0])
    kept = np.clip(s, -1, 1) if where.outside == "clip" else s[(s >= -1) & (s < 1)]
    means = np.array([np.clip(kept, -where.turn, where.turn).mean(), (kept * kept).mean()])
    law = fitted(mechanism.family, means, where, Near(*near, 1.0, 2.0))
    assert law is not None
    return law


def _off(estimate: Any, truth: tuple[float, float]) -> float:
    """Combine the mean's error in deviations, which are 1, and the error of the deviation's
    logarithm."""
    return math.hypot(estimate.location - truth[0], math.log(estimate.scale / truth[1]))


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the noise for normal records of mean 1.3 and deviation 1; every release has the same
    records."""
    return RateClaim(
        name=name,
        mechanism=_made,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 1.3, "deviation": 1.0}),
        target=Empirical(_without_noise),
        error=_off,
        facts=lambda setting, data, truth: {"location": 1.3, "scale": 1.0},
        curve=Curve(
            function="noise_errors", arguments=("parameters", "n", "location", "scale"), margin=1.14
        ),
        source="OURS, location-scale families by two moments; ZZ25",
        repeats=700,
        **claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (6400, 25_600, 102_400),
        setting={"noise_multiplier": 16, "adjacency": ADD, "outside": "clip"},
        exponent=Exponent(value=-0.94, tolerance=0.1),
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (2, 8, 32),
        setting={"n": 25_600, "adjacency": REPLACE, "outside": "mask"},
        exponent=Exponent(value=0.82, tolerance=0.1),
    ),
)
