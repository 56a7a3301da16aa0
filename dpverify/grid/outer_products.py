"""Sums of outer products of records, after a public or released map, with their squared L2
sensitivities.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

import numpy as np

from dpverify.grid.linear import (
    WORD,
    Integers,
    ceiling_norms,
    check_word_budget,
    column_sums,
    norms_at_most,
    second_moments,
)
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import (
    OUTER_BOX,
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
"""Treatment of an image: moved to the sphere (0 stays), clipped to the ball, or left out if it
is outside.
"""
DIAGONAL, OFF_DIAGONAL = 169, 239
"""Factors of entries: 239 / 169 is just below sqrt(2), so values are nearly isometric to matrices.
"""
_MOST_WEIGHT = 1 << 84
_SHORT = 1 << 10  # rows of so many numbers, whose maps are remembered
_WORDS: dict[str, str] = {
    "sphere": "moved to a sphere",
    "clip": "clipped to a ball",
    "mask": "inside a ball",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageQuery(VectorQuery):
    """A query about records' images under integer maps that were released.

    A record's image is y = C (cells - center), or C (cells - center, constant); cells are of
    2^exponent. rows: of C.
    maps: the different rows of numbers, shape (k, numbers), and which of them each draw has,
    shape (size,). A row is C, row by row; with ``moved`` then by how many cells the center is
    moved, for each column; and what else the kind of query asks for. One bound on the
    sensitivity holds for all of them.
    """

    adds_up = True
    center: Vector
    exponent: int | Vector
    rows: int
    maps: Released[tuple[Integers, Integers]]
    constant: int = 0
    moved: bool = False

    def __post_init__(self) -> None:
        check_word_budget(self.constant, "constant")

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the maps follow from."""
        return self.maps.reads

    @property
    def more(self) -> int:
        """Number of further numbers in a row, after the map."""
        return 0

    @abstractmethod
    def value(self, public: IntegerMap, more: Vector, view: View) -> list[int]:
        """Compute the value for one map, with the numbers after it in its row."""

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the value, shape (size, width), or (width,) where nothing is read; exact for
        every n.

        Raises ValueError for maps of another shape.
        """
        numbers, which = self.maps(before)
        width = self.rows * self._columns() + self.moved * len(self.center) + self.more
        if numbers.shape[1:] != (width,) or which.shape != (len(before),):
            raise ValueError(
                f"maps of shape {numbers.shape} and {which.shape} were released for "
                f"{len(before)} draws; give {width} numbers for each map, and one number for "
                "each draw."
            )
        kind = np.int64 if self.largest(len(view)) < WORD else object
        answers = [self.value(*self._read(tuple(row)), view) for row in numbers.tolist()]
        values = np.array(answers, kind)[which]
        return values if self.reads else np.asarray(values[0])

    def _columns(self) -> int:
        return len(self.center) + bool(self.constant)

    def _read(self, row: Vector) -> tuple[IntegerMap, Vector]:
        """Return the map of a row, and the numbers after it."""
        step, center = self._columns(), self.center
        matrix = tuple(row[i * step : (i + 1) * step] for i in range(self.rows))
        rest = row[self.rows * step :]
        if self.moved:
            sums = (c + m for c, m in zip(center, rest, strict=False))
            center = tuple(min(max(c, -OUTER_BOX), OUTER_BOX) for c in sums)
            rest = rest[len(center) :]
        made = _made if len(row) <= _SHORT else IntegerMap
        return made(center, self.exponent, matrix, self.constant), rest

    def check_domain(self, domain: Domain) -> None:
        """Raise ValueError for records of another number of columns."""
        if domain.columns != len(self.center):
            raise ValueError(
                f"{domain}, for a center of {len(self.center)} coordinates; give one coordinate "
                "a column."
            )


_made = lru_cache(maxsize=1 << 8)(IntegerMap)  # a search asks about one map at every step


@dataclass(frozen=True, slots=True, kw_only=True)
class _Moments(ImageQuery):
    """Sum over records of a function of z: the image, moved into the ball of ``radius`` as
    ``how`` says.

    With ``with_reach``, a row ends with a number r from 1 on: images up to r long fill the
    ball, z = y radius / r toward 0, and longer ones are clipped or left out.
    """

    radius: int
    how: How = "sphere"
    with_reach: bool = False
    clipped: bool = True

    def __post_init__(self) -> None:
        ImageQuery.__post_init__(self)
        settle(self, radius=checked_radius(self.radius))
        if self.how not in _WORDS:
            raise ValueError(f"how = {self.how!r}; write 'sphere', 'clip' or 'mask'.")
        if self.with_reach and self.how == "sphere":
            raise ValueError(
                "with_reach: a sphere has no reach; write 'clip' or 'mask', or leave it out."
            )

    @property
    def more(self) -> int:
        """Number of further numbers in a row: one where it has the reach."""
        return int(self.with_reach)

    def kept(self, public: IntegerMap, more: Vector, view: View) -> Iterator[Integers]:
        """Yield every record's z, in no particular order, some records at a time; without
        clipping, its image.
        """
        reach = max(1, more[0]) if self.with_reach else None
        for image in public.images(view.records):
            yield self._kept(image, reach) if self.clipped else image

    def _kept(self, image: Integers, reach: int | None) -> Integers:
        if self.how == "sphere":
            return onto_sphere(image, self.radius)
        if self.how == "clip":
            return clip_to_ball(image, self.radius, reach)
        if reach is None:
            return np.asarray(image[inside_ball(image, self.radius)])
        return clip_to_ball(image[norms_at_most(image, reach**2)], self.radius, reach)

    def unclipped(self) -> Query:
        """Return the same sum of the images as they are."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class SecondMoments(_Moments):
    """The sum over records of z z^T: 169 times its diagonal, then 239 times what is above it,
    row by row.

    With a ``weight`` w, a last number of the value: 169 w times how many records are counted
    (with "mask", those inside).
    """

    weight: int = 0

    def __post_init__(self) -> None:
        _Moments.__post_init__(self)
        settle(self, weight=whole(self.weight, "weight"))
        if not 0 <= self.weight <= _MOST_WEIGHT:
            raise ValueError(f"weight = {self.weight} is outside 0..2^84; radius**2 // 8 is usual.")

    @property
    def width(self) -> int:
        """Number of released integers: the entries on and above the diagonal, and the number of
        records.
        """
        return self.rows * (self.rows + 1) // 2 + bool(self.weight)

    def largest(self, rows: int) -> int:
        """Return the radius squared or the weight for each record; without clipping, as far as
        the grid goes.
        """
        far = self.radius**2 if self.clipped else 1 << 200
        return rows * DIAGONAL * max(far, self.weight)

    def value(self, public: IntegerMap, more: Vector, view: View) -> list[int]:
        """Compute the value once for each map."""
        key = (public, more, self.radius, self.how, self.weight, self.clipped)
        return view.once(key, lambda: self._sum(public, more, view))

    def _sum(self, public: IntegerMap, more: Vector, view: View) -> list[int]:
        total: Integers = np.zeros((self.rows, self.rows), object)
        number = 0
        for kept in self.kept(public, more, view):
            total += second_moments(kept)
            number += len(kept)
        above = total[np.triu_indices(self.rows, 1)]
        counted = [DIAGONAL * self.weight * number] if self.weight else []
        return [
            *(DIAGONAL * np.diag(total)).tolist(),
            *(OFF_DIAGONAL * above).tolist(),
            *counted,
        ]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity, 169^2 times: add-remove R^4 + w^2; replace 2 R^4,
        with "mask" at least R^4 + w^2.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        self.check_domain(domain)
        counted = f", with {self.weight} times their number" if self.weight else ""
        return sensitivity_lemma(
            Quantity.of(
                f"the sum of z z^T for records {_WORDS[self.how]} of {self.radius} cells, after "
                f"a map{counted}",
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstMoments(_Moments):
    """The sum over records of z."""

    @property
    def width(self) -> int:
        """Number of released integers: one for each row of the map."""
        return self.rows

    def largest(self, rows: int) -> int:
        """Return the radius for each record; without clipping, as far as the grid goes."""
        return rows * (self.radius if self.clipped else 1 << 100)

    def value(self, public: IntegerMap, more: Vector, view: View) -> list[int]:
        """Compute the value once for each map."""
        key = (public, more, self.radius, self.how, self.clipped)
        return view.once(key, lambda: self._sum(public, more, view))

    def _sum(self, public: IntegerMap, more: Vector, view: View) -> list[int]:
        total: Integers = np.zeros(self.rows, object)
        for kept in self.kept(public, more, view):
            total += column_sums(kept)
        sums: list[int] = total.tolist()
        return sums

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity. Add-remove R^2; replace (2R)^2."""
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        self.check_domain(domain)
        words = f"the sum of records {_WORDS[self.how]} of {self.radius} cells, after a map"
        return sensitivity_lemma(
            Quantity.of(words, "FirstMoments", radius=self.radius),
            norm=Norm.SQUARED_L2,
            value=self.radius**2 * (4 if adjacency is Adjacency.REPLACE else 1),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/outer_products.py:obligation_first_moments",
            source=Source("OURS", "sums of integer vectors in a ball"),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthSides(ImageQuery):
    """Number of records whose images are longer than a threshold, minus how many are shorter.

    A row of ``maps`` ends with the threshold, an integer; every image is longer than a negative
    one.
    """

    @property
    def width(self) -> int:
        """Number of released integers: always 1."""
        return 1

    @property
    def more(self) -> int:
        """Number of further numbers in a row: the threshold."""
        return 1

    def largest(self, rows: int) -> int:
        """Return the bound for all records on one side."""
        return rows

    def value(self, public: IntegerMap, more: Vector, view: View) -> list[int]:
        """Compute the value, with the lengths once for each map."""
        lengths = view.once((public, "lengths"), lambda: _lengths(public, view))
        longer, shorter = lengths > 2 * more[0], lengths < 2 * more[0]
        return [int(np.count_nonzero(longer)) - int(np.count_nonzero(shorter))]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity: a record counts -1, 0 or 1, so add-remove 1; replace
        4.
        """
        self.check_domain(domain)
        return sensitivity_lemma(
            Quantity.of(
                "the number of records longer than a threshold, minus that of shorter ones",
                "LengthSides",
            ),
            norm=Norm.SQUARED_L2,
            value=4 if adjacency is Adjacency.REPLACE else 1,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/outer_products.py:obligation_length_sides",
            source=Source("OURS", "sums of outer products of vectors in a ball"),
        )


def moved_squared(radius: int, weight: int, how: How, adjacency: Adjacency) -> int:
    """Return the squared L2 sensitivity. Source: spec/theory/outer_products.py."""
    one = radius**4 + weight**2
    if adjacency is Adjacency.ADD_REMOVE:
        return DIAGONAL**2 * one
    both = 2 * radius**4
    return DIAGONAL**2 * (max(both, one) if how == "mask" else both)


def _lengths(public: IntegerMap, view: View) -> Integers:
    """Return twice the length of every image, in no particular order; an odd integer stands for
    all between its neighbors.

    So the result is above, at or below an even integer just as twice the length is.
    """
    norms = [ceiling_norms(image) for image in public.images(view.records)]
    lengths = [2 * ceiling - ~whole for ceiling, whole in norms]
    return np.concatenate(lengths) if lengths else np.zeros(0, np.int64)
