"""``robust_mean``: the mean of most records, whatever a share of them is."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
import scipy

from dpverify.estimation.budget_shares import (
    Tail,
    default_tail,
    require_room,
)
from dpverify.estimation.clipping import PerColumn, numbers_of
from dpverify.estimation.column_cuts import OPEN
from dpverify.estimation.contamination import (
    MOST_RECORDS,
    best_shares,
    chosen_full,
    sure_share,
)
from dpverify.estimation.directional_cuts import MOST, MOST_BINS, bins_for
from dpverify.estimation.friendly_means import (
    balls,
)
from dpverify.estimation.ratio_errors import noisy_integers, ratio_square
from dpverify.estimation.results import RobustMeanEstimate
from dpverify.estimation.robust_errors import RobustErrors
from dpverify.estimation.robust_parameters import (
    DRAWN,
    MOST_ROUNDS,
    check_looks,
    full_share,
)
from dpverify.estimation.robust_regions import (
    HISTOGRAM_STAGE,
    INNER_STAGE,
    MOMENTS_STAGE,
    VOTES_STAGE,
)
from dpverify.grid.farthest_columns import FarthestColumns
from dpverify.grid.region_queries import (
    MovingHistogram,
    reach_of,
)
from dpverify.grid.transcript_queries import weight_of
from dpverify.plans import (
    UNIT,
    Abstained,
    Plan,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import (
    CHOSEN,
    Rational,
    flag,
    positive,
    probability,
    whole_from,
)
from dpverify.privacy import Adjacency, ApproxDP, Guarantee
from dpverify.privacy.adjacency import Nonfinite
from dpverify.privacy.numbers import (
    Exact,
    Floats,
    exact,
    to_float,
    whole,
)
from dpverify.transformations.degree_weights import AGREEMENT, LEAST

_QUANTILE = 3.1  # above the normal quantile at 1 - UNSURE


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustMean(RobustErrors):
    """The mean of vectors of known spread, a share of which may be anything; no bound on where it
    is.

    The mean of records that agree is a center; outliers far from it have no friends and no
    weight. Second moments of the records in a ball about the center show the directions in which
    other outliers hide; histograms along these directions, or second moments once more within
    them, show where to cut them off. Records
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
    inner: 0 for histograms; else second moments are released once more, along so many directions of
    the first ones, and show up to ``directions`` of them (at most 3, fewer than inner) that are cut
    at 5/2 deviations. In many columns these show more than histograms do.
    rounds: number of rounds in which the sum is released, each with the same part of its share; 1
    for one sum. Several need inner moments, and are for outliers close to the inliers on one side
    of one direction, whom no cut tells apart. Where inner moments show one direction alone, and
    votes cut no column, a signed count along it tells the side. Then each round releases the sums
    of two slices, from which the next one's direction follows; a fit of normal inliers and a share
    gamma of outliers is the estimate, and records are drawn in to 9/16 of the radius, if at all.
    Elsewhere rounds add up to one sum. Take 4 in 50 columns or more where such outliers are likely:
    for a tenth at 3/2 to 3 deviations, among 10^4 records of 50 columns, the error is 0.12 in place
    of 0.23. Give ``inner`` too where ``for_budget`` does not choose it: for a small n_max, gamma =
    0, given shares or directions, or fewer columns. Other data have about 1% more, but a few in a
    hundred skewed or symmetric ones are taken for one-sided, at twice the error. In fewer columns
    inner moments may show less than histograms, which have no rounds.
    votes: whether columns are voted for. Votes assume normal inliers in every column, as
    directions do. Of correlated inliers the ball and inner moments cut long axes too; histograms do
    where their quartiles are no farther apart than a share gamma of outliers explains. ``cut`` of
    the result counts that, for normal inliers of the covariance that the second moments show.
    Without directions it is, if that is more, for one correlation of all columns: the largest with
    which as many records agree as were released, up to a standard deviation of noise.
    drawn: the share of the ball's radius to which its records are drawn in for the moments and
    the sum, which then have that much less noise. Below 1, inliers are taken to be normal: the
    mean of drawn-in records is a known factor of the mean of all, and is divided by it.
    shares: the parts of mu^2 for the center, the moments and the histograms (or inner moments) if
    there are directions, the votes if there are any, the signed count if there are rounds, and the
    sum. n_max, tail: as for ``RescaledMean``.
    Claim: approximate GDP of mu = 1 / noise_multiplier, up to the grid's rounding, and
    delta = tail, for all data.
    Errors: TypeError or ValueError for parameters, for data of another shape, and under replace
    for fewer records than any center needs.
    Source: OURS; DKKLMS19 (spectral filter), BHS23 (weights by agreement).
    """

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
            full: Annotated[Rational, full_share] | None = CHOSEN,
            directions: Annotated[int, whole] = CHOSEN,
            bins: Annotated[int, whole_from(2, most=MOST_BINS)] = CHOSEN,
            shares: tuple[Rational, ...] = CHOSEN,
            votes: Annotated[bool, flag] = CHOSEN,
            drawn: Annotated[Rational, DRAWN] = CHOSEN,
            inner: Annotated[int, whole] = CHOSEN,
            rounds: Annotated[int, whole_from(1, most=MOST_ROUNDS)] = CHOSEN,
        ) -> Self:
            """Make the mechanism with the least noise for the budget; see ``calibrated_for``."""

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Build the mechanism with the least noise whose claim is ``budget``, on the safe side.

        Parameters that are left out are chosen for normal inliers, n_max records and gamma. Where
        shares are given, directions, inner, votes and drawn are those of the class instead.
        radius, record_radius: 1 in 50 pairs, and 1 in 200 records, exceed them. tail: a tenth of
        delta.
        directions: none where n_max records would not show outliers at half the radius.
        inner: 10 in 50 columns or more, where directions are neither given nor none; else 0.
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
        looks = {name: parameters.get(name) for name in ("directions", "inner")}
        check_looks(d, **looks)
        rounds = whole_from(1, most=MOST_ROUNDS)(parameters.get("rounds", 1), "rounds")
        as_normal = "record_radius" not in parameters and parameters.get("directions") != 0
        parameters.setdefault("radius", math.sqrt(2 * scipy.special.chdtri(d, 0.02)) if d else 1.0)
        parameters.setdefault(
            "record_radius", math.sqrt(scipy.special.chdtri(d, 0.005)) if d else 1.0
        )
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
                **{
                    **parameters,
                    "directions": 0,
                    "inner": 0,
                    "rounds": 1,
                    "votes": False,
                    "shares": (Fraction(1, 2),) * 2,
                },
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
                **looks,
                votes=parameters.get("votes"),
                rounds=rounds,
                record_radius=trial.record_radius if as_normal else None,
            )
            parameters = {**chosen, "drawn": parameters.get("drawn", chosen["drawn"])} | {
                k: v for k, v in parameters.items() if k not in chosen
            }
        return super(RobustMean, cls).calibrated_for(budget, adjacency=adjacency, **parameters)

    def plan(self) -> Plan:
        """Release the mean of those who agree, second moments, histograms, votes, and the sum
        between slabs.
        """
        total = self._last_stages()
        votes: tuple[Stage, ...] = ()
        if self.votes:
            asked = FarthestColumns(self._nearness(), self._place())
            votes = (Stage(VOTES_STAGE, asked, RoundedGaussian(self._votes_noise())),)
        if not self.directions:
            return (*self.core().plan, *votes, *total)
        moments = Stage(MOMENTS_STAGE, self._moments(), RoundedGaussian(UNIT))
        return (*self.core().plan, moments, self._second_look(), *votes, *total)

    def _second_look(self) -> Stage:
        """Return the stage that shows where to cut along the moments' directions."""
        if self.inner:
            return Stage(INNER_STAGE, self._inner_moments(), RoundedGaussian(UNIT))
        histogram = MovingHistogram(
            self._nearness(), self.bins, self.directions, self._place(), self._directed()
        )
        return Stage(HISTOGRAM_STAGE, histogram, RoundedGaussian(self._histogram_noise()))

    def estimate(self, transcript: Transcripts) -> RobustMeanEstimate | Abstained:
        """Return center + noisy sum / noisy number; the center alone for too small a number."""
        if transcript.stopped is not None:
            return Abstained(transcript.stopped)
        transcript = replace(transcript, known={})  # what follows from it is computed once
        points, radii = self._places(transcript)
        ball, point = int(radii[0]), points[0].astype(np.float64)
        radius = int(self._last_radii(transcript, radii)[0])
        if self.rounds > 1 and self._sliced(transcript)[0]:
            return self._of_slices(transcript, point)
        scale = min(to_float(self._sum().unit(radius)), MOST)
        *moved, counted = (v * scale for v in self._total(transcript))
        scale /= math.sqrt(self.rounds)
        weight = weight_of(reach_of(radius, self.drawn))
        number, agreed = counted / weight, float(transcript.number(AGREEMENT))
        if number < agreed / 4:  # the center is far from the data, or the radius too small
            noise = min(to_float(self.core().noise_of(transcript)), MOST)
            value, spread = self._back(point), self._back(np.full_like(point, noise))
            cut, own = self._cut(transcript, self._slabs(transcript)[1]), self.deviations
            return RobustMeanEstimate(
                value, agreed, spread, np.zeros_like(value), cut, deviations=own
            )
        followed = number * self._response(ball, radius)
        step = np.clip(np.array(moved) / followed, -MOST, MOST)
        off = scale / weight
        widths = self._slabs(transcript)[1]
        certificate = self._certified(transcript, ball, radius, number - _QUANTILE * off)
        left_out = self._left_out(transcript, widths[0], (ball, radius), (number, off), step)
        return RobustMeanEstimate(
            self._back(point + step),
            number,
            self._back(np.full_like(point, scale / followed)),
            self._back(step) * (off / number),
            self._cut(transcript, widths),
            certificate,
            count_deviation=off,
            deviations=self.deviations,
            cut=self._back(left_out),
        )

    def _of_slices(self, transcript: Transcripts, point: Floats) -> RobustMeanEstimate:
        """Return the fitted mean of slices."""
        fitted, number, off = self._last_fit(transcript)
        cells = math.ldexp(1.0, -self._nearness().exponent)
        more = fitted.deviations()[0] ** 2 - fitted.noise[0] ** 2
        cut = np.sqrt(np.maximum(more, 0))
        columns = int((self._box(transcript) < OPEN).sum()) if self.votes else 0
        return RobustMeanEstimate(
            self._back(point + fitted.mean[0] * cells),
            number,
            self._back(np.full_like(point, fitted.noise[0] * cells)),
            np.zeros_like(point),
            columns + 1,
            count_deviation=off,
            deviations=self.deviations,
            cut=self._back(cut * cells),
        )

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n inliers
        that are all friends and within the ball about the center.

        Infinite where too few agree. The noise of the agreement, of the center and of the number
        is averaged over; what is left out of normal records is not counted.
        """
        core = self.core()
        if not math.isfinite(core.expected_noise(n)):
            return math.inf
        known = noisy_integers(n - core.shift, to_float(core.noise.scale), LEAST)
        square = sum(share * self._square_after(agreed, n) for agreed, share in known)
        return float(np.linalg.norm(self._back(np.full(self.columns(), math.sqrt(square)))))

    def _square_after(self, agreed: int, n: int) -> float:
        """Predict the square of a column's noise, in cells, after this released agreement."""
        share = exact(self.record_radius, "record_radius") / exact(self.radius, "radius")
        ((unit, radius),) = balls(self.core(), share, [((AGREEMENT, agreed),)])
        center = min(to_float(unit * UNIT), MOST)
        noise = min(to_float(self._sum().unit(radius)), MOST) / math.sqrt(self.rounds) / n
        part = noise / weight_of(reach_of(radius, self.drawn))
        return ratio_square(noise / self._response(radius, radius), part, center, agreed / n / 4)

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
