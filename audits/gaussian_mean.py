"""Attacks on ``gaussian_mean``."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, GaussianMean, HalfSpace, InsideBall, OutsideBall
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.estimation.clipped_response import response_of
from dpverify.estimation.whitening import octave_of
from dpverify.grid import Records, View
from dpverify.grid.coordinates import Stretch
from dpverify.grid.vectors import clip_to_ball, inside_ball
from dpverify.plans import Stage
from dpverify.rates import (
    Curve,
    Empirical,
    Exponent,
    Instance,
    Metric,
    Population,
    RateClaim,
)

from . import _median_centered as shared
from ._faulty_vectors import Faulty
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
Planted = Callable[[GaussianMean], Fault]

# --- planted faults -----------------------------------------------------------------------------


def _heavy_number(mechanism: GaussianMean) -> Fault:
    """Weigh the number of records by three radii, for which the noise does not suffice."""

    def change(stage: Stage) -> Stage:
        query: Any = stage.query
        radius = getattr(query.query, "query", query.query).radius
        heavy = dataclasses.replace(query.query, weight=3 * radius)
        return dataclasses.replace(stage, query=dataclasses.replace(query, query=heavy))

    plan = shared.changed(mechanism, change, ("sum",))
    return plan_fault("does not pay for the number", mechanism, plan)


def _own_center(mechanism: GaussianMean) -> Fault:
    """Center the last ball at the mean of the records, which changes what each record
    contributes."""

    def change(stage: Stage) -> Stage:
        query: Any = stage.query
        total = getattr(query.query, "query", query.query)
        weight, mask = getattr(query.query, "weight", None), mechanism.outside == "mask"
        origin = Stretch((0,) * mechanism.columns(), total.stretch.exponents, total.stretch.factors)

        def value(records: Records) -> list[int]:
            images = [np.zeros((0, mechanism.columns()), np.int64), *origin.images(records)]
            rows = np.concatenate(images).astype(np.int64)
            middle = np.rint(rows.mean(axis=0)).astype(np.int64) if len(rows) else 0
            moved = rows - middle
            vectors = moved[inside_ball(moved, total.radius)] if mask else moved
            vectors = clip_to_ball(vectors, total.radius)
            counted = [] if weight is None else [weight * len(vectors)]
            return [*vectors.sum(axis=0).tolist(), *counted]

        wrong = dataclasses.replace(query, query=Faulty(query.query, value))
        return dataclasses.replace(stage, query=wrong)

    plan = shared.changed(mechanism, change, ("sum",))
    return plan_fault("takes the center of the sum from the data", mechanism, plan)


def _own_plane(mechanism: GaussianMean) -> Fault:
    """Keep the records on one side of their own mean, so that each decides which others count."""

    def change(stage: Stage) -> Stage:
        query: Any = stage.query
        total = query.query

        def value(records: Records) -> list[int]:
            images = [np.zeros((0, mechanism.columns()), np.int64), *total.stretch.images(records)]
            rows = np.concatenate(images).astype(np.int64)
            side = rows[:, 0] * len(rows) <= rows[:, 0].sum() + len(rows) * total.radius // 64
            vectors = rows[side & inside_ball(rows, total.radius)]
            return [*vectors.sum(axis=0).tolist(), total.weight * len(vectors)]

        wrong = dataclasses.replace(query, query=Faulty(total, value))
        return dataclasses.replace(stage, query=wrong)

    plan = shared.changed(mechanism, change, ("sum",))
    return plan_fault("keeps records by where their mean is", mechanism, plan)


def _own_map(mechanism: GaussianMean) -> Fault:
    """Take images about the records' own mean, so that one record moves all of them."""

    def change(stage: Stage) -> Stage:
        query: Any = stage.query

        def value(records: Records) -> Any:
            images = query.map.images(records)
            moved = images - np.rint(images.mean(axis=0)) if len(images) else images
            return query.query.evaluate(View(moved)).tolist()

        return dataclasses.replace(stage, query=Faulty(query, value))

    plan = shared.changed(mechanism, change, ("sum",))
    return plan_fault("maps records about their own mean", mechanism, plan)


# --- pairs --------------------------------------------------------------------------------------

_NAN, _FAR = float("nan"), 1e308
_PLACE = 1.3  # on no threshold of the search
_EQUAL = [_PLACE] * 4600
_CROWD = [(_PLACE, -_PLACE)] * 4600
_UNEVEN = [-3.0, _PLACE] * 100 + [_PLACE] * 4400  # the lower ones all in even places


def _added() -> tuple[NeighboringPair, ...]:
    """List pairs: an end of the ball, an empty side, NaN."""
    return (
        added("a far record enters", _EQUAL, _FAR),
        added("on the other side", _EQUAL, -_FAR),
        NeighboringPair(
            name="nobody against somebody", left=[_FAR], right=np.zeros((0, 1)), adjacency=ADD
        ),
        added("a NaN enters", _EQUAL, _NAN),
        added("a record in front", _UNEVEN, _PLACE, at=0),
    )


def _replaced() -> tuple[NeighboringPair, ...]:
    """List pairs: an end of the ball, of radius 4.3, by the other; a record that counts by one
    that does not."""
    low, high = (_PLACE - 4.2, -_PLACE), (_PLACE + 4.2, -_PLACE)
    return (
        replaced("one end for the other", [low, *_CROWD], high),
        replaced("inside by far outside", [high, *_CROWD], (_FAR, -_FAR)),
        replaced("from the center to outside", _CROWD, (-_FAR, 0.0)),
        replaced("a NaN by an end", [(_NAN, 0.0), *_CROWD], low),
        replaced("within a cell", [(0.0, -0.0), *_CROWD], (5e-324, 2.0**-60)),
    )


_EDGE = 1.5  # of a half-space, on the grid


def _kept() -> tuple[NeighboringPair, ...]:
    """List pairs at the ball and at the half-space: one end of the ball by the other along the
    plane, a record on the plane by one beyond it, and a record in both by one in the ball alone."""
    low, high = (_PLACE, -_PLACE - 4.2), (_PLACE, -_PLACE + 4.2)
    return (
        replaced("one end for the other", [low, *_CROWD], high),
        replaced("on the plane or beyond", [(_EDGE, -_PLACE), *_CROWD], (_EDGE + 2**-9, -_PLACE)),
        replaced("far beyond the plane", [(-_FAR, _FAR), *_CROWD], (_FAR, -_FAR)),
        replaced("an end or beyond", [(_PLACE - 4.2, -_PLACE), *_CROWD], (_PLACE + 4.2, -_PLACE)),
    )


def _mapped() -> tuple[NeighboringPair, ...]:
    """List pairs at the ball's ends by whitened length, and with NaN."""
    return (
        replaced(
            "end to end of the short axis", [(_PLACE + 3, -_PLACE - 3), *_CROWD], (-_FAR, _FAR)
        ),
        replaced("far along the long axis", [(_FAR, _FAR), *_CROWD], (-_FAR, -_FAR)),
        replaced("a NaN by an end", [(_NAN, 0.0), *_CROWD], (_FAR, -_FAR)),
    )


def _attacked(
    name: str,
    adjacency: Adjacency,
    pairs: Sequence[NeighboringPair],
    which: Sequence[str],
    faults: Sequence[Planted],
    **parameters: Any,
) -> Configuration:
    """Attack one stage that has most of mu^2.

    Many equal records make the other stages nearly certain, so that few transcripts have balls
    of their own.
    """
    search = "side 1" in which
    shares: dict[str, Any] = {"search_share": Fraction(9, 10) if search else Fraction(1, 50)}
    mechanism = GaussianMean(
        adjacency=adjacency,
        noise_multiplier=Fraction(1, 2),
        warm_share=Fraction(1, 50),
        at_least=4000,
        reach=4,
        extra_steps=1,
        nonfinite="replace",
        **shares,
        **parameters,
    )
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=[fault(mechanism) for fault in faults],
        target_stages=frozenset(which),
        quick_trials=10_000,
    )


_LINE: dict[str, Any] = {"center": (0.0,), "deviations": (1.0,)}
_PLANE: dict[str, Any] = {"center": (0.0, 0.0), "deviations": (1.0, 1.0), "outside": "mask"}

_HALF: dict[str, Any] = _PLANE | {"kept": HalfSpace((1.0, 0.0), _EDGE)}
_LONG: dict[str, Any] = {"center": (0.0, 0.0), "covariance": ((1.0, 0.875), (0.875, 1.0))}

_TRACED = GaussianMean(
    adjacency=REPLACE,
    noise_multiplier=Fraction(1),
    center=(0.0,) * 680,
    reach=1,
    deviations=(1.0,) * 680,
    search_share=Fraction(1, 20),
    warm_share=Fraction(2, 5),
    extra_steps=0,
    at_least=2,
)

CONFIGURATIONS = (
    _attacked(
        "search",
        ADD,
        (*_added()[:2], _added()[-1]),
        ("side 1",),
        (shared.unpaid_steps,),
        **_LINE,
    ),
    _attacked(
        "clip",
        ADD,
        _added(),
        ("sum and count",),
        (_heavy_number, shared.exact_number, _own_center),
        **_LINE,
    ),
    _attacked(
        "mask", REPLACE, _replaced(), ("sum and count",), (_heavy_number, _own_center), **_PLANE
    ),
    _attacked("half-space", REPLACE, _kept(), ("sum and count",), (_own_plane,), **_HALF),
    traced(
        _attacked("covariance", REPLACE, _mapped(), ("sum",), (_own_map,), **_LONG),
        _TRACED,
        n=170,
        columns=680,
        spread=0.5,
    ),
)

# --- small instances ----------------------------------------------------------------------------


def _small(
    name: str, adjacency: Adjacency, multiplier: str, data: Any, **parameters: Any
) -> SmallInstance:
    own: dict[str, Any] = {"center": (0.0,), "deviations": (1.0,), "reach": 8, "at_least": 1}
    mechanism = GaussianMean(
        adjacency=adjacency, noise_multiplier=Fraction(multiplier), **own | parameters
    )
    return SmallInstance(name=f"{name}, followed", mechanism=mechanism, data=data, followed=8)


_DATA = [2 + 0.17 * (k * k % 17) - 1.3 for k in range(50)]
_PAIRS = [(x, 3 - 2 * x) for x in _DATA]
_TILTED: dict[str, Any] = {
    "center": (0.5, -1.0),
    "deviations": None,
    "covariance": ((2.0, -3.0), (-3.0, 10.0)),
}
_WIDE: dict[str, Any] = {"center": (0.5, -1.0), "deviations": (1.5, 4.0), "reach": 32}

SMALL = (
    _small("a line", ADD, "1/10", _DATA),
    _small("a masked line", REPLACE, "1/10", _DATA, outside="mask"),
    _small("a truncated line", ADD, "1/20", _DATA, outside="mask", kept=(-3.5, 3.5)),
    _small("a plane", REPLACE, "1/20", _PAIRS, **_WIDE),
    _small("a masked plane", ADD, "1/20", _PAIRS, **_WIDE, outside="mask", kept=InsideBall(2)),
    _small(
        "outside of a ball",
        REPLACE,
        "1/10",
        _PAIRS,
        center=(0.5, -1.0),
        deviations=(2.0, 2.0),
        outside="mask",
        kept=OutsideBall(0.75),
    ),
    _small(
        "a covariance and a half-space",
        ADD,
        "1/10",
        _PAIRS,
        **_TILTED,
        outside="mask",
        kept=HalfSpace((1.0, -2.0), 3.0),
    ),
    _small("a covariance", REPLACE, "1/10", _PAIRS, **_TILTED),
    _small("far from the origin", REPLACE, "1/5", [1e308, *_DATA], center=(1e5,), reach=2**17),
    _small("nobody", ADD, "3/2", ()),
)

# --- rates --------------------------------------------------------------------------------------


def _made(setting: Mapping[str, Any]) -> GaussianMean:
    d = int(setting["d"])
    own: dict[str, Any] = {
        "adjacency": setting["adjacency"],
        "center": (0.0,) * d,
        "deviations": (1.0,) * d,
        "outside": setting["outside"],
        "reach": 16,
    }
    if "epsilon" in setting:
        return GaussianMean.for_budget(ApproxDP(setting["epsilon"], "1e-6"), **own)
    return GaussianMean(noise_multiplier=Fraction(setting["noise_multiplier"]), **own)


def _without_noise(mechanism: GaussianMean, data: Any) -> Any:
    """Find the mean about which these records, limited to the last ball, have mean zero, by a
    few steps from their own mean."""
    d, center = mechanism.columns(), data.mean(axis=0)
    radius = mechanism._length(octave_of(float(len(data))))
    law = response_of(d, radius, mechanism.outside)
    for _ in range(8):
        moved = data - center
        lengths = np.sqrt((moved**2).sum(axis=1, keepdims=True))
        if mechanism.outside == "clip":
            kept = moved * np.minimum(1, radius / lengths)
        else:
            kept = moved[lengths[:, 0] <= radius]
        center = center + kept.mean(axis=0) / law.at(0.0).ratio
    return center


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the error for standard normal records about (3, ..., 3), searched for from -16 to
    16; every release has the same records."""
    own: dict[str, Any] = {
        "target": Empirical(_without_noise),
        "curve": Curve(function="noise_error", arguments=("parameters", "n"), margin=1.14),
        "repeats": 300,
        "fewest": 50,  # lengths of 4 to 24 nearly normal numbers
    }
    return RateClaim(
        name=name,
        mechanism=_made,
        variable=variable,
        values=values,
        instance=Instance(kind="gaussian", parameters={"mean": 3.0, "deviation": 1.0}),
        error=lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
        source="OURS, the mean of normal records from that of clipped ones; ZZ25, Theorem 4.1",
        **own | claimed,
    )


RATES = (
    _rate(
        "noise-against-n",
        "n",
        (2000, 6000, 18_000),
        setting={"d": 4, "noise_multiplier": 4, "adjacency": REPLACE, "outside": "clip"},
        exponent=Exponent(value=-0.93, tolerance=0.12),
    ),
    _rate(
        "noise-against-noise-multiplier",
        "noise_multiplier",
        (1, 4, 16),
        setting={"d": 4, "n": 6000, "adjacency": ADD, "outside": "mask"},
        exponent=Exponent(value=0.9, tolerance=0.12),
    ),
    _rate(
        "noise-against-d",
        "d",
        (6, 12, 24),
        setting={"n": 4000, "noise_multiplier": 8, "adjacency": ADD, "outside": "clip"},
        exponent=Exponent(value=0.95, tolerance=0.15),
        repeats=200,
    ),
    _rate(
        "population-error",
        "n",
        (3000,),
        setting={"d": 8, "noise_multiplier": 12, "adjacency": REPLACE, "outside": "clip"},
        target=Population(lambda mechanism, setting: np.full(setting["d"], 3.0)),
        curve=Curve(function="expected_error", arguments=("parameters", "n")),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        repeats=400,
    ),
    _rate(
        "noise-against-epsilon",
        "epsilon",
        (Fraction(1, 2), Fraction(2), Fraction(8)),
        setting={"d": 8, "n": 4000, "adjacency": REPLACE, "outside": "mask"},
        exponent=Exponent(value=-0.87, tolerance=0.13),
        repeats=200,
    ),
    _rate(
        "noise-against-log-of-its-probability",
        "log_inverse_beta",
        (Fraction(3, 2), Fraction(5, 2), Fraction(4)),
        setting={
            "d": 2,
            "n": 2000,
            "noise_multiplier": 4,
            "adjacency": REPLACE,
            "outside": "clip",
        },
        metric=Metric("quantile", tail="log_inverse_beta"),
        fewest=200,
        curve=Curve(
            function="noise_quantile",
            arguments=("parameters", "n", "log_inverse_beta"),
            margin=1.14,
        ),
        repeats=2000,
    ),
)
