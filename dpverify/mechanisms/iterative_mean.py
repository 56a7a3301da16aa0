"""``iterative_mean``: the mean of vectors in a ball that shrinks from one noisy sum to the next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from dpverify.estimation.budget_shares import ROOT_BITS, checked_shares, shares_of
from dpverify.estimation.clip_schedule import (
    PARTS,
    Ball,
    Grid,
    grid_of,
    heights,
    in_units,
    mapped_back,
    reach,
    rungs_above,
    template,
)
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
from dpverify.estimation.handles import COUNT
from dpverify.estimation.rationals import Rationals
from dpverify.estimation.results import VectorMeanEstimate
from dpverify.grid import Count
from dpverify.grid.joint import WithCount, least_counted
from dpverify.grid.masks import Row
from dpverify.grid.vector_queries import OneUnit, VectorSum
from dpverify.plans import (
    UNIT,
    Abstained,
    Adaptive,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import Rational, probability, rational, whole_from
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, exact, root_up, settle, to_float
from dpverify.randomness.bits import IntArray

_WIDEST = 1 << 19  # largest radius of the public ball, in deviations
_PRECISION = 1 << 20  # clip radii are rounded up to 2^-20 deviations
_deviation = rational(
    lambda value: 0 < to_float(value) < math.inf,
    " is not a positive float; give the largest standard deviation of the data in any direction "
    "(after the matrix).",
    as_given=True,
)
_beta = rational(
    lambda value: Fraction(1, 10**300) <= value < 1, " is outside [1e-300, 1); try '1/100'."
)
_coarseness = rational(
    lambda value: Fraction(1, 1024) <= value <= 4, " is outside [1/1024, 4]; try '1/16'."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class IterativeMean(Mechanism[VectorMeanEstimate]):
    """The mean of subgaussian vectors: clip, average with noise, shrink the ball, and again.

    Data: shape (n, d), d = len(center), in any unit. Output: ``VectorMeanEstimate`` (with the
    noise of the last step), or ``Abstained`` when the last released count is below ``at_least``.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, exact in every dimension,
    for both adjacencies and for all data; that records are subgaussian matters for accuracy only.
    Under replace the count is public and takes no noise.
    center, radius: a public ball that holds the mean: {x: |A (x - center)| <= radius}.
    deviation: A (record - mean) has in every direction at most the tails (the moment generating
    function) of normal noise of this standard deviation.
    matrix: A, a public invertible (d, d) matrix, by default the identity; it is rounded as in
    ``ClippedMean``.
    steps: number of noisy sums. shares: the parts of mu^2, one a step, of sum 1; by default 3/4
    for the last and the rest in equal parts.
    beta: a record of the model is clipped in a step with at most this probability.
    coarseness: rounding to the public grid moves a center by at most this many deviations.
    at_least: the count that a step needs; below it the ball stays as it is.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: BDKU20 (CoinPress) with its authors' code; DRS22 (Gaussian accounting).
    """

    center: PerColumn
    radius: PublicRadius
    deviation: Annotated[float, _deviation] = 1.0
    matrix: tuple[Numbers, ...] | None = None
    steps: Annotated[int, whole_from(1, most=20)] = 4
    shares: tuple[Rational, ...] | None = None
    beta: Annotated[Rational, _beta] = Fraction(1, 100)
    coarseness: Annotated[Rational, _coarseness] = Fraction(1, 16)
    at_least: Annotated[int, whole_from(1, most=1 << 60)] = 1

    def check_parameters(self) -> None:
        """Check that the matrix is finite and fits the center, that the radius is not too many
        deviations, and that the shares have sum 1.
        """
        if self.matrix is not None:
            settle(self, matrix=square_matrix(self.matrix, len(self.center)))
        if exact(self.radius, "radius") > _WIDEST * exact(self.deviation, "deviation"):
            raise ValueError(
                f"radius = {self.radius} is more than 2^19 deviations of {self.deviation}; give a "
                "smaller public ball, for example about private quantiles of the columns."
            )
        if self.shares is not None:
            settle(self, shares=checked_shares(self.shares, self.steps))
        # Refuses a center off the grid.
        vector_sum(self.center, self._clip_radius(0.0), self.matrix)

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.center)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the center, which moves the sums least."""
        return self.center

    def plan(self) -> Plan:
        """Release the public count under replace; then one sum a step, each about the last noisy
        mean.
        """
        grid = self._grid()
        first = 0, grid.multiples(self.center)
        public = () if self._counts() else (Stage(COUNT, Count(), NoNoise()),)
        names = (*(() if self._counts() else (COUNT,)), *map(_name, range(self.steps)))

        def later(t: int) -> Adaptive:
            path = Released(names[: t + len(public)], partial(self._row, t, grid))
            return Adaptive(self._step(t, grid, *first), path, partial(self._build, t, grid))

        return (*public, self._step(0, grid, *first), *map(later, range(1, self.steps)))

    def estimate(self, transcript: Transcripts) -> VectorMeanEstimate | Abstained:
        """Return the last step's center + noisy sum / noisy count, moved into its ball."""
        last, grid = self.steps - 1, self._grid()
        rungs, multiples = self._path(last, grid, transcript)
        ball = self._ball(last, int(rungs[0]))
        total = self._centered(ball, grid, multiples[0].tolist())
        values = transcript.numbers(_name(last))
        noise = self._count_noise(last)
        if self._counts():
            values, count = values[:-1], values[-1] * noise / UNIT
        else:
            count = Fraction(transcript.number(COUNT))
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the last released count")
        offset = in_ball(
            [to_float(value * ball.scale / (UNIT * count)) for value in values], total.radius
        )
        back = 1.0 if total.matrix is None else inverse(total.matrix)
        with np.errstate(all="ignore"):
            along = np.clip(
                np.ldexp(np.dot(back, offset), total.exponent), -LARGEST_FLOAT, LARGEST_FLOAT
            )
            spread = np.ldexp(back * capped(ball.scale / count), total.exponent)
            start = np.ldexp(np.array(total.center, np.float64), total.exponent)
            value = np.clip(start + along, -LARGEST_FLOAT, LARGEST_FLOAT)
            from_count = along * capped(noise / count)
        width = spread if total.matrix is not None else float(spread)
        own = to_float(noise)
        return VectorMeanEstimate(value, to_float(count), width, from_count, count_deviation=own)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the noise, in the data's units, for n records of
        the model, whose balls shrink as they would without noise in the counts.

        The count's noise enters if the ball never shrinks, for a mean at its edge; later the mean
        is near the center. Infinite below ``at_least`` records.
        """
        if n < self.at_least:
            return math.inf
        rung, grid = 0, self._grid()
        taken = np.zeros((1, self.columns()), np.int64), np.array([float(n)])
        for t in range(self.steps - 1):
            next_rungs, smaller, _ = self._shrunk(t, self._ball(t, rung), grid, taken)
            rung = int(next_rungs[0]) if smaller[0] else rung
        ball, noise = self._ball(self.steps - 1, rung), self._count_noise(self.steps - 1)
        edge = 0.0 if rung else capped(noise / n) * ball.total.radius
        return noise_length(ball.total, capped(ball.scale / n), edge)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records abstain with probability at most ``beta``."""
        allowed = probability(beta, "beta")
        if not self._counts():
            return self.at_least
        noise, per_record = RoundedGaussian(UNIT), UNIT / self._count_noise(self.steps - 1)
        return least_counted(self.at_least, per_record, lambda d: noise.falls_short(d, allowed))

    def fewest_records(self) -> int:
        """Return ``at_least``: fewer records, a public number under replace, are refused."""
        return 0 if self._counts() else self.at_least

    # --- a step: its noise, its ball, its query -------------------------------------------------

    def _counts(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _weight(self, t: int) -> int:
        """Return the weight of one record in the noisy count, in 16ths of the clip radius.

        In the first step it is as in ``ClippedMean``, since the mean may be anywhere in the ball;
        later half of that, since the mean is near the center.
        """
        return max(1, round((8 if t else 16) / math.sqrt(math.sqrt(4 * len(self.center)))))

    def _multiplier(self, t: int) -> Fraction:
        """Return noise_multiplier / sqrt(share)."""
        return self.noise_multiplier * root_up(1 / shares_of(self.shares, self.steps)[t], ROOT_BITS)

    def _moves(self, t: int) -> Fraction:
        """Return the sensitivity in 16ths of the clip radius, rounded up: the same for every
        ball, so that each stage built has exactly the declared claim.
        """
        if self._counts():
            return root_up(PARTS**2 + self._weight(t) ** 2, ROOT_BITS)
        return Fraction(2 * PARTS)

    def _count_noise(self, t: int) -> Fraction:
        """Return the standard deviation of the released count, in records: the same for every
        ball.
        """
        return (
            self._multiplier(t) * self._moves(t) / self._weight(t)
            if self._counts()
            else Fraction(0)
        )

    def _clip_radius(self, radius: float) -> Fraction:
        """Return the clip radius, in the units of ``deviation``, for a mean within this many
        deviations of the center.
        """
        far = math.ceil(reach(radius, len(self.center), self.beta) * _PRECISION)
        return (Fraction(far, _PRECISION) + self.coarseness) * exact(self.deviation, "deviation")

    def _ball(self, t: int, rung: int) -> Ball:
        deviation = exact(self.deviation, "deviation")
        radius = (
            float(heights(np.array([rung]))[0])
            if rung
            else to_float(exact(self.radius, "radius") / deviation)
        )
        total, per_unit = template(self._clip_radius(radius), len(self.center), self.matrix)
        scale = self._multiplier(t) * self._moves(t) * (total.radius // PARTS)
        return Ball(radius, total, per_unit * deviation, scale)

    def _centered(self, ball: Ball, grid: Grid, multiples: Sequence[int]) -> VectorSum:
        """Return the ball's query about a center, in its own cells."""
        finer = (ball.total.exponent - grid.exponent,) * len(multiples)
        return replace(ball.total, center=Rationals(tuple(multiples), 1).cells(finer))

    def _step(self, t: int, grid: Grid, rung: int, multiples: Sequence[int]) -> Stage:
        ball = self._ball(t, rung)
        total = self._centered(ball, grid, multiples)
        weight = self._weight(t) * (total.radius // PARTS)
        query = OneUnit(WithCount(total, weight) if self._counts() else total, ball.scale)
        return Stage(_name(t), query, RoundedGaussian(UNIT))

    def _grid(self) -> Grid:
        unit = exact(self.deviation, "deviation")
        smallest = self._clip_radius(0.0)
        return grid_of(self.coarseness, smallest, unit, len(self.center), self.matrix)

    # --- from what was released to the next ball ------------------------------------------------

    def _row(self, t: int, grid: Grid, before: Transcripts) -> IntArray:
        rungs, multiples = self._path(t, grid, before)
        return np.concatenate([multiples[:, ::-1], rungs[:, np.newaxis]], axis=1)

    def _build(self, t: int, grid: Grid, row: Row) -> Stage:
        *multiples, rung = row
        return self._step(t, grid, rung, multiples[::-1])

    def _path(self, t: int, grid: Grid, before: Transcripts) -> tuple[IntArray, IntArray]:
        """Return the balls before step t: rungs of shape (size,), centers of shape (size, d)."""
        size = len(before)
        rungs = np.zeros(size, np.int64)
        multiples = np.tile(np.array(grid.multiples(self.center), np.int64), (size, 1))
        for step in range(t):
            held = rungs.copy()
            for rung in np.unique(held):
                rows = np.flatnonzero(held == rung)
                ball = self._ball(step, int(rung))
                next_rungs, smaller, offsets = self._shrunk(
                    step, ball, grid, self._taken(step, before, rows)
                )
                kept = rows[smaller]
                rungs[kept] = next_rungs[smaller]
                multiples[kept] = grid.moved(multiples[kept], offsets[smaller])
        return rungs, multiples

    def _taken(
        self, t: int, before: Transcripts, rows: NDArray[np.intp]
    ) -> tuple[IntArray, Floats]:
        """Return, for these rows, the sum that step t released, and the (noisy or public)
        number.
        """
        values = before[_name(t)][rows]
        if self._counts():
            return values[:, :-1], in_units(values[:, -1], self._count_noise(t) / UNIT)
        return values, in_units(before[COUNT][rows, 0], Fraction(1))

    def _shrunk(
        self, t: int, ball: Ball, grid: Grid, taken: tuple[IntArray, Floats]
    ) -> tuple[IntArray, NDArray[np.bool_], Floats]:
        """Return the rungs of the next radii, whether these are indeed smaller (elsewhere the
        ball stays), and the centers' moves, in steps of their grid. The spec has the proof
        (next_radius).
        """
        sums, number = taken
        enough = number >= self.at_least
        number = np.where(enough, number, 1.0)
        level = -math.log(self.beta)
        wrong = min(to_float(self._count_noise(t)), 1e150) * math.sqrt(2 * level) / number
        width = np.sqrt((1 + wrong) / number + (ball.noise / number) ** 2)
        radius = reach(0.0, len(self.center), self.beta) * width
        radius += wrong * ball.radius + float(self.coarseness) + ball.rounding
        rungs = rungs_above(np.minimum(radius, ball.radius))
        unit = ball.scale / (UNIT * ball.per_deviation)
        means = in_units(sums, unit) / number[:, np.newaxis]
        means = np.clip(means, -2 * ball.clipped, 2 * ball.clipped)
        return rungs, enough & (heights(rungs) < ball.radius), mapped_back(ball, grid, means)


def _name(t: int) -> Handle:
    """Name the stage of step t, from 0."""
    return Handle(f"step {t + 1}")
