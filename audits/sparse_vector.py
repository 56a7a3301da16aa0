"""Attacks on ``sparse_vector``.

The worst pairs have queries that rise and are not reported, followed by queries that fall and
are reported: the answers "below" let the threshold's noise shift, and the report pays twice.
Under add/remove nothing falls while something rises; there the report is on a query that stays.

At scales 2 / epsilon and 4 / epsilon it is no fault to keep the threshold's noise after a
report: c reports lose (c + 1) / 2 epsilon, less than c epsilon. It is one where reports have no
limit.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from dpverify import Adjacency, NextQuery, PureDP, SparseVector
from dpverify.audit import Configuration, Fault, NeighboringPair, SmallInstance, added, replaced
from dpverify.grid import Count, ingest
from dpverify.plans import AboveThreshold, DiscreteLaplace, Plan, stages_of
from dpverify.plans.above_threshold import log_sides
from dpverify.plans.faulty import FaultyLaw
from dpverify.plans.noise import LogProbabilities
from dpverify.plans.walking import with_stages
from dpverify.randomness import Bits
from dpverify.randomness.bits import IntArray
from dpverify.rates import Curve, Empirical, Exponent, Instance, RateClaim

_ADD, _REPLACE = Adjacency.ADD_REMOVE, Adjacency.REPLACE
_NONE = Fraction(1, 2**10)  # a scale at which noise is 0


class _CountBeside(AboveThreshold):
    """A test that releases the noisy answer that reached the threshold beside its index (0 if
    none did)."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw indices and noisy answers, shape (size, 2)."""
        answers = center[self.start :]
        levels = self.threshold + DiscreteLaplace(self.scale).draw(bits, size)
        noise = DiscreteLaplace(self.query_scale).draw(bits, size * len(answers))
        noisy = noise.reshape(size, -1) + answers
        above = np.column_stack([noisy >= levels[:, np.newaxis], np.ones(size, np.bool_)])
        place = above.argmax(axis=1)
        values = np.column_stack([noisy, np.zeros(size, np.int64)])[np.arange(size), place]
        return np.column_stack([place + self.start, values])

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Sum over the threshold's noise, which is at most v - threshold given the released
        value v."""
        values, log_level, gaps, rate = self.round_of(center).levels()
        below, _ = log_sides(gaps + values[:, np.newaxis], rate)
        before = np.cumsum(np.column_stack([np.zeros(len(values)), below]), axis=1)
        up_to = np.logaddexp.accumulate(before + log_level[:, np.newaxis], axis=0)
        place, released = outputs[:, 0] - self.start, outputs[:, 1]
        level = np.clip(released - self.threshold - int(values[0]), 0, len(values) - 1)
        none = place == len(gaps)
        level[none] = len(values) - 1
        distance = np.abs(released - np.append(center[self.start :], 0)[place])
        own = np.where(none, 0.0, np.log(np.tanh(rate / 2)) - rate * distance)
        log_masses: LogProbabilities = up_to[level.astype(np.intp), place.astype(np.intp)] + own
        return log_masses


class _OneThreshold(AboveThreshold):
    """A test that answers every query against one noisy threshold, however many are above it."""

    __slots__ = ()

    def sample(self, bits: Bits, center: IntArray, size: int) -> IntArray:
        """Draw answers 0 and 1, shape (size, queries)."""
        levels = self.threshold + DiscreteLaplace(self.scale).draw(bits, size)
        noise = DiscreteLaplace(self.query_scale).draw(bits, size * len(center))
        return (noise.reshape(size, -1) + center >= levels[:, np.newaxis]).astype(np.int64)

    def log_probability(self, outputs: IntArray, center: IntArray) -> LogProbabilities:
        """Sum over the levels of the threshold's noise, once for each combination of answers."""
        values, log_level, gaps, rate = self.round_of(center).levels()
        below, above = log_sides(gaps + values[:, np.newaxis], rate)
        _, first, which = np.unique(
            outputs @ (1 << np.arange(len(gaps))), return_index=True, return_inverse=True
        )
        distinct = outputs[first]
        each = distinct @ above.T + (1 - distinct) @ below.T + log_level
        log_masses: LogProbabilities = np.logaddexp.reduce(each, axis=1)[which]
        return log_masses


def _faults(mechanism: SparseVector) -> list[Fault]:
    """Plant faults: missing noise, additional releases, and a missing limit of reports."""
    first = stages_of(mechanism.fixed_plan)[0]
    noise = first.noise
    assert isinstance(noise, AboveThreshold)

    def planted(name: str, plan: Plan) -> Fault:
        def law(data: Any) -> FaultyLaw:
            records = ingest(data, mechanism.domain)
            return FaultyLaw(plan, records, mechanism.adjacency, mechanism.domain)

        return Fault(name, law)

    def everywhere(name: str, kind: type[AboveThreshold] = AboveThreshold, **changed: Any) -> Fault:
        def change(stage: Any) -> Any:
            given = {f.name: getattr(stage.noise, f.name) for f in dataclasses.fields(noise)}
            return dataclasses.replace(stage, noise=kind(**given | changed))

        return planted(name, with_stages(mechanism.fixed_plan, change))

    one = dataclasses.replace(
        first, noise=_OneThreshold(noise.threshold, noise.scale, noise.query_scale)
    )
    faults = [
        everywhere("the noisy count is released", _CountBeside),
        planted("one threshold for all reports, without limit", (one,)),
    ]
    if mechanism.reports == 1:
        more = dataclasses.replace(mechanism, reports=3, budget=None)
        half = noise.query_scale / 2
        faults += [
            everywhere("queries without noise", query_scale=_NONE),
            everywhere("a threshold without noise", scale=_NONE),
            everywhere("noise on queries as if all moved one way", query_scale=half),
            planted("it goes on after the last report", more.fixed_plan),
        ]
    return faults


def _configuration(
    name: str, mechanism: SparseVector, pairs: Sequence[NeighboringPair]
) -> Configuration:
    return Configuration(name=name, mechanism=mechanism, pairs=pairs, faults=_faults(mechanism))


def _low(number: int) -> tuple[Count, ...]:
    return tuple(Count(within=(0.0, 10.0 + i)) for i in range(number))


def _high(number: int) -> tuple[Count, ...]:
    return tuple(Count(within=(50.0, 60.0 + i)) for i in range(number))


def _next(answers: tuple[bool, ...]) -> Count:
    """Choose the next query: four counts of small records, then one of large ones; again; then
    counts of large ones.

    The interval's width follows from the reports so far.
    """
    place, reports = len(answers), sum(answers)
    if place % 5 == 4 or place >= 10:
        return Count(within=(50.0, 60.0 + reports))
    return Count(within=(0.0 - reports, 10.0 + place))


_THRESHOLD = 13
_BASE = [5.0, 55.0] * 12 + [55.0]  # one small record fewer than the threshold, as many large ones

CONFIGURATIONS: Sequence[Configuration] = (
    _configuration(
        "one-report",
        SparseVector.for_budget(
            PureDP(3), adjacency=_REPLACE, queries=_low(5) + _high(9), threshold=_THRESHOLD
        ),
        (
            replaced("five rise, nine fall", _BASE, 5.0, at=1),
            replaced("nine rise, five fall", [*_BASE, 5.0], 55.0, at=0),
        ),
    ),
    _configuration(
        "chosen-by-answers",
        SparseVector.for_budget(
            PureDP(5), adjacency=_ADD, queries=NextQuery(_next, 14), threshold=_THRESHOLD, reports=2
        ),
        (
            added("small ones rise, large ones stay", _BASE, 5.0),
            added("nobody against somebody", [], 5.0),
        ),
    ),
)

_QUARTER: dict[str, Any] = {"noise_multiplier": Fraction(1, 4), "threshold": 2}

SMALL = (
    SmallInstance(
        name="one report of three, replace",
        mechanism=SparseVector(adjacency=_REPLACE, queries=_low(2) + _high(1), **_QUARTER),
        data=(5.0, 5.0, 5.0, 11.0, 55.0),
    ),
    SmallInstance(
        name="two reports of four, add-remove",
        mechanism=SparseVector(
            adjacency=_ADD, queries=_low(2) + _high(2), reports=2, by_range=True, **_QUARTER
        ),
        data=(5.0, 10.5, 60.5),
    ),
    SmallInstance(
        name="two reports, chosen by the answers",
        mechanism=SparseVector(adjacency=_ADD, queries=NextQuery(_next, 6), reports=2, **_QUARTER),
        data=(5.0, -0.5, 55.0, 55.0, 55.0),
    ),
)


_LONG = 30
_COUNTS = tuple(Count(within=(0.0, float(i + 1))) for i in range(_LONG))


def _reader(setting: Mapping[str, Any]) -> SparseVector:
    return SparseVector(
        adjacency=setting["adjacency"],
        noise_multiplier=1 / Fraction(setting["epsilon"]),
        queries=_COUNTS,
        threshold=setting["n"] // 2,
    )


def _off(estimate: Any, counts: Any) -> float:
    """Return the distance of the reported count from the threshold; without a report, of the
    largest count."""
    return float(abs(counts[estimate.above[0] if estimate.above else -1] - counts[-1] // 2))


def _rate(
    name: str,
    variable: str,
    values: tuple[str, ...],
    setting: Mapping[str, Any],
    exponent: Exponent | None = None,
) -> RateClaim:
    return RateClaim(
        name=name,
        mechanism=_reader,
        variable=variable,
        values=tuple(int(v) if variable == "n" else Fraction(v) for v in values),
        setting=setting,
        exponent=exponent,
        instance=Instance(kind="evenly", parameters={"low": 0.0, "high": float(_LONG)}),
        target=Empirical(lambda mechanism, data: np.arange(1, _LONG + 1) * (len(data) // _LONG)),
        error=_off,
        curve=Curve(function="expected_error", arguments=("parameters", "records")),
        shows_last=True,
        repeats=4000,
        source="DR14, Theorem 3.24: a count that is reported is near the threshold",
    )


_BUDGETS = ("1/2", "1", "2", "4")
RATES = (
    _rate(
        "error-against-epsilon",
        "epsilon",
        _BUDGETS,
        {"n": _LONG, "adjacency": _ADD},
        Exponent(value=-1, tolerance=0.2),  # of errors of a few records, which are whole
    ),
    _rate("error-under-replace", "epsilon", _BUDGETS, {"n": _LONG, "adjacency": _REPLACE}),
    _rate("error-against-n", "n", ("30", "60", "120"), {"epsilon": 1, "adjacency": _ADD}),
)
