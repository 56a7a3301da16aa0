"""Sums over a released region, in slices across a released direction."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dpverify.grid.linear import Integers
from dpverify.grid.region_queries import SlabSum, shortened
from dpverify.grid.transcript_queries import in_own_unit, placed
from dpverify.grid.transcripts import NOTHING, Released, Transcripts
from dpverify.grid.views import View
from dpverify.privacy import Adjacency, Derivation, Domain, Sensitivity, Source

Across = Released[tuple[Integers, Integers]]
"""Released directions v, shape (size, d), and edges of slices, shape (size, count - 1), in the
units of v . y."""


@dataclass(frozen=True, slots=True)
class SliceSum(SlabSum):
    """Sum and number as in ``SlabSum``, of each of ``count`` slices of the region one after the
    other, under the same noise.

    A record is in the slice of the number of edges below v . y. So it is in one of them.
    """

    across: Across = field(kw_only=True)
    count: int = field(kw_only=True)

    @property
    def width(self) -> int:
        """Number of released integers: a sum and a number for each slice."""
        return self.count * (self.nearness.width + 1)

    @property
    def reads(self) -> tuple[str, ...]:
        """Stages that the region and the slices follow from."""
        return (*super(SliceSum, self).reads, *self.across.reads)

    def evaluate(self, view: View, before: Transcripts = NOTHING) -> Integers:
        """Return the sums and numbers as exact integers, rounded once. Raises ValueError for
        another number of edges than was declared."""
        points, radii = placed(self.place, self.nearness, before)
        axes, edges = self.across(before)
        if edges.shape != (len(points), self.count - 1) or axes.shape != points.shape:
            raise ValueError(
                f"edges of shape {edges.shape} across directions of shape {axes.shape} were "
                f"released for {len(points)} draws of {self.count} slices."
            )
        d = self.nearness.width
        sums: list[Integers] = [np.zeros((0, self.count, d), np.int64)]
        numbers = np.zeros((len(points), self.count), np.int64)
        images = view.images(self.nearness)
        for rows, moved, kept, chosen in self.regions(images, points, radii, before):
            places = (moved @ axes[rows][..., np.newaxis]).transpose(0, 2, 1)
            which = (places > edges[rows][..., np.newaxis]).sum(axis=1)
            own = chosen[:, np.newaxis] * (
                which[:, np.newaxis] == np.arange(self.count)[:, np.newaxis]
            )
            sums.append(own @ kept)
            numbers[rows] = own.sum(axis=2)
        flat = shortened(np.concatenate(sums)).reshape(-1, d)
        repeated = np.repeat(radii, self.count)
        return self.in_units(flat, numbers.ravel(), repeated, len(view)).reshape(-1, self.width)

    def sensitivity(self, adjacency: Adjacency, domain: Domain) -> Derivation[Sensitivity]:
        """Return the sensitivity of a ``MovingSum`` of this width, whatever the slices."""
        return in_own_unit(
            self,
            "SliceSum",
            "the sums and numbers of records in slices of a region, in 2^-40 of {} of their bound",
            adjacency,
            domain,
            obligation="theory/regions.py:obligation_slice_sum",
            source=Source("OURS", "queries about a released region"),
        )
