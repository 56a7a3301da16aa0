"""Attacks on ``smooth_median``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, SmoothMedian
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import NOTHING, Transcripts, View
from dpverify.grid.smooth import SmoothMedians
from dpverify.plans import SmoothNoise, Stage
from dpverify.plans.noise import LogProbabilities
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.rates import Curve, Empirical, Exponent, Instance, Metric, RateClaim

REPLACE = Adjacency.REPLACE

# --- planted faults -----------------------------------------------------------------------------


class _LocalSensitivity(SmoothMedians):
    """Scales by the local sensitivity, how far one replaced record can move this median: the
    classic error."""

    __slots__ = ()

    def scales(self, around: NDArray[np.int64]) -> NDArray[Any]:
        """Return A_0 alone."""
        middle = around.shape[1] // 2
        return SmoothMedians.scales(self, around[:, middle - 1 : middle + 2])


class _FastWeights(SmoothMedians):
    """Weights that are the fourth powers of those the claim requires."""

    __slots__ = ()

    @property
    def weights(self) -> tuple[int, ...]:
        """Every fourth of the right weights."""
        return SmoothMedians.weights.fget(self)[::4]  # type: ignore[attr-defined,no-any-return]


class _EndsForgotten(SmoothMedians):
    """Windows that end where the records end, as if no bounds lay beyond."""

    __slots__ = ()

    def around(self, cells: NDArray[np.int64], reach: int) -> NDArray[np.int64]:
        """Pad with the least and the largest record in place of the bounds."""
        ends = [np.repeat(cells[:, [at]], reach, axis=1) for at in (0, -1)]
        start = (cells.shape[1] + 1) // 2 - 1
        padded = np.concatenate([ends[0], cells, ends[1]], axis=1)
        return padded[:, start : start + 2 * reach + 1]


class _AnotherRank(SmoothMedians):
    """Scales of the record after the median."""

    __slots__ = ()

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Compute the scales for windows about rank m + 1."""
        cells = self.cells(view.records)
        reach = min(len(self.weights), cells.shape[1] + 1) + 1
        around = self.around(cells, reach)
        return np.stack([around[:, reach], self.scales(around[:, 2:])], axis=1)


class _TellsTheScale(SmoothNoise):
    """Noise that is released together with its scale."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw noisy medians, and append their scales."""
        noisy = SmoothNoise.sample(self, bits, center, size)
        return np.concatenate([noisy, np.tile(center[:, 1], (size, 1))], axis=1)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Return log probabilities: -inf for any other scale."""
        own = SmoothNoise.log_probability(self, outputs[:, : self.count], center)
        right = (outputs[:, self.count :] == center[:, 1]).all(axis=1)
        return np.where(right, own, -np.inf)


_QUERIES: Mapping[str, type[SmoothMedians]] = {
    "local sensitivity in place of a smooth scale": _LocalSensitivity,
    "weights fall faster than claimed": _FastWeights,
    "no bounds beyond the records": _EndsForgotten,
    "the scale of another rank": _AnotherRank,
}


def _faults(mechanism: SmoothMedian, *names: str) -> list[Fault]:
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    query, noise = stage.query, stage.noise
    assert isinstance(query, SmoothMedians)
    assert isinstance(noise, SmoothNoise)
    faults = []
    for name in names or _QUERIES:
        wrong = _QUERIES[name](query.columns, query.decay)
        plan = (dataclasses.replace(stage, query=wrong),)
        faults.append(plan_fault(f"medians: {name}", mechanism, plan))
    tells = _TellsTheScale(noise.scale, noise.unit, noise.count)
    plan = (dataclasses.replace(stage, noise=tells),)
    return [*faults, plan_fault("medians: the scale is told", mechanism, plan)]


# --- pairs --------------------------------------------------------------------------------------

_FAR = 1e308


def _halving(upper: float) -> list[float]:
    """List records whose distances from the middle halve one after the other, so that every
    window matters alike."""
    middle = upper / 2
    steps = [upper * 0.5**k for k in range(2, 6)]
    return [middle, *(middle + side * step for step in steps for side in (-1, 1))]


def _pairs(upper: float) -> tuple[NeighboringPair, ...]:
    """List pairs between 0 and ``upper``; the first attains the largest shift and, at decay 1/2,
    the largest dilation."""
    middle = upper / 2
    return (
        replaced("the only record, from the middle to an end", [middle], -_FAR),
        replaced("all equal, but one at the end", [middle] * 3, _FAR),
        replaced("the median jumps across a gap", [0.0, *[middle] * 3], 0.0, at=1),
        replaced("from the other end to this one", [0.0, 0.0, upper, upper], upper, at=0),
        replaced("distances that halve", _halving(upper), _FAR),
        replaced("one of two, by a cell", [middle, middle], middle + 1),
        replaced("a subnormal", [-5e-324, 5e-324, upper], upper, at=1),
    )


def _configuration(
    name: str, mechanism: SmoothMedian, pairs: Sequence[NeighboringPair], *faults: str
) -> Configuration:
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=_faults(mechanism, *faults),
        quick_trials=80_000,
    )


_STEEP = SmoothMedian(
    adjacency=REPLACE,
    noise_multiplier=Fraction(1, 2),
    lower=(0.0,),
    upper=(64.0,),
    cells=64,
    decay=Fraction(1, 2),
)
_BUDGET = SmoothMedian.for_budget(
    ApproxDP(1, "1e-2"), adjacency=REPLACE, lower=(0.0,), upper=(64.0,), cells=64
)
_WIDE = SmoothMedian.for_budget(
    ApproxDP(4, "1e-6"), adjacency=REPLACE, lower=(-1e300,), upper=(1e300,), nonfinite="replace"
)
_PLANE = SmoothMedian(
    adjacency=REPLACE,
    noise_multiplier=Fraction(1, 2),
    lower=(0.0, -4.0),
    upper=(8.0, 4.0),
    cells=8,
    decay=Fraction(7, 8),
)
_WIDE_PAIRS = (
    replaced("from end to end", [0.0], -_FAR),
    replaced("a NaN among equals", [5e299] * 3, float("nan")),
    replaced("a cliff", [-1e300] * 4 + [1e300] * 3, _FAR, at=0),
)
_PLANE_PAIRS = (
    replaced("both columns from end to end", [(0.0, 4.0)], (_FAR, -_FAR)),
    replaced("both columns from the middle to an end", [(4.0, 0.0)], (-_FAR, _FAR)),
    replaced("one column alone", [(4.0, 0.0)] * 2, (4.0, _FAR)),
)

CONFIGURATIONS = (
    _configuration("steep", _STEEP, _pairs(64.0)),
    _configuration("budget", _BUDGET, _pairs(64.0), *tuple(_QUERIES)[:3]),
    _configuration("wide", _WIDE, _WIDE_PAIRS),
    _configuration("plane", _PLANE, _PLANE_PAIRS, "no bounds beyond the records"),
)


# --- small instances ----------------------------------------------------------------------------


def _small(upper: tuple[float, ...], multiplier: Fraction) -> SmoothMedian:
    return SmoothMedian(
        adjacency=REPLACE,
        noise_multiplier=multiplier,
        lower=(0.0,) * len(upper),
        upper=upper,
        cells=4,
        decay=Fraction(1, 2),
    )


SMALL = (
    SmallInstance(
        name="one record in the middle", mechanism=_small((4.0,), Fraction(1, 4)), data=(2.2,)
    ),
    SmallInstance(
        name="three records, two equal",
        mechanism=_small((4.0,), Fraction(1, 6)),
        data=(1.0, -_FAR, 1.2),
    ),
    SmallInstance(
        name="two columns, two records",
        mechanism=_small((4.0, 4.0), Fraction(1, 16)),
        data=((0.2, 4.0), (-5e-324, 3.7)),
    ),
)


# --- rates --------------------------------------------------------------------------------------


def _by_budget(setting: Mapping[str, Any]) -> SmoothMedian:
    budget = ApproxDP(Fraction(setting["epsilon"]), "1e-6")
    d = int(setting.get("d", 1))
    return SmoothMedian.for_budget(budget, adjacency=REPLACE, lower=(0.0,) * d, upper=(1.0,) * d)


def _by_noise(setting: Mapping[str, Any]) -> SmoothMedian:
    return SmoothMedian(
        adjacency=REPLACE,
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        lower=(0.0,),
        upper=(1.0,),
    )


def _medians(mechanism: SmoothMedian, data: NDArray[np.float64]) -> NDArray[np.float64]:
    ordered = np.sort(data, axis=0)
    medians: NDArray[np.float64] = ordered[(len(data) + 1) // 2 - 1]
    return medians


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the distance from the records' median, for evenly spaced records on 0..1."""
    own: dict[str, Any] = {
        "mechanism": _by_budget,
        "curve": Curve(function="expected_error", arguments=("parameters", "records")),
        "lower": Curve(function="lower_bound", arguments=("parameters", "n")),
        "repeats": 4000,
    }
    return RateClaim(
        name=name,
        variable=variable,
        values=values,
        instance=Instance(kind="evenly", parameters={"low": 0.0, "high": 1.0}),
        target=Empirical(_medians),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        source="NRS07, smooth sensitivity of the median, of even records",
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (500, 1000, 2000, 4000),
        setting={"epsilon": 1},
        exponent=Exponent(value=-1, tolerance=0.1),
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/4", "1/2", "1", "2"))),
        setting={"n": 8000},
        exponent=Exponent(value=-2, tolerance=0.2),
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/2", "1", "2"))),
        setting={"n": 2000},
        mechanism=_by_noise,
        lower=None,
        exponent=Exponent(value=1, tolerance=0.1),
    ),
    _rate(
        "tail",
        "noise_multiplier",
        (Fraction(1),),
        setting={"n": 2000, "beta": Fraction(1, 20)},
        mechanism=_by_noise,
        metric=Metric("quantile", 0.95),
        curve=None,
        lower=None,
        upper=Curve(function="largest_error", arguments=("parameters", "records", "beta")),
        repeats=12_000,
    ),
)
