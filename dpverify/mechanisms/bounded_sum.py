"""``bounded_sum``: the sum of one column between public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

from dpverify.estimation.answers import NoiseLaw, Result, tail_of, whole_deviation
from dpverify.estimation.handles import SUM
from dpverify.grid import ClampedSum, interval
from dpverify.grid.cells import floor_log2
from dpverify.plans import (
    Abstained,
    DiscreteLaplace,
    Mechanism,
    Noise,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import Cell, one_of
from dpverify.privacy import Domain
from dpverify.privacy.numbers import Exact, settle, to_float

_CELLS = 20  # a cell is at most 2^-20 of what one record can move


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class SumEstimate(Result):
    """A private sum in the data's unit, with the standard deviation of its (public) noise, of law
    ``noise``.

    ``value`` is unbiased for the sum of the clamped records, each rounded to a ``cell`` of the
    public grid.
    """

    value: float
    standard_deviation: float
    noise: NoiseLaw = field(default="laplace", repr=False)
    cell: float = field(default=0.0, repr=False)

    def interval(self, level: Exact = 0.95) -> tuple[float, float]:
        """Compute (low, high) that holds the sum of the clamped, rounded records, by the noise's
        exact tail.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail = tail_of(level)
        if not (math.isfinite(self.standard_deviation) and self.cell):
            return -math.inf, math.inf
        reach = whole_deviation(self.noise, self.standard_deviation / self.cell, tail) * self.cell
        return self.value - reach, self.value + reach


@dataclass(frozen=True, slots=True, kw_only=True)
class BoundedSum(Mechanism[SumEstimate]):
    """The sum of records clamped to public bounds, plus integer noise on a public grid.

    Data: one column, shape (n,) or (n, 1), in any unit. Output: ``SumEstimate``; never abstains:
    without records the sum is 0.
    Claim, proved, for both adjacencies: noise="laplace": PureDP(1 / noise_multiplier);
    "gaussian": GaussianDP(1 / noise_multiplier).
    lower, upper: public bounds, chosen without looking at the data; values beyond count as the
    bound. A record moves the sum by up to the larger of their magnitudes under add-remove, by
    their difference under replace.
    cell: the public grid's step, a power of two; by default at most 2^-20 of the largest change
    that a record makes.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: DMNS06, Section 3 (noise calibrated to sensitivity); DRS22 (Gaussian noise).
    """

    lower: float
    upper: float
    noise: Annotated[Literal["laplace", "gaussian"], one_of("laplace", "gaussian")] = "laplace"
    cell: Cell | None = None

    def check_parameters(self) -> None:
        """Check that the bounds are in order."""
        lower, upper = interval(self.lower, self.upper, "lower and upper")
        settle(self, lower=lower, upper=upper)

    def replacement(self) -> float:
        """Return the number between the bounds that is nearest to zero, so that a missing value
        adds least.
        """
        return min(max(self.lower, 0.0), self.upper)

    def plan(self) -> Plan:
        """Plan one stage: the sum about zero, with scale noise_multiplier times its sensitivity."""
        return (Stage(SUM, self._sum(), self._noise()),)

    def expected_error(self, n: int) -> float:
        """Return the noise's standard deviation, in the data's unit, whatever n is."""
        return self._units()[1]

    def estimate(self, transcript: Transcripts) -> SumEstimate | Abstained:
        """Return the released number of cells, in the data's unit."""
        cell, deviation = self._units()
        value = to_float(transcript.number(SUM) * cell)
        return SumEstimate(value, deviation, self.noise, to_float(cell))

    def _units(self) -> tuple[Fraction, float]:
        """Return the cell, and the noise's standard deviation in the data's unit."""
        stage = self._stage(SUM)  # made once, with the plan
        query: Any = stage.query
        return _in_unit(stage.noise, query.exponent)

    def _sum(self) -> ClampedSum:
        cell = self._cell()
        low, high = (round(Fraction(bound) / cell) for bound in (self.lower, self.upper))
        return ClampedSum(low, high, 0, floor_log2(cell))

    def _cell(self) -> Fraction:
        if self.cell is not None:
            return Fraction(2) ** floor_log2(self.cell)
        width = Fraction(self.upper) - Fraction(self.lower)
        return Fraction(2) ** (floor_log2(width) - _CELLS)

    def _scale(self) -> Fraction:
        moves = self._sum().sensitivity(self.adjacency, Domain(1)).conclusion.value
        return self.noise_multiplier * moves

    def _noise(self) -> DiscreteLaplace | RoundedGaussian:
        kind = DiscreteLaplace if self.noise == "laplace" else RoundedGaussian
        return kind(self._scale())


@lru_cache(maxsize=64)
def _in_unit(noise: Noise, exponent: int) -> tuple[Fraction, float]:
    """Return the cell 2^exponent, and the standard deviation of noise in cells, in the data's
    unit; a mechanism asks for them in each estimate.
    """
    cell, deviation = Fraction(2) ** exponent, noise.standard_deviation
    return cell, to_float(Fraction(deviation) * cell) if math.isfinite(deviation) else deviation
