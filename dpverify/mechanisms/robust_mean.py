"""``robust_mean``: the mean of most records, whatever a share of them is."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from scipy.special import chdtri

from dpverify.estimation.budget_shares import (
    ROOT_BITS,
    Tail,
    checked_shares,
    default_tail,
    require_room,
)
from dpverify.estimation.clipping import PerColumn, numbers_of
from dpverify.estimation.column_cuts import OPEN, boxes, half_width, votes_noise
from dpverify.estimation.contamination import (
    HISTOGRAM,
    MOMENTS,
    MOST_RECORDS,
    best_shares,
    check_gamma,
    chosen_full,
    core_of,
    sure_share,
)
from dpverify.estimation.cutting import drawn_response, left_out
from dpverify.estimation.directional_cuts import MOST, MOST_BINS, bins_for, cuts, directions, eigen
from dpverify.estimation.friendly_means import (
    balls,
    bounded_float,
    check_multiplier,
    nearness_of,
    within_reach,
)
from dpverify.estimation.handles import SUM_AND_COUNT
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.grid.farthest_columns import FarthestColumns
from dpverify.grid.linear import Integers
from dpverify.grid.masks import different
from dpverify.grid.nearness import Nearness
from dpverify.grid.region_queries import (
    DIRECTION_BITS,
    PARTS,
    Along,
    MovingHistogram,
    MovingMoments,
    SlabSum,
    histogram_moves,
    part_of,
    reach_of,
)
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcript_queries import MovingSum, Place, weight_of
from dpverify.plans import (
    UNIT,
    Abstained,
    Handle,
    Mechanism,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import (
    CHOSEN,
    Rational,
    flag,
    holding,
    positive,
    probability,
    rational,
    whole_from,
)
from dpverify.privacy import Adjacency, ApproxDP, Guarantee
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.numbers import (
    Exact,
    Floats,
    approximately,
    exact,
    root_up,
    settle,
    to_float,
    whole,
)
from dpverify.randomness.bits import IntArray
from dpverify.transformations.degree_weights import AGREEMENT
from dpverify.transformations.means import MEAN, WeightedCoreMean
from dpverify.transformations.soft_core import checked_full

MOMENTS_STAGE, HISTOGRAM_STAGE = Handle("moments"), Handle("histogram")
VOTES_STAGE = Handle("votes")
_LARGEST_DEVIATION = 1 << 30  # in parts of a bin; slabs are never that wide
_UNSURE = 0.001  # the certificate may fail with this probability, twice
_QUANTILE = 3.1  # above the normal quantile at 1 - _UNSURE
_LEAST_NOISE, _MOST_NOISE = Fraction(1, 16), 1 << 44
_LEAST_DRAWN = Fraction(1, 64)  # with less, records would be rounded to nothing
_DRAWN = rational(
    lambda share: _LEAST_DRAWN <= share <= 1, ": give a share of the radius, from 1/64 to 1."
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class RobustMeanEstimate(VectorMeanEstimate):
    """A private mean, with what is known of how far outliers may have moved it.

    slabs: number of directions and columns that were cut.
    certificate: in deviations, a bound on the distance between the mean of the averaged records
    and the mean of the inliers among them, for at most a share gamma of outliers among them. It
    fails with probability at most 1 / 500, over the noise alone. None without second moments or
    with too few records; where so few are left that the first mean is released, too.
    deviations: public, of the columns.
    """

    slabs: int = 0
    certificate: float | None = field(default=None, repr=False)
    deviations: tuple[float, ...] = field(default=(), repr=False, kw_only=True)

    def outliers_interval(
        self, level: Exact = 0.95, *, simultaneous: bool = False
    ) -> tuple[Floats, Floats] | None:
        """Compute (low, high), each of shape (d,), that holds the mean of the averaged inliers.

        It is ``interval``, at a level that is higher by the certificate's 1 / 500, with the
        certificate added on either side. None without a certificate, and for a level of 0.998 or
        more. Raises TypeError or ValueError for a level outside (0, 1).
        """
        rest = holding(level, "level") + 2 * exact(_UNSURE, "unsure")
        if self.certificate is None or rest >= 1:
            return None
        low, high = self.interval(rest, simultaneous=simultaneous)
        moved = self.certificate * np.array(self.deviations)
        return low - moved, high + moved


def _full(value: Any, name: str) -> Fraction:
    return checked_full(exact(value, name))


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustMean(Mechanism[RobustMeanEstimate]):
    """The mean of vectors of known spread, a share of which may be anything; no bound on where it
    is.

    The mean of records that agree is a center; outliers far from it have no friends and no
    weight. Second moments of the records in a ball about the center show the directions in which
    other outliers hide; histograms along these directions show where to cut them off. Records
    vote for the column in which they are farthest from the center; columns with too many votes
    are cut at 11/4 deviations. The remaining records are summed and counted under one noise.

    Data: shape (n, d), within 2^19 radii of zero (else clamped). Output: ``RobustMeanEstimate``,
    or ``Abstained`` when too few records agree.
    deviations: public standard deviations of the inliers' columns.
    radius: the largest distance between inliers, but for a few pairs; record_radius: the largest
    distance of inliers from their mean. Both are in deviations, over all columns together.
    gamma: the share of outliers that is allowed for; below 0.1909 for degree weights, 0.3169 for
    full = 3/4.
    full: None for degree weights: inliers that are all friends agree to n (1 - 6 gamma + 4
    gamma^2), which is 0 at gamma = 0.191. Under replace also a share of all records, above 1/2:
    with that many friends a record counts in full (soft core), and inliers agree to n (1 - 2
    gamma) if full <= 1 - gamma. Theorems in spec/theory/outliers.py.
    directions: number of directions to look at; 0 saves their cost. bins: number of bins of each
    direction's histogram.
    votes: whether columns are voted for. Votes assume normal inliers in every column, as
    directions do.
    drawn: the share of the ball's radius to which its records are drawn in for the moments and
    the sum, which then have that much less noise. Below 1, inliers are taken to be normal: the
    mean of drawn-in records is a known factor of the mean of all, and is divided by it.
    shares: the parts of mu^2 for the center, the moments and the histograms if there are
    directions, the votes if there are any, and the sum. n_max, tail: as for ``RescaledMean``.
    Claim: approximate GDP of mu = 1 / noise_multiplier, up to the grid's rounding, and
    delta = tail, for all data.
    Errors: TypeError or ValueError for parameters, for data of another shape, and under replace
    for fewer records than any center needs.
    Source: OURS; DKKLMS19 (spectral filter), BHS23 (weights by agreement).
    """

    deviations: PerColumn
    radius: Annotated[float, positive(as_given=True)]
    record_radius: Annotated[float, positive(as_given=True)]
    n_max: Annotated[int, whole_from(1, most=MOST_RECORDS)]
    tail: Tail
    gamma: Annotated[Rational, exact] = Fraction(1, 10)
    full: Annotated[Rational, _full] | None = None
    directions: Annotated[int, whole] = 2
    bins: Annotated[int, whole_from(2, most=MOST_BINS)] = 24
    shares: tuple[Rational, ...] = (Fraction(1, 5), MOMENTS, HISTOGRAM, Fraction(9, 20))
    votes: Annotated[bool, flag] = False
    drawn: Annotated[Rational, _DRAWN] = Fraction(1)

    def check_parameters(self) -> None:
        """Check for positive deviations and radii, a gamma that leaves agreement, an even number
        of bins, and shares of sum 1.
        """
        with np.errstate(all="ignore"):
            scales = 1 / np.array(self.deviations, np.float64)
        if not self.deviations or not (np.isfinite(scales) & (scales > 0)).all():
            raise ValueError(
                "deviations: give one positive number a column, whose inverse is a float too."
            )
        d = len(self.deviations)
        why = f"; give an integer from 0 to {d}, the number of columns."
        whole_from(0, why, most=d)(self.directions, "directions")
        if self.bins % 2:
            raise ValueError(f"bins = {self.bins} is odd; give an even number, half for each side.")
        self._check_fractions()

    def _check_fractions(self) -> None:
        check_multiplier(self, "noise_multiplier")
        if self.full is not None and self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"full = {self.full} under {self.adjacency}: a soft core has bounds for replace "
                "only; leave it out for degree weights."
            )
        check_gamma(self.gamma, self.full)
        number = (4 if self.directions else 2) + self.votes
        settle(self, shares=checked_shares(self.shares, number))
        counts = [self._histogram_noise()] if self.directions else []
        if max([*counts, *([self._votes_noise()] if self.votes else [])], default=0) > _MOST_NOISE:
            raise ValueError(
                f"noise_multiplier = {approximately(self.noise_multiplier)} asks for more noise on "
                "each count than 2^44 records; give a larger budget, or directions = 0 and votes = "
                "False."
            )

    if TYPE_CHECKING:  # what ``calibrated_for`` chooses may be left out

        @classmethod
        def for_budget(  # type: ignore[override]
            cls,
            budget: Guarantee,
            /,
            *,
            adjacency: Adjacency,
            nonfinite: Nonfinite = "refuse",
            deviations: PerColumn,
            radius: Annotated[float, positive(as_given=True)] = CHOSEN,
            record_radius: Annotated[float, positive(as_given=True)] = CHOSEN,
            n_max: Annotated[int, whole_from(1, most=MOST_RECORDS)],
            tail: Tail = CHOSEN,
            gamma: Annotated[Rational, exact] = Fraction(1, 10),
            full: Annotated[Rational, _full] | None = CHOSEN,
            directions: Annotated[int, whole] = CHOSEN,
            bins: Annotated[int, whole_from(2, most=MOST_BINS)] = CHOSEN,
            shares: tuple[Rational, ...] = CHOSEN,
            votes: Annotated[bool, flag] = CHOSEN,
            drawn: Annotated[Rational, _DRAWN] = CHOSEN,
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        Parameters that are left out are chosen for normal inliers, n_max records and gamma:
        radius, record_radius: 1 in 50 pairs, and 1 in 200 records, exceed them. tail: a tenth of
        delta.
        directions: none where n_max records would not show outliers at half the radius.
        votes: taken where they would show a quarter of the outliers in one of 8 columns or more.
        bins: of about one deviation at most.
        shares: the center's share is the one of least noise at the end.
        full: the one of ``FULL`` that leaves the center the least noise if all inliers are
        friends.
        drawn: the share of least error; 1 where a record_radius or directions = 0 is given.
        """
        if "deviations" not in parameters or "n_max" not in parameters:
            raise TypeError(
                "RobustMean needs deviations, a public standard deviation of each column's typical "
                "records, and n_max, about how many records there are: deviations=[1.0, 1.0], "
                "n_max=1000."
            )
        d = len(numbers_of(parameters["deviations"], "deviations"))
        as_normal = "record_radius" not in parameters and parameters.get("directions") != 0
        parameters.setdefault("radius", math.sqrt(2 * chdtri(d, 0.02)) if d else 1.0)
        parameters.setdefault("record_radius", math.sqrt(chdtri(d, 0.005)) if d else 1.0)
        parameters.setdefault("bins", bins_for(exact(parameters["record_radius"], "record_radius")))
        if "tail" not in parameters:
            parameters["tail"] = default_tail(budget, adjacency, "weights")
        elif isinstance(budget, ApproxDP):
            require_room(exact(parameters["tail"], "tail"), budget, adjacency, "weights")
        gamma = exact(parameters.get("gamma", Fraction(1, 10)), "gamma")
        parameters.setdefault("full", chosen_full(adjacency, gamma))
        if "shares" not in parameters:
            trial = cls(
                adjacency=adjacency,
                noise_multiplier=Fraction(1),
                **{**parameters, "directions": 0, "votes": False, "shares": (Fraction(1, 2),) * 2},
            )

            def center(n: int, multiplier: Fraction, part: Fraction) -> tuple[bool, float]:
                made = replace(trial, n_max=n, noise_multiplier=multiplier, shares=(part, 1 - part))
                core = made.core()
                noise = core.expected_noise(core.n_max) * to_float(exact(made.radius, "radius"))
                reach = math.hypot(made.record_radius, noise * math.sqrt(made.columns()))
                return made.minimum_n() > n, reach

            chosen = best_shares(
                budget,
                center,
                tail=trial.tail,
                gamma=trial.gamma,
                columns=trial.columns(),
                n_max=trial.n_max,
                adjacency=adjacency,
                directions=parameters.get("directions"),
                votes=parameters.get("votes"),
                record_radius=trial.record_radius if as_normal else None,
            )
            parameters = {**chosen, "drawn": parameters.get("drawn", chosen["drawn"])} | {
                k: v for k, v in parameters.items() if k not in chosen
            }
        return super(RobustMean, cls).calibrated_for(budget, adjacency=adjacency, **parameters)

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.deviations)

    def plan(self) -> Plan:
        """Release the mean of those who agree, second moments, histograms, votes, and the sum
        between slabs.
        """
        total = Stage(SUM_AND_COUNT, self._sum(), RoundedGaussian(UNIT))
        votes: tuple[Stage, ...] = ()
        if self.votes:
            asked = FarthestColumns(self._nearness(), self._place())
            votes = (Stage(VOTES_STAGE, asked, RoundedGaussian(self._votes_noise())),)
        if not self.directions:
            return (*self.core().plan, *votes, total)
        histogram = MovingHistogram(
            self._nearness(), self.bins, self.directions, self._place(), self._directed()
        )
        return (
            *self.core().plan,
            Stage(MOMENTS_STAGE, self._moments(), RoundedGaussian(UNIT)),
            Stage(HISTOGRAM_STAGE, histogram, RoundedGaussian(self._histogram_noise())),
            *votes,
            total,
        )

    def core(self) -> WeightedCoreMean:
        """Return the center's part, with the share that inliers are sure to agree to."""
        expected = max(1, math.floor(self.n_max * sure_share(self.gamma, self.full)))
        own = self._nearness(), self._multiplier(0), expected, self.tail
        return core_of(self.adjacency, *own, self.full)

    def estimate(self, transcript: Transcripts) -> RobustMeanEstimate | Abstained:
        """Return center + noisy sum / noisy number; the center alone for too small a number."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        points, radii = self._places(transcript)
        radius, point = int(radii[0]), points[0].astype(np.float64)
        scale = min(to_float(self._sum().unit(radius)), MOST)
        *moved, counted = (
            bounded_float(v) * scale / 2.0**40 for v in transcript.numbers(SUM_AND_COUNT)
        )
        weight = weight_of(reach_of(radius, self.drawn))
        number, agreed = counted / weight, float(transcript.number(AGREEMENT))
        if number < agreed / 4:  # the center is far from the data, or the radius too small
            noise = min(to_float(self.core().noise_of(transcript)), MOST)
            value, spread = self._back(point), self._back(np.full_like(point, noise))
            cut, own = self._cut(transcript, self._slabs(transcript)[1]), self.deviations
            return RobustMeanEstimate(value, agreed, spread, 0 * value, cut, deviations=own)
        followed = number * self._response(radius)
        step = np.clip(np.array(moved) / followed, -MOST, MOST)
        off = scale / weight
        widths = self._slabs(transcript)[1]
        certificate = self._certified(transcript, radius, number - _QUANTILE * off)
        return RobustMeanEstimate(
            self._back(point + step),
            number,
            self._back(np.full_like(point, scale / followed)),
            self._back(step) * (off / number),
            self._cut(transcript, widths),
            certificate,
            count_deviation=off,
            deviations=self.deviations,
            cut=self._back(self._left_out(transcript, widths[0], radius, number, step)),
        )

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n inliers
        that are all friends and within the ball about the center.

        Infinite where too few agree. The number's noise, which moves the mean by its part of the
        center's error, is left out.
        """
        core = self.core()
        if not math.isfinite(core.expected_noise(n)):
            return math.inf
        share = exact(self.record_radius, "record_radius") / exact(self.radius, "radius")
        radius = balls(core, share, [n - core.shift])[0][1]
        noise = min(to_float(self._sum().unit(radius)), MOST) / self._response(radius)
        return float(np.linalg.norm(self._back(np.full(self.columns(), noise / n))))

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records, all but a share gamma of them friends of each
        other, abstain with probability at most ``beta``.
        """
        allowed = probability(beta, "beta")
        rounding = 0 if self.full is None else 2 / (2 * self.full - 1)
        least = self.core().minimum_n(allowed) + rounding
        return math.ceil(least / sure_share(self.gamma, self.full))

    def fewest_records(self) -> int:
        """Return the fewest records accepted under replace: with fewer, even if all are equal,
        999 of 1000 releases would abstain.
        """
        return self.core().minimum_n(Fraction(999, 1000))

    # --- stages -----------------------------------------------------------------------------------

    def _nearness(self) -> Nearness:
        return nearness_of(self.deviations, exact(self.radius, "radius"))

    def _multiplier(self, part: int) -> Fraction:
        """Return noise_multiplier / sqrt(share); part: the index of the share, -1 for the last."""
        return self.noise_multiplier * root_up(1 / self.shares[part], ROOT_BITS)

    def _moments(self) -> MovingMoments:
        spread = self._multiplier(1)
        return MovingMoments(self._nearness(), spread, self.adjacency, self._place(), self.drawn)

    def _histogram_noise(self) -> Fraction:
        """Return the noise scale of a bin; at least a sixteenth of a record, for which there is a
        sampler.
        """
        square = histogram_moves(self.directions, self.adjacency)
        return max(_LEAST_NOISE, self._multiplier(2) * root_up(square, ROOT_BITS))

    def _votes_noise(self) -> Fraction:
        """Return the noise scale of a column's count."""
        return votes_noise(self._multiplier(-2), histogram_moves(1, self.adjacency), ROOT_BITS)

    def _sum(self) -> MovingSum:
        shared = self._nearness(), self._multiplier(-1), self.adjacency, self._place()
        if not self.directions and not self.votes and self.drawn == 1:
            return MovingSum(*shared)
        seen = (AGREEMENT, HISTOGRAM_STAGE) if self.directions else (AGREEMENT,)
        box = Released((VOTES_STAGE,), self._box) if self.votes else None
        slabs = Released(seen, self._slabs)
        return SlabSum(*shared, self.bins, self._directed(), slabs, box, self.drawn)

    # --- what was released decides ----------------------------------------------------------------

    def _place(self) -> Place:
        return Released((AGREEMENT, MEAN), self._places)

    def _directed(self) -> Along:
        return Released((MOMENTS_STAGE,) if self.directions else (AGREEMENT,), self._along)

    def _places(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return the centers and radii of the balls, in cells."""
        units, radii, which = self._balls(batch)
        return within_reach(rounded_multiples(batch[MEAN], units, which)), radii

    def _balls(self, batch: Transcripts) -> tuple[list[Fraction], Integers, IntArray]:
        """Return the distinct units of centers in cells, the radii, and which unit each
        draw has.
        """
        share = exact(self.record_radius, "record_radius") / exact(self.radius, "radius")
        agreed, which = different(batch[AGREEMENT][:, 0])
        known = balls(self.core(), share, agreed.tolist())
        return [unit for unit, _ in known], np.array([r for _, r in known], np.int64)[which], which

    def _along(self, batch: Transcripts) -> Integers:
        """Return the directions, by the released second moments."""
        if not self.directions:
            return np.zeros((len(batch), 0, self.columns()), np.int64)
        return directions(batch[MOMENTS_STAGE], self.columns(), self.directions)

    def _slabs(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return the slabs' middles and half widths, by the released histograms."""
        if not self.directions:
            return (np.zeros((len(batch), 0), np.int64),) * 2
        radii, which = different(self._balls(batch)[1])
        unit = Fraction(2) ** (DIRECTION_BITS - self._nearness().exponent)
        known = [math.floor(unit / part_of(int(radius), self.bins)) for radius in radii]
        deviation = np.array([min(k, _LARGEST_DEVIATION) for k in known], np.int64)[which]
        counts = batch[HISTOGRAM_STAGE].reshape(-1, self.bins)
        repeated = np.repeat(deviation, self.directions)
        shape = len(batch), self.directions
        middles, halves = cuts(counts, repeated, self._histogram_noise())
        return middles.reshape(shape), halves.reshape(shape)

    def _box(self, batch: Transcripts) -> Integers:
        """Return the half widths of the columns, by the released votes."""
        half = half_width(self._nearness().exponent)
        return boxes(batch[VOTES_STAGE], self._votes_noise(), self.gamma, half)

    def _certified(self, batch: Transcripts, radius: int, number: float) -> float | None:
        """Compute the certificate. The spec has the proof (certificate)."""
        if not self.directions:
            return None
        largest = float(eigen(batch[MOMENTS_STAGE], self.columns())[0][0, -1])
        room = math.sqrt(2 * self.columns()) + math.sqrt(-2 * math.log(_UNSURE))
        if number <= 0:
            return None
        noise = min(to_float(self._moments().unit(radius)), MOST)
        variance = max(0.0, largest / 2.0**40 + room * 1.001) * noise / number
        cells = math.sqrt(float(self.gamma / (1 - self.gamma)) * variance) / self._response(radius)
        with np.errstate(all="ignore"):  # at the ends of the floats: infinity, or the least number
            certificate = float(np.ldexp(cells, self._nearness().exponent))
        return max(certificate, math.ulp(0.0)) if cells else 0.0

    def _cut(self, batch: Transcripts, widths: Integers) -> int:
        """Count the directions and columns that were cut; widths: of the slabs."""
        columns = int((self._box(batch) < OPEN).sum()) if self.votes else 0
        return columns + int((widths < self.bins * PARTS).sum())

    def _left_out(
        self, batch: Transcripts, widths: Integers, radius: int, number: float, step: Floats
    ) -> Floats:
        """Predict, in cells, what leaving out records beyond the ball and the slabs adds to the
        error.
        """
        exponent = self._nearness().exponent
        cut = widths < self.bins * PARTS
        per = part_of(radius, self.bins) * 2.0**-DIRECTION_BITS
        halves = np.ldexp(widths[cut] * per, exponent)
        axes = self._along(batch)[0][cut] * 2.0**-DIRECTION_BITS
        if self.votes:
            box = self._box(batch)[0]
            (named,) = np.nonzero(box < OPEN)
            halves = np.append(halves, np.ldexp(box[named].astype(np.float64), exponent))
            axes = np.vstack([axes, np.zeros((len(named), len(step)))])
            axes[len(axes) - len(named) + np.arange(len(named)), named] = 1
        with np.errstate(all="ignore"):
            length = float(np.ldexp(float(radius), exponent))
            own = self._drawn_in(radius)
            missing = left_out(self.columns(), length, halves.tolist(), axes, own)
            deviation = missing.deviation(number, np.ldexp(step, exponent))
            return np.asarray(np.ldexp(deviation, -exponent))

    def _drawn_in(self, radius: int) -> tuple[float, float] | None:
        """Give ``drawn_response`` for this ball; None where nobody is drawn in.

        The ball's radius is that of records and the center's distance from their mean, in
        quadrature.
        """
        if self.drawn == 1:
            return None
        exponent, own = self._nearness().exponent, exact(self.record_radius, "record_radius")
        cell = Fraction(2) ** exponent
        square = (radius * cell) ** 2 - own**2
        offset = to_float(root_up(max(square, Fraction(0)), ROOT_BITS))
        length, reach = (to_float(own * cell) for own in (radius, reach_of(radius, self.drawn)))
        return drawn_response(self.columns(), length, reach, offset)

    def _response(self, radius: int) -> float:
        """Give what the mean of normal records that are drawn in is over that of all; 1 where
        nobody is."""
        response = self._drawn_in(radius)
        return 1.0 if response is None else response[0]

    def _back(self, cells: Floats) -> Floats:
        """Convert cells to the data's units."""
        with np.errstate(all="ignore"):
            values = np.ldexp(cells, self._nearness().exponent) * np.array(self.deviations)
        return np.asarray(values)
