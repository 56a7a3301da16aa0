"""Sums of outer products of records, after a public or released map, with their squared L2 sensitivities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpverify.grid.linear import (
    WORD,
    Integers,
    check_word_budget,
    second_moments,
    squared_norms,
)
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import (
    IntegerMap,
    Vector,
    checked_radius,
    clip_to_ball,
    inside_ball,
    onto_sphere,
)
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

How = Literal["sphere", "clip", "mask"]
"""What becomes of an image: moved to the sphere (0 stays), clipped to the ball, or left out if it is outside."""
DIAGONAL, OFF_DIAGONAL = 169, 239
"""Factors of entries: 239 / 169 is just below sqrt(2), so values are nearly isometric to matrices."""
_MOST_WEIGHT = 1 << 84
_WORDS: dict[str, str] = {
    "sphere": "moved to a sphere",
    "clip": "clipped to a ball",
    "mask": "inside a ball",
}


@dataclass(frozen=True, slots=True)
class SecondMoments(VectorQuery):
    """The sum over records of z z^T: 169 times its diagonal, then 239 times what is above it, row by row.

    A record's image y = C (cells - center), or C (cells - center, constant), becomes z in the ball of
    ``radius``, as ``how`` says. matrices: the different C, each row by row, shape (k, rows * columns of C), and which one
    each draw has, shape (size,); one bound holds for all of them. With ``reached``, each has one number more, r from 1 on: images
    up to r long fill the ball, z = y radius / r toward 0, and longer ones are clipped or left out. With a ``weight`` w, a
    last number of the value: 169 w times how many records are counted (with "mask", those inside).
    """

    center: Vector
    exponent: int
    rows: int
    radius: int
    matrices: Released[tuple[Integers, Integers]]
    how: How = "sphere"
    constant: int = 0
    weight: int = 0
    reached: bool = False
    clipped: bool = True

    def __post_init__(self) -> None:
        settle(self, radius=checked_radius(self.radius), weight=whole(self.weight, "weight"))
        if self.how not in _WORDS:
            raise ValueError(f"how = {self.how!r}; write 'sphere', 'clip' or 'mask'.")
        if self.reached and self.how == "sphere":
            raise ValueError("reached: a sphere has no reach; write 'clip' or 'mask', or leave it out.")
        if not 0 <= self.weight <= _MOST_WEIGHT:
            raise ValueError(f"weight = {self.weight} is outside 0..2^84; radius**2 // 8 is usual.")
        check_word_budget(self.constant, "constant")

    @property
    def width(self) -> int:
        """The entries on and above the diagonal, and the number."""
        return self.rows * (self.rows + 1) // 2 + bool(self.weight)

    @property
    def reads(self) -> tuple[str, ...]:
        """What the matrices follow from."""
        return self.matrices.reads

    def largest(self, rows: int) -> int:
        """The radius squared or the weight for each record; without clipping, as far as the grid goes."""
        far = self.radius**2 if self.clipped else 1 << 200
        return rows * DIAGONAL * max(far, self.weight)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Shape (size, width), or (width,) where nothing is read; exact for every n.

        Raises ValueError for matrices of another shape.
        """
        matrices, which = self.matrices(before)
        columns = len(self.center) + bool(self.constant)
        check_matrices(matrices, which, self.rows * columns + self.reached, len(before))
        kind = np.int64 if self.largest(len(view)) < WORD else object
        found = [self._value(tuple(row), view) for row in matrices.tolist()]
        values = np.array(found, kind)[which]
        return values if self.reads else np.asarray(values[0])

    def _value(self, row: Vector, view: View) -> list[int]:
        reach = max(1, row[-1]) if self.reached else None
        public = image_map(row, self.rows, self.center, self.exponent, self.constant)
        key = (public, reach, self.radius, self.how, self.weight, self.clipped)
        return view.once(key, lambda: self._sum(public, reach, view))

    def _sum(self, public: IntegerMap, reach: int | None, view: View) -> list[int]:
        total: Integers = np.zeros((self.rows, self.rows), object)
        number = 0
        for image in public.images(view.records):
            kept = self._kept(image, reach) if self.clipped else image
            total += second_moments(kept)
            number += len(kept)
        above = total[np.triu_indices(self.rows, 1)]
        counted = [DIAGONAL * self.weight * number] if self.weight else []
        return [
            *(DIAGONAL * np.diag(total)).tolist(),
            *(OFF_DIAGONAL * above).tolist(),
            *counted,
        ]

    def _kept(self, image: Integers, reach: int | None) -> Integers:
        if self.how == "sphere":
            return onto_sphere(image, self.radius)
        if self.how == "clip":
            return clip_to_ball(image, self.radius, reach)
        if reach is None:
            return np.asarray(image[inside_ball(image, self.radius)])
        return clip_to_ball(image[squared_norms(image) <= reach**2], self.radius, reach)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """169^2 times: add-remove R^4 + w^2; replace 2 R^4, with "mask" at least R^4 + w^2."""
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        if domain.columns != len(self.center):
            raise ValueError(
                f"{domain}, for a center of {len(self.center)} coordinates; give one coordinate a column."
            )
        counted = f", with {self.weight} times their number" if self.weight else ""
        return sensitivity_lemma(
            Quantity.of(
                f"the sum of z z^T for records {_WORDS[self.how]} of {self.radius} cells, after a map{counted}",
                "SecondMoments",
                radius=self.radius,
                weight=self.weight,
                how=self.how,
            ),
            norm=Norm.SQUARED_L2,
            value=moved_squared(self.radius, self.weight, self.how, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/outer_products.py:obligation_second_moments",
            source=Source("OURS", "sums of outer products of vectors in a ball"),
        )

    def unclipped(self) -> Query:
        """The same sum of the images as they are."""
        return replace(self, clipped=False)


def moved_squared(radius: int, weight: int, how: How, adjacency: Adjacency) -> int:
    """The squared L2 sensitivity. Source: spec/theory/outer_products.py."""
    one = radius**4 + weight**2
    if adjacency is Adjacency.ADD_REMOVE:
        return DIAGONAL**2 * one
    both = 2 * radius**4
    return DIAGONAL**2 * (max(both, one) if how == "mask" else both)


@dataclass(frozen=True, slots=True)
class LengthSides(VectorQuery):
    """How many records' images are longer than a threshold, minus how many are shorter; shape (1,).

    Images as for ``SecondMoments``. thresholds: the different C, each row by row and with its threshold, an integer from 0
    on, as a last number, shape (k, rows * columns of C + 1), and which one each draw has, shape (size,).
    """

    center: Vector
    exponent: int
    rows: int
    thresholds: Released[tuple[Integers, Integers]]
    constant: int = 0

    def __post_init__(self) -> None:
        check_word_budget(self.constant, "constant")

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    @property
    def reads(self) -> tuple[str, ...]:
        """What the matrices and thresholds follow from."""
        return self.thresholds.reads

    def largest(self, rows: int) -> int:
        """All records on one side."""
        return rows

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Shape (size, 1), or (1,) where nothing is read. Raises ValueError for matrices of another shape."""
        numbers, which = self.thresholds(before)
        columns = len(self.center) + bool(self.constant)
        check_matrices(numbers, which, self.rows * columns + 1, len(before))
        found = [[self._difference(tuple(row), view)] for row in numbers.tolist()]
        values = np.array(found, np.int64)[which]
        return values if self.reads else np.asarray(values[0])

    def _difference(self, row: Vector, view: View) -> int:
        public = image_map(row, self.rows, self.center, self.exponent, self.constant)
        squares = view.once((public, "squares"), lambda: _squares(public, view))
        threshold = max(0, row[-1]) ** 2
        longer, shorter = squares > threshold, squares < threshold
        return int(np.count_nonzero(longer)) - int(np.count_nonzero(shorter))

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """A record counts -1, 0 or 1: add-remove 1; replace 4."""
        if domain.columns != len(self.center):
            raise ValueError(
                f"{domain}, for a center of {len(self.center)} coordinates; give one coordinate a column."
            )
        return sensitivity_lemma(
            Quantity.of("the records longer than a threshold, minus those shorter", "LengthSides"),
            norm=Norm.SQUARED_L2,
            value=4 if adjacency is Adjacency.REPLACE else 1,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/outer_products.py:obligation_length_sides",
            source=Source("OURS", "sums of outer products of vectors in a ball"),
        )


def image_map(row: Vector, rows: int, center: Vector, exponent: int, constant: int) -> IntegerMap:
    """Make the map of a released row of numbers, of which those that are too many are no part of it."""
    columns = len(center) + bool(constant)
    matrix = tuple(row[i * columns : (i + 1) * columns] for i in range(rows))
    return IntegerMap(center, exponent, matrix, constant)


def check_matrices(numbers: Integers, which: Integers, width: int, draws: int) -> None:
    """Refuse, with ValueError, what was released in another shape than a query's."""
    if numbers.shape[1:] != (width,) or which.shape != (draws,):
        raise ValueError(
            f"matrices of shape {numbers.shape} and {which.shape} were released for {draws} draws; give {width} numbers for "
            "each matrix, and one number for each draw."
        )


def _squares(public: IntegerMap, view: View) -> Integers:
    """The squared length of every image, in no particular order."""
    found = [squared_norms(image) for image in public.images(view.records)]
    return np.concatenate(found) if found else np.zeros(0, np.int64)
