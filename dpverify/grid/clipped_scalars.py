"""Sums of first and second moments, clipped, about a released center and in a released unit,
with their sensitivity.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from dpverify.grid.cells import quantize
from dpverify.grid.linear import WORD, Integers
from dpverify.grid.masks import rows_once
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import OUTER_BOX, checked_exponent
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

GRAIN = 1 << 10
"""Number of steps of a record's image in one unit."""
LEVELS = 16
"""Number of units in an octave: level j is the unit 2^(j / 16) cells."""
MOST_LEVEL = 41 * LEVELS
_LARGEST_CENTER = 1 << 52  # cells about a center up to here are exact floats
_LARGEST_EDGE = 1 << 14
_LARGEST_FACTOR = 1 << 32
_SHAPE = ("turn", "edge", "linear", "square", "offset", "weight")


def unit_of(level: int) -> int:
    """Compute 2^(level / 16) cells in sixteenths of a cell, rounded down, for a level from 0 on."""
    value = 1 << (4 * LEVELS + level)
    for _ in range(4):
        value = math.isqrt(value)
    return value


@dataclass(frozen=True, slots=True)
class ClippedMoments(VectorQuery):
    """The sums over records of linear clip(z, +-turn) and square (min(z^2, edge^2) - offset),
    and weight times their number.

    A record of one column is rounded to cells of 2^exponent and clamped to 2^40 cells about
    ``center``; z is its distance from the frame's center in 1/1024 of the frame's unit, to the
    nearest integer. frame: what earlier stages decided, (size, 2)
    integers: the frame's center in cells from ``center``, and its unit's level. The sensitivity
    is the same for all frames. With weight 0 the number is left out.
    """

    adds_up = True
    exponent: int
    center: int
    turn: int
    edge: int
    linear: int
    square: int
    offset: int
    weight: int
    frame: Released[Integers]
    clipped: bool = True

    def __post_init__(self) -> None:
        settle(self, exponent=checked_exponent(self.exponent), center=whole(self.center, "center"))
        if abs(self.center) > _LARGEST_CENTER:
            raise ValueError(
                f"center = {self.center} cells is beyond 2^52; subtract a public constant from "
                "the data, or give a larger cell."
            )
        for name in _SHAPE:
            settle(self, **{name: whole(getattr(self, name), name)})
        if not 1 <= self.turn <= self.edge <= _LARGEST_EDGE:
            raise ValueError(
                f"turn = {self.turn}, edge = {self.edge}; give 1 <= turn <= edge <= 2^14, in "
                "1/1024 of a unit."
            )
        factors = self.linear, self.square, self.weight
        if not 0 <= self.offset <= self.edge**2 or not all(
            0 <= f <= _LARGEST_FACTOR for f in factors
        ):
            raise ValueError(
                f"offset = {self.offset}, linear, square and weight = {factors}; give an offset "
                "from 0 to edge^2 and factors from 0 to 2^32."
            )

    @property
    def _shape(self) -> tuple[int, ...]:
        return self.turn, self.edge, self.linear, self.square, self.offset, self.weight

    def moved(self, adjacency: Adjacency) -> int:
        """Return the squared L2 sensitivity, which is the same for every frame."""
        return moved_squared(*self._shape, adjacency)

    @property
    def width(self) -> int:
        """Number of released integers: the two sums, and the number of records if it has a
        weight.
        """
        return 2 + bool(self.weight)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the frame follows from."""
        return self.frame.reads

    def largest(self, rows: int) -> int:
        """Return the most that so many records add to a sum, for each; without clipping, as far
        as the grid goes.
        """
        far = self.edge if self.clipped else 1 << 56
        return rows * max(self.linear * far, self.square * far**2, self.weight)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the sums, shape (size, width), exact for every n; draws with one frame share
        the work.

        Raises ValueError for what is no frame.
        """
        frames = self.frame(before)
        if frames.shape != (len(before), 2) or frames.dtype.kind not in "iu":
            raise ValueError(
                f"frames {frames.dtype}{frames.shape} were released for {len(before)} draws; "
                "give two integers for each."
            )
        unique, which = rows_once(frames)
        sums = [self._sums(int(m), int(level), view) for m, level in unique.tolist()]
        kind = np.int64 if self.largest(len(view)) < WORD else object
        return np.asarray(np.array(sums, kind)[which])

    def _sums(self, middle: int, level: int, view: View) -> list[int]:
        if not (abs(middle) <= OUTER_BOX and 0 <= level <= MOST_LEVEL):
            raise ValueError(
                f"the frame ({middle}, {level}) is outside the grid; clamp it to 2^40 cells and "
                f"to levels from 0 to {MOST_LEVEL}."
            )
        key = (ClippedMoments, self.exponent, self.center, self._shape, self.clipped, middle, level)
        return view.once(key, lambda: self._sum(middle, level, view.records))

    def _sum(self, middle: int, level: int, records: Records) -> list[int]:
        own, unit = self.center, unit_of(level)
        cells = quantize(records[:, 0], own - OUTER_BOX, own + OUTER_BOX, self.exponent) - own
        # to the nearest: 2^15 (cells - middle) stays within 2^56
        z = ((cells - middle) * (2 * LEVELS * GRAIN) + unit) // (2 * unit)
        counted = [self.weight * len(z)] if self.weight else []
        if not self.clipped:
            rows: list[int] = z.tolist()
            first, second = sum(rows), sum(v * v for v in rows)
        else:
            z = np.clip(z, -self.edge, self.edge)
            first = int(np.clip(z, -self.turn, self.turn).sum())
            second = int((z * z).sum())  # 2^28 for each
        return [self.linear * first, self.square * (second - self.offset * len(z)), *counted]

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the largest squared length of what a record adds (add-remove), or of what two
        add, subtracted (replace).
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        if domain.columns != 1:
            raise ValueError(f"{domain}, for moments of one column.")
        return sensitivity_lemma(
            Quantity.of(
                f"the sums of {self.linear} clip(z, {self.turn}), {self.square} (min(z^2, "
                f"{self.edge}^2) - {self.offset}) and {self.weight}, z about a released center "
                "in a released unit",
                "ClippedMoments",
                **dict(zip(_SHAPE, self._shape, strict=True)),
            ),
            norm=Norm.SQUARED_L2,
            value=self.moved(adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/clipped_scalars.py:obligation_clipped_moments",
            source=Source("OURS", "clipped first and second moments under one noise"),
        )

    def unclipped(self) -> Query:
        """Return the sums of z and z^2 as they are."""
        return replace(self, clipped=False)


@lru_cache(maxsize=64)
def moved_squared(
    turn: int,
    edge: int,
    linear: int,
    square: int,
    offset: int,
    weight: int,
    adjacency: Adjacency,
) -> int:
    """Compute the squared L2 sensitivity. Source: spec/theory/clipped_scalars.py, which has the
    proof.

    replace: one record beyond the edge, the other at -t. add-remove: a record at t.
    """
    if adjacency is Adjacency.REPLACE:
        return max(
            (linear * (turn + t)) ** 2 + (square * (edge**2 - t * t)) ** 2 for t in range(turn + 1)
        )
    one = max(
        (linear * min(t, turn)) ** 2 + (square * (t * t - offset)) ** 2 for t in range(edge + 1)
    )
    return one + weight**2
