"""Pairs, planted faults and rates of mechanisms in which groups of records vote."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify import Adjacency, KthLargestVariance, NumberOfReports, SumOfVariances
from dpverify.audit import Configuration, Fault, NeighboringPair, added, replaced
from dpverify.grid import ingest
from dpverify.grid.groups import GroupBuckets, ReportsWorth
from dpverify.grid.records import Records
from dpverify.plans import Law, Stage, ThresholdedGaussian, ThresholdedLaplace
from dpverify.plans.faulty import FaultyLaw
from dpverify.privacy.calibration import least_integer
from dpverify.rates import Curve, Empirical, Instance, Metric, RateClaim, RateFault

GroupVotes = KthLargestVariance | SumOfVariances | NumberOfReports
Rows = list[list[float]]
_FAR = float(3 * 2**17)  # a near and a far record have a variance of 1.1 times 2^36
_CANDIDATES = 6000


def parts_of(mechanism: GroupVotes) -> tuple[Stage, GroupBuckets, Any]:
    """Return the mechanism's only stage, its query and its noise."""
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    query, noise = stage.query, stage.noise
    assert isinstance(query, GroupBuckets)
    assert isinstance(noise, (ThresholdedLaplace, ThresholdedGaussian))
    return stage, query, noise


# --- pairs --------------------------------------------------------------------------------------


class Crafted:
    """Records chosen for the group into which the public hash puts them.

    near, far: by group, records about 0 and records about 3 2^17.
    """

    def __init__(self, mechanism: GroupVotes | GroupBuckets) -> None:
        if isinstance(mechanism, GroupBuckets):
            self.query = mechanism
        else:
            self.query = parts_of(mechanism)[1]
        steps = np.arange(_CANDIDATES) / 2**10
        self.near, self.far = (self._by_group(start + steps) for start in (0.0, _FAR))

    def _by_group(self, values: NDArray[np.float64]) -> list[Rows]:
        rows = _rows(self.query, values)
        return [rows[members].tolist() for members in self.query.members(rows)]

    def groups(self, alone: int, spread: int) -> Rows:
        """Put a near record in each of the last groups, and a far one beside it in ``spread`` of
        them."""
        last = range(self.query.groups - alone - spread, self.query.groups)
        rows = [self.near[group][0] for group in last]
        return rows + [self.far[group][0] for group in last[alone:]]

    def twin(self) -> tuple[int, Rows]:
        """Find a group with a near record twice and a far one, so that its statistic is zero."""
        for group, near in enumerate(self.near):
            far = self.far[group][-1]  # candidates are in their order in the group
            for row in near:
                rows = [row, row, far]
                ordered, sizes = self.query.grouped(np.array(rows))
                before = sizes[:group].sum()
                if sizes[group] == 3 and ordered[before + 2] == 2:
                    return group, rows
        raise ValueError("no near record is twice in a group; take more candidates.")


def _rows(query: GroupBuckets, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Repeat each value in all columns.

    Where numbers of reports are voted for, the last column is 0, so that two reports are
    worthwhile where there is any variance, and one where there is none.
    """
    rows = np.repeat(values[:, np.newaxis], query.columns, axis=1)
    if isinstance(query.statistic, ReportsWorth):
        rows[:, -1] = 0.0
    return rows


def pairs_added(mechanism: GroupVotes | GroupBuckets) -> tuple[NeighboringPair, ...]:
    """List pairs in which a group's vote moves, between large buckets or to a new one, and one
    in which equal records stand next to each other."""
    crafted = Crafted(mechanism)
    m = crafted.query.groups
    side_by_side = _rows(crafted.query, np.array([0.0, 0.0, 1.0, 1.0] * (m // 2))).tolist()
    return (
        added("a group moves", crafted.groups(m // 2, m // 2), crafted.far[m - m // 2 * 2][0]),
        added("a bucket appears", crafted.groups(m, 0), crafted.far[0][0]),
        added("equal records in pairs", side_by_side, side_by_side[0]),
    )


def pairs_replaced(mechanism: GroupVotes | GroupBuckets) -> tuple[NeighboringPair, ...]:
    """List pairs in which two groups' votes move alike, between large buckets or to a new one."""
    crafted = Crafted(mechanism)
    m = crafted.query.groups
    group, twins = crafted.twin()
    other = next(g for g in range(m) if g != group)
    lone, entering = crafted.near[other][0], crafted.far[other][0]
    spread = [g for g in range(m) if g not in (group, other)][: m // 2]
    crowd = [row for g in spread for row in (crafted.near[g][0], crafted.far[g][0])]
    return (
        replaced("two groups move alike", [*twins, lone, *crowd], entering),
        replaced("two groups make a bucket", [*twins, lone], entering),
    )


# --- planted faults -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GroupsByIndex(GroupBuckets):
    """Groups by position: the first two records are a group, the next two another."""

    def grouped(self, records: Records) -> tuple[NDArray[np.intp], NDArray[np.int64]]:
        """Assign records in pairs to the groups in turn, from the first again after the last."""
        labels = np.arange(len(records)) // 2 % self.groups
        return np.argsort(labels, kind="stable"), np.bincount(labels, minlength=self.groups)


def _faults(mechanism: GroupVotes) -> list[Fault]:
    """Plant faults in the threshold and in the rule that decides a record's group."""
    stage, query, noise = parts_of(mechanism)
    fields = [getattr(query, field.name) for field in dataclasses.fields(query)]

    def planted(name: str, **changed: Any) -> Fault:
        plan = (dataclasses.replace(stage, **changed),)

        def law(data: ArrayLike) -> Law:
            records = ingest(data, mechanism.domain)
            return Law(plan, records, mechanism.adjacency, mechanism.domain)

        return Fault(f"votes: {name}", law)

    lower = type(noise)(noise.scale, noise.threshold - 1)
    faults = [planted("a threshold for > used with >=", noise=lower)]
    if mechanism.adjacency is Adjacency.ADD_REMOVE:
        faults.append(planted("groups by index", query=GroupsByIndex(*fields)))
    return faults


def configuration(name: str, mechanism: GroupVotes) -> Configuration:
    """Build a configuration with the pairs of the mechanism's adjacency and its own faults."""
    adding = mechanism.adjacency is Adjacency.ADD_REMOVE
    pairs: Sequence[NeighboringPair] = (pairs_added if adding else pairs_replaced)(mechanism)
    return Configuration(
        name=name,
        mechanism=mechanism,
        pairs=pairs,
        faults=_faults(mechanism),
        quick_trials=100_000,
    )


# --- rates --------------------------------------------------------------------------------------


def factor_off(value: float, truth: float) -> float:
    """Return the factor, at least 1, by which a value is off; infinite if it is not positive."""
    return max(value / truth, truth / value) if value > 0 else math.inf


def enough_groups(noise: Any, allowed: float) -> int:
    """Find the fewest groups whose common bucket is withheld with probability at most
    ``allowed``."""
    return least_integer(lambda m: noise.below(noise.threshold - m) <= allowed, above=0)


def few_groups(mechanism: Any, data: ArrayLike, value: Any) -> Law:
    """Plant a fault: half of the groups, with the threshold for all of them."""
    (stage,) = mechanism.fixed_plan
    query = dataclasses.replace(stage.query, groups=stage.query.groups // 2)
    plan = (dataclasses.replace(stage, query=query),)
    return FaultyLaw(plan, ingest(data, mechanism.domain), mechanism.adjacency, mechanism.domain)


FEW_GROUPS = RateFault(name="half of the groups", law=few_groups)
SHARE_MISSED = 0.8
"""Share of beta with which the groups of a rate miss, so that 1.3 times the noise misses too
often."""
DEVIATION = 2**0.5  # the variance is 2, in the middle of [1, 4)


def rates(kind: type[GroupVotes], truth: float, **fixed: Any) -> tuple[RateClaim, ...]:
    """Claim the number of groups that suffices for an answer within a factor of 4.

    Groups in proportion to ln(1 / (delta beta)) / epsilon give such an answer except with
    probability beta; the claims vary epsilon, delta, ln(1 / beta) and d. Each uses the fewest
    groups for which this may hold: all but a few groups name one bucket, which is withheld with
    probability 0.8 beta. truth: the estimated quantity, for columns of variance 2.
    """

    def made(setting: Mapping[str, Any], groups: int | None) -> GroupVotes:
        return kind(
            adjacency=Adjacency.ADD_REMOVE,
            noise_multiplier=1 / Fraction(setting["epsilon"]),
            noise="laplace",
            d=setting["d"],
            groups=groups,
            delta=Fraction(setting["delta"]),
            **fixed,
        )

    def make(setting: Mapping[str, Any]) -> GroupVotes:
        noise = parts_of(made(setting, None))[2]
        return made(setting, enough_groups(noise, SHARE_MISSED * math.exp(-setting["t"])))

    def rate(variable: str, values: tuple[Any, ...]) -> RateClaim:
        setting = {"n": 80_000, "d": 2, "t": 3.0, "epsilon": Fraction(1, 16), "delta": 0.01}
        return RateClaim(
            name=f"within-a-factor-of-4-against-{variable}",
            mechanism=make,
            variable=variable,
            values=values,
            setting={name: number for name, number in setting.items() if name != variable},
            instance=Instance(kind="gaussian", parameters={"mean": 50.0, "deviation": DEVIATION}),
            target=Empirical(lambda mechanism, data: truth),
            error=lambda estimate, true: factor_off(estimate.value, true),
            metric=Metric("misses", beyond=4.0),
            upper=Curve(function="allowed", arguments=("t",), margin=1.0),
            faults=(FEW_GROUPS,),
            shows_last=variable == "t",  # where misses are rare
            repeats=10_000,
            source="DJYZZ24, Lemmas 4.5 and 4.6: groups in proportion to log(1 / (delta beta)) "
            "/ epsilon",
        )

    return (
        rate("epsilon", tuple(Fraction(1, k) for k in (16, 8, 4))),
        rate("delta", (1e-6, 1e-4, 1e-2)),
        rate("t", (1.5, 2.25, 3.0)),
        rate("d", (2, 8, 32)),
    )
