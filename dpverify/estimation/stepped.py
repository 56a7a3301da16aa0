"""One parameter of a family of laws: a searched median, then the mean of a statistic in steps
of an interval about it.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Generic, Literal, TypeVar

import numpy as np

from dpverify.estimation.answers import Result
from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.handles import COUNT
from dpverify.estimation.whitening import octaves
from dpverify.grid import Count
from dpverify.grid.coordinates import SideCounts
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, different, rows_once
from dpverify.grid.steps import StepSums, moved_squared, number_of_records
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import (
    UNIT,
    Abstained,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import (
    MOST_LEAST,
    FewestReleased,
    Share,
    one_of,
    probability,
)
from dpverify.plans.search import Search
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, root_up, to_float

STATISTICS = Handle("statistics")
CELLS = 1 << 12
_NOISE = RoundedGaussian(UNIT)
_PER_MULTIPLIER = 60  # records under replace, from which on the search hardly ever misses
Found = TypeVar("Found", bound=Result, covariant=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class SteppedMean(Mechanism[Found], Generic[Found]):
    """Mean of a statistic in an interval that follows from a searched median; its subclasses
    define both.

    outside, search_share, at_least: see the subclasses.
    """

    outside: Annotated[Literal["clip", "mask"], one_of("clip", "mask")] = "clip"
    search_share: Share = Fraction(15, 100)
    at_least: FewestReleased = None

    @abstractmethod
    def search(self) -> Search:
        """Return the search for the median, of one number."""

    @abstractmethod
    def sides(self, middle: int) -> SideCounts:
        """Build the query of one step of the search."""

    @abstractmethod
    def edges_of(self, middle: int, octave: int) -> tuple[float, ...]:
        """Return the records between cells, by where the search ended and the quarter octave of
        the number; for masks the ends as well.
        """

    @abstractmethod
    def count_weight(self) -> int:
        """Return the weight of a record in the last release, in cells; none is needed where all
        count and their number is public.
        """

    @abstractmethod
    def reading(
        self, mean: float, middle: int, octave: int, count: float, inside: float
    ) -> Found | Abstained:
        """Read the parameter from the released mean, given from 0 to 1 in the interval, of so
        many records, and so many that count in it.
        """

    def plan(self) -> Plan:
        """Build the stages: the number, noisy under add-remove; the search for the median; the
        statistics between edges that these decide.
        """
        counts = Stage(COUNT, Count(), NoNoise())
        if self.counts():
            number = OneUnit(number_of_records(), self.count_scale())
            counts = Stage(COUNT, number, _NOISE)
        search = self.search()
        reads = (COUNT, *map(search.stage, range(search.steps)))
        query = self.step_query(Released(reads, self.edges))
        last = Stage(STATISTICS, OneUnit(query, self.scale()), _NOISE)
        return (counts, *search.elements(self._side_query, _NOISE), last)

    def step_query(self, edges: Released[tuple[Floats, Integers]]) -> StepSums:
        """Build the query of the last release."""
        return StepSums(cells=CELLS, edges=edges, outside=self.outside, weight=self.count_weight())

    def estimate(self, transcript: Transcripts) -> Found | Abstained:
        """Return the parameter for which the family has the released mean."""
        count = float(self._numbers(transcript)[0])
        if not count >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the released count")
        per = self.scale() / UNIT
        total = float(in_units(transcript[STATISTICS][:, :1], per)[0, 0])
        inside = count
        if self.count_weight():
            own = in_units(transcript[STATISTICS][:, 1:], per / self.count_weight())
            inside = float(own[0, 0])
        if not inside >= self.least() / 8:
            return Abstained("too few records lie where the interval is")
        middle, octave = self._frame(transcript)[0].tolist()
        return self.reading((1 + total / inside / CELLS) / 2, middle, octave, count, inside)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n such that the released number of n records is below ``at_least``
        with probability at most ``beta``.
        """
        allowed = probability(beta, "beta")
        if not self.counts():
            return self.least()
        per = UNIT / self.count_scale()
        return least_counted(self.least(), per, lambda k: _NOISE.falls_short(k, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least`` under replace, where it is decided on the public number of
        records; else 0.
        """
        return 0 if self.counts() else self.least()

    def counts(self) -> bool:
        """Return whether the number of records is private."""
        return self.adjacency is Adjacency.ADD_REMOVE

    def least(self) -> int:
        """Return the number of records below which the mechanism abstains."""
        if self.at_least is not None:
            return self.at_least
        times = _PER_MULTIPLIER // (2 if self.counts() else 1)
        return min(max(1, math.ceil(times * self.noise_multiplier)), MOST_LEAST)

    # --- noise ----------------------------------------------------------------------------------

    def shares(self) -> tuple[Fraction, Fraction, Fraction]:
        """Return the shares of mu^2: the number, a fifth of the search's; the search; the rest."""
        number = self.search_share / 5 if self.counts() else Fraction(0)
        return number, self.search_share, 1 - self.search_share - number

    def count_scale(self) -> Fraction:
        """Return the noise of the number, in records."""
        return self.noise_multiplier * root_up(1 / self.shares()[0], ROOT_BITS)

    def scale(self) -> Fraction:
        """Return the noise of the last release, in steps."""
        moved = moved_squared(CELLS, self.count_weight(), self.outside, self.adjacency)
        return self.noise_multiplier * root_up(moved / self.shares()[2], ROOT_BITS)

    def noise_at(self, mean: float) -> float:
        """Return the deviation of the noise in the sum of statistics over the interval, with
        that of their number.
        """
        one = min(to_float(self.scale()), 1e150) / CELLS / 2
        other = one * 2 * CELLS / self.count_weight() if self.count_weight() else 0.0
        return math.hypot(one, other * abs(mean - 0.5))

    # --- the search, and the edges that follow ---------------------------------------------------

    def _side_query(self, row: Row) -> OneUnit:
        square = (1 if self.counts() else 4) * self.search().steps / self.shares()[1]
        scale = self.noise_multiplier * root_up(square, ROOT_BITS)
        return OneUnit(self.sides(self.search().middles(row)[0]), scale)

    def _numbers(self, before: Transcripts) -> Floats:
        """Return the number of records, public or released, shape (size,)."""
        per = self.count_scale() / UNIT if self.counts() else Fraction(1)
        return in_units(before[COUNT][:, 0], per)

    def _frame(self, before: Transcripts) -> Integers:
        """Return where the search ended, and the quarter octave of the number, shape (size, 2)."""
        search = self.search()
        nodes, which = different(search.nodes(search.steps)(before)[:, 0])
        middles = np.array(search.middles(nodes.tolist()), np.int64)[which]
        known = octaves(np.clip(self._numbers(before), self.least(), 1e18))
        return np.stack([middles, known], axis=1)

    def edges(self, before: Transcripts) -> tuple[Floats, Integers]:
        """Return rows of edges of steps, and which of them each draw has."""
        frames, which = rows_once(self._frame(before))
        rows = [self.edges_of(middle, octave) for middle, octave in frames.tolist()]
        return np.array(rows), which
