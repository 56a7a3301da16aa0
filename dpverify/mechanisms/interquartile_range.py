"""``interquartile_range``: the distance of a column's quartiles, by propose-test-release."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

from dpverify.estimation.answers import Result, tail_of
from dpverify.estimation.clipping import capped
from dpverify.estimation.column_grids import Cells, check_bounds, grids_of, middle_of
from dpverify.grid.quartiles import QuartileBins
from dpverify.plans import (
    Abstained,
    Handle,
    LaplaceTest,
    Mechanism,
    Plan,
    Stage,
    Transcripts,
    rarely_surfacing,
)
from dpverify.plans.parameters import CHOSEN, Delta, Rational, probability
from dpverify.privacy import Adjacency, Domain, Guarantee
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.calibration import least_integer
from dpverify.privacy.numbers import Exact, exact, to_float

BINS = Handle("bins")
_TESTS = 2  # a distance lies in two bins, each of which is tested
_FEWEST = 2


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class InterquartileRangeEstimate(Result):
    """A private interquartile range: ``value``, in the data's units, between ``low`` and ``high``.

    The interquartile range of the records, moved into the bounds, lies between ``low`` and ``high``
    for certain, a cell for rounding included; ``value`` is the geometric middle of the bin.
    ``records``: how many records, with noise, would have to be replaced for the range to leave the
    bin that it leaves first.
    """

    value: float
    low: float
    high: float
    records: int = field(repr=False)

    def interval(self, level: Exact = 0.95) -> tuple[float, float]:
        """Return (low, high), which hold the interquartile range of the clamped records at every
        level.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail_of(level)
        return self.low, self.high


@dataclass(frozen=True, slots=True, kw_only=True)
class InterquartileRange(Mechanism[InterquartileRangeEstimate]):
    """The distance of a column's quartiles up to a factor, by propose-test-release.

    The quartiles are the records of ranks ceil(n / 4) and ceil(3 n / 4). Their distance lies in
    two overlapping bins of a public logarithmic scale. For each bin it is counted, exactly, how
    many records would have to be replaced for the range to leave it; a bin is released if this
    number plus noise reaches a threshold. So the answer itself has no noise. The mechanism
    abstains where few records are near the quartiles: for normal records it rarely does from
    about 1000 on at (1, 1e-6). ``PrivateQuantile`` finds both quartiles without a delta, and
    never abstains; its error is in ranks.

    Data: one column, shape (n,) or (n, 1), n >= 2, in any unit; values beyond the bounds count as
    the bound. Output: ``InterquartileRangeEstimate``, or ``Abstained`` where few records could
    move the range out of its bins.
    Claim, under replace: ApproxDP(1 / noise_multiplier, delta).
    lower, upper: public bounds of the quartiles, chosen without looking at the data.
    delta: the largest probability that a range is released which a single record decides.
    step: the ratio of edges that follow each other, 17/16 to 16; a bin spans two steps, and a
    shorter one needs more records.
    cells: the bounds are divided into this many cells, up to twice as many. Ranges are told apart
    from a cell on.
    Errors: TypeError or ValueError for parameters and for data that are not a real column, or of
    fewer than two records.
    Source: DL09 (propose-test-release; the interquartile range on a logarithmic scale).
    """

    lower: float
    upper: float
    delta: Delta
    step: Annotated[Rational, exact] = Fraction(5, 4)
    cells: Cells = 1 << 20

    if TYPE_CHECKING:  # what ``calibrated_for`` chooses may be left out

        @classmethod
        def for_budget(  # type: ignore[override]
            cls,
            budget: Guarantee,
            /,
            *,
            adjacency: Adjacency,
            nonfinite: Nonfinite = "refuse",
            lower: float,
            upper: float,
            delta: Delta = CHOSEN,
            step: Annotated[Rational, exact] = Fraction(5, 4),
            cells: Cells = 1 << 20,
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        delta: by default the budget's. Also raises ValueError for a budget without a delta, under
        which nothing may depend on a test that noise can pass.
        """
        if "delta" not in parameters and isinstance(budget, Guarantee):
            given = exact(getattr(budget, "delta", 0), "delta")
            if not given:
                raise ValueError(
                    f"budget = {budget}: a test passes by chance with a probability that is a "
                    "delta; give an ApproxDP budget, or PrivateQuantile."
                )
            parameters["delta"] = given
        return super(InterquartileRange, cls).calibrated_for(
            budget, adjacency=adjacency, **parameters
        )

    def check_parameters(self) -> None:
        """Refuse add-remove, and bounds that are out of order."""
        if self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {self.adjacency}: the quartiles' ranks need the number of records, "
                "which has to be public. Use Adjacency.REPLACE, or PrivateQuantile."
            )
        check_bounds((self.lower,), (self.upper,), self.cells)

    def replacement(self) -> float:
        """Return the middle of the bounds."""
        return middle_of((self.lower,), (self.upper,))[0]

    def plan(self) -> Plan:
        """Plan one stage: both bins, each where it passes its test."""
        query = self._query()
        moves = query.sensitivity(self.adjacency, Domain(1))
        scale = _TESTS * self.noise_multiplier
        return (Stage(BINS, query, rarely_surfacing(LaplaceTest, scale, moves, self.delta)),)

    def estimate(self, transcript: Transcripts) -> InterquartileRangeEstimate | Abstained:
        """Intersect the bins that passed."""
        released = transcript.numbers(BINS)
        if not released:
            return Abstained("few records could change the bin of the interquartile range")
        query = self._query()
        low, high = query.edges[released[-2]], query.edges[released[0] + 2]
        cell = Fraction(2) ** query.exponent
        ends = capped(max(0, low - 1) * cell), to_float(high * cell)
        middle = math.sqrt(capped(low * cell)) * math.sqrt(capped(high * cell))
        return InterquartileRangeEstimate(max(ends[0], middle), *ends, min(released[1::2]))

    def passes_from(self, *, beta: Exact = "1e-3") -> int:
        """Return the least distance, in replaced records, of a range to the ends of its bin at
        which the bin passes except with probability ``beta``.
        """
        noise, allowed = self._noise(), probability(beta, "beta")
        return least_integer(
            lambda far: noise.added.falls_short(far - noise.threshold + 1, allowed), above=0
        )

    def expected_error(self, n: int) -> float:
        """Return a factor: the root of ``step`` from ``minimum_n()`` records on, for records that
        lie evenly and a range of many cells; infinite for fewer.

        The value is off by at most this factor with probability 0.999, and by a factor ``step``
        for certain, wherever the records lie: noise decides only which bins are released.
        """
        # The bin that passes is the one whose middle is nearer, see ``minimum_n``.
        return math.sqrt(self.step) if n >= self.minimum_n() else math.inf

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return about the least n for which n records that lie evenly abstain with probability
        at most ``beta``.

        Evenly: as far apart from each other, within the bounds and half of their distance. Other
        records may need more, and where many are equal to a quartile fewer; nothing holds for all.
        """
        # Distance to the nearest edge of the better bin, as a part of the range.
        nearest = 1 - 1 / math.sqrt(self.step)
        return math.ceil(2 * self.passes_from(beta=beta) / nearest) + _SLACK

    def fewest_records(self) -> int:
        """Return 2: for one record both quartiles are the same."""
        return _FEWEST

    def _query(self) -> QuartileBins:
        ((low, high, exponent),) = grids_of((self.lower,), (self.upper,), self.cells)
        return QuartileBins(low, high, exponent, self.step)

    def _noise(self) -> LaplaceTest:
        noise = self._stage(BINS).noise
        assert isinstance(noise, LaplaceTest)
        return noise


_SLACK = 8  # ranks are rounded, and edges to cells
