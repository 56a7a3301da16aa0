"""Sums of outer products of records, after a public or released map, with their squared L2 sensitivities."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from dpverify.grid.linear import WORD, Integers, check_word_budget, second_moments
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
    each draw has, shape (size,); one bound holds for all of them. With a ``weight`` w, a last number: 169 w times how many records are counted (with "mask",
    those inside).
    """

    center: Vector
    exponent: int
    rows: int
    radius: int
    matrices: Released[tuple[Integers, Integers]]
    how: How = "sphere"
    constant: int = 0
    weight: int = 0
    clipped: bool = True

    def __post_init__(self) -> None:
        settle(self, radius=checked_radius(self.radius), weight=whole(self.weight, "weight"))
        if self.how not in _WORDS:
            raise ValueError(f"how = {self.how!r}; write 'sphere', 'clip' or 'mask'.")
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
        if matrices.shape[1:] != (self.rows * columns,) or which.shape != (len(before),):
            raise ValueError(
                f"matrices of shape {matrices.shape} and {which.shape} were released for {len(before)} draws; give "
                f"{self.rows} rows of {columns} numbers, and one number for each draw."
            )
        kind = np.int64 if self.largest(len(view)) < WORD else object
        found = [self._value(tuple(row), view) for row in matrices.tolist()]
        values = np.array(found, kind)[which]
        return values if self.reads else np.asarray(values[0])

    def _value(self, row: Vector, view: View) -> list[int]:
        step = len(row) // self.rows
        matrix = tuple(row[i : i + step] for i in range(0, len(row), step))
        public = IntegerMap(self.center, self.exponent, matrix, self.constant)
        key = (public, self.radius, self.how, self.weight, self.clipped)
        return view.once(key, lambda: self._sum(public, view))

    def _sum(self, public: IntegerMap, view: View) -> list[int]:
        total: Integers = np.zeros((self.rows, self.rows), object)
        number = 0
        for image in public.images(view.records):
            kept = self._kept(image) if self.clipped else image
            total += second_moments(kept)
            number += len(kept)
        above = total[np.triu_indices(self.rows, 1)]
        counted = [DIAGONAL * self.weight * number] if self.weight else []
        return [
            *(DIAGONAL * np.diag(total)).tolist(),
            *(OFF_DIAGONAL * above).tolist(),
            *counted,
        ]

    def _kept(self, image: Integers) -> Integers:
        if self.how == "sphere":
            return onto_sphere(image, self.radius)
        if self.how == "clip":
            return clip_to_ball(image, self.radius)
        return np.asarray(image[inside_ball(image, self.radius)])

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
