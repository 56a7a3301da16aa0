"""Queries that look at each coordinate in its own unit: sides of thresholds, norms, scaled sums.

For each coordinate they say on which side of a public threshold a record lies, or its distance
from a public center in a public unit of that coordinate. Each record is mapped on its own, in
integers or by comparing floats, which is exact. What the maps are, on rationals, is in
spec/theory/coordinates.py.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpverify.grid.cells import quantize
from dpverify.grid.linear import WORD, Integers, check_word_budget, column_sums, squared_norms
from dpverify.grid.public_sets import PublicSet
from dpverify.grid.queries import UNCLIPPED, Query
from dpverify.grid.records import Records
from dpverify.grid.transcripts import NOTHING, Transcripts
from dpverify.grid.vector_queries import VectorQuery
from dpverify.grid.vectors import (
    OUTER_BOX,
    Vector,
    checked_center,
    checked_exponent,
    checked_radius,
    clip_to_ball,
    clip_to_box,
    inside_ball,
)
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.numbers import settle, whole
from dpverify.privacy.rules import sensitivity_lemma

Numbers = tuple[float, ...]
_LARGEST_FACTOR = 1 << 6
_LARGEST_EDGE = 1 << 30  # its square is a 62-bit integer
_FEW_COLUMNS = 32
_BYTE = 127  # the largest sum that a byte holds
_BLOCK = 1 << 18  # numbers that are mapped at a time: what is in between stays in the cache


@dataclass(frozen=True, slots=True)
class SideCounts(VectorQuery):
    """Numbers of records above each coordinate's threshold, minus those below.

    With ``lows``: how many lie outside the interval from low to high, minus how many lie
    inside. A record at an end counts as neither. The difference needs no number of records to
    be compared with.
    Raises ValueError for thresholds that are not finite, or an interval whose ends are reversed.
    """

    adds_up = True
    highs: Numbers
    lows: Numbers | None = None

    def __post_init__(self) -> None:
        lows = self.highs if self.lows is None else self.lows
        ordered = len(lows) == len(self.highs) and all(map(float.__le__, lows, self.highs))
        if not self.highs or not ordered or not all(map(math.isfinite, (*lows, *self.highs))):
            raise ValueError(
                f"thresholds for {len(self.highs)} coordinates; give one finite float for each, "
                "and intervals whose low end is not above the high one."
            )

    @property
    def width(self) -> int:
        """Number of released integers: one for each coordinate."""
        return len(self.highs)

    def largest(self, rows: int) -> int:
        """Return the bound for all records on one side."""
        return rows

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the counts, shape (width,), from comparisons of floats, which do not round."""
        _check_columns(view.records, self.width)
        highs, total = np.array(self.highs), np.zeros(self.width, np.int64)
        lows = None if self.lows is None else np.array(self.lows)
        for block in _blocks(view.records):
            out, inside = block > highs, block < highs
            if lows is not None:
                out, inside = out | (block < lows), inside & (block > lows)
            total += _more_often(out, inside)
        return total

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: a record counts -1, 0 or 1 in each of d coordinates, so
        add-remove d; replace 4 d.
        """
        what = "thresholds" if self.lows is None else "intervals"
        return _side_counts(self.width, what, adjacency, domain, domain.replacement)


@dataclass(frozen=True, slots=True)
class Stretch:
    """A public map of records to integers: factor_j (round(x_j / 2^exponent_j) - center_j).

    Factors are from 1 to 64, centers lie in the outer box. Raises ValueError otherwise.
    """

    center: Vector
    exponents: Vector
    factors: Vector

    def __post_init__(self) -> None:
        settle(self, center=checked_center(self.center))
        settle(self, exponents=tuple(map(checked_exponent, self.exponents)))
        settle(self, factors=tuple(whole(f, "factor") for f in self.factors))
        lengths = {len(self.center), len(self.exponents), len(self.factors)}
        if len(lengths) > 1 or not all(1 <= f <= _LARGEST_FACTOR for f in self.factors):
            raise ValueError(
                f"{len(self.center)} centers, {len(self.exponents)} exponents and "
                f"{len(self.factors)} factors; give one of each for a coordinate, and factors "
                f"from 1 to {_LARGEST_FACTOR}."
            )

    def images(self, records: Records) -> Iterator[Integers]:
        """Yield the records' images, in order, some records at a time; below 2^47 in every
        coordinate.
        """
        _check_columns(records, len(self.center))
        center, factors = np.array(self.center, np.int64), np.array(self.factors, np.int64)
        exponents = np.array(self.exponents)
        for block in _blocks(records):
            cells = quantize(block, -OUTER_BOX, OUTER_BOX, exponents)
            cells -= center
            cells *= factors
            yield cells


@dataclass(frozen=True, slots=True)
class NormCounts(VectorQuery):
    """Numbers of records whose norm, after a ``stretch``, is up to each of some increasing edges.

    A record counts at the first edge that its norm does not exceed; beyond the last, in a place
    of its own at the end.
    """

    adds_up = True
    stretch: Stretch
    edges: Vector

    def __post_init__(self) -> None:
        settle(self, edges=tuple(whole(edge, "edge") for edge in self.edges))
        rising = all(low < high for low, high in pairwise((0, *self.edges)))
        if not self.edges or not rising:
            raise ValueError(f"edges = {self.edges}; give positive integers in increasing order.")
        check_word_budget(self.edges[-1], "edges", _LARGEST_EDGE)

    @property
    def width(self) -> int:
        """Number of released integers: one for each edge, and one for what lies beyond."""
        return len(self.edges) + 1

    def largest(self, rows: int) -> int:
        """Return the bound for all records at one edge."""
        return rows

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the counts, shape (width,), decided in integers."""
        squares, counts = np.array(self.edges, np.int64) ** 2, np.zeros(self.width, np.int64)
        for image in self.stretch.images(view.records):
            norms = np.minimum(squared_norms(image), int(squares[-1]) + 1).astype(np.int64)
            counts += np.bincount(np.searchsorted(squares, norms), minlength=self.width)
        return counts

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: a record is in one place, so add-remove 1; replace 2, out of
        one and into another.
        """
        value = 2 if adjacency is Adjacency.REPLACE else 1
        words = f"the numbers of records by {len(self.edges)} public radii about a public center"
        text = Quantity.of(words, "NormCounts")
        columns = len(self.stretch.center)
        return _lemma(text, value, adjacency, domain, columns, "obligation_norm_counts")


@dataclass(frozen=True, slots=True)
class _ClippedSum(VectorQuery):
    """The sum over records of their images under a ``stretch``, each clipped to ``radius``."""

    adds_up = True
    stretch: Stretch
    radius: int
    clipped: bool = field(default=True, kw_only=True)

    def __post_init__(self) -> None:
        settle(self, radius=checked_radius(self.radius))

    @property
    def width(self) -> int:
        """Number of released integers: one for each coordinate."""
        return len(self.stretch.center)

    @abstractmethod
    def clip(self, image: Integers) -> Integers:
        """Move each row to where no coordinate is above the radius, or nearer."""

    def largest(self, rows: int) -> int:
        """Return the radius for each record; without clipping, as far as the outer box goes."""
        return rows * (self.radius if self.clipped else 2 * OUTER_BOX * _LARGEST_FACTOR)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[np.int64]:
        """Return the sum, shape (width,), exact for every n."""
        total: Integers = np.zeros(self.width, object)
        for image in self.stretch.images(view.records):
            total += column_sums(self.clip(image) if self.clipped else image)
        kind = np.int64 if self.largest(len(view)) < WORD else object
        return np.array(total.tolist(), kind)

    def unclipped(self) -> Query:
        """Return the same sum, clamped to the outer box of the grid only."""
        return replace(self, clipped=False)


@dataclass(frozen=True, slots=True)
class ScaledSum(_ClippedSum):
    """The sum over records of their images under a ``stretch``, each clipped to the ball of
    ``radius``.
    """

    def clip(self, image: Integers) -> Integers:
        """Clip each row to the ball."""
        return clip_to_ball(image, self.radius)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity. Add-remove: one vector, R^2; replace: one vector for
        another, (2R)^2.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        value = self.radius**2 * (4 if adjacency is Adjacency.REPLACE else 1)
        words = (
            f"the sum of scaled records clipped to a ball of {self.radius} about a public center"
        )
        text = Quantity.of(words, "ScaledSum", radius=self.radius)
        return _lemma(text, value, adjacency, domain, self.width, "obligation_scaled_sum")


@dataclass(frozen=True, slots=True)
class ScaledMaskedSum(_ClippedSum):
    """The sum of images under a ``stretch`` inside the ball of ``radius``, and ``weight`` times
    their number.

    With weight = isqrt(3 radius^2) the number is free under replace. kept: a public set of images;
    those of the ball that are not in it do not count either. Fewer records that count, each of
    which is told by itself, move the sum no further.
    """

    weight: int
    kept: PublicSet | None = None

    def __post_init__(self) -> None:
        _ClippedSum.__post_init__(self)
        settle(self, weight=whole(self.weight, "weight"))
        if self.weight < 1:
            raise ValueError(
                f"weight = {self.weight}; the number of records inside needs at least 1."
            )
        check_word_budget(self.weight, "weight", 1 << 42)

    @property
    def width(self) -> int:
        """Number of released integers: one for each coordinate, and the number of records."""
        return len(self.stretch.center) + 1

    def clip(self, image: Integers) -> Integers:
        """Return only the rows inside the ball, and in the public set."""
        inside = image[inside_ball(image, self.radius)]
        return inside if self.kept is None else inside[self.kept.holds(inside)]

    def largest(self, rows: int) -> int:
        """Return the radius or the weight for each record."""
        return max(_ClippedSum.largest(self, rows), rows * self.weight)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> NDArray[Any]:
        """Return the sum and the number, shape (width,), exact for every n."""
        total: Integers = np.zeros(self.width - 1, object)
        number = 0
        for image in self.stretch.images(view.records):
            kept = self.clip(image) if self.clipped else image
            total += column_sums(kept)
            number += len(kept)
        kind = np.int64 if self.largest(len(view)) < WORD else object
        return np.array([*total.tolist(), self.weight * number], kind)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity: one record in or out, R^2 + w^2. Replace may also
        move one within: (2R)^2.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        value = self.radius**2 + self.weight**2
        if adjacency is Adjacency.REPLACE:
            value = max(value, 4 * self.radius**2)
        where = "" if self.kept is None else " and in a public set"
        ball = f"a ball of {self.radius} about a public center{where}"
        words = f"the sum of scaled records in {ball}, with {self.weight} times their number"
        text = Quantity.of(words, "ScaledMaskedSum", radius=self.radius, weight=self.weight)
        columns = len(self.stretch.center)
        return _lemma(text, value, adjacency, domain, columns, "obligation_scaled_masked_sum")


@dataclass(frozen=True, slots=True)
class BoxSum(_ClippedSum):
    """The sum over records of their images under a ``stretch``, each coordinate clipped to
    ``radius``.

    norm: the norm of the sensitivity, L1 (for Laplace noise) or squared L2.
    """

    norm: Norm = Norm.SQUARED_L2

    def __post_init__(self) -> None:
        _ClippedSum.__post_init__(self)
        if self.norm not in (Norm.L1, Norm.SQUARED_L2):
            raise ValueError(f"norm = {self.norm}; a clipped sum has one in L1 or squared L2.")

    def clip(self, image: Integers) -> Integers:
        """Clip each row to the box."""
        return clip_to_box(image, self.radius)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: a coordinate moves by R, or by 2R under replace; d of them
        add up, or their squares do.
        """
        if not self.clipped:
            raise ValueError(UNCLIPPED)
        moved = self.radius * (2 if adjacency is Adjacency.REPLACE else 1)
        value = self.width * (moved if self.norm is Norm.L1 else moved**2)
        words = f"the sum of scaled records clipped to {self.radius} in every coordinate"
        text = Quantity.of(words, "BoxSum", radius=self.radius, width=self.width)
        _check_domain(domain, self.width)
        return sensitivity_lemma(
            text,
            norm=self.norm,
            value=value,
            adjacency=adjacency,
            domain=domain,
            obligation="theory/boxes.py:obligation_box_sum",
            source=Source("OURS", "sums of integer vectors in a box"),
        )


def _blocks(records: Records) -> Iterator[Records]:
    step = max(1, _BLOCK // records.shape[1])
    for start in range(0, len(records), step):
        yield records[start : start + step]


def _more_often(mask: NDArray[np.bool_], other: NDArray[np.bool_]) -> NDArray[np.int64]:
    """Count in each column how many more entries of ``mask``, which is overwritten, are true.

    Few columns are counted one by one. Of many, 127 rows at a time are added up in bytes, which
    takes half the time of counting both.
    """
    rows, columns = mask.shape
    if columns <= _FEW_COLUMNS:
        pairs = zip(np.ascontiguousarray(mask.T), np.ascontiguousarray(other.T), strict=True)
        more = [np.count_nonzero(one) - np.count_nonzero(two) for one, two in pairs]
        return np.array(more, np.int64)
    net = np.subtract(mask.view(np.int8), other.view(np.int8), out=mask.view(np.int8))
    whole = rows - rows % _BYTE
    sums = net[:whole].reshape(-1, _BYTE, columns).sum(axis=1, dtype=np.int8)
    rest = net[whole:].sum(axis=0, dtype=np.int8)
    return np.asarray(sums.sum(axis=0, dtype=np.int64) + rest)


def _check_columns(records: Records, columns: int) -> None:
    if records.shape[1] != columns:
        raise ValueError(f"records of {records.shape[1]} columns; the query is about {columns}.")


@lru_cache(maxsize=256)
def _side_counts(
    width: int, what: str, adjacency: Adjacency, domain: Domain, replacement: object
) -> Derivation[Sensitivity]:
    """State the sensitivity of all queries with so many thresholds, or intervals.

    replacement: that of the domain, which equal domains need not share.
    """
    value = width * (4 if adjacency is Adjacency.REPLACE else 1)
    words = f"the numbers of records on either side of {width} public {what}"
    text = Quantity.of(words, "SideCounts", width=width)
    return _lemma(text, value, adjacency, domain, width, "obligation_side_counts")


def _lemma(
    what: Quantity, value: int, adjacency: Adjacency, domain: Domain, columns: int, obligation: str
) -> Derivation[Sensitivity]:
    _check_domain(domain, columns)
    return sensitivity_lemma(
        what,
        norm=Norm.SQUARED_L2,
        value=value,
        adjacency=adjacency,
        domain=domain,
        obligation=f"theory/coordinates.py:{obligation}",
        source=Source("OURS", "coordinates in units of their own"),
    )


def _check_domain(domain: Domain, columns: int) -> None:
    if domain.columns != columns:
        raise ValueError(f"{domain}, for {columns} coordinates; give one coordinate a column.")
