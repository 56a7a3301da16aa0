"""Attacks on ``rescaled_mean``."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, ApproxDP, RescaledMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.friendly_core import FriendlyNeighbors, filtered_of

from . import _ladder, _mahalanobis, _rescaled_rates
from . import _rescaled_faults as faults
from ._rescaled_faults import at, crowd
from ._traced import traced

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_INF, _TINY = float("inf"), 5e-324
_N = 4000
"""Records in most pairs: enough for the released number to be near the true one."""

# --- pairs --------------------------------------------------------------------------------------


def _added(mechanism: RescaledMean, n: int, least: int) -> tuple[NeighboringPair, ...]:
    """List pairs in which the mean moves most, and in which the agreement or the number kept does.

    least: the number of friends at one place for which a noiseless release passes the gate.
    """

    def pair(name: str, record: float, *groups: tuple[float, int]) -> NeighboringPair:
        return added(name, crowd(mechanism, *groups), at(mechanism, record))

    half, eighth = n // 2, n // 8
    return (
        pair("an eighth are no friends of the new one", 1, (-1, eighth), (0, n - eighth)),
        pair("two groups of one size", 0, (0, half), (_INF, half)),
        pair("nobody against somebody", _INF),
        pair("around the least number", 1, (0, least - 1)),
        pair("two halves a hair too far apart", 0, (0, half), (1 + 0.5 / n, half)),
        pair("a stranger to a clique", _INF, (0, n)),
        pair("half of them begin to agree", -1, (-1, half // 2), (0, half // 2), (1, half)),
        _subnormal(mechanism, n),
    )


def _subnormal(mechanism: RescaledMean, n: int) -> NeighboringPair:
    d = len(mechanism.matrix)
    base = np.tile([[0.0] * d, [-0.0] * d], (n // 2, 1))
    return added("a subnormal enters", base, (_TINY,) * d, at=5)


def _replaced(mechanism: RescaledMean, n: int, least: int) -> tuple[NeighboringPair, ...]:
    def pair(name: str, record: float, *groups: tuple[float, int]) -> NeighboringPair:
        return replaced(name, crowd(mechanism, *groups), at(mechanism, record))

    half, eighth = n // 2, n // 8
    quarter = half // 2
    return (
        pair("from one end to the other", 1, (-1, 1), (0, n - 1)),
        pair("two groups of one size", -_INF, (0, half), (-_INF, half)),
        pair("the only record", _INF, (0, 1)),
        pair("around the least number", _INF, (0, least)),
        pair("one of a clique for a stranger", _INF, (0, n)),
        pair("an eighth are no friends of the new one", 1, (-1, eighth), (0, n - eighth)),
        pair("half of them cease to agree", 1, (-1, quarter + 1), (0, quarter), (1, half)),
    )


def _friendly(mechanism: RescaledMean, n: int, least: int) -> tuple[NeighboringPair, ...]:
    """List pairs in which all records are kept and one more is as far from the others as a
    common friend allows."""
    filter_ = filtered_of(mechanism.fixed_plan).filter
    strangers = filter_.friendly.strangers
    neighbors = FriendlyNeighbors(filter_.nearness, len(mechanism.matrix), strangers)
    far = 2.0 if strangers is None else 1.0

    def pair(name: str, record: float, *groups: tuple[float, int]) -> NeighboringPair:
        right = crowd(mechanism, *groups)
        left = np.concatenate([[at(mechanism, record)], right])
        return NeighboringPair(name=name, left=left, right=right, adjacency=neighbors)

    return (
        pair("as far away as a kept record may be", far, (0, n)),
        pair("nobody against somebody", 1),
        pair("around the least number", far, (0, least - 1)),
    )


# --- configurations -----------------------------------------------------------------------------


def _made(epsilon: int, adjacency: Adjacency, n_max: int, **own: Any) -> RescaledMean:
    given: dict[str, Any] = {"matrix": (16.0,), "radius": 1, "ladder_multiplier": None}
    parameters = {**given, "n_max": n_max, **own}
    return RescaledMean.for_budget(ApproxDP(epsilon, "1e-6"), adjacency=adjacency, **parameters)


_SHEARED = ((2.0, 0.5), (0.5, 0.3))
Planted = Callable[[RescaledMean], Fault]
_OF_WEIGHTS: tuple[Planted, ...] = (
    faults.hard_threshold,
    faults.square_root,
    faults.frozen_half,
    faults.no_shift,
)
_OF_FILTERS: tuple[Planted, ...] = (
    faults.keeps_everything,
    faults.keeps_majorities,
    faults.keeps_by_frozen_half,
)


def _by_weights(
    name: str, mechanism: RescaledMean, n: int = _N, *more: NeighboringPair, **planted: Any
) -> Configuration:
    """Attack the weighted mean; the agreement's noise is attacked apart, for the pairs that move
    it most do not move the mean."""
    core: Any = mechanism.core()
    add = mechanism.adjacency is ADD
    pairs = (_added if add else _replaced)(mechanism, n, core.shift + 10)
    if len(mechanism.matrix) > 1:
        pairs = pairs[: 6 if add else 5]
    own = [plant(mechanism) for plant in planted.get("faults", _OF_WEIGHTS)]
    if add:
        own.append(faults.radius_by_rows(mechanism, n))
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=(*pairs, *more),
        faults=own,
        first_stage=[pair for pair in pairs if "stranger" in pair.name],
    )


_FEW = 1100
"""n_max where the agreement has a share that shows 5 in place of 6, and the mean one that shows
0.7."""


_SHOWING_FILTERS = ("two groups", "stranger", "nobody", "only record", "least number")
"""Words in the names of the pairs that show faults of filters; every pair costs a draw of all
coins."""


def _filtered(
    mechanism: RescaledMean,
    n: int,
    least: int,
    shift: int,
    *planted: Planted,
    first_stage: bool = False,
) -> Configuration:
    """Attack the mean after a filter.

    shift: subtracted from the number kept, so that friendly records are released from shift + 1
    on.
    """
    add = mechanism.adjacency is ADD
    every = (_added if add else _replaced)(mechanism, n, least)
    pairs = [pair for pair in every if any(word in pair.name for word in _SHOWING_FILTERS)]
    return Configuration(
        name=mechanism.filter,
        mechanism=mechanism,
        pairs=pairs,
        faults=[plant(mechanism) for plant in (*_OF_FILTERS, *planted)],
        friendly=_friendly(mechanism, _N, shift + 1),
        quick_trials=16_000,
        first_stage=[pair for pair in pairs if "stranger" in pair.name] if first_stage else (),
    )


def _by_scores(adjacency: Adjacency) -> Configuration:
    mechanism = _made(16, adjacency, 100, filter="gaussian")
    core: Any = mechanism.core()
    gate: Any = mechanism.fixed_plan[1]
    return _filtered(mechanism, 64, gate.at_least, core._shift, first_stage=adjacency is ADD)


def _by_coins(adjacency: Adjacency) -> Configuration:
    mechanism = _made(4, adjacency, 100, filter="basic")
    core: Any = mechanism.core()
    return _filtered(mechanism, 240, core.shift + 1, core.shift, faults.no_shift)


_TRACED = RescaledMean.for_budget(
    ApproxDP(3, "1e-6"), adjacency=REPLACE, covariance=(1.0,) * 600, n_max=170
)

CONFIGURATIONS = (
    _by_weights("weights", _made(1, ADD, _N)),
    traced(
        _by_weights("weights", _made(1, REPLACE, _FEW), 10_000),
        _TRACED,
        n=170,
        columns=600,
    ),
    _by_scores(ADD),
    _by_coins(ADD),
    *_ladder.configurations(),
)


# --- small instances ----------------------------------------------------------------------------


def _small(name: str, data: Any, choices: int = 12, **own: Any) -> SmallInstance:
    parameters: dict[str, Any] = {
        "adjacency": ADD,
        "noise_multiplier": Fraction(1, 8),
        "matrix": (16.0,),
        "radius": 1,
        "n_max": 1,
        "tail": Fraction(9, 100),
        **own,
    }
    return SmallInstance(
        name=name, mechanism=RescaledMean(**parameters), data=data, max_choices=choices
    )


_LINE = (0.0, 1.5, 3.0)  # friends are at most 2 apart: a path
_SIX = (0.0, 0.5, 1.0, 1.0, 1.5, 2.5)
_PLANE: Any = ((0.0, 0.0), (0.5, 0.25), (1e30, -7.0))
SMALL = (
    _small("weights, 16 friends", (0.0, 0.1) * 8, noise_multiplier=Fraction(1, 40)),
    _small("weights, a path", _LINE),
    _small("weights, nobody", ()),
    _small(
        "weights in the plane, replace",
        _PLANE + _PLANE[:2] * 12,
        adjacency=REPLACE,
        matrix=_SHEARED,
        noise_multiplier=Fraction(1, 40),
    ),
    _small(
        "weights on a line in the plane",
        ((3.0, 0.0), (3.5, 0.5), (2.0, -1.0)) * 8,
        matrix=((16.0, 16.0), (16.0, 16.0)),
        origin=(3.0, 0.0),
        noise_multiplier=Fraction(1, 40),
    ),
    _small("basic, a path", _LINE, filter="basic", noise_multiplier=2),
    _small("basic, nobody", (), filter="basic", noise_multiplier=2),
    _small(
        "basic in the plane, replace",
        _PLANE,
        filter="basic",
        adjacency=REPLACE,
        matrix=_SHEARED,
        noise_multiplier=2,
    ),
    _small("gaussian, two of six no friends", _SIX, filter="gaussian", n_max=100, choices=20),
    *_ladder.followed(RescaledMean, radius=1),
)

RATES = (*_rescaled_rates.RATES, *_mahalanobis.RATES)
