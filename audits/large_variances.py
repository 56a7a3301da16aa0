"""Attacks on ``large_variances``.

The worst pairs, as for ``sparse_vector``, have answers that rise and are not reported, followed
by answers that fall and are reported. A record that enters a group may do both: its records are
then paired differently, so that the variances rise in some columns and fall in others.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, LargeVariances, PureDP, UnknownCovarianceMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import View, ingest
from dpverify.grid.levels import LevelCounts, bucket_table
from dpverify.plans import AboveThreshold, Stage
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.walking import with_stages
from dpverify.rates import Curve, Empirical, Instance, Metric, RateClaim, RateFault

from ._group_votes import DEVIATION, SHARE_MISSED, GroupsByIndex, factor_off

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_LEVEL = 4**11
_FAR = (2.4 * _LEVEL) ** 0.5
"""Distance at which a pair has a variance of 1.2 levels, or of 0.6 with another pair that is not
so far apart; at sqrt(2) times the distance a pair has 1.2 with another pair."""
_CANDIDATES = 2000
Row = list[float]

# --- pairs --------------------------------------------------------------------------------------


class Crafted:
    """Records chosen for the group into which the public hash puts them.

    By group: still, near 0 in every column; up, far out in the first third of the columns; down,
    far out in the others; entering: the same two kinds, farther out.
    """

    def __init__(self, mechanism: LargeVariances | UnknownCovarianceMean) -> None:
        self.grouping = mechanism.ladder().grouping
        first = np.arange(mechanism.d) < (mechanism.d + 2) // 3
        steps = np.arange(_CANDIDATES)[:, np.newaxis] / 2**12
        self.still = self._by_group(steps + 0.0 * first)
        self.up, self.down = (self._by_group(steps + _FAR * far) for far in (first, ~first))
        farther = 2**0.5 * _FAR
        self.entering = [self._by_group(steps + farther * far) for far in (first, ~first)]

    def _by_group(self, rows: Any) -> list[list[Row]]:
        return [rows[members].tolist() for members in self.grouping.members(rows)]

    def filled(self, ups: int, downs: int, *, without: tuple[int, ...] = ()) -> list[Row]:
        """Put a still record in each group not in ``without``, an up record beside it in ``ups``
        groups, and a down record in ``downs`` other groups."""
        groups = [g for g in range(self.grouping.groups) if g not in without]
        rows = [self.still[g][0] for g in groups]
        rows += [self.up[g][0] for g in groups[:ups]]
        return rows + [self.down[g][0] for g in groups[-downs:]] if downs else rows

    def swap(self, *, rise: bool, without: int = -1) -> tuple[list[Row], Row, int]:
        """Find records of one group and a record that enters it; return them and the group's
        number.

        The entering record raises the first columns above the level and lowers the others below
        it; without ``rise``, the other way around.
        """
        enter, there = self.entering[not rise], self.down if rise else self.up
        for group in range(self.grouping.groups):
            base = [*self.still[group][:2], there[group][0]]
            for row in enter[group] if group != without else ():
                before, after = (
                    np.array(self._above(rows, group)) for rows in (base, [*base, row])
                )
                wanted = 1 if rise else -1
                if after[0] - before[0] == wanted and after[-1] - before[-1] == -wanted:
                    return base, row, group
        raise ValueError("no record raises some variances and lowers others; take more candidates.")

    def _above(self, rows: list[Row], group: int) -> list[int]:
        level = Fraction(_LEVEL) / Fraction(2) ** (2 * self.grouping.exponent)
        bucket = (level.numerator.bit_length() - 1) // 2
        buckets = bucket_table(self.grouping, View(np.array(rows)))[group]
        return [int(b >= bucket) for b in buckets]


def pairs_of(
    mechanism: LargeVariances | UnknownCovarianceMean,
) -> tuple[NeighboringPair, ...]:
    """List pairs with answers about the threshold that move against each other, crowds, and an
    empty side."""
    crafted, d, least = Crafted(mechanism), mechanism.d, mechanism.ladder().threshold
    m = crafted.grouping.groups
    base, entering, group = crafted.swap(rise=True)
    if mechanism.adjacency is ADD:
        near = crafted.filled(least - 1, least - 1, without=(group,))
        in_pairs = [[x] * d for x in (0.0, 0.0, _FAR, _FAR) * (m // 2)]
        evens = [[x] * d for x in (0.0, 0.0, 4 * _FAR, 0.0) * 2 * m]
        return (
            added("some columns rise, others fall", [*near, *base], entering),
            added("equal records in pairs", in_pairs, [0.0] * d),
            added("all that differ in even places", evens, [0.0] * d),
            added("nobody against somebody", np.zeros((0, d)), [_FAR] * d),
        )
    other, leaving, second = crafted.swap(rise=False, without=group)
    near = crafted.filled(least - 2, least - 2, without=(group, second))
    still = [[0.0] * d] * 4
    return (
        replaced("columns rise and fall in two groups", [leaving, *near, *base, *other], entering),
        replaced("an outlier by its opposite", [[1e308] * d, *still], [-1e308] * d),
    )


# --- planted faults -----------------------------------------------------------------------------


def by_index(mechanism: LargeVariances | UnknownCovarianceMean) -> Fault:
    """Group records by position: the first two are a group, the next two another."""

    def indexed(stage: Stage) -> Stage:
        query = stage.query
        if not isinstance(query, LevelCounts):
            return stage
        own = [getattr(query.grouping, f.name) for f in dataclasses.fields(query.grouping)]
        wrong = dataclasses.replace(query, grouping=GroupsByIndex(*own))
        return dataclasses.replace(stage, query=wrong)

    plan = with_stages(mechanism.fixed_plan, indexed)
    return plan_fault("groups by index", mechanism, plan)


def _halved(mechanism: LargeVariances) -> Fault:
    """Halve the noise on answers, as if all moved with one sign; under replace, all noise, as
    for one group."""
    adding = mechanism.adjacency is ADD

    def halved(stage: Stage) -> Stage:
        noise = stage.noise
        assert isinstance(noise, AboveThreshold)
        half = dataclasses.replace(noise, query_scale=noise.query_scale / 2)
        return dataclasses.replace(stage, noise=half if adding else noise.rescaled(Fraction(1, 2)))

    what = "noise on answers as if all moved one way" if adding else "noise for one group"
    return plan_fault(what, mechanism, with_stages(mechanism.fixed_plan, halved))


def _configuration(name: str, mechanism: LargeVariances) -> Configuration:
    faults = [_halved(mechanism), *([by_index(mechanism)] if mechanism.adjacency is ADD else [])]
    return Configuration(name=name, mechanism=mechanism, pairs=pairs_of(mechanism), faults=faults)


_ATTACKED: dict[str, Any] = {
    "reports": 1,
    "n_max": 600,
    "groups": 31,
    "largest": _LEVEL,
    "depth": 1,
}

CONFIGURATIONS: Sequence[Configuration] = (
    _configuration(
        "one-report", LargeVariances.for_budget(PureDP(3), adjacency=ADD, d=14, **_ATTACKED)
    ),
    _configuration(
        "one-report", LargeVariances.for_budget(PureDP(3), adjacency=REPLACE, d=14, **_ATTACKED)
    ),
)

# --- small instances ----------------------------------------------------------------------------

_TINY: dict[str, Any] = {"noise_multiplier": Fraction(1, 8), "n_max": 8, "groups": 3, "depth": 2}
_PLANE: Any = ((0.0, 0.0), (3.0, 0.5), (0.0, 9.0), (1e308, 0.0), (5e-324, -1e308), (3.0, 0.5)) * 2

SMALL = (
    SmallInstance(
        name="one report of two columns, replace",
        mechanism=LargeVariances(
            adjacency=REPLACE, d=2, reports=1, largest=8, cell=Fraction(1), **_TINY
        ),
        data=_PLANE,
    ),
    SmallInstance(
        name="two reports of two columns, add-remove",
        mechanism=LargeVariances(adjacency=ADD, d=2, reports=2, largest=Fraction(1, 3), **_TINY),
        data=_PLANE,
    ),
    SmallInstance(
        name="one report after a released largest, add-remove",
        mechanism=LargeVariances(adjacency=ADD, d=2, reports=1, delta=Fraction(2, 5), **_TINY),
        data=_PLANE * 3,
    ),
)

# --- rates --------------------------------------------------------------------------------------

_LEVEL_ASKED = 16
"""All columns have variance 2, below half of this public bound, so none is to be reported."""


def _groups_for(setting: Mapping[str, Any]) -> int:
    """Choose the number of groups so that noise rarely reaches two fifths of them.

    The noise has scales of 2 / epsilon on the threshold and 4 / epsilon on d answers of 0. Some
    answer's noise reaches the threshold with probability about d 2/3 e^(-epsilon m / 10) at
    most, which is set to 0.8 beta.
    """
    beta = math.exp(-setting["t"])
    chance = SHARE_MISSED * beta / (setting["d"] * 2 / 3)
    return math.ceil(10 / float(setting["epsilon"]) * math.log(1 / chance))


def _ladder(setting: Mapping[str, Any]) -> LargeVariances:
    return LargeVariances(
        adjacency=ADD,
        noise_multiplier=1 / Fraction(setting["epsilon"]),
        d=setting["d"],
        reports=1,
        n_max=setting["n"],
        groups=_groups_for(setting),
        largest=_LEVEL_ASKED,
        depth=1,
    )


def _few_groups(mechanism: LargeVariances, data: Any, value: Any) -> Any:
    """Plant a fault: half of the groups, with a threshold of two fifths of these."""
    half = dataclasses.replace(mechanism, groups=mechanism.ladder().grouping.groups // 2)
    return FaultyLaw(half.fixed_plan, ingest(data, half.domain), half.adjacency, half.domain)


def _rate(variable: str, values: tuple[Any, ...]) -> RateClaim:
    setting = {"n": 40_000, "d": 16, "t": 3.0, "epsilon": Fraction(1, 4)}
    return RateClaim(
        name=f"within-a-factor-of-4-against-{variable}",
        mechanism=_ladder,
        variable=variable,
        values=values,
        setting={name: number for name, number in setting.items() if name != variable},
        instance=Instance(kind="gaussian", parameters={"mean": 5.0, "deviation": DEVIATION}),
        target=Empirical(lambda mechanism, data: DEVIATION**2),
        error=lambda estimate, truth: max(
            [1.0, *(factor_off(value, truth) for value in estimate.variances.values())]
        ),
        metric=Metric("misses", beyond=4.0),
        upper=Curve(function="allowed", arguments=("t",), margin=1.0),
        faults=(RateFault(name="half of the groups", law=_few_groups),),
        repeats=10_000,
        source="DJYZZ24, Lemma 4.7, and DR14, Theorem 3.24: log(d / beta) / epsilon groups find "
        "what is large",
    )


RATES = (
    _rate("epsilon", tuple(Fraction(1, k) for k in (8, 4, 2))),
    _rate("t", (1.5, 2.25, 3.0)),
    _rate("d", (4, 16, 64)),
)
