"""Attacks on ``univariate_gaussian``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, UnivariateGaussian
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.normal_law import Box, fit
from dpverify.grid import Count, OneUnit, Records, Released, View
from dpverify.grid.clipped_scalars import LEVELS, ClippedMoments
from dpverify.grid.linear import Integers
from dpverify.mechanisms.univariate_gaussian import LAST
from dpverify.plans import NoNoise, Stage
from dpverify.plans.walking import rescaled_stage
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

from ._faulty_vectors import Faulty
from ._stepped_faults import changed, unpaid_steps

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

Planted = Callable[[UnivariateGaussian], Fault]

# --- planted faults -----------------------------------------------------------------------------


def _asked(stage: Stage) -> ClippedMoments:
    assert isinstance(stage.query, OneUnit)
    assert isinstance(stage.query.query, ClippedMoments)
    return stage.query.query


def _as_if(
    mechanism: UnivariateGaussian, name: str, moved: Callable[[ClippedMoments], int]
) -> Fault:
    """Give the last moments the noise for another squared sensitivity."""

    def change(stage: Stage) -> Stage:
        asked = _asked(stage)
        share = moved(asked) / asked.moved(mechanism.adjacency)
        return rescaled_stage(stage, Fraction(math.sqrt(share)))

    return plan_fault(name, mechanism, changed(mechanism, change, "moments"))


def _one_moment(mechanism: UnivariateGaussian) -> Fault:
    """Add noise for the first moment alone."""
    return _as_if(mechanism, "pays for the first moment", lambda q: (q.linear * q.turn) ** 2)


def _exact_frame(mechanism: UnivariateGaussian) -> Fault:
    """Take the last moments about the records' own middle, in their own unit, which one outlier
    moves."""

    def change(stage: Stage) -> Stage:
        asked = _asked(stage)

        def value(records: Records) -> list[int]:
            cells = np.clip(
                np.ldexp(records[:, 0], -asked.exponent) - asked.center, -(2**20), 2**20
            )
            middle = round(float(cells.mean())) if len(cells) else 0
            width = float(np.abs(cells - middle).mean()) if len(cells) else 1.0
            frame = middle, round(LEVELS * math.log2(max(1.0, width)))
            return _about(asked, records, frame)

        assert isinstance(stage.query, OneUnit)
        wrong = dataclasses.replace(stage.query, query=Faulty(asked, value))
        return dataclasses.replace(stage, query=wrong)

    plan = changed(mechanism, change, "moments")
    return plan_fault("takes center and unit from the data", mechanism, plan)


def _about(asked: ClippedMoments, records: Records, frame: tuple[int, int]) -> list[int]:
    public: Released[Integers] = Released((), lambda before: np.array([frame]))
    sums: list[int] = dataclasses.replace(asked, frame=public).evaluate(View(records))[0].tolist()
    return sums


def _exact_number(mechanism: UnivariateGaussian) -> Fault:
    """Divide by the exact number, as if it were public."""
    plan = (Stage("exact", Count(), NoNoise()), *mechanism.fixed_plan)
    return plan_fault("divides by the exact number", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308
_EQUAL = [1.1] * 5000  # on no threshold of either search


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs with a record beyond every frame, which moves all stages as far as any record
    can."""
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


# Few stages have most of mu^2; many equal records make the others nearly certain, so that few
# transcripts lead to different frames. A reach of four cells: 4 and 5 steps.
_COARSE: Any = {"cell": 1.0, "reach": 4, "at_least": 4500, "nonfinite": "replace"}


def _attacked(
    name: str,
    adjacency: Adjacency,
    pairs: Sequence[NeighboringPair],
    which: str,
    *faults: Planted,
) -> Configuration:
    """Attack one stage that has most of mu^2 (for a search's first step: with its other steps)."""
    order = ("side 1", "spread 1", "warm moments", "moments")
    shares = tuple(Fraction(47 if name == which else 1, 50) for name in order)
    mechanism = UnivariateGaussian(
        adjacency=adjacency, noise_multiplier=Fraction(1, 2), shares=shares, **_COARSE
    )
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset({which}),
        quick_trials=12_000 if which == "spread 1" else 8_000,
    )


CONFIGURATIONS = (
    _attacked("center", REPLACE, _replaced()[:2], "side 1", unpaid_steps),
    _attacked("unit", REPLACE, _replaced()[:2], "spread 1", unpaid_steps),
    _attacked("warm", ADD, _added()[:1], "warm moments"),
    _attacked("moments", ADD, _added(), "moments", _one_moment, _exact_frame, _exact_number),
    _attacked("ends", REPLACE, _replaced(), "moments", _one_moment, _exact_frame),
)

# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, multiplier: str, **parameters: Any) -> UnivariateGaussian:
    own: dict[str, Any] = {"cell": 0.25, "reach": 1, "at_least": 1}
    return UnivariateGaussian(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own | parameters
    )


_FIVE = (0.3, -0.6, 0.1, 1e308, 0.2)

SMALL = (
    SmallInstance(
        name="five records, add-remove, followed",
        mechanism=_small(ADD, "1/100"),
        data=_FIVE,
        followed=20,
    ),
    SmallInstance(
        name="five records, replace, followed",
        mechanism=_small(REPLACE, "1/100", center=Fraction(1, 3)),
        data=_FIVE,
        followed=20,
    ),
    SmallInstance(
        name="a far line of all cells, add-remove, followed",
        mechanism=_small(ADD, "1/10", reach=None),
        data=[1e6 + 3.0 * (k % 7) for k in range(60)],
        followed=10,
    ),
    SmallInstance(
        name="a far line of all cells, replace, followed",
        mechanism=_small(REPLACE, "1/10", reach=None),
        data=[-1e6 - 0.7 * (k % 11) for k in range(90)],
        followed=10,
    ),
    SmallInstance(name="nobody, followed", mechanism=_small(ADD, "3/2"), data=(), followed=10),
)

# --- rates --------------------------------------------------------------------------------------


def _line(setting: Mapping[str, Any]) -> UnivariateGaussian:
    return UnivariateGaussian(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        cell=2**-4,
        reach=2 * setting["mean"],
    )


def _without_noise(mechanism: Any, data: Any) -> tuple[float, float]:
    """Fit mean and deviation to the exact clipped moments about the data's own mean, in units of
    their own deviation."""
    mean, deviation = float(data.mean()), float(data.std())
    z = (data[:, 0] - mean) / deviation
    moments = [np.clip(z, -LAST.turn, LAST.turn).mean(), np.minimum(z * z, LAST.edge**2).mean()]
    own, scale, _ = (
        one.item() for one in fit(np.array(moments)[:, np.newaxis], LAST, Box(1.0, 2.0))
    )
    return mean + own * deviation, scale * deviation


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the noise for normal records of standard deviation 1; every release has the same
    records, and the mean is known to twice its size."""
    return RateClaim(
        name=name,
        mechanism=_line,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": "mean", "deviation": 1.0}),
        target=Empirical(_without_noise),
        error=_off,
        curve=Curve(function="noise_errors", arguments=("parameters", "n"), margin=1.14),
        source="OURS, a normal law by clipped moments; KV18",
        repeats=800,
        **claimed,
    )


def _off(estimate: Any, truth: tuple[float, float]) -> float:
    """Combine the mean's error in deviations, which are 1, and the error of the deviation's
    logarithm."""
    return math.hypot(estimate.value - truth[0], math.log(estimate.deviation / truth[1]))


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (3200, 12_800, 51_200),
        exponent=Exponent(value=-1, tolerance=0.1),
        setting={"noise_multiplier": 8, "adjacency": REPLACE, "mean": 1.3},
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (1, 3, 9),
        exponent=Exponent(value=1, tolerance=0.1),
        setting={"n": 6400, "adjacency": ADD, "mean": 1.3},
    ),
    _rate(
        "noise-against-mean",
        "mean",
        (1.3, 1300.0, 1.3e6),
        exponent=Exponent(value=0, tolerance=0.02),
        setting={"n": 3200, "noise_multiplier": 8, "adjacency": REPLACE},
    ),
)
