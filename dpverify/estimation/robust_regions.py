"""Regions in which a robust mean adds up records: balls, slabs and boxes from earlier releases."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from dpverify.estimation.budget_shares import (
    ROOT_BITS,
)
from dpverify.estimation.column_cuts import OPEN, boxes, half_width
from dpverify.estimation.cutting import drawn_response
from dpverify.estimation.directional_cuts import MOST, axes_of, cuts, eigen
from dpverify.estimation.friendly_means import (
    balls,
    within_reach,
)
from dpverify.estimation.inner_cuts import HALF_WIDTH, SHORTER, Look, look, patterns
from dpverify.estimation.long_axes import seen_deviations
from dpverify.estimation.results import UNSURE
from dpverify.estimation.robust_parameters import RobustParameters
from dpverify.grid.inner_moments import InnerMoments, constant_of
from dpverify.grid.linear import Integers
from dpverify.grid.masks import different
from dpverify.grid.region_queries import (
    DIRECTION_BITS,
    PARTS,
    Along,
    MovingMoments,
    part_of,
    reach_of,
)
from dpverify.grid.rounding import rounded_multiples
from dpverify.grid.transcript_queries import Place
from dpverify.plans import (
    Handle,
    Released,
    Transcripts,
)
from dpverify.privacy.numbers import (
    Floats,
    exact,
    root_up,
    to_float,
)
from dpverify.randomness.bits import IntArray
from dpverify.transformations.degree_weights import AGREEMENT
from dpverify.transformations.means import MEAN

MOMENTS_STAGE, HISTOGRAM_STAGE = Handle("moments"), Handle("histogram")
INNER_STAGE, VOTES_STAGE = Handle("inner moments"), Handle("votes")
SIDES_STAGE = Handle("sides")
SIDES = Fraction(3, 2)
"""Distance from the mean, in deviations, of the signed count's edges on either side."""
_EVERY = np.zeros(0, np.intp)  # all draws
_Told = TypeVar("_Told")
_SURPRISE, _MOST_SIGNED = 25, 1 << 30  # the square of twice 5/2 standard deviations
_LARGEST_DEVIATION = 1 << 30  # in parts of a bin; slabs are never that wide


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustRegions(RobustParameters):
    """A robust mean's regions, which follow from what it has released."""

    def _moments(self) -> MovingMoments:
        spread = self._multiplier(1)
        return MovingMoments(self._nearness(), spread, self.adjacency, self._place(), self.drawn)

    def _inner_moments(self) -> InnerMoments:
        return InnerMoments(
            self._nearness(),
            self._multiplier(2),
            self.adjacency,
            self._place(),
            Released((MOMENTS_STAGE,), self._leading),
            self.inner,
            self._inner_reach(),
        )

    # --- what was released decides ----------------------------------------------------------------

    def _place(self) -> Place:
        return Released((AGREEMENT, MEAN), self._places)

    def _last_place(self) -> Place:
        """Return the ball in which records are summed."""
        if not self.inner:
            return self._place()
        return Released((MEAN, *self._slab_stages()), self._last_places)

    def _last_places(self, batch: Transcripts) -> tuple[Integers, Integers]:
        points, radii = self._places(batch)
        return points, self._last_radii(batch, radii)

    def _last_radii(self, batch: Transcripts, radii: Integers) -> Integers:
        """Return the radii of balls in which records are summed, from those of the balls before."""
        if not self.inner:
            return radii
        shorter = np.maximum(1, SHORTER.numerator * radii // SHORTER.denominator)
        several = (self._looked(batch).number >= 2) & ~self._sliced(batch)
        return np.where(several, shorter, radii)

    def _directed(self) -> Along:
        stages = (MOMENTS_STAGE, INNER_STAGE) if self.inner else (MOMENTS_STAGE,)
        return Released(stages if self.directions else (AGREEMENT,), self._along)

    def _slab_stages(self) -> tuple[str, ...]:
        """Return the stages that the slabs follow from."""
        if self.inner:
            return (AGREEMENT, MOMENTS_STAGE, INNER_STAGE, *self._side_stages())
        return (AGREEMENT, HISTOGRAM_STAGE) if self.directions else (AGREEMENT,)

    def _places(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return the centers and radii of the balls, in cells."""
        return self._once(batch, "places", (AGREEMENT, MEAN), lambda: self._placed(batch))

    def _placed(self, batch: Transcripts) -> tuple[Integers, Integers]:
        units, radii, which = self._balls(batch)
        return within_reach(rounded_multiples(batch[MEAN], units, which)), radii

    def _balls(self, batch: Transcripts) -> tuple[list[Fraction], Integers, IntArray]:
        """Return the distinct units of centers in cells, the radii, and which unit each
        draw has.
        """
        return self._once(batch, "balls", (AGREEMENT,), lambda: self._balled(batch))

    def _balled(self, batch: Transcripts) -> tuple[list[Fraction], Integers, IntArray]:
        share = exact(self.record_radius, "record_radius") / exact(self.radius, "radius")
        agreed, which = different(batch[AGREEMENT][:, 0])
        known = balls(self.core(), share, (((AGREEMENT, one),) for one in agreed.tolist()))
        return [unit for unit, _ in known], np.array([r for _, r in known], np.int64)[which], which

    def _along(self, batch: Transcripts) -> Integers:
        """Return the directions, by the released second moments."""
        if not self.directions:
            return np.zeros((len(batch), 0, self.columns()), np.int64)
        if self.inner:
            return self._looked(batch).along
        return self._leading(batch)

    def _leading(self, batch: Transcripts) -> Integers:
        """Return the moments' directions: those of inner moments, or of histograms."""
        count = self.inner or self.directions
        stages = (MOMENTS_STAGE,)
        return self._once(batch, "leading", stages, lambda: axes_of(*self._eigen(batch), count))

    def _eigen(self, batch: Transcripts) -> tuple[Floats, Floats]:
        """Return the moments' eigenvalues and eigenvectors, as ``eigen`` does; of many draws they
        take too much room to be kept."""
        moments, stages = batch[MOMENTS_STAGE], (MOMENTS_STAGE,)
        if len(batch) > 1:
            return eigen(moments, self.columns())
        return self._once(batch, "eigen", stages, lambda: eigen(moments, self.columns()))

    def _once(
        self, batch: Transcripts, what: Hashable, reads: Iterable[str], compute: Callable[[], _Told]
    ) -> _Told:
        """Return what follows from these stages' releases, computed once for a batch."""
        read = (batch.values[name] for name in reads)
        return batch.once((self, *read), what, _EVERY, compute)

    def _looked(self, batch: Transcripts) -> Look:
        """Return what the inner moments show."""
        stages = MOMENTS_STAGE, INNER_STAGE
        return self._once(batch, "looked", stages, lambda: self._look(batch))

    def _look(self, batch: Transcripts) -> Look:
        unit = self._inner_moments().unit() / 2**40
        square = min(math.floor(Fraction(4) ** -self._nearness().exponent / unit), 1 << 60)
        constant = constant_of(self._inner_reach())
        return look(self._leading(batch), batch[INNER_STAGE], self.directions, square, constant)

    def _side_stages(self) -> tuple[str, ...]:
        """Return what tells the side of outliers, beside the inner moments."""
        votes = (VOTES_STAGE,) if self.votes else ()
        return (*votes, SIDES_STAGE) if self.rounds > 1 else ()

    def _side(self, batch: Transcripts) -> Integers:
        """Return 1 or -1 for draws whose rounds are in slices, else 0: on which side of the inner
        moments' first direction outliers are. There one direction shows alone, no column is cut, in
        which the outliers may be, and the signed count is 5/2 standard deviations of its noise and
        sampling from 0.
        """
        if self.rounds == 1:
            return np.zeros(len(batch), np.int64)
        stages = self._slab_stages()[1:]
        return self._once(batch, "side", stages, lambda: self._side_of(batch))

    def _side_of(self, batch: Transcripts) -> Integers:
        seen = self._looked(batch)
        count = np.clip(batch[SIDES_STAGE][:, 0], -_MOST_SIGNED, _MOST_SIGNED).astype(np.int64)
        noise = min(math.ceil(_SURPRISE * self._sides_noise() ** 2), 1 << 61)
        told = seen.single & (4 * count**2 > noise + _SURPRISE * seen.records)
        if self.votes:
            told &= (self._box(batch) == OPEN).all(axis=1)
        return np.asarray(np.sign(count) * told)

    def _sliced(self, batch: Transcripts) -> NDArray[np.bool_]:
        """Return for which draws the rounds are in slices."""
        return np.asarray(self._side(batch) != 0)

    def _lead(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return the inner moments' first direction, shape (size, d), and their mean along it, in
        cells times 2^12, shape (size,)."""
        seen = self._looked(batch)
        first = patterns(self.directions).index((1, *[0] * (self.directions - 1)))
        return seen.along[:, first], seen.middles[:, first]

    def _about(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return directions and edges of the signed count's slices: the mean, and 3/2 deviations
        on either side."""
        axes, middles = self._lead(batch)
        off = self._deviations(SIDES)
        return axes, middles[:, np.newaxis] + np.array([-off, 0, off])

    def _inner_slabs(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return the slabs' middles and half widths, by the inner moments; none is wider than all
        bins, so that it is a word in cells, too."""
        seen = self._looked(batch)
        radii, which = different(self._last_radii(batch, self._balls(batch)[1]))
        parts = np.array([part_of(int(radius), self.bins) for radius in radii], np.int64)[which]
        edge = self.bins * PARTS // 2
        middles = np.clip(seen.middles // parts[:, np.newaxis], -edge, edge)
        known = [math.floor(HALF_WIDTH * self._deviation(int(radius))) for radius in radii]
        halves = np.minimum(np.array(known, np.int64), 2 * edge)[which][:, np.newaxis]
        cut = seen.cut & ~self._sliced(batch)[:, np.newaxis]
        return middles, np.where(cut, halves, 2 * edge)

    def _deviation(self, radius: int) -> int:
        """Return a deviation in parts of a bin."""
        unit = Fraction(2) ** (DIRECTION_BITS - self._nearness().exponent)
        return min(math.floor(unit / part_of(radius, self.bins)), _LARGEST_DEVIATION)

    def _slabs(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return the slabs' middles and half widths, by the released histograms or moments."""
        if not self.directions:
            return (np.zeros((len(batch), 0), np.int64),) * 2
        if self.inner:
            return self._inner_slabs(batch)
        radii, which = different(self._balls(batch)[1])
        known = [self._deviation(int(radius)) for radius in radii]
        deviation = np.array(known, np.int64)[which]
        counts = batch[HISTOGRAM_STAGE].reshape(-1, self.bins)
        noise, shape = self._histogram_noise(), (len(batch), self.directions)
        own = seen_deviations(counts, np.repeat(deviation, self.directions), noise, self.gamma)
        middles, halves = cuts(counts, own, noise)
        return middles.reshape(shape), halves.reshape(shape)

    def _box(self, batch: Transcripts) -> Integers:
        """Return the half widths of the columns, by the released votes."""
        half = half_width(self._nearness().exponent)
        return boxes(batch[VOTES_STAGE], self._votes_noise(), self.gamma, half)

    def _certified(self, batch: Transcripts, ball: int, last: int, number: float) -> float | None:
        """Compute the certificate. The spec has the proof (certificate)."""
        if not self.directions:
            return None
        largest = float(self._eigen(batch)[0][0, -1])
        room = math.sqrt(2 * self.columns()) + math.sqrt(-2 * math.log(UNSURE))
        if number <= 0:
            return None
        noise = min(to_float(self._moments().unit(ball)), MOST)
        variance = max(0.0, largest / 2.0**40 + room * 1.001) * noise / number
        cells = math.sqrt(float(self.gamma / (1 - self.gamma)) * variance) / self._response(
            ball, last
        )
        with np.errstate(all="ignore"):  # at the ends of the floats: infinity, or the least number
            certificate = float(np.ldexp(cells, self._nearness().exponent))
        return max(certificate, math.ulp(0.0)) if cells else 0.0

    def _cut(self, batch: Transcripts, widths: Integers) -> int:
        """Count the directions and columns that were cut; widths: of the slabs."""
        columns = int((self._box(batch) < OPEN).sum()) if self.votes else 0
        if self.inner:
            return columns + int(self._looked(batch).number[0])
        return columns + int((widths < self.bins * PARTS).sum())

    def _drawn_in(self, ball: int, last: int, drawn: Fraction) -> tuple[float, float] | None:
        """Give ``drawn_response`` for the last ball's radius; None where nobody is drawn in.

        The first ball's radius is that of records and the center's distance from their mean, in
        quadrature.
        """
        if drawn == 1:
            return None
        exponent, own = self._nearness().exponent, exact(self.record_radius, "record_radius")
        cell = Fraction(2) ** exponent
        square = (ball * cell) ** 2 - own**2
        offset = to_float(root_up(max(square, Fraction(0)), ROOT_BITS))
        length, reach = (to_float(own * cell) for own in (last, reach_of(last, drawn)))
        return drawn_response(self.columns(), length, reach, offset)

    def _response(self, ball: int, last: int, drawn: Fraction | None = None) -> float:
        """Give what the mean of normal records that are drawn in is over that of all; 1 where
        nobody is."""
        response = self._drawn_in(ball, last, self.drawn if drawn is None else drawn)
        return 1.0 if response is None else response[0]

    def _back(self, cells: Floats) -> Floats:
        """Convert cells to the data's units."""
        with np.errstate(all="ignore"):
            values = np.ldexp(cells, self._nearness().exponent) * np.array(self.deviations)
        return np.asarray(values)
