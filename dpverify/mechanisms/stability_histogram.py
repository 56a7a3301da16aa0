"""``stability_histogram``: the number of records in each bin, without a list of bins."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from dpverify.estimation.answers import NoiseLaw, Result, around, tail_of, whole_deviation
from dpverify.grid.cells import floor_log2
from dpverify.grid.tables import KeyedCounts
from dpverify.plans import (
    Abstained,
    Handle,
    Mechanism,
    Plan,
    Stage,
    ThresholdedGaussian,
    ThresholdedLaplace,
    Transcripts,
    rarely_surfacing,
)
from dpverify.plans.parameters import CHOSEN, Delta, one_of
from dpverify.privacy import Adjacency, ApproxDP, Domain, Guarantee
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.numbers import ROOT_OF_TWO, Exact, exact, settle, to_float

_CELLS = 30  # a bin has 2^30 to 2^31 cells, and there are 2^29 bins or more on either side
_NARROWEST, _WIDEST = Fraction(1, 2**1022), Fraction(2**1023)  # edges are distinct as floats


HISTOGRAM = Handle("histogram")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class HistogramEstimate(Result):
    """Bins that surfaced: lower edge -> noisy count, in the data's units, in increasing order.

    A bin holds edge <= x < edge + width; on the grid its edges lie where they are named, up to
    2^-30 of their distance from the origin. ``standard_deviation`` is that of a count's noise, of
    law ``noise``. A bin that did not surface held fewer than about ``threshold`` records.
    Printed, it is a line for each bin.
    """

    counts: Mapping[float, int]
    width: float
    threshold: int
    standard_deviation: float
    noise: NoiseLaw = "laplace"

    @property
    def value(self) -> Mapping[float, int]:
        """Return ``counts``."""
        return self.counts

    def interval(self, level: Exact = 0.95) -> tuple[dict[float, float], dict[float, float]]:
        """Compute two mappings from bins, to the low and the high end of each count's interval,
        integers.

        By the noise's tail: for every single bin, the probability that it surfaces with its count
        outside is at most 1 - level. There is no interval for all bins together, since the number
        of bins is not released.
        Raises TypeError or ValueError for a level outside (0, 1).
        """
        t = whole_deviation(self.noise, self.standard_deviation, tail_of(level))
        ends = {edge: around(count, t) for edge, count in self.counts.items()}
        return {e: low for e, (low, _) in ends.items()}, {e: high for e, (_, high) in ends.items()}

    def __str__(self) -> str:
        lines = [
            f"[{edge:.15g}, {edge + self.width:.15g}): {count}"
            for edge, count in self.counts.items()
        ]
        noise = f"noise of standard deviation {self.standard_deviation:.3g}"
        lines.append(f"{len(lines)} bins surfaced (threshold {self.threshold}, {noise})")
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class StabilityHistogram(Mechanism[HistogramEstimate]):
    """Counts of unboundedly many bins; a bin is released if its noisy count reaches a threshold.

    Data: one column, shape (n,) or (n, 1). Output: ``HistogramEstimate``; never abstains.
    Claim: noise="laplace": ApproxDP(1 / noise_multiplier, delta of the threshold); "gaussian":
    ApproximateGaussianDP(1 / noise_multiplier, the same, 0).
    width, origin: the width of a bin, above 0, and an edge. Both are exact ("0.1" is one tenth,
    0.1 the float near it). Records more than about 2^29 bins away count as lying there.
    delta: the largest probability with which a bin that one record holds may surface; the
    threshold is the least for it, computed from the release predicate itself.
    The noise's scale is noise_multiplier; under replace, where a record moves two counts, twice
    that ("laplace") or 1.414213563 times that ("gaussian"; a little above the square root of 2).
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: KKMN09; KV18, Lemma 2.3 (bins without a bound); the threshold is OURS.
    """

    width: Exact
    delta: Delta
    origin: Exact = 0
    noise: Annotated[Literal["laplace", "gaussian"], one_of("laplace", "gaussian")] = "laplace"

    if TYPE_CHECKING:  # what ``calibrated_for`` chooses may be left out

        @classmethod
        def for_budget(  # type: ignore[override]
            cls,
            budget: Guarantee,
            /,
            *,
            adjacency: Adjacency,
            nonfinite: Nonfinite = "refuse",
            width: Exact,
            delta: Delta = CHOSEN,
            origin: Exact = 0,
            noise: Annotated[
                Literal["laplace", "gaussian"], one_of("laplace", "gaussian")
            ] = "laplace",
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        delta: by default the budget's, or half of it for Gaussian noise under an ApproxDP, which
        needs the other half. Also raises ValueError for a budget without a delta, under which no
        bin may surface.
        """
        if "delta" not in parameters and isinstance(budget, Guarantee):
            given = exact(getattr(budget, "delta", 0), "delta")
            if not given:
                raise ValueError(
                    f"budget = {budget}: bins that nobody listed surface with a probability that "
                    "is a delta; give an ApproxDP budget."
                )
            halved = isinstance(budget, ApproxDP) and parameters.get("noise") == "gaussian"
            parameters["delta"] = given / 2 if halved else given
        return super(StabilityHistogram, cls).calibrated_for(
            budget, adjacency=adjacency, **parameters
        )

    def check_parameters(self) -> None:
        """Check that the width is positive, that floats can tell its edges apart, and that the
        origin is within reach.
        """
        width, origin = exact(self.width, "width"), exact(self.origin, "origin")
        if width <= 0:
            raise ValueError(f"width = {self.width} is not positive; give the width of a bin.")
        if not _NARROWEST <= width <= _WIDEST:
            raise ValueError(
                f"width = {self.width} is outside 2^-1022..2^1023, where edges are floats; give "
                "the data in another unit."
            )
        if abs(origin) > width * 2**29:
            raise ValueError(
                f"origin = {self.origin} is more than 2^29 bins from 0; subtract a public constant "
                "from the data, or take another edge."
            )
        settle(self, width=width, origin=origin)

    def plan(self) -> Plan:
        """Plan one stage: noise on every count that occurs, small ones withheld."""
        return (Stage(HISTOGRAM, self._query(), self._noise()),)

    def estimate(self, transcript: Transcripts) -> HistogramEstimate | Abstained:
        """Return the released counts by the bins' edges."""
        noise, flat = self._fixed_noise(), transcript.numbers(HISTOGRAM)
        width, origin = self._grid()
        edges = (
            to_float(origin + key * width) for key in flat[::2]
        )  # the last edge may be beyond floats
        counts = dict(zip(edges, flat[1::2], strict=True))
        deviation = noise.added.standard_deviation
        return HistogramEstimate(counts, float(width), noise.threshold, deviation, self.noise)

    def expected_error(self, n: int) -> float:
        """Predict the error in records, for one bin that holds all n: infinite below the
        threshold, where bins do not surface.
        """
        noise = self._fixed_noise()
        return noise.added.standard_deviation if n >= noise.threshold else math.inf

    def _fixed_noise(self) -> ThresholdedLaplace | ThresholdedGaussian:
        """Return the noise of the plan, whose threshold is searched once."""
        noise = self._stage(HISTOGRAM).noise
        assert isinstance(noise, (ThresholdedLaplace, ThresholdedGaussian))
        return noise

    def _grid(self) -> tuple[Fraction, Fraction]:
        return exact(self.width, "width"), exact(self.origin, "origin")

    def _query(self) -> KeyedCounts:
        width, origin = self._grid()
        exponent = floor_log2(width) - _CELLS
        unit = Fraction(2) ** exponent
        return KeyedCounts(round(width / unit), round(origin / unit), exponent)

    def _noise(self) -> ThresholdedLaplace | ThresholdedGaussian:
        """Build the noise; a replaced record moves two counts by one each."""
        replaced = self.adjacency is Adjacency.REPLACE
        kind: type[ThresholdedLaplace | ThresholdedGaussian]
        if self.noise == "laplace":
            kind, scale = ThresholdedLaplace, self.noise_multiplier * (2 if replaced else 1)
        else:
            kind, scale = (
                ThresholdedGaussian,
                self.noise_multiplier * (ROOT_OF_TWO if replaced else 1),
            )
        moves = self._query().sensitivity(self.adjacency, Domain(1))
        return rarely_surfacing(kind, scale, moves, self.delta)
