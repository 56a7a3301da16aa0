"""Attacks on ``interquartile_range``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, InterquartileRange
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import NOTHING, Transcripts, View
from dpverify.grid.quartiles import QuartileBins, ranks_of
from dpverify.plans import LaplaceTest, Stage
from dpverify.rates import Curve, Empirical, Instance, Metric, RateClaim

REPLACE = Adjacency.REPLACE
_FAR = 1e308

# --- planted faults -----------------------------------------------------------------------------


class _OneSide(QuartileBins):
    """Distances that count only how many records it takes to make the range longer."""

    __slots__ = ()

    def distance(self, cells: NDArray[np.int64], low: int, high: int) -> int:
        """Count as if a bin had no lower edge."""
        return QuartileBins.distance(self, cells, 0, high)


class _NoBounds(QuartileBins):
    """Distances under which replaced records go no farther than the others are."""

    __slots__ = ()

    def distance(self, cells: NDArray[np.int64], low: int, high: int) -> int:
        """Count between the least and the largest record in place of the bounds."""
        ends = int(cells[0]), int(cells[-1]) + 1
        within = QuartileBins(*ends, self.exponent, self.step)
        return QuartileBins.distance(within, cells, low, high)


class _OneQuartile(QuartileBins):
    """Distances under which only one of the quartiles moves, so that more records seem needed."""

    __slots__ = ()

    def distance(self, cells: NDArray[np.int64], low: int, high: int) -> int:
        """Count for the upper quartile alone."""
        first, last = ranks_of(len(cells))
        least, ends = int(cells[first - 1]), [*cells[last - 1 :].tolist(), self.upper]
        wider = next((k for k, z in enumerate(ends) if z - least >= high), len(cells))
        inner = cells[first - 1 : last][::-1].tolist()
        narrower = next((k for k, z in enumerate(inner) if z - least < low), len(cells))
        return max(1, min(wider, narrower))


class _ManyRecords(QuartileBins):
    """Distances so large that every value is released."""

    __slots__ = ()

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Give both bins, at the largest distance."""
        rows = QuartileBins.evaluate(self, view, before)
        rows[:, 1] = 10**6
        return rows


_QUERIES: Mapping[str, type[QuartileBins]] = {
    "distances to the upper edge alone": _OneSide,
    "no bounds beyond the records": _NoBounds,
    "one quartile at a time": _OneQuartile,
    "released without the test": _ManyRecords,
}


def _faults(mechanism: InterquartileRange, *names: str) -> list[Fault]:
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    query, noise = stage.query, stage.noise
    assert isinstance(query, QuartileBins)
    assert isinstance(noise, LaplaceTest)
    own = (query.lower, query.upper, query.exponent, query.step)
    wrong = {
        name: dataclasses.replace(stage, query=_QUERIES[name](*own)) for name in names or _QUERIES
    }
    low = LaplaceTest(noise.scale, max(2, math.ceil(noise.scale)))
    wrong["a threshold without delta"] = dataclasses.replace(stage, noise=low)
    return [plan_fault(f"bins: {name}", mechanism, (made,)) for name, made in wrong.items()]


# --- pairs --------------------------------------------------------------------------------------


def _crowd(place: float, least: int) -> list[float]:
    """Place so many records at one point that about ``least`` must change to move a quartile
    away."""
    return [place] * (4 * least)


def _cliff(least: int) -> list[float]:
    """Put the upper quartile in a crowd and the lower one at a single record, with the others
    far below."""
    return [0.0] * (least - 1) + [30.0] + [40.0] * (3 * least)


def _pairs(least: int) -> tuple[NeighboringPair, ...]:
    """List pairs on 64 cells of length 1 between 0 and 64; ``least`` is the threshold."""
    return (
        replaced("both distances fall", _crowd(32.0, least + 4), _FAR),
        replaced("around the threshold", _crowd(32.0, least), 0.0),
        replaced("the lower quartile at a cliff", _cliff(least + 4), 0.0, at=least + 3),
        replaced("the only two, from the same place to both ends", [0.0, 0.0], _FAR),
        replaced("a subnormal", [-5e-324, 0.0, 5e-324, 64.0], 64.0, at=1),
    )


def _threshold(mechanism: InterquartileRange) -> int:
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    assert isinstance(stage.noise, LaplaceTest)
    return stage.noise.threshold


def _configuration(
    name: str, mechanism: InterquartileRange, pairs: Sequence[NeighboringPair], *faults: str
) -> Configuration:
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=_faults(mechanism, *faults),
        quick_trials=20_000,
    )


_RANGE: dict[str, Any] = {"adjacency": REPLACE, "lower": 0.0, "upper": 64.0, "cells": 64}
_BUDGET = InterquartileRange.for_budget(ApproxDP(1, "0.05"), **_RANGE)
_WIDE = InterquartileRange.for_budget(
    ApproxDP(2, "0.05"),
    adjacency=REPLACE,
    lower=-1e300,
    upper=1e300,
    nonfinite="replace",
)
_WIDE_PAIRS = (
    replaced("a NaN among equals", _crowd(5e299, _threshold(_WIDE) + 4), float("nan")),
    replaced("from one place to both ends", [0.0, 0.0, 0.0, 1e300], _FAR),
)

CONFIGURATIONS = (
    _configuration("budget", _BUDGET, _pairs(_threshold(_BUDGET))),
    _configuration("wide", _WIDE, _WIDE_PAIRS, "released without the test"),
)

# --- small instances ----------------------------------------------------------------------------


def _small(name: str, data: Any, **own: Any) -> SmallInstance:
    parameters: dict[str, Any] = {
        "adjacency": REPLACE,
        "noise_multiplier": Fraction(1, 4),
        "delta": Fraction(1, 5),
        "lower": 0.0,
        "upper": 4.0,
        "cells": 4,
        "step": 2,
        **own,
    }
    return SmallInstance(name=name, mechanism=InterquartileRange(**parameters), data=data)


SMALL = (
    _small("a crowd at one place", (2.2, 1.8) * 20),
    _small("two crowds, one record beyond the bounds", (1.0,) * 20 + (-_FAR,) + (3.0,) * 19),
    _small(
        "quartiles three cells apart, at different distances",
        (5e-324,) * 6 + (6.0,) * 19 + (9.0,) * 25 + (15.0,) * 6,
        upper=16.0,
        cells=16,
        step=Fraction(3, 2),
    ),
)

# --- rates --------------------------------------------------------------------------------------


def _made(setting: Mapping[str, Any]) -> InterquartileRange:
    return InterquartileRange.for_budget(
        ApproxDP(Fraction(setting["epsilon"]), "1e-6"), adjacency=REPLACE, lower=-16.0, upper=16.0
    )


def _off(estimate: Any, truth: float) -> float:
    """Measure the logarithm of the factor by which the estimate is off."""
    return abs(math.log(estimate.value / truth))


def _apart(mechanism: InterquartileRange, data: NDArray[np.float64]) -> float:
    ordered, (first, last) = np.sort(data[:, 0]), ranks_of(len(data))
    return float(ordered[last - 1] - ordered[first - 1])


def _rate(name: str, variable: str, values: tuple[Any, ...], **setting: Any) -> RateClaim:
    """Claim the share of releases that abstain, for normal records; no other release is off by
    more than a step."""
    return RateClaim(
        name=name,
        mechanism=_made,
        variable=variable,
        values=values,
        setting=setting,
        instance=Instance(kind="gaussian", parameters={"mean": 1.0, "deviation": 1.0}),
        target=Empirical(_apart),
        error=_off,
        metric=Metric("misses", beyond=0.23),  # ln(5/4) = 0.223
        curve=Curve(function="abstains", arguments=("parameters", "records")),
        source="DL09, the interquartile range: rarely no answer where records are dense",
        shows_last=True,  # where few releases abstain
        repeats=12_000,
    )


RATES = (
    _rate("abstention-against-n", "n", (450, 500, 600), epsilon=1),
    _rate(
        "abstention-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("3/8", "13/32", "7/16"))),
        n=1200,
    ),
)
