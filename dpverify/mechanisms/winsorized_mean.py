"""``winsorized_mean``: the mean of every column within a range that its private quartiles give."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from flint import arb

from dpverify.grid import Count, OneUnit, VectorQuery, interval
from dpverify.grid.cells import floor_log2
from dpverify.grid.coordinates import BoxSum, Stretch
from dpverify.grid.joint import WithCount, least_counted
from dpverify.grid.tables import ColumnScores, QuantileScores
from dpverify.mechanisms._centered import GRAIN, TYPICAL, root, share, stretch_to
from dpverify.mechanisms.clipped_mean import Numbers, VectorMeanEstimate, _numbers
from dpverify.plans import (
    UNIT,
    Abstained,
    DiscreteLaplace,
    Mechanism,
    Noise,
    NoNoise,
    Plan,
    QuantileChoices,
    RoundedGaussian,
    Stage,
    Transcript,
)
from dpverify.plans.search import Nodes, Prefix, Released
from dpverify.privacy import Adjacency, Norm
from dpverify.privacy.balls import ball, enclose
from dpverify.privacy.numbers import Exact, exact, to_float, whole
from dpverify.randomness.bits import IntArray

RADIUS = 1 << 20
"""Half a column's range in the units of the sum."""
_MOST_CELLS = 1 << 24
_SMALLEST = Fraction(1, 10**100)
_LARGEST = float(np.finfo(np.float64).max)
_PER_QUARTILE = Fraction(1349, 1000)  # the quartiles of N(0, 1) are 1.349 apart
_RANGE = Fraction(3, 2)  # of losses for mu = 1: a range e is (e sqrt(2 pi) / 4)-GDP, and 3/2 < 1.59


@dataclass(frozen=True, slots=True, kw_only=True)
class WinsorizedMean(Mechanism[VectorMeanEstimate]):
    """The mean of every column, its records clipped to a range that private quartiles give.

    Data: shape (n, d), d = len(lower), in any unit. Output: ``VectorMeanEstimate``, or ``Abstained``
    when the released count is below ``at_least``. Claim: with Gaussian noise GaussianDP(1 /
    noise_multiplier), up to the grid's rounding; with Laplace noise pure DP of 1 / noise_multiplier.
    Both adjacencies. Under replace the count is public; otherwise one noise is for sum and count.

    Two steps: the quartiles of every column, each by the exponential mechanism on a public grid; the
    noisy sum of the records clipped to (a + b) / 2 -+ k |b - a|, where a and b are what was released.
    Half a range is at least a cell, and up to 1/32 longer than that. k = sqrt(2 ln(1 / clipped)) / 1.349:
    of normal records with these quartiles a share of at most ``clipped`` is clipped.
    lower, upper: public bounds of every column's quartiles, chosen without looking at the data. Records
    beyond count as a bound for the quartiles; the mean may lie beyond.
    noise: "gaussian", or "laplace" for pure DP, where the error grows with d^2 and not with d.
    cells: each column's bounds are divided into so many cells, up to twice as many.
    clipped: about 1 / n is best.
    quartile_share: the part of mu^2 (of epsilon with Laplace noise) for the quartiles.
    at_least: abstain below this released count.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: S11 (the estimator); MT07, DMNS06, DRS22 (its steps). Constants as shipped elsewhere are refuted
    in audits/exhibits.
    """

    lower: Numbers
    upper: Numbers
    noise: Literal["gaussian", "laplace"] = "gaussian"
    cells: int = 1 << 20
    clipped: Fraction = Fraction(1, 10**4)
    quartile_share: Fraction = Fraction(1, 2)
    at_least: int = 1

    def check_parameters(self) -> None:
        """Bounds in order for every column, a kind of noise, shares in (0, 1), whole numbers."""
        for name in ("lower", "upper"):
            object.__setattr__(self, name, _numbers(getattr(self, name), name))
        if len(self.lower) != len(self.upper):
            raise ValueError(
                f"{len(self.lower)} lower and {len(self.upper)} upper bounds; give one of each for "
                "every column."
            )
        for j, ends in enumerate(zip(self.lower, self.upper, strict=True)):
            interval(*ends, f"lower and upper of column {j}")
        if self.noise not in ("gaussian", "laplace"):
            raise ValueError(f"noise = {self.noise!r}; write 'gaussian' or 'laplace'.")
        object.__setattr__(self, "cells", whole(self.cells, "cells"))
        if not 2 <= self.cells <= _MOST_CELLS:
            raise ValueError(f"cells = {self.cells} is outside 2..2^24; leave it out for 2^20.")
        clipped = exact(self.clipped, "clipped")
        if not _SMALLEST <= clipped < 1:
            raise ValueError(f"clipped = {self.clipped} is outside [1e-100, 1); try '1e-4'.")
        object.__setattr__(self, "clipped", clipped)
        object.__setattr__(self, "quartile_share", share(self.quartile_share, "quartile_share"))
        object.__setattr__(self, "at_least", whole(self.at_least, "at_least"))
        if self.at_least < 1:
            raise ValueError(f"at_least = {self.at_least}; a mean needs at least 1 record.")
        for j, (low, high, _) in enumerate(self._grids()):
            if max(abs(low), abs(high)) > 2 * _MOST_CELLS:
                raise ValueError(
                    f"The bounds of column {j} are {max(abs(low), abs(high))} cells from zero, beyond "
                    "2^25: they are too near each other for that. Subtract a public constant from the "
                    "data, or give fewer cells."
                )

    def columns(self) -> int:
        """The dimension."""
        return len(self.lower)

    def replacement(self) -> float | tuple[float, ...]:
        """The middle of the bounds."""
        return tuple(a / 2 + b / 2 for a, b in zip(self.lower, self.upper, strict=True))

    def plan(self) -> Plan:
        """The quartiles, and the sum with the count in the same value unless the count is public."""

        def build(row: Nodes) -> Stage:
            return Stage(name, self._query(self.stretch(row)), self._sum_noise())

        counted = self.adjacency is Adjacency.ADD_REMOVE
        name = "sum and count" if counted else "sum"
        bits = max(2, *((high - low).bit_length() for low, high, _ in self._grids()))
        prefix = Prefix(()).also(2 * self.columns(), bits, self.quartiles, [0] * 2 * self.columns())
        quartiles, last = self._quartile_stage(), prefix.stage(build)
        return (
            (quartiles, last) if counted else (quartiles, Stage("count", Count(), NoNoise()), last)
        )

    def quartiles(self, released: Released, size: int) -> IntArray:
        """What was released, in cells above the lower bounds: both quartiles of each column in turn."""
        lows = np.repeat([low for low, _, _ in self._grids()], 2)
        above: IntArray = released["quartiles"] - lows
        return above

    def stretch(self, row: Nodes) -> Stretch:
        """The map of records to the sum's units, by quartiles in cells above the lower bounds."""
        return _stretch(self._grids(), self._times(), tuple(row.tolist()))

    def estimate(self, transcript: Transcript) -> VectorMeanEstimate | Abstained:
        """middle of the range + noisy sum / noisy count, moved into the range first."""
        released = {name: np.array([value], object) for name, value in transcript.released.items()}
        stretch = self.stretch(self.quartiles(released, 1)[0])
        noise, step = self._noise_scale(), Fraction(0)
        unit = noise / UNIT if self.noise == "gaussian" else Fraction(1)
        if self.adjacency is Adjacency.ADD_REMOVE:
            *total, counted = transcript.released["sum and count"]
            count, step = counted * unit / self._weight(), Fraction(1, self._weight())
        else:
            total, count = list(transcript.released["sum"]), Fraction(transcript["count"])
        if count < self.at_least:
            return Abstained(f"fewer than {self.at_least} records, by the released count")
        deviation = to_float(unit) * self._sum_noise().standard_deviation
        with np.errstate(all="ignore"):
            per = np.ldexp(1.0 / np.array(stretch.factors), stretch.exponents)
            offset = np.clip([to_float(s * unit / count) for s in total], -RADIUS, RADIUS)
            middle = np.ldexp(np.array(stretch.center, np.float64), stretch.exponents)
            value = np.clip(middle + offset * per, -_LARGEST, _LARGEST)
            spread = per * deviation / to_float(count)
            from_count = offset * per * deviation * to_float(step / count)
        return VectorMeanEstimate(value, to_float(count), spread, from_count)

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """The least n such that n records abstain with probability at most ``beta``."""
        allowed = exact(beta, "beta")
        if not 0 < allowed < 1:
            raise ValueError(f"beta = {beta} is outside (0, 1); give a probability, say '1e-3'.")
        if self.adjacency is Adjacency.REPLACE:
            return self.at_least
        noise, per_record = self._sum_noise(), Fraction(self._weight())
        if self.noise == "gaussian":
            per_record *= UNIT / self._noise_scale()
        return least_counted(self.at_least, per_record, lambda d: noise.falls_short(d, allowed))

    def fewest_records(self) -> int:
        """Under replace: ``at_least``, decided on the public number of records."""
        return 0 if self.adjacency is Adjacency.ADD_REMOVE else self.at_least

    def _grids(self) -> tuple[tuple[int, int, int], ...]:
        return _grids(self.lower, self.upper, self.cells)

    def _quartile_stage(self) -> Stage:
        scores = [
            (j, QuantileScores(low, high, exponent, p, 4))
            for j, (low, high, exponent) in enumerate(self._grids())
            for p in (1, 3)
        ]
        grids = tuple((s.lower, s.upper, s.numerator, s.denominator) for _, s in scores)
        kind: Literal["pure", "gaussian"] = "gaussian" if self.noise == "gaussian" else "pure"
        noise = QuantileChoices(grids, self._quartile_scale(), kind)
        return Stage("quartiles", ColumnScores(tuple(scores)), noise)

    def _quartile_scale(self) -> Fraction:
        """Twice the score's sensitivity over the range of losses of each of 2 d choices."""
        moves, count = (4 if self.adjacency is Adjacency.REPLACE else 3), 2 * self.columns()
        if self.noise == "laplace":
            return 2 * moves * self.noise_multiplier * count / self.quartile_share
        return 2 * moves * self.noise_multiplier * root(count / self.quartile_share) / _RANGE

    def _query(self, stretch: Stretch) -> VectorQuery:
        laplace = self.noise == "laplace"
        total = BoxSum(stretch, RADIUS, Norm.L1 if laplace else Norm.SQUARED_L2)
        counted = self.adjacency is Adjacency.ADD_REMOVE
        query = WithCount(total, self._weight()) if counted else total
        return query if laplace else OneUnit(query, self._noise_scale())

    def _sum_noise(self) -> Noise:
        return (
            RoundedGaussian(UNIT)
            if self.noise == "gaussian"
            else DiscreteLaplace(self._noise_scale())
        )

    def _noise_scale(self) -> Fraction:
        """Of the sum, in its units: noise_multiplier times the sensitivity over what is left for it."""
        d, left, weight = self.columns(), 1 - self.quartile_share, self._weight()
        moved = 2 * RADIUS if self.adjacency is Adjacency.REPLACE else RADIUS
        counted = 0 if self.adjacency is Adjacency.REPLACE else weight
        if self.noise == "laplace":
            return self.noise_multiplier * (d * moved + counted) / left
        return self.noise_multiplier * root((d * moved**2 + counted**2) / left)

    def _weight(self) -> int:
        """Of one record in the joint release: the best for a mean an eighth of half the range away from
        its middle, and Gaussian noise."""
        return math.isqrt(math.isqrt(RADIUS**4 * self.columns() // 64))

    def _times(self) -> Fraction:
        """k, rounded up to 2^-10."""
        return _times(self.clipped)


@lru_cache(maxsize=16)
def _grids(lower: Numbers, upper: Numbers, cells: int) -> tuple[tuple[int, int, int], ...]:
    """For every column the bounds in cells, rounded to the nearest, and the cell's exponent."""
    found = []
    for low, high in zip(map(Fraction, lower), map(Fraction, upper), strict=True):
        exponent = floor_log2((high - low) / cells)
        cell = Fraction(2) ** exponent
        found.append((round(low / cell), round(high / cell), exponent))
    return tuple(found)


@lru_cache(maxsize=16)
def _times(clipped: Fraction) -> Fraction:
    def multiple() -> arb:
        return (-2 * ball(clipped).log()).sqrt() / ball(_PER_QUARTILE)

    return Fraction(math.ceil(enclose(multiple).upper * 2**10), 2**10)


@lru_cache(maxsize=16)
def _stretch(
    grids: tuple[tuple[int, int, int], ...], times: Fraction, row: tuple[Any, ...]
) -> Stretch:
    """Half a range, in the data's units, is ``RADIUS`` units of the sum."""
    middles, squares = [], []
    for (low, _, exponent), a, b in zip(grids, row[::2], row[1::2], strict=True):
        cell = Fraction(2) ** exponent
        middles.append((low + Fraction(int(a) + int(b), 2)) * cell)
        squares.append((max(Fraction(1), times * abs(int(b) - int(a))) * cell) ** 2)
    return stretch_to(tuple(middles), tuple(squares), Fraction(TYPICAL * GRAIN, RADIUS) ** 2)
