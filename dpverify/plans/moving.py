"""Queries about a public point that the transcript decides: of one sensitivity wherever it lies."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid import UNIT, Query, Records, squared_norms
from dpverify.grid.linear import WORD, Integers, largest
from dpverify.grid.nearness import Nearness
from dpverify.plans.kept import rounded_quotients, unit_sensitivity
from dpverify.plans.mapped import Mapped
from dpverify.plans.transcripts import Transcripts
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.randomness.bits import IntArray

_BLOCK = 1 << 22  # numbers that are held at a time


class MovingQuery(Query):
    """A query that reads public numbers off what was released before; the claim is the same for all."""

    __slots__ = ()

    nearness: Nearness

    @property
    @abstractmethod
    def width(self) -> int:
        """How many integers a value has."""

    @abstractmethod
    def after(self, mapped: Mapped, batch: Transcripts) -> IntArray:
        """Its value on the mapped records for each transcript, shape (size, width)."""

    def evaluate(self, records: Records) -> IntArray:
        """Without a transcript it has no value."""
        raise TypeError("A moving query has a value only after a transcript.")


@dataclass(frozen=True, slots=True)
class MovingSum(MovingQuery):
    """The sum about a point of the records in a ball around it, and their number, in 2^-40 of a noise.

    place: from a batch to points (integer cells, shape (size, width - 1)) and radii (size,), from what
    was released. With R the radius, w = R // 8 the weight of the number, and D the L2 sensitivity of
    (sum, w number): sqrt(R^2 + w^2) for add-remove, 2 R for replace, the value is
    round(2^40 (sum, w number) / (spread D)), D rounded up: noise of standard deviation spread D is then
    2^40.
    """

    nearness: Nearness
    spread: Fraction
    adjacency: Adjacency
    place: Callable[[Transcripts], tuple[Integers, Integers]]

    @property
    def width(self) -> int:
        """The sum's and one for the number."""
        return self.nearness.width + 1

    def after(self, mapped: Mapped, batch: Transcripts) -> IntArray:
        """Exact integers, one rounding."""
        points, radii = self.place(batch)
        found = np.zeros((len(batch), self.width), object)
        for i, (point, radius) in enumerate(zip(points, radii.tolist(), strict=True)):
            total = masked_sum(mapped.images, point, radius)
            scale = self.unit(radius)
            above = np.array(total, object) * (UNIT * scale.denominator)
            below = np.full(self.width, scale.numerator, object)
            found[i] = rounded_quotients(above, below)
        return found.astype(np.int64) if largest(found) < WORD else found

    def unit(self, radius: int) -> Fraction:
        """The standard deviation of the noise, in cells."""
        square = radius**2 + weight_of(radius) ** 2
        if self.adjacency is Adjacency.REPLACE:
            square = 4 * radius**2
        return self.spread * _root_above(square)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """(2^40 / spread + sqrt(width))^2, wherever the ball lies."""
        if adjacency is not self.adjacency:
            raise ValueError(f"the sum is in units for {self.adjacency}, not {adjacency}.")
        return sensitivity_lemma(
            f"the sum and number of records in a ball, in 2^-40 of {render(self.spread)} of its bound",
            norm=Norm.SQUARED_L2,
            value=unit_sensitivity(self.spread, self.width),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/filters.py:obligation_moving_sum",
            source=Source("OURS", "a masked sum about a released point"),
        )


def masked_sum(images: Integers, point: Integers, radius: int) -> list[int]:
    """(sum of image - point over the images within the radius, weight times their number)."""
    width, number = images.shape[1], 0
    total = np.zeros(width, np.int64)
    step = max(1, _BLOCK // max(1, width))
    for start in range(0, len(images), step):
        moved = images[start : start + step] - point
        # beyond the radius in one coordinate is beyond it: clipped there, squares stay small
        inside = squared_norms(np.clip(moved, -radius - 1, radius + 1)) <= radius**2
        total += moved[inside].sum(axis=0, dtype=np.int64)
        number += int(np.count_nonzero(inside))
    return [*total.tolist(), weight_of(radius) * number]


def weight_of(radius: int) -> int:
    """Of one record in the released number, in cells: an eighth of the radius, for less than 1% noise."""
    return max(1, radius // 8)


def _root_above(square: int) -> Fraction:
    """sqrt(square), rounded up to 2^-20."""
    root = math.isqrt(square << 40)
    return Fraction(root if root * root == square << 40 else root + 1, 1 << 20)
