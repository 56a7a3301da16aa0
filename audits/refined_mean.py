"""Attacks on ``refined_mean``."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RefinedMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Released, Transcripts, View
from dpverify.grid.drawn_in import TwoBallSum, drawn_in_sums, tilt
from dpverify.grid.image_view import Images
from dpverify.grid.linear import Integers
from dpverify.grid.masks import sums_in_balls
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.shapes import tail_radius
from dpverify.grid.transcript_queries import MovingSum
from dpverify.plans import NoNoise, Stage
from dpverify.randomness.bits import IntArray
from dpverify.rates import Curve, Empirical, Exponent, Instance, Population, RateClaim

from . import _ladder
from ._moving import Faulty, Value
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE

# --- planted faults -----------------------------------------------------------------------------


def _last(mechanism: RefinedMean) -> tuple[Stage, MovingSum]:
    stage = mechanism.fixed_plan[-1]
    assert isinstance(stage, Stage)
    assert isinstance(stage.query, MovingSum)
    return stage, stage.query


def _value_fault(name: str, mechanism: RefinedMean, value: Value) -> Fault:
    stage, query = _last(mechanism)
    wrong = Faulty.of(query, value)
    plan = (*mechanism.fixed_plan[:-1], dataclasses.replace(stage, query=wrong))
    return plan_fault(name, mechanism, plan)


def _placed(query: MovingSum, place: Any, view: View, before: Transcripts) -> IntArray:
    """Compute the right sum about another point or within another radius."""
    return dataclasses.replace(query, place=Released(query.reads, place)).evaluate(view, before)


def _own_center(mechanism: RefinedMean) -> Fault:
    """Take the exact mean for the center: one record moves it by part of a radius, and so
    changes who is inside."""

    def value(query: MovingSum, view: View, before: Transcripts) -> IntArray:
        sums, total = view.images(query.nearness).weighted_sum
        exact = [round(Fraction(s, max(1, total))) for s in sums]

        def place(rows: Transcripts) -> tuple[Any, Any]:
            return np.tile(np.array(exact, np.int64), (len(rows), 1)), query.place(rows)[1]

        return _placed(query, place, view, before)

    return _value_fault("takes the center without its noise", mechanism, value)


def _own_radius(mechanism: RefinedMean) -> Fault:
    """Let the farthest record decide in which unit all others are released."""

    def value(query: MovingSum, view: View, before: Transcripts) -> IntArray:
        images = view.images(query.nearness).images

        def place(rows: Transcripts) -> tuple[Any, Any]:
            points, radii = query.place(rows)
            middle = np.median(images, axis=0)
            farthest = np.linalg.norm(images - middle, axis=1).max(initial=1.0)
            return points, np.full_like(radii, min(math.ceil(farthest), 1 << 41))

        return _placed(query, place, view, before)

    return _value_fault("takes the radius from the data's spread", mechanism, value)


class _Clipping(MovingSum):
    """A sum of all records, each drawn in to twice the radius, and their number."""

    def totals(
        self, images: Images, points: Integers, radii: Integers, before: Transcripts
    ) -> tuple[Integers, Integers]:
        """Sum the records clipped to twice the radius, and count all of them."""
        records, limits = images.distinct, 2.0 * radii.astype(np.float64)
        sums = np.zeros(points.shape, np.int64)
        for vector, often in zip(records.vectors, records.counts, strict=True):
            moved = (vector - points).astype(np.float64)
            lengths = np.maximum(np.linalg.norm(moved, axis=1), 1.0)
            shares = np.minimum(1.0, limits / lengths)
            sums += often * np.rint(moved * shares[:, np.newaxis]).astype(np.int64)
        return sums, np.full(len(points), records.number)


def _clips(mechanism: RefinedMean) -> Fault:
    """Draw records outside in to twice the radius, so that they move the sum by twice its bound."""

    def value(query: MovingSum, view: View, before: Transcripts) -> IntArray:
        clipping = _Clipping(query.nearness, query.spread, query.adjacency, query.place)
        return clipping.evaluate(view, before)

    return _value_fault("clips to twice the radius, counts all", mechanism, value)


def _exact_number(mechanism: RefinedMean) -> Fault:
    """Release the number inside exactly, as if it were public."""
    stage, query = _last(mechanism)

    def value(base: MovingSum, view: View, before: Transcripts) -> IntArray:
        points, radii = base.place(before)
        distinct = view.images(base.nearness).distinct
        numbers: IntArray = sums_in_balls(distinct, points, radii)[1]
        return numbers[:, np.newaxis]

    exact = Stage("exact", Faulty.of(query, value, 1), NoNoise())
    plan = (*mechanism.fixed_plan[:-1], exact, stage)
    return plan_fault("releases the number inside without noise", mechanism, plan)


def _untilted(mechanism: RefinedMean) -> Fault:
    """Release what the outer ball adds as it is, times g: a record that fills both balls moves
    that by twice as much as the tilted rest."""

    def value(query: TwoBallSum, view: View, before: Transcripts) -> IntArray:
        points, radii = query.place(before)
        data, small = view.images(query.nearness).distinct, query.inside(int(radii[0]))
        inner = drawn_in_sums(data, points, np.full_like(radii, small), 2 * radii)[0]
        more = 2 * small * (drawn_in_sums(data, points, radii)[0] - inner).astype(object)
        factors = [tilt(small, int(radii[0])) * 2**40 / query.unit(int(radii[0]))]
        right: IntArray = query.evaluate(view, before)
        return np.column_stack([right[:, :-1], rounded_multiples(more, factors)])

    return _value_fault("adds the outer ball without the tilt", mechanism, value)


# --- pairs
# -------------------------------------------------------------------------------------- After
# the map the radius of friends is 1 and that of the ball about 1.02: a record at 1 is a friend
# of a crowd at 0, one at 1.003 is a stranger inside the ball.

_FAR = 8e307
_STRANGER = 1.003
_RIM = 300
To = Callable[[float, float], tuple[float, ...]]
"""Map from coordinates after the map to a record."""


def _on_a_line(x: float, _: float) -> tuple[float, ...]:
    return (x,)


def _pairs_added(to: To, n: int, edge: float, least: int) -> tuple[NeighboringPair, ...]:
    """List pairs of add/remove neighbors.

    edge: radius of the ball. least: so many friends that the first stage is about to abstain.
    """
    zero, crowd = to(0.0, 0.0), [to(0.0, 0.0)] * n
    rim = [zero] * (n - _RIM) + [to(2 * edge + 0.5 / n, 0.0)] * _RIM
    return (
        added("a friend at the end of its reach", crowd, to(1.0, 0.0)),
        added("a stranger inside the ball", crowd, to(_STRANGER, 0.0)),
        added("an outlier", crowd, to(_FAR, -_FAR)),
        added("some on the rim of twice the ball", rim, to(1.0, 0.0)),
        added("about to abstain", crowd[:least], to(_STRANGER, 0.0)),
    )


def _pairs_replaced(to: To, n: int, edge: float, least: int) -> tuple[NeighboringPair, ...]:
    """List pairs of replace neighbors; the parameters are those of ``_pairs_added``."""
    zero, crowd = to(0.0, 0.0), [to(0.0, 0.0)] * (n - 1)
    rim = [zero] * (n - _RIM - 1) + [to(2 * edge, 0.0)] * _RIM
    return (
        replaced("from end to end of its reach", [to(1.0, 0.0), *crowd], to(-1.0, 0.0)),
        replaced("a friend by a stranger", [to(-1.0, 0.0), *crowd], to(_STRANGER, 0.0)),
        replaced("an outlier comes in", [to(-_FAR, _FAR), *crowd], to(1.0, 0.0)),
        replaced("an outlier by its opposite", [to(-_FAR, 0.0), *crowd], to(_FAR, 0.0)),
        replaced("some on the rim of twice the ball", [to(1.0, 0.0), *rim], to(-1.0, 0.0)),
        replaced("about to abstain", crowd[:least], to(_STRANGER, 0.0)),
    )


def _first_stage_added(to: To, n: int) -> tuple[NeighboringPair, ...]:
    return (added("a stranger moves the agreement by 5", [to(0.0, 0.0)] * n, to(9.0, 0.0)),)


def _first_stage_replaced(to: To, n: int) -> tuple[NeighboringPair, ...]:
    friends = [to(0.0, 0.0)] * n
    return (replaced("a stranger moves the agreement by 6", friends, to(9.0, 0.0)),)


def _attacked(
    name: str, adjacency: Adjacency, to: To, n: int, epsilon: int, **own: Any
) -> Configuration:
    """Attack center and sum, each with about half of mu^2, so that a fault in either shows."""
    mechanism = RefinedMean.for_budget(
        ApproxDP(epsilon, "1e-6"),
        adjacency=adjacency,
        radius=1,
        record_radius=1.02,
        n_max=n,
        ladder_multiplier=None,
        **own,
    )
    core, one_way = mechanism.core(), adjacency is ADD
    edge = math.hypot(1.02, core.expected_noise(n - 4 * _RIM))
    pairs = _pairs_added if one_way else _pairs_replaced
    first_stage = _first_stage_added if one_way else _first_stage_replaced
    wrong_sum = _clips if mechanism.inner_ratio is None else _untilted
    faults = (_own_center, _own_radius, wrong_sum, _exact_number)
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs(to, n, edge, mechanism.minimum_n(beta="1/2")),
        faults=[fault(mechanism) for fault in faults],
        first_stage=first_stage(to, n),
        quick_trials=60_000,
    )


_HALF = Fraction("0.95")
"""A center multiplier that takes about half of mu^2 at epsilon = 8."""

_TRACED = RefinedMean.for_budget(
    ApproxDP(3, "1e-6"), adjacency=REPLACE, covariance=(1.0,) * 600, n_max=170
)

CONFIGURATIONS = (
    _attacked("line", ADD, _on_a_line, 10_000, 8, matrix=(1.0,), center_multiplier=_HALF),
    traced(
        _attacked("line", REPLACE, _on_a_line, 10_000, 8, matrix=(1.0,), center_multiplier=_HALF),
        _TRACED,
        n=170,
        columns=600,
    ),
    _attacked(
        "two-balls",
        ADD,
        _on_a_line,
        10_000,
        8,
        matrix=(1.0,),
        center_multiplier=_HALF,
        inner_ratio=Fraction(1, 2),
    ),
)


# --- small instances ----------------------------------------------------------------------------


def _small(adjacency: Adjacency, **own: Any) -> RefinedMean:
    given: dict[str, Any] = {"matrix": (1.0,), "record_radius": 0.75, "n_max": 30, **own}
    return RefinedMean(
        adjacency=adjacency,
        noise_multiplier=Fraction(3, 2),
        center_multiplier=Fraction(1, 4),
        radius=1,
        tail=Fraction(1, 1000),
        **given,
    )


_TURNED: Any = ((2.0, 0.5), (0.5, 1.0))
_LINE = [0.25] * 40 + [-0.5, 1.0, 1e308]
_PLANE: Any = [(0.25, 0.5)] * 34 + [(0.5, -0.25), (1.0, -7.0)]

SMALL = (
    SmallInstance(name="line, add-remove", mechanism=_small(ADD), data=_LINE),
    SmallInstance(name="line, replace", mechanism=_small(REPLACE), data=_LINE),
    SmallInstance(
        name="plane, a matrix, add-remove", mechanism=_small(ADD, matrix=_TURNED), data=_PLANE
    ),
    SmallInstance(name="nobody, replace", mechanism=_small(REPLACE), data=()),
    SmallInstance(
        name="two balls, replace",
        mechanism=_small(REPLACE, inner_ratio=Fraction(2, 3)),
        data=_LINE,
    ),
    SmallInstance(
        name="two balls, plane, add-remove",
        mechanism=_small(ADD, matrix=_TURNED, inner_ratio=Fraction(1, 2)),
        data=_PLANE,
    ),
    *_ladder.followed(
        RefinedMean, radius=1, record_radius=Fraction(3, 4), center_multiplier=Fraction(1, 2)
    ),
)


# --- rates --------------------------------------------------------------------------------------


def _refined(setting: Mapping[str, Any]) -> RefinedMean:
    """Build the mechanism with M the data's covariance and radii that do not depend on n, so
    that the error is noise over n."""
    deviations = np.arange(1, setting["d"] + 1, dtype=np.float64) ** -setting["power"]
    return RefinedMean(
        adjacency=setting["adjacency"],
        matrix=tuple((deviations**2).tolist()),
        radius=tail_radius(2 * deviations, 1e-4),
        record_radius=tail_radius(deviations, 1e-4),
        n_max=1000,
        tail=Fraction(1, 10**7),
        center_multiplier=Fraction(setting["noise_multiplier"]),
        noise_multiplier=Fraction(setting["noise_multiplier"]),
        inner_ratio=setting.get("inner_ratio"),
    )


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    """Claim the distance for normal data of covariance M about 3 in each coordinate."""
    own: dict[str, Any] = {
        "error": lambda estimate, truth: float(np.linalg.norm(estimate.value - truth)),
    }
    return RateClaim(
        name=name,
        mechanism=_refined,
        variable=variable,
        values=values,
        instance=Instance(kind="decaying", parameters={"mean": 3.0, "power": "power"}),
        source="DJYZZ24, Algorithm 1, and a masked sum about its mean",
        **own | claimed,
    )


def _mean_and_sampling(mechanism: RefinedMean, data: Any) -> tuple[Any, float]:
    """Return the records' mean, and its expected distance from the law's mean: sqrt(tr M / n)."""
    return data.mean(axis=0), math.sqrt(float(np.sum(mechanism.matrix)) / len(data))


def _beside_sampling(estimate: Any, known: tuple[Any, float]) -> float:
    """Return the distance from the mean of the records, over the sampling error."""
    mean, sampling = known
    return float(np.linalg.norm(estimate.value - mean)) / sampling


_CURVE = Curve(function="expected_error", arguments=("parameters", "n"))
_FREE: dict[str, Any] = {
    "variable": "n",
    "values": (150, 450, 1200),
    "setting": {"d": 3, "power": 1, "noise_multiplier": "1/2", "adjacency": ADD},
}

RATES = (
    _rate(
        "noise-against-n",
        "n",
        (500, 1500, 4500),
        setting={"d": 20, "power": 1, "noise_multiplier": "1/2", "adjacency": ADD},
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        curve=_CURVE,
        exponent=Exponent(value=-1, tolerance=0.05),
        repeats=500,
    ),
    _rate(
        "noise-of-two-balls",  # the inner ball leaves out nothing, and its noise is nearly all
        "n",
        (500, 1500, 4500),
        setting={
            "d": 20,
            "power": 0.5,
            "noise_multiplier": "1/2",
            "adjacency": ADD,
            "inner_ratio": "3/4",
        },
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        curve=_CURVE,
        exponent=Exponent(value=-1, tolerance=0.05),
        repeats=500,
    ),
    _rate(
        "noise-against-d",  # tr M^(1/2) is 1.55, 1.63, 1.64
        "d",
        (10, 100, 1000),
        setting={"n": 600, "power": 2, "noise_multiplier": "1/2", "adjacency": REPLACE},
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        curve=_CURVE,
        exponent=Exponent(value=0, tolerance=0.06),
        repeats=400,
    ),
    _rate(
        "noise-against-its-multiplier",
        "noise_multiplier",
        tuple(map(Fraction, ("1/32", "1/8", "1/2"))),
        setting={"n": 3000, "d": 20, "power": 1, "adjacency": REPLACE},
        target=Empirical(lambda mechanism, data: data.mean(axis=0)),
        curve=_CURVE,
        exponent=Exponent(value=1, tolerance=0.05),
        repeats=400,
    ),
    _rate(
        "privacy-for-free",  # the sampling error: that of the empirical mean goes as n^-1/2
        **_FREE,
        target=Population(lambda mechanism, setting: np.full(setting["d"], 3.0)),
        lower=Curve(function="lower_bound", arguments=("parameters", "n")),
        exponent=Exponent(value=-0.5, tolerance=0.15, drift=1.6),
        repeats=600,
    ),
    _rate(
        "noise-beside-sampling",  # at the same n, where that error would hide a lost constant
        **_FREE,
        target=Empirical(_mean_and_sampling),
        error=_beside_sampling,
        facts=lambda setting, data, truth: {"sampling": truth[1]},
        curve=dataclasses.replace(_CURVE, per="sampling"),
        exponent=Exponent(value=-0.5, tolerance=0.05),
        repeats=2000,
    ),
)
