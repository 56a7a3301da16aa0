"""``smooth_median``: the median of every column, with noise scaled by its smooth sensitivity."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Annotated, Any, Self

import numpy as np

from dpverify.estimation.answers import Result, tail_of
from dpverify.estimation.clipping import PerColumn
from dpverify.estimation.column_grids import Cells, check_bounds, grids_of, middle_of
from dpverify.grid.smooth import SmoothMedians
from dpverify.plans import Abstained, Handle, Mechanism, Plan, SmoothNoise, Stage, Transcripts
from dpverify.plans.parameters import Rational
from dpverify.privacy import Adjacency, ApproxDP, Guarantee, Profile, SmoothLaplace
from dpverify.privacy.calibration import Unreachable, smallest_sufficient
from dpverify.privacy.numbers import Exact, Floats, exact, to_float

MEDIANS = Handle("medians")
_GAP = Fraction(1, 1 << 10)
_CANDIDATES, _STEPS, _ORDERS = 160, 40, 48
_SIGNIFICANT, _LARGEST_EPSILON = 6, 1e6


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class MediansEstimate(Result):
    """Private medians: ``value``, shape (d,), in the data's units, between the bounds.

    The noise's scale depends on the data and is not released.
    """

    value: Floats

    def interval(self, level: Exact = 0.95) -> None:
        """Return None: the noise's scale depends on the data and is not released, so any distance
        may be likely or unlikely.

        Raises TypeError or ValueError for a level outside (0, 1).
        """
        tail_of(level)


@dataclass(frozen=True, slots=True, kw_only=True)
class SmoothMedian(Mechanism[MediansEstimate]):
    """The median of every column, with Laplace noise in proportion to its smooth sensitivity.

    The record of rank ceil(n / 2) is moved by Laplace noise, rounded to the grid, of scale
    noise_multiplier S. S bounds how far the median of this dataset can move by one replaced
    record, and decay^k times how far the medians of datasets that differ in k records can; it is
    at least a cell. So noise is small where many records are near the median, however wide the
    bounds are. ``PrivateQuantile`` is nearly always nearer, 5 times or more at (1, 1e-6); at
    epsilon 8 they are alike from 200 records on (tests/benchmarks/medians.py). This noise needs
    its delta, and pays ln(1 / delta) / epsilon for it.

    Data: shape (n, d), d = len(lower), n >= 1, in any unit; values beyond the bounds count as the
    bound. Output: ``MediansEstimate``; never abstains.
    Claim, under replace: for each column SmoothLaplace(1 / noise_multiplier, 1 / decay), an
    (epsilon, delta) for every epsilon above 1 / noise_multiplier; no pure DP, and no zCDP.
    lower, upper: public bounds of every column's median, chosen without looking at the data.
    cells: each column's bounds are divided into this many cells, up to twice as many.
    decay: in [1/2, 1 - 2^-12]; ``for_budget`` takes the decay with least noise on records that
    are even about the median.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: NRS07 (smooth sensitivity of the median); the profile is derived in
    spec/theory/smooth.py.
    """

    lower: PerColumn
    upper: PerColumn
    cells: Cells = 1 << 20
    decay: Annotated[Rational, exact] = Fraction(19, 20)

    @classmethod
    def calibrated_for(cls, budget: Guarantee, *, adjacency: Adjacency, **parameters: Any) -> Self:
        """Build the mechanism whose claim is ``budget``, an (epsilon, delta) unless ``decay`` is
        given.

        The noise is within 2^-10 of the least for this decay, and of few bits, which makes draws
        fast. Also raises ValueError for a budget without a delta, and for one that is too small
        for any decay.
        """
        lower = parameters.get("lower", ())
        if "decay" not in parameters and np.ndim(lower) == 1 and len(lower):
            parameters["decay"] = _decay_for(budget, len(lower))
        if not isinstance(budget, ApproxDP):
            return super(SmoothMedian, cls).calibrated_for(
                budget, adjacency=adjacency, **parameters
            )
        base = cls(adjacency=adjacency, noise_multiplier=Fraction(1), **parameters)
        least = _least_multiplier(budget, base.columns(), base.decay)
        return replace(base, noise_multiplier=least, budget=budget)

    def check_parameters(self) -> None:
        """Check that the adjacency is replace and that every column's bounds are in order."""
        if self.adjacency is not Adjacency.REPLACE:
            raise ValueError(
                f"adjacency = {self.adjacency}: the median's rank needs the number of records, "
                "which has to be public. Use Adjacency.REPLACE, or PrivateQuantile."
            )
        check_bounds(self.lower, self.upper, self.cells)

    def columns(self) -> int:
        """Return the number of columns."""
        return len(self.lower)

    def replacement(self) -> float | tuple[float, ...]:
        """Return the middle of the bounds."""
        return middle_of(self.lower, self.upper)

    def plan(self) -> Plan:
        """Plan one stage: all medians."""
        medians = SmoothMedians(grids_of(self.lower, self.upper, self.cells), self.decay)
        noise = SmoothNoise(self.noise_multiplier, medians.unit, self.columns())
        return (Stage(MEDIANS, medians, noise),)

    def estimate(self, transcript: Transcripts) -> MediansEstimate | Abstained:
        """Return the values of the released cells, moved to the bounds if they are beyond."""
        value = np.empty(self.columns())
        cells, grids = transcript.numbers(MEDIANS), grids_of(self.lower, self.upper, self.cells)
        for j, (cell, (_, _, exponent)) in enumerate(zip(cells, grids, strict=True)):
            low, high = Fraction(self.lower[j]), Fraction(self.upper[j])
            value[j] = to_float(min(max(cell * Fraction(2) ** exponent, low), high))
        return MediansEstimate(value)

    def expected_error(self, n: int) -> float:
        """Predict the error in ranks, as a share of the n records, for records that are even
        about every median and within the bounds.

        For records a distance h apart, the scale is noise_multiplier h times the largest decay^k
        (k + 1). Over columns the error is the Euclidean length.
        """
        peak = max(0, math.floor(-1 / math.log(self.decay)) - 1)
        smooth = max(to_float(self.decay) ** k * (k + 1) for k in (peak, peak + 1))
        scale = to_float(self.noise_multiplier) * smooth
        return math.sqrt(2 * self.columns()) * scale / n if n > 0 else math.inf

    def fewest_records(self) -> int:
        """Return 1: an empty dataset has no median."""
        return 1


def _decay_for(budget: Guarantee, columns: int) -> Fraction:
    """Return ``best_decay``; raise ValueError if there is none."""
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
    """Find the least multiplier, to within 2^-10 and of few bits; for several columns by the
    coarse composition, which is an upper bound too.
    """

    def holds(multiplier: Fraction) -> bool:
        together = Profile([(SmoothLaplace(1 / multiplier, 1 / decay), columns)])
        return together.rough_delta(budget.epsilon) <= budget.delta

    try:
        return smallest_sufficient(holds, gap=_GAP)
    except Unreachable:
        raise ValueError(
            f"{budget} is too little for {columns} columns at decay = {decay}: no noise suffices. "
            "Leave the decay out, or give more."
        ) from None


@lru_cache(maxsize=64)
def best_decay(budget: ApproxDP, columns: int) -> Fraction | None:
    """Choose the decay for this many columns together; None if no decay from 1/2 to 1 - 2^-12
    leaves room for a shift.

    Where records are even about the median, a distance h apart, the smooth sensitivity is h times
    the largest decay^k (k + 1), about h / (e decay ln(1 / decay)); the noise's scale is that over
    the shift. The shift is what the budget leaves: by one column's exact profile, or by
    Chernoff's bound for the losses of several.
    """
    losses = -np.log1p(-np.geomspace(2.0**-12, 0.5, _CANDIDATES))  # ln of the growth
    epsilon = min(to_float(budget.epsilon), _LARGEST_EPSILON)
    log_delta = math.log(budget.delta.numerator) - math.log(budget.delta.denominator)
    one = columns == 1
    shifts = np.array(
        [
            (_shift if one else _shift_of_many)(epsilon, log_delta, float(loss), columns)
            for loss in losses
        ]
    )
    noise = np.where(shifts > 0, np.exp(losses) / (np.maximum(shifts, 1e-300) * losses), np.inf)
    if not np.isfinite(noise.min()):
        return None
    return _rounded(float(losses[int(np.argmin(noise))]))


def _shift(epsilon: float, log_delta: float, loss: float, columns: int) -> float:
    """Return the largest shift, by the exact profile: with growth e^loss, only
    cosh(shift / (growth - 1)) depends on the shift.
    """
    rise = np.expm1(loss)
    y = float(log_delta - np.log(-np.expm1(-loss)) + (epsilon + loss) / rise)
    if y <= 0:
        return 0.0
    shift = rise * (y + np.log1p(np.sqrt(-np.expm1(-2 * y))))
    return float(max(0.0, min(shift, epsilon - loss)))


def _shift_of_many(epsilon: float, log_delta: float, loss: float, columns: int) -> float:
    """Find the largest shift for which some order a has columns ln M(a) - a epsilon <= ln delta."""
    orders = np.geomspace(0.01, 0.98, _ORDERS) / np.expm1(loss)

    def holds(shift: float) -> bool:
        bounds = columns * _log_moments(orders, shift, loss) - orders * epsilon
        return bool(bounds.min() <= log_delta)

    low, high = 0.0, epsilon
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low


def _log_moments(orders: Floats, shift: float, loss: float) -> Floats:
    """Return the larger of two ln E e^(a L). The first L is the loss of Laplace noise of scale
    e^loss at 0 against scale 1 at ``shift``; the second that of randomized response of
    shift + loss, for the bound below that epsilon.
    """
    most = shift + loss
    response = np.logaddexp((orders + 1) * most, -orders * most) - np.logaddexp(0, most)
    slow = (1 + orders) * np.exp(-loss)
    beyond, between = (
        slow - orders,
        slow + orders,
    )  # rates outside 0..shift and inside; both positive
    pieces: list[Any] = [
        orders * shift - np.log(beyond),
        orders * shift + np.log(-np.expm1(-between * shift) / between + 1e-300),
        -slow * shift - np.log(beyond),
    ]
    laplace: Floats = np.logaddexp.reduce(pieces) - np.log(2) - (1 + orders) * loss
    larger: Floats = np.maximum(laplace, response)
    return larger


def _rounded(loss: float) -> Fraction:
    """Return e^-loss, rounded so that 1 minus it has six significant bits."""
    mantissa, exponent = np.frexp(-np.expm1(-loss))
    part = round(float(mantissa) * 2**_SIGNIFICANT)
    return 1 - Fraction(part) * Fraction(2) ** (int(exponent) - _SIGNIFICANT)
