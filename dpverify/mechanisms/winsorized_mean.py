"""``winsorized_mean``: the mean of every column within a range that its private quartiles give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from flint import arb

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clipping import LARGEST_FLOAT, Numbers, PerColumn
from dpverify.estimation.column_grids import (
    GRAIN,
    TYPICAL,
    Cells,
    check_bounds,
    clipped_share,
    grids_of,
    middle_of,
    stretch_to,
)
from dpverify.estimation.handles import COUNT, SUM
from dpverify.estimation.median_centered import positive_numbers
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.grid import Count, OneUnit, VectorQuery
from dpverify.grid.coordinates import BoxSum, Stretch
from dpverify.grid.masks import Row
from dpverify.grid.tables import ColumnScores, QuantileScores
from dpverify.plans import (
    UNIT,
    Abstained,
    DiscreteLaplace,
    Handle,
    Mechanism,
    Noise,
    NoNoise,
    Plan,
    QuantileChoices,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import Rational, Share, one_of
from dpverify.plans.search import Prefix
from dpverify.privacy import Adjacency, Norm
from dpverify.privacy.balls import ball, enclose
from dpverify.privacy.numbers import root_down, to_float
from dpverify.randomness.bits import IntArray

QUARTILES = Handle("quartiles")
RADIUS = 1 << 20
"""Half a column's range in the units of the sum."""
_PER_QUARTILE = Fraction(1349, 1000)  # the quartiles of N(0, 1) are 1.349 apart
# Range of losses for mu = 1: a range e is (e sqrt(2 pi) / 4)-GDP, and 3/2 < 1.59.
_RANGE = Fraction(3, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class WinsorizedMean(Mechanism[VectorMeanEstimate]):
    """The mean of every column, its records clipped to a range that private quartiles give.

    Two steps: the quartiles of every column, each by the exponential mechanism on a public grid;
    the noisy sum of the records clipped to (a + b) / 2 -+ k |b - a|, where a and b are the
    released quartiles. Half a range is at least a cell, and up to 1/32 longer than that formula.
    k = sqrt(2 ln(1 / clipped)) / 1.349: of normal records with these quartiles a share of at most
    ``clipped`` is clipped.

    Data: shape (n, d), d = len(lower), n >= 1, in any unit. Output: ``VectorMeanEstimate``; never
    abstains.
    Claim, under replace: with Gaussian noise GaussianDP(1 / noise_multiplier), up to the grid's
    rounding; with Laplace noise pure DP of 1 / noise_multiplier, and better in composition.
    lower, upper: public bounds of every column's quartiles, chosen without looking at the data.
    Records beyond count as a bound for the quartiles; the mean may lie beyond.
    noise: "gaussian", or "laplace" for pure DP, where the error grows with d^(3/2) and not with
    d.
    cells: each column's bounds are divided into this many cells, up to twice as many.
    clipped: about 1 / n is best.
    quartile_share: the part of mu^2 (of epsilon with Laplace noise) for the quartiles. Half of it
    makes the noise 1.2 times that of a quarter, and about 0.7 times the records suffice for the
    quartiles.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: S11 (the estimator); MT07, DMNS06, DRS22 (its steps). Constants as shipped elsewhere
    are refuted in audits/exhibits.
    """

    lower: PerColumn
    upper: PerColumn
    noise: Annotated[Literal["gaussian", "laplace"], one_of("gaussian", "laplace")] = "gaussian"
    cells: Cells = 1 << 20
    clipped: Annotated[Rational, clipped_share("1e-4")] = Fraction(1, 10**4)
    quartile_share: Share = Fraction(1, 2)

    def check_parameters(self) -> None:
        """Check that the adjacency is replace and that every column's bounds are in order."""
        if self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {self.adjacency}: this mean divides by the number of records, which "
                "has to be public. Use Adjacency.REPLACE, or CoordinatewiseMean."
            )
        check_bounds(self.lower, self.upper, self.cells)

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.lower)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the middle of the bounds."""
        return middle_of(self.lower, self.upper)

    def plan(self) -> Plan:
        """Release the quartiles, the public count, and the sum in the range that the quartiles
        give.
        """

        def build(row: Row) -> Stage:
            return Stage(SUM, self._query(self.stretch(row)), self._sum_noise())

        start = [0] * 2 * self.columns()
        prefix = Prefix().also(Released((QUARTILES,), self.quartiles), start)
        return (
            self._quartile_stage(),
            Stage(COUNT, Count(), NoNoise()),
            prefix.part(build),
        )

    def quartiles(self, before: Transcripts) -> IntArray:
        """Return the released quartiles, in cells above the lower bounds: for each column the
        lower, then the higher.
        """
        lows = np.repeat([low for low, _, _ in self._grids()], 2)
        pairs: IntArray = (before[QUARTILES] - lows).reshape(-1, self.columns(), 2)
        ordered: IntArray = np.sort(pairs, axis=2).reshape(len(before), -1)
        return ordered

    def stretch(self, row: Row) -> Stretch:
        """Return the map of records to the sum's units, by quartiles in cells above the lower
        bounds.
        """
        return _stretch(self._grids(), self._times(), row)

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return the middle of the range + noisy sum / count, moved into the range first."""
        stretch = self.stretch(tuple(map(int, self.quartiles(transcript)[0])))
        count, unit = transcript.number(COUNT), Fraction(1)
        if self.noise == "gaussian":
            unit = self._noise_scale() / UNIT
        deviation = to_float(unit / count) * self._sum_noise().standard_deviation
        with np.errstate(all="ignore"):
            per = np.ldexp(1.0 / np.array(stretch.factors), stretch.exponents)
            total = [to_float(s * unit / count) for s in transcript.numbers(SUM)]
            middle = np.ldexp(np.array(stretch.center, np.float64), stretch.exponents)
            value = np.clip(
                middle + np.clip(total, -RADIUS, RADIUS) * per, -LARGEST_FLOAT, LARGEST_FLOAT
            )
            spread = per * deviation
        along = np.zeros(self.columns())
        return VectorMeanEstimate(value, float(count), spread, along, noise=self.noise)

    def expected_error(self, n: int, *, deviations: Numbers | None = None) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n records of
        independent normal columns of these deviations, whose quartiles were found.

        With too few records for the quartiles the error is that of the bounds, which this
        prediction leaves out. Raises ValueError without deviations, since the noise is in
        proportion to the quartiles' distance.
        """
        if deviations is None:
            raise ValueError(
                "The noise follows the columns' quartiles; give deviations=, a guess of them."
            )
        given = np.array(positive_numbers(deviations, "deviations", self.columns()))
        if n < 1:
            return math.inf
        half = float(self._times() * _PER_QUARTILE) * given
        cells = np.ldexp(1.0, [exponent for _, _, exponent in self._grids()])
        unit = self._noise_scale() / UNIT if self.noise == "gaussian" else Fraction(1)
        noise = to_float(unit / n) * self._sum_noise().standard_deviation
        return noise / RADIUS * float(np.linalg.norm(np.maximum(half, cells)))

    def fewest_records(self) -> int:
        """Return 1: an empty dataset has no mean."""
        return 1

    def _grids(self) -> tuple[tuple[int, int, int], ...]:
        return grids_of(self.lower, self.upper, self.cells)

    def _quartile_stage(self) -> Stage:
        query = _quartile_scores(self._grids())
        grids = tuple((s.lower, s.upper, s.numerator, s.denominator) for _, s in query.scores)
        kind: Literal["range", "gaussian"] = "gaussian" if self.noise == "gaussian" else "range"
        return Stage(QUARTILES, query, QuantileChoices(grids, self._quartile_scale(), kind))

    def _quartile_scale(self) -> Fraction:
        """Return twice the score's sensitivity over the range of losses of each of 2 d choices."""
        count, share = 2 * self.columns(), self.quartile_share
        if self.noise == "laplace":
            return 8 * self.noise_multiplier * count / share
        return 8 * self.noise_multiplier * root_down(count / share, ROOT_BITS) / _RANGE

    def _query(self, stretch: Stretch) -> VectorQuery:
        if self.noise == "laplace":
            return BoxSum(stretch, RADIUS, Norm.L1)
        return OneUnit(BoxSum(stretch, RADIUS), self._noise_scale())

    def _sum_noise(self) -> Noise:
        laplace = self.noise == "laplace"
        return DiscreteLaplace(self._noise_scale()) if laplace else RoundedGaussian(UNIT)

    def _noise_scale(self) -> Fraction:
        """Return the sum's noise scale, in its units: noise_multiplier times the sensitivity,
        over the part of the budget that the quartiles leave.
        """
        d, left = self.columns(), 1 - self.quartile_share
        if self.noise == "laplace":
            return self.noise_multiplier * 2 * RADIUS * d / left
        return self.noise_multiplier * 2 * RADIUS * root_down(d / left, ROOT_BITS)

    def _times(self) -> Fraction:
        """Return k, rounded up to 2^-10."""
        return _times(self.clipped)


@lru_cache(maxsize=16)
def _quartile_scores(grids: tuple[tuple[int, int, int], ...]) -> ColumnScores:
    """Build the query of both quartiles of each column."""
    return ColumnScores(
        tuple(
            (j, QuantileScores(low, high, exponent, p, 4))
            for j, (low, high, exponent) in enumerate(grids)
            for p in (1, 3)
        )
    )


@lru_cache(maxsize=16)
def _times(clipped: Fraction) -> Fraction:
    def multiple() -> arb:
        return (-2 * ball(clipped).log()).sqrt() / ball(_PER_QUARTILE)

    return Fraction(math.ceil(enclose(multiple).upper * 2**10), 2**10)


@lru_cache(maxsize=16)
def _stretch(
    grids: tuple[tuple[int, int, int], ...], times: Fraction, row: tuple[Any, ...]
) -> Stretch:
    """Build the map to the sum's units: half a range, in the data's units, is ``RADIUS`` units."""
    middles, squares = [], []
    for (low, _, exponent), a, b in zip(grids, row[::2], row[1::2], strict=True):
        cell = Fraction(2) ** exponent
        middles.append((low + Fraction(int(a) + int(b), 2)) * cell)
        squares.append((max(Fraction(1), times * (int(b) - int(a))) * cell) ** 2)
    return stretch_to(
        Rationals.of(middles), Rationals.of(squares), Fraction(TYPICAL * GRAIN, RADIUS) ** 2
    )
