"""Attacks on ``winsorized_mean``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianDP, PureDP, WinsorizedMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import OneUnit, Records, View
from dpverify.grid.coordinates import BoxSum
from dpverify.plans import Stage
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from ._faulty_vectors import Faulty
from ._median_centered import changed
from ._traced import traced

REPLACE = Adjacency.REPLACE

# --- planted faults -----------------------------------------------------------------------------


def _exact_range(mechanism: WinsorizedMean) -> Fault:
    """Take the range between the exact quartiles of the data."""
    quartiles = mechanism.fixed_plan[0]
    assert isinstance(quartiles, Stage)
    scores: Any = quartiles.query
    lows = np.repeat([low for low, _, _ in mechanism._grids()], 2)

    def total(records: Records) -> BoxSum:
        cells, n = scores.evaluate(View(records)), len(records)
        ranks = [p * n // 4 for p in (1, 3)] * mechanism.columns()
        quantiles = np.array([row[rank] for row, rank in zip(cells, ranks, strict=True)])
        query: Any = mechanism._query(mechanism.stretch(tuple((quantiles - lows).tolist())))
        right: Any = query.query if isinstance(query, OneUnit) else query
        assert isinstance(right, BoxSum)
        return right

    def change(stage: Stage) -> Stage:
        query: Any = stage.query
        if isinstance(query, OneUnit):
            faulty = Faulty(query.query, lambda rows: total(rows).evaluate(View(rows)))
            return dataclasses.replace(stage, query=dataclasses.replace(query, query=faulty))
        return dataclasses.replace(
            stage, query=Faulty(query, lambda rows: total(rows).evaluate(View(rows)))
        )

    plan = changed(mechanism, change, ("sum",))
    return plan_fault("takes the range from the data", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_FAR = 1e308


def _end_to_end() -> NeighboringPair:
    """Return a pair on 0..6 that moves the sum by a whole range, whatever the range is.

    Both quartiles' scores rise in the cells on one side of the other records and fall on the
    other.
    """
    return replaced("from end to end, past the others", [-_FAR, *[3.0] * 3], _FAR)


def _configuration(
    name: str,
    mechanism: WinsorizedMean,
    pairs: Sequence[NeighboringPair],
    first_stage: Sequence[NeighboringPair],
    *faults: Callable[[WinsorizedMean], Fault],
) -> Configuration:
    planted = [fault(mechanism) for fault in faults]
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=planted,
        first_stage=first_stage,
        quick_trials=100_000,
    )


def _line(budget: Any, **own: Any) -> WinsorizedMean:
    public: dict[str, Any] = {"lower": (0.0,), "nonfinite": "replace"}
    share = Fraction(1, 4)
    return WinsorizedMean.for_budget(
        budget, adjacency=REPLACE, quartile_share=share, **public, **own
    )


_COLUMN = _line(GaussianDP("3/4"), cells=12, upper=(6.0,))
_PURE = _line(PureDP(4), cells=6, upper=(6.0,), noise="laplace")
_JUMP = replaced("the quartiles jump", [0.0] * 10 + [6.0] * 30, 0.0, at=39)
_FAR_PAIR = _end_to_end()

_TRACED = WinsorizedMean.for_budget(
    ApproxDP(1, "1e-6"),
    adjacency=REPLACE,
    lower=(-10.0,) * 60,
    upper=(10.0,) * 60,
    cells=64,
    clipped="1/12",
)

CONFIGURATIONS = (
    traced(
        _configuration("column", _COLUMN, (_FAR_PAIR, _JUMP), (_FAR_PAIR,), _exact_range),
        _TRACED,
        n=12,
        columns=60,
    ),
    _configuration("pure", _PURE, (_FAR_PAIR,), (_FAR_PAIR,)),
)


# --- small instances ----------------------------------------------------------------------------

_SMALL: dict[str, Any] = {"adjacency": REPLACE, "cells": 2}

SMALL = (
    SmallInstance(
        name="one column, Gaussian noise",
        mechanism=WinsorizedMean(
            noise_multiplier=Fraction(3, 32), lower=(0.0,), upper=(2.0,), **_SMALL
        ),
        data=(0.2, 1.7, 1e308),
    ),
    SmallInstance(
        name="two columns, Gaussian noise, one record",
        mechanism=WinsorizedMean(
            noise_multiplier=Fraction(3, 64),
            lower=(0.0, -1.0),
            upper=(2.0, 1.0),
            quartile_share=Fraction(1, 4),
            **_SMALL,
        ),
        data=((1.5, -1e308),),
    ),
    SmallInstance(
        name="one column, Laplace noise",  # the share makes all scales one
        mechanism=WinsorizedMean(
            noise_multiplier=Fraction(1, 16 * (2**17 + 1)),
            lower=(0.0,),
            upper=(2.0,),
            noise="laplace",
            quartile_share=Fraction(1, 2**17 + 1),
            **_SMALL,
        ),
        data=(-5e-324, 1.5),
    ),
)


# --- rates --------------------------------------------------------------------------------------


def _winsorized(setting: Mapping[str, Any]) -> WinsorizedMean:
    d = int(setting["d"])
    return WinsorizedMean(
        adjacency=REPLACE,
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        lower=(-8.0,) * d,
        upper=(8.0,) * d,
        noise=setting["noise"],
        cells=256,
        clipped=Fraction(1, 10**4),
    )


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the distance from the data's mean, for normal records of standard deviation 1 about
    1."""
    own: dict[str, Any] = {
        "target": Empirical(lambda mechanism, data: data.mean(axis=0)),
        "curve": Curve(function="expected_error", arguments=("parameters", "n")),
    }
    return RateClaim(
        name=name,
        mechanism=_winsorized,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 1.0, "deviation": 1.0}),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        source="S11, the Winsorized mean; DRS22, the Gaussian mechanism",
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (500, 1000, 2000, 4000),
        setting={"d": 2, "noise_multiplier": 1, "noise": "gaussian"},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=2000,
    ),
    _rate(
        "error-against-d",
        "d",
        (1, 2, 4, 8),
        setting={"n": 2000, "noise_multiplier": 1, "noise": "gaussian"},
        exponent=Exponent(value=1, tolerance=0.1),
        repeats=500,
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/4", "1/2", "1"))),
        setting={"n": 4000, "d": 1, "noise": "gaussian"},
        exponent=Exponent(value=1, tolerance=0.1),
        repeats=1500,
    ),
    _rate(
        "error-against-n-pure",
        "n",
        (500, 1000, 2000, 4000),
        setting={"d": 1, "noise_multiplier": 1, "noise": "laplace"},
        exponent=Exponent(value=-1, tolerance=0.1),
        repeats=4000,
    ),
    _rate(
        "population-error",
        "n",
        (2000,),
        setting={"d": 8, "noise_multiplier": 2, "noise": "gaussian"},
        target=Population(lambda mechanism, setting: np.ones(setting["d"])),
        facts=lambda setting, data, truth: {"sampling": math.sqrt(setting["d"] / setting["n"])},
        curve=Curve(function="expected_error", arguments=("parameters", "n"), beside="sampling"),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=500,
    ),
)
