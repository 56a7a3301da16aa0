"""Sums of a robust mean: one between slabs, or several rounds in slices across one direction."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

import numpy as np

from dpverify.estimation.directional_cuts import MOST
from dpverify.estimation.friendly_means import bounded_float
from dpverify.estimation.handles import SUM_AND_COUNT
from dpverify.estimation.inner_cuts import patterns
from dpverify.estimation.robust_regions import VOTES_STAGE, RobustRegions
from dpverify.estimation.sliced_means import COUNT, FIRST, Fitted, Rounds, fit, next_edges
from dpverify.grid.linear import Integers
from dpverify.grid.region_queries import DIRECTION_BITS, SlabSum
from dpverify.grid.slice_sums import SliceSum
from dpverify.grid.transcript_queries import MovingSum, weight_of
from dpverify.plans import UNIT, Handle, Released, RoundedGaussian, Stage, Transcripts
from dpverify.privacy.numbers import to_float

_FARTHEST = 1 << 60  # edges are no farther
_MOST_READ = 1e30  # of noise, in what is read of a round


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustRounds(RobustRegions):
    """A robust mean's last stages, and what is read of them."""

    def _last_stages(self) -> tuple[Stage, ...]:
        """Return the stages that release sums: one, or the rounds in slices."""
        if self.rounds == 1:
            return (Stage(SUM_AND_COUNT, self._sum(), RoundedGaussian(UNIT)),)
        rounds = (self._slice_sum(i) for i in range(self.rounds))
        return tuple(
            Stage(name, one, RoundedGaussian(UNIT))
            for name, one in zip(self._round_names(), rounds, strict=True)
        )

    def _sum(self) -> MovingSum:
        shared = self._nearness(), self._last_multiplier(), self.adjacency, self._last_place()
        if not self.directions and not self.votes and self.drawn == 1:
            return MovingSum(*shared)
        box = Released((VOTES_STAGE,), self._box) if self.votes else None
        slabs = Released(self._slab_stages(), self._slabs)
        return SlabSum(*shared, self.bins, self._directed(), slabs, box, self.drawn)

    def _slice_sum(self, round_: int) -> SliceSum:
        """Return the sum in slices of one round."""
        whole = self._sum()
        assert isinstance(whole, SlabSum)
        shared = {part.name: getattr(whole, part.name) for part in fields(whole)}
        return SliceSum(**shared, across=self._across(round_), count=COUNT)

    # --- rounds -----------------------------------------------------------------------------------

    def _round_names(self) -> list[Handle]:
        return [Handle(f"round {i + 1}") for i in range(self.rounds)]

    def _across(self, round_: int) -> Released[tuple[Integers, Integers]]:
        """Return directions and edges of a round's slices, from what was released before."""
        stages = self._last_place().reads
        names = self._round_names()[:round_]
        return Released((*stages, *names), lambda batch: self._slices(batch, round_))

    def _slices(self, batch: Transcripts, round_: int) -> tuple[Integers, Integers]:
        """Return directions and edges of a round's slices: where the inner moments do not show one
        direction alone, all records are in the first slice.
        """
        axes = np.zeros((len(batch), self.columns()), np.int64)
        edges = np.full((len(batch), COUNT - 1), _FARTHEST)
        (rows,) = np.nonzero(self._sliced(batch))
        if len(rows):
            axes[rows], edges[rows] = self._sliced_anew(batch, round_, rows)
        return axes, edges

    def _sliced_anew(
        self, batch: Transcripts, round_: int, rows: Integers
    ) -> tuple[Integers, Integers]:
        """Return directions and edges for these draws, across the direction of the moments first,
        then of the fit to all rounds before."""
        length, cell = 2.0**DIRECTION_BITS, self._nearness().exponent
        seen = self._looked(batch)
        leading = patterns(self.directions).index((1, *[0] * (self.directions - 1)))
        if round_ == 0:
            axes = seen.along[rows, leading]
            middles = np.ldexp(seen.middles[rows, leading] / length, cell)
            places = middles[:, np.newaxis] + np.array(FIRST)
        else:
            fitted = self._fitted(batch, round_, rows)
            axes = np.rint(fitted.along * length).astype(np.int64)
            places = next_edges(fitted, axes / length)
        with np.errstate(over="ignore"):
            cells = np.clip(np.ldexp(places * length, -cell), -float(_FARTHEST), float(_FARTHEST))
        return axes, np.rint(cells).astype(np.int64)

    def _fitted(self, batch: Transcripts, rounds: int, rows: Integers) -> Fitted:
        """Return the fit to so many rounds, for these draws of the batch."""
        read = self._read(batch, rounds, rows)
        return fit(read, read.along[:, 0], to_float(self.gamma))

    def _read(self, batch: Transcripts, rounds: int, rows: Integers) -> Rounds:
        """Return what these rounds released, in deviations; sums over the response of records that
        are drawn in."""
        length, cell = 2.0**DIRECTION_BITS, self._nearness().exponent
        made = [self._slices(batch, i) for i in range(rounds)]
        names = self._round_names()[:rounds]
        width = COUNT, self.columns() + 1
        values = [batch[name][rows].astype(np.float64).reshape(-1, *width) for name in names]
        read = np.clip(np.stack(values, axis=1) / 2.0**40, -_MOST_READ, _MOST_READ)
        _, first, _ = self._balls(batch)
        lengths = np.column_stack([first, self._last_radii(batch, first)])[rows]
        pairs, which = np.unique(lengths, axis=0, return_inverse=True)
        noise, off = (
            np.array(own)[which.ravel()]
            for own in zip(*(self._noises(int(a), int(b)) for a, b in pairs), strict=True)
        )
        with np.errstate(over="ignore"):
            edges = np.ldexp(np.stack([m[1][rows] for m in made], axis=1) / length, cell)
        scale = noise[:, np.newaxis, np.newaxis]
        return Rounds(
            np.stack([m[0][rows] for m in made], axis=1) / length,
            edges,
            read[..., :-1] * scale[..., np.newaxis],
            read[..., -1] * off[:, np.newaxis, np.newaxis],
            noise,
            off,
        )

    def _noises(self, ball: int, radius: int) -> tuple[float, float]:
        """Return the deviations of a round's noise on sums, in deviations of the records and over
        the response, and on numbers."""
        unit = min(to_float(self._sum().unit(radius)), MOST)
        own = math.ldexp(unit, self._nearness().exponent) / self._response(ball, radius)
        return own, unit / weight_of(self._sum().reach(radius))

    def _last_fit(self, transcript: Transcripts) -> tuple[Fitted, float, float]:
        """Return the fit to all rounds of a release, the number of records and its noise."""
        rows = np.zeros(1, np.intp)
        read = self._read(transcript, self.rounds, rows)
        fitted = fit(read, read.along[:, 0], to_float(self.gamma))
        number = max(1.0, float(read.numbers.sum(axis=2).mean()))
        return fitted, number, float(read.off[0]) * math.sqrt(COUNT / self.rounds)

    def _total(self, transcript: Transcripts) -> list[float]:
        """Return the released sum and weighted number, over the noise of one release: of rounds,
        the mean of their first slices."""
        d = self.columns() + 1
        names = self._round_names() if self.rounds > 1 else [SUM_AND_COUNT]
        each = [[bounded_float(v) for v in transcript.numbers(name)[:d]] for name in names]
        return [math.fsum(values) / len(names) / 2.0**40 for values in zip(*each, strict=True)]
