"""Pairs, planted faults and rates of mechanisms in which groups of records vote."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpverify import Adjacency, KthLargestVariance, NumberOfReports, SumOfVariances
from dpverify.audit import Configuration, Fault, NeighboringPair, added, replaced
from dpverify.grid import View, ingest
from dpverify.grid.groups import GroupBuckets, ReportsWorth
from dpverify.grid.records import Records
from dpverify.grid.transcripts import transcript
from dpverify.plans import Law, Stage, ThresholdedGaussian, ThresholdedLaplace
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

GroupVotes = KthLargestVariance | SumOfVariances | NumberOfReports
Rows = list[list[float]]
_FAR = float(3 * 2**17)  # a near and a far record have a variance of 1.1 times 2^36
_CANDIDATES = 6000
_RECORDS_A_GROUP = 20
"""In rates."""


def parts_of(mechanism: GroupVotes) -> tuple[Stage, GroupBuckets, Any]:
    """The only stage, its query and its noise."""
    (stage,) = mechanism.fixed_plan
    assert isinstance(stage, Stage)
    query, noise = stage.query, stage.noise
    assert isinstance(query, GroupBuckets)
    assert isinstance(noise, (ThresholdedLaplace, ThresholdedGaussian))
    return stage, query, noise


# --- pairs --------------------------------------------------------------------------------------


class Crafted:
    """Records that are put into groups on purpose: the hash is public.

    near, far: by group, records about 0 and about 3 2^17.
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
        """A near record in each of the last groups; beside it a far one in ``spread`` of them."""
        last = range(self.query.groups - alone - spread, self.query.groups)
        rows = [self.near[group][0] for group in last]
        return rows + [self.far[group][0] for group in last[alone:]]

    def twin(self) -> tuple[int, Rows]:
        """A group that holds a near record twice and a far one, with a statistic of zero."""
        for group, near in enumerate(self.near):
            far = self.far[group][-1]  # candidates are in their order in the group
            for row in near:
                rows = [row, row, far]
                if self.query.members(np.array(rows))[group].tolist()[2:] == [2]:
                    return group, rows
        raise ValueError("no near record is twice in a group; take more candidates.")


def _rows(query: GroupBuckets, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Records of these numbers in all columns; where numbers of reports are voted for, 0 in the last, so that
    two reports are worth it where there is any variance, and one where there is none."""
    rows = np.repeat(values[:, np.newaxis], query.columns, axis=1)
    if isinstance(query.statistic, ReportsWorth):
        rows[:, -1] = 0.0
    return rows


def pairs_added(mechanism: GroupVotes | GroupBuckets) -> tuple[NeighboringPair, ...]:
    """A group moves, between large buckets or to a new one; equal records stand next to each other."""
    crafted = Crafted(mechanism)
    m = crafted.query.groups
    side_by_side = _rows(crafted.query, np.array([0.0, 0.0, 1.0, 1.0] * (m // 2))).tolist()
    return (
        added("a group moves", crafted.groups(m // 2, m // 2), crafted.far[m - m // 2 * 2][0]),
        added("a bucket appears", crafted.groups(m, 0), crafted.far[0][0]),
        added("equal records in pairs", side_by_side, side_by_side[0]),
    )


def pairs_replaced(mechanism: GroupVotes | GroupBuckets) -> tuple[NeighboringPair, ...]:
    """Two groups move alike, between large buckets or to a new one."""
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
    """The first two records are a group, the next two another."""

    def members(self, records: Records) -> list[NDArray[np.intp]]:
        """Beyond the last group the first is next."""
        labels = np.arange(len(records)) // 2 % self.groups
        return [np.flatnonzero(labels == group) for group in range(self.groups)]


def _faults(mechanism: GroupVotes) -> list[Fault]:
    """The mechanism's own: on the threshold, and on what decides a record's group."""
    stage, query, noise = parts_of(mechanism)
    fields = [getattr(query, field.name) for field in dataclasses.fields(query)]

    def planted(name: str, **changed: Any) -> Fault:
        plan = (dataclasses.replace(stage, **changed),)

        def law(data: ArrayLike) -> Law:
            records = ingest(data, mechanism.domain)
            return Law(plan, records, mechanism.adjacency, mechanism.domain)

        return Fault(f"votes: {name}", law)

    lower = type(noise)(noise.scale, noise.threshold - 1)
    found = [planted("a threshold for > used with >=", noise=lower)]
    if mechanism.adjacency is Adjacency.ADD_REMOVE:
        found.append(planted("groups by index", query=GroupsByIndex(*fields)))
    return found


def configuration(name: str, mechanism: GroupVotes) -> Configuration:
    """With the pairs of its adjacency and its own faults."""
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


def _votes(mechanism: GroupVotes, data: Any) -> dict[float, int]:
    """The exact numbers of groups, by the names that an estimate gives to buckets."""
    _, query, _ = parts_of(mechanism)
    table = query.evaluate(View(ingest(data, mechanism.domain)))
    shown = mechanism.estimate(transcript({"votes": tuple(table.ravel().tolist())}))
    found: dict[float, int] = dict(getattr(shown, "votes", {}))
    return found


def _of_the_fullest(estimate: Any, votes: dict[float, int]) -> float:
    """Of its vote count, over the number of records; what is withheld counts as 0."""
    fullest = max(votes, key=votes.__getitem__)
    seen = getattr(estimate, "votes", {}).get(fullest, 0)
    return float(abs(seen - votes[fullest]) / (_RECORDS_A_GROUP * sum(votes.values())))


def rates(kind: type[GroupVotes], **fixed: Any) -> tuple[RateClaim, ...]:
    """The noise of the fullest bucket's votes over the number of records; against that and epsilon.

    There are as many groups as records allow: a public 20th of them.
    """
    curve = Curve(function="expected_error", arguments=("parameters",), per="n")
    normal = Instance(kind="gaussian", parameters={"mean": 50.0, "deviation": 1.4})

    def make(setting: Mapping[str, Any]) -> GroupVotes:
        return kind(
            adjacency=Adjacency.ADD_REMOVE,
            noise_multiplier=1 / Fraction(setting["epsilon"]),
            noise="laplace",
            d=setting["d"],
            groups=setting["n"] // _RECORDS_A_GROUP,
            delta=Fraction(1, 100),
            **fixed,
        )

    def rate(name: str, variable: str, values: tuple[Any, ...], **setting: Any) -> RateClaim:
        return RateClaim(
            name=name,
            mechanism=make,
            variable=variable,
            values=values,
            setting={"d": 2, **setting},
            instance=normal,
            target=Empirical(_votes),
            error=_of_the_fullest,
            exponent=Exponent(value=-1, tolerance=0.1),
            curve=curve,
            repeats=6000,
            source="DJYZZ24, Algorithm 5: the noise of the votes",
        )

    half = Fraction(1, 2)
    return (
        rate("error-against-n", "n", (2400, 4800, 9600), epsilon=half),
        rate("error-against-epsilon", "epsilon", (half / 2, half, 2 * half), n=4000),
    )
