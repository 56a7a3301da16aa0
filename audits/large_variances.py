"""Attacks on ``large_variances``.

The worst pairs, as for ``sparse_vector``, have answers that rise and are not reported, then some that fall
and are. A record that enters a group may do both: its records are paired otherwise, so that the variances
rise in some columns and fall in others.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, LargeVariances, PureDP, UnknownCovarianceMean
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.audit.faults import plan_fault
from dpverify.grid import View
from dpverify.grid.levels import LevelCounts, bucket_table
from dpverify.plans import AboveThreshold, Stage
from dpverify.plans.plan import with_stages
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

from ._groups import GroupsByIndex

ADD, REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_LEVEL = 4**11
_FAR = (2.4 * _LEVEL) ** 0.5
"""A pair that is so far apart has a variance of 1.2 levels, with another pair that is not, of 0.6; one that
is sqrt(2) times as far apart has 1.2 with another pair."""
_CANDIDATES = 2000
Row = list[float]

# --- pairs --------------------------------------------------------------------------------------


class Crafted:
    """Records that are put into groups on purpose: the hash is public.

    By group: still, near 0 in every column; up, far out in the first third of the columns; down, in the
    others; entering: the same two kinds, farther out.
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
        """A still record in each group but some; beside it one of up in ``ups``, and in other groups one of
        down in ``downs`` of these."""
        groups = [g for g in range(self.grouping.groups) if g not in without]
        rows = [self.still[g][0] for g in groups]
        rows += [self.up[g][0] for g in groups[:ups]]
        return rows + [self.down[g][0] for g in groups[-downs:]] if downs else rows

    def swap(self, *, rise: bool, without: int = -1) -> tuple[list[Row], Row, int]:
        """Records of one group, and one that enters it: then the first columns rise above the level and the
        others fall below it; or, unless ``rise``, the other way around. Then the group's number."""
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
    """Answers about the threshold that move against each other; crowds; nobody."""
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
    """The first two records are a group, the next two another."""

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
    """Noise on answers for moves of one sign; or under replace, all noise for one group."""
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

_COLUMNS = 16
_POWER = -0.25
"""Column j of 1, 2, ... has the variance j^(1/2): up to 4, where two fifths of the groups are above 4."""


def _ladder(setting: Mapping[str, Any]) -> LargeVariances:
    return LargeVariances(
        adjacency=setting["adjacency"],
        noise_multiplier=1 / Fraction(setting["epsilon"]),
        d=_COLUMNS,
        reports=1,
        n_max=setting["n"],
        largest=4,
        depth=1,
    )


def _answers(mechanism: LargeVariances, data: Any) -> Any:
    """For each column how many groups are above 4."""
    stage = mechanism.fixed_plan[0]
    assert isinstance(stage, Stage)
    return stage.query.evaluate(View(np.asarray(data)))


def _rate(
    name: str, variable: str, values: tuple[Any, ...], setting: Mapping[str, Any], exponent: Any
) -> RateClaim:
    def target(mechanism: LargeVariances, data: Any) -> tuple[Any, int, int]:
        return _answers(mechanism, data), mechanism.ladder().threshold, len(data)

    def off(estimate: Any, known: Any) -> float:
        """How far the reported answer is from the threshold; if there is none, the largest; over n."""
        answers, threshold, n = known
        reported = next(iter(estimate.variances), int(np.argmax(answers)))
        return float(abs(answers[reported] - threshold) / n)

    return RateClaim(
        name=name,
        mechanism=_ladder,
        variable=variable,
        values=values,
        setting={"d": _COLUMNS, **setting},
        exponent=exponent,
        instance=Instance(kind="decaying", parameters={"mean": 5.0, "power": _POWER}),
        target=Empirical(target),
        error=off,
        curve=Curve(function="expected_error", arguments=("parameters", "records"), per="n"),
        repeats=3000,
        source="DR14, Theorem 3.24: an answer that is reported is near the threshold",
    )


RATES = (
    _rate(
        "error-against-epsilon",
        "epsilon",
        tuple(map(Fraction, ("1/4", "1/2", "1"))),
        {"n": 1200, "adjacency": ADD},
        Exponent(value=-1, tolerance=0.2),
    ),
    _rate(
        "error-against-n",
        "n",
        (600, 1200, 2400),
        {"epsilon": Fraction(1, 2), "adjacency": ADD},
        Exponent(value=-1, tolerance=0.2),
    ),
)
