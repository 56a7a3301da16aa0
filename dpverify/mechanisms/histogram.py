"""``histogram``: the number of records in each public bin, released together."""

from __future__ import annotations

from dataclasses import dataclass
from math import isqrt, prod
from typing import Annotated, Any, Literal

import numpy as np

from dpverify.estimation.answers import NoiseLaw
from dpverify.estimation.bin_estimates import BinsEstimate
from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.range_strategies import MOST_CIRCULANT, Kind, strategies_of
from dpverify.grid.bin_counts import BinCounts, axes_of, outside_of
from dpverify.plans import (
    Abstained,
    DiscreteLaplace,
    Handle,
    Mechanism,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import one_of
from dpverify.privacy import Adjacency, Domain, Norm
from dpverify.privacy.numbers import root_up

COUNTS = Handle("counts")


@dataclass(frozen=True, slots=True, kw_only=True)
class Histogram(Mechanism[BinsEstimate]):
    """The numbers of records in public bins of one column or of several, as one vector with
    noise.

    Data: shape (n, number of axes). Output: ``BinsEstimate``; never abstains.
    Claim, proved, for both adjacencies and all data: noise="laplace":
    PureDP(1 / noise_multiplier); "gaussian": GaussianDP(1 / noise_multiplier), up to 2^-40 of the
    noise. A replaced record moves two counts by one each, which costs mu^2 twice, not four times.
    axes: for each column, either k for the categories 0, ..., k - 1, or edges e_0 < ... < e_m of
    the bins e_i <= x < e_(i + 1), of which the last includes e_m. A record is in one bin of each
    axis, or outside.
    outside: "drop" leaves records outside out of the answer; "count" releases their number, too.
    strategy: "identity" releases the counts. For ranges of bins of an axis with edges, "tree"
    releases sums of blocks of blocks, and "circulant" (Gaussian noise alone) the product with the
    circulant matrix of least mean variance over all ranges. Axes of categories, which have no
    order, are released as they are.
    Errors: TypeError or ValueError for parameters and for data that are no real columns.
    Source: DMNS06, Section 3 (histograms); DRS22 (Gaussian noise); HRMS10 (trees); LMHMR15 (the
    matrix mechanism); the circulant matrix and the rules of choice are OURS.
    """

    axes: Annotated[Any, axes_of]
    outside: Annotated[Literal["drop", "count"], one_of("drop", "count")] = "drop"
    strategy: Annotated[Kind, one_of("identity", "tree", "circulant")] = "identity"
    noise: Annotated[NoiseLaw, one_of("laplace", "gaussian")] = "laplace"

    def check_parameters(self) -> None:
        """Refuse edges that hold every number, and a strategy that no axis or noise of this
        histogram suits.
        """
        for axis in self.axes:
            outside_of(axis)
        if self.strategy != "identity" and all(isinstance(axis, int) for axis in self.axes):
            raise ValueError(
                f"strategy = {self.strategy!r} is for ranges, and categories have no order; give "
                "edges for some axis, or leave strategy out."
            )
        if self.strategy == "circulant" and self.noise == "laplace":
            raise ValueError(
                "strategy = 'circulant' has no advantage under Laplace noise; take strategy='tree' "
                "or noise='gaussian'."
            )
        ordered = sum(not isinstance(axis, int) for axis in self.axes)
        if self.strategy == "circulant" and ordered > MOST_CIRCULANT:
            raise ValueError(
                f"strategy = 'circulant' of {ordered} axes with edges; it is for at most "
                f"{MOST_CIRCULANT}, take strategy='tree'."
            )

    def columns(self) -> int:
        """Return the number of axes, of one column each."""
        return len(self.axes)

    def replacement(self) -> tuple[float, ...]:
        """Return a record in no bin, so that a missing one is not counted."""
        return tuple(outside_of(axis) for axis in self.axes)

    def plan(self) -> Plan:
        """Plan one stage: the counts after the public matrices, with scale noise_multiplier times
        the sensitivity.
        """
        return (Stage(COUNTS, self._counts(), self._noise()),)

    def expected_error(self, n: int) -> float:
        """Return the root of the expected squared noise of all counts together, in records,
        whatever n is.
        """
        return float(np.linalg.norm(self._answer((0,) * self._counts().width).standard_deviation))

    def estimate(self, transcript: Transcripts) -> BinsEstimate | Abstained:
        """Return the released integers, and all that follows from them."""
        return self._answer(transcript.numbers(COUNTS))

    def _answer(self, released: tuple[int, ...]) -> BinsEstimate:
        deviation = self._noise().standard_deviation
        own = self.strategy, deviation, self.noise, self._counts().other
        return BinsEstimate(released, self.axes, *own)

    def _norm(self) -> Norm:
        return Norm.L1 if self.noise == "laplace" else Norm.SQUARED_L2

    def _counts(self) -> BinCounts:
        strategies, norm = strategies_of(self.axes, self.strategy, self.noise), self._norm()
        other = 0
        if self.outside == "count":  # the largest weight that costs nothing beside the bins
            free = prod(one.column(norm) for one in strategies)
            if self.adjacency is Adjacency.REPLACE:
                free -= 2 * prod(one.shared(norm) for one in strategies)
            other = max(1, free if norm is Norm.L1 else isqrt(max(1, free)))
        return BinCounts(self.axes, strategies, norm, other)

    def _noise(self) -> DiscreteLaplace | RoundedGaussian:
        domain = Domain(len(self.axes))
        moved = self._counts().sensitivity(self.adjacency, domain).conclusion.value
        if self.noise == "laplace":
            return DiscreteLaplace(self.noise_multiplier * moved)
        return RoundedGaussian(self.noise_multiplier * root_up(moved, ROOT_BITS))
