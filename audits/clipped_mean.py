"""Attacks on ``clipped_mean``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify import Adjacency, ApproxDP, ClippedMean, GaussianDP
from dpverify.audit import (
    Configuration,
    Fault,
    NeighboringPair,
    SmallInstance,
    added,
    replaced,
)
from dpverify.audit.faults import plan_fault
from dpverify.grid import MaskedSum, OneUnit, Records, View
from dpverify.grid.joint import WithCount
from dpverify.grid.vectors import clip_to_ball, clip_to_box, inside_ball, to_cells
from dpverify.plans import NoNoise, Stage
from dpverify.rates import Curve, Distance, Empirical, Exponent, Instance, Metric, RateClaim

from . import _heavy_tails
from ._faulty_vectors import Faulty, Value
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

# --- planted faults -----------------------------------------------------------------------------


def _noisy(mechanism: ClippedMean) -> tuple[Stage, OneUnit, Any]:
    """Return the noisy stage, its query, and the query of records inside it (with center and
    radius)."""
    stage = mechanism.fixed_plan[-1]
    assert isinstance(stage, Stage)
    assert isinstance(stage.query, OneUnit)
    inner: Any = stage.query.query
    return stage, stage.query, getattr(inner, "query", inner)


def _value_fault(name: str, mechanism: ClippedMean, value: Value) -> Fault:
    stage, query, _ = _noisy(mechanism)
    wrong = dataclasses.replace(query, query=Faulty(query.query, value))
    plan = (*mechanism.fixed_plan[:-1], dataclasses.replace(stage, query=wrong))
    return plan_fault(name, mechanism, plan)


def _counted(mechanism: ClippedMean, vectors: NDArray[Any]) -> list[int]:
    """Sum the vectors, and append their weighted number where the mechanism releases a noisy
    one."""
    _, query, _ = _noisy(mechanism)
    weight = getattr(query.query, "weight", None)
    return [*vectors.sum(axis=0).tolist(), *([] if weight is None else [weight * len(vectors)])]


def _box(mechanism: ClippedMean) -> Fault:
    """Clip each coordinate to a box, whose corners are sqrt(d) radii away."""
    _, _, total = _noisy(mechanism)

    def value(records: Records) -> list[int]:
        cells = to_cells(records, total.exponent, total.center)
        return _counted(mechanism, clip_to_box(cells, total.radius))

    return _value_fault("clips every coordinate, not the vector", mechanism, value)


def _own_center(mechanism: ClippedMean) -> Fault:
    """Take the first record for the center, so that it moves the vectors of all others."""
    _, _, total = _noisy(mechanism)

    def value(records: Records) -> list[int]:
        cells = to_cells(records, total.exponent, total.center)
        return _counted(mechanism, clip_to_ball(cells - cells[:1], total.radius))

    return _value_fault("takes the center from the data", mechanism, value)


def _late_matrix(mechanism: ClippedMean) -> Fault:
    """Decide which records are inside before applying the matrix, whose norm above 1 takes some
    of them out of the ball."""
    _, _, total = _noisy(mechanism)
    radius = math.floor(Fraction(mechanism.radius) / Fraction(2) ** total.exponent)

    def value(records: Records) -> list[int]:
        cells = to_cells(records, total.exponent, total.center)
        kept = cells[inside_ball(cells, radius)]
        return _counted(mechanism, kept @ np.array(total.matrix).T)

    return _value_fault("applies the matrix after the mask", mechanism, value)


def _unpaid_weight(mechanism: ClippedMean) -> Fault:
    """Add noise for the sum alone: for the sensitivity R instead of sqrt(R^2 + w^2)."""
    stage, query, total = _noisy(mechanism)
    assert isinstance(query.query, (WithCount, MaskedSum))
    ratio = Fraction(total.radius**2, total.radius**2 + query.query.weight**2)
    noise = stage.noise.rescaled(Fraction(math.sqrt(ratio)))
    assert noise is not None
    plan = (*mechanism.fixed_plan[:-1], dataclasses.replace(stage, noise=noise))
    return plan_fault("does not pay for the number", mechanism, plan)


def _exact_gate(mechanism: ClippedMean) -> Fault:
    """Abstain by the exact number of records, which abstaining then reveals."""
    return _leak(
        "abstains by the exact number", mechanism, lambda rows: [len(rows) >= mechanism.at_least]
    )


def _exact_number(mechanism: ClippedMean) -> Fault:
    """Release the number inside exactly, as if it were public like the number of all records."""
    _, query, _ = _noisy(mechanism)
    name = "releases the number inside without noise"
    return _leak(name, mechanism, lambda rows: query.query.evaluate(View(rows))[-1:])


def _leak(name: str, mechanism: ClippedMean, value: Value) -> Fault:
    """Plant the right plan after a value that is released exactly."""
    _, query, _ = _noisy(mechanism)
    exact = Stage("exact", Faulty(query.query, value), NoNoise())
    return plan_fault(name, mechanism, (exact, *mechanism.fixed_plan))


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR, _TINY = float("nan"), 1e308, 5e-324
_CENTER = (170.0, 70.0, 30.0)


def _nobody(record: tuple[float, ...]) -> NeighboringPair:
    empty = np.zeros((0, len(record)))
    return NeighboringPair(
        name="nobody against somebody", left=[record], right=empty, adjacency=ADD
    )


def _ball_added() -> tuple[NeighboringPair, ...]:
    """List pairs about _CENTER with radius 32: beyond every corner, at the gate, and reordered."""
    corner, opposite = (_FAR, _FAR, _FAR), (-_FAR, _FAR, -_FAR)
    edge, crowd = (202.0, 70.0, 30.0), [_CENTER] * 20
    return (
        added("a corner far outside enters", crowd, corner),
        added("everything shifts by a place", [corner, opposite] * 10, corner),
        added("exactly at the radius, around the least number", [edge] * 4, edge, at=4),
        _nobody(opposite),
        added("a subnormal enters", [(0.0, -0.0, 0.0)] * 5, (_TINY, -_TINY, 0.0)),
        added("a NaN enters", [edge] * 5, (_NAN, 170.0, _FAR)),
    )


def _ball_replaced() -> tuple[NeighboringPair, ...]:
    """List pairs about (1, -3) with radius 2: the sum moves by at most 2 R, and not for a step
    within a cell."""
    right, left, corner = (3.0, -3.0), (-1.0, -3.0), (_FAR, _FAR)
    return (
        replaced("by its mirror image in the center", [right] * 20, left),
        replaced("an outlier by the opposite one", [corner] * 20, (-_FAR, -_FAR)),
        replaced("the only record", [left], right),
        replaced("a NaN by an outlier", [(_NAN, 0.0)] * 5, corner, at=4),
        replaced("within a cell", [(1.0, 1.0)] * 5, (1.0, 1.0 + 2.0**-40), at=2),
        replaced("a zero by a subnormal", [(-0.0, 0.0)] * 5, (_TINY, -_TINY)),
    )


_STRETCHED = ((2.0, 1.0), (0.0, 0.5))  # its ellipse has (1/2, 0) and (-1, 2) on the boundary
_CELL = 2.0**-22


def _ellipse_added() -> tuple[NeighboringPair, ...]:
    """List pairs for {|A (x - (1, -3))| <= 1}: in the shortest direction, to within a cell."""
    crowd, tip = [(1.0, -3.0)] * 20, (0.0, -1.0)
    return (
        added("in the direction of the largest singular value", crowd, (1.5, -3.0)),
        added("inside but for the matrix", [*crowd, (-_FAR, 0.0)], (1.9, -2.6)),
        added("everything shifts by a place", [(0.5, -3.0), (1.5, -3.0)] * 10, (1.5, -3.0)),
        added("around the least number, on the longest axis", [tip] * 9, tip),
        added("a cell within the boundary", crowd, (1.5 - _CELL, -3.0)),
        added("a cell beyond the boundary", [(_FAR, -_FAR), *crowd], (1.5 + _CELL, -3.0)),
        _nobody(tip),
    )


def _interval_replaced() -> tuple[NeighboringPair, ...]:
    """List pairs about 0 with radius 1 (2^20 cells): leaving, crossing, and decided by one cell."""
    cell = 2.0**-20
    return (
        replaced("from end to end", [1.0] * 20, -1.0),
        replaced("a record at the radius leaves", [1.0] * 20, 1.0 + cell),
        replaced("an outlier comes in", [0.0] * 5 + [_FAR], -1.0, at=5),
        replaced("the only record leaves", [-1.0], -_FAR),
        replaced("within half a cell of the radius", [1.0 + cell / 4], 1.0 + 3 * cell / 4),
        replaced("an outlier by another", [_FAR] * 5, -_FAR, at=2),
        replaced("a zero by a subnormal", [-0.0] * 5, -_TINY),
    )


def _attacked(
    name: str,
    mechanism: ClippedMean,
    pairs: Sequence[NeighboringPair],
    *faults: Callable[[ClippedMean], Fault],
) -> Configuration:
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        quick_trials=100_000,
    )


def _mean(
    budget: GaussianDP | ApproxDP, adjacency: Adjacency, center: tuple[float, ...], **own: Any
) -> ClippedMean:
    return ClippedMean.for_budget(budget, adjacency=adjacency, center=center, **own)


_GAUSSIAN, _APPROX = GaussianDP(1), ApproxDP(1, "1e-6")
_BALL = _mean(_GAUSSIAN, ADD, _CENTER, radius=32, at_least=5, nonfinite="replace")
_DISK = _mean(_APPROX, REPLACE, (1.0, -3.0), radius=2, nonfinite="replace")
_ELLIPSE = _mean(
    _GAUSSIAN, ADD, (1.0, -3.0), radius=1, matrix=_STRETCHED, outside="mask", at_least=10
)
# With the default weight the other adjacency needs the same noise to 2^-20: no fault to plant
# there.
_INTERVAL = _mean(_APPROX, REPLACE, (0.0,), radius=1, outside="mask", count_weight=1)

_TRACED = _mean(_APPROX, REPLACE, (0.0,) * 200, radius=20)

CONFIGURATIONS = (
    _attacked("ball", _BALL, _ball_added(), _box, _own_center, _unpaid_weight, _exact_gate),
    traced(
        _attacked("ball", _DISK, _ball_replaced(), _box, _own_center), _TRACED, n=50, columns=200
    ),
    _attacked(
        "ellipse",
        _ELLIPSE,
        _ellipse_added(),
        _late_matrix,
        _unpaid_weight,
        _exact_gate,
        _exact_number,
    ),
    _attacked("interval", _INTERVAL, _interval_replaced(), _own_center, _exact_number),
)


# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, **parameters: Any) -> ClippedMean:
    own: dict[str, Any] = {"center": (0.0,), "radius": 1, **parameters}
    return ClippedMean(adjacency=adjacency, noise_multiplier=Fraction(3, 2), **own)


_PLANE: Any = ((0.25, 0.5), (1.0, -7.0))

SMALL = (
    SmallInstance(name="one column, clipped, add-remove", mechanism=_small(ADD), data=(0.25, 9.0)),
    SmallInstance(name="one record, replace", mechanism=_small(REPLACE), data=(-0.75,)),
    SmallInstance(
        name="two columns, ellipse, mask, add-remove",
        mechanism=_small(ADD, center=(0.5, 0.0), matrix=_STRETCHED, outside="mask"),
        data=_PLANE,
    ),
    SmallInstance(
        name="two columns, clipped, replace",
        mechanism=_small(REPLACE, center=(0.5, 0.0), matrix=_STRETCHED),
        data=_PLANE,
    ),
    SmallInstance(name="nobody, mask, replace", mechanism=_small(REPLACE, outside="mask"), data=()),
)


# --- rates --------------------------------------------------------------------------------------


def _clipped(setting: Mapping[str, Any]) -> ClippedMean:
    return ClippedMean(
        adjacency=setting["adjacency"],
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        center=(0.0,) * setting["d"],
        radius=1,
    )


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the distance from the data's mean, for vectors inside the unit ball."""
    inside = {"radius": 0.5, "offset": 0.4}
    own: dict[str, Any] = {
        "error": Distance(),
        "curve": Curve(function="expected_error", arguments=("parameters", "n", "offset")),
        "lower": Curve(function="lower_bound", arguments=("parameters", "n")),
    }
    return RateClaim(
        name=name,
        mechanism=_clipped,
        variable=variable,
        values=values,
        instance=Instance(kind="sphere", parameters=inside),
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        facts=lambda setting, data, truth: {"offset": float(np.linalg.norm(truth))},
        source="DRS22, the Gaussian mechanism; OURS, a sum and a count under one noise",
        **own | claimed,
    )


def _truncated(setting: Mapping[str, Any]) -> ClippedMean:
    """Build the mechanism for outer products, in a ball of six deviations of the largest
    variance."""
    return ClippedMean(
        adjacency=REPLACE,
        noise_multiplier=Fraction(1),
        center=(0.0,) * setting["d"],
        radius=36 * setting["kappa"],
    )


def _relative(estimate: Any, truth: Any) -> float:
    """Measure the Frobenius norm of the error after mapping the true covariance, kappa and ones,
    to the identity."""
    kappa, moments = truth
    deviations = np.ones(math.isqrt(moments.size))
    deviations[0] = math.sqrt(kappa)
    scaled = (estimate.value - moments).reshape(len(deviations), -1)
    return float(np.linalg.norm(scaled / np.outer(deviations, deviations)))


RATES = (
    *_heavy_tails.RATES,
    RateClaim(
        name="covariance-against-kappa",
        mechanism=_truncated,
        variable="kappa",
        values=(4, 16, 64),
        setting={"n": 4000, "d": 9},
        instance=Instance(kind="products", parameters={"kappa": "kappa"}),
        target=Empirical(lambda mechanism, data: (mechanism.radius / 36, data.mean(axis=0))),
        error=_relative,
        exponent=Exponent(value=0.96, tolerance=0.05),
        curve=Curve(function="relative_error", arguments=("parameters", "n", "kappa")),
        source="K19, Take 2: noise for the largest variance drowns the smallest ones",
    ),
    _rate(
        "error-against-n",
        "n",
        (100, 1000, 10_000, 100_000),
        setting={"d": 4, "noise_multiplier": 1, "adjacency": ADD},
        exponent=Exponent(value=-1, tolerance=0.05),
    ),
    _rate(
        "error-against-d",
        "d",
        (1, 4, 16, 64),
        setting={"n": 2000, "noise_multiplier": 1, "adjacency": REPLACE},
        exponent=Exponent(value=0.5, tolerance=0.05),
        repeats=3000,
    ),
    *(
        _rate(
            f"error-in-l{power:g}-against-d",
            "d",
            (4, 16, 64),
            setting={"n": 2000, "noise_multiplier": 1, "adjacency": REPLACE, "power": power},
            error=Distance(power),
            exponent=Exponent(value=exponent, tolerance=0.05),
            curve=Curve(function="error_in_norm", arguments=("parameters", "n", "power")),
            lower=None,
        )
        for power, exponent in ((1.0, 0.98), (math.inf, 0.18))
    ),
    _rate(
        "error-against-noise-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/2", "2", "8", "32"))),
        setting={"n": 3000, "d": 3, "adjacency": ADD},
        exponent=Exponent(value=1, tolerance=0.05),
    ),
    _rate(
        "tail",  # long vectors vary little, so that their bound is 8% above
        "noise_multiplier",
        (Fraction(2),),
        setting={"n": 3000, "d": 64, "beta": Fraction(1, 20), "adjacency": REPLACE},
        metric=Metric("quantile", 0.95),
        curve=None,
        lower=None,
        upper=Curve(function="error_bound", arguments=("parameters", "n", "beta"), margin=1),
    ),
)
