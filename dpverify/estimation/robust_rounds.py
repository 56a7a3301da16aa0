"""Sums of a robust mean: one between slabs, or several rounds in slices across one direction."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields
from fractions import Fraction

import numpy as np

from dpverify.estimation.directional_cuts import MOST
from dpverify.estimation.friendly_means import bounded_float
from dpverify.estimation.handles import SUM_AND_COUNT
from dpverify.estimation.robust_parameters import FARTHEST
from dpverify.estimation.robust_regions import SIDES_STAGE, VOTES_STAGE, RobustRegions
from dpverify.estimation.sliced_means import (
    DRAWN_TO,
    EDGE,
    TURNED,
    Fitted,
    Rounds,
    fit,
    next_edges,
)
from dpverify.grid.linear import Integers
from dpverify.grid.masks import different
from dpverify.grid.region_queries import DIRECTION_BITS, SlabSum, reach_of
from dpverify.grid.slice_sums import SignedCount, SliceSum
from dpverify.grid.transcript_queries import MovingSum, weight_of
from dpverify.plans import UNIT, Handle, Released, RoundedGaussian, Stage, Transcripts
from dpverify.privacy.numbers import to_float

_LENGTH = 1 << DIRECTION_BITS
_MOST_READ = 1e30  # of noise, in what is read of a round
_MOST_NOISE = 1e100  # of a round, in deviations: squares of what is read are finite


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustRounds(RobustRegions):
    """A robust mean's last stages, and what is read of them."""

    def _last_stages(self) -> tuple[Stage, ...]:
        """Return the stages that release sums: one, or the signed count and rounds in slices."""
        if self.rounds == 1:
            return (Stage(SUM_AND_COUNT, self._sum(), RoundedGaussian(UNIT)),)
        stages = (*self._place().reads, *self._slab_stages()[1:3])
        across = Released(stages, self._about)
        sides = SignedCount(self._nearness(), self._place(), across)
        rounds = self._slice_sums()
        return (
            Stage(SIDES_STAGE, sides, RoundedGaussian(self._sides_noise())),
            *(
                Stage(name, one, RoundedGaussian(UNIT))
                for name, one in zip(self._round_names(), rounds, strict=True)
            ),
        )

    def _sum(self) -> MovingSum:
        shared = self._nearness(), self._last_multiplier(), self.adjacency, self._last_place()
        if not self.directions and not self.votes and self.drawn == 1:
            return MovingSum(*shared)
        box = Released((VOTES_STAGE,), self._box) if self.votes else None
        slabs = Released(self._slab_stages(), self._slabs)
        return SlabSum(*shared, self.bins, self._directed(), slabs, box, self.drawn)

    def _slice_sums(self) -> list[SliceSum]:
        """Return the sum in slices of each round. All ask the same objects for their region, so
        that a batch computes it once."""
        whole, stages = self._sum(), self._last_place().reads
        assert isinstance(whole, SlabSum)
        shared = {part.name: getattr(whole, part.name) for part in fields(whole)}
        shared["lengths"] = Released(stages, self._lengths)
        names = self._round_names()
        acrosses = (Released((*stages, *names[:i]), _SlicesOf(self, i)) for i in range(self.rounds))
        return [SliceSum(**shared, across=across) for across in acrosses]

    # --- rounds -----------------------------------------------------------------------------------

    def _round_names(self) -> list[Handle]:
        return [Handle(f"round {i + 1}") for i in range(self.rounds)]

    def _drawn_for(self, sliced: int) -> Fraction:
        """Return the share of the radius to which records are drawn in, if any are."""
        return min(self.drawn, DRAWN_TO) if sliced and self.drawn < 1 else self.drawn

    def _lengths(self, batch: Transcripts) -> Integers:
        """Return the lengths to which records are drawn in before they are summed."""
        radii, which = different(self._last_places(batch)[1])
        made = [[reach_of(int(r), self._drawn_for(sliced)) for r in radii] for sliced in (0, 1)]
        return np.array(made, np.int64)[self._sliced(batch).astype(np.int64), which]

    def _slices(self, batch: Transcripts, round_: int) -> tuple[Integers, Integers]:
        """Return directions and edges of a round's slices: where outliers are not on one side of
        one direction, all records are in the first slice.
        """
        stages = (*self._last_place().reads, *self._round_names()[:round_])
        about = f"slices of round {round_}"
        return self._once(batch, about, stages, lambda: self._sliced_anew(batch, round_))

    def _sliced_anew(self, batch: Transcripts, round_: int) -> tuple[Integers, Integers]:
        side = self._side(batch)
        axes = np.zeros((len(batch), self.columns()), np.int64)
        edges = np.full((len(batch), 1), FARTHEST)
        (rows,) = np.nonzero(side)
        if not len(rows):
            return axes, edges
        if round_ == 0:
            along, middles = self._lead(batch)
            axes = along * side[:, np.newaxis]
            edge = self._deviations(EDGE - TURNED * self.gamma)
            edges[rows, 0] = (side * middles)[rows] + edge
            return axes, edges
        fitted = self._fitted(batch, round_, rows)
        axes[rows] = np.rint(fitted.along * _LENGTH).astype(np.int64)
        places = next_edges(fitted, axes[rows] / _LENGTH)
        with np.errstate(over="ignore"):
            cells = np.ldexp(places * _LENGTH, -self._nearness().exponent)
        shown = np.clip(np.nan_to_num(cells), -float(FARTHEST), float(FARTHEST))
        edges[rows, 0] = np.rint(shown).astype(np.int64)
        return axes, edges

    def _fitted(self, batch: Transcripts, rounds: int, rows: Integers) -> Fitted:
        """Return the fit to so many rounds, for these draws of the batch."""
        read = self._read(batch, rounds, rows)
        return fit(read, read.along[:, 0], to_float(self.gamma))

    def _read(self, batch: Transcripts, rounds: int, rows: Integers) -> Rounds:
        """Return what these rounds released, in deviations; sums over the response of records that
        are drawn in."""
        cell, width = self._nearness().exponent, self.columns() + 1
        made = [self._slices(batch, i) for i in range(rounds)]
        names = self._round_names()[:rounds]
        values = [batch[name][rows].astype(np.float64).reshape(-1, 2, width) for name in names]
        read = np.clip(np.stack(values, axis=1) / 2.0**40, -_MOST_READ, _MOST_READ)
        _, first, _ = self._balls(batch)
        lengths = np.column_stack([first, self._last_radii(batch, first)])[rows]
        pairs, which = np.unique(lengths, axis=0, return_inverse=True)
        unit = self._slice_sums()[0].unit
        each = [self._noises(unit, int(ball), int(radius)) for ball, radius in pairs]
        noise, off = (np.array(own)[which.ravel()] for own in zip(*each, strict=True))
        with np.errstate(over="ignore"):
            edges = np.ldexp(np.column_stack([m[1][rows] for m in made]) / _LENGTH, cell)
        return Rounds(
            np.stack([m[0][rows] for m in made], axis=1) / _LENGTH,
            edges,
            read[..., :-1] * noise[:, np.newaxis, np.newaxis, np.newaxis],
            read[..., -1] * off[:, np.newaxis, np.newaxis],
            noise,
        )

    def _noises(
        self, unit_of: Callable[[int], Fraction], ball: int, radius: int
    ) -> tuple[float, float]:
        """Return the deviations of the noise of a round in slices, on sums in deviations of the
        records and over the response, and on numbers; unit_of: that of a reach, in cells."""
        drawn = self._drawn_for(sliced=True)
        reach = reach_of(radius, drawn)
        unit = min(to_float(unit_of(reach)), MOST)
        response = self._response(ball, radius, drawn)
        with np.errstate(over="ignore"):
            own = float(np.ldexp(unit, self._nearness().exponent)) / response
        return min(own, _MOST_NOISE), unit / weight_of(reach)

    def _last_fit(self, transcript: Transcripts) -> tuple[Fitted, float, float]:
        """Return the fit to all rounds of a release, the number of records and its noise."""
        read = self._read(transcript, self.rounds, np.zeros(1, np.intp))
        fitted = fit(read, read.along[:, 0], to_float(self.gamma))
        number = max(1.0, float(read.numbers.sum(axis=2).mean()))
        off = self._noises(self._slice_sums()[0].unit, *self._radii(transcript))[1]
        return fitted, number, off * math.sqrt(2 / self.rounds)

    def _radii(self, transcript: Transcripts) -> tuple[int, int]:
        """Return the radii of the first ball and of the last."""
        _, first, _ = self._balls(transcript)
        return int(first[0]), int(self._last_radii(transcript, first)[0])

    def _total(self, transcript: Transcripts) -> list[float]:
        """Return the released sum and weighted number, over the noise of one release: of rounds,
        the mean of their first slices."""
        d = self.columns() + 1
        names = self._round_names() if self.rounds > 1 else [SUM_AND_COUNT]
        each = [[bounded_float(v) for v in transcript.numbers(name)[:d]] for name in names]
        return [math.fsum(values) / len(names) / 2.0**40 for values in zip(*each, strict=True)]


@dataclass(frozen=True, slots=True)
class _SlicesOf:
    """Slices of one round, from a batch; equal for the same round of an equal mechanism."""

    mechanism: RobustRounds
    round_: int

    def __call__(self, batch: Transcripts) -> tuple[Integers, Integers]:
        """Return directions and edges."""
        return self.mechanism._slices(batch, self.round_)
