"""Public integer matrices whose products with a vector of counts are released, one for each axis of
bins.

All columns of such a matrix are alike: whichever bin a record is in, it moves the product by as
much. Entries are never negative, so two columns have an inner product of at least 0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from flint import fmpz_poly

from dpverify.grid.linear import Integers
from dpverify.privacy import Norm
from dpverify.privacy.numbers import settle, whole

_LARGEST = 1 << 20  # bound on an entry, so that counts of 2^40 records stay below 2^62


class Strategy(ABC):
    """A public matrix of non-negative integers with ``rows`` rows, and a column for each of
    ``bins`` bins."""

    __slots__ = ()

    bins: int

    @property
    @abstractmethod
    def rows(self) -> int:
        """Number of released integers of the axis."""

    @property
    @abstractmethod
    def described(self) -> tuple[str, int, tuple[int, ...]]:
        """The matrix as plain data: which kind, for how many bins, of which numbers."""

    @abstractmethod
    def of(self, counts: Integers) -> Integers:
        """Multiply counts of shape (m, bins) from the right, exactly; the result has shape (m,
        rows)."""

    @abstractmethod
    def column(self, norm: Norm) -> int:
        """Return the length of every column: its sum for the L1 norm, else the sum of its squares.

        Raises ValueError for a norm without a known bound.
        """

    @abstractmethod
    def shared(self, norm: Norm) -> int:
        """Return the least that two columns, or one and itself, have in common: the least inner
        product.

        For the L1 norm, the least sum of entries in rows where both columns have one: these are
        equal.
        """


@dataclass(frozen=True, slots=True)
class Levels(Strategy):
    """A hierarchy of sums: level l sums 2^l neighboring bins at a time, times ``weights[l]``.

    Weights of 0 leave a level out. The weight of single bins, the first, is at least 1. With
    weights (1,) the counts themselves are released. Raises TypeError or ValueError for other
    weights.
    """

    bins: int
    weights: tuple[int, ...]

    def __post_init__(self) -> None:
        settle(self, bins=whole(self.bins, "bins"), weights=_entries(self.weights, "weights"))
        if self.bins < 1 or self.weights[0] < 1:
            raise ValueError(
                f"weights = {self.weights} of {self.bins} bins; give at least one bin, and a first "
                "weight of at least 1."
            )

    @property
    def rows(self) -> int:
        """Number of sums at all levels together."""
        return sum(self.nodes(level) for level, weight in enumerate(self.weights) if weight)

    @property
    def described(self) -> tuple[str, int, tuple[int, ...]]:
        """The matrix as plain data: the weights, from single bins on."""
        return "levels", self.bins, self.weights

    def nodes(self, level: int) -> int:
        """Return the number of sums at a level: the last one has fewer bins where 2^level does
        not divide.
        """
        return -(-self.bins >> level) if level < 62 else 1

    def of(self, counts: Integers) -> Integers:
        """Add up neighbors level by level; single bins come first."""
        weighted, sums = [], counts
        for level, weight in enumerate(self.weights):
            if weight:
                weighted.append(sums * weight)
            if level + 1 < len(self.weights):
                sums = paired(sums)
        return np.concatenate(weighted, axis=1)

    def column(self, norm: Norm) -> int:
        """Return the length of a column: each bin is in one sum of every level."""
        return sum(_in(norm, weight) for weight in self.weights)

    def shared(self, norm: Norm) -> int:
        """Return the least inner product: the first and the last bin are together in the levels
        that have a single sum, and in no other.
        """
        return sum(_in(norm, w) for level, w in enumerate(self.weights) if self.nodes(level) == 1)


@dataclass(frozen=True, slots=True)
class Circulant(Strategy):
    """A circulant matrix: entry (i, j) is ``kernel[(i - j) mod bins]``.

    Raises TypeError or ValueError for a kernel of another length, or without a number above 0.
    """

    kernel: tuple[int, ...]

    def __post_init__(self) -> None:
        settle(self, kernel=_entries(self.kernel, "kernel"))
        if not any(self.kernel):
            raise ValueError(f"kernel = {self.kernel} has no entry above 0; give at least one.")

    @property
    def bins(self) -> int:  # type: ignore[override]
        """Length of the kernel."""
        return len(self.kernel)

    @property
    def rows(self) -> int:
        """Number of rows: as many as there are bins."""
        return len(self.kernel)

    @property
    def described(self) -> tuple[str, int, tuple[int, ...]]:
        """The matrix as plain data: its first column."""
        return "circulant", self.bins, self.kernel

    def of(self, counts: Integers) -> Integers:
        """Convolve each row with the kernel, by products of integer polynomials modulo
        x^bins - 1.
        """
        kernel = fmpz_poly(list(self.kernel))
        rows = [_wrapped(kernel * fmpz_poly(row), self.bins) for row in counts.tolist()]
        return np.array(rows, object).reshape(len(rows), self.bins)

    def column(self, norm: Norm) -> int:
        """Sum of squares of the kernel, which every column permutes."""
        _require_squares(norm)
        return sum(entry * entry for entry in self.kernel)

    def shared(self, norm: Norm) -> int:
        """Return the least entry of the kernel's circular correlation with itself."""
        _require_squares(norm)
        return _least_correlation(self.kernel)


def paired(sums: Integers) -> Integers:
    """Add up neighbors in pairs along the last axis; of an odd number the last stays alone."""
    pairs: Integers = np.add.reduceat(sums, np.arange(0, sums.shape[1], 2), axis=1)
    return pairs


def _entries(given: object, name: str) -> tuple[int, ...]:
    """Read a tuple of integers from 0 to 2^20. Raises TypeError or ValueError."""
    if not isinstance(given, (tuple, list)) or not given:
        raise TypeError(f"{name} = {given!r:.60}; give a tuple of at least one integer.")
    entries = tuple(whole(entry, name) for entry in given)
    if not 0 <= min(entries) <= max(entries) <= _LARGEST:
        raise ValueError(f"{name} = {given!r:.60}; give integers from 0 to 2^20.")
    return entries


def _in(norm: Norm, weight: int) -> int:
    return weight if norm is Norm.L1 else weight * weight


def _require_squares(norm: Norm) -> None:
    if norm is not Norm.SQUARED_L2:
        raise ValueError(f"Of a circulant matrix nothing is known in {norm} distance; give Levels.")


@lru_cache(maxsize=8)
def _least_correlation(kernel: tuple[int, ...]) -> int:
    """Compute min over s of sum_i kernel[i] kernel[i + s mod length], exactly."""
    product = fmpz_poly(list(kernel)) * fmpz_poly(list(kernel[::-1]))
    return int(min(_wrapped(product, len(kernel))))


def _wrapped(polynomial: fmpz_poly, modulus: int) -> list[int]:
    """Give the coefficients modulo x^modulus - 1."""
    coefficients = [int(entry) for entry in polynomial.coeffs()]
    low = coefficients[:modulus] + [0] * (modulus - len(coefficients))
    for place, entry in enumerate(coefficients[modulus:]):
        low[place] += entry
    return low
