"""Queries of records after a public linear map: each record becomes another, on a grid of its own.

The map is computed in integers from one record and public numbers, so neighboring datasets have
neighboring images, in the same places. spec/theory/record_maps.py says what the map is, on
rationals.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.queries import Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import (
    OUTER_BOX,
    Matrix,
    Vector,
    checked_center,
    checked_exponent,
    checked_matrix,
    images,
    to_cells,
)
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.privacy.rules.making import require_norm

_BLOCK = 1 << 20  # numbers that are mapped at a time


@dataclass(frozen=True, slots=True)
class RecordMap:
    """The map of records to y = 2^-fine round(C z / 2^shift), z_j = round(x_j / 2^exponent_j) -
    center_j.

    C: a square integer matrix. Halves are rounded up; z + center and y 2^fine are clamped to the
    outer box of 2^40 cells in each coordinate. Raises TypeError or ValueError for a map that is not
    of integers, or of unlike lengths.
    """

    center: Vector
    exponents: Vector
    matrix: Matrix
    shift: int
    fine: int
    _digest: str = field(default="", init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        settle(self, center=checked_center(self.center))
        settle(self, exponents=tuple(map(checked_exponent, self.exponents)))
        settle(self, matrix=checked_matrix(self.matrix, len(self.center)))
        if not len(self.center) == len(self.exponents) == len(self.matrix):
            raise ValueError(
                f"{len(self.center)} centers, {len(self.exponents)} exponents and "
                f"{len(self.matrix)} rows of the matrix; give one of each for a column."
            )
        for name, most in (("shift", 60), ("fine", 40)):
            if not 0 <= whole(getattr(self, name), name) <= most:
                raise ValueError(
                    f"{name} = {getattr(self, name)}; give an integer from 0 to {most}."
                )
        numbers = np.array([self.center, self.exponents, *self.matrix], "<i8").tobytes()
        digest = hashlib.sha256(numbers + b"%d %d" % (self.shift, self.fine)).hexdigest()
        settle(self, _digest=digest[:16])

    def __hash__(self) -> int:
        """Hash the digest: a matrix is long, and images are looked up again and again."""
        return hash(self._digest)

    def __str__(self) -> str:
        return f"a public map {self._digest}"

    def images(self, records: Records) -> Records:
        """Return every record's image, in order, shape (n, d): floats that are multiples of
        2^-fine.
        """
        if self.center and records.shape[1] != len(self.center):
            raise ValueError(
                f"records of {records.shape[1]} columns; the map is of {len(self.center)}."
            )
        mapped = np.empty(records.shape)
        public, half = np.array(self.matrix, np.int64), (1 << self.shift) >> 1
        step = max(1, _BLOCK // len(self.center))
        for start in range(0, len(records), step):
            block = mapped[start : start + step]
            cells = to_cells(records[start : start + step], self.exponents, self.center)
            for some, image in images(cells, public):
                moved = np.clip((image + half) >> self.shift, -OUTER_BOX, OUTER_BOX)
                block[some] = np.ldexp(moved.astype(np.float64), -self.fine)
        return mapped


@dataclass(frozen=True, slots=True)
class OfImages(VectorQuery):
    """A query of the images of records under a public map.

    Its sensitivity is that of the query, for images of neighbors are neighbors.
    """

    query: VectorQuery
    map: RecordMap

    @property
    def width(self) -> int:
        """Width of the query."""
        return self.query.width

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the query reads."""
        return self.query.reads

    @property
    def in_any_order(self) -> bool:
        """True if the query's value does not depend on the order: images are in the order of
        their records.
        """
        return self.query.in_any_order

    @property
    def addends(self) -> tuple[Query, ...] | None:
        """Addends of the query, each asked of the images."""
        inner = self.query.addends
        if inner is None:
            return None
        return tuple(OfImages(one, self.map) for one in inner if isinstance(one, VectorQuery))

    def largest(self, rows: int) -> int:
        """Return the query's bound."""
        return self.query.largest(rows)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the query's value on the images, which all queries with this map share."""
        return view.mapped(self.map).value(self.query, before)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the query's sensitivity, as a premise."""
        shown = self.query.sensitivity(adjacency, domain)
        require_norm(shown, (Norm.SQUARED_L2,), "a query of images")
        inner = shown.conclusion
        return sensitivity_lemma(
            Quantity.of(f"{inner.query}, after {self.map}", "OfImages", moved=inner.value),
            norm=Norm.SQUARED_L2,
            value=inner.value,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/record_maps.py:obligation_of_images",
            source=Source("OURS", "a query of records after a public map"),
            premises=(shown,),
        )

    def unclipped(self) -> Query | None:
        """Return the query without its clipping, on the images."""
        wild = self.query.unclipped()
        return OfImages(wild, self.map) if isinstance(wild, VectorQuery) else None
