"""Named distances between two values of a query, decided in exact arithmetic.

Floats only estimate a distance; whether it exceeds a bound is decided in integers and fractions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from itertools import combinations
from typing import Any

import numpy as np
from flint import fmpq, fmpq_mat
from numpy.typing import ArrayLike

from dpverify.audit.sensitivity.values import Numbers, Value, exactly
from dpverify.grid.shapes import ROUNDING
from dpverify.privacy import Norm, exact
from dpverify.privacy.numbers import settle

_NEAR = 1 - 1e-9  # share of the bound from which on the exact distance decides; floats err by less
_NORMAL = 1e-140  # below this, floats lose digits, and the exact distance decides as well
_MOST_ROUNDED = Fraction(1, 10**6)  # share of the bound; a rounding of float32 is a tenth of it
_ROOT_BITS = 120
_VECTOR_BITS = 50
_LARGEST = float(np.finfo(np.float64).max)


class OutputNorm(Enum):
    """Measure of the distance between two values of a query.

    L1, L2, L_INFINITY: of numbers and vectors. FROBENIUS (the root of the sum of squared entries)
    and OPERATOR (the largest singular value): of matrices. The names are those of
    ``dpverify.privacy.Norm`` where that has them; its members are accepted as well.
    """

    L1 = "L1"
    L2 = "L2"
    L_INFINITY = "L-infinity"
    FROBENIUS = "Frobenius"
    OPERATOR = "operator"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Mahalanobis:
    """The norm sqrt(v^T C^-1 v) of vectors v, for a public covariance matrix C.

    covariance: shape (d, d), symmetric up to rounding and positive definite, taken as exact
    rational numbers. Errors: TypeError for what is no matrix of numbers, ValueError for one of
    another kind.
    """

    covariance: ArrayLike
    inverse: tuple[tuple[Fraction, ...], ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        array = np.asarray(self.covariance, dtype=object)
        if array.ndim != 2 or array.shape[0] != array.shape[1] or not array.size:
            raise ValueError(
                f"covariance: shape {array.shape}; give a square matrix, a row for each column of "
                "the query's value."
            )
        rows = tuple(tuple(exact(entry, "covariance") for entry in row) for row in array)
        size = len(rows)
        for i, j in combinations(range(size), 2):
            if (rows[i][j] - rows[j][i]) ** 2 > ROUNDING**2 * abs(rows[i][i] * rows[j][j]):
                raise ValueError("covariance is not symmetric; give (C + C.T) / 2.")
        rows = tuple(tuple((rows[i][j] + rows[j][i]) / 2 for j in range(size)) for i in range(size))
        minors = ([row[:k] for row in rows[:k]] for k in range(1, size + 1))
        if any(_flint(minor).det() <= 0 for minor in minors):
            raise ValueError(
                "covariance is not positive definite; a direction without variance has no "
                "Mahalanobis length. Add a small multiple of the identity, or project."
            )
        inverse = _flint(rows).inv().tolist()
        settle(self, covariance=rows)
        settle(
            self,
            inverse=tuple(tuple(Fraction(int(e.p), int(e.q)) for e in row) for row in inverse),
        )

    def __str__(self) -> str:
        return "Mahalanobis"


AnyNorm = OutputNorm | Norm | Mahalanobis


@dataclass(frozen=True, slots=True)
class Measure:
    """A norm as the search uses it.

    dimensions: which numbers of dimensions a value may have; width: how many numbers, if that
    is fixed. estimate: the norm of a float64 difference. exact: its ``power``-th power, of
    integers and fractions; for the operator norm a lower end of that. near: the share of the
    bound from which on the estimate is not trusted.
    """

    norm: AnyNorm
    dimensions: tuple[int, ...]
    power: int
    estimate: Callable[[Numbers], float]
    exact: Callable[[Numbers], Fraction]
    width: int | None = None
    near: float = _NEAR

    def why_not(self, shape: tuple[int, ...]) -> str:
        """Return why a value of this shape cannot be measured; "" if it can."""
        kind = {0: "a number", 1: "a vector", 2: "a matrix"}.get(len(shape), "an array")
        if len(shape) not in self.dimensions:
            instead = {0: "L1", 1: "L1, L2 or L_INFINITY", 2: "FROBENIUS or OPERATOR"}.get(
                len(shape), "a query that returns fewer dimensions"
            )
            return f"the {self.norm} norm is not one of {kind} of shape {shape}; write {instead}"
        if self.width is not None and math.prod(shape) != self.width:
            return f"a value of shape {shape}, for a covariance of {self.width} rows"
        return ""


def measure_of(norm: object) -> Measure:
    """Return the measure of a named norm. Raises TypeError for anything else, with the names."""
    if isinstance(norm, Mahalanobis):
        return _mahalanobis(norm)
    if isinstance(norm, Norm | OutputNorm) and norm in _MEASURES:
        return _MEASURES[norm]
    names = ", ".join(f"OutputNorm.{name.name}" for name in OutputNorm)
    others = ", ".join(f"Norm.{name.name}" for name in _MEASURES if isinstance(name, Norm))
    raise TypeError(
        f"norm = {norm!r} is not one of the named norms; write {names}, Mahalanobis(covariance), "
        f"or {others} of dpverify.privacy."
    )


class Excess(Enum):
    """Kind of excess over a sensitivity.

    ROUNDING: by at most a millionth of the bound, as floats round: noise scaled to the bound
    loses no more than this share of its privacy by it. SUBSTANCE: by more, or by an infinite
    distance.
    """

    ROUNDING = "rounding"
    SUBSTANCE = "substance"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True, slots=True)
class Distance:
    """Distance between two values.

    estimate: in floats; infinite where there is a problem. power_of_it: the exact distance to the
    power of its measure, where it was needed. exceeds: whether it is above the bound, exactly.
    excess: by how much, rounded down. kind: the kind of the excess; None without one.
    """

    estimate: float
    power_of_it: Fraction | None
    exceeds: bool
    excess: float
    problem: str = ""
    kind: Excess | None = None

    @property
    def score(self) -> tuple[bool, float, float]:
        """Score that the search raises."""
        return (self.exceeds, self.excess, self.estimate)


def compare(
    measure: Measure, left: Value, right: Value, bound: Fraction, *, exactly: bool = False
) -> Distance:
    """Return the distance of two values; ``exactly``: even when an estimate shows it below the
    bound.
    """
    problem = _problem(measure, left, right)
    if problem:
        return Distance(math.inf, None, True, math.inf, problem, Excess.SUBSTANCE)
    floats = left.numbers.dtype != object and right.numbers.dtype != object
    if floats:
        with np.errstate(all="ignore"):
            difference = np.asarray(left.numbers - right.numbers)
            estimate = measure.estimate(difference) if difference.size else 0.0
        if estimate < _in_floats(bound) * measure.near and not exactly and _is_plain(difference):
            return Distance(estimate, None, False, 0.0)
    power = measure.exact(_difference(left.numbers, right.numbers))
    exceeds = power > bound**measure.power
    estimate = rounded_down(power) if measure.power == 1 else rounded_down(root(power))
    if not exceeds:
        return Distance(estimate, power, False, 0.0)
    above = power - bound
    if measure.power == 2:  # root(power) - bound, without cancellation
        above = (power - bound**2) / (root(power, up=True) + bound)
    kind = Excess.ROUNDING if above <= bound * _MOST_ROUNDED else Excess.SUBSTANCE
    return Distance(estimate, power, True, rounded_down(above), kind=kind)


@lru_cache(maxsize=64)
def _in_floats(bound: Fraction) -> float:
    return rounded_down(bound)


def rounded_down(value: Fraction) -> float:
    """Return the largest float that is not above a nonnegative number."""
    try:
        nearest = float(value)
    except OverflowError:
        return _LARGEST
    if math.isinf(nearest):
        return _LARGEST
    return nearest if Fraction(nearest) <= value else math.nextafter(nearest, 0.0)


def root(square: Fraction, *, up: bool = False) -> Fraction:
    """Return the square root, rounded down or up in the 120th bit; exact where it is so short."""
    if not square:
        return Fraction(0)
    size = square.numerator.bit_length() - square.denominator.bit_length()
    shift = _ROOT_BITS - size // 2
    unit = Fraction(2) ** shift
    scaled = square * unit**2
    whole = math.isqrt(math.floor(scaled))
    return Fraction(whole + (up and whole**2 != scaled)) / unit


def _problem(measure: Measure, left: Value, right: Value) -> str:
    for side, value in (("left", left), ("right", right)):
        if value.problem:
            return f"on the {side} dataset the value is {value.problem}"
    if left.numbers.shape != right.numbers.shape:
        return f"the values have shapes {left.numbers.shape} and {right.numbers.shape}"
    return measure.why_not(left.numbers.shape)


def _is_plain(difference: Numbers) -> bool:
    """Return whether float norms of the difference keep their digits."""
    largest = np.max(np.abs(difference), initial=0.0)
    return bool(largest == 0 or _NORMAL < largest < math.inf)


def _difference(left: Numbers, right: Numbers) -> Numbers:
    pairs = zip(exactly(left), exactly(right), strict=True)
    result = np.empty(left.size, object)
    result[:] = [a - b for a, b in pairs]
    return result.reshape(left.shape)


def _flint(rows: Any) -> fmpq_mat:
    return fmpq_mat([[fmpq(entry.numerator, entry.denominator) for entry in row] for row in rows])


def _scaled(norm: Callable[[Numbers], Any]) -> Callable[[Numbers], float]:
    """Return a norm of floats whose squares neither overflow nor vanish."""

    def estimate(difference: Numbers) -> float:
        largest = float(np.max(np.abs(difference)))
        if largest == 0 or math.isinf(largest):
            return largest
        return largest * float(norm(difference / largest))

    return estimate


def _euclidean(v: Numbers) -> Any:
    return math.sqrt(np.vdot(v, v))


def _sum_of_squares(v: Numbers) -> Fraction:
    return Fraction(sum(x * x for x in v.ravel().tolist()))


def _stretch(v: Numbers) -> Fraction:
    """Return |M u|^2 / |u|^2 for the direction u that M stretches most, as floats know it.

    For every u this is a lower bound on the squared operator norm; its error is that of u,
    squared.
    """
    largest = max((abs(x) for x in v.ravel().tolist()), default=0)
    if not largest:
        return Fraction(0)
    floats = np.array([float(Fraction(x) / largest) for x in v.ravel().tolist()]).reshape(v.shape)
    direction = np.linalg.svd(floats)[2][0]
    whole = [round(math.ldexp(u, _VECTOR_BITS)) for u in direction.tolist()]
    image = [sum(m * u for m, u in zip(row, whole, strict=True)) for row in v.tolist()]
    return Fraction(sum(y * y for y in image)) / sum(u * u for u in whole)


def _range(v: Numbers) -> Any:
    return max(v.ravel().tolist()) - min(v.ravel().tolist()) if v.size else 0


def _keys(v: Numbers) -> Any:
    """Return the larger of the total increase and the total decrease: one record adds one to
    each of its keys, and another takes one from each of its own; a thing that moves does both.
    """
    entries = v.ravel().tolist()
    return max(sum(x for x in entries if x > 0), -sum(x for x in entries if x < 0))


def _simple(norm: AnyNorm, of: Callable[[Numbers], Any]) -> Measure:
    """Return a norm of numbers and vectors that needs no root."""
    return Measure(norm, (0, 1), 1, lambda v: float(of(v)), lambda v: Fraction(of(v)))


def _mahalanobis(norm: Mahalanobis) -> Measure:
    inverse = norm.inverse
    floats = np.array([[float(entry) for entry in row] for row in inverse])

    def squared(v: Numbers) -> Fraction:
        entries = v.ravel().tolist()
        images = [sum(a * x for a, x in zip(row, entries, strict=True)) for row in inverse]
        return Fraction(sum(x * y for x, y in zip(entries, images, strict=True)))

    def estimate(v: Numbers) -> Any:
        flat = v.ravel()
        return math.sqrt(max(0.0, float(flat @ floats @ flat)))

    lost = 1e-12 * float(np.linalg.cond(floats))  # relative; what rounding takes from the estimate
    near = max(0.0, _NEAR - lost) if math.isfinite(lost) else 0.0
    return Measure(norm, (0, 1), 2, _scaled(estimate), squared, len(inverse), near)


_MEASURES: dict[Norm | OutputNorm, Measure] = {
    OutputNorm.L1: _simple(OutputNorm.L1, lambda v: sum(map(abs, v.ravel().tolist()))),
    OutputNorm.L2: Measure(OutputNorm.L2, (0, 1), 2, _scaled(_euclidean), _sum_of_squares),
    OutputNorm.L_INFINITY: _simple(
        OutputNorm.L_INFINITY, lambda v: max(map(abs, v.ravel().tolist()), default=0)
    ),
    OutputNorm.FROBENIUS: Measure(
        OutputNorm.FROBENIUS, (2,), 2, _scaled(_euclidean), _sum_of_squares
    ),
    OutputNorm.OPERATOR: Measure(
        OutputNorm.OPERATOR, (2,), 2, _scaled(lambda v: np.linalg.norm(v, 2)), _stretch
    ),
    Norm.SQUARED_L2: _simple(Norm.SQUARED_L2, lambda v: sum(x * x for x in v.ravel().tolist())),
    Norm.RANGE: _simple(Norm.RANGE, _range),
    Norm.HAMMING: _simple(Norm.HAMMING, np.count_nonzero),
    Norm.KEYS: _simple(Norm.KEYS, _keys),
    Norm.MOVED: _simple(Norm.MOVED, _keys),
}
_MEASURES[Norm.L1] = _MEASURES[OutputNorm.L1]
_MEASURES[Norm.L_INFINITY] = _MEASURES[OutputNorm.L_INFINITY]
