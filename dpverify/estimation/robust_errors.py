"""Reported errors of the records that a robust mean leaves out, of correlated inliers too."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from dpverify.estimation.column_cuts import OPEN
from dpverify.estimation.correlated_cuts import (
    Inner,
    about_mean,
    along_squares,
    cuts,
    inner_errors,
    most_correlated,
    one_axis,
    spectrum,
    window_error,
)
from dpverify.estimation.cutting import left_out
from dpverify.estimation.directional_cuts import MOST
from dpverify.estimation.inner_cuts import patterns
from dpverify.estimation.robust_rounds import RobustRounds
from dpverify.grid.inner_moments import constant_of
from dpverify.grid.linear import Integers
from dpverify.grid.region_queries import DIRECTION_BITS, OFF_DIAGONAL, PARTS, part_of, reach_of
from dpverify.plans import Transcripts
from dpverify.privacy.numbers import Floats, to_float
from dpverify.transformations.degree_weights import AGREEMENT

_FARTHEST = 1e12  # square of the longest distance from a center that is told apart
_LONGEST = 1e75  # deviations; fourth powers are floats
_SURPRISE = 1.0  # standard deviations by which fewer records may agree than were released


@dataclass(frozen=True, slots=True)
class Left:
    """Records that are left, in deviations: the ball's radius before the last and after, slabs'
    half widths in parts of a bin, axes of slabs and boxes, shape (k, d), and their half widths,
    the number of records, its noise, and the estimate's distance from the center."""

    radii: tuple[float, float]
    widths: Integers
    axes: Floats
    halves: Floats
    number: float
    off: float
    step: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class RobustErrors(RobustRounds):
    """A robust mean's reported error of leaving out records."""

    def _left_out(
        self,
        batch: Transcripts,
        widths: Integers,
        lengths: tuple[int, int],
        count: tuple[float, float],
        step: Floats,
    ) -> Floats:
        """Predict, in cells, what drawing in and leaving out records beyond the ball, the slabs
        and the boxes adds to the error. widths: of the slabs, halves in parts of a bin. lengths:
        the radii of the first ball and of the last one. count: the number of records and its noise.
        """
        exponent = self._nearness().exponent
        cut = widths < self.bins * PARTS
        per = part_of(lengths[1], self.bins) * 2.0**-DIRECTION_BITS
        halves = _length(widths[cut] * per, exponent)
        axes = self._along(batch)[0][cut] * 2.0**-DIRECTION_BITS
        if self.votes:
            box = self._box(batch)[0]
            (named,) = np.nonzero(box < OPEN)
            halves = np.append(halves, _length(box[named].astype(np.float64), exponent))
            axes = np.vstack([axes, np.eye(len(step))[named]])
        with np.errstate(all="ignore"):
            first, last = (float(_length(float(one), exponent)) for one in lengths)
            own = _length(step, exponent)
            left = Left((first, last), widths, axes, halves, *count, own)
            shown = self._by_moments if self.directions else self._by_agreement
            deviation = np.ldexp(shown(batch, lengths, left), -exponent)
            return np.asarray(np.where(np.isnan(deviation), np.inf, deviation))

    def _by_agreement(self, batch: Transcripts, lengths: tuple[int, int], left: Left) -> Floats:
        """Predict it without directions: for uncorrelated inliers, or if that is more, for
        inliers with one correlation of all columns, the largest with which as many records agree
        as were released, up to noise.
        """
        d, step = self.columns(), left.step
        own = self._drawn_in(*lengths, self.drawn)
        plain = left_out(d, left.radii[1], left.halves.tolist(), left.axes, own)
        deviation = plain.deviation(left.number, step)
        if d == 1:
            return deviation
        core = self.core()
        agreed = float(batch[AGREEMENT][0, 0]) + core.shift
        noise = math.hypot(to_float(core.noise.scale), left.off)
        ratio = (agreed - _SURPRISE * noise) / left.number
        inside = min(float(self.record_radius), left.radii[1])
        common = most_correlated(d, float(self.radius), inside, self.full, ratio)
        share, follows, excess = one_axis(d, left.radii[1], common)
        along, across = excess * share / left.number
        long, short = 1 / follows - 1
        square = along / d + across * (1 - 1 / d) + (short * step) ** 2
        square += ((long - short) / d) ** 2 * float(step @ step)
        return np.asarray(np.maximum(deviation, np.sqrt(square)))

    def _by_moments(self, batch: Transcripts, lengths: tuple[int, int], left: Left) -> Floats:
        """Predict it for inliers of the covariance that the released second moments show.

        What is not followed along an eigenvector is the distance of the mean from the ball's
        center; across a slab, that from the slab's middle.
        """
        exponent = self._nearness().exponent
        unit = min(to_float(self._moments().unit(lengths[0])), MOST)
        unit = min(float(np.ldexp(unit, 2 * exponent)), _LONGEST**2)
        values, vectors = (part[0] for part in self._eigen(batch))
        first, last = (
            float(_length(float(reach_of(one, self.drawn)), exponent)) for one in lengths
        )
        values, vectors = about_mean(values / 2.0**40 * unit, vectors, left.step)
        away = min(float(left.step @ left.step), _FARTHEST)
        variances = spectrum(values, unit, left.radii[0], first, away)
        axes = left.axes @ vectors
        kept = cuts(variances, left.radii[1], last, axes, left.halves, away)
        middles = self._middle_errors(batch, lengths[1], variances, vectors, left, kept.share)
        lost, own = 1 - kept.follows, kept.excess * kept.share / left.number
        square, spans = along_squares(own, lost, middles, apart=self.inner > 0)
        moved = vectors @ (lost / kept.follows * (1 - spans) * (left.step @ vectors))
        return np.asarray(np.sqrt(np.square(vectors) @ square + np.square(moved)))

    def _middle_errors(
        self,
        batch: Transcripts,
        last: int,
        variances: Floats,
        vectors: Floats,
        left: Left,
        share: float,
    ) -> list[tuple[Floats, float]]:
        """List the orthogonal directions that are cut, in the eigenvectors' coordinates, and the
        mean square error of their slabs' middles; last: the last ball's radius in cells."""
        cut = left.widths < self.bins * PARTS
        single = [sum(map(abs, one)) == 1 for one in patterns(self.directions)]
        chosen = np.flatnonzero(cut & single if self.inner else cut)
        axes = self._along(batch)[0][chosen] * 2.0**-DIRECTION_BITS @ vectors
        exponent, number = self._nearness().exponent, left.number / share
        per = float(_length(part_of(last, self.bins) * 2.0**-DIRECTION_BITS, exponent))
        own = np.square(axes) @ variances
        if self.inner:
            leading = self._leading(batch)[0] * 2.0**-DIRECTION_BITS @ vectors
            made, step = self._inner(left.radii[0]), left.step @ vectors
            errors = inner_errors(axes, step, variances, leading, made, number)
        else:
            noise, width = float(self._histogram_noise()), per * PARTS
            halves = left.widths[chosen] * per
            errors = [
                window_error(half, float(one), noise, width, number, self.bins)
                for half, one in zip(halves.tolist(), own, strict=True)
            ]
        return list(zip(axes, errors, strict=True))

    def _inner(self, radius: float) -> Inner:
        """Return what inner moments of a ball of this radius are of, in deviations."""
        exponent, reach = self._nearness().exponent, self._inner_reach()
        unit = min(to_float(self._inner_moments().unit()), MOST)
        unit = min(float(np.ldexp(unit, 2 * exponent)), _LONGEST**2)
        own, constant = (
            float(_length(float(one), exponent)) for one in (reach, constant_of(reach))
        )
        return Inner(radius, own, constant, unit / float(OFF_DIAGONAL))


def _length(cells: Any, exponent: int) -> Floats:
    """Return lengths in deviations, from those in cells; within ``_LONGEST``."""
    return np.asarray(np.clip(np.ldexp(cells, exponent), -_LONGEST, _LONGEST))
