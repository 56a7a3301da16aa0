"""Attacks on ``private_quantiles``."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import (
    Adjacency,
    ApproxDP,
    PrivateQuantile,
    PrivateQuantiles,
    PureDP,
    QuantilesEstimate,
)
from dpverify.audit import Configuration, Fault, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import Transcripts, View
from dpverify.grid.quantile_blocks import BlockScores
from dpverify.grid.transcripts import NOTHING
from dpverify.plans import Mechanism, Plan, Stage
from dpverify.plans.walking import with_stages
from dpverify.privacy.numbers import Floats
from dpverify.randomness.bits import IntArray
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim
from dpverify.rates.experiments import Drawn, Experiment, Order, Quick
from dpverify.rates.faults import noise_times

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE


class _AtTrueRanks(BlockScores):
    """Blocks that end at the true ranks of their shares, and not at the released edges."""

    __slots__ = ()

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> IntArray:
        """Compute the right scores, and replace the edges by records at the true ranks."""
        value = BlockScores.evaluate(self, view, before).copy()
        placed = value[0, self.edges :]
        if self.edges and len(placed):
            ranks = [len(placed) * k // (self.edges + 1) for k in range(1, self.edges + 1)]
            value[:, : self.edges] = placed[ranks]
        return value


def _faults(mechanism: PrivateQuantiles) -> list[Fault]:
    """Plant a fault in how records add to blocks other than their own."""

    def planted(name: str, change: Callable[[Stage], Stage]) -> Fault:
        plan = with_stages(
            mechanism.fixed_plan, lambda one: change(one) if one.query.reads else one
        )
        return plan_fault(name, mechanism, plan)

    def at_true_ranks(stage: Stage) -> Stage:
        query = stage.query
        assert isinstance(query, BlockScores)
        grid = (query.lower, query.upper, query.exponent, query.parts)
        return replace(stage, query=_AtTrueRanks(*grid, query.blocks, query.after, query.edges))

    if len(mechanism.fixed_plan) == 1:
        return []
    return [
        planted("blocks by true ranks, not by released edges", at_true_ranks),
    ]


def _configuration(
    name: str, mechanism: PrivateQuantiles, pairs: Sequence[Any], **how: Any
) -> Configuration:
    faults = _faults(mechanism)
    return Configuration(name=name, mechanism=mechanism, pairs=pairs, faults=faults, **how)


QUARTILES = ("1/4", "1/2", "3/4")
_HALVED: dict[str, Any] = {"lower": 0.0, "upper": 11.0, "cell": 1, "parts": 2}
_PLAIN: dict[str, Any] = {"levels": QUARTILES, "noise_multiplier": 1}


def _many(counts: Mapping[float, int]) -> list[float]:
    """List the given number of records at each place."""
    return [place for place, count in counts.items() for _ in range(count)]


CONFIGURATIONS: Sequence[Configuration] = (
    _configuration(
        "quartiles",
        PrivateQuantiles(adjacency=_ADD, **_HALVED, **_PLAIN),
        (
            added("one on either side of the middle", [8.0], 3.0),  # both rounds show it
            added("one more of five that are equal", _many({0: 2, 6: 5, 11: 2}), 6.0),
        ),
        elsewhere=frozenset({"round 1"}),  # as another configuration's
        quick_trials=125_000,
    ),
    _configuration(
        "one-quantile",
        PrivateQuantiles.for_budget(
            PureDP(1), adjacency=_REPLACE, lower=0.0, upper=100.0, levels=("1/2",)
        ),
        (
            replaced("the median jumps across a wide gap", [1.0] * 20 + [99.0] * 20, 99.0),
            replaced("from end to end", [5.0, 50.0, 50.0, 75.0], 100.0),
            replaced("all equal, one leaves", [50.0] * 9, 5e-324),
        ),
        quick_trials=40_000,
    ),
    _configuration(
        "quartiles",
        PrivateQuantiles(adjacency=_REPLACE, **_HALVED, **_PLAIN),
        (
            replaced("from one half to the other", _many({0: 2, 1: 2, 8: 2, 9: 3}), 9.0),
            replaced("many equal at an edge", _many({0: 2, 6: 6, 11: 2}), 11.0, at=4),
        ),
        elsewhere=frozenset({"round 1", "round 2"}),
        quick_trials=20_000,
    ),
)

_TINY: dict[str, Any] = {"lower": 0.0, "upper": 2.0, "cell": 1, "parts": 2}

SMALL = (
    SmallInstance(
        name="quartiles of three, two in one cell, add-remove",
        mechanism=PrivateQuantiles(
            adjacency=_ADD, noise_multiplier=Fraction(1, 2), levels=QUARTILES, **_TINY
        ),
        data=(1.2, 1e308, 0.9),
    ),
    SmallInstance(
        name="thirds of two, replace",
        mechanism=PrivateQuantiles(
            adjacency=_REPLACE, noise_multiplier=Fraction(1, 16), levels=("1/3", "2/3"), **_TINY
        ),
        data=(-5e-324, 2.5),
    ),
    SmallInstance(
        name="nobody, add-remove",
        mechanism=PrivateQuantiles(
            adjacency=_ADD, noise_multiplier=Fraction(1), levels=("1/2",), **_TINY
        ),
        data=(),
    ),
)


# --- how far ranks are off ------------------------------------------------------------------------


def even(count: int) -> tuple[Fraction, ...]:
    """Return ``count`` levels with equal distances from each other and from 0 and 1."""
    return tuple(Fraction(k, count + 1) for k in range(1, count + 1))


def _together(setting: Mapping[str, Any]) -> PrivateQuantiles:
    return PrivateQuantiles(
        adjacency=setting["adjacency"],
        noise_multiplier=1 / Fraction(setting["epsilon"]),
        levels=even(int(setting["m"])),
        lower=0.0,
        upper=1.0,
    )


def _rank_errors(value: Any, ordered: Floats) -> Floats:
    """Return each level's distance from the ranks of its released value, as shares of the
    records."""
    levels = np.arange(1, len(value) + 1) / (len(value) + 1)
    below, up_to = (np.searchsorted(ordered, value, side) / len(ordered) for side in _SIDES)
    errors: Floats = np.maximum(0.0, np.maximum(below - levels, levels - up_to))
    return errors


_SIDES: Any = ("left", "right")


def _root_mean_square(value: Any, ordered: Floats) -> float:
    return math.sqrt(float(np.mean(np.square(_rank_errors(value, ordered)))))


def _rate(name: str, variable: str, values: tuple[Any, ...], **claimed: Any) -> RateClaim:
    own: dict[str, Any] = {
        "exponent": Exponent(value=-1, tolerance=0.1),
        "curve": Curve(function="expected_error", arguments=("parameters", "records"), per="n"),
        "error": lambda estimate, ordered: _root_mean_square(estimate.value, ordered),
    }
    return RateClaim(
        name=name,
        mechanism=_together,
        variable=variable,
        values=values,
        instance=Instance(kind="evenly", parameters={"low": 0.0, "high": 1.0}),
        target=Empirical(lambda mechanism, data: np.sort(data[:, 0])),
        source="KSS22, Theorem 3.5, with our constants",
        **own | claimed,
    )


RATES = (
    _rate(
        "error-against-n",
        "n",
        (250, 1000, 4000),
        setting={"epsilon": Fraction(1, 2), "m": 3, "adjacency": _REPLACE},
        repeats=1500,
    ),
    _rate(
        "error-against-epsilon",
        "epsilon",
        (Fraction(1, 8), Fraction(1, 3), Fraction(1)),
        setting={"n": 250, "m": 3, "adjacency": _ADD},
        repeats=500,
    ),
    _rate(
        "error-against-the-number-of-quantiles",
        "m",
        (3, 7),
        setting={"epsilon": Fraction(1, 2), "n": 1000, "adjacency": _ADD},
        exponent=None,
        repeats=1600,
    ),
)


# --- together, or apart ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Apart(Mechanism[QuantilesEstimate]):
    """Quantiles released one by one with ``PrivateQuantile`` from the same records, then sorted."""

    levels: tuple[Fraction, ...]

    def plan(self) -> Plan:
        """Return a part for each quantile."""
        return tuple(one.part(f"{k}") for k, one in enumerate(self._each()))

    def estimate(self, transcript: Transcripts) -> QuantilesEstimate:
        """Return the values in increasing order."""
        each = enumerate(self._each())
        values: list[Any] = [one.estimate(transcript.within(f"{k}")) for k, one in each]
        return QuantilesEstimate(
            tuple(sorted(one.value for one in values)), tuple(map(float, self.levels))
        )

    def _each(self) -> list[PrivateQuantile]:
        given: dict[str, Any] = {"lower": 0.0, "upper": 1.0, "adjacency": self.adjacency}
        given["noise_multiplier"] = self.noise_multiplier
        return [PrivateQuantile(quantile=level, **given) for level in self.levels]


_BUDGET = ApproxDP(1, "1e-6")
_LEVELS = (3, 9, 19)


def _draw(setting: Mapping[str, Any], rng: np.random.Generator) -> Drawn:
    """Draw skewed records between 0 and 1, many of them equal, all in the middle of a cell of
    the grid."""
    records = np.minimum(rng.lognormal(-3.0, 1.0, setting["n"]), 1.0)
    records[: setting["n"] // 4] = 0.0625
    records = np.rint(records * 2.0**20) / 2.0**20
    return Drawn(records[:, np.newaxis], np.sort(records))


def _made(kind: type[Mechanism[Any]], **given: Any) -> Any:
    def make(setting: Mapping[str, Any]) -> Mechanism[Any]:
        levels = even(int(setting["m"]))
        return kind.calibrated_for(_BUDGET, adjacency=_ADD, levels=levels, **given)

    return make


EXPERIMENTS = (
    Experiment(
        name="quantiles-together-or-apart",
        methods={
            "together": _made(PrivateQuantiles, lower=0.0, upper=1.0),
            "apart": _made(_Apart),
        },
        panels={"skewed": {"n": 2000}},
        variable="m",
        values=_LEVELS,
        draw=_draw,
        error=_root_mean_square,
        guarantee=_BUDGET,
        adjacency=_ADD,
        orders=(
            Order(
                better="together",
                worse="apart",
                where={"skewed": _LEVELS[1:]},
                faulty="together",
                fault=noise_times(Fraction(10)),
            ),
        ),
        quick=Quick(panels=["skewed"], values=_LEVELS, methods=("together", "apart")),
        source="KSS22, Section 5: errors of quantiles together and apart",
        repeats=20,
    ),
)
