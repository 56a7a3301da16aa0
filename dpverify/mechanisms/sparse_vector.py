"""``sparse_vector``: the queries that reach a threshold, of many, at a cost for those alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated, Any, Self

import numpy as np

from dpverify.estimation.answers import Result, tail_of
from dpverify.grid import Query
from dpverify.grid.masks import Row
from dpverify.grid.stacked import Stacked
from dpverify.plans import (
    AboveThreshold,
    Abstained,
    DiscreteLaplace,
    Handle,
    Mechanism,
    Plan,
    Released,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import check_names
from dpverify.plans.search import Prefix
from dpverify.privacy import Adjacency, Domain, GaussianDP, Guarantee, Norm, ZeroConcentratedDP
from dpverify.privacy.numbers import Exact, whole
from dpverify.randomness.bits import IntArray


@dataclass(frozen=True, slots=True)
class NextQuery:
    """Queries that are chosen as the answers come in.

    after: a public function from the answers so far (True: reported) to the next query; it must
    not look at the data. most: the largest number of queries.
    """

    after: Callable[[tuple[bool, ...]], Query]
    most: int

    def __post_init__(self) -> None:
        if not callable(self.after):
            raise TypeError(f"after = {self.after!r}; give a function from answers to a query.")
        if whole(self.most, "most") < 1:
            raise ValueError(f"most = {self.most}; at least one query is asked.")

    def asked(self, reports: tuple[int, ...]) -> tuple[Query, ...]:
        """List all queries that are asked where these are reported and no other one is."""
        answers = tuple(i in reports for i in range(self.most))
        return tuple(self.after(answers[:i]) for i in range(self.most))

    def __str__(self) -> str:
        return f"{getattr(self.after, '__name__', 'a function')}, at most {self.most} times"


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SparseEstimate(Result):
    """The queries that were reported as above the threshold, by their places in the list, in
    order.

    answered: number of queries that have an answer; those of them that are not reported are
    below.
    """

    above: tuple[int, ...]
    answered: int

    @property
    def value(self) -> tuple[int, ...]:
        """Return ``above``."""
        return self.above

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: places have no noise, and the distances of the queries' answers from the
        threshold are not released.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail_of(level)


def _listed(value: Any, name: str) -> tuple[Query, ...] | NextQuery:
    """Read queries as a tuple, unless they follow from answers."""
    if isinstance(value, NextQuery):
        return value
    if isinstance(value, Query) or not hasattr(value, "__iter__"):
        raise TypeError(
            f"{name} = {value!r}; give a tuple of queries, or NextQuery(function, most)."
        )
    return tuple(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparseVector(Mechanism[SparseEstimate]):
    """The first ``reports`` of a list of integer queries that reach a public threshold, about.

    One round a report: it finds the first query, from the last report on, with
    query + Y >= threshold + Z, for one Z of scale 2 noise_multiplier and for each query a Y of
    twice that. Counts under add-remove all move one way, and the scale of Y is that of Z. Where a
    query moves by D, scales are D times as large. Of N queries, except with probability beta, all
    are on the right side but those within about 6 noise_multiplier ln(2 N / beta) of the
    threshold.

    Data: one column, shape (n,) or (n, 1). Output: ``SparseEstimate``; never abstains.
    Claim: each report is as private as an integer that moves by 2 under discrete Laplace noise of
    scale 2 noise_multiplier, so (1 / noise_multiplier)-DP and better; queries that are not
    reported are free.
    queries: a tuple of queries of one number each, or ``NextQuery``, whose queries must not move
    further than those it asks while nothing is reported.
    threshold: an integer.
    reports: the mechanism stops after this number of reports.
    by_range: for counts under add-remove, claim a bounded range of 3 / (2 noise_multiplier) for
    each report instead; ``for_budget`` takes what needs less noise.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: DR14, Section 3.6 (AboveThreshold, Sparse); the claim of a report is OURS.
    """

    queries: Annotated[tuple[Query, ...] | NextQuery, _listed]
    threshold: Annotated[int, whole]
    reports: int = 1
    by_range: bool = False

    def check_parameters(self) -> None:
        """Check that each query has one number, and that there are no more reports than queries."""
        self._stacked(())  # refuses queries that do not answer with one number
        if not isinstance(self.by_range, bool):
            raise TypeError(f"by_range = {self.by_range!r}; write True or False.")
        if not 1 <= whole(self.reports, "reports") <= self.asked:
            raise ValueError(
                f"reports = {self.reports} of {self.asked} queries; give a number from 1 to "
                f"{self.asked}."
            )

    @property
    def asked(self) -> int:
        """Return the largest number of queries."""
        return self.queries.most if isinstance(self.queries, NextQuery) else len(self.queries)

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Calibrate as ``Mechanism`` does; unless by_range is given, choose it where it surely
        needs less noise.
        """
        calibrated = partial(super(SparseVector, cls).calibrated_for, budget, adjacency=adjacency)
        gaussian = isinstance(budget, GaussianDP)  # ranges add up to little GDP too
        ranged = None
        if gaussian and "by_range" not in parameters:
            check_names(cls, parameters)
            base = cls(adjacency=adjacency, noise_multiplier=Fraction(1), **parameters)
            if base.reports > 1 and base.one_way:
                ranged = calibrated(**parameters, by_range=True)
                same = replace(base, noise_multiplier=ranged.noise_multiplier)
                if not same.composed.implies(budget):  # one question in place of fifty
                    return ranged
        plain = calibrated(**parameters)
        if "by_range" in parameters or plain.reports == 1 or not plain.one_way:
            return plain
        rho = plain.reports * Fraction(9, 32) / plain.noise_multiplier**2
        # The ranges imply rho-zCDP.
        if not gaussian and not ZeroConcentratedDP(rho).implies(budget):
            return plain
        ranged = ranged or calibrated(**parameters, by_range=True)
        return ranged if ranged.noise_multiplier < plain.noise_multiplier else plain

    @property
    def one_way(self) -> bool:
        """Tell whether all queries surely move the same way between neighbors."""
        shown = self._stacked(()).sensitivity(self.adjacency, Domain(1)).conclusion
        return shown.norm is Norm.ONE_WAY

    def plan(self) -> Plan:
        """Plan one stage a report, each from where the one before it stopped."""
        return tuple(self._places(i).part(self._stage_after(i)) for i in range(self.reports))

    def estimate(self, transcript: Transcripts) -> SparseEstimate | Abstained:
        """Return the reported queries' places, and how far the list was read."""
        places = [transcript.number(_name(i)) for i in range(self.reports)]
        above = tuple(place for place in places if place < self.asked)
        answered = above[-1] + 1 if len(above) == self.reports else self.asked
        return SparseEstimate(above, answered)

    def expected_error(self, n: int) -> float:
        """Predict the error of one comparison with the threshold, in the unit of the queries,
        whatever n is.
        """
        noise = self._noise()(0)
        scales = noise.scale, noise.query_scale
        return math.hypot(*(DiscreteLaplace(scale).standard_deviation for scale in scales))

    def _places(self, reports: int) -> Prefix:
        """Return the places of the earlier reports that matter for a round; 0 before any is
        known.
        """
        names = [_name(i) for i in range(reports)]
        if not isinstance(self.queries, NextQuery):
            names = names[-1:]

        def reported(before: Transcripts) -> IntArray:
            return np.concatenate([before[name] for name in names], axis=1)

        start = Prefix()
        return start.also(Released(tuple(names), reported), [0] * len(names)) if names else start

    def _stage_after(self, reports: int) -> Callable[[Row], Stage]:
        noise = self._noise()

        def build(before: Row) -> Stage:
            begin = min(before[-1] + 1, self.asked) if before else 0
            return Stage(_name(reports), self._stacked(before), noise(begin))

        return build

    def _noise(self) -> Callable[[int], AboveThreshold]:
        shown = self._stacked(()).sensitivity(self.adjacency, Domain(1)).conclusion
        scale = 2 * self.noise_multiplier * max(shown.value, Fraction(1))
        own = scale if shown.norm is Norm.ONE_WAY else 2 * scale
        return lambda start: AboveThreshold(self.threshold, scale, own, start, self.by_range)

    def _stacked(self, reports: tuple[int, ...]) -> Stacked:
        queries = self.queries
        return Stacked(queries.asked(reports) if isinstance(queries, NextQuery) else queries)


def _name(report: int) -> Handle:
    return Handle(f"report {report + 1}")
