"""``private_quantile``: a quantile of one column between public bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any

from dpverify.estimation.answers import Result, tail_of
from dpverify.grid import interval
from dpverify.grid.cells import floor_log2
from dpverify.grid.tables import QuantileScores
from dpverify.plans import Abstained, Handle, Mechanism, Plan, QuantileChoice, Stage, Transcripts
from dpverify.plans.parameters import Cell, Rational
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, as_written, settle, to_float

CELL = Handle("cell")
_CELLS = 20  # the interval has at least 2^20 cells
_LONGEST = 1 << 20


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class QuantileEstimate(Result):
    """A private quantile. ``value`` is in the data's units and lies between the bounds."""

    value: float

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: how far in value a rank is off depends on the density of the private
        records.

        The error in ranks is known beforehand: ``PrivateQuantile.expected_error``. Raises
        TypeError or ValueError for a level outside (0, 1).
        """
        tail_of(level)


def _quantile(value: Any, name: str) -> Fraction:
    """Read a rational in [0, 1] of moderate denominator."""
    quantile = as_written(value, name)
    if not 0 <= quantile <= 1:
        raise ValueError(
            f"{name} = {value} is outside [0, 1]; give the share of the records that lie below, "
            "0.95 for 95%."
        )
    if quantile.denominator > _LONGEST:
        raise ValueError(
            f"{name} = {value} has the denominator {quantile.denominator}, beyond 2^20; "
            "write a simpler fraction, for example '9/10'."
        )
    return quantile


@dataclass(frozen=True, slots=True, kw_only=True)
class PrivateQuantile(Mechanism[QuantileEstimate]):
    """A quantile by the exponential mechanism over a public grid of cells, exactly.

    Data: one column, shape (n,) or (n, 1), in any unit; values beyond the bounds count as the
    bound. Output: ``QuantileEstimate``; never abstains: for n = 0 it is uniform on the grid.
    Claim: bounded range 1 / noise_multiplier, hence pure DP of that epsilon and better in
    composition.
    lower, upper: public bounds, chosen without looking at the data.
    quantile: a rational in [0, 1] ("1/2" is the median).
    cell: the grid's step, a power of two; by default at most 2^-20 of the interval.
    For the quantile p / q a cell t has probability proportional to e^(-score / scale), with the
    score max(0, q #{z < t} - p n, p n - q #{z <= t}): a value that many records share is as good
    as all the ranks it has. The scale is 2 noise_multiplier times the score's sensitivity: max(p,
    q - p) under add-remove, q under replace.
    Inverse sensitivity (AD20) weighs a cell by how many records have to be replaced for it to
    hold the quantile. At the same epsilon it gives each cell the probability it has here up to a
    factor of e^(epsilon / 2), so there is no mechanism of that name.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: MT07; S11 (quantiles by the exponential mechanism).
    """

    lower: float
    upper: float
    quantile: Annotated[Rational, _quantile] = Fraction(1, 2)
    cell: Cell | None = None

    def check_parameters(self) -> None:
        """Check that the bounds are in order."""
        lower, upper = interval(self.lower, self.upper, "lower and upper")
        settle(self, lower=lower, upper=upper)

    def replacement(self) -> float:
        """Return the middle of the bounds."""
        return self.lower / 2 + self.upper / 2

    def plan(self) -> Plan:
        """Plan one stage: the choice of a cell."""
        scores = self._scores()
        bounds = (scores.lower, scores.upper, scores.numerator, scores.denominator)
        return (Stage(CELL, scores, QuantileChoice(*bounds, self._scale())),)

    def estimate(self, transcript: Transcripts) -> QuantileEstimate | Abstained:
        """Return the chosen cell's value."""
        value = transcript.number(CELL) * Fraction(2) ** self._exponent()
        return QuantileEstimate(float(min(max(value, Fraction(self.lower)), Fraction(self.upper))))

    def expected_error(self, n: int) -> float:
        """Predict the root mean square error in ranks, as a share of the n records, for records
        that are even about the quantile and within the bounds.

        A rank's probability falls by e^(-denominator / scale) from one to the next. The error is
        less for values that many records share, and where the bounds cut it off: for n that are
        not many times the scale.
        """
        ranks = to_float(self._scale() / self.quantile.denominator)
        return math.sqrt(2) * ranks / n if n > 0 else math.inf

    def _scores(self) -> QuantileScores:
        exponent = self._exponent()
        low, high = (round(Fraction(b) / Fraction(2) ** exponent) for b in (self.lower, self.upper))
        p, q = self.quantile.numerator, self.quantile.denominator
        return QuantileScores(low, high, exponent, p, q)

    def _scale(self) -> Fraction:
        p, q = self.quantile.numerator, self.quantile.denominator
        moves = q if self.adjacency is Adjacency.REPLACE else max(p, q - p)
        return 2 * self.noise_multiplier * moves

    def _exponent(self) -> int:
        if self.cell is not None:
            return floor_log2(self.cell)
        return floor_log2(Fraction(self.upper) - Fraction(self.lower)) - _CELLS
