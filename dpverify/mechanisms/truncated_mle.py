"""``truncated_mle``: the parameter of any one-parameter exponential family, from clipped or
truncated records.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Annotated, Literal

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.family_estimates import FamilyEstimate
from dpverify.estimation.family_frames import (
    Frame,
    best_frame,
    edges_in,
    law_in,
    steepness,
)
from dpverify.estimation.family_search import FINE, FamilyMean
from dpverify.estimation.gradient_steps import (
    Descent,
    cut_number,
    descend,
    list_size,
    middle_of,
    widening,
)
from dpverify.estimation.handles import COUNT
from dpverify.estimation.stepped import CELLS, SteppedMean
from dpverify.estimation.whitening import count_of, octave_of
from dpverify.families.roots import root_in
from dpverify.grid.linear import Integers
from dpverify.grid.masks import Row
from dpverify.plans import Abstained, Adaptive, Part, Plan, Released, Transcripts
from dpverify.plans.parameters import MOST_LEAST, one_of, whole_from
from dpverify.privacy.numbers import root_up, to_float

_NEAR = 8  # solve for the parameter within this many deviations of where the search ended
_USUAL_STEPS, _MOST_STEPS, _MOST_RUNS = 10, 1000, 1000
_MOST_SUMS = 10_000  # each is a stage of its own
_NEAR_SHARE = 0.25  # the share of records inside is taken within this many units of the search


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncatedMle(FamilyMean):
    """The parameter of a one-parameter exponential family: Poisson, log-normal, continuous
    Bernoulli, or a family of your own.

    A noisy binary search finds the median of the records, as the parameter whose law has it. Then
    the mean of the family's statistic T is released once, of records clipped to an interval about
    the mean under that parameter, or (with a mask) of the records inside alone. It is solved for
    the parameter for which the clipped or truncated law has that mean: of truncated records this
    is the maximum likelihood estimate. The interval's length balances noise and sampling for the
    number of records.

    Data: one column, shape (n,) or (n, 1). Output: ``FamilyEstimate``; ``Abstained`` below
    ``at_least`` records and for a mean that no parameter near the searched one has.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data, whatever their law; no delta. No code of the family runs on data: records are
    compared with released numbers.
    family: of ``dpverify.families``, or your own ``Family``; ``check_family`` says which
    assumptions of the theory it keeps.
    lowest, highest: a public range of the parameter; the search's steps grow with its logarithm.
    The estimate is inside.
    outside: "clip" for records as they are; "mask" for records of which only some were ``kept``,
    where clipping is biased.
    kept: with "mask", the public interval of records that were kept, for example (0, 250_000).
    method: "statistic" is the method above. "gradient", with "mask" alone, releases ``steps``
    noisy gradients of the likelihood, of a list of records inside the interval, filled up with
    public ones where there are too few. With ``runs`` > 1 it works on as many disjoint chunks of
    the list, at no cost in privacy, and takes the median of their results. Under replace, with
    one run, it is as accurate as "statistic" to a tenth; under add-remove its noise is twice
    that. It is kept to compare with what is published.
    search_share: the part of mu^2 for the median.
    at_least: abstain below this released (or public) number; by default 60 noise multipliers
    under replace and 30 under add-remove; for gradients 60 times ``runs``.
    Errors: TypeError or ValueError for parameters and for data that are not a real column.
    Source: ZZ25, Algorithm 3.1 and Theorem 3.1 (truncated maximum likelihood; here by one
    release); OURS (clipped moments).
    """

    method: Annotated[Literal["statistic", "gradient"], one_of("statistic", "gradient")] = (
        "statistic"
    )
    steps: Annotated[int, whole_from(1, most=_MOST_STEPS)] = _USUAL_STEPS
    runs: Annotated[int, whole_from(1, most=_MOST_RUNS)] = 1

    def check_parameters(self) -> None:
        """Check that the family has the range, of not too many deviations, and the records'
        interval, and that the parameters are of one method.
        """
        if self.method == "statistic" and (self.steps, self.runs) != (_USUAL_STEPS, 1):
            raise ValueError(
                f"steps = {self.steps}, runs = {self.runs} are about gradients; write "
                "method='gradient', or leave them out."
            )
        if self.method == "gradient" and self.outside == "clip":
            raise ValueError(
                "method = 'gradient' follows the likelihood of records inside an interval; write "
                "outside='mask' with it."
            )
        if self.steps * self.runs > _MOST_SUMS:
            raise ValueError(
                f"steps = {self.steps}, runs = {self.runs}: {self.steps * self.runs} sums to "
                f"release; give at most {_MOST_SUMS} together."
            )
        FamilyMean.check_parameters(self)

    def plan(self) -> Plan:
        """Release the number, the search, and the statistics; or sums of these over a list, one
        for each gradient.
        """
        whole = SteppedMean.plan(self)
        if self.method == "statistic":
            return whole
        descent = self.descent()
        read = (COUNT, *map(self.search().stage, range(self.search().steps)))
        follows = Released(read, self._rows)
        return (*whole[:-1], Adaptive(descent.declared(), follows, self._listed))

    def estimate(self, transcript: Transcripts) -> FamilyEstimate | Abstained:
        """Find the parameter for which the family has the released mean, or where gradients lead
        to.
        """
        if self.method == "statistic":
            return SteppedMean.estimate(self, transcript)
        count = float(self._numbers(transcript)[0])
        if not count >= self.least():
            return Abstained(f"fewer than {self.least()} records, by the released count")
        middle, octave, number = self._rows(transcript)[0].tolist()
        size = self._size(middle, octave, number)
        if not size >= self.least() / 8:
            return Abstained("too few records lie where the interval is")
        return self._descended(transcript, middle, octave, count, size)

    def count_weight(self) -> int:
        """Return the weight of the count: half of the range of a record under add-remove; under
        replace all that costs nothing, if it is needed.
        """
        if self.counts():
            return CELLS // 2
        return CELLS * 7 // 4 if self.outside == "mask" else 0

    def edges_of(self, middle: int, octave: int) -> tuple[float, ...]:
        """Return the edges of cells whose middles are multiples of 1 / CELLS of the interval."""
        frame = frame_of(self, self.theta_of(middle), octave)
        return edges_in(self.family, frame, self.outside)

    def reading(
        self, mean: float, middle: int, octave: int, count: float, inside: float
    ) -> FamilyEstimate | Abstained:
        """Find the parameter for which the family has the released mean."""
        frame = frame_of(self, self.theta_of(middle), octave)
        released = frame.mean_at(self.family, mean)
        theta = self._solved(frame, released, middle)
        if theta is None:
            return Abstained("no parameter near the searched one has the released mean")
        at = frame.law(self.family, theta, self.outside)
        if not at.slope > 0:
            return Abstained("no parameter near the searched one has the released mean")
        steep = steepness(self.family, theta) / at.slope
        noise = self.noise_at(mean) * frame.length / inside
        return self._estimate(theta, count, noise * steep, math.sqrt(at.variance / inside) * steep)

    def expected_error(self, n: int, *, parameter: float | None = None) -> float:
        """Predict the noise's part of the parameter's error, for n records of the family with
        this parameter.

        Infinite where the mechanism would abstain.
        """
        if parameter is None:
            raise ValueError("The noise follows the parameter; give parameter=, a guess of it.")
        if not self.lowest <= parameter <= self.highest:
            raise ValueError(
                f"parameter = {parameter} is outside of {self.lowest}..{self.highest}."
            )
        if n < self.least():
            return math.inf
        theta = self.family.natural(parameter)
        frame = frame_of(self, theta, octave_of(n))
        at = frame.law(self.family, theta, self.outside)
        inside = n * at.inside if self.outside == "mask" else n
        if self.method == "gradient":
            size = list_size(n, self._inside(frame, theta), self.runs)
            inside = size / self.runs / middle_of(self.runs) if size >= self.least() / 8 else 0.0
        if not (inside > 0 and at.slope > 0):  # nothing is learned from records there
            return math.inf
        noise = self.noise_at((at.mean - frame.low) / frame.length) * frame.length / inside
        return noise * steepness(self.family, theta) / at.slope

    # --- gradients ------------------------------------------------------------------------------

    def descent(self) -> Descent:
        """Build the releases of gradients: their sums together have the share of mu^2 that is
        left, and neighboring lists differ by a replacement.
        """
        square = 4 * CELLS**2 * self.steps / self.shares()[2]
        scale = self.noise_multiplier * root_up(square, ROOT_BITS)
        return Descent(self.steps, self.runs, scale)

    def least(self) -> int:
        """Return the number of records below which the mechanism abstains; each of several runs
        needs as many.
        """
        if self.method == "statistic" or self.at_least is not None:
            return SteppedMean.least(self)
        times = (2 if self.counts() else 1) * self.runs
        return min(times * SteppedMean.least(self), MOST_LEAST)

    def noise_at(self, mean: float) -> float:
        """Return the noise scale of the sum of statistics over the interval: of one release, or
        of the result of one run.
        """
        if self.method == "statistic":
            return SteppedMean.noise_at(self, mean)
        one = min(to_float(self.descent().scale), 1e150) / CELLS / 2
        return one * widening(self.steps) / math.sqrt(self.steps)

    def _rows(self, before: Transcripts) -> Integers:
        """Return the place where the search ended, the quarter octave of the number of records,
        and the number that the list is made for, shape (size, 3).
        """
        numbers = self._numbers(before)
        if self.counts():
            spare = 2 * min(to_float(self.count_scale()), 1e17)
            numbers = cut_number(numbers - spare).astype(np.float64)
        known = np.clip(numbers, 1, 1e18).astype(np.int64)
        return np.concatenate([self._frame(before), known[:, np.newaxis]], axis=1)

    def _listed(self, row: Row) -> Part:
        """Build the stage of a list of records inside the interval, and the sums over it."""
        middle, octave, number = row
        frame = frame_of(self, self.theta_of(middle), octave)
        edges = edges_in(self.family, frame, "mask")
        size = self._size(middle, octave, number)
        return self.descent().part(edges, self.edge(middle), size)

    def _size(self, middle: int, octave: int, number: int) -> int:
        """Choose the list's size, by the least share inside for parameters within a quarter of a
        unit of where the search ended.
        """
        frame = frame_of(self, self.theta_of(middle), octave)
        near = (self.theta_at(middle, s * _NEAR_SHARE) for s in (-1, 0, 1))
        return list_size(number, min(self._inside(frame, theta) for theta in near), self.runs)

    def _inside(self, frame: Frame, theta: float) -> float:
        """Return the interval's share of the records that were kept."""
        share = frame.law(self.family, theta, "mask").inside
        if self.kept is None:
            return share
        every = self.family.limited(theta, *self.support(), "mask").inside
        return share / every if every > 0 else 0.0

    def _descended(
        self, transcript: Transcripts, middle: int, octave: int, count: float, size: int
    ) -> FamilyEstimate | Abstained:
        """Follow each run's steps, within a unit of where the search ended, and take the median
        of where they lead.
        """
        family, frame = self.family, frame_of(self, self.theta_of(middle), octave)
        start, ends = self.theta_of(middle), (self.theta_at(middle, -1), self.theta_at(middle, 1))
        law = partial(frame.law, family, outside=self.outside)
        shares = self.descent().shares(transcript, size).tolist()
        runs = [[frame.mean_at(family, share) for share in run] for run in shares]
        thetas = [descend(law, means, start, ends) for means in runs]
        known = [theta for theta in thetas if theta is not None]
        if len(known) < len(thetas):
            return Abstained("no parameter near the searched one has the released mean")
        theta = float(np.median(known))
        at = law(theta)
        if not at.slope > 0:
            return Abstained("no parameter near the searched one has the released mean")
        steep = steepness(family, theta) / at.slope * middle_of(self.runs)
        noise = self.noise_at(0.5) * frame.length * self.runs / size
        sampling = math.sqrt(at.variance * self.runs / size)
        return self._estimate(theta, count, noise * steep, sampling * steep)

    def _estimate(
        self, theta: float, count: float, noise: float, sampling: float
    ) -> FamilyEstimate:
        value = min(max(self.family.textbook(theta), self.lowest), self.highest)
        return FamilyEstimate(
            type(self.family).__name__,
            self.family.parameter,
            value,
            theta,
            count,
            noise,
            sampling,
            float(self.lowest),
            float(self.highest),
        )

    # --- the solution ---------------------------------------------------------------------------

    def _solved(self, frame: Frame, released: float, middle: int) -> float | None:
        """Find the natural parameter whose law has this mean: near where the search ended, or at
        the end of the range.
        """
        ends, here = self.ends(), self.coordinate_of(middle)
        far = _NEAR * (ends[1] - ends[0]) * FINE / 2.0 ** self.search().steps * 2
        low, high = max(ends[0], here - far), min(ends[1], here + far)
        first, last = self._theta(low), self._theta(high)
        if law_in(self.family, frame, first, self.outside).mean >= released:
            return first if low == ends[0] else None
        if law_in(self.family, frame, last, self.outside).mean <= released:
            return last if high == ends[1] else None

        def missed(theta: float) -> tuple[float, float]:
            at = frame.law(self.family, theta, self.outside)
            return at.mean - released, at.slope

        return root_in(missed, first, last, self._theta(here))

    def _theta(self, v: float) -> float:
        """Return the natural parameter at a coordinate of the search."""
        return self.family.natural(self.family.from_coordinate(v))


@lru_cache(maxsize=1 << 10)
def frame_of(mechanism: TruncatedMle, theta: float, octave: int) -> Frame:
    """Choose the interval for this parameter and 2^(octave / 4) records."""
    number = count_of(octave) / mechanism.runs
    return best_frame(
        mechanism.family, mechanism.support(), theta, mechanism.outside, number, mechanism.noise_at
    )
