"""Sums over a released region in two slices across a released direction, and a signed count of
records by slices.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from dpverify.grid.linear import Integers
from dpverify.grid.nearness import Nearness
from dpverify.grid.queries import Query
from dpverify.grid.region_queries import SlabSum, drawn_to, fits, in_balls, once_a_batch, shortened
from dpverify.grid.transcript_queries import Place, in_own_unit, placed
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Norm, Sensitivity, Source
from dpverify.privacy.hypotheses import Quantity
from dpverify.privacy.rules import sensitivity_lemma

Across = Released[tuple[Integers, Integers]]
"""Released directions v, shape (size, d), and edges of slices, shape (size, count), in the units of
v . y."""

_SOURCE = Source("OURS", "queries about a released region")


@dataclass(frozen=True, slots=True)
class SliceSum(SlabSum):
    """Sum and number as in ``SlabSum``, of each of two slices of the region one after the other,
    under the same noise.

    A record is in the first slice if v . y is at most the edge, else in the second. lengths: to
    which records are drawn in, and the noise follows that of each draw, in place of ``drawn``.
    """

    across: Across = field(kw_only=True)
    lengths: Released[Integers] = field(kw_only=True)

    @property
    def width(self) -> int:
        """Number of released integers: a sum and a number for each slice."""
        return 2 * (self.nearness.width + 1)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the region, the slices and the lengths follow from."""
        return (*super(SliceSum, self).reads, *self.across.reads, *self.lengths.reads)

    def reach(self, radius: int) -> int:
        """Return the length itself: the noise is asked for by lengths."""
        return radius

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the sums and numbers as exact integers, rounded once. Raises ValueError for
        anything but one edge, and one length of a cell or more, for each draw."""
        points, radii = placed(self.place, self.nearness, before)
        axes, edges = self.across(before)
        lengths = self.lengths(before)
        shapes = edges.shape, axes.shape, lengths.shape
        if shapes != ((len(points), 1), points.shape, radii.shape) or (lengths < 1).any():
            raise ValueError(f"edges, directions and lengths of shapes {shapes}, or no length.")
        d = self.nearness.width
        sums: list[Integers] = [np.zeros((0, 2, d), np.int64)]
        numbers = np.zeros((len(points), 2), np.int64)
        images = view.images(self.nearness)

        def drawn_regions() -> Iterator[tuple[slice, Integers, Integers, Integers]]:
            for rows, moved, chosen in self.regions(images, points, radii, before):
                yield rows, moved, chosen, drawn_to(moved, lengths[rows])

        # other rounds ask for the same, about the same numbers: what gives them may differ by part
        region = (self.bins, self.along(before), *self.slabs(before))
        boxes = () if self.box is None else (self.box(before),)
        asked = (images, points, radii, lengths, *region, *boxes)
        parts = once_a_batch(before, asked, "drawn regions", drawn_regions)
        for rows, moved, chosen, drawn in parts:
            beyond = slices(moved, axes[rows], edges[rows])
            own = np.stack([chosen * (beyond == 0), chosen * beyond], axis=1)
            short = fits(int(radii[rows].max()), chosen)
            sums.append(own @ (drawn if short else drawn.astype(object)))
            numbers[rows] = own.sum(axis=2)
        flat = shortened(np.concatenate(sums)).reshape(-1, d)
        own = self.in_units(flat, numbers.ravel(), np.repeat(lengths, 2), len(view))
        return own.reshape(-1, self.width)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity of a ``MovingSum`` of this width, whatever the slices."""
        return in_own_unit(
            self,
            "SliceSum",
            "the sums and numbers of records in slices of a region, in 2^-40 of {} of their bound",
            adjacency,
            domain,
            obligation="theory/regions.py:obligation_slice_sum",
            source=_SOURCE,
        )


@dataclass(frozen=True, slots=True)
class SignedCount(Query):
    """The number of records of a ball in every other slice, less that in the others: a record up to
    the first edge counts -1, one up to the second edge 1, and so on.
    """

    adds_up = True
    nearness: Nearness
    place: Place
    across: Across

    @property
    def width(self) -> int:
        """One number."""
        return 1

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the balls and the slices follow from."""
        return (*self.place.reads, *self.across.reads)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the signed counts, shape (size, 1)."""
        points, radii = placed(self.place, self.nearness, before)
        axes, edges = self.across(before)
        counts = np.zeros((len(points), 1), np.int64)
        for rows, moved, often in in_balls(view.images(self.nearness), points, radii, before):
            signs = 2 * (slices(moved, axes[rows], edges[rows]) % 2) - 1
            counts[rows, 0] = (signs * often).sum(axis=1)
        return counts

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity: one under add-remove, two under replace; squared L2."""
        if not isinstance(adjacency, Adjacency):
            raise ValueError(f"a signed count about a point has no bound under {adjacency}.")
        return sensitivity_lemma(
            Quantity.of("the signed count of records in slices of a ball", "SignedCount"),
            norm=Norm.SQUARED_L2,
            value=signed_moves(adjacency),
            adjacency=adjacency,
            domain=domain,
            obligation="theory/regions.py:obligation_signed_count",
            source=_SOURCE,
        )


def signed_moves(adjacency: Adjacency) -> int:
    """Return the squared sensitivity: a record counts 1, -1 or 0; a replaced one 2 less at most."""
    return 4 if adjacency is Adjacency.REPLACE else 1


def slices(moved: Integers, axes: Integers, edges: Integers) -> Integers:
    """Return how many edges are below v . y for each record, shape (rows, m)."""
    places = (moved @ axes[..., np.newaxis]).transpose(0, 2, 1)
    return np.asarray((places > edges[..., np.newaxis]).sum(axis=1))
