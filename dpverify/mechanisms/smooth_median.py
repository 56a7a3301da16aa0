"""``smooth_median``: the median of every column, with noise in proportion to its smooth sensitivity."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.smooth import SmoothMedians
from dpverify.mechanisms._column_grids import checked_bounds, checked_cells, grids_of, middle_of
from dpverify.mechanisms._decays import best_decay
from dpverify.mechanisms.clipped_mean import Numbers
from dpverify.plans import Abstained, Mechanism, Plan, SmoothNoise, Stage, Transcript
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, Profile, SmoothLaplace
from dpverify.privacy.calibration import Unreachable, smallest_sufficient
from dpverify.privacy.numbers import exact, to_float

_GAP = Fraction(1, 1 << 10)


@dataclass(frozen=True, slots=True, eq=False)
class MediansEstimate:
    """Private medians: ``value``, shape (d,), in the data's units, between the bounds.

    How large the noise was follows the data and is not released.
    """

    value: NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothMedian(Mechanism[MediansEstimate]):
    """The median of every column, with Laplace noise in proportion to its smooth sensitivity.

    Data: shape (n, d), d = len(lower), n >= 1, in any unit; values beyond the bounds count as the bound.
    Output: ``MediansEstimate``; never abstains. Claim, under replace: for each column SmoothLaplace(1 /
    noise_multiplier, 1 / decay), an (epsilon, delta) for every epsilon above 1 / noise_multiplier;
    no pure DP, and no zCDP.

    The record of rank ceil(n / 2) is moved by Laplace noise, rounded to the grid, of scale
    noise_multiplier S. S bounds how far the median of this dataset can move by one replaced record, and
    decay^k times how far the medians of datasets that differ in k records more can; it is a cell at the
    least. So noise is small where many records are near the median, however wide the bounds are.
    ``PrivateQuantile`` is nearer nearly always, 5 times or more at (1, 1e-6); at epsilon 8 they are alike from
    200 records on (tests/benchmarks/medians.py). This noise needs its delta, and pays ln(1 / delta) / epsilon
    for it.
    lower, upper: public bounds of every column's median, chosen without looking at the data.
    cells: each column's bounds are divided into so many cells, up to twice as many.
    decay: in [1/2, 1 - 2^-12]; ``for_budget`` takes the one with least noise on records that are even about
    the median.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: NRS07 (smooth sensitivity of the median); the profile is derived in spec/theory/smooth.py.
    """

    lower: Numbers
    upper: Numbers
    cells: int = 1 << 20
    decay: Fraction = Fraction(19, 20)

    @classmethod
    def for_budget(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """The mechanism whose claim is ``budget``, an (epsilon, delta) unless ``decay`` is given.

        The noise is within 2^-10 of the least for this decay, and of few bits, which makes draws fast.
        Raises ValueError besides for a budget without a delta, and one that is too small for any decay.
        """
        lower = parameters.get("lower", ())
        if "decay" not in parameters and np.ndim(lower) == 1 and len(lower):
            parameters["decay"] = _decay_for(budget, len(lower))
        if not isinstance(budget, ApproxDP):
            return super(SmoothMedian, cls).for_budget(budget, adjacency=adjacency, **parameters)
        base = cls(adjacency=adjacency, noise_multiplier=Fraction(1), **parameters)
        least = _least_multiplier(budget, base.columns(), base.decay)
        return replace(base, noise_multiplier=least, budget=budget)

    def check_parameters(self) -> None:
        """Replace; bounds in order for every column; a number of cells, a decay."""
        if self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {self.adjacency}: the median's rank needs the number of records, which has to "
                "be public. Use Adjacency.REPLACE, or PrivateQuantile."
            )
        lower, upper = checked_bounds(self.lower, self.upper)
        object.__setattr__(self, "lower", lower)
        object.__setattr__(self, "upper", upper)
        object.__setattr__(self, "cells", checked_cells(lower, upper, self.cells))
        object.__setattr__(self, "decay", exact(self.decay, "decay"))

    def columns(self) -> int:
        """The dimension."""
        return len(self.lower)

    def replacement(self) -> float | tuple[float, ...]:
        """The middle of the bounds."""
        return middle_of(self.lower, self.upper)

    def plan(self) -> Plan:
        """One stage: all medians."""
        medians = SmoothMedians(grids_of(self.lower, self.upper, self.cells), self.decay)
        noise = SmoothNoise(self.noise_multiplier, medians.unit, self.columns())
        return (Stage("medians", medians, noise),)

    def estimate(self, transcript: Transcript) -> MediansEstimate | Abstained:
        """The cells' values, moved to the bounds if they are beyond."""
        value = np.empty(self.columns())
        cells, grids = transcript.released["medians"], grids_of(self.lower, self.upper, self.cells)
        for j, (cell, (_, _, exponent)) in enumerate(zip(cells, grids, strict=True)):
            low, high = Fraction(self.lower[j]), Fraction(self.upper[j])
            value[j] = to_float(min(max(cell * Fraction(2) ** exponent, low), high))
        return MediansEstimate(value)

    def fewest_records(self) -> int:
        """Nobody has no median."""
        return 1


def _decay_for(budget: Guarantee, columns: int) -> Fraction:
    """``best_decay``, or a refusal."""
    if not isinstance(budget, ApproxDP) or not budget.delta:
        raise ValueError(
            f"{budget}: noise that follows the data has heavier tails on one side, so it has no "
            "pure or concentrated DP. Give an ApproxDP with a delta above 0, or PrivateQuantile."
        )
    decay = best_decay(budget, columns)
    if decay is None:
        raise ValueError(
            f"{budget} is too little for {columns} columns: the scale would have to be the same "
            "to a factor of 1 + 2^-12 for all neighbors. Give more, or fewer columns."
        )
    return decay


def _least_multiplier(budget: ApproxDP, columns: int, decay: Fraction) -> Fraction:
    """Within 2^-10 and simple; of several columns by the coarse composition, which is a bound too."""

    def holds(multiplier: Fraction) -> bool:
        together = Profile([(SmoothLaplace(1 / multiplier, 1 / decay), columns)])
        return together.rough_delta(budget.epsilon) <= budget.delta

    try:
        return smallest_sufficient(holds, gap=_GAP)
    except Unreachable:
        raise ValueError(
            f"{budget} is too little for {columns} columns at decay = {decay}: no noise suffices. Leave "
            "the decay out, or give more."
        ) from None
