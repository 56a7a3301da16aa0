"""Sums of records of zeros and ones, with weights that were released: vectors in an orthant,
clipped to a ball.

Two vectors of an orthant in a ball are sqrt(2) radii apart at most, and not two. What the maps
are, on rationals, is in spec/theory/orthants.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.linear import WORD, Integers, column_sums
from dpverify.grid.queries import UNCLIPPED
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import Vector, checked_radius, clip_to_ball
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

_BLOCK = 1 << 20  # numbers that are mapped at a time
_SPEC = "theory/orthants.py:obligation_bit_sums"


@dataclass(frozen=True, slots=True, kw_only=True)
class BitSums(VectorQuery):
    """The sum over records of what their bits become; with a ``weight``, and last that many
    times their number.

    A number above 1/2 is the bit 1, any other is 0. weights: different rows of d integers,
    shape (k, d), and which of them each draw has, shape (size,). For a positive weight w_j a
    bit counts w_j, for a negative one its opposite counts -w_j; the vector of these is clipped
    to the ball of ``radius``, toward 0. A row of zeros is for signs: then bits count c or -c,
    c = ``sign_of(radius, d, adjacency)``, and nothing is clipped. One bound holds for all rows.
    """

    adds_up = True
    columns: int
    radius: int
    adjacency: Adjacency
    weights: Released[tuple[Integers, Integers]]
    weight: int = 0
    clipped: bool = True

    def __post_init__(self) -> None:
        settle(self, radius=checked_radius(self.radius), weight=whole(self.weight, "weight"))
        if self.weight < 0:
            raise ValueError(f"weight = {self.weight} of the number; give 0 or more.")
        if self.radius**2 < 2 * self.columns:
            raise ValueError(
                f"radius = {self.radius} for {self.columns} columns; give one of at least "
                "sqrt(2) for each root of a column."
            )

    @property
    def width(self) -> int:
        """Number of released integers: one for each column, and the number of records."""
        return self.columns + bool(self.weight)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the weights follow from."""
        return self.weights.reads

    def largest(self, rows: int) -> int:
        """Return the radius or the weight for each record; without clipping, the longest
        weights there are.
        """
        return rows * max(self.radius if self.clipped else WORD, self.weight)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the sums, shape (size, width), or (width,) where nothing is read; exact for
        every n.

        Raises ValueError for weights of another shape.
        """
        rows, which = self.weights(before)
        if rows.shape[1:] != (self.columns,) or which.shape != (len(before),):
            raise ValueError(
                f"weights of shape {rows.shape} and {which.shape} were released for "
                f"{len(before)} draws; give {self.columns} numbers in a row, and one number for "
                "each draw."
            )
        kind = np.int64 if self.largest(len(view)) < WORD else object
        sums = [self._value(tuple(row), view) for row in rows.tolist()]
        values = np.array(sums, kind)[which]
        return values if self.reads else np.asarray(values[0])

    def _value(self, row: Vector, view: View) -> list[int]:
        key = (row, self.radius, self.adjacency, self.weight, self.clipped, "bits")
        return view.once(key, lambda: self._sum(row, view))

    def _sum(self, row: Vector, view: View) -> list[int]:
        total: Integers = np.zeros(self.columns, object)
        for bits in _bits(view.records, self.columns):
            total += column_sums(self._images(row, bits))
        counted = [self.weight * len(view)] if self.weight else []
        return [*total.tolist(), *counted]

    def _images(self, row: Vector, bits: NDArray[np.bool_]) -> Integers:
        if not any(row):
            one = sign_of(self.radius, self.columns, self.adjacency)
            return np.where(bits, one, -one)
        weights = np.array(row, np.int64)
        vectors = np.where(bits == (weights > 0), np.abs(weights), 0)
        return clip_to_ball(vectors, self.radius) if self.clipped else vectors

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity. Add-remove R^2 + w^2; replace 2 R^2. Raises
        ValueError for another adjacency than the signs are for.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        if domain.columns != self.columns:
            raise ValueError(f"{domain}, for {self.columns} columns of bits; give one a column.")
        if adjacency is not self.adjacency:
            raise ValueError(f"the signs of these sums are for {self.adjacency}, not {adjacency}.")
        counted = f", with {self.weight} times their number" if self.weight else ""
        words = f"the sum of weighted bits clipped to a ball of {self.radius}{counted}"
        return sensitivity_lemma(
            Quantity.of(words, "BitSums", radius=self.radius, weight=self.weight),
            norm=Norm.SQUARED_L2,
            value=moved_squared(self.radius, self.weight, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation=_SPEC,
            source=Source("OURS", "sums of vectors in an orthant of a ball"),
        )


def sign_of(radius: int, columns: int, adjacency: Adjacency) -> int:
    """Give c for which d numbers of c or -c move as little as clipped vectors: replace 4 d
    c^2 <= 2 R^2, add-remove d c^2 <= R^2.
    """
    share = 2 * columns if adjacency is Adjacency.REPLACE else columns
    return isqrt(radius**2 // share)


def moved_squared(radius: int, weight: int, adjacency: Adjacency) -> int:
    """Compute the squared L2 sensitivity. Source: spec/theory/orthants.py."""
    if adjacency is Adjacency.ADD_REMOVE:
        return radius**2 + weight**2
    return 2 * radius**2


def _bits(records: Records, columns: int) -> Iterator[NDArray[np.bool_]]:
    """Yield the bits of the records, some at a time. Raises ValueError for records of another
    number of columns.
    """
    if records.shape[1] != columns:
        raise ValueError(f"records of {records.shape[1]} columns; the sums are of {columns}.")
    step = max(1, _BLOCK // columns)
    for start in range(0, len(records), step):
        yield records[start : start + step] > 0.5
