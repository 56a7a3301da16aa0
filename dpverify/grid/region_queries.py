"""Queries about a public region that the transcript decided: second moments, histograms, sums.

The region is a ball, then slabs across it. Which records are inside is decided by each record and
released numbers alone, in integers, so every bound here holds wherever the region lies.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np

from dpverify.grid.image_view import Images
from dpverify.grid.linear import WORD, Integers, largest, matmul
from dpverify.grid.masks import SEVERAL, different, each_once, in_all
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcript_queries import MovingSum, Place, in_own_unit, placed, root_above
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.vector_queries import UNIT
from dpverify.grid.vectors import clip_to_ball
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.rules import sensitivity_lemma

OFF_DIAGONAL = Fraction(239, 169)
"""The weight of an entry off the diagonal: just below sqrt(2), so that lengths are at most
Frobenius'.
"""
DIRECTION_BITS = 12
"""Bits of a direction: directions are vectors of integers, 2^12 long up to rounding."""
PARTS = 256
"""Number of parts of a bin, in which slabs are measured."""

Along = Released[Integers]
"""Released directions, integers of shape (size, J, d)."""
Slabs = Released[tuple[Integers, Integers]]
"""Released middles and half widths of slabs, in parts of a bin, each of shape (size, J)."""
Box = Released[Integers]
"""Released half widths of boxes about the centers, in cells, shape (size, d)."""

WHOLE = Fraction(1)
"""Share of a ball's radius at which no record is drawn in."""

_SPEC = "theory/regions.py"
_SOURCE = Source("OURS", "queries about a released region")
Ball = tuple[slice, Integers, Integers]
"""Rows of balls, records from their centers, and how often each occurs inside."""
_Part = TypeVar("_Part", bound=tuple[Any, ...])
_ALL = np.zeros(0, np.intp)  # of the draws of a batch
_FEW = 8  # up to so many regions are not worth a sort of the records
_LARGE = 1 << 20  # multiplications from which a product of floats is faster
_BLOCK = 1 << 20  # numbers that are held at a time


@dataclass(frozen=True, slots=True)
class MovingMoments(Query):
    """The sum of y y^T over the records in a ball, y from its center, in 2^-40 of a noise.

    First the diagonal, then the entries above it row by row, times ``OFF_DIAGONAL``. drawn: records
    beyond this share of the ball's radius are drawn in to it (``drawn_in``). With D = R^2
    (add-remove) or sqrt(2) R^2 (replace), R what ``reach_of`` gives, rounded up, the value is
    round(2^40 entries / (spread D)): noise of standard deviation spread D is then 2^40.
    """

    nearness: Nearness
    spread: Fraction
    adjacency: Adjacency
    place: Place
    drawn: Fraction = WHOLE

    @property
    def width(self) -> int:
        """Width d (d + 1) / 2."""
        return self.nearness.width * (self.nearness.width + 1) // 2

    def unit(self, radius: int) -> Fraction:
        """Return the standard deviation of the noise, in squared cells."""
        most = reach_of(radius, self.drawn)
        return self.spread * root_above((1 + (self.adjacency is Adjacency.REPLACE)) * most**4)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls follow from."""
        return self.place.reads

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the moments as exact integers, rounded once."""
        points, radii = placed(self.place, self.nearness, before)
        images = view.images(self.nearness)
        d = self.nearness.width
        above = np.triu_indices(d, 1)
        parts: list[Integers] = [np.zeros((0, d, d), np.int64)]
        for rows, moved, often in in_balls(images, points, radii, before):
            short = fits(int(radii[rows].max()) ** 2, often)
            own = drawn_in(moved, radii[rows], self.drawn)
            kept = own if short else own.astype(object)
            parts.append(products((kept * often[..., np.newaxis]).transpose(0, 2, 1), kept))
        sums = shortened(np.concatenate(parts))
        lengths, which = different(radii)
        factors = [UNIT / self.unit(int(radius)) for radius in lengths]
        own = rounded_multiples(sums[:, range(d), range(d)], factors, which)
        if d == 1:
            return own
        weighted = [factor * OFF_DIAGONAL for factor in factors]
        return np.column_stack([own, rounded_multiples(sums[:, *above], weighted, which)])

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the squared sensitivity (2^40 / spread + sqrt(width))^2, wherever the ball
        lies.
        """
        return in_own_unit(
            self,
            "MovingMoments",
            "the second moments of records in a ball, in 2^-40 of {} of their bound",
            adjacency,
            domain,
            obligation=f"{_SPEC}:obligation_moments",
            source=_SOURCE,
        )


@dataclass(frozen=True, slots=True)
class MovingHistogram(Query):
    """Numbers of records of a ball with v . y in each bin, for each of ``count`` directions v.

    y: from the center. The bins, ``bins`` (an even number) for each direction, cover the ball
    whatever the data; what is beyond by rounding counts in the last one.
    """

    adds_up = True
    nearness: Nearness
    bins: int
    count: int
    place: Place
    along: Along

    @property
    def width(self) -> int:
        """Width bins times count."""
        return self.bins * self.count

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls and the directions follow from."""
        return (*self.place.reads, *self.along.reads)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the counts, shape (size, width), direction by direction."""
        points, radii = placed(self.place, self.nearness, before)
        images = view.images(self.nearness)
        half, counts = self.bins // 2, np.zeros((len(points), self.width), np.int64)
        along, parts = _directions(self, before), parts_of(radii, self.bins)
        offsets = self.bins * np.arange(self.count) + half
        for rows, moved, often in in_balls(images, points, radii, before):
            places = (moved @ along[rows].transpose(0, 2, 1)) // (PARTS * parts[rows])
            bins = np.clip(places, -half, half - 1) + offsets
            bins += self.width * np.arange(len(bins))[:, np.newaxis, np.newaxis]
            weights = np.broadcast_to(often[..., np.newaxis], bins.shape)
            size = self.width * len(bins)
            numbers = np.bincount(bins.ravel(), weights.ravel(), size)  # exact: below 2^53
            counts[rows] = numbers.astype(np.int64).reshape(-1, self.width)
        return counts

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: count under add-remove, twice as much under replace; squared
        L2.
        """
        if not isinstance(adjacency, Adjacency):
            raise ValueError(f"a histogram about a point has no bound under {adjacency}.")
        return sensitivity_lemma(
            Quantity.of(
                f"the histograms of records in a ball along {self.count} directions",
                "MovingHistogram",
                count=self.count,
            ),
            norm=Norm.SQUARED_L2,
            value=histogram_moves(self.count, adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation=f"{_SPEC}:obligation_histogram",
            source=_SOURCE,
        )


@dataclass(frozen=True, slots=True)
class SlabSum(MovingSum):
    """Sum as in ``MovingSum``, of the records in the ball that are in every slab |v .
    y - m| <= t, and in a box |y_j| <= b_j if there is one.

    drawn: as for ``MovingMoments``. Whether a record is in slabs and box is decided before it is
    drawn in.
    """

    bins: int
    along: Along
    slabs: Slabs
    box: Box | None = None
    drawn: Fraction = WHOLE

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls, the directions, the slabs and the boxes follow from."""
        own = () if self.box is None else self.box.reads
        return (*self.place.reads, *self.along.reads, *self.slabs.reads, *own)

    def reach(self, radius: int) -> int:
        """Give the length to which records are drawn in."""
        return reach_of(radius, self.drawn)

    def totals(
        self, images: Images, points: Integers, radii: Integers, before: Transcripts
    ) -> tuple[Integers, Integers]:
        """Return the sums and the numbers exactly, one region after the other."""
        sums: list[Integers] = [np.zeros((0, points.shape[1]), np.int64)]
        numbers = np.zeros(len(points), np.int64)
        for rows, moved, chosen in self.regions(images, points, radii, before):
            own = drawn_in(moved, radii[rows], self.drawn)
            kept = own if fits(int(radii[rows].max()), chosen) else own.astype(object)
            sums.append((chosen[:, np.newaxis] @ kept)[:, 0])
            numbers[rows] = chosen.sum(axis=1)
        return shortened(np.concatenate(sums)), numbers

    def regions(
        self, images: Images, points: Integers, radii: Integers, before: Transcripts
    ) -> Iterator[tuple[slice, Integers, Integers]]:
        """Yield regions by their rows, some at a time: records from each center, and how often
        each occurs in the region.
        """
        along, parts = self.along(before), parts_of(radii, self.bins)
        middles, halves = (part[:, np.newaxis] * parts for part in self.slabs(before))
        for rows, moved, often in in_balls(images, points, radii, before):
            off = np.abs(moved @ along[rows].transpose(0, 2, 1) - middles[rows])
            chosen = often * in_all(off <= halves[rows])
            if self.box is not None:
                chosen *= in_all(np.abs(moved) <= self.box(before)[rows, np.newaxis])
            yield rows, moved, chosen

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity of a ``MovingSum``, whatever the slabs and the box."""
        return in_own_unit(
            self,
            "SlabSum",
            "the sum and number of records in a ball and between slabs, in 2^-40 of {} of its "
            "bound",
            adjacency,
            domain,
            obligation=f"{_SPEC}:obligation_slab_sum",
            source=_SOURCE,
        )


def reach_of(radius: int, drawn: Fraction) -> int:
    """Compute the length to which records in a ball are drawn in: this share of its radius, rounded
    down, at least one cell."""
    return max(1, math.floor(drawn * radius))


def drawn_in(moved: Integers, radii: Integers, drawn: Fraction) -> Integers:
    """Draw records in to ``reach_of`` the ball that each is in, as ``drawn_to`` does.

    moved: from the balls' centers, shape (rows, m, d); radii: of shape (rows,).
    """
    if drawn == 1:
        return moved
    unique, which = different(radii)
    lengths = np.array([reach_of(int(radius), drawn) for radius in unique], np.int64)
    return drawn_to(moved, lengths[which])


def drawn_to(moved: Integers, lengths: Integers) -> Integers:
    """Draw the records of each row in to its length, as ``clip_to_ball`` does.

    moved: shape (rows, m, d); lengths: shape (rows,).
    """
    clipped = np.empty_like(moved)
    for length in np.unique(lengths).tolist():
        some = np.flatnonzero(lengths == length)
        own = moved[some]
        flat = own.reshape(own.shape[0] * own.shape[1], own.shape[2])
        clipped[some] = clip_to_ball(flat, length).reshape(own.shape)
    return clipped


def histogram_moves(count: int, adjacency: Adjacency) -> int:
    """Return the squared L2 sensitivity: one bin a direction changes by one, or two bins do."""
    return count * (2 if adjacency is Adjacency.REPLACE else 1)


def part_of(radius: int, bins: int) -> int:
    """Return a part of a bin, in cells times 2^12: the bins cover [-radius, radius]."""
    return max(1, -(-(radius << DIRECTION_BITS) // (bins * PARTS // 2)))


def parts_of(radii: Integers, bins: int) -> Integers:
    """Return ``part_of`` each radius, shape (size, 1, 1)."""
    unique, which = different(radii)
    parts = np.array([part_of(int(radius), bins) for radius in unique], np.int64)
    return parts[which][:, np.newaxis, np.newaxis]


def _directions(query: MovingHistogram, before: Transcripts) -> Integers:
    """Return as many directions as were declared. Raises ValueError for others: a record would
    count in more bins.
    """
    along = query.along(before)
    declared = len(before), query.count, query.nearness.width
    if along.shape != declared:
        raise ValueError(f"directions of shape {along.shape} were released for {declared}.")
    return along


def in_balls(
    images: Images, points: Integers, radii: Integers, before: Transcripts = NOTHING
) -> Iterable[Ball]:
    """Give balls by their rows, some at a time: every record from each center, shape (rows, m,
    d), and how often it occurs inside, shape (rows, m). For a record outside both are 0.

    before: the batch that decided points and radii.
    """
    asked = (images, points, radii)
    return once_a_batch(before, asked, "balls", lambda: _balls(images, points, radii))


def once_a_batch(
    before: Transcripts,
    asked: tuple[Any, ...],
    about: str,
    compute: Callable[[], Iterator[_Part]],
) -> Iterable[_Part]:
    """Give the parts that are computed, which are rows and arrays. Where they are one block of
    numbers, they are computed once for all queries of the batch that ask for them, and read-only.

    asked: what decides them by itself, first the images and the points.
    """
    images, points = asked[:2]
    if len(points) < _FEW or len(points) * images.distinct.vectors.size > _BLOCK:
        return compute()

    def computed() -> list[_Part]:
        parts = list(compute())
        for array in (array for _, *arrays in parts for array in arrays):
            array.flags.writeable = False
        return parts

    return before.once(asked, about, _ALL, computed)


def _balls(images: Images, points: Integers, radii: Integers) -> Iterator[Ball]:
    data = each_once(images.images) if len(points) < _FEW else images.distinct
    most = radii.max(initial=0)
    low, high = points.min(axis=0, initial=0) - most, points.max(axis=0, initial=0) + most
    near = ((data.vectors >= low) & (data.vectors <= high)).all(axis=1)
    vectors, counts = data.vectors[near], data.counts[near]
    step = max(1, _BLOCK // max(1, vectors.size))
    kind = np.int64 if points.shape[1] * int(most) ** 2 < WORD else object
    for start in range(0, len(points), step):
        rows = slice(start, start + step)
        moved = vectors - points[rows, np.newaxis]
        within = radii[rows, np.newaxis]
        inside = in_all(np.abs(moved) <= within[..., np.newaxis])
        if points.shape[1] > 1:  # the box about the ball is more than the ball
            moved *= inside[..., np.newaxis]
            inside &= _squares(moved.astype(kind, copy=False)) <= within.astype(kind) ** 2
        moved *= inside[..., np.newaxis]
        yield rows, moved, inside * counts


def _squares(vectors: Integers) -> Integers:
    """Return the squared length of each vector along the last axis, by coordinate if it has few."""
    if vectors.shape[-1] >= SEVERAL:
        return np.asarray((vectors**2).sum(axis=-1))
    squares: Integers = vectors[..., 0] ** 2
    for j in range(1, vectors.shape[-1]):
        squares += vectors[..., j] ** 2
    return squares


def fits(most: int, often: Integers) -> bool:
    """Return whether sums of so many numbers of at most this size need one word."""
    return most * int(often.sum(axis=1).max(initial=0)) < WORD >> 1


def products(left: Integers, right: Integers) -> Integers:
    """Return the exact products of stacked matrices: for large ones by floats (``matmul``),
    else one by one in words.
    """
    if left[:1].size * right.shape[-1] < _LARGE:
        return np.asarray(left @ right)
    return np.stack([matmul(a, b) for a, b in zip(left, right, strict=True)])


def shortened(values: Integers) -> Integers:
    """Return the values as words where they fit."""
    return values.astype(np.int64) if largest(values) < WORD else values
