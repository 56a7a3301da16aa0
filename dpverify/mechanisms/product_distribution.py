"""``product_distribution``: the probabilities of independent bits, in two stages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated

import numpy as np

from dpverify.estimation.budget_shares import ROOT_BITS
from dpverify.estimation.clip_schedule import in_units
from dpverify.estimation.handles import COUNT
from dpverify.estimation.products import ProductEstimate, weights_for
from dpverify.estimation.whitening import count_of, octaves
from dpverify.grid.joint import least_counted
from dpverify.grid.linear import Integers
from dpverify.grid.masks import different_rows
from dpverify.grid.orthants import BitSums, sign_of
from dpverify.grid.queries import Count
from dpverify.grid.vector_queries import OneUnit
from dpverify.plans import (
    UNIT,
    Abstained,
    Handle,
    Mechanism,
    NoNoise,
    Plan,
    Released,
    RoundedGaussian,
    Stage,
    Transcripts,
)
from dpverify.plans.parameters import Share, probability, whole_from
from dpverify.privacy import Adjacency
from dpverify.privacy.numbers import Exact, Floats, root_up, to_float

COARSE, FINE = Handle("coarse"), Handle("fine")
RADIUS = 1 << 20
_WEIGHT = RADIUS // 4
_MOST_RECORDS = 1e18  # below the largest ``at_least``


@dataclass(frozen=True, slots=True, kw_only=True)
class ProductDistribution(Mechanism[ProductEstimate]):
    """The probabilities of d independent bits, rare ones with less noise than common ones.

    Two stages: noisy sums of all bits tell roughly which are rare; then each bit (or its
    opposite, if that is rarer) is weighted by the inverse root of its probability, records are
    clipped to a ball, and their noisy sum is combined with the first. Where weights do not pay,
    the second stage is like the first, and both together are the Gaussian mechanism.

    Data: shape (n, d), numbers above 1/2 are ones and all others zeros; d up to 10^5. Output:
    ``ProductEstimate``, or ``Abstained`` below ``at_least`` records.
    Claim: GaussianDP(1 / noise_multiplier) up to the grid's rounding, for both adjacencies and
    all data.
    coarse_share: the part of mu^2 for the first stage.
    at_least: abstain below this released (or public) number; by default four times the first
    stage's noise of one sum, so that probabilities are known to 1/4.
    precision: probabilities of the first stage are rounded to 2^-precision before weights follow
    from them.
    Errors: TypeError or ValueError for parameters and for data of another shape.
    Source: OURS; KLSU19 (product distributions), DRS22 (Gaussian accounting).
    """

    d: Annotated[int, whole_from(1, most=10**5)]
    coarse_share: Share = Fraction(1, 4)
    at_least: Annotated[int, whole_from(1, most=1 << 60)] | None = None
    precision: Annotated[int, whole_from(1, most=30)] = 20

    def columns(self) -> int:
        """Return the number of columns."""
        return self.d

    def plan(self) -> Plan:
        """Release the public number under replace, the coarse sums, the fine ones."""
        public = () if self._adds() else (Stage(COUNT, Count(), NoNoise()),)
        reads = (COARSE,) if self._adds() else (COUNT, COARSE)
        plain = Released(
            (), lambda before: (np.zeros((1, self.d), np.int64), np.zeros(len(before), np.intp))
        )
        first = self._sums(COARSE, plain, self.coarse_share)
        second = self._sums(FINE, Released(reads, self.weights), 1 - self.coarse_share)
        return (*public, first, second)

    def estimate(self, transcript: Transcripts) -> ProductEstimate | Abstained:
        """Combine both stages' estimates by the inverse variances of their noise."""
        counts = [float(self._counts(transcript, stage)[0]) for stage in (COARSE, FINE)]
        if not counts[0] >= self.least() <= 2 * counts[1]:
            return Abstained(f"fewer than {self.least()} records, by the released counts")
        part = to_float(self.coarse_share)
        count = part * counts[0] + (1 - part) * counts[1]
        weights = np.array(self.weights(transcript)[0][0], np.float64)
        signs = np.zeros(self.d)
        first, coarse = self._decoded(transcript, COARSE, signs, count)
        second, fine = self._decoded(transcript, FINE, weights, count)
        share = fine**2 / (coarse**2 + fine**2)
        noise = coarse * fine / np.hypot(coarse, fine)
        how = "whitened" if weights.any() else "plain"
        return ProductEstimate.of(share * first + (1 - share) * second, noise, count, how)

    def expected_error(self, n: int) -> float:
        """Predict the root mean square length of the plain noise: an upper end, since there is
        less where many bits are rare.

        Infinite below ``at_least`` records.
        """
        if n < self.least():
            return math.inf
        both = [self._plain_noise(share) for share in (self.coarse_share, 1 - self.coarse_share)]
        return math.sqrt(self.d) * both[0] * both[1] / math.hypot(*both) / n

    def minimum_n(self, *, beta: Exact = "1e-3") -> int:
        """Return the least n for which n records abstain with probability at most ``beta``."""
        if not self._adds():
            return self.least()
        allowed, noise = probability(beta, "beta") / 2, RoundedGaussian(UNIT)
        needed = []
        for share, least in (
            (self.coarse_share, self.least()),
            (1 - self.coarse_share, self._half()),
        ):
            one = UNIT * Fraction(_WEIGHT, RADIUS) / self._noise(share)
            needed.append(least_counted(least, one, lambda k: noise.falls_short(k, allowed)))
        return max(needed)

    def fewest_records(self) -> int:
        """Return ``least()``: fewer records, a public number under replace, are refused."""
        return 0 if self._adds() else self.least()

    def least(self) -> int:
        """Return ``at_least``, or its default: four times the first stage's noise of a sum, at
        most 2^60.
        """
        if self.at_least is not None:
            return self.at_least
        one = Fraction(RADIUS, 2 * sign_of(RADIUS, self.d, self.adjacency))
        return min(max(1, math.ceil(4 * one * self._noise(self.coarse_share))), 1 << 60)

    def weights(self, before: Transcripts) -> tuple[Integers, Integers]:
        """Return the rows of weights of the fine stage, and which one each draw has."""
        counts = np.maximum(self._counts(before, COARSE), self.least())
        one = self._noise(self.coarse_share) / UNIT
        sums = in_units(before[COARSE][:, : self.d], one * self._per_sign())
        shown = np.clip((1 + sums / counts[:, np.newaxis]) / 2, -2, 3)
        coarse = np.rint(np.ldexp(shown, self.precision)).astype(np.int64)
        unique, which = different_rows(np.column_stack([octaves(counts), coarse]), "weights")
        plain, rows = 0.25 if self._adds() else 0.5, []
        for octave, *row in unique:
            noise = self._plain_noise(self.coarse_share) / count_of(octave)
            rows.append(weights_for(tuple(row), self.precision, noise, RADIUS, plain))
        return np.array(rows, np.int64), which

    # --- public numbers -------------------------------------------------------------------------

    def _adds(self) -> bool:
        return self.adjacency is Adjacency.ADD_REMOVE

    def _half(self) -> int:
        return -(-self.least() // 2)

    def _noise(self, share: Fraction) -> Fraction:
        """Return the noise scale of a sum of vectors, in radii."""
        moves = 1 + Fraction(_WEIGHT, RADIUS) ** 2 if self._adds() else Fraction(2)
        return self.noise_multiplier * root_up(moves / share, ROOT_BITS)

    def _per_sign(self) -> Fraction:
        """Return the number of radii in a sign."""
        return Fraction(RADIUS, sign_of(RADIUS, self.d, self.adjacency))

    def _plain_noise(self, share: Fraction) -> float:
        """Return the noise of a probability estimated from signs, times the number of records."""
        return min(to_float(self._noise(share) * self._per_sign() / 2), 1e150)

    def _sums(
        self, name: Handle, weights: Released[tuple[Integers, Integers]], share: Fraction
    ) -> Stage:
        query = BitSums(
            columns=self.d,
            radius=RADIUS,
            adjacency=self.adjacency,
            weights=weights,
            weight=_WEIGHT if self._adds() else 0,
        )
        return Stage(name, OneUnit(query, self._noise(share) * RADIUS), RoundedGaussian(UNIT))

    # --- what was released ----------------------------------------------------------------------

    def _counts(self, before: Transcripts, stage: Handle) -> Floats:
        """Return the number of records that a stage released, or the public one, shape (size,)."""
        if not self._adds():
            return in_units(before[COUNT][:, 0], Fraction(1))
        share = self.coarse_share if stage == COARSE else 1 - self.coarse_share
        one = self._noise(share) * RADIUS / (UNIT * _WEIGHT)
        return np.clip(in_units(before[stage][:, -1], one), -_MOST_RECORDS, _MOST_RECORDS)

    def _decoded(
        self, transcript: Transcripts, stage: Handle, weights: Floats, count: float
    ) -> tuple[Floats, Floats]:
        """Return the probabilities that a stage's sums stand for, and the standard deviation of
        their noise, each of shape (d,).
        """
        share = self.coarse_share if stage == COARSE else 1 - self.coarse_share
        noise = min(max(to_float(self._noise(share)), 1e-100), 1e100) / count
        sums = in_units(transcript[stage][0, : self.d], self._noise(share) / UNIT) / count
        if not weights.any():
            one = to_float(self._per_sign())
            return (1 + np.clip(sums * one, -3, 3)) / 2, np.full(self.d, noise * one / 2)
        own = np.clip(sums * RADIUS / np.abs(weights), -2, 3)
        return np.where(weights < 0, 1 - own, own), noise * RADIUS / np.abs(weights)
