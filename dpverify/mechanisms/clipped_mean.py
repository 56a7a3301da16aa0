"""``clipped_mean``: the mean of vectors, by one Gaussian release of their sum and number."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clipping import (
    LARGEST_FLOAT,
    Numbers,
    PerColumn,
    PublicRadius,
    capped,
    in_ball,
    inverse,
    noise_length,
    square_matrix,
    vector_sum,
)
from dpverify.estimation.handles import COUNT, SUM, SUM_AND_COUNT
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.grid import Count
from dpverify.grid.joint import WithCount, least_counted
from dpverify.grid.vector_queries import MaskedSum, OneUnit, VectorQuery, VectorSum
from dpverify.plans import (
    UNIT,
    Abstained,
    Mechanism,
    NoNoise,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import CHOSEN, AtLeast, Rational, one_of, probability
from dpverify.privacy import Adjacency, Guarantee
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.numbers import Exact, exact, quotient, root_down, settle, to_float, whole

_LARGEST_WEIGHT = 1 << 42


@dataclass(frozen=True, slots=True, kw_only=True)
class ClippedMean(Mechanism[VectorMeanEstimate]):
    """The mean of vectors that are clipped to, or counted in, a public ball or ellipsoid, with
    Gaussian noise.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate``, or
    ``Abstained`` when the released count is below ``at_least``.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, exact in every dimension,
    for both adjacencies. Under replace with "clip" the count is public and takes no noise.
    center, radius: the public ball, chosen without looking at the data. The best center is near
    the mean; the best radius is about the typical distance from it, or, for heavy tails, what
    ``for_budget`` finds from a ``second_moment``.
    matrix: a public invertible (d, d) matrix A; the ball is then {x: |A (x - center)| <= radius}
    and the noise has covariance proportional to (A^T A)^-1. A is first rounded to 12 bits (fewer
    for a dense one of more than 128 columns).
    outside: the treatment of records outside of the ball: "clip" (moved to the boundary: the mean
    of the clipped records) or "mask" (left out: the mean of the records inside).
    count_weight: how many radii one record counts for in the joint release of sum and count;
    larger is more noise on the sum, less on the count. The default is sqrt(3) for "mask" under
    replace, where the count is free. Otherwise it is d^(-1/4) / sqrt(2), the best when the mean
    is half a radius from the center, and within 3/2 of the least mean square wherever it is.
    at_least: abstain below this released count, by default 1.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: DRS22 (the Gaussian mechanism); OURS (sum and count under one noise, which with a mask
    stands in for trimming, padding and shuffling: ZZ25, Lemma 2.1).
    """

    center: PerColumn
    radius: PublicRadius
    matrix: tuple[Numbers, ...] | None = None
    outside: Annotated[Literal["clip", "mask"], one_of("clip", "mask")] = "clip"
    count_weight: Rational | None = None
    at_least: AtLeast = 1

    if TYPE_CHECKING:  # what ``calibrated_for`` chooses may be left out

        @classmethod
        def for_budget(  # type: ignore[override]
            cls,
            budget: Guarantee,
            /,
            *,
            adjacency: Adjacency,
            nonfinite: Nonfinite = "refuse",
            center: PerColumn,
            radius: PublicRadius = CHOSEN,
            matrix: tuple[Numbers, ...] | None = None,
            outside: Annotated[Literal["clip", "mask"], one_of("clip", "mask")] = "clip",
            count_weight: Rational | None = None,
            at_least: AtLeast = 1,
            second_moment: Exact | None = None,
            n_max: int | None = None,
            outliers: Exact = 0,
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(
        cls,
        budget: Guarantee,
        *,
        adjacency: Adjacency,
        second_moment: Exact | None = None,
        n_max: int | None = None,
        outliers: Exact = 0,
        **parameters: Any,
    ) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        second_moment: in place of the radius, a public bound on E |A (X - center)|^2, where
        nothing else is known of the records. The radius is then the one for which noise and bias
        together are least for about ``n_max`` records, of which a share ``outliers`` may be
        anything. Their error is about sqrt(second_moment / n_max) plus sqrt(second_moment
        (noise + 2 outliers)), where noise is that of radius 1; see ``clipping_bias``.
        """
        if second_moment is not None:
            if "radius" in parameters or n_max is None or parameters.get("outside") == "mask":
                raise ValueError(
                    f"second_moment = {second_moment} chooses a radius for clipping; give n_max "
                    "with it, and neither a radius nor outside='mask'."
                )
            moment, share = _moment(second_moment), _outliers(outliers)
            own = {k: v for k, v in parameters.items() if k not in ("matrix", "at_least")}
            unit = cls.calibrated_for(budget, adjacency=adjacency, radius=1, **own)
            each = exact(unit.expected_error(max(1, whole(n_max, "n_max"))), "noise") + 2 * share
            parameters["radius"] = math.sqrt(to_float(moment / each)) / 2
        elif n_max is not None or outliers != 0:
            raise ValueError(
                f"n_max = {n_max}, outliers = {outliers}: they choose a radius for a second "
                "moment; give second_moment with them, or leave them out."
            )
        elif "radius" not in parameters:
            raise TypeError(
                "ClippedMean needs radius, a public bound on the distance of records from the "
                "center. Where there is none, give second_moment, a public bound on E |X - "
                "center|^2, and n_max, about how many records there are."
            )
        return super(ClippedMean, cls).calibrated_for(budget, adjacency=adjacency, **parameters)

    def clipping_bias(self, second_moment: Exact, *, outliers: Exact = 0) -> float:
        """Bound how far the mean of clipped records is from that of the records, after the matrix.

        second_moment: a bound on E |A (X - center)|^2. outliers: the share of records that may be
        anything on top of that. The bound is second_moment / (4 radius) + 2 radius outliers, which
        some laws attain. Raises ValueError where records outside are left out, for their mean has
        no such bound.
        """
        if self.outside == "mask":
            raise ValueError("outside='mask' leaves records out; this bound is about clipped ones.")
        moment, share = _moment(second_moment), _outliers(outliers)
        radius = exact(self.radius, "radius")
        return to_float(moment / (4 * radius) + 2 * radius * share)

    def check_parameters(self) -> None:
        """Check that the matrix is finite and fits the center, and that the weight is positive
        where the count has noise.
        """
        if self.matrix is not None:
            settle(self, matrix=square_matrix(self.matrix, len(self.center)))
        if self.count_weight is not None:
            if not self._counts_itself():
                raise ValueError(
                    f"count_weight = {self.count_weight}: under replace with outside='clip' the "
                    "count is public and has no weight. Leave it out."
                )
            weight = exact(self.count_weight, "count_weight")
            if not 0 < weight <= 1000:
                raise ValueError(
                    f"count_weight = {self.count_weight} is outside (0, 1000]; try '1'."
                )
            settle(self, count_weight=weight)

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the center, which moves the sum least."""
        return self.center

    def plan(self) -> Plan:
        """Release the sum, together with the count unless that is public."""
        query = OneUnit(self._query(), self._scale())
        if self._counts_itself():
            return (Stage(SUM_AND_COUNT, query, RoundedGaussian(UNIT)),)
        return (Stage(COUNT, Count(), NoNoise()), Stage(SUM, query, RoundedGaussian(UNIT)))

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return center + noisy sum / noisy count, moved into the ball."""
        total, (scale, weight) = self._sum(), self._released()
        if self._counts_itself():
            *released, counted = transcript.numbers(SUM_AND_COUNT)
            count, count_noise = Fraction(counted, UNIT * weight) * scale, scale / weight
        else:
            released = list(transcript.numbers(SUM))
            count, count_noise = Fraction(transcript.number(COUNT)), Fraction(0)
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the released count")
        per_unit = scale / (UNIT * count)
        noisy = [quotient(value * per_unit.numerator, per_unit.denominator) for value in released]
        back = 1.0 if total.matrix is None else inverse(total.matrix)
        with np.errstate(all="ignore"):
            offset = in_ball(noisy, total.radius)
            along = np.ldexp(np.dot(back, offset), total.exponent)
            spread = np.ldexp(back * capped(scale / count), total.exponent)
            value = np.clip(np.array(self.center) + along, -LARGEST_FLOAT, LARGEST_FLOAT)
            from_count = along * capped(count_noise / count)
        width = spread if total.matrix is not None else float(spread)
        own = to_float(count_noise)
        return VectorMeanEstimate(value, to_float(count), width, from_count, count_deviation=own)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n records
        (inside) with a mean at the ball's edge: there the count's noise enters most.

        Elsewhere it is less, by up to the count's part. Infinite below ``at_least`` records.
        """
        if n < self.at_least:
            return math.inf
        scale, total = self._scale(), self._sum()
        count = capped(scale / (self._weight() * n)) if self._counts_itself() else 0.0
        return noise_length(total, capped(scale / n), count * total.radius)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records (inside) abstain with probability at most
        ``beta``.
        """
        allowed = probability(beta, "beta")
        if not self._counts_itself():
            return self.at_least
        noise, per_record = RoundedGaussian(UNIT), self._weight() * UNIT / self._scale()
        return least_counted(self.at_least, per_record, lambda d: noise.falls_short(d, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least`` where the number of records is public (replace, "clip"), else 0."""
        return 0 if self._counts_itself() else self.at_least

    def _counts_itself(self) -> bool:
        return self.outside == "mask" or self.adjacency is Adjacency.ADD_REMOVE

    def _released(self) -> tuple[Fraction, int]:
        """Return the noise scale and the weight of a record in the plan; the weight is 0 where
        the count is public.
        """
        query: Any = self._stage(SUM_AND_COUNT if self._counts_itself() else SUM).query
        return query.scale, getattr(query.query, "weight", 0)

    def _sum(self) -> VectorSum:
        return vector_sum(self.center, exact(self.radius, "radius"), self.matrix)

    def _query(self) -> VectorQuery:
        total = self._sum()
        if self.outside == "mask":
            return _masked_sum(total, self._weight())
        return WithCount(total, self._weight()) if self._counts_itself() else total

    def _scale(self) -> Fraction:
        """Return noise_multiplier times the query's sensitivity, in cells, to 2^-40 of a cell."""
        square = self._sum().radius ** 2
        moved = 4 * square if self.adjacency is Adjacency.REPLACE else 0
        if self._counts_itself():
            moved = max(moved, square + self._weight() ** 2)
        return self.noise_multiplier * root_down(moved, ROOT_BITS)

    def _weight(self) -> int:
        """Return the weight of one record in the joint release of sum and count, in cells."""
        radius = self._sum().radius
        if self.count_weight is None:
            if self.outside == "mask" and self.adjacency is Adjacency.REPLACE:
                return math.isqrt(3 * radius**2)
            return max(1, math.isqrt(math.isqrt(radius**4 // (4 * len(self.center)))))
        weight = max(1, round(self.count_weight * radius))
        if weight > _LARGEST_WEIGHT:
            raise ValueError(
                f"count_weight = {self.count_weight} is too large for this matrix; give at most "
                f"{_LARGEST_WEIGHT // radius}."
            )
        return weight


def _moment(given: Exact) -> Fraction:
    """Read a second moment. Raises TypeError or ValueError."""
    moment = exact(given, "second_moment")
    if moment <= 0:
        raise ValueError(f"second_moment = {given} is not positive; give a bound above 0.")
    return moment


def _outliers(given: Exact) -> Fraction:
    """Read a share below 1/2. Raises TypeError or ValueError."""
    share = exact(given, "outliers")
    if not 0 <= share < Fraction(1, 2):
        raise ValueError(f"outliers = {given} is outside [0, 1/2); try '0.05'.")
    return share


@lru_cache(maxsize=16)
def _masked_sum(total: VectorSum, weight: int) -> MaskedSum:
    return MaskedSum(total.center, total.radius, total.exponent, weight, total.matrix)
