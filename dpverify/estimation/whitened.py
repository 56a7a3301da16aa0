"""Stages on records that a released map whitens: the scale, the mean, clipped second moments, a
check.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_bounds import How
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.covariances import TYPICAL_BEYOND
from dpverify.estimation.normal_fits import (
    best_bound,
    best_mean_bound,
    length_within,
    mean_response,
    per_record,
    quotients,
    rarely_longer,
)
from dpverify.estimation.sign_rounds import RADIUS
from dpverify.estimation.whitening import (
    Maps,
    Numbers,
    Sphere,
    Spheres,
    centered,
    count_of,
    known,
    refined,
    searched,
    thresholds,
    with_lengths,
)
from dpverify.grid.linear import Integers
from dpverify.grid.outer_products import DIAGONAL, FirstMoments, LengthSides, SecondMoments
from dpverify.grid.vector_queries import OneUnit
from dpverify.grid.vectors import Vector
from dpverify.plans import UNIT, Handle, Plan, Released, RoundedGaussian, Stage, Transcripts
from dpverify.plans.search import Search
from dpverify.privacy.numbers import Floats, root_up, to_float

MEAN, MOMENTS = Handle("mean"), Handle("moments")
BEYOND, CERTIFICATE = Handle("beyond"), Handle("certificate")
FINE = 40
"""Bits after the point of second moments in an estimate."""
FAILS = 1e-2
"""Probability that a certificate is wrong, half of it for a record that is clipped."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Whitened:
    """State that the stages share: public numbers, and the maps and counts that were released
    before them.

    adds: whether neighbors add or remove a record. multiplier: of all noise; shares are of its
    mu^2. center, exponent: of the grid, in cells. moved: whether rows move the center. outside:
    the treatment of records outside of the ball. steps: of the search for the scale, and
    step_share: of one of them; long: a deviation in image cells, where it is public.
    moments_shares: of the releases of second moments, by stage. least: the number of records
    below which the mechanism abstains; smaller numbers count as this one wherever something is
    chosen by them.
    """

    adds: bool
    multiplier: Fraction
    center: Vector
    exponent: int | Vector
    moved: bool
    outside: How
    precision: int
    steps: int
    step_share: Fraction
    mean_share: Fraction | None
    moments_shares: Mapping[Handle, Fraction | None]
    rows: Released[Numbers]
    counts: Released[Floats]
    least: int
    long: float | None

    @property
    def d(self) -> int:
        """Number of columns."""
        return len(self.center)

    @property
    def weight(self) -> int:
        """Weight of the number beside the moments: none where the number is public, all that is
        free with a mask.
        """
        if self.adds:
            return RADIUS**2 // 8
        return RADIUS**2 if self.outside == "mask" else 0

    @property
    def moves(self) -> Fraction:
        """Squared sensitivity of moments and number, in fourth powers of the radius."""
        return 1 + Fraction(self.weight, RADIUS**2) ** 2 if self.adds else Fraction(2)

    def moments_noise(self, stage: Handle) -> Fraction:
        """Return the noise of a diagonal entry, in records that fill the ball along it."""
        return self._noise(self.moves, self.moments_shares[stage])

    def side_noise(self, share: Fraction) -> Fraction:
        """Return the noise of a count of one side minus the other, in records; and of a mean,
        in records at the ball's end.
        """
        return self._noise(Fraction(1 if self.adds else 4), share)

    def _noise(self, moves: Fraction, share: Fraction | None) -> Fraction:
        assert share is not None
        return self.multiplier * root_up(moves / share, ROOT_BITS)

    # --- stages ---------------------------------------------------------------------------------

    def search_stages(self) -> Plan:
        """Build the search for the median length of images."""
        search = self._search()
        return tuple(
            self.sides(
                Handle(search.stage(step)), thresholds(self.rows, search, step), self.step_share
            )
            for step in range(self.steps)
        )

    def sides(self, name: Handle, maps: Maps, share: Fraction) -> Stage:
        """Build the stage that counts how many images are longer than a threshold, minus those
        shorter.
        """
        query = LengthSides(**self._images(maps))
        return Stage(name, OneUnit(query, self.side_noise(share)), RoundedGaussian(UNIT))

    def mean_stage(self) -> Stage:
        """Build the stage of the sum of clipped images."""
        maps = with_lengths(self._searched, lambda one: math.sqrt(self.mean_bound(one.octave)))
        query = FirstMoments(**self._images(maps), radius=RADIUS, how="clip", with_reach=True)
        scale = self._noise(Fraction(1 if self.adds else 4), self.mean_share) * RADIUS
        return Stage(MEAN, OneUnit(query, scale), RoundedGaussian(UNIT))

    def moments_stage(self, stage: Handle) -> Stage:
        """Build the stage of second moments about the mean, clipped, or masked where few
        records are for this stage.
        """
        if stage == CERTIFICATE:
            maps = with_lengths(self.fits, self.rare_length)
        else:
            maps = with_lengths(self.spheres, self.radius)
        how: Any = {
            "radius": RADIUS,
            "how": self.outside,
            "with_reach": True,
            "weight": self.weight,
        }
        query = SecondMoments(**self._images(maps), **how)
        scale = self.moments_noise(stage) * DIAGONAL * RADIUS**2
        return Stage(stage, OneUnit(query, scale), RoundedGaussian(UNIT))

    def beyond_stage(self, share: Fraction) -> Stage:
        """Build the stage that counts the records beyond the ellipsoid of the fit that contains
        nine in ten normal ones.
        """
        typical = length_within(self.d, 1 - TYPICAL_BEYOND)
        return self.sides(BEYOND, with_lengths(self.fits, lambda one: typical), share)

    def _images(self, maps: Maps) -> dict[str, Any]:
        """Return the parameters that all queries of images have."""
        own: dict[str, Any] = {"center": self.center, "exponent": self.exponent, "rows": self.d}
        return own | {"maps": maps, "moved": self.moved}

    def _search(self) -> Search:
        return Search("length", 1, self.steps)

    # --- what follows from what was released ----------------------------------------------------

    @cached_property
    def _searched(self) -> Spheres:
        """Maps with the length of a deviation, as searched or as it is known."""
        if self.long is not None:
            return known(self.rows, self.enough, self.long)
        return searched(self.rows, self.enough, self._search(), self.d)

    @cached_property
    def enough(self) -> Released[Floats]:
        """First released number of records, or ``least`` if it is below."""
        return Released(
            self.counts.reads, lambda before: np.maximum(self.counts(before), self.least)
        )

    @cached_property
    def spheres(self) -> Spheres:
        """Maps with the length of a deviation, about the released mean if there is
        one.
        """
        if self.mean_share is None:
            return self._searched
        unit = self.side_noise(self.mean_share) / UNIT

        def mean(before: Transcripts) -> Integers:
            return quotients(in_units(before[MEAN], unit), self.enough(before), self.precision)

        def length(one: Sphere) -> float:
            bound = self.mean_bound(one.octave)
            return math.sqrt(bound) / mean_response(self.d, bound)

        released = Released((*self.counts.reads, MEAN), mean)
        return centered(self._searched, released, self.d, self.precision, length)

    @cached_property
    def fits(self) -> Spheres:
        """Maps after which fits are spheres."""
        spheres = self.spheres
        reads = tuple(dict.fromkeys((*spheres.reads, *self.counts.reads, MOMENTS)))
        seen = Released(reads, lambda before: self.seen(before, MOMENTS, self.precision))
        return refined(
            spheres, seen, self.d, self.precision, (self.outside, self.radius, self.floor)
        )

    def numbers(self, before: Transcripts, stage: Handle) -> tuple[Floats, Floats]:
        """Return how many records there are, and how many of them count in these moments, each
        of shape (size,).
        """
        every = self.counts(before)
        if not self.weight:
            return every, every
        per = self.moments_noise(stage) * RADIUS**2 / (UNIT * self.weight)
        inside = in_units(before[stage][:, -1], per)
        return (every if self.outside == "mask" else inside), inside

    def seen(self, before: Transcripts, stage: Handle, precision: int) -> Integers:
        """Return the second moments over the number of records, in 2^-precision squared radii,
        shape (size, d (d + 1) / 2).

        Half of ``least`` is the least number: noise may take some of it away.
        """
        numbers = np.maximum(self.numbers(before, stage)[1], self.least / 2)
        unit = self.moments_noise(stage) / UNIT
        return per_record(before[stage], self.d, unit, numbers, precision)

    def along_identity(self, trace: float) -> float:
        """Return the factor by which a released number that divides lengthens the noise along
        the identity; trace: of the moments over it.
        """
        return (
            math.hypot(1, trace * RADIUS**2 / (self.weight * math.sqrt(self.d)))
            if self.weight
            else 1.0
        )

    def _mu(self, share: Fraction | None) -> float:
        """Return mu of a release with this share, where predictions are floats."""
        return 1 / min(max(to_float(self._noise(Fraction(1), share)), 1e-100), 1e100)

    # --- lengths in deviations ------------------------------------------------------------------

    def bound(self, octave: int) -> float:
        """Return the squared length at which moments are clipped, for about so many records."""
        moves, weight = (1, 1 / 8) if self.adds else (2, float(self.outside == "mask"))
        mu = self._mu(self.moments_shares[MOMENTS])
        return best_bound(self.d, count_of(octave), mu, moves, self.outside, weight)

    def radius(self, sphere: Sphere) -> float:
        """Return the length at which moments are clipped."""
        return math.sqrt(self.bound(sphere.octave))

    def mean_bound(self, octave: int) -> float:
        """Return the squared length at which records are clipped for their mean."""
        mu = self._mu(self.mean_share)
        return best_mean_bound(self.d, count_of(octave), mu, 1 if self.adds else 2)

    def rare_length(self, sphere: Sphere) -> float:
        """Return the length that normal records rarely have."""
        return rarely_longer(self.d, count_of(sphere.octave), FAILS / 2)

    def floor(self, sphere: Sphere) -> float:
        """Return the value below which an eigenvalue of the moments is taken for noise, in
        squared radii.
        """
        noise = to_float(self.moments_noise(MOMENTS)) * math.sqrt(2 * self.d)
        return noise / (4 * count_of(sphere.octave))
