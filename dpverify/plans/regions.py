"""Queries about a public region that the transcript decided: second moments, histograms, sums.

The region is a ball, then slabs across it. Which records are inside is decided by each record and
released numbers alone, in integers, so every bound here holds wherever the region lies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from dpverify.grid import UNIT
from dpverify.grid.linear import WORD, Integers, largest, matmul, second_moments, squared_norms
from dpverify.grid.masks import Counted, each_once
from dpverify.grid.nearness import Nearness
from dpverify.plans.kept import rounded_multiples, unit_sensitivity
from dpverify.plans.mapped import Mapped
from dpverify.plans.moving import MovingQuery, MovingSum, root_above
from dpverify.plans.transcripts import Transcripts
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.numbers import render
from dpverify.privacy.rules import sensitivity_lemma
from dpverify.randomness.bits import IntArray

OFF_DIAGONAL = Fraction(239, 169)
"""The weight of an entry off the diagonal: just below sqrt(2), so that lengths are at most Frobenius'."""
DIRECTION_BITS = 12
"""Directions are vectors of integers, 2^12 long up to rounding."""
PARTS = 256
"""Of a bin, in which slabs are measured."""

Place = Callable[[Transcripts], tuple[Integers, Integers]]
"""From a batch to points (integer cells, shape (size, d)) and radii (size,)."""
Along = Callable[[Transcripts], Integers]
"""From a batch to directions, integers of shape (size, J, d)."""
Slabs = Callable[[Transcripts], tuple[Integers, Integers]]
"""From a batch to the slabs' middles and half widths, in parts of a bin, each of shape (size, J)."""

_SPEC = "theory/regions.py"
_SOURCE = Source("OURS", "queries about a released region")
_FEW = 8  # so many regions are not worth a sort of the records


@dataclass(frozen=True, slots=True)
class MovingMoments(MovingQuery):
    """The sum of y y^T over the records in a ball, y from its center, in 2^-40 of a noise.

    First the diagonal, then the entries above it row by row, times ``OFF_DIAGONAL``. With D = R^2
    (add-remove) or sqrt(2) R^2 (replace), rounded up, the value is round(2^40 entries / (spread D)): noise
    of standard deviation spread D is then 2^40.
    """

    nearness: Nearness
    spread: Fraction
    adjacency: Adjacency
    place: Place

    @property
    def width(self) -> int:
        """d (d + 1) / 2."""
        return self.nearness.width * (self.nearness.width + 1) // 2

    def unit(self, radius: int) -> Fraction:
        """The standard deviation of the noise, in squared cells."""
        return self.spread * root_above((1 + (self.adjacency is Adjacency.REPLACE)) * radius**4)

    def after(self, mapped: Mapped, batch: Transcripts) -> IntArray:
        """Exact integers, one rounding."""
        points, radii = self.place(batch)
        d = self.nearness.width
        above = np.triu_indices(d, 1)
        entries = [_moments(inside) for inside in _in_balls(mapped, points, radii)]
        sums: Integers = np.array(entries, dtype=_kind(entries)).reshape(len(points), d, d)
        found, which = np.unique(radii, return_inverse=True)
        factors = [UNIT / self.unit(int(radius)) for radius in found]
        own = rounded_multiples(sums[:, range(d), range(d)], factors, which)
        if d == 1:
            return own
        weighted = [factor * OFF_DIAGONAL for factor in factors]
        return np.column_stack([own, rounded_multiples(sums[:, *above], weighted, which)])

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """(2^40 / spread + sqrt(width))^2, wherever the ball lies."""
        _require_same(self, self.adjacency, adjacency)
        return sensitivity_lemma(
            f"second moments of records in a ball, in 2^-40 of {render(self.spread)} of their bound",
            norm=Norm.SQUARED_L2,
            value=unit_sensitivity(self.spread, self.width),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_moments",
            source=_SOURCE,
        )


@dataclass(frozen=True, slots=True)
class MovingHistogram(MovingQuery):
    """How many records of a ball have v . y in each bin, for each of ``count`` directions v.

    y: from the center. The bins, ``bins`` (an even number) for each direction, cover the ball whatever
    the data; what is beyond by rounding counts in the last one.
    """

    nearness: Nearness
    bins: int
    count: int
    place: Place
    along: Along

    @property
    def width(self) -> int:
        """bins count."""
        return self.bins * self.count

    def after(self, mapped: Mapped, batch: Transcripts) -> IntArray:
        """Shape (size, width), direction by direction."""
        points, radii = self.place(batch)
        half, found = self.bins // 2, np.zeros((len(points), self.count, self.bins), np.int64)
        regions = zip(_in_balls(mapped, points, radii), self.along(batch), radii, strict=True)
        for row, (inside, directions, radius) in enumerate(regions):
            step = PARTS * part_of(int(radius), self.bins)
            places = matmul(inside.vectors, directions.T) // step
            indices = np.clip(places, -half, half - 1).astype(np.intp) + half
            for j in range(self.count):
                np.add.at(found[row, j], indices[:, j], inside.counts)
        return found.reshape(len(points), self.width)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """count under add-remove, twice as much under replace; squared L2."""
        if not isinstance(adjacency, Adjacency):
            raise ValueError(f"a histogram about a point has no bound under {adjacency}.")
        return sensitivity_lemma(
            f"histograms of records in a ball along {self.count} directions",
            norm=Norm.SQUARED_L2,
            value=histogram_moves(self.count, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_histogram",
            source=_SOURCE,
        )


@dataclass(frozen=True, slots=True)
class SlabSum(MovingSum):
    """As ``MovingSum``, of the records in the ball that are in every slab |v . y - m| <= t too."""

    bins: int
    along: Along
    slabs: Slabs

    def totals(
        self, mapped: Mapped, points: Integers, radii: Integers, batch: Transcripts
    ) -> tuple[Integers, Integers]:
        """Exactly, one region after the other."""
        sums = np.zeros(points.shape, object)
        numbers = np.zeros(len(points), np.int64)
        regions = zip(_in_balls(mapped, points, radii), self.along(batch), radii, strict=True)
        middles, halves = self.slabs(batch)
        for row, (inside, directions, radius) in enumerate(regions):
            part = part_of(int(radius), self.bins)
            off = np.abs(matmul(inside.vectors, directions.T) - middles[row] * part)
            chosen = inside.counts * (off <= halves[row] * part).all(axis=1)
            sums[row] = matmul(chosen[np.newaxis], inside.vectors)[0]
            numbers[row] = chosen.sum()
        return (sums.astype(np.int64) if largest(sums) < WORD else sums), numbers

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """That of a ``MovingSum``, whatever the slabs."""
        _require_same(self, self.adjacency, adjacency)
        return sensitivity_lemma(
            "the sum and number of records in a ball and between slabs, in 2^-40 of "
            f"{render(self.spread)} of its bound",
            norm=Norm.SQUARED_L2,
            value=unit_sensitivity(self.spread, self.width),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_slab_sum",
            source=_SOURCE,
        )


def histogram_moves(count: int, adjacency: Adjacency) -> int:
    """Squared L2: one bin a direction changes by one, or two bins do."""
    return count * (2 if adjacency is Adjacency.REPLACE else 1)


def part_of(radius: int, bins: int) -> int:
    """A part of a bin, in cells times 2^12: the bins cover [-radius, radius]."""
    return max(1, -(-(radius << DIRECTION_BITS) // (bins * PARTS // 2)))


def _in_balls(mapped: Mapped, points: Integers, radii: Integers) -> Iterator[Counted]:
    """For each ball the records inside, from its center, with how often each occurs."""
    data = each_once(mapped.images) if len(points) < _FEW else mapped.distinct
    for point, radius in zip(points, radii.tolist(), strict=True):
        moved = data.vectors - point
        near = (np.abs(moved) <= radius).all(axis=1)  # far ones would need longer words
        moved, counts = moved[near], data.counts[near]
        inside = squared_norms(moved) <= radius**2
        yield Counted(moved[inside], counts[inside])


def _moments(inside: Counted) -> Integers:
    """The sum of y y^T, exactly."""
    rows, counts = inside.vectors, inside.counts
    if largest(counts) <= 1:
        return second_moments(rows)
    wide = largest(rows) * largest(counts) >= WORD
    often = rows.astype(object) if wide else rows
    return matmul((often * counts[:, np.newaxis]).T, rows)


def _kind(entries: list[Integers]) -> type:
    return np.int64 if all(one.dtype == np.int64 for one in entries) else object


def _require_same(query: MovingQuery, own: Adjacency, adjacency: object) -> None:
    if adjacency is not own:
        raise ValueError(
            f"{type(query).__name__} is in units for {own}, not {adjacency}; make it for that one."
        )
