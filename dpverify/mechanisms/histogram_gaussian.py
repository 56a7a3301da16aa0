"""``histogram_gaussian``: the mean and standard deviation of normal records by stability
histograms.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Annotated

import numpy as np

from dpverify.estimation.budget_shares import checked_shares
from dpverify.estimation.fullest_bins import log_ratio, overtakes, sinks
from dpverify.estimation.handles import COUNT
from dpverify.estimation.normal_law import Degenerate, NormalEstimate
from dpverify.estimation.rationals import rounded_quotient
from dpverify.grid import Count
from dpverify.grid.cells import floor_log2
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row, rows_once
from dpverify.grid.pairs import TIE, ClampedSquares, PairOctaves
from dpverify.grid.queries import ClampedSum, Query
from dpverify.grid.tables import KeyedCounts
from dpverify.grid.transcripts import of_each_tuple
from dpverify.plans import (
    Abstained,
    Adaptive,
    DiscreteLaplace,
    Gate,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    Stage,
    ThresholdedLaplace,
    Transcripts,
    rarely_surfacing,
)
from dpverify.plans.parameters import Delta, Rational, Share, positive, probability, whole_from
from dpverify.privacy import Adjacency, Domain
from dpverify.privacy.calibration import Unreachable, least_integer
from dpverify.privacy.numbers import Exact, exact, settle, to_float

OCTAVES, BINS, MEAN, SQUARES = map(Handle, ("octaves", "bins", "mean", "squares"))
FINENESS = 12  # a bin has 2^12 cells in the last two stages
_FARTHEST_BIN = 1 << 27  # so that its cells are within 2^40
_COARSEST = 900  # largest exponent of a cell, so that widths are floats
_QUARTERS = (Fraction(1, 4),) * 4
_RESOLUTION = 4  # least deviation that is told, in cells
_SHARES = (
    (0.29, 0.151),
    (0.34, 0.137),
)  # for octaves and for bins: the shares of the fullest and of the fullest wrong one
_WRONG = 43, 25  # numbers of wrong octaves, and of wrong bins within 12 deviations
_BEYOND = 3.6e-33  # probability that a normal record is beyond 12 deviations
_MOST_RECORDS = 1 << 60


@dataclass(frozen=True, slots=True, kw_only=True)
class HistogramGaussian(Mechanism[NormalEstimate | Degenerate]):
    """The mean and the standard deviation of normal records by two histograms: KV18's estimator,
    for comparison.

    Differences of neighbors in the data are counted by octave; the fullest octave tells a scale,
    as a rule 2.6 to 5.3 times the deviation. Records are counted in bins of that width. They are
    clamped to 4 sqrt(ln(n / failure)) such widths about the fullest bin and averaged; then their
    squares about the released mean are averaged. ``UnivariateGaussian`` has smaller errors for
    both numbers.

    Data: one column, shape (n,) or (n, 1). Output: ``NormalEstimate``; ``Degenerate`` where most
    neighbors are in one cell; ``Abstained`` where no octave or no bin surfaces, and 2^27 widths
    or more from zero. The released variance is kept above half the deviation of its noise.
    Claim: ApproxDP(1 / noise_multiplier, delta), for all data; replace alone, since neighbors are
    paired by index. The order of the records should say nothing about them; shuffle them first if
    it may.
    cell: the public grid's step, rounded down to a power of two; deviations from about 4 cells to
    2^38 are found.
    delta: half of it is for each histogram's threshold.
    failure: alpha of the clamp: about the probability that a normal record is beyond it.
    shares: the parts of epsilon for octaves, bins, mean and squares, of sum 1.
    at_least: fewer records are refused; by default six times the octaves' threshold.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: KV18, Algorithms 1 to 4 for (epsilon, delta) without bounds on mean and variance; bins
    on a grid and integer noise are OURS.
    """

    cell: Annotated[float, positive(as_given=True)]
    delta: Delta
    failure: Share = Fraction(1, 20)
    shares: tuple[Rational, ...] = _QUARTERS
    at_least: Annotated[int, whole_from(2, most=1 << 60)] | None = None

    def check_parameters(self) -> None:
        """Check that the adjacency is replace, and that the shares have sum 1."""
        if self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {self.adjacency}: neighbors in the data go by index, and when a "
                "record is removed all later ones get another. Use Adjacency.REPLACE, or "
                "UnivariateGaussian, which has both."
            )
        settle(self, shares=checked_shares(self.shares, len(_QUARTERS)))
        if not -_COARSEST <= _grid_of(self) <= _COARSEST:
            raise ValueError(
                f"cell = {self.cell} is outside 2^-900..2^900; give the data in another unit."
            )

    def plan(self) -> Plan:
        """Release the public number, the octaves, the bins of a width that these tell, then the
        mean and the squares between bounds that both tell.
        """
        octaves, bins = self._histogram(self.octaves(), 0), self._histogram(self.bins(0), 1)
        width = Released((OCTAVES,), lambda before: fullest(before, OCTAVES)[:, np.newaxis])
        frame = Released((COUNT, OCTAVES, BINS), frames)
        first = (2, 0, 0)
        return (
            Stage(COUNT, Count(), NoNoise()),
            Stage(OCTAVES, self.octaves(), octaves),
            Gate(OCTAVES, octaves.threshold, "no octave of differences has enough of them"),
            Adaptive(
                Stage(BINS, self.bins(0), bins),
                width,
                lambda row: Stage(BINS, self.bins(*row), bins),
            ),
            Gate(BINS, bins.threshold, "no bin has enough records"),
            Adaptive(self._sum(first), frame, self._sum),
            Adaptive(self._squares(first), frame, self._squares),
        )

    def estimate(self, transcript: Transcripts) -> NormalEstimate | Degenerate | Abstained:
        """Return the released mean within its bounds, and the root of the released sum of squares
        over n - 1.
        """
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        octave, n = int(fullest(transcript, OCTAVES)[0]), transcript.number(COUNT)
        if abs(int(fullest(transcript, BINS)[0])) > _FARTHEST_BIN:
            return Abstained(
                "the records are 2^27 widths from zero; subtract a public constant from the data"
            )
        cell = Fraction(2) ** self._fine(octave)
        value = to_float(int(self.centers(transcript)[0, 0]) * cell)
        if octave == TIE:
            return Degenerate(
                value, to_float(_RESOLUTION * Fraction(2) ** _grid_of(self)), float(n)
            )
        lower, upper = self.bounds(n, 0)
        linear = self._noise(upper - lower, 2).standard_deviation / n
        squared = self._noise((upper - lower) ** 2, 3).standard_deviation / (n - 1)
        square = max(to_float(Fraction(transcript.number(SQUARES), n - 1)), squared / 2)
        deviation, unit = math.sqrt(square), to_float(cell)
        return NormalEstimate(
            value,
            deviation * unit,
            float(n),
            linear * unit,
            squared / (2 * square),
            deviation * unit / math.sqrt(n),
            1 / math.sqrt(2 * n),
            "laplace",
        )

    def expected_error(self, n: int) -> float:
        """Predict the noise's part in the mean, in standard deviations of normal records, for a
        width of 4 of them; widths are 2.6 to 5.3.

        Infinite below ``at_least`` records.
        """
        if n < self.fewest_records():
            return math.inf
        lower, upper = self.bounds(n, 0)
        cells = self._noise(upper - lower, 2).standard_deviation / n
        return float(4 * cells / 2**FINENESS)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n, from ``at_least`` on, for which normal records are lost with
        probability at most ``beta``, by bounds.

        Lost means: no estimate, a width outside 1 to 8 deviations, or a bin further than 1.5
        widths from the mean; for deviations of 16 cells or more. Where 2^60 records do not
        suffice, the result is 2^60 or ``at_least``.
        """
        allowed = to_float(probability(beta, "beta"))
        try:
            least = least_integer(lambda n: self.lost(n) <= allowed, above=1, most=_MOST_RECORDS)
        except Unreachable:
            least = _MOST_RECORDS
        return max(least, self.fewest_records())

    def lost(self, n: int) -> float:
        """Bound the probability that n normal records are lost (see ``minimum_n``).
        Source: spec.
        """
        chance = n * _BEYOND
        for k, (name, things) in enumerate(((OCTAVES, n // 2), (BINS, n))):
            noise = self._stage(name).noise
            assert isinstance(noise, ThresholdedLaplace)
            share, other = _SHARES[k]
            chance += _WRONG[k] * overtakes(things, share, other, noise.scale)
            chance += sinks(things, share, noise.threshold, noise.scale)
        return min(chance, 1.0)

    def fewest_records(self) -> int:
        """Return ``at_least`` or its default: fewer records, a public number, are refused."""
        if self.at_least is not None:
            return self.at_least
        noise = self._stage(OCTAVES).noise
        assert isinstance(noise, ThresholdedLaplace)
        return 6 * noise.threshold

    # --- the stages -----------------------------------------------------------------------------

    def octaves(self) -> PairOctaves:
        """Build the query for the octaves of differences, in cells."""
        return PairOctaves(_grid_of(self))

    def bins(self, octave: int) -> KeyedCounts:
        """Build the query for bins: two halves of 2^(octave + 1) cells each, one on either side
        of a multiple of a width.
        """
        return KeyedCounts(2, -1, _grid_of(self) + max(octave, 0) + 1)

    def bounds(self, n: int, bin_: int) -> tuple[int, int]:
        """Return the clamp's bounds for n records about a bin's middle, in 2^-12 of a width."""
        half = math.ceil(4 * 2**FINENESS * math.sqrt(log_ratio(n, self.failure)))
        middle = min(max(bin_, -_FARTHEST_BIN), _FARTHEST_BIN) << FINENESS
        return middle - half, middle + half

    def centers(self, before: Transcripts) -> Integers:
        """Return the released means to the nearest cell, within their bounds, shape (size, 1)."""
        centers, sums = [], before[MEAN][:, 0].tolist()
        frame, which = rows_once(frames(before))
        ends = [(n, bin_ << FINENESS, *self.bounds(n, bin_)) for n, _, bin_ in frame.tolist()]
        for total, at in zip(sums, which.tolist(), strict=True):
            n, middle, lower, upper = ends[at]
            centers.append(min(max(middle + rounded_quotient(int(total), n), lower), upper))
        return np.array(centers, np.int64)[:, np.newaxis]

    def _histogram(self, query: Query, place: int) -> ThresholdedLaplace:
        moves = query.sensitivity(self.adjacency, Domain(1))
        scale = 2 * self.noise_multiplier / self.shares[place]
        made = rarely_surfacing(ThresholdedLaplace, scale, moves, self.delta / 2)
        assert isinstance(made, ThresholdedLaplace)
        return made

    def _sum(self, row: Row) -> Stage:
        n, octave, bin_ = row
        lower, upper = self.bounds(n, bin_)
        query = ClampedSum(lower, upper, (lower + upper) // 2, self._fine(octave))
        return Stage(MEAN, query, self._noise(upper - lower, 2))

    def _squares(self, row: Row) -> Stage:
        n, octave, bin_ = row
        lower, upper = self.bounds(n, bin_)
        center = Released((COUNT, OCTAVES, BINS, MEAN), self.centers)
        query = ClampedSquares(lower, upper, self._fine(octave), center)
        return Stage(SQUARES, query, self._noise((upper - lower) ** 2, 3))

    def _noise(self, moved: int, place: int) -> DiscreteLaplace:
        return DiscreteLaplace(moved * self.noise_multiplier / self.shares[place])

    def _fine(self, octave: int) -> int:
        """Return the exponent of 2^-12 of a width."""
        return _grid_of(self) + max(octave, 0) + 2 - FINENESS


def fullest(before: Transcripts, stage: Handle) -> Integers:
    """Return the key of the largest shown count (the first of several), 0 where none is shown;
    shape (size,).
    """

    def of(shown: tuple[int, ...]) -> int:
        counts = shown[1::2]
        return int(shown[2 * counts.index(max(counts))]) if counts else 0

    return of_each_tuple(before[stage], of, np.int64)


def frames(before: Transcripts) -> Integers:
    """Return the number of records, the octave and the bin, shape (size, 3)."""
    numbers = before[COUNT][:, 0].astype(np.int64)
    return np.stack([numbers, fullest(before, OCTAVES), fullest(before, BINS)], axis=1)


@lru_cache(maxsize=64)
def _grid_of(mechanism: HistogramGaussian) -> int:
    """Return the exponent of the cell, a power of two."""
    return floor_log2(exact(mechanism.cell, "cell"))
